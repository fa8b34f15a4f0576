"""A table in shared memory that one process fills, and four processes read a quarter each, so often; with `own`, each
fills a table of its own."""
import mmap
import multiprocessing
import sys
import tempfile

PART = 4 << 20
WORKERS = 4


def mapped(file, size):
    file.truncate(size)
    return mmap.mmap(file.fileno(), size)


def fill(file, size):
    table = mapped(file, size)
    for _ in range(size // PART):
        table.write(b"x" * PART)  # [filled]
    table.close()


def work(name, begin, turns):
    with open(name, "r+b") if name else tempfile.TemporaryFile(dir="/dev/shm") as file:
        if not name:
            fill(file, PART)
        table = mapped(file, PART * WORKERS if name else PART)
        found = 0
        for _ in range(turns):
            found += table.find(b"y", begin, begin + PART)  # [read]
        sys.exit(found != -turns)


def main():
    is_own, turns = sys.argv[1] == "own", int(sys.argv[2])
    with tempfile.NamedTemporaryFile(dir="/dev/shm", prefix="table") as file:
        if not is_own:
            fill(file, PART * WORKERS)
        name = None if is_own else file.name
        context = multiprocessing.get_context("fork")
        workers = [
            context.Process(target=work, args=(name, 0 if is_own else me * PART, turns))
            for me in range(WORKERS)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        print(sum(worker.exitcode for worker in workers))


main()
