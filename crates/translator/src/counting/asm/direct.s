    // A group that is counted by a direct table: see `direct.rs`. rax: the operand; rcx: the descriptor; rdx: the
    // header; r8: the number of the counter that has been added to; rsi: where that is; rdi: where it says what it
    // counts for; r9: that.
    .globl numalens_count_direct
numalens_count_direct:
    NUMALENS_BEGIN 8
    movsxd rdx, dword ptr [rcx + {d_record}]
    mov rsi, gs:[rdx + {t_counters}]
    test rsi, rsi
    je 96f
    mov r8, gs:[{arguments} + 16]
    dec r8
    js 93f
    lea rsi, [rsi + r8*4]
    // One that has not begun has only what the code has just added: this takes it back. Others are for `settle`.
    cmp dword ptr gs:[rsi], 1
    jne 95f
    mov dword ptr gs:[rsi], 0
    mov rdi, gs:[rdx + {t_words}]
    lea rdi, [rdi + r8*8]
    mov r9, rax
    shr r9, 47
    jne 7b
    mov r9, rax
    shr r9, 12
    add r9, gs:[{shadow}]
    // Once, as others change it at any time.
    mov r9, [r9*8]
    cmp r9d, gs:[{read_only}]
    jbe 92f
    mov gs:[rdi], r9
    cmp r8d, gs:[rdx + {t_low}]
    jae 91f
    mov gs:[rdx + {t_low}], r8d
91:
    cmp r8d, gs:[rdx + {t_high}]
    jbe 97f
    mov gs:[rdx + {t_high}], r8d
97:
    // Whoever changes the page now finds the counter; who did before is found here. An exchange, so that neither is
    // put off.
    mov r8d, {t_begun} + 1
    xchg gs:[rsi], r8d
    mov r8, rax
    shr r8, 12
    add r8, gs:[{shadow}]
    cmp r9, [r8*8]
    jne 98f
    NUMALENS_GO_ON {count_return}
98:
    mov dword ptr gs:[rsi], 0
    jmp 7b
92:
    // Not known, or only read: for the first time that is nothing to note.
    cmp qword ptr gs:[rdi], 0
    mov byte ptr gs:[rdi], 1
    je 7b
    jmp 94f
93:
    cmp dword ptr gs:[rdx + {t_base} + 4], {t_nowhere}
    je 96f
94:
    inc dword ptr gs:[rdx + {t_missed}]
    test dword ptr gs:[rdx + {t_missed}], {t_many} - 1
    jne 7b
96:
    mov qword ptr gs:[{arguments} + 16], 0
95:
    mov eax, [rcx + {d_site}]
    mov gs:[{count_sites}], eax
    mov dword ptr gs:[{count_sites} + 4], {of_direct}
    mov qword ptr gs:[{count_what}], {again}
    NUMALENS_GO_ON {count}
