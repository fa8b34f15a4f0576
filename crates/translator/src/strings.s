    // Repeated string instructions: see `strings.rs`. rcx: the descriptor; rdx: how many elements were done; rsi: their bytes.
    // The entry of the page that all of `bytes` from rax on lie in, upwards to where the pointer went, which is in \entry.
    .macro NUMALENS_ENTRY_OF_RUN entry
        sub \entry, rax
        cmp \entry, rsi
        jne 95f
        lea \entry, [rax + rsi - 1]
        xor \entry, rax
        shr \entry, 12
        jne 95f
        shr rax, 12
        mov \entry, rax
        shr \entry, 35
        jne 95f
        add rax, gs:[{shadow}]
        mov \entry, [rax*8]
    .endm

    .globl numalens_count_string
numalens_count_string:
    mov gs:[{save}], rax
    mov gs:[{save} + 8], rcx
    mov gs:[{save} + 16], rdx
    mov gs:[{save} + 24], rsi
    mov gs:[{save} + 32], rdi
    mov gs:[{save} + 40], r8
    mov gs:[{save} + 48], r9
    mov rcx, gs:[{arguments} + 24]
    mov qword ptr gs:[{arguments} + 24], 0
    mov rax, [rcx + {s_back}]
    mov gs:[{count_return}], rax
    mov rdx, gs:[{string_before}]
    sub rdx, gs:[{arguments}]
    je 94f
    movzx edi, byte ptr [rcx + {s_size}]
    shlx rsi, rdx, rdi
    cmp dword ptr [rcx + {s_source}], 0
    je 91f
    mov rax, gs:[{string_before} + 8]
    mov r8, gs:[{arguments} + 8]
    NUMALENS_ENTRY_OF_RUN r8
    test r8d, r8d
    je 95f
91:
    cmp dword ptr [rcx + {s_destination}], 0
    je 92f
    mov rax, gs:[{string_before} + 16]
    mov r9, gs:[{arguments} + 16]
    NUMALENS_ENTRY_OF_RUN r9
    cmp r9d, gs:[{read_only}]
    jbe 95f
    mov eax, [rcx + {s_destination}]
    mov esi, r9d
    lea rax, [rax + rsi*8]
    add gs:[rax], rdx
    shr r9, 32
    shl r9, 3
    add r9, gs:[{pages}]
    add gs:[r9 + 8], rdx
92:
    cmp dword ptr [rcx + {s_source}], 0
    je 94f
    mov eax, [rcx + {s_source}]
    mov esi, r8d
    lea rax, [rax + rsi*8]
    add gs:[rax], rdx
    shr r8, 32
    shl r8, 3
    add r8, gs:[{pages}]
    add gs:[r8], rdx
94:
    NUMALENS_GO_ON {count_return}
95:
    NUMALENS_GO_ON {count}
