/* Jumps, calls and returns to where no code is: a fault of the program's, whatever stands there, with the signal,
 * code and address of the kernel. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>

static sigjmp_buf back;
static void *volatile at;
static volatile int code;

static void fault(int signal, siginfo_t *info, void *context)
{
    at = info->si_addr;
    code = info->si_code;
    siglongjmp(back, signal);
}

static const unsigned long places[] = {
    0, 0x1000, 0x7fffffff, 0x90000000, 0xfffffff2, 0x100000000, 0x140000000, 0x1000000000, 0x500000000000, 0x7ffffffff000,
    0x800000000000, 0x4141414141414141, 0xdeadbeefdeadbeef, 0xfffffff2fffffff2, 0xffffffff80000000,
};

int main(void)
{
    struct sigaction action = { .sa_sigaction = fault, .sa_flags = SA_SIGINFO };
    sigaction(SIGSEGV, &action, 0);
    sigaction(SIGBUS, &action, 0);
    for (unsigned i = 0; i < sizeof places / sizeof *places; i++)
        for (int way = 0; way < 3; way++) {
            int signal = sigsetjmp(back, 1);
            if (!signal) {
                if (way == 0)
                    __asm__ volatile("jmp *%0" : : "r"(places[i]));
                else if (way == 1)
                    __asm__ volatile("call *%0" : : "r"(places[i]) : "memory");
                else
                    __asm__ volatile("push %0\n\tret" : : "r"(places[i]) : "memory");
            }
            printf("%lx, way %d: signal %d, code %d, at %p\n", places[i], way, signal, code, at);
        }
    return 7;
}
