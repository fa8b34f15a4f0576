//! The profile: the one place where collectors and analyses meet. See `tables` for what is in it.

/// Declares tables: row structs with their column names.
macro_rules! table {
    ($($(#[$doc:meta])* $name:ident = $file:literal { $($(#[$fdoc:meta])* $field:ident : $ty:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Debug)]
        pub struct $name { $($(#[$fdoc])* pub $field: $ty,)* }

        impl $name {
            /// The table's file is `TABLE.parquet`.
            pub const TABLE: &'static str = $file;
            /// Columns, in order.
            pub const COLUMNS: &'static [&'static str] = &[$(stringify!($field),)*];
        }
    )*};
}

pub mod ids;
pub mod tables;
pub mod words;
