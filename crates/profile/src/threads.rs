//! The threads that read and write tables side by side: as many as there are CPUs, where the system gives them.

use rayon::ThreadPoolBuilder;
use std::io;
use std::sync::OnceLock;
use std::thread;

/// Starts them, as far as a limit of processes (`ulimit -u`, a container's) allows: one does. To be called before
/// something begins that would be lost without them; elsewhere they start when they are needed.
///
/// # Errors
/// There cannot be a single one: the kernel's.
pub fn start_threads() -> io::Result<()> {
    static STARTED: OnceLock<()> = OnceLock::new();
    let started = || {
        let all = ThreadPoolBuilder::new().build_global();
        all.or_else(|_| ThreadPoolBuilder::new().num_threads(1).build_global()).is_ok()
    };
    if STARTED.get().is_none() && !started() {
        // Others may have started them; else this fails as well, and says why.
        thread::Builder::new().spawn(|| ())?;
    }
    let _ = STARTED.set(());
    Ok(())
}
