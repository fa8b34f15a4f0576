// Threads that live a moment, one after another and four at a time: each uses its own stack, and the C library hands
// the stacks on.
#include <pthread.h>

enum { ONE_BY_ONE = 200, ROUNDS = 50, AT_ONCE = 4, BYTES = 16384, TIMES = 20 };

// By a pointer: what is accessed relative to the stack pointer is left out.
static __attribute__((noinline)) void fill(volatile char *bytes) {
    for (int time = 0; time < TIMES; time++)
        for (int i = 0; i < BYTES; i++) bytes[i] = (char)time;
}

static void *use_stack(void *argument) {
    volatile char bytes[BYTES];
    fill(bytes);
    return argument;
}

int main() {
    pthread_t threads[AT_ONCE];
    for (int i = 0; i < ONE_BY_ONE; i++) {
        pthread_create(&threads[0], 0, use_stack, 0);
        pthread_join(threads[0], 0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < AT_ONCE; i++) pthread_create(&threads[i], 0, use_stack, 0);
        for (int i = 0; i < AT_ONCE; i++) pthread_join(threads[i], 0);
    }
    return 0;
}
