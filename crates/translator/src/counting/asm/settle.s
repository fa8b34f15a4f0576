    .macro NUMALENS_GO_ON to
        mov rax, gs:[{save}]
        mov rcx, gs:[{save} + 8]
        mov rdx, gs:[{save} + 16]
        mov rsi, gs:[{save} + 24]
        mov rdi, gs:[{save} + 32]
        mov r8, gs:[{save} + 40]
        mov r9, gs:[{save} + 48]
        jmp qword ptr gs:[\to]
    .endm
    // The page of the entry in r8: one access of each member.
    .macro NUMALENS_COUNT_PAGE
        mov r9, r8
        shr r9, 32
        movzx edi, byte ptr [rcx + {d_reads}]
        add gs:[r9], rdi
        movzx edi, byte ptr [rcx + {d_writes}]
        add gs:[r9 + 8], rdi
    .endm
    // The same and the row; the record caches nothing.
    .macro NUMALENS_COUNT_EXECUTION
        mov qword ptr gs:[rdx + {page}], 0
        NUMALENS_COUNT_PAGE
        mov r8d, r8d
        mov esi, [rcx + {d_row}]
        add rsi, r8
        inc qword ptr gs:[rsi]
    .endm
    // The record, in the class of the entry in r8 from this execution on.
    .macro NUMALENS_ENTER_CLASS
        mov qword ptr gs:[rdx + {page}], 0
        lea edi, [r8 + 1]
        mov gs:[rdx + {class}], edi
        dec rsi
        mov gs:[rdx + {since}], rsi
        NUMALENS_COUNT_PAGE
        mov r8d, r8d
        mov gs:[rdx + {entry}], r8
        NUMALENS_NOTE_RECORD
    .endm
    // The code can be better: a `RetranslateReason`.
    .macro NUMALENS_TRANSLATE_AGAIN why
        mov qword ptr gs:[{count_what}], {again}
        mov ecx, [rcx + {d_site}]
        mov gs:[{count_sites}], ecx
        mov dword ptr gs:[{count_sites} + 4], \why
        NUMALENS_GO_ON {count}
    .endm
    .macro NUMALENS_NOTE_RECORD
        mov rdi, rdx
        sub rdi, gs:[{last_pages}]
        shr rdi, 12
        add rdi, gs:[{touched}]
        mov byte ptr gs:[rdi], 1
    .endm

    // `at`: where among the arguments the descriptor is. All begin with where control goes on.
    .macro NUMALENS_BEGIN at
        mov gs:[{save}], rax
        mov gs:[{save} + 8], rcx
        mov gs:[{save} + 16], rdx
        mov gs:[{save} + 24], rsi
        mov gs:[{save} + 32], rdi
        mov gs:[{save} + 40], r8
        mov gs:[{save} + 48], r9
        mov rcx, gs:[{arguments} + \at]
        mov rax, [rcx + {d_back}]
        mov gs:[{count_return}], rax
        mov rax, gs:[{arguments}]
    .endm
    // The page number of the member that rdi points to, into r8.
    .macro NUMALENS_PAGE_OF_MEMBER
        movzx r8d, word ptr [rdi]
        shr r8d, 2
        add r8, rax
        shr r8, 12
    .endm

    .globl numalens_settle_last_page, numalens_count_group, numalens_settle_last_page_end
numalens_settle_last_page:
    NUMALENS_BEGIN 8
    mov edx, [rcx + {d_record}]
    // What the record has counted.
    mov r8, gs:[rdx + {entry}]
    mov esi, [rcx + {d_executions}]
    mov rsi, gs:[rsi]
    test r8d, r8d
    je 2f
    lea rdi, [rsi - 1]
    mov qword ptr gs:[rdx + {entry}], 0
    mov r9, gs:[rdx + {since}]
    mov gs:[rdx + {since}], rdi
    sub rdi, r9
    mov r9d, r8d
    mov esi, [rcx + {d_row}]
    add rsi, r9
    add gs:[rsi], rdi
    shr r8, 32
    je 1f
    movzx esi, byte ptr [rcx + {d_reads}]
    imul rsi, rdi
    add gs:[r8], rsi
    movzx esi, byte ptr [rcx + {d_writes}]
    imul rsi, rdi
    add gs:[r8 + 8], rsi
1:
    mov esi, [rcx + {d_executions}]
    mov rsi, gs:[rsi]
