"""A table of bytes that one thread fills, and four threads read a quarter each, so often."""
import sys
import threading
import zlib

PART = 4 << 20
THREADS = 4


def make(size):
    return bytearray(b"x") * size  # [allocated]


def work(part, turns, sums, me):
    for _ in range(turns):
        sums[me] += zlib.crc32(part)


def main():
    table = memoryview(make(PART * THREADS))
    sums = [0] * THREADS
    parts = [table[me * PART:(me + 1) * PART] for me in range(THREADS)]
    threads = [
        threading.Thread(target=work, args=(parts[me], int(sys.argv[1]), sums, me))
        for me in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(sum(sums))


main()
