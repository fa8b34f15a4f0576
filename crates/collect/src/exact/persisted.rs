//! Persisted code: translations that a recording leaves for the next one, and for its own later processes.
//!
//! Problem: most processes are short, and what they execute is what others have executed before: the loader, the C
//! library, the same interpreter. Two thirds of their time in a recording goes into translating it again.
//!
//! Mechanism: agents tell of the fragments that they translate ([`numalens_event::exact::log::TRANSLATED`]). A thread
//! of the collector's, at a low priority, makes records of these ([`numalens_translator::persist`]) from the files
//! of the code, never from what a process says, and puts them where all agents of the recording find them. In the end
//! it stores them in the user's cache, where the next recording finds them.
//!
//! ```text
//!   agents --(which fragments)--> log --> worker: file of code --> records --> session file --> agents
//!                                           |  ^
//!                                           v  |   code_file   a file of code, by its key
//!                                          store   image       records as agents find them
//! ```
//! 1. What is executed comes from this user's cache or from the file that the program executes itself. A program can
//!    ask for fragments; it cannot say what they consist of.
//! 2. The cache is believed only where nobody else can write to it; what is damaged in it is not used.
//! 3. Without any of it a recording is the same, and slower.

mod code_file;
mod image;
pub mod store;
mod worker;

use super::file::{SessionFile, vdso};
use super::image::Image;
use image::CodeRegion;
use numalens_agent::code;
use numalens_agent::state::thread_context::Layout;
use numalens_event::exact::log;
use numalens_translator::Shadow;
use numalens_translator::persist::config_key;
use std::hash::Hasher;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;
use store::Store;
use worker::Worker;

/// What an agent says of the code that its program executes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodeNews {
    /// A file of code, by its key, and its path.
    File(u64, String),
    /// Where in it fragments begin that are not persisted.
    Translated(u64, Vec<u64>),
}

impl CodeNews {
    /// A record of a log, if it is about that; `text` takes its text from a word on.
    pub fn read(what: u32, words: &[u64], text: impl Fn(usize) -> String) -> Option<CodeNews> {
        match (what, words) {
            (log::CODE_FILE, &[key, ..]) => Some(CodeNews::File(key, text(1))),
            (log::TRANSLATED, &[key, ref places @ ..]) => Some(CodeNews::Translated(key, places.to_vec())),
            _ => None,
        }
    }
}

enum Message {
    News(Vec<CodeNews>),
    /// The recording ends: what is known is to be stored.
    End,
}

/// How long the end of a recording waits for what is to be stored, beyond what it does itself.
const PATIENCE: Duration = Duration::from_secs(1);

/// The worker's priority: a tenth of the processor time that others have.
const LOW: i32 = 10;

/// The worker of a recording.
pub struct PersistedCode {
    to: Sender<Message>,
    /// Hears when all is stored.
    stored: Receiver<()>,
}

impl PersistedCode {
    /// Begins, for agents of this image; none where it cannot, or need not.
    pub fn start(file: &SessionFile, agent: &Image) -> Option<PersistedCode> {
        let header = file.header();
        let is_virtual = file.is_virtual();
        // As the agents have it where the table of pages is in its usual place.
        let layout = Layout::new(header, 0);
        let config = code::config(&layout, Shadow::At(numalens_agent::boot::SHADOW_AT as u32), header, is_virtual);
        let config_key = config_key(&config);
        let (memory, directory) = file.code_region().ok()?;
        let region = CodeRegion::new(memory, directory);
        region.directory().config.store(config_key, Release);
        let ((to, from), (done, stored)) = (channel(), channel());
        // What is not told by the key of a file.
        let mut hasher = rustc_hash::FxHasher::default();
        hasher.write_u64(config_key);
        let agent = agent.pieces.iter().map(|(_, content)| *content);
        let others = [numalens_interpose::LIBRARY, vdso().unwrap_or_default()];
        agent.chain(others).for_each(|bytes| hasher.write(bytes));
        let key = hasher.finish();
        let getcpu = header.vdso.getcpu.load(Relaxed).checked_sub(1).filter(|_| is_virtual);
        let work = move || {
            lower_priority();
            Worker::new(config, getcpu, region, Store::of_user(key)).work(&from);
            let _ = done.send(());
        };
        thread::Builder::new().name("code".to_owned()).spawn(work).ok()?;
        Some(PersistedCode { to, stored })
    }

    /// Agents have said something.
    pub fn hear(&self, news: Vec<CodeNews>) {
        if !news.is_empty() {
            let _ = self.to.send(Message::News(news));
        }
    }

    /// Nothing more comes.
    pub fn end(&self) {
        let _ = self.to.send(Message::End);
    }

    /// Waits until all is stored, but not for long: what is missing then is the next recording's.
    pub fn settle(self) {
        let _ = self.stored.recv_timeout(PATIENCE);
    }
}

/// The calling thread gives way: programs, and whoever reads their counters when a phase ends, must not wait for it.
/// It still runs on a machine whose processors are all busy: one that never does keeps its process from ending.
fn lower_priority() {
    // SAFETY: of the calling thread alone.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, LOW) };
}
