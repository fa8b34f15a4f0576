//! The routines in assembly that generated code calls through code pointers in the context of the thread, by the names
//! that the linker has for them.

unsafe extern "C" {
    /// Through `context::SETTLE`, as a stub of a group enters it.
    #[link_name = "numalens_settle_last_page"]
    pub fn settle_last_page();
    /// Through `context::COUNT_GROUP`, as a stub of a group that is counted immediately enters it.
    #[link_name = "numalens_count_group"]
    pub fn count_group();
    /// The end of all of these, of [`count_elements`], [`count_string`] and [`count_direct`]: a
    /// thread that is stopped within must be let go on to the cache.
    #[link_name = "numalens_settle_last_page_end"]
    pub fn settle_last_page_end();

    /// Through `context::COUNT_ELEMENTS`.
    #[link_name = "numalens_count_elements"]
    pub fn count_elements();

    /// Through `context::COUNT_STRING`.
    #[link_name = "numalens_count_string"]
    pub fn count_string();

    /// Through `context::COUNT_DIRECT`.
    #[link_name = "numalens_count_direct"]
    pub fn count_direct();

    /// Through `context::RETURN`, as translated returns enter it. A thread that is stopped within must be let go on to
    /// the cache.
    #[link_name = "numalens_take_return"]
    pub fn take_return();
    /// The instruction of it that writes to the program's stack. If it faults, as natively nothing would, put rax and
    /// rdx back from `context::SETTLE_SAVED` and rcx from `context::REGISTERS`, take the address off the stack, and go
    /// on at `context::RETURN_MISS`.
    #[link_name = "numalens_take_return_writes"]
    pub fn take_return_writes();
    /// The end of it.
    #[link_name = "numalens_take_return_end"]
    pub fn take_return_end();
}
