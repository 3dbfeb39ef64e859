//! The recorder: a process of ours beside a program that takes down every page fault of it.
//!
//! It has a session of its own, and so its own share of the CPUs: with autogroups (sched(7)) a
//! session of many busy threads leaves a process of the same session next to nothing, and half of
//! the records were lost. The program keeps the caller's session, process group and terminal, so
//! that Ctrl-C and job control are what they were; whatever it sends or gets, the recorder is not
//! touched. The recorder ends when the front at the other end of its socket is gone.
//!
//! What becomes of the events is not known here: whoever starts the recorder gives it a maker of
//! [`Sink`]s. The two processes speak in the messages of `supervise::wire`.
//!
//! Overhead beside what `perf::faults` says: one process, awake when a ring is a quarter full.

mod exec_stop;
mod front;
mod server;

pub use front::{RecordError, Recorded, Recorder, record_through};
pub use server::serve;

use crate::perf::faults::Refusal;
use pagewise_model::Fact;
use pagewise_model::fault::event::Event;
use pagewise_model::fault::{ExecCounts, Fault, FaultReport, Names};
use pagewise_model::usage::Usage;
use serde::{Deserialize, Serialize};

/// Faults in one message.
const FAULTS_A_MESSAGE: usize = 4000;

/// What to record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Keep every fault, not only what they add up to.
    pub list: bool,
}

/// How the program ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ending {
    /// What it used.
    pub usage: Usage,
    /// The kernel's counts when it had just been executed.
    pub exec: Fact<ExecCounts>,
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
    /// Takes some, in the order of their time.
    fn take(&mut self, events: Vec<Event>);
    /// Says what came of them.
    fn conclude(self: Box<Self>, ending: &Ending) -> Conclusion;
}

/// Makes the sink for what is wanted; `sees_kernel` says whether faults in the kernel are recorded.
pub type MakeSink<'a> = &'a dyn Fn(Wanted, bool) -> Box<dyn Sink>;

/// What the front asks for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Request {
    /// Record this process, which has not executed its program yet.
    Attach { pid: i32, wanted: Wanted },
    /// The program has ended.
    Conclude(Box<Ending>),
}

/// What the recorder answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Response {
    Attached,
    Refused(Refusal),
    /// The answer to `Conclude`; faults follow, then `End`.
    Report {
        report: Box<FaultReport>,
        names: Names,
    },
    Faults(Vec<Fault>),
    End,
}
