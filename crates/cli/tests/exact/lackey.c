/* Without a C library, so that nothing but what stands here is counted: recursion, pointers to functions, arrays,
 * string instructions, read-modify-writes. */
static long table[4096], other[4096];
static unsigned seed = 1;

static long up(long x) { return x + 1; }
static long twice(long x) { return 2 * x; }
static long (*volatile functions[2])(long) = {up, twice};

__attribute__((noinline)) static long fibonacci(long n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

__attribute__((noinline)) static void sort(long *at, long count) {
    for (long i = 1; i < count; i++) {
        long value = at[i], j = i;
        for (; j > 0 && at[j - 1] > value; j--) at[j] = at[j - 1];
        at[j] = value;
    }
}

void _start(void) {
    __asm__ volatile("and $-16, %rsp");
    long sum = fibonacci(12);
    for (int i = 0; i < 4096; i++) {
        seed = seed * 1103515245 + 12345;
        table[i] = seed >> 16 & 1023;
        sum += functions[i & 1](i);
    }
    sort(table, 200);
    long count = 4096;
    void *from = table, *to = other;
    __asm__ volatile("rep movsq" : "+c"(count), "+S"(from), "+D"(to)::"memory");
    count = 1000, to = table;
    __asm__ volatile("rep stosb" : "+c"(count), "+D"(to) : "a"(3) : "memory");
    for (int i = 0; i < 4096; i += 3) other[i] += sum, other[i]++;
    __asm__ volatile("syscall" ::"a"(231), "D"(other[7] & 63));
}
