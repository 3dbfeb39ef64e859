//! A session's interface to the outside, and the arms it runs there.

use crate::output::CapturedOutput;
use crate::race::{RaceProgress, SessionClock, SystemTotals};
use crate::request::{PLAIN, SessionRequest};
use crate::stop::SessionStop;
use pagewise_model::look::{TimedFaults, TracedLook};
use pagewise_model::machine::Machine;
use pagewise_model::memory_account::MemoryAccount;
use pagewise_model::plan::{ArmSettings, HugeFile, RemedyDose};
use pagewise_model::pool::HugePool;
use pagewise_model::price::SessionPrices;
use pagewise_model::run::SavedRun;
use pagewise_model::spec::OwnArm;
use pagewise_model::{Bytes, Fact, Nanos};
use pagewise_remedy::RemedyMechanism;
use pagewise_remedy::warmth::TextNow;
use pagewise_tracee::checkpoint::RunCheckpoint;
use pagewise_tracee::run::FinishedRun;
use std::ffi::OsString;

/// One way to run the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramArm {
    /// Its name in the report.
    pub name: String,
    /// The command it runs.
    pub command: Vec<OsString>,
    /// The settings that it changes.
    pub settings: ArmSettings,
    /// How its success is read, one for each dose. Empty for the unchanged program and for the user's own
    /// arms, whose success is not checked this way.
    pub mechanism: Vec<RemedyMechanism>,
    /// Files that other arms bring into huge folios and that must be in their state after a plain start for
    /// this arm.
    pub natural_files: Vec<String>,
    /// The doses that it consists of. Empty for the plain program and the user's own arms.
    pub doses: Vec<RemedyDose>,
    /// Why it is rejected without being measured, if so: its output differs from the control's.
    pub barred: Option<String>,
}

impl ProgramArm {
    /// An arm for an unchanged command.
    #[must_use]
    pub fn unchanged(name: &str, command: &[OsString]) -> Self {
        Self {
            name: name.to_owned(),
            command: command.to_vec(),
            settings: ArmSettings::default(),
            mechanism: Vec::new(),
            natural_files: Vec::new(),
            doses: Vec::new(),
            barred: None,
        }
    }

    /// The arm for the unchanged program.
    #[must_use]
    pub fn plain(request: &SessionRequest) -> Self {
        Self::unchanged(PLAIN, &request.spec.command)
    }

    /// An arm of the user's own.
    #[must_use]
    pub fn own(own: &OwnArm) -> Self {
        Self::unchanged(&own.name, &own.command)
    }
}

/// The known limits of a run, beyond which it is stopped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunLimits {
    /// Wall time.
    pub time: Option<Nanos>,
    /// Private memory of all its processes; the machine's room binds besides.
    pub memory: Option<Bytes>,
    /// Where it ends early.
    pub checkpoint: Option<RunCheckpoint>,
}

/// How a traced look is made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TracedLookPlan {
    /// Where it ends early.
    pub checkpoint: Option<RunCheckpoint>,
    /// The code is stepped in long bursts.
    pub code: bool,
}

/// What is observed during a timed run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RunObservation {
    /// Nothing.
    #[default]
    Nothing,
    /// The kernel: samples and page-walk counts are taken.
    Kernel,
    /// The speed of CPUs and memory.
    Speeds,
}

/// How a timed run is made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunTiming {
    /// Memory to touch and free right before it, so that the host backs it.
    pub fresh: Bytes,
    /// What is observed meanwhile.
    pub watch: RunObservation,
    /// The memory of its processes is sampled.
    pub memory: bool,
    /// The limits of the run.
    pub limits: RunLimits,
}

/// A timed run.
#[derive(Debug, Clone)]
pub struct TimedRun {
    /// The run, as the kernel accounted for it.
    pub done: FinishedRun,
    /// For each file that this or another arm brings into huge folios: its huge slots right after the run,
    /// beyond those after a plain start.
    pub huge_slots: Vec<(String, u64)>,
    /// Memory was conditioned before it.
    pub conditioned: bool,
    /// Its output, if that was kept.
    pub kept: Option<CapturedOutput>,
}

