//! The front's side: starts the recorder, has it record, and fetches what was recorded.

use super::calls::Followed;
use super::{Request, Response};
use crate::launch::LaunchError;
use crate::perf::faults::{Before, Refusal};
use crate::target::{Target, Until};
use pagewise_kernel::clock;
use pagewise_kernel::helper::{self, Session};
use pagewise_model::fault::event::Move;
use pagewise_model::fault::{
    Attached, Ending, Fault, FaultReport, MemorySites, Names, ResidentPages, Stacks, Wanted,
};
use pagewise_model::usage::Usage;
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
    Refused(#[from] Refusal),
    /// The process to attach to has ended.
    #[error("process {0} has ended")]
    Gone(i32),
    /// The recorder could not be started. The program has not run.
    #[error("cannot start the recorder: {0}")]
    Start(io::Error),
    /// The recorder has ended before its time.
    #[error("the recorder ended unexpectedly: {0}")]
    Died(io::Error),
}

type Line = helper::Line<Request, Response>;

/// A recorder of ours. Dropping it ends it.
#[derive(Debug)]
pub struct Recorder {
    /// None once it is to end.
    line: Option<Line>,
    child: Child,
}

impl Recorder {
    /// Starts `exe args... FD`, which must call [`super::serve`] with that descriptor.
    ///
    /// # Errors
    /// [`RecordError::Start`].
    pub fn start(exe: impl AsRef<OsStr>, args: &[impl AsRef<OsStr>]) -> Result<Self, RecordError> {
        let mut command = Command::new(exe);
        command.args(args);
        let (line, child) = Line::start(command, Session::Own).map_err(RecordError::Start)?;
        Ok(Self { line: Some(line), child })
    }

    /// Process id of the recorder.
    pub(crate) fn pid(&self) -> i32 {
        // Process ids of Linux are below 2^22.
        i32::try_from(self.child.id()).unwrap_or(0)
    }

