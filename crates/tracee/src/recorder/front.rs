//! The front's side: starts the recorder, requests the recording, and fetches the result.

use super::calls::FollowOutcome;
use super::{RecorderRequest, RecorderResponse};
use crate::launch::LaunchError;
use crate::perf::faults::{InitialCounts, RecordingRefusal};
use crate::target::{RecordingCourse, TargetProcess};
use pagewise_kernel::clock;
use pagewise_kernel::helper::{self, HelperSession};
use pagewise_model::fault::event::MremapEvent;
use pagewise_model::fault::{
    AttachedProcess, FaultNames, FaultRecordingOptions, FaultReport, MemorySites, PageFault,
    RecordingEnd, ResidentPages, StackRecording,
};
use pagewise_model::usage::ProgramUsage;
use pagewise_model::{Fact, Nanos};
use std::ffi::{OsStr, OsString};
use std::io;
use std::process::{Child, Command};

/// A recording that failed.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The program could not be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// Faults cannot be recorded here. The program has not run.
    #[error(transparent)]
    Refused(#[from] RecordingRefusal),
    /// The process to attach to has ended.
    #[error("process {0} has ended")]
    Gone(i32),
    /// The recorder could not be started. The program has not run.
    #[error("cannot start the recorder: {0}")]
    Start(io::Error),
    /// The recorder has ended unexpectedly.
    #[error("the recorder ended unexpectedly: {0}")]
    Died(io::Error),
}

type Line = helper::HelperChannel<RecorderRequest, RecorderResponse>;

/// A recorder process. Dropping this ends it.
#[derive(Debug)]
pub struct FaultRecorder {
    /// `None` once the recorder is to end.
    line: Option<Line>,
    child: Child,
}

impl FaultRecorder {
    /// Starts `exe args... FD`, which must call [`super::serve`] with that descriptor.
    ///
    /// # Errors
    /// [`RecordError::Start`].
    pub fn start(exe: impl AsRef<OsStr>, args: &[impl AsRef<OsStr>]) -> Result<Self, RecordError> {
        let mut command = Command::new(exe);
        command.args(args);
        let (line, child) = Line::start(command, HelperSession::Own).map_err(RecordError::Start)?;
        Ok(Self { line: Some(line), child })
    }

    /// Process id of the recorder.
    pub(crate) fn pid(&self) -> i32 {
        // Linux process ids are below 2^22.
        i32::try_from(self.child.id()).unwrap_or(0)
    }

    fn line(&self) -> io::Result<&Line> {
        self.line.as_ref().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Starts recording process `pid`, which has not executed its program yet.
    pub(crate) fn attach(
        &self,
        pid: i32,
        wanted: FaultRecordingOptions,
    ) -> Result<(), RecordError> {
        self.begin(&RecorderRequest::Attach { pid, wanted }).map(drop)
    }

    /// Starts the recording. Returns the counts from before.
    fn begin(&self, request: &RecorderRequest) -> Result<InitialCounts, RecordError> {
        let answer = || {
            let line = self.line()?;
            line.send(request)?;
            line.answer()
        };
        match answer().map_err(RecordError::Start)? {
            RecorderResponse::Attached(before) => Ok(before),
            RecorderResponse::Refused(refusal) => Err(refusal.into()),
            other => Err(RecordError::Start(out_of_place(&other))),
        }
    }

    /// Reports a move of pages by a thread that is stopped.
    pub(crate) fn moved(&self, moved: MremapEvent) -> io::Result<()> {
        self.tell(&RecorderRequest::Moved(moved))
    }

    /// Reports these pages as resident. Their processes are stopped.
    pub(crate) fn hold(&self, resident: Vec<ResidentPages>) -> io::Result<()> {
        self.tell(&RecorderRequest::Hold(resident))
    }

    /// Sends a request that the recorder only confirms.
    fn tell(&self, request: &RecorderRequest) -> io::Result<()> {
        let line = self.line()?;
        line.send(request)?;
        match line.answer()? {
            RecorderResponse::Taken => Ok(()),
            other => Err(out_of_place(&other)),
        }
    }

    /// Ends the recording and fetches which code touched the pages held last.
    fn memory_sites(&self) -> io::Result<MemorySites> {
        let line = self.line()?;
        line.send(&RecorderRequest::Sites)?;
        match line.answer()? {
            RecorderResponse::Sites(sites) => Ok(*sites),
            other => Err(out_of_place(&other)),
        }
    }

    /// Fetches the result of the recording. Each part of the fault list goes to `take`.
    pub(crate) fn conclude(
        &self,
        ending: RecordingEnd,
        take: &mut dyn FnMut(&FaultNames, Vec<PageFault>),
    ) -> io::Result<FaultReport> {
        let line = self.line()?;
        line.send(&RecorderRequest::Conclude(Box::new(ending)))?;
        let (report, names) = match line.answer()? {
            RecorderResponse::Report { report, names } => (report, names),
            other => return Err(out_of_place(&other)),
        };
        loop {
            match line.answer()? {
                RecorderResponse::Faults(faults) => take(&names, faults),
                RecorderResponse::End => return Ok(*report),
                other => return Err(out_of_place(&other)),
            }
        }
    }
}

impl Drop for FaultRecorder {
    fn drop(&mut self) {
        drop(self.line.take());
        // The recorder ends by itself when its connection closes.
        let _ended = self.child.wait();
    }
}

fn out_of_place(response: &RecorderResponse) -> io::Error {
    let text = match response {
        RecorderResponse::Attached(_) => "attached",
        RecorderResponse::Refused(_) => "refused",
        RecorderResponse::Taken => "taken",
        RecorderResponse::Sites(_) => "sites",
        RecorderResponse::Report { .. } => "report",
        RecorderResponse::Faults(_) => "faults",
        RecorderResponse::End => "end",
    };
    io::Error::new(io::ErrorKind::InvalidData, format!("unexpected message `{text}`"))
}

/// Only sums with times.
const WANTED: FaultRecordingOptions = FaultRecordingOptions {
    list: false,
    latency: true,
    calls: false,
    stacks: StackRecording::None,
    names: false,
    debug_files: false,
    exact: false,
    made_maps: false,
    sites: false,
};

/// Attribution of each page to the code that touched it, with many stacks. `made_maps`: interpreters were
/// asked for maps of their code.
const fn for_sites(made_maps: bool) -> FaultRecordingOptions {
    let stacks = StackRecording::Periodic;
    FaultRecordingOptions { latency: false, stacks, names: true, made_maps, sites: true, ..WANTED }
}

/// A recording beside a run that is also made for other figures (`run`, `passthrough`), or the reason why
/// there is none. Dropping this ends it.
///
/// A recording that is not possible never fails the run: it is missing, with its reason. The recorder is not
/// part of the program's tree: limits do not count it, and the kill at the end spares it.
#[derive(Debug)]
pub(crate) struct FaultRecording(Fact<FaultRecorder>);

impl FaultRecording {
    /// Starts a recorder with `command` and lets it record process `pid`, which must not have executed its
    /// program yet.
    pub(crate) fn beside(command: &[OsString], pid: i32) -> Self {
        Self::of(command, pid, WANTED)
    }

