"""A table of bytes that one thread fills, and four threads read a quarter each, so often; with `own`, each fills a table
of its own."""
import sys
import threading

PART = 4 << 20
THREADS = 4


def make(size):
    return bytearray(b"x") * size  # [allocated]


def work(table, begin, turns, found, me):
    if table is None:
        table, begin = make(PART), 0
    for _ in range(turns):
        found[me] += table.find(b"y", begin, begin + PART)  # [read]


def main():
    is_own, turns = sys.argv[1] == "own", int(sys.argv[2])
    table = None if is_own else make(PART * THREADS)
    found = [0] * THREADS
    threads = [
        threading.Thread(target=work, args=(table, me * PART, turns, found, me))
        for me in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(sum(found))


main()
