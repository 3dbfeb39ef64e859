//! The recorder: a process beside a program that records all its page faults.
//!
//! It has its own session, and therefore its own share of the CPUs. With autogroups (sched(7)), a session of
//! many busy threads leaves almost nothing to another process of that session, and half of the records were
//! lost. The program keeps the caller's session, process group and terminal, so Ctrl-C and job control work
//! as usual. Signals that the program sends or gets do not affect the recorder. The recorder ends when the
//! front at the other end of its socket is gone.
//!
//! This module does not process the events: the code that starts the recorder supplies a maker of [`FaultSink`]s.
//! The protocol of the two processes is in `pagewise_kernel::helper`.
//!
//! Overhead besides that of `perf::faults`: one process, which wakes up when a ring is a quarter full, at
//! least ten times per second, and every 5 ms for a program that generates code.

pub(crate) mod calls;
pub(crate) mod exec_stop;
mod front;
mod server;

pub(crate) use front::FaultRecording;
pub use front::{FaultRecorder, RecordError, record_running};
pub use server::serve;

use crate::perf::faults::InitialCounts;
pub use crate::perf::faults::RecordingRefusal;
use pagewise_model::fault::event::{FaultEvent, MremapEvent};
use pagewise_model::fault::{
    FaultNames, FaultRecordingOptions, FaultReport, MemorySites, PageFault, RecordingEnd,
    RecordingScope, ResidentPages,
};
use serde::{Deserialize, Serialize};

/// Faults in one message.
const FAULTS_A_MESSAGE: usize = 4000;

/// Result of a recording.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordingConclusion {
    /// Summary of the events.
    pub report: FaultReport,
    /// Names that the faults refer to.
    pub names: FaultNames,
    /// All faults in order; empty unless requested.
    pub faults: Vec<PageFault>,
}

/// Takes events as they come.
pub trait FaultSink {
    /// Takes all of `events`, which are in the order of their times.
    fn take(&mut self, events: &mut Vec<FaultEvent>);
    /// These pages are resident. All earlier events have been taken.
    fn hold(&mut self, resident: &[ResidentPages]);
    /// Reports which code touched the pages held last.
    fn memory_sites(self: Box<Self>) -> MemorySites;
    /// Returns the result.
    fn conclude(self: Box<Self>, ending: &RecordingEnd) -> RecordingConclusion;
}

/// Makes the sink for what is requested and what can be recorded.
pub type MakeSink<'a> = &'a dyn Fn(FaultRecordingOptions, RecordingScope) -> Box<dyn FaultSink>;

/// A request of the front.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RecorderRequest {
    /// Records this process, which has not executed its program yet.
    Attach { pid: i32, wanted: FaultRecordingOptions },
    /// Records this running process from now on.
    AttachRunning { pid: i32, wanted: FaultRecordingOptions },
    /// A stopped thread has moved pages.
    Moved(MremapEvent),
    /// These pages are resident; their processes are stopped.
    Hold(Vec<ResidentPages>),
    /// Ends the recording and asks which code touched the pages held last.
    Sites,
    /// Ends the recording and asks for the report.
    Conclude(Box<RecordingEnd>),
}

/// An answer of the recorder.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RecorderResponse {
    /// All threads are followed.
    Attached(InitialCounts),
    Refused(RecordingRefusal),
    /// The answer to `Moved` and `Hold`.
    Taken,
    /// The answer to `Sites`.
    Sites(Box<MemorySites>),
    /// The answer to `Conclude`; faults follow, then `End`.
    Report {
        report: Box<FaultReport>,
        names: FaultNames,
    },
    Faults(Vec<PageFault>),
    End,
}
