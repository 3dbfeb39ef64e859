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

pub(crate) mod calls;
pub(crate) mod exec_stop;
mod front;
mod server;

pub(crate) use front::Recording;
pub use front::{RecordError, Recorder, record_running};
pub use server::serve;

use crate::perf::faults::Before;
pub use crate::perf::faults::Refusal;
use pagewise_model::fault::event::{Event, Move};
use pagewise_model::fault::{
    Ending, Fault, FaultReport, MemorySites, Names, ResidentPages, Sees, Wanted,
};
use serde::{Deserialize, Serialize};

/// Faults in one message.
const FAULTS_A_MESSAGE: usize = 4000;

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
    /// These pages are resident, and all that happened before was taken.
    fn hold(&mut self, resident: &[ResidentPages]);
    /// Says who touched what was held last.
    fn memory_sites(self: Box<Self>) -> MemorySites;
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
    /// Pages were moved by a thread that stands still.
    Moved(Move),
    /// These pages are resident; those who hold them stand still.
    Hold(Vec<ResidentPages>),
    /// The recording ends; who touched what was held last is asked.
    Sites,
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
    /// The answer to `Moved` and `Hold`.
    Taken,
    /// The answer to `Sites`.
    Sites(Box<MemorySites>),
    /// The answer to `Conclude`; faults follow, then `End`.
    Report {
        report: Box<FaultReport>,
        names: Names,
    },
    Faults(Vec<Fault>),
    End,
}
