//! The inline last-page cache: how the accesses of a group ([`crate::plan`]) are counted without looking anything up.
//!
//! Problem: the flat tables cost two increments at addresses that depend on the page, for each access. Most accesses
//! hit the page that the same instruction hit the last time, and all accesses of a segment happen once whenever the
//! segment is executed.
//!
//! Mechanism: each segment has an *execution counter* in the thread, and each group a [`LastPage`] record there: the
//! page that it hit last, and the number of the execution since when. While the page stays the same, only executions
//! are counted:
//!
//! ```text
//!   inc  qword gs:[executions]          once in a segment
//!   lea  r1, [lowest operand]
//!   sub  r1, gs:[record + PAGE]
//!   cmp  r1, 4096 - span
//!   jae  stub                           another page, or across the end of this one
//! back:
//! ```
//! When the page changes, [`settle_last_page`] flushes the record: it adds the executions since then to the flat
//! tables, to the page's counters times the group's reads and writes, and to the group's row of site counters, which
//! stands for one access of each member. Whoever reads the counters does the same with the records that hold a page:
//! what is pending is `executions - SINCE`, for the page and class in `ENTRY`. So nothing has to be done when a thread
//! ends, or is killed (which within some loops costs their last iterations: [`crate::derived`]).
//!
//! A group that changes its page too often is *megamorphic*. Its stub looks its page up and counts it immediately,
//! until its fragment is translated again: then it has a direct table ([`crate::direct`]) and no record; or, where
//! there is none for it, its check does the same as the stub ([`crate::megamorphic`]), and its record holds a class of
//! pages, for the row of site counters alone (the page in `ENTRY` is none). Where the class changes too often as well,
//! both are counted immediately and there is no record. Members of a group that lie across the end of a page are
//! counted one by one. Pages that are not known are left to [`crate::count::settle`].
//!
//! An execution that is left in its middle, by a fault or for a signal, has counted accesses that do not happen:
//! [`crate::count::abandon`] takes them back.
//!
//! The order of the stores in a change lets another process read at any time without counting anything twice: it reads
//! the flat tables first, then `ENTRY`, `SINCE`, the executions, and `SINCE` and `ENTRY` again, and skips a record that
//! changed meanwhile.

use crate::count::{Operation, RetranslateReason};
use crate::direct::{self, DirectTable};
use crate::elements::descriptor as elements;
use crate::emit::{Code, Memory};
use crate::fragment::{Ahead, State};
use crate::plan::Group;
use crate::strings::descriptor as strings;
use crate::translate::Builder;
use crate::{Env, Error, LastPageId, LastPageSlot, Shape, Site, SiteId, context};
use core::arch::global_asm;

/// The last page of a group, as a thread has it: 32 bytes in its table of last pages. Offsets.
#[derive(Debug)]
pub struct LastPage;

impl LastPage {
    /// The address of the page; 0: the next execution must look.
    pub const PAGE: u32 = 0;
    /// The number of the last execution before those that the record stands for.
    pub const SINCE: u32 = 8;
    /// The [`crate::Config::word_of`] the page that the record stands for; 0: none.
    pub const ENTRY: u32 = 16;
    /// How often the page, or the class of a megamorphic group, changed (32 bits).
    pub const MISSES: u32 = 24;
    /// 0: by page; else megamorphic: the column of the record's class plus 1, so that no page without a class is taken
    /// for one, or one of the two below (32 bits).
    pub const CLASS: u32 = 28;
    /// Megamorphic, and the class changes too often.
    pub const ANY_CLASS: u32 = u32::MAX;
    /// Megamorphic, and the record holds no class now.
    pub const NO_CLASS: u32 = 0x7fff_ffff;
    /// In a record that is no group's: below which the induction variable of a loop may grow, as a signed number: see
    /// [`crate::hoisted`].
    pub const PAGE_LIMIT: u32 = 0;
    /// There as well, of a loop whose iterations follow from its induction variable: what is added to that to have the
    /// iterations.
    pub const BIAS: u32 = 8;
    /// What `CLASS` is there.
    pub const IS_PAGE_LIMIT: u32 = 0x7fff_fffe;
    /// Bytes of a record.
    pub const BYTES: u32 = 32;
}

/// What the settling routine must know of a group, in the cold half beside its stub.
pub(crate) mod descriptor {
    /// Where control goes on (64 bits): what descriptors of other routines begin with as well.
    pub const BACK: u32 = 0;
    /// Offsets from GS: of the record (or of the header of the direct table), of the executions, of the group's row of
    /// site counters, of its first member's (32 bits each).
    pub const RECORD: u32 = 8;
    pub const EXECUTIONS: u32 = 12;
    pub const ROW: u32 = 16;
    pub const FIRST_ROW: u32 = 20;
    /// The first of the members' sites (32 bits).
    pub const SITE: u32 = 24;
    /// Bytes from the lowest operand to the highest (16 bits).
    pub const SPAN: u32 = 28;
    /// How many members read, write, are (8 bits each).
    pub const READS: u32 = 30;
    pub const WRITES: u32 = 31;
    pub const MEMBERS: u32 = 32;
    /// 1: at a constant address (8 bits).
    pub const CONSTANT: u32 = 33;
    /// For each member 16 bits: its kind in two, and its offset from the lowest operand.
    pub const OFFSETS: u32 = 34;
}

