// A block of 7777 bytes on a path with all that makes unwinding hard; of `step_by_jump` nothing is left where it is a
// jump.
#include <alloca.h>
#include <cstdlib>
#define NI __attribute__((noinline))
static volatile long kept;
NI static void step_leaf() {
    void *block = malloc(7777);
    kept += (long)block;
    free(block);
}
NI static void step_by_jump() { return step_leaf(); }
struct Last {
    NI ~Last() {
        step_by_jump();
        kept++;
    }
};
NI static void step_thrower() {
    Last last;
    throw 1;
}
NI static void step_catcher() {
    try {
        step_thrower();
    } catch (int) {
        kept++;
    }
}
NI static void step_alloca(int bytes) {
    volatile char *room = (volatile char *)alloca(bytes);
    room[0] = 1;
    step_catcher();
    kept += room[0];
}
NI static void step_again(int depth) {
    if (depth) step_again(depth - 1);
    else step_alloca(100);
    kept++;
}
int main() {
    step_again(3);
}