    /// Like [`Self::beside`], for [`Self::memory_sites`].
    pub(crate) fn of_sites(command: &[OsString], pid: i32, made_maps: bool) -> Self {
        Self::of(command, pid, for_sites(made_maps))
    }

    fn of(command: &[OsString], pid: i32, wanted: FaultRecordingOptions) -> Self {
        let Some((exe, args)) = command.split_first() else {
            return Self(Fact::missing("not requested in this run"));
        };
        let start = || -> Result<FaultRecorder, RecordError> {
            let recorder = FaultRecorder::start(exe, args)?;
            recorder.attach(pid, wanted)?;
            Ok(recorder)
        };
        Self(Fact::from(start()))
    }

    /// Process id of the recorder.
    pub(crate) fn pid(&self) -> Option<i32> {
        self.0.known().map(FaultRecorder::pid)
    }

    /// Sends a request to the recorder. If that fails, the recording is missing from then on.
    pub(crate) fn ask(&mut self, what: impl FnOnce(&FaultRecorder) -> io::Result<()>) {
        if let Fact::Known(recorder) = &self.0
            && let Err(error) = what(recorder)
        {
            self.0 = Fact::missing(RecordError::Died(error).to_string());
        }
    }

    /// Which code touched the pages held last.
    pub(crate) fn memory_sites(self) -> Fact<MemorySites> {
        self.0.and_then(|recorder| Fact::from(recorder.memory_sites().map_err(RecordError::Died)))
    }

    /// The recording of the program, which has ended with this `usage`.
    pub(crate) fn conclude(self, usage: &ProgramUsage) -> Fact<FaultReport> {
        let recorder = match self.0 {
            Fact::Known(recorder) => recorder,
            Fact::Missing(why) => return Fact::Missing(why),
        };
        let followed = FollowOutcome::at_exec(Fact::missing("not read in this run"));
        let ending = RecordingEnd::of_started(usage.clone(), followed.exec, followed.calls);
        Fact::from(recorder.conclude(ending, &mut |_, _| {}).map_err(RecordError::Died))
    }
}

/// Records `target` from now on. Each part of the fault list, if requested, goes to `take`.
///
/// # Errors
/// [`RecordError`] when it cannot be recorded. The target runs on either way.
pub fn record_running(
    target: &TargetProcess,
    recorder: &FaultRecorder,
    wanted: FaultRecordingOptions,
    until: &RecordingCourse<'_>,
    take: &mut dyn FnMut(&FaultNames, Vec<PageFault>),
) -> Result<FaultReport, RecordError> {
    let pid = target.pid();
    let attached = recorder.begin(&RecorderRequest::AttachRunning { pid, wanted });
    if target.has_ended() && attached.is_err() {
        return Err(RecordError::Gone(pid));
    }
    let InitialCounts { faults: before, threads } = attached?;
    (until.begun)(threads);
    let start = clock::now();
    let has_ended = target.attend(until);
    let until = clock::now();
    let (wall_ns, after) = (Nanos(until.0.saturating_sub(start.0)), target.counted());
    let counted_faults = match before {
        Some(before) => after.map(|after| after.saturating_sub(before)),
        None => Fact::missing("its counters could not be read at the start"),
    };
    let ran_before = "the process was running already";
    let ending = RecordingEnd {
        wall_ns,
        usage: Fact::missing(ran_before),
        counted_faults,
        exec: Fact::missing(ran_before),
        calls: Fact::missing(ran_before),
        attached: Some(AttachedProcess { pid, threads, has_ended }),
        until_ns: Some(until),
    };
    recorder.conclude(ending, take).map_err(RecordError::Died)
}
