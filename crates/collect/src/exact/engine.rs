//! Starting a command with the agent in it, and recording until it ends.

mod prepared;
mod recorder;
mod requirements;

use super::late_processes;
use super::machine_files::MachineFiles;
use super::spin_wait_env::spin_wait_env;
use crate::engine::{Engine, NameProfile};
use crate::launch::{Demands, Outcome, Progress, RecordError, RecordOptions, STARTING_THREADS, Target, signals};
use crate::limits::{self, Limit, Need};
use crate::refused::refused;
use crate::session::SessionOptions;
use numalens_event::exact::Geometry;
use numalens_profile::{BY_ADDRESS, Meta, RecordedUnit, Writer, start_threads};
use numalens_topology::Machine;
use prepared::Prepared;
use requirements::check_processor;
pub use requirements::works_here;
use std::ffi::OsString;
use std::thread;

/// What a recording needs of what a shell limits.
const NEEDS: [Need; 4] = [
    (Limit::OpenFiles, 64, "for the tables of the profile"),
    (Limit::FileSize, u64::MAX, "for the memory that it shares with the program; `--engine sample` needs 64 MiB"),
    (Limit::AddressSpace, 1 << 30, "for the recorder alone; `--engine sample` needs 256 MiB"),
    (Limit::Data, 64 << 20, "for the recorder alone"),
];

/// Counts every access, by translating the program while it runs.
pub struct ExactEngine;

impl Engine for ExactEngine {
    fn counts(&self) -> bool {
        true
    }

    fn check(&self, demands: &Demands) -> Result<(), String> {
        if !demands.whole_command {
            return Err("the exact engine observes a command from its start to its end: --pid, --all and --duration need `--engine sample`".to_owned());
        }
        if demands.frequency.is_some() {
            return Err(
                "the exact engine counts every access and takes no samples: --frequency needs `--engine sample`"
                    .to_owned(),
            );
        }
        Ok(())
    }

    fn check_machine(&self, machine: &Machine) -> Result<(), String> {
        requirements::check_machine(machine)
    }

    fn describe(&self, session: &SessionOptions, _: u64, meta: &mut Meta) {
        meta.engine = numalens_profile::Engine::Exact;
        meta.unit = RecordedUnit::Accesses;
        meta.unit_note = counted_note(session);
        let text = |word: OsString| word.to_string_lossy().into_owned();
        let added = spin_wait_env(&session.machine).into_iter();
        meta.environment.extend(added.map(|(name, value)| (text(name), text(value))));
    }

    fn record(
        &self,
        target: &Target,
        options: RecordOptions,
        path: NameProfile<'_>,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Outcome, RecordError> {
        match target {
            Target::Launch(command) => record(command, options, path, progress),
            Target::Pid(_) | Target::All => Err(RecordError::Unobservable("it runs already".to_owned())),
        }
    }
}

/// What is counted, for people. Recordings with different caches are not alike.
fn counted_note(session: &SessionOptions) -> String {
    let stack = if session.stack { "included" } else { "left out" };
    let cache = session.cache.map(|cache| format!("; apart, those that miss a private cache of {}", in_words(cache)));
    let objects = if session.every_object { format!("; {BY_ADDRESS}") } else { String::new() };
    format!(
        "every access of an instruction to memory, those relative to the stack pointer {stack}{}{objects}",
        cache.unwrap_or_default()
    )
}

/// A cache, for people.
fn in_words(cache: Geometry) -> String {
    let bytes = (u64::from(cache.sets) * u64::from(cache.ways)) << cache.line_log2;
    format!("{bytes} bytes, {} ways, lines of {} bytes", cache.ways, 1 << cache.line_log2)
}

/// Records `command`, every access of it, into the profile that `path` names once its pid is known.
///
/// # Errors
/// See [`RecordError`]; nothing of the command has run when it is `Launch`, `Create` or `Unobservable`.
fn record(
    command: &[OsString],
    options: RecordOptions,
    path: NameProfile<'_>,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Outcome, RecordError> {
    check_processor()?;
    signals::survive_limits();
    limits::raise(&NEEDS)?;
    start_threads().map_err(|error| refused(STARTING_THREADS, &error))?;
    let mut prepared = Prepared::new(&options, progress)?;
    let waiting = prepared.start(command, &options.session.machine)?;
    let writer = Writer::create(&path(Some(waiting.pid())), options.force).map_err(RecordError::Create)?;
    let partial = writer.partial().to_owned();
    // Until the end: without them, programs see the machine as it is, and ranks are counted anew.
    let (mut files, _ranks) = (prepared.files.take(), prepared.ranks.take());
    let released = prepared.release(waiting, writer, &options);
    let (mut recorder, child) = released.inspect_err(|_| {
        // Nothing ran: there is nothing to keep. What cannot be removed is an empty directory.
        let _ = std::fs::remove_dir_all(&partial);
    })?;
    recorder.watch(&child, progress);
    late_processes::let_load(&recorder.file);
    if let Some(failure) = files.as_mut().and_then(MachineFiles::settle) {
        progress(Progress::Limited(&failure));
        recorder.meta.notes.push(failure);
    }
    thread::scope(|scope| {
        // Without a thread for it they are removed here, as what it would have owned is dropped.
        let _ = thread::Builder::new().spawn_scoped(scope, move || drop(files));
        recorder.finish(&child, partial, progress)
    })
}
