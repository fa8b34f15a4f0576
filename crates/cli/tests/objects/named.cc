// Blocks that are variables, fields, and what a wrapper returns.
#include <cstdlib>
#include <vector>

enum { BYTES = 1 << 18 };

struct Grid {
    char *cells;
    Grid() {
        this->cells = (char *)malloc(BYTES); // EXPECT cells
    }
};

__attribute__((noinline)) static char *checked(size_t bytes) {
    char *block = static_cast<char *>(malloc(bytes)); // EXPECT wrapped
    if (!block) abort();
    return block;
}

static void use(volatile char *bytes) {
    for (int i = 0; i < BYTES; i++) bytes[i] = 1;
}

int main() {
    float *b = (float *)malloc(BYTES); // EXPECT b
    Grid grid;
    char *by_wrapper = checked(BYTES);
    char *rows[4];
    for (int i = 0; i < 4; i++) rows[i] = new char[BYTES]; // EXPECT rows
    std::vector<char> values(BYTES); // EXPECT values
    char *aligned;
    if (posix_memalign((void **)&aligned, 64, BYTES)) return 1; // EXPECT aligned
    use((char *)b);
    use(grid.cells);
    use(by_wrapper);
    use(values.data());
    use(aligned);
    for (char *row : rows) use(row);
    use((char *)malloc(BYTES)); // EXPECT nameless
}
