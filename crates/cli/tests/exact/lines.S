# Accesses to 1000 cache lines, which the test adds up.
    .intel_syntax noprefix
    .globl _start
    .bss
    .balign 4096
buffer:
    .skip 65536
    .text
_start:
    lea rbx, [rip + buffer]
    xor ecx, ecx
1:  mov [rbx + rcx * 8], rcx            # 1000 writes, to 125 lines
    inc ecx
    cmp ecx, 1000
    jb 1b
    xor ecx, ecx
    mov rsi, rbx
2:  add eax, [rsi]                      # 1000 reads, each of a line of its own
    add rsi, 64
    inc ecx
    cmp ecx, 1000
    jb 2b
    lea rdi, [rbx + 32768 + 60]
    mov ecx, 100
    rep stosb                           # 100 writes, to 3 lines: 4, 64, 32
    mov rax, [rbx + 999 * 64 + 60]      # across the end of line 999, to which it belongs
    mov edi, 0
    mov eax, 231
    syscall
