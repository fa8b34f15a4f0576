//! Address recovery measured. C kernels with known arrays run under the CPU clock, and every sample that falls in a
//! kernel is resolved. The share that lands in the arrays is compared with what the method is known to reach: 97 % of
//! the random update, where the index comes out of a conditional move whose flags a sample does not have, and nearly
//! all of the others.

use numalens_isa::{Found, Kind, Plan, RecoveredAccess, Registers, plan};
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use perf_event_open_sys as perf;
use perf_event_open_sys::bindings as sys;
use std::collections::HashMap;
use std::ffi::CString;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

const FREQUENCY: u64 = 3989;
/// AX BX CX DX SI DI BP SP IP and R8..R15, as the kernel numbers them.
const REGISTERS: u64 = 0x1ff | 0xff << 16;
const RING_PAGES: usize = 64;

/// What came of the samples of one kernel.
#[derive(Default, Debug)]
struct Outcome {
    samples: u64,
    resolved: u64,
    /// Resolved to an address inside of the arrays.
    inside: u64,
    on_stack: u64,
    before: u64,
    at: u64,
    after: u64,
    /// Resolved addresses by array and kind.
    arrays: HashMap<(String, &'static str), u64>,
}

impl Outcome {
    fn inside_share(&self) -> f64 {
        self.inside as f64 / self.samples.max(1) as f64
    }
}

/// The program, with its code and functions.
struct Program {
    path: PathBuf,
    text: Vec<u8>,
    text_start: u64,
    functions: Vec<(Range<u64>, String)>,
}

fn program() -> &'static Program {
    static PROGRAM: OnceLock<Program> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recovery/kernels.c");
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recovery-kernels");
        let built = Command::new("cc")
            .args(["-O2", "-static", "-no-pie", "-o"])
            .args([&path, &source])
            .status()
            .expect("a C compiler is needed: install gcc");
        assert!(built.success(), "cannot compile {}", source.display());
        let bytes = std::fs::read(&path).expect("the program just built");
        let file = object::File::parse(&*bytes).expect("an ELF file");
        let text = file.section_by_name(".text").expect(".text");
        let functions = file
            .symbols()
            .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0)
            .map(|symbol| (symbol.address()..symbol.address() + symbol.size(), symbol.name().unwrap_or("").to_owned()))
            .collect();
        Program { path, text: text.data().expect("code").to_vec(), text_start: text.address(), functions }
    })
}

