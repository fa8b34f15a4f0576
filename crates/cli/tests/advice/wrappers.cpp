// A matrix allocates and fills its own memory, for whoever wants one: eight lines of `Buffers`, and one of `Halo`.
// Each thread then works on the matrices of one of four `Buffers`, all of which main has made.
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

template <typename T> struct Matrix {
    T *data;
    size_t n;
    __attribute__((noinline)) void allocate()
    {
        data = static_cast<T *>(malloc(n * sizeof(T)));
        for (size_t i = 0; i < n; i++)
            data[i] = T(i);
    }
    __attribute__((noinline)) explicit Matrix(size_t n) : n(n) { allocate(); }
};

struct Buffers {
    Matrix<double> *all[4];
    __attribute__((noinline)) Buffers()
    {
        all[0] = new Matrix<double>(32768); // EXPECT buffers
        all[1] = new Matrix<double>(32768);
        all[2] = new Matrix<double>(32768);
        all[3] = new Matrix<double>(32768);
    }
};

static void work(Buffers *own)
{
    for (int round = 0; round < 40; round++)
        for (Matrix<double> *matrix : own->all)
            for (size_t i = 0; i < matrix->n; i++)
                matrix->data[i] += double(i);
}

int main()
{
    std::vector<Buffers *> all;
    for (int i = 0; i < 4; i++)
        all.push_back(new Buffers);
    Matrix<double> halo(4096);
    std::vector<std::thread> threads;
    for (Buffers *own : all)
        threads.emplace_back(work, own);
    for (std::thread &thread : threads)
        thread.join();
    printf("%g %g\n", all[0]->all[0]->data[1], halo.data[0]);
}
