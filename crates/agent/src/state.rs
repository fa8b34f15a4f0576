//! What the agent knows: states without what is done with them, which is in the folders above.

pub mod collecting;
pub mod collector;
pub mod failure;
pub mod maps;
pub mod own;
pub mod page_id;
pub mod runtime;
pub mod session_file;
pub mod thread;
pub mod thread_context;
