    // Repeated string instructions: see `strings.rs`. rcx: the descriptor; rdx: how many elements were done; rsi: their
    // bytes. The entry of the page that all of `bytes` from rax on lie in, upwards to where the pointer went, which is
    // in \entry.
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

    // What was done, in the row at eax and the column in esi, and in the counter of the page.
    .macro NUMALENS_COUNT_RUN entry, counter
        add rax, rsi
        add gs:[rax], rdx
        shr \entry, 32
        add gs:[\entry + \counter], rdx
    .endm

    .globl numalens_count_string
numalens_count_string:
    NUMALENS_BEGIN 24
    mov qword ptr gs:[{arguments} + 24], 0
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
    NUMALENS_COUNT_RUN r9, 8
92:
    cmp dword ptr [rcx + {s_source}], 0
    je 94f
    mov eax, [rcx + {s_source}]
    mov esi, r8d
    NUMALENS_COUNT_RUN r8, 0
94:
    NUMALENS_GO_ON {count_return}
95:
    NUMALENS_GO_ON {count}
