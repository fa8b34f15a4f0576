//! `move_pages` as a query.

use std::io;

use numalens_profile::ids::Page;
use numalens_topology::NodeId;

/// Pages per call. Measured on one node over present pages: 256 cost 1.2 times as much a page, above 1,024 nothing is
/// gained; the kernel looks at 16 pages at a time whatever the batch.
const BATCH: usize = 16_384;

/// What the kernel says about one page. Established by the tests of this module on Linux 6.18:
///
/// | memory | answer |
/// |---|---|
/// | private anonymous page, present; also under PROT_NONE | its node |
/// | any page of a huge page, anonymous or hugetlb | the node of the huge page |
/// | file or shared page that this process's page table maps | its node |
/// | file page that is only in the page cache; swapped page; never touched | `NotPresent` |
/// | read but never written anonymous memory: the shared zero page, small or huge | `ZeroPage` |
/// | no mapping at that address | `ZeroPage` |
/// | device memory, \[vvar\] | `ZeroPage` or `NotPresent`: memory without a page structure |
///
/// The kernel gives the same answer for "zero page" and "not mapped"; who needs to tell them apart asks [`read_maps`]
/// or [`page_map`].
///
/// [`read_maps`]: super::read_maps
/// [`page_map`]: super::page_map()
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PageHome {
    /// On this node.
    Node(NodeId),
    /// Mapped memory without a page behind it at this moment (ENOENT).
    NotPresent,
    /// The shared zero page, or nothing mapped there (EFAULT).
    ZeroPage,
    /// Another error number, of this page alone.
    Error(i32),
}

/// Asks for the homes of `pages` of process `pid` (0: this one); `out[i]` answers for `pages[i]`. What `out` held
/// before is gone.
///
/// # Errors
/// ESRCH: the process is gone, or a zombie. EPERM: it belongs to another user, or may not be traced. `out` then holds
/// the answers obtained so far.
pub fn query_homes(pid: i32, pages: &[Page], out: &mut Vec<PageHome>) -> io::Result<()> {
    out.clear();
    out.reserve(pages.len());
    let mut addresses: Vec<*mut libc::c_void> = Vec::with_capacity(pages.len().min(BATCH));
    let mut status = vec![0i32; pages.len().min(BATCH)];
    for batch in pages.chunks(BATCH) {
        addresses.clear();
        addresses.extend(batch.iter().map(|page| page.address() as *mut libc::c_void));
        status[..batch.len()].fill(-libc::ENOENT);
        // SAFETY: both arrays hold `batch.len()` elements; with a null `nodes` the kernel only writes `status`. The
        // addresses are numbers to it, in the memory of `pid`.
        let result = unsafe {
            libc::syscall(
                libc::SYS_move_pages,
                pid,
                batch.len(),
                addresses.as_ptr(),
                std::ptr::null::<i32>(),
                status.as_mut_ptr(),
                0,
            )
        };
        if result < 0 {
            let error = io::Error::last_os_error();
            // The kernel's word for a process that has given up its memory; the arguments are never invalid here.
            let gone = error.raw_os_error() == Some(libc::EINVAL);
            return Err(if gone { io::Error::from_raw_os_error(libc::ESRCH) } else { error });
        }
        out.extend(status[..batch.len()].iter().map(|&status| PageHome::from_status(status)));
    }
    Ok(())
}

impl PageHome {
    fn from_status(status: i32) -> Self {
        match u16::try_from(status) {
            Ok(node) => PageHome::Node(NodeId(node)),
            Err(_) if status == -libc::ENOENT => PageHome::NotPresent,
            Err(_) if status == -libc::EFAULT => PageHome::ZeroPage,
            Err(_) => PageHome::Error(status.saturating_neg()),
        }
    }

    /// The node, if the page has one.
    pub fn node(self) -> Option<NodeId> {
        match self {
            PageHome::Node(node) => Some(node),
            _ => None,
        }
    }
}