2:
    mov rdi, rax
    shr rdi, 12
    movzx r8d, word ptr [rcx + {d_span}]
    add r8, rax
    shr r8, 12
    cmp r8, rdi
    jne 6f
    shr r8, 35
    jne 6f
    add rdi, gs:[{shadow}]
    mov r8, [rdi*8]
    test r8d, r8d
    je 6f
    mov edi, gs:[rdx + {misses}]
    inc edi
    mov r9d, gs:[rdx + {class}]
    cmp r8d, gs:[{read_only}]
    je 10f
11:
    mov gs:[rdx + {misses}], edi
    test r9d, r9d
    jne 4f
    test edi, {often} - 1
    jne 3f
    shl rdi, {share}
    cmp rdi, rsi
    ja 9f
3:
    // The record, on this page from this execution on.
    dec rsi
    mov gs:[rdx + {since}], rsi
    mov gs:[rdx + {entry}], r8
    and rax, -{page_bytes}
    mov gs:[rdx + {page}], rax
    NUMALENS_NOTE_RECORD
    NUMALENS_GO_ON {count_return}
4:
    // Megamorphic: the class is another.
    cmp r9d, {any}
    je 8f
    // The last execution was across the end of a page: that is no other class.
    cmp r9d, {no_class}
    je 12f
    test edi, {often_class} - 1
    jne 5f
    shl rdi, {share}
    cmp rdi, rsi
    jbe 5f
    // From now on each execution is counted by itself, which is reported.
    mov dword ptr gs:[rdx + {class}], {any}
    NUMALENS_COUNT_EXECUTION
    NUMALENS_TRANSLATE_AGAIN {of_class}
8:
    NUMALENS_COUNT_EXECUTION
    NUMALENS_GO_ON {count_return}
10:
    // Reads alone are counted here, each by itself, as a write would not ask for other threads' records. A megamorphic
    // group looks the page up anyway, and one that is here all the time becomes megamorphic; but for one operand at a
    // constant address, which has one page.
    cmp byte ptr [rcx + {d_writes}], 0
    jne 6f
    test r9d, r9d
    jne 11b
    cmp byte ptr [rcx + {d_constant}], 0
    jne 8b
    mov gs:[rdx + {misses}], edi
    test edi, {often_unwritten} - 1
    jne 8b
    shl rdi, {share}
    cmp rdi, rsi
    ja 9f
    jmp 8b
12:
    dec edi
    mov gs:[rdx + {misses}], edi
5:
    // The record, in this class from this execution on.
    NUMALENS_ENTER_CLASS
    NUMALENS_GO_ON {count_return}
9:
    // Megamorphic from now on, which is reported: the code can be better.
    NUMALENS_ENTER_CLASS
    NUMALENS_TRANSLATE_AGAIN {of_page}
6:
    // Across the end of a page, or a page that is not known: the next execution must look.
    mov qword ptr gs:[rdx + {page}], 0
    cmp dword ptr gs:[rdx + {class}], {any}
    je 7f
    cmp dword ptr gs:[rdx + {class}], 0
    je 7f
    mov dword ptr gs:[rdx + {class}], {no_class}
    jmp 7f
numalens_count_group:
    NUMALENS_BEGIN 8
7:
    // Each member by itself; from one on whose page is not known, out of line.
    movzx esi, byte ptr [rcx + {d_members}]
    lea rdi, [rcx + {d_offsets}]
    mov edx, [rcx + {d_first_row}]
73:
    NUMALENS_PAGE_OF_MEMBER
    mov r9, r8
    shr r9, 35
    jne 76f
    add r8, gs:[{shadow}]
    // Once, as others change it at any time.
    mov r8, [r8*8]
    test r8d, r8d
    je 76f
    cmp r8d, gs:[{read_only}]
    jne 72f
    test byte ptr [rdi], 3
    jne 76f
72:
    mov r9, r8
    shr r9, 32
    mov r8d, r8d
    add r8, rdx
    inc qword ptr gs:[r8]
    movzx r8d, byte ptr [rdi]
    and r8d, 3
    cmp r8d, 1
    je 74f
    inc qword ptr gs:[r9]
74:
    test r8d, r8d
    je 75f
    inc qword ptr gs:[r9 + 8]
75:
    add rdx, 8
    add rdi, 2
    dec esi
    jne 73b
    NUMALENS_GO_ON {count_return}
76:
    movzx r8d, byte ptr [rcx + {d_members}]
    sub r8d, esi
    mov gs:[{arguments} + 16], r8
    mov qword ptr gs:[{count_what}], {group}
    NUMALENS_GO_ON {count}
