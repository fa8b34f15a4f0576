// C++ operators of every kind, a known number of times: blocks of an allocator that has operators of its own. The
// argument: how often one throws.
#include <cstdio>
#include <cstdlib>
#include <new>

struct Node {
    Node *next;
    long value;
};
struct alignas(256) Aligned {
    long values[64];
};

static long sum;

template <typename T> static void use(T *block, int count) {
    for (int i = 0; i < count; i++) reinterpret_cast<volatile long *>(block)[i] = i;
}

// Before main, and before whatever a preloaded library does there.
static long *early = new long[40000]; // EXPECT before main

int main(int, char **arguments) {
    use(early, 40000);
    delete[] early;

    long *many = new long[100000]; // EXPECT many
    use(many, 100000);
    delete[] many;

    Node *list = nullptr;
    for (int i = 0; i < 3000; i++) {
        list = new Node{list, i}; // EXPECT node
    }
    while (list) {
        Node *next = list->next;
        sum += list->value;
        delete list;
        list = next;
    }

    long *nothrow = new (std::nothrow) long[30000]; // EXPECT nothrow
    use(nothrow, 30000);
    operator delete[](nothrow, std::nothrow);

    Aligned *aligned = new Aligned[20]; // EXPECT aligned
    use(aligned, 64);
    delete[] aligned;

    // What throws leaves nothing behind.
    int thrown = 0;
    volatile size_t bytes = size_t(1) << 60;
    while (thrown < atoi(arguments[1])) {
        try {
            operator delete(operator new(bytes));
        } catch (const std::bad_alloc &) {
            thrown++;
        }
    }

    void *late = operator new(50000); // EXPECT late
    use(static_cast<long *>(late), 6250);
    operator delete(late, size_t(50000));
    printf("%ld %d\n", sum, thrown);
}
