//! The recorder: a process of ours beside a program that takes down every page fault of it.
//!
//! It has a session of its own, and so its own share of the CPUs: with autogroups (sched(7)) a
//! session of many busy threads leaves a process of the same session next to nothing, and half of
//! the records were lost. The program keeps the caller's session, process group and terminal, so
//! that Ctrl-C and job control are what they were; whatever it sends or gets, the recorder is not
//! touched. The recorder ends when the front at the other end of its socket is gone.
//!
//! What becomes of the events is not known here: whoever starts the recorder gives it a maker of
//! [`Sink`]s. The two processes speak as `pagewise_kernel::helper` says.
//!
//! Overhead beside what `perf::faults` says: one process, awake when a ring is a quarter full, ten times
//! a second at the least, and every 5 ms with a program that makes its own code.

mod beside;
mod calls;
mod exact;
mod exec_stop;
mod front;
mod running;
mod server;

pub(crate) use beside::Recording;
pub(crate) use exec_stop::counts;
pub use front::{RecordError, Recorded, Recorder, record_through};
pub use running::{Target, TargetError, Until, record_running};
pub use server::serve;

use crate::perf::faults::{Before, Detail};
pub use crate::perf::faults::{Refusal, Sees};
use pagewise_model::fault::event::Event;
use pagewise_model::fault::{Ending, Fault, FaultReport, Names, Stacks};
use serde::{Deserialize, Serialize};

/// Faults in one message.
const FAULTS_A_MESSAGE: usize = 4000;

/// What to record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Keep every fault, not only what they add up to.
    pub list: bool,
    /// Record the ends of all faults, and so how long they took; else of major ones alone, and of the
    /// others no more than their places, unless `exact` asks what they were about.
    pub latency: bool,
    /// Follow the system calls of a program that is started, for the account.
    pub calls: bool,
    /// Which user stacks to record.
    pub stacks: Stacks,
    /// Look up functions and lines of source.
    pub names: bool,
    /// Read lines of source from separate debug files too.
    pub debug_files: bool,
    /// Make each page that is touched a fault of its own.
    pub exact: bool,
}

impl Wanted {
    /// How much of each fault that needs.
    const fn detail(&self) -> Detail {
        match (self.latency, self.exact) {
            (true, _) => Detail::Times,
            (false, true) => Detail::Kinds,
            (false, false) => Detail::Places,
        }
    }
}

/// What came of the events.
#[derive(Debug, Clone, PartialEq)]
pub struct Conclusion {
    /// What they add up to.
    pub report: FaultReport,
    /// What the faults refer to.
    pub names: Names,
    /// Each fault, in order; empty when they were not wanted.
    pub faults: Vec<Fault>,
}

/// Takes events as they come.
pub trait Sink {
    /// Takes some out of `events`: all of them, in the order of their time.
    fn take(&mut self, events: &mut Vec<Event>);
    /// Says what came of them.
    fn conclude(self: Box<Self>, ending: &Ending) -> Conclusion;
}

/// Makes the sink for what is wanted and what is recorded.
pub type MakeSink<'a> = &'a dyn Fn(Wanted, Sees) -> Box<dyn Sink>;

/// What the front asks for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Request {
    /// Record this process, which has not executed its program yet.
    Attach { pid: i32, wanted: Wanted },
    /// Record this process, which is running, from now on.
    AttachRunning { pid: i32, wanted: Wanted },
    /// The recording ends.
    Conclude(Box<Ending>),
}

/// What the recorder answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Response {
    /// All threads are followed.
    Attached(Before),
    Refused(Refusal),
    /// The answer to `Conclude`; faults follow, then `End`.
    Report {
        report: Box<FaultReport>,
        names: Names,
    },
    Faults(Vec<Fault>),
    End,
}
