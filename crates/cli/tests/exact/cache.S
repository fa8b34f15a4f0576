# Accesses whose misses in a cache of 32 KiB, 8 ways, lines of 64 bytes (64 sets) the test adds up.
    .intel_syntax noprefix
    .globl _start
    .bss
    .balign 4096
narrow:
    .skip 16384
wide:
    .skip 65536
written:
    .skip 4096
    .text
_start:
    mov edx, 8
1:  lea rsi, [rip + narrow]              # 8 times 256 reads of a line each: they fit, so the first 256 miss
    mov ecx, 256
2:  add eax, [rsi]
    add rsi, 64
    dec ecx
    jnz 2b
    dec edx
    jnz 1b
    mov edx, 10
3:  lea rsi, [rip + wide]                # 10 times 16 reads of one set, which has 8 lines: all 160 miss
    mov ecx, 16
4:  add eax, [rsi]
    add rsi, 4096
    dec ecx
    jnz 4b
    dec edx
    jnz 3b
    lea rdi, [rip + written]            # 100 writes of 8 bytes: 13 lines
    mov ecx, 100
5:  mov [rdi], rax
    add rdi, 8
    dec ecx
    jnz 5b
    inc qword ptr [rip + written + 2048]        # a read that misses; its write does not
    mov rax, [rip + written + 3072 + 60]        # across two lines, neither of which is there: one miss
    add eax, [rip + written + 3072 + 64]        # both are now
    cmp eax, 1                                  # valgrind leaves out what is not used: it is zero
    je 5b
    mov edi, 0
    mov eax, 231
    syscall
