//! Dense numbers for what the tables of the engine hold.

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);
    };
}

id!(
    /// A translated fragment.
    FragmentId
);
id!(
    /// A way out of a fragment through the dispatcher.
    ExitId
);
id!(
    /// One memory operand of one instruction: row of the table of site counters.
    SiteId
);
id!(
    /// The last page of a group of accesses: record of the table of last pages.
    LastPageId
);
