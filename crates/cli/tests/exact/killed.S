/* 5000 reads, then kill(getpid(), SIGKILL). */
.globl _start
_start:
    mov $5000, %ecx
1:  mov word(%rip), %rax
    dec %ecx
    jnz 1b
    mov $39, %eax
    syscall
    mov %eax, %edi
    mov $9, %esi
    mov $62, %eax
    syscall
2:  jmp 2b
.data
word: .quad 0