    fn line(&self) -> io::Result<&Line> {
        self.line.as_ref().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Has the recorder begin with process `pid`, which has not executed its program yet.
    pub(crate) fn attach(&self, pid: i32, wanted: Wanted) -> Result<(), RecordError> {
        self.begin(&Request::Attach { pid, wanted }).map(drop)
    }

    /// Has the recorder begin; tells what there was before.
    fn begin(&self, request: &Request) -> Result<Before, RecordError> {
        let answer = || {
            let line = self.line()?;
            line.send(request)?;
            line.answer()
        };
        match answer().map_err(RecordError::Start)? {
            Response::Attached(before) => Ok(before),
            Response::Refused(refusal) => Err(refusal.into()),
            other => Err(RecordError::Start(out_of_place(&other))),
        }
    }

    /// Pages were moved by a thread that stands still.
    pub(crate) fn moved(&self, moved: Move) -> io::Result<()> {
        self.tell(&Request::Moved(moved))
    }

    /// These pages are resident, of processes that stand still.
    pub(crate) fn hold(&self, resident: Vec<ResidentPages>) -> io::Result<()> {
        self.tell(&Request::Hold(resident))
    }

    /// Tells what the recorder takes before it answers.
    fn tell(&self, request: &Request) -> io::Result<()> {
        let line = self.line()?;
        line.send(request)?;
        match line.answer()? {
            Response::Taken => Ok(()),
            other => Err(out_of_place(&other)),
        }
    }

    /// Ends the recording and fetches who touched what was held last.
    fn memory_sites(&self) -> io::Result<MemorySites> {
        let line = self.line()?;
        line.send(&Request::Sites)?;
        match line.answer()? {
            Response::Sites(sites) => Ok(*sites),
            other => Err(out_of_place(&other)),
        }
    }

    /// Fetches what the recording came to; each part of the list goes to `take`.
    pub(crate) fn conclude(
        &self,
        ending: Ending,
        take: &mut dyn FnMut(&Names, Vec<Fault>),
    ) -> io::Result<FaultReport> {
        let line = self.line()?;
        line.send(&Request::Conclude(Box::new(ending)))?;
        let (report, names) = match line.answer()? {
            Response::Report { report, names } => (report, names),
            other => return Err(out_of_place(&other)),
        };
        loop {
            match line.answer()? {
                Response::Faults(faults) => take(&names, faults),
                Response::End => return Ok(*report),
                other => return Err(out_of_place(&other)),
            }
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        drop(self.line.take());
        // At the end of its line it goes by itself.
        let _ended = self.child.wait();
    }
}

fn out_of_place(response: &Response) -> io::Error {
    let text = match response {
        Response::Attached(_) => "attached",
        Response::Refused(_) => "refused",
        Response::Taken => "taken",
        Response::Sites(_) => "sites",
        Response::Report { .. } => "report",
        Response::Faults(_) => "faults",
        Response::End => "end",
    };
    io::Error::new(io::ErrorKind::InvalidData, format!("unexpected message `{text}`"))
}

/// Sums with times, and no more.
const WANTED: Wanted = Wanted {
    list: false,
    latency: true,
    calls: false,
    stacks: Stacks::None,
    names: false,
    debug_files: false,
    exact: false,
    made_maps: false,
    sites: false,
};

/// Who touched each page, with many stacks; `made_maps` where interpreters were asked for maps of their code.
const fn for_sites(made_maps: bool) -> Wanted {
    let stacks = Stacks::Periodic;
    Wanted { latency: false, stacks, names: true, made_maps, sites: true, ..WANTED }
}

/// A recording beside a run that is made for other figures as well (`run`, `passthrough`), or why there is
/// none. Dropping it ends it.
///
/// What cannot be recorded never fails the run: it is missing, with its reason. The recorder is not of the
/// program's tree: limits do not count it, and what is killed at the end leaves it out.
#[derive(Debug)]
pub(crate) struct Recording(Fact<Recorder>);

impl Recording {
    /// Starts a recorder by `command` and has it record process `pid`, which must not have executed
    /// its program yet.
    pub(crate) fn beside(command: &[OsString], pid: i32) -> Self {
        Self::of(command, pid, WANTED)
    }

    /// The same for [`Self::memory_sites`].
    pub(crate) fn of_sites(command: &[OsString], pid: i32, made_maps: bool) -> Self {
        Self::of(command, pid, for_sites(made_maps))
    }

    fn of(command: &[OsString], pid: i32, wanted: Wanted) -> Self {
        let Some((exe, args)) = command.split_first() else {
            return Self(Fact::missing("not requested in this run"));
        };
        let start = || -> Result<Recorder, RecordError> {
            let recorder = Recorder::start(exe, args)?;
            recorder.attach(pid, wanted)?;
            Ok(recorder)
        };
        Self(Fact::from(start()))
    }

    /// Process id of the recorder.
    pub(crate) fn pid(&self) -> Option<i32> {
        self.0.known().map(Recorder::pid)
    }

    /// Has the recorder do something; where that fails, nothing is known from then on.
    pub(crate) fn ask(&mut self, what: impl FnOnce(&Recorder) -> io::Result<()>) {
        if let Fact::Known(recorder) = &self.0
            && let Err(error) = what(recorder)
        {
            self.0 = Fact::missing(RecordError::Died(error).to_string());
        }
    }

    /// Who touched what was held last.
    pub(crate) fn memory_sites(self) -> Fact<MemorySites> {
        self.0.and_then(|recorder| Fact::from(recorder.memory_sites().map_err(RecordError::Died)))
    }

    /// What was recorded of the program, which has ended and used so much.
    pub(crate) fn conclude(self, usage: &Usage) -> Fact<FaultReport> {
        let recorder = match self.0 {
            Fact::Known(recorder) => recorder,
            Fact::Missing(why) => return Fact::Missing(why),
        };
        let followed = Followed::at_exec(Fact::missing("not read in this run"));
        let ending = Ending::of_started(usage.clone(), followed.exec, followed.calls);
        Fact::from(recorder.conclude(ending, &mut |_, _| {}).map_err(RecordError::Died))
    }
}

/// Records `target` from now on. Each part of the list of faults, where one is wanted, goes to
/// `take`.
///
/// # Errors
/// [`RecordError`] when it cannot be recorded; it runs on either way.
pub fn record_running(
    target: &Target,
    recorder: &Recorder,
    wanted: Wanted,
    until: &Until<'_>,
    take: &mut dyn FnMut(&Names, Vec<Fault>),
) -> Result<FaultReport, RecordError> {
    let pid = target.pid();
    let attached = recorder.begin(&Request::AttachRunning { pid, wanted });
    if target.has_ended() && attached.is_err() {
        return Err(RecordError::Gone(pid));
    }
    let Before { faults: before, threads } = attached?;
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
    let ending = Ending {
        wall_ns,
        usage: Fact::missing(ran_before),
        counted_faults,
        exec: Fact::missing(ran_before),
        calls: Fact::missing(ran_before),
        attached: Some(Attached { pid, threads, has_ended }),
        until_ns: Some(until),
    };
    recorder.conclude(ending, take).map_err(RecordError::Died)
}
