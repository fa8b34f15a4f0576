// Two callers of equal frame size that have one parent: 16 blocks are of Buffers, 320 of Tile::init.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#define NI __attribute__((noinline))
struct Block {
    double *values;
    NI Block(int n) {
        values = (double *)malloc(n * 8);
        memset(values, 0, n * 8);
    }
};
struct Four {
    Block *blocks[4];
    NI Four(int n) {
        for (int i = 0; i < 4; i++) blocks[i] = new Block(n);
    }
};
struct Buffers {
    Four *four;
    NI Buffers(int n) {
        four = new Four(n);
        asm volatile("");
    }
};
struct Tile {
    Four *four;
    NI void init(int n) {
        four = new Four(n);
        asm volatile("");
    }
};
static Buffers *buffers[4];
static Tile tiles[80];
NI static void setup(int n) {
    for (int i = 0; i < 4; i++) buffers[i] = new Buffers(n);
    for (int i = 0; i < 80; i++) tiles[i].init(n);
}
static double sum(Four *four) {
    double sum = 0;
    for (int k = 0; k < 4; k++) {
        // Read once: the small objects share their page with a block.
        const double *values = four->blocks[k]->values;
        for (int j = 0; j < 4096; j++) sum += values[j];
    }
    return sum;
}
int main() {
    setup(4096);
    double all = 0;
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 4; i++) all += sum(buffers[i]->four);
        for (int i = 0; i < 80; i++) all += sum(tiles[i].four);
    }
    printf("%g\n", all);
}