/// A child that waits for a byte before it executes the program; its output is a pipe.
fn spawn(program: &Path, kernel: &str) -> (libc::pid_t, OwnedFd, OwnedFd) {
    let mut ends = [[0; 2]; 2];
    for pair in &mut ends {
        // SAFETY: `pair` is room for two descriptors.
        assert_eq!(unsafe { libc::pipe2(pair.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
    }
    let [go, output] = ends.map(|pair| {
        // SAFETY: pipe2 has just made these descriptors; nobody else owns them.
        pair.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
    });
    let path = CString::new(program.as_os_str().as_encoded_bytes()).expect("no NUL");
    let kernel = CString::new(kernel).expect("no NUL");
    let arguments = [path.as_ptr(), kernel.as_ptr(), std::ptr::null()];
    let environment = [std::ptr::null()];
    // SAFETY: the child only makes calls that are safe after fork (read, dup2, execve, _exit); its memory is prepared.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let mut byte = 0u8;
        // SAFETY: as above; all pointers outlive the calls.
        unsafe {
            libc::read(go[0].as_raw_fd(), (&raw mut byte).cast(), 1);
            libc::dup2(output[1].as_raw_fd(), 1);
            libc::execve(path.as_ptr(), arguments.as_ptr(), environment.as_ptr());
            libc::_exit(127);
        }
    }
    let [_, go] = go;
    let [output, _] = output;
    (child, go, output)
}

/// The CPU clock of `pid` from its exec on; `None` where the kernel does not allow it.
fn open_clock(pid: libc::pid_t) -> Option<OwnedFd> {
    let mut attr = sys::perf_event_attr::default();
    attr.type_ = sys::PERF_TYPE_SOFTWARE;
    attr.size = size_of::<sys::perf_event_attr>() as u32;
    attr.config = u64::from(sys::PERF_COUNT_SW_CPU_CLOCK);
    attr.sample_type = u64::from(sys::PERF_SAMPLE_IP | sys::PERF_SAMPLE_REGS_USER);
    attr.sample_regs_user = REGISTERS;
    attr.set_freq(1);
    attr.__bindgen_anon_1.sample_freq = FREQUENCY;
    attr.set_disabled(1);
    attr.set_enable_on_exec(1);
    attr.set_exclude_kernel(1);
    // SAFETY: `attr` is valid and its size is set.
    let fd = unsafe { perf::perf_event_open(&mut attr, pid, -1, -1, u64::from(sys::PERF_FLAG_FD_CLOEXEC) as _) };
    if fd < 0 {
        eprintln!("not measured: perf_event_open: {}", std::io::Error::last_os_error());
        return None;
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Reads every record up to the child's end; gives the registers of each sample.
fn samples(child: libc::pid_t, event: &OwnedFd) -> Vec<Registers> {
    let page = 4096usize;
    let length = (RING_PAGES + 1) * page;
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            event.as_raw_fd(),
            0,
        )
    };
    assert_ne!(base, libc::MAP_FAILED, "mmap of the ring: {}", std::io::Error::last_os_error());
    let header = base.cast::<sys::perf_event_mmap_page>();
    let mut found = Vec::new();
    loop {
        let mut status = 0;
        // SAFETY: `child` is a child of this process; `status` is writable.
        let ended = unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == child;
        // SAFETY: the mapping lives until the function ends; both words are shared with the kernel and atomic here.
        let (head, tail) = unsafe {
            (AtomicU64::from_ptr(&raw mut (*header).data_head), AtomicU64::from_ptr(&raw mut (*header).data_tail))
        };
        let (end, mut at) = (head.load(Ordering::Acquire), tail.load(Ordering::Relaxed));
        let word = |offset: u64| {
            let ring = (RING_PAGES * page) as u64;
            // SAFETY: the offset is taken modulo the ring's size and records are aligned to 8 bytes.
            unsafe { base.cast::<u8>().add(page + (offset % ring) as usize).cast::<u64>().read() }
        };
        while at < end {
            let record = word(at);
            // perf_event_header: u32 type, u16 misc, u16 size; then IP, the ABI of the registers, the registers.
            if record as u32 == sys::PERF_RECORD_SAMPLE && word(at + 16) == 2 {
                found.push(registers(|number| word(at + 24 + 8 * number)));
            }
            at += record >> 48;
        }
        tail.store(at, Ordering::Release);
        if ended {
            assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "the kernel failed: status {status}");
            break;
        }
        let mut poll = libc::pollfd { fd: event.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid pollfd.
        unsafe { libc::poll(&mut poll, 1, 50) };
    }
    // SAFETY: the mapping made above, used no more.
    unsafe { libc::munmap(base, length) };
    found
}

fn registers(word: impl Fn(u64) -> u64) -> Registers {
    let mut gpr = [0; 16];
    // The encoding order rax rcx rdx rbx rsp rbp rsi rdi in the kernel's numbering.
    for (register, number) in [0, 2, 3, 1, 7, 6, 4, 5].into_iter().enumerate() {
        gpr[register] = word(number);
    }
    for (value, number) in gpr[8..].iter_mut().zip(9..) {
        *value = word(number);
    }
    Registers { gpr, ip: word(8), fs_base: None, gs_base: None }
}

fn ranges(output: OwnedFd) -> Vec<(String, Range<u64>)> {
    let text = std::io::read_to_string(std::fs::File::from(output)).expect("the program's output");
    let number = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).expect("an address");
    text.lines()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            (words[1].to_owned(), number(words[2])..number(words[3]))
        })
        .collect()
}

