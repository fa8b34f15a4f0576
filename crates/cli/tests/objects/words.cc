// Small blocks side by side: lists, a hash table, a map, blocks that are freed and others in their place, threads. How
// often each is accessed is known. The argument says how many rounds.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <sched.h>
#include <thread>

enum { MANY = 1000, BUCKETS = 256 };

struct Node {
    Node *volatile next;
    volatile long value, more;
};

struct Entry {
    volatile long key, value;
    Entry *volatile next;
};

extern "C" {
volatile int hits, misses;
}
static std::atomic<int> turn;
static volatile long *first[MANY], *second[MANY];

static __attribute__((noinline)) Node *prepend(Node *head, bool other) {
    Node *node;
    if (other) node = (Node *)malloc(40);  // EXPECT other
    else node = (Node *)malloc(24);        // EXPECT list
    node->next = head;
    if (!other) node->value = 1;
    return node;
}

static __attribute__((noinline)) long walk(const Node *node) {
    long sum = 0;
    for (; node; node = node->next) sum += node->value;
    return sum;
}

static __attribute__((noinline)) void insert(Entry *volatile *buckets, long key) {
    Entry *entry = (Entry *)malloc(sizeof(Entry));  // EXPECT entry
    entry->key = key;
    entry->value = key * key;
    entry->next = buckets[key % BUCKETS];
    buckets[key % BUCKETS] = entry;
}

static __attribute__((noinline)) long look_up(Entry *volatile *buckets, long key) {
    Entry *entry = buckets[key % BUCKETS];
    while (entry->key != key) entry = entry->next;
    return entry->value;
}

static long compared;
struct Key {
    int number;
    bool operator<(const Key &other) const {
        compared++;
        return number < other.number;
    }
};

template <class T> struct Mine {
    using value_type = T;
    Mine() = default;
    template <class U> Mine(const Mine<U> &) {}
    T *allocate(size_t n) {
        return (T *)malloc(n * sizeof(T));  // EXPECT tree
    }
    void deallocate(T *p, size_t) { free(p); }
    bool operator==(const Mine &) const { return true; }
    bool operator!=(const Mine &) const { return false; }
};
using Map = std::map<Key, int, std::less<Key>, Mine<std::pair<const Key, int>>>;

static __attribute__((noinline)) int find(const Map &map, int key) { return map.find(Key{key}) != map.end(); }

static __attribute__((noinline)) void read_all(volatile long **blocks, int times) {
    for (int i = 0; i < times; i++)
        for (int j = 0; j < MANY; j++) (void)blocks[j][i & 1];
}

static void wait_for(int wanted) {
    while (turn.load() != wanted) sched_yield();
}

// It lives while the blocks that it reads are freed.
static void witness() {
    wait_for(1);
    read_all(first, 2);
    turn = 2;
    wait_for(3);
    read_all(second, 1);
}

int main(int count, char **arguments) {
    int rounds = count > 1 ? atoi(arguments[1]) : 1;
    Node *list = nullptr, *other = nullptr;
    for (int i = 0; i < MANY; i++) {
        list = prepend(list, false);
        other = prepend(other, true);
    }
    Entry *volatile *buckets = (Entry *volatile *)malloc(BUCKETS * sizeof(Entry *));  // EXPECT buckets
    for (int i = 0; i < BUCKETS; i++) buckets[i] = nullptr;
    for (int i = 0; i < MANY; i++) insert(buckets, i);
    Map map;
    for (int i = 0; i < MANY; i++) map[Key{i}] = i;
    long before = compared, sum = 0;
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < 10; i++) sum += walk(list);
        for (int i = 0; i < 3; i++) sum += walk(other);
        for (int i = 0; i < MANY; i++) sum += look_up(buckets, i);
        for (int i = 0; i < MANY; i++) sum += find(map, i);
    }
    long finding = compared - before;
    for (int i = 0; i < 700; i++) hits = 1;
    for (int i = 0; i < 300; i++) (void)misses;
    std::thread lives(witness);
    for (int i = 0; i < MANY; i++) {
        first[i] = (long *)malloc(56);  // EXPECT former
        for (int j = 0; j < 3; j++) first[i][j] = j;
    }
    std::thread(read_all, first, 5).join();
    turn = 1;
    wait_for(2);
    for (int i = 0; i < MANY; i++) free((void *)first[i]);
    for (int i = 0; i < MANY; i++) {
        second[i] = (long *)malloc(56);  // EXPECT latter
        second[i][0] = second[i][1] = i;
    }
    turn = 3;
    lives.join();
    std::thread(read_all, second, 7).join();
    // Grown in their places or elsewhere; what is copied is the allocator's.
    for (int i = 0; i < MANY; i++) {
        volatile long *grown = (long *)realloc((void *)second[i], 120);  // EXPECT grown
        grown[10] = i;
        free((void *)grown);
    }
    printf("%ld %d\n", finding, sum != 0);
}
