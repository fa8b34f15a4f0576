/* Accesses whose number is plain to see. No stack is used. */
.globl _start
_start:
    mov $1, %eax                    /* write(1, "hello\n", 6): the kernel's reads are not the program's */
    mov $1, %edi
    lea message(%rip), %rsi
    mov $6, %edx
    syscall

    mov $1000, %ecx                 /* 1000 reads, 1000 writes: load, store */
1:  mov word(%rip), %rax
    add $1, %rax
    mov %rax, word(%rip)
    dec %ecx
    jnz 1b

    mov $1000, %ecx                 /* 1000 reads and writes: read-modify-write, over two pages */
    lea buffer(%rip), %rbx
2:  lock incq (%rbx, %rcx, 8)
    dec %ecx
    jnz 2b

    mov $4096, %ecx                 /* 4096 writes: one for each element */
    lea buffer(%rip), %rdi
    mov $7, %eax
    rep stosb

    mov $4096, %ecx                 /* 4096 reads, 4096 writes */
    lea buffer(%rip), %rsi
    lea other(%rip), %rdi
    rep movsb

    mov $100, %ecx                  /* stops at the 100th element: 100 reads */
    lea scanned(%rip), %rdi
    mov $1000, %ecx
    mov $9, %eax
    repne scasb

    mov $8, %ecx                    /* 8 reads and 8 writes through a register that is an address of 32 bits */
    lea word(%rip), %ebx
3:  addl $1, (%ebx)
    dec %ecx
    jnz 3b

    mov $231, %eax                  /* exit_group(3) */
    mov $3, %edi
    syscall

.data
message: .ascii "hello\n"
.balign 8
word: .quad 0
scanned: .fill 99, 1, 0
    .byte 9
    .fill 900, 1, 0
.bss
.balign 4096
buffer: .space 16384
other: .space 4096
