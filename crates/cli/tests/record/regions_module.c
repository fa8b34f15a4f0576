/* Three things, by what is defined: a runtime of one thread that says so (RUNTIME), a module with a region (MODULE),
 * a program that loads modules. */
#include <stdio.h>

#if defined RUNTIME
void GOMP_parallel(void (*body)(void *), void *data, unsigned threads, unsigned flags)
{
    (void)threads, (void)flags;
    puts("the other runtime");
    body(data);
}
#elif defined MODULE
int region(void)
{
    int threads = 0;
#pragma omp parallel num_threads(2)
    __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
    return threads;
}
#else
#include <dlfcn.h>
int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        void *module = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        int (*region)(void) = module ? (int (*)(void))dlsym(module, "region") : NULL;
        if (!region) {
            puts(dlerror());
            return 1;
        }
        printf("%d\n", region());
    }
    return 0;
}
#endif