unsafe extern "C" {
    /// Through `context::SETTLE`, as a stub of a group enters it.
    #[link_name = "numalens_settle_last_page"]
    pub fn settle_last_page();
    /// Through `context::COUNT_GROUP`, as a stub of a group that is counted immediately enters it.
    #[link_name = "numalens_count_group"]
    pub fn count_group();
    /// The end of all of these, of [`crate::count_elements`], [`crate::count_string`] and [`crate::count_direct`]: a
    /// thread that is stopped within must be let go on to the cache.
    #[link_name = "numalens_settle_last_page_end"]
    pub fn settle_last_page_end();
}

// rax: the lowest operand; rcx: the descriptor; rdx: the record; rsi: the number of this execution. Flags are dead.
global_asm!(
    r#"
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
    and rax, -4096
    mov gs:[rdx + {page}], rax
    NUMALENS_NOTE_RECORD
    NUMALENS_GO_ON {count_return}
4:
    // Megamorphic: the class is another.
    cmp r9d, {any}
    je 8f
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
    "#,
    include_str!("elements.s"),
    include_str!("strings.s"),
    include_str!("direct.s"),
    "numalens_settle_last_page_end:",
    "nop",
    save = const context::SETTLE_SAVED,
    arguments = const context::COUNT_ARGUMENTS,
    count_return = const context::COUNT_RETURN,
    count_what = const context::COUNT_WHAT,
    count_sites = const context::COUNT_SITES,
    again = const Operation::Again as u32,
    of_page = const RetranslateReason::Page as u32,
    of_class = const RetranslateReason::Class as u32,
    of_direct = const RetranslateReason::Direct as u32,
    count = const context::COUNT,
    last_pages = const context::LAST_PAGES,
    touched = const context::TOUCHED,
    read_only = const context::READ_ONLY,
    shadow = const context::SHADOW_BASE,
    group = const Operation::Group as u32,
    page = const LastPage::PAGE,
    since = const LastPage::SINCE,
    entry = const LastPage::ENTRY,
    misses = const LastPage::MISSES,
    class = const LastPage::CLASS,
    any = const LastPage::ANY_CLASS,
    no_class = const LastPage::NO_CLASS,
    // Looked at whenever so many changes have come; too often is more than one execution in sixteen.
    often = const 16,
    // Most memory is written sooner or later, and then the last page is cheaper.
    often_unwritten = const 1 << 20,
    // The classes of pages change while they are being found out.
    often_class = const 1024,
    share = const 4,
    d_back = const descriptor::BACK,
    d_record = const descriptor::RECORD,
    d_executions = const descriptor::EXECUTIONS,
    d_row = const descriptor::ROW,
    d_first_row = const descriptor::FIRST_ROW,
    d_site = const descriptor::SITE,
    d_span = const descriptor::SPAN,
    d_reads = const descriptor::READS,
    d_writes = const descriptor::WRITES,
    d_members = const descriptor::MEMBERS,
    d_constant = const descriptor::CONSTANT,
    vector = const context::COUNT_VECTOR,
    e_counter = const elements::COUNTER,
    e_row = const elements::ROW,
    e_what = const elements::WHAT,
    e_site = const elements::SITE,
    e_least = const elements::LEAST,
    e_lanes = const elements::LANES,
    e_scale = const elements::SCALE,
    e_wide = const elements::WIDE,
    t_base = const DirectTable::BASE,
    t_nowhere = const (DirectTable::NOWHERE >> 32) as i32,
    t_counters = const DirectTable::COUNTERS,
    t_words = const DirectTable::WORDS,
    t_low = const DirectTable::LOW,
    t_high = const DirectTable::HIGH,
    t_missed = const DirectTable::MISSED,
    t_begun = const DirectTable::BEGUN,
    t_many = const direct::MANY,
    string_before = const context::STRING_BEFORE,
    s_source = const strings::SOURCE,
    s_destination = const strings::DESTINATION,
    s_size = const strings::SIZE,
    d_offsets = const descriptor::OFFSETS,
);

/// A group's place in the tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub record: u32,
    pub executions: u32,
    pub row: u32,
    pub first_row: u32,
    pub first: SiteId,
}

