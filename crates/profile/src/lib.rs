//! The profile: the one place where collectors and analyses meet. See [`tables`] for what is in it.
//!
//! A [`Writer`] makes a directory of Parquet tables that a [`Profile`] reads, while it is being written too;
//! [`check()`] tests what must hold in every profile; [`pack()`] and [`unpack`] make one file of it and back.

/// Declares tables: row structs with their column names, and how they become Arrow columns.
macro_rules! table {
    ($($(#[$doc:meta])* $name:ident = $file:literal { $($(#[$fdoc:meta])* $field:ident : $ty:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, PartialEq, Debug)]
            pub struct $name { $($(#[$fdoc])* pub $field: $ty,)* }

            impl $name {
                /// The table's file is `TABLE.parquet`.
                pub const TABLE: &'static str = $file;
                /// Columns, in order.
                pub const COLUMNS: &'static [&'static str] = &[$(stringify!($field),)*];
            }

            impl $crate::row::Row for $name {
                const TABLE: &'static str = $file;
                const COLUMNS: &'static [&'static str] = &[$(stringify!($field),)*];
                type Columns = ($(<$ty as $crate::row::Value>::Column,)*);

                fn fields() -> Vec<arrow_schema::Field> {
                    vec![$($crate::row::column::<$ty>(stringify!($field)),)*]
                }

                fn arrays(rows: &[Self]) -> Vec<arrow_array::ArrayRef> {
                    vec![$(<$ty as $crate::row::Value>::array(rows.iter().map(|row| &row.$field)),)*]
                }

                fn open(batch: &$crate::row::Batch<'_>) -> Result<Self::Columns, $crate::Error> {
                    Ok(($(batch.open::<$ty>(stringify!($field))?,)*))
                }

                #[inline]
                fn row(columns: &Self::Columns, index: usize) -> Self {
                    let ($($field,)*) = columns;
                    Self { $($field: <$ty as $crate::row::Value>::get($field, index),)* }
                }

                #[inline]
                fn renumber(&mut self, ids: &$crate::renumbering::Renumbering, columns: u64) {
                    let mut _place = 0;
                    $(
                        if columns >> _place & 1 == 1 {
                            <$ty as $crate::row::Value>::renumber(&mut self.$field, ids);
                        }
                        _place += 1;
                    )*
                }

                fn set(&mut self, column: usize, value: u64) {
                    let mut _place = 0;
                    $(
                        if _place == column {
                            self.$field = <$ty as $crate::row::Value>::made_of(value);
                        }
                        _place += 1;
                    )*
                }
            }
        )*

        /// Names of all tables.
        pub const TABLES: &[&str] = &[$($file,)*];

        /// Shows every type of row to a visitor, in the order of declaration.
        ///
        /// # Errors
        /// The visitor's first.
        pub fn visit<V: $crate::Visitor>(visitor: &mut V) -> Result<(), $crate::Error> {
            $(visitor.table::<$name>()?;)*
            Ok(())
        }
    };
}

mod check;
mod content;
mod directory;
mod encode;
mod error;
mod extent;
mod extremes;
mod file;
pub mod ids;
mod kept;
mod limits;
mod machine;
mod merge;
mod meta;
mod meta_words;
mod ours;
mod pack;
pub mod perf_map;
mod pinning;
pub mod place;
pub mod python;
mod read;
mod renumbering;
mod row;
mod seal;
pub mod tables;
#[doc(hidden)]
pub mod testing;
mod threads;
mod thrift;
pub mod user_cache;
pub mod words;
mod write;

pub use check::{CHECKS, Violation, check};
pub use content::Content;
pub use error::Error;
pub use extremes::Extremes;
pub use merge::{merge, together};
pub use meta::{BY_ADDRESS, Meta, ObjectAttribution};
pub use meta_words::{Engine, MachineOption, RecordedUnit};
pub use pack::{pack, pack_opened, unpack};
pub use pinning::{PinningLog, ThreadLog};
pub use read::Profile;
pub use row::{Row, Visitor};
pub use threads::start_threads;
pub use write::{Writer, write_whole};

/// In `meta.extra`: the private cache of each thread, an object of `bytes`, `ways` and `line` (bytes).
pub const CACHE: &str = "cache";
/// In `meta.extra`: when counters were looked at, in nanoseconds since the start; the first [`MOST_LOOKS`] times.
pub const LOOKS: &str = "looks_ns";
/// Later ones are closer than a time bin is wide.
pub const MOST_LOOKS: usize = 1000;
/// In `meta.losses`: processes of which not all cache lines were counted.
pub const LINES_LEFT_OUT: &str = "processes with more memory than cache lines are counted of";

/// In `meta.extra`: that the node of some page accesses is the one at the end of the time bin, as the recording did not
/// tell it.
pub const NODES_INFERRED: &str = "page_nodes_inferred";

/// The schema version that this crate writes, and the newest that it reads.
pub const SCHEMA_VERSION: u32 = 1;