/// Runs one kernel and resolves its samples; `None` where perf events are not allowed.
fn measure(kernel: &str) -> Option<Outcome> {
    let program = program();
    let (child, go, output) = spawn(&program.path, kernel);
    let event = open_clock(child);
    let go = std::io::Write::write_all(&mut std::fs::File::from(go), b"!");
    go.expect("the child waits for this byte");
    let Some(event) = event else {
        // SAFETY: `child` is a child of this process.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        return None;
    };
    let samples = samples(child, &event);
    let arrays = ranges(output);
    let name = format!("kernel_{kernel}");
    let function = &program.functions.iter().find(|(_, known)| *known == name).expect("the kernel's symbol").0;

    let mut plans: HashMap<u64, Plan> = HashMap::new();
    let mut outcome = Outcome::default();
    for registers in samples.iter().filter(|registers| function.contains(&registers.ip)) {
        outcome.samples += 1;
        let plan = plans
            .entry(registers.ip)
            .or_insert_with(|| plan(&program.text, program.text_start, Some(function.start), registers.ip));
        if let Some(access) = plan.resolve(registers) {
            outcome.add(access, &arrays);
        }
    }
    println!("{kernel}: {:.1} % inside the arrays; {outcome:?}", 100.0 * outcome.inside_share());
    assert!(outcome.samples > 500, "too few samples: {outcome:?}");
    Some(outcome)
}

impl Outcome {
    fn add(&mut self, access: RecoveredAccess, arrays: &[(String, Range<u64>)]) {
        self.resolved += 1;
        self.on_stack += u64::from(access.stack);
        match access.found {
            Found::Before => self.before += 1,
            Found::At => self.at += 1,
            Found::After => self.after += 1,
        }
        let kind = match access.kind {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::ReadWrite => "readwrite",
        };
        if let Some((name, _)) = arrays.iter().find(|(_, range)| range.contains(&access.address)) {
            self.inside += 1;
            *self.arrays.entry((name.clone(), kind)).or_default() += 1;
        }
    }

    fn only(&self, expected: &[(&str, &str)]) {
        for (name, kind) in self.arrays.keys() {
            assert!(expected.contains(&(name, kind)), "{kind} of {name}, which the kernel never does: {self:?}");
        }
    }
}

#[test]
fn triad() {
    let Some(outcome) = measure("triad") else { return };
    assert!(outcome.inside_share() > 0.99, "{outcome:?}");
    outcome.only(&[("a", "write"), ("b", "read"), ("c", "read")]);
}

#[test]
fn random_update() {
    let Some(outcome) = measure("random") else { return };
    assert!(outcome.inside_share() > 0.97, "{outcome:?}");
    outcome.only(&[("table", "readwrite")]);
}

#[test]
fn pointer_chase() {
    let Some(outcome) = measure("chase") else { return };
    assert!(outcome.inside_share() > 0.99, "{outcome:?}");
    outcome.only(&[("nodes", "read")]);
}

#[test]
fn sparse_matrix() {
    let Some(outcome) = measure("matvec") else { return };
    assert!(outcome.inside_share() > 0.98, "{outcome:?}");
    outcome.only(&[("start", "read"), ("column", "read"), ("value", "read"), ("x", "read"), ("y", "write")]);
}

#[test]
fn stencil() {
    let Some(outcome) = measure("stencil") else { return };
    assert!(outcome.inside_share() > 0.98, "{outcome:?}");
    outcome.only(&[("u", "read"), ("r", "write")]);
}

#[test]
fn buckets() {
    let Some(outcome) = measure("buckets") else { return };
    assert!(outcome.inside_share() > 0.98, "{outcome:?}");
    outcome.only(&[("keys", "read"), ("counts", "readwrite")]);
}

#[test]
fn butterflies() {
    let Some(outcome) = measure("butterflies") else { return };
    assert!(outcome.inside_share() > 0.98, "{outcome:?}");
    outcome.only(&[("data", "read"), ("data", "write"), ("roots", "read")]);
}
