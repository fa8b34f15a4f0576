//! Numbers of what the tables of a thread hold.

/// Numbers given so far.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    pub last_pages: u32,
    pub executions: u32,
    pub direct: u32,
}
