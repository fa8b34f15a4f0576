// Threads that end as soon as they have freed their blocks, one after the other.
#include <thread>
#include <unistd.h>

enum { THREADS = 20, BLOCKS = 500 };

static long *blocks[BLOCKS];

static void work() {
    for (auto &block : blocks) {
        block = new long[5]; // EXPECT block
        for (int i = 0; i < 5; i++) static_cast<volatile long *>(block)[i] = i;
    }
    for (auto &block : blocks) delete[] block;
}

int main() {
    for (int i = 0; i < THREADS; i++) {
        std::thread(work).join();
        usleep(10000);
    }
}
