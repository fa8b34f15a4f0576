//! A command is started with the agent in it.

use super::recorder::Recorder;
use super::requirements::{check_observable, lift_limit};
use crate::control::Control;
use crate::ending::Ending;
use crate::exact::clock::Clock;
use crate::exact::drain::Drain;
use crate::exact::file::{ExactOptions, SessionFile};
use crate::exact::heap::Heap;
use crate::exact::image::{Image, image};
use crate::exact::machine_files::MachineFiles;
use crate::exact::persisted::PersistedCode;
use crate::exact::ranks::RankTable;
use crate::exact::spin_wait_env::spin_wait_env;
use crate::launch::{Child, Progress, RecordError, RecordOptions, Waiting, signals};
use crate::perf::monotonic_ns;
use crate::session::{Output, Session};
use numalens_agent::inject::{self, InjectError, Plan};
use numalens_event::exact::{self, Extent};
use numalens_profile::Writer;
use numalens_topology::Machine;
use std::ffi::OsString;
use std::sync::atomic::Ordering::Relaxed;

/// What a recording needs before its command is started.
pub struct Prepared {
    image: Image,
    file: SessionFile,
    /// Of a virtual machine.
    pub files: Option<MachineFiles>,
    pub ranks: Option<RankTable>,
    persisted: Option<PersistedCode>,
    /// Of the session file, for the command alone.
    descriptor: i32,
    heap: Option<Heap>,
    /// Why there is none.
    heap_refused: Option<String>,
}

impl Prepared {
    /// Makes it.
    pub fn new(options: &RecordOptions, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Self, RecordError> {
        let session = &options.session;
        let image = image().map_err(RecordError::Unobservable)?;
        let file = SessionFile::create(&image, &ExactOptions::of(session))?;
        let files = if session.machine.is_virtual { Some(MachineFiles::create(&file)?) } else { None };
        // Without it, or if its name does not fit, the recording has a table of its own.
        let ranks = RankTable::of_this_job(&session.machine);
        if let Some(ranks) = &ranks {
            let _ = file.set_common(ranks.path());
        }
        let descriptor = file.inheritable()?;
        let (heap, heap_refused) = match Heap::create(session.every_object) {
            Ok(heap) => (Some(heap), None),
            Err(error) => {
                progress(Progress::Limited(&format!("heap objects will not be told apart: {error}")));
                (None, Some(error.to_string()))
            }
        };
        // Last: its thread opens files, and programs see the numbers of the descriptors above.
        let persisted = if options.code_cache { PersistedCode::start(&file, &image) } else { None };
        Ok(Prepared { image, file, files, ranks, persisted, descriptor, heap, heap_refused })
    }

    /// Starts the command, which waits before it executes the program.
    pub fn start(&mut self, command: &[OsString], machine: &Machine) -> Result<Waiting, RecordError> {
        let mut extra = self.heap.as_ref().map(Heap::environment).unwrap_or_default();
        extra.extend(spin_wait_env(machine));
        let waiting = Waiting::start(command, &extra);
        // SAFETY: a descriptor that `inheritable` made for the child alone.
        unsafe { libc::close(self.descriptor) };
        let waiting = waiting?;
        check_observable(waiting.path())?;
        if let Some(files) = &mut self.files {
            files.begin(machine, &self.file)?;
        }
        Ok(waiting)
    }

    /// Lets the command execute its program, with the agent in it.
    pub fn release(
        self,
        waiting: Waiting,
        writer: Writer,
        options: &RecordOptions,
    ) -> Result<(Recorder, Child), RecordError> {
        let Prepared { image, file, persisted, descriptor, heap, heap_refused, .. } = self;
        let plan = Plan {
            descriptor,
            image_offset: exact::IMAGE_OFFSET,
            image_bytes: image.bytes,
            image_entry: image.entry,
            vdso_syscall: file.header().vdso.syscall.load(Relaxed).checked_sub(1),
            parent: Extent::NONE.0,
            caller: Extent::NONE.0,
            or_kill: true,
        };
        file.header().command_pid.store(waiting.pid() as u32, Relaxed);
        inject::seize(waiting.pid()).map_err(|error| cannot_enter(InjectError::Refused("seize", error)))?;
        let mut session = Session::new(options.session.clone(), Output::new(writer), monotonic_ns());
        session.listen_to_runtimes(heap.as_ref().and_then(Heap::take_runtime_log));
        if let Some(why) = heap_refused {
            session.without_heap(why);
        }
        lift_limit(&file, waiting.pid())?;
        signals::catch();
        let clock = Clock::start(file.header(), session.records_every_object());
        if let Some(heap) = &heap {
            heap.use_clock(file.header());
        }
        let (child, entered) = waiting.release_watched(|pid| inject::enter_at_exec(pid, true, &plan))?;
        entered.map_err(cannot_enter)?;
        let (meta, control) = (options.meta.clone(), Control::open(Some(child.pid)));
        let ending = Ending::new(options.wait_all);
        let drain = Drain::new(heap);
        Ok((Recorder { file, clock, session, drain, persisted, control, meta, ending }, child))
    }
}

fn cannot_enter(error: InjectError) -> RecordError {
    let way_out = match error {
        InjectError::Refused("seize", _) => {
            ": ptrace is refused by a container (docker run --cap-add SYS_PTRACE), by Yama (sysctl kernel.yama.ptrace_scope, 3 forbids it), or \
             as another debugger has the process"
        }
        _ => "",
    };
    RecordError::Unobservable(format!("{error}{way_out}"))
}
