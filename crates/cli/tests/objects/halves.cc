// Blocks of one and a half pages side by side, so that most pages belong to two of them: some are read ten times for
// each three times of the others. The argument says how many rounds.
#include <cstdio>
#include <cstdlib>

enum { MANY = 20, WORDS = 750 };

static __attribute__((noinline)) void read_all(volatile long **blocks, int times) {
    for (int i = 0; i < times; i++)
        for (int j = 0; j < MANY; j++)
            for (int k = 0; k < WORDS; k++) (void)blocks[j][k];
}

int main(int, char **arguments) {
    static volatile long *often[MANY], *seldom[MANY];
    for (int i = 0; i < MANY; i++) {
        often[i] = (long *)malloc(WORDS * sizeof(long));   // EXPECT often
        seldom[i] = (long *)malloc(WORDS * sizeof(long));  // EXPECT seldom
        for (int k = 0; k < WORDS; k++) often[i][k] = seldom[i][k] = k;
    }
    for (int round = atoi(arguments[1]); round > 0; round--) {
        read_all(often, 10);
        read_all(seldom, 3);
    }
}
