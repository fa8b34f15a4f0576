    // Elements of gathers and scatters: see `gathers.rs`. rax: the address without the index; rcx: the descriptor;
    // rdi: log2 of the scale; rsi: a bit for each element that is left.
    .globl numalens_count_elements
numalens_count_elements:
    NUMALENS_BEGIN 16
    movzx esi, word ptr [rcx + {e_lanes}]
    and rsi, gs:[{arguments} + 8]
    movzx edi, byte ptr [rcx + {e_scale}]
81:
    tzcnt rdx, rsi
    jc 84f
    movsxd r9, dword ptr gs:[rdx*4 + {vector}]
    cmp byte ptr [rcx + {e_wide}], 0
    je 82f
    mov r9, gs:[rdx*8 + {vector}]
82:
    shlx r9, r9, rdi
    add r9, rax
    shr r9, 12
    mov rdx, r9
    shr rdx, 35
    jne 83f
    add r9, gs:[{shadow}]
    // Once, as others change it at any time.
    mov r9, [r9*8]
    mov edx, r9d
    cmp edx, [rcx + {e_least}]
    jb 83f
    mov r8d, [rcx + {e_row}]
    add r8, rdx
    inc qword ptr gs:[r8]
    shr r9, 32
    add r9, [rcx + {e_counter}]
    inc qword ptr gs:[r9]
    blsr rsi, rsi
    jmp 81b
83:
    // A page that is not known, or that a scatter would be the first to write: this element and all that are left.
    mov gs:[{arguments} + 8], rsi
    mov eax, [rcx + {e_what}]
    mov gs:[{count_what}], rax
    mov eax, [rcx + {e_site}]
    mov gs:[{count_sites}], rax
    NUMALENS_GO_ON {count}
84:
    NUMALENS_GO_ON {count_return}
