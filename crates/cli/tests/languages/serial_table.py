"""A table of bytes that one thread fills, and four threads read a quarter each, so often."""
import sys
import threading

PART = 4 << 20
THREADS = 4


def make(size):
    return bytearray(b"x") * size  # [allocated]


def work(table, turns, found, me):
    for _ in range(turns):
        found[me] += table.find(b"y", me * PART, (me + 1) * PART)  # [read]


def main():
    table = make(PART * THREADS)
    found = [0] * THREADS
    threads = [
        threading.Thread(target=work, args=(table, int(sys.argv[1]), found, me))
        for me in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(sum(found))


main()
