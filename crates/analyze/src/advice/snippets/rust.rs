//! Remedies in Rust.

use crate::model::patterns::Remedy;

/// Lines for a remedy; none: Rust says it as C does.
pub fn in_rust(remedy: Remedy) -> Option<&'static str> {
    match remedy {
        Remedy::LocalAllocation => Some(
            "s.spawn(move || {\n    pin_to_node();\n    let mut own = vec![initial; n];  // allocated and touched in the thread that uses it\n    work(&mut own)\n});",
        ),
        Remedy::FreshPages => Some(
            "let mut own = vec![initial; n];   // once in each thread, before its loop, in place of in each turn of it\nfor step in steps { work(&mut own); }",
        ),
        Remedy::LocalStack => {
            Some("s.spawn(move || {\n    pin_to_node();   // before anything large is on the stack\n    work()\n});")
        }
        Remedy::ParallelInitialisation => Some(
            "// each thread initialises the chunk that it will work on\nlet mut ARRAY: Vec<MaybeUninit<T>> = Vec::with_capacity(n); // reserves, touches nothing\nstd::thread::scope(|s| for chunk in ARRAY.spare_capacity_mut().chunks_mut(n / threads) {\n    s.spawn(move || { pin_to_node(); chunk.fill(initial) });\n});",
        ),
        Remedy::PinThreads => Some(
            "// crate core_affinity, or nix::sched::sched_setaffinity, first thing in each thread\ncore_affinity::set_for_current(core_of_node(node));",
        ),
        Remedy::AlignOrPad => {
            Some("#[repr(align(4096))]\nstruct Own<T>(T);   // what one thread uses, on pages of its own")
        }
        Remedy::AlignToHugePages => Some(
            "// parts of whole huge pages; the memory itself begins at one (Layout::from_size_align(size, 2 << 20))\nlet part = (n / threads).next_multiple_of((2 << 20) / size_of::<T>());\nfor own in ARRAY.chunks_mut(part) { ... }",
        ),
        Remedy::SplitLine => Some(
            "#[repr(align(128))]           // two lines: processors fetch them in pairs\nstruct Own<T>(T);\nlet ARRAY: Vec<Own<AtomicU64>> = ...;  // or count in a local and add once at the end",
        ),
        Remedy::Replicate
        | Remedy::Interleave
        | Remedy::DropPolicy
        | Remedy::BlockPlacement
        | Remedy::CoLocateThreads
        | Remedy::LocalText
        | Remedy::ReplicateText
        | Remedy::MoveToTier => None,
    }
}
