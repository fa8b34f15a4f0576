//! Remedies in Haskell.

use crate::model::patterns::Remedy;

/// Lines for a remedy; none: Haskell says it as C does.
pub fn in_haskell(remedy: Remedy) -> Option<&'static str> {
    match remedy {
        Remedy::ParallelInitialisation => Some(
            "-- fill each block in the capability that will use it, in place of one fill by main\nforM_ (zip [0 ..] blocks) $ \\(cap, (from, to)) ->\n    forkOn cap $ forM_ [from .. to - 1] $ \\i -> writeArray ARRAY i (initial i)",
        ),
        Remedy::PinThreads => {
            Some("forkOn cap work      -- in place of forkIO, and run with +RTS -N -xp -qa (bind capabilities to CPUs)")
        }
        Remedy::Replicate
        | Remedy::Interleave
        | Remedy::LocalAllocation
        | Remedy::DropPolicy
        | Remedy::FreshPages
        | Remedy::LocalStack
        | Remedy::BlockPlacement
        | Remedy::CoLocateThreads
        | Remedy::AlignOrPad
        | Remedy::AlignToHugePages
        | Remedy::SplitLine
        | Remedy::LocalText
        | Remedy::ReplicateText
        | Remedy::MoveToTier => None,
    }
}