impl<E: Env> Builder<'_, E> {
    /// Writes the checks that stand before instruction `number`.
    pub(crate) fn check_groups(&mut self, number: usize, live: u16) -> Result<(), Error> {
        while let Some(&group) = self.plan.groups.get(usize::from(self.checked)).filter(|group| group.at == number) {
            self.check(&group, live)?;
        }
        Ok(())
    }

    /// Gives a segment, whose groups are checked from here on, an execution counter: its offset from GS.
    pub(crate) fn begin_segment(&mut self, segment: u16) -> Result<u32, Error> {
        self.segment = Some(segment);
        self.executions = self.numbers.executions;
        self.new_execution_counter(segment)
    }

    fn check(&mut self, group: &Group, live: u16) -> Result<(), Error> {
        if self.plan.is_immediate(group.segment) {
            return self.check_immediate(group, live);
        }
        if self.segment != Some(group.segment) {
            let executions = self.begin_segment(group.segment)?;
            self.map_hot(State::Before);
            self.hot.increment(Memory::context(executions));
        }
        if group.advance.is_some() {
            return self.check_hoisted(live);
        }
        if group.no_last_page {
            return self.check_immediate(group, live);
        }
        let last_page = LastPageSlot { id: LastPageId(self.numbers.last_pages), executions: self.executions };
        self.numbers.last_pages += 1;
        let place = self.register_group(group, Some(last_page))?;
        let counted = self.segment.map_or(0, |segment| segment + 1);
        self.begun = counted;
        self.map_hot(State::Before);
        if group.is_constant() {
            self.hot.compare_context(true, place.record + LastPage::PAGE, 0);
            let miss = self.hot.relative(&[0x0f, 0x84]);
            let (stub, back) = (self.cold.here(), self.hot.here());
            self.resolve_hot(miss, stub)?;
            self.constant_stub(group, &place, back)?;
        } else if group.megamorphic {
            self.check_megamorphic(group, &place, live)?;
        } else {
            let registers = group.address.registers(Shape::Plain);
            self.scratch.restore(&mut self.hot, registers);
            let r1 = self.scratch.pick(&mut self.hot, live, registers);
            self.map_spilled();
            operand(&mut self.hot, r1, group);
            self.hot.memory(true, &[0x2b], r1, Memory::context(place.record + LastPage::PAGE));
            self.hot.compare(r1, 4096 - group.span as i32);
            let miss = self.hot.relative(&[0x0f, 0x83]);
            let (stub, back) = (self.cold.here(), self.hot.here());
            self.resolve_hot(miss, stub)?;
            self.stub(group, &place, r1, back)?;
        }
        self.checked += 1;
        self.map_hot(State::Before);
        Ok(())
    }

    fn check_immediate(&mut self, group: &Group, live: u16) -> Result<(), Error> {
        self.begun = group.segment + 1;
        let place = self.register_group(group, None)?;
        match group.direct {
            Some(direct) => self.count_directly(group, direct, place, live)?,
            None => self.count_immediately(group, &place, live)?,
        }
        self.checked += 1;
        self.map_hot(State::Before);
        Ok(())
    }

    /// Gives the group its sites, and its records where there are several.
    pub(crate) fn register_group(&mut self, group: &Group, last_page: Option<LastPageSlot>) -> Result<Place, Error> {
        let number = self.checked;
        let plan = self.plan;
        let from = plan.members.partition_point(|member| member.group < number);
        let members = &plan.members[from..from + usize::from(group.members)];
        let mut first = SiteId(0);
        for (index, member) in members.iter().enumerate() {
            let id = self.env.new_site(&Site::new(member.ip, &member.access));
            self.config.site_counter(id, 0).ok_or(Error::TooMany)?;
            if index == 0 {
                first = id;
            }
            self.ahead.push(Ahead {
                site: id,
                last_page,
                instruction: (member.ip - self.start) as u32,
                group: number,
                segment: group.segment,
                megamorphic: group.megamorphic || group.is_constant(),
            });
        }
        let members = u32::from(group.members);
        let row = match last_page {
            None if members == 1 => first,
            _ => self.env.new_group(&crate::Group { last_page, first, members }),
        };
        let [record, executions] = match last_page {
            Some(last_page) => {
                [self.config.last_page_record(last_page.id), self.config.execution_counter(last_page.executions)]
            }
            None => [Some(0); 2],
        };
        Ok(Place {
            record: record.ok_or(Error::TooMany)?,
            executions: executions.ok_or(Error::TooMany)?,
            row: self.config.site_counter(row, 0).ok_or(Error::TooMany)?,
            first_row: self.config.site_counter(first, 0).ok_or(Error::TooMany)?,
            first,
        })
    }
}

/// The lowest operand of a group, where flags are dead.
pub(crate) fn operand(code: &mut Code, to: u8, group: &Group) {
    let address = &group.address;
    let displacement = (address.displacement + group.shift) as i32;
    if address.fs && address.base.is_none() && address.index.is_none() {
        code.load(to, Memory::context(context::FS_BASE));
        return code.lea(to, Memory::base(to, displacement));
    }
    let memory = Memory::Flat { base: address.base, index: address.index, scale: address.scale.max(1), displacement };
    code.lea(to, memory);
    if address.fs {
        code.memory(true, &[0x03], to, Memory::context(context::FS_BASE)); // add
    }
}
