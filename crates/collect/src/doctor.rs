//! What works on this host and what does not, found by trying, and what to do about it.
//!
//! Every check does the thing that a recording does, with the same code and the same attributes; none concludes from a
//! setting that something would work. Settings are read to explain a failure and to name the command that ends it.

mod advice;
mod perf;
mod settings;
mod system;

pub use advice::explain_perf_open_failure;
pub use settings::{Capabilities, Setting, Settings, perf_event_paranoid};

use advice::Advice;
use nix::errno::Errno;

/// Outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// All of it works.
    Works,
    /// A recording is possible, and will know less.
    Limited,
    /// It does not work.
    Fails,
}

impl Verdict {
    /// The word that text and JSON use.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Works => "works",
            Verdict::Limited => "limited",
            Verdict::Fails => "fails",
        }
    }
}

/// One thing that was tried.
#[derive(Clone, Debug)]
pub struct Check {
    /// A short name, stable for scripts: `page-faults`.
    pub name: &'static str,
    /// What a recording uses it for.
    pub purpose: &'static str,
    /// What came of it.
    pub verdict: Verdict,
    /// No recording is possible without it.
    pub essential: bool,
    /// What was seen, in a sentence.
    pub finding: String,
    /// The error of the system call that failed.
    pub errno: Option<Errno>,
    /// The setting that decides.
    pub setting: Option<Setting>,
    /// A command that makes it work.
    pub fix: Option<String>,
}

/// All checks and the settings behind them.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    /// In the order in which they matter.
    pub checks: Vec<Check>,
    /// What the kernel is set to.
    pub settings: Settings,
}

impl Diagnosis {
    /// Whether programs can be recorded.
    pub fn can_record(&self) -> bool {
        self.checks.iter().all(|check| !check.essential || check.verdict != Verdict::Fails)
    }
}

/// Tries everything. Takes about half a second, most of it of CPU time to be sampled; starts two short-lived children.
pub fn examine() -> Diagnosis {
    let settings = Settings::read();
    let mut checks = perf::checks(&settings);
    checks.extend(system::checks(&settings));
    Diagnosis { checks, settings }
}

impl Check {
    fn new(name: &'static str, purpose: &'static str, finding: impl Into<String>) -> Self {
        let finding = finding.into();
        Check {
            name,
            purpose,
            verdict: Verdict::Works,
            essential: false,
            finding,
            errno: None,
            setting: None,
            fix: None,
        }
    }

    fn limited(mut self, finding: impl Into<String>) -> Self {
        self.verdict = Verdict::Limited;
        self.finding = finding.into();
        self
    }

    fn fails(mut self, finding: impl Into<String>) -> Self {
        self.verdict = Verdict::Fails;
        self.finding = finding.into();
        self
    }

    fn essential(mut self) -> Self {
        self.essential = true;
        self
    }

    fn errno(mut self, errno: Errno) -> Self {
        self.errno = Some(errno);
        self
    }

    fn setting(mut self, setting: Option<Setting>) -> Self {
        self.setting = setting;
        self
    }

    fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// Fails for a reason that has been looked up.
    fn advised(mut self, errno: Errno, advice: Advice) -> Self {
        self.setting = advice.setting;
        self.fix = advice.fix;
        self.fails(advice.why).errno(errno)
    }
}
