//! Remedies in Fortran.

use crate::model::patterns::Remedy;

/// Lines for a remedy; none: Fortran says it as C does.
pub fn in_fortran(remedy: Remedy) -> Option<&'static str> {
    match remedy {
        Remedy::LocalAllocation => Some(
            "!$omp parallel private(own)\nallocate(own(n)); own = initial   ! in the thread that uses it\ncall work(own)\n!$omp end parallel",
        ),
        Remedy::FreshPages => Some(
            "!$omp parallel private(own)\nallocate(own(n))   ! once in each thread, before its loop, in place of in each step of it\n!$omp end parallel",
        ),
        Remedy::ParallelInitialisation => Some(
            "!$omp parallel do schedule(static)   ! the same schedule as the loops that use it\ndo i = 1, n\n   ARRAY(i) = initial(i)\nend do\n!$omp end parallel do",
        ),
        Remedy::PinThreads => Some("nothing: OpenMP binds threads by its environment, below"),
        Remedy::AlignToHugePages => Some(
            "per_page = 2097152 / (storage_size(ARRAY) / 8)             ! elements of a huge page\npart = ((n / threads + per_page - 1) / per_page) * per_page   ! each thread's elements: whole huge pages\n!$omp parallel do schedule(static, part)",
        ),
        Remedy::SplitLine => Some(
            "integer(8) :: ARRAY(16, threads)   ! 128 bytes a thread; use ARRAY(1, me), or count in a local variable",
        ),
        Remedy::Replicate
        | Remedy::Interleave
        | Remedy::DropPolicy
        | Remedy::LocalStack
        | Remedy::BlockPlacement
        | Remedy::CoLocateThreads
        | Remedy::AlignOrPad
        | Remedy::LocalText
        | Remedy::ReplicateText
        | Remedy::MoveToTier => None,
    }
}
