//! The recorder: a process beside a program that records all its page faults.
//!
//! It has its own session, and therefore its own share of the CPUs. With autogroups (sched(7)), a session of
//! many busy threads leaves almost nothing to another process of that session, and half of the records were
//! lost. The program keeps the caller's session, process group and terminal, so Ctrl-C and job control work
//! as usual. Signals that the program sends or gets do not affect the recorder. The recorder ends when the
//! front at the other end of its socket is gone.
//!
//! This module does not process the events: the code that starts the recorder supplies a maker of [`Sink`]s.
//! The protocol of the two processes is in `pagewise_kernel::helper`.
//!
//! Overhead besides that of `perf::faults`: one process, which wakes up when a ring is a quarter full, at
//! least ten times per second, and every 5 ms for a program that generates code.

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

/// Result of a recording.
#[derive(Debug, Clone, PartialEq)]
pub struct Conclusion {
    /// Summary of the events.
    pub report: FaultReport,
    /// Names that the faults refer to.
    pub names: Names,
    /// All faults in order; empty unless requested.
    pub faults: Vec<Fault>,
}

/// Takes events as they come.
pub trait Sink {
    /// Takes all of `events`, which are in the order of their times.
    fn take(&mut self, events: &mut Vec<Event>);
    /// These pages are resident. All earlier events have been taken.
    fn hold(&mut self, resident: &[ResidentPages]);
    /// Reports which code touched the pages held last.
    fn memory_sites(self: Box<Self>) -> MemorySites;
    /// Returns the result.
    fn conclude(self: Box<Self>, ending: &Ending) -> Conclusion;
}

/// Makes the sink for what is requested and what can be recorded.
pub type MakeSink<'a> = &'a dyn Fn(Wanted, Sees) -> Box<dyn Sink>;

/// A request of the front.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Request {
    /// Records this process, which has not executed its program yet.
    Attach { pid: i32, wanted: Wanted },
    /// Records this running process from now on.
    AttachRunning { pid: i32, wanted: Wanted },
    /// A stopped thread has moved pages.
    Moved(Move),
    /// These pages are resident; their processes are stopped.
    Hold(Vec<ResidentPages>),
    /// Ends the recording and asks which code touched the pages held last.
    Sites,
    /// Ends the recording and asks for the report.
    Conclude(Box<Ending>),
}

/// An answer of the recorder.
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