impl TimedRun {
    /// Huge pages that the kernel handed out meanwhile, transparent ones and those of the pool.
    #[must_use]
    pub fn huge_pages(&self) -> u64 {
        self.done.huge_faults + self.watched(pagewise_remedy::POOL)
    }

    /// How often the mechanism of this watcher took effect.
    pub(crate) fn watched(&self, name: &str) -> u64 {
        let own = self.done.watches.iter().filter(|report| report.watch == name);
        own.map(|report| report.counter).sum()
    }
}

/// Events shown to the user during a session.
#[derive(Debug)]
pub enum SessionEvent<'a> {
    /// A stage begins.
    Stage(&'a str),
    /// Diagnosis and choice are complete: the current run.
    Chosen(&'a SavedRun),
    /// How far the experiment is.
    Progress(&'a RaceProgress<'a>),
}

/// What every session needs from outside.
pub trait SessionSurroundings: SessionClock {
    /// The machine.
    fn machine(&mut self) -> Machine;
    /// Prices of this session.
    ///
    /// # Errors
    /// When they cannot be measured, or the user interrupts.
    fn prices(&mut self) -> Result<SessionPrices, SessionStop>;
    /// Shows the user what happens.
    fn tell(&mut self, event: &SessionEvent<'_>);
}

/// The additional interface of a session on a program.
pub trait ProgramWorld: SessionSurroundings {
    /// The pool of reserved huge pages, and how many this session may add.
    fn pool(&mut self) -> Fact<HugePool>;
    /// The traced look at an arm, with the last line of standard error.
    ///
    /// # Errors
    /// When the program cannot be started or the user interrupts.
    fn traced(
        &mut self,
        arm: &ProgramArm,
        plan: TracedLookPlan,
    ) -> Result<(Fact<TracedLook>, String), SessionStop>;
    /// A session is continued that had this look.
    fn seen(&mut self, traced: &Fact<TracedLook>);
    /// One timed run, right after `--prepare` and the conditioning of memory.
    ///
    /// # Errors
    /// When the program cannot be started, breaks a limit, or the user interrupts.
    fn timed(&mut self, arm: &ProgramArm, timing: &RunTiming) -> Result<TimedRun, SessionStop>;
    /// One timed run of each of these arms, with its limits. The runs of one block are made at once, started
    /// in this order, on one CPU, or with `spread` on all of them. Blocks run side by side. `fresh` bytes are
    /// touched and freed before. A run is an error if it cannot be started or breaks a limit. With `keep` the
    /// output of each is kept.
    ///
    /// # Errors
    /// If none of them can be made.
    fn timed_at_once(
        &mut self,
        blocks: &[Vec<(&ProgramArm, RunLimits)>],
        fresh: Bytes,
        spread: bool,
        keep: bool,
    ) -> Result<Vec<Vec<Result<TimedRun, SessionStop>>>, SessionStop>;
    /// One run with each of its page faults timed, otherwise made like a timed one. Missing if they cannot be
    /// recorded.
    ///
    /// # Errors
    /// If the program cannot be started, breaks a limit, or the user interrupts.
    fn recorded(
        &mut self,
        arm: &ProgramArm,
        timing: &RunTiming,
    ) -> Result<Fact<TimedFaults>, SessionStop>;
    /// One untimed run whose memory is accounted for at its peak. Missing if that is impossible.
    ///
    /// # Errors
    /// If the program cannot be started, or the user interrupts.
    fn accounted(
        &mut self,
        arm: &ProgramArm,
        limits: &RunLimits,
    ) -> Result<Fact<MemoryAccount>, SessionStop>;
    /// One untimed run with its output kept.
    ///
    /// # Errors
    /// When the program cannot be started, breaks a limit, or the user interrupts.
    fn captured(
        &mut self,
        arm: &ProgramArm,
        limits: &RunLimits,
    ) -> Result<CapturedOutput, SessionStop>;
    /// How much of the text of each of these files is on huge pages in a program that starts now.
    fn text_on_huge_pages(&mut self, files: &[HugeFile]) -> Vec<TextNow>;
    /// The totals now.
    fn system_totals(&mut self) -> SystemTotals;
}
