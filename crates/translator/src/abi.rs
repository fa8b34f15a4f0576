//! What generated code, routines in assembly, the owner of the cache and readers of its tables agree on: the
//! configuration, the context of a thread, and the records there.

pub(crate) mod config;
pub mod context;
pub(crate) mod derived_count;
pub(crate) mod descriptor;
pub(crate) mod direct_table;
pub(crate) mod each;
pub(crate) mod env;
pub(crate) mod error;
pub(crate) mod ids;
pub(crate) mod last_page;
pub(crate) mod page_entry;
pub(crate) mod registers;
pub(crate) mod return_table;
pub(crate) mod routines;
pub(crate) mod segment;
pub(crate) mod site;
pub(crate) mod way;
pub(crate) mod what;
