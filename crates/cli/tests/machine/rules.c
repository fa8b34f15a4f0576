/* Rules of the kernel for policies: pages of a process's own memory go round by their addresses; memory may have
 * holes where a policy is taken away; processes that do not exist are told from those that must be left alone. */
#include <errno.h>
#include <numaif.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

#define PAGES 64
#define AT(n) (memory + (n) * 4096l)

int main(void) {
    unsigned long all = 15, second = 2;
    char *memory = mmap(0, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    set_mempolicy(MPOL_INTERLEAVE, &all, 64);
    int right = 0, status;
    for (int n = 0; n < PAGES; n += 3) {
        *AT(n) = 1;
        void *at = AT(n);
        move_pages(0, 1, &at, 0, &status, 0);
        right += status == (int)((uintptr_t)at >> 12 & 3);
    }
    printf("in their places: %d\n", right);
    set_mempolicy(MPOL_DEFAULT, 0, 0);
    mbind(memory, PAGES * 4096, MPOL_BIND, &second, 64, 0);
    munmap(AT(8), 4096);
    long without = mbind(memory, 16 * 4096, MPOL_DEFAULT, 0, 0, 0);
    int mode[2];
    get_mempolicy(&mode[0], 0, 0, AT(0), MPOL_F_ADDR);
    get_mempolicy(&mode[1], 0, 0, AT(20), MPOL_F_ADDR);
    printf("without a policy: %ld %d %d\n", without, mode[0], mode[1]);
    printf("with one: %ld", mbind(memory, 16 * 4096, MPOL_BIND, &second, 64, 0));
    printf(" %s\n", errno == EFAULT ? "EFAULT" : "?");
    void *at = AT(0);
    long nobody = move_pages(999999999, 1, &at, 0, &status, 0);
    printf("nobody: %ld %s", nobody, errno == ESRCH ? "ESRCH" : "?");
    nobody = migrate_pages(999999999, 64, &all, &second);
    printf(" %ld %s\n", nobody, errno == ESRCH ? "ESRCH" : "?");
    return 0;
}
