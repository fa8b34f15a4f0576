/* Probes the processor as old code does: sets the flag for alignment checks, jumps, sets it back; and faults on
 * purpose. In memory that can be written, so that its code is compared whenever it is entered. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <signal.h>
#include <ucontext.h>
#include <sys/mman.h>
char b[64];
extern char code[], code_end[], segv[], cont[];
__asm__("code: push %rbp; push %rbx; pushfq; pushfq; pop %rax; mov %rax,%rcx; xor $0x40000,%rax; push %rax; popfq; pushfq; pop %rax; cmp %rcx,%rax; je 1f; mov $3,%eax; mov %eax,(%rdi); push %rcx; popfq; jmp 2f; 1: mov $4,%eax; 2: mov $0x200000,%eax; xor %ecx,%eax; push %rax; popfq; pushfq; pop %rax; cmp %rax,%rcx; jne 3f; nop; 3: xor %esi,%esi; push %rdi; xor %eax,%eax; cpuid; pop %rdi; segv: mov (%rsi),%eax; nop; cont: nop; popfq; pop %rbx; pop %rbp; ret; code_end:");
static char*m;
static void h(int s, siginfo_t*i, void*c){ ucontext_t*u=c; printf("sig %d flags %llx\n",s,u->uc_mcontext.gregs[REG_EFL]&0x240000); if(s==7) _Exit(1); u->uc_mcontext.gregs[REG_RIP]=(long)(m+(cont-code)); }
int main(){ m=mmap(0,4096,7,0x22,-1,0); memcpy(m,code,code_end-code); struct sigaction a={0}; a.sa_sigaction=h; a.sa_flags=SA_SIGINFO; sigaction(11,&a,0); sigaction(7,&a,0); int x[4];
 ((void(*)(int*))m)(x); unsigned long f; __asm__ volatile("pushfq; pop %0":"=r"(f)); printf("%lx\n",f&0x240000); volatile long*p=(void*)(b+1); *p=5; printf("%ld\n",*p); }
