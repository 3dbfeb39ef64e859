//! The real world of a session: programs run below the supervising process, prices come from
//! `measure`, the load of the machine from /proc.

mod at_once;
mod failure;
mod runs;

use crate::conditions;
use crate::faults;
use crate::files::{self, FileSnapshot};
use crate::folios::NaturalFolios;
use crate::output::CapturedOutput;
use crate::race::{SessionClock, SystemTotals};
use crate::request::SessionRequest;
use crate::scratch::ScratchDir;
use crate::stop::SessionStop;
use crate::world::{
    ProgramArm, ProgramWorld, RunLimits, RunObservation, RunTiming, SessionEvent,
    SessionSurroundings, TimedRun, TracedLookPlan,
};
use at_once::SupervisorLauncher;
use failure::{clean_unsupervised, stopped, within_limits};
use pagewise_kernel::keep::CacheKeeper;
use pagewise_kernel::proc::{pressure, system_stat};
use pagewise_kernel::{clock, limits};
use pagewise_measure::{CalibrationOptions, PriceError, SpeedSamplers};
use pagewise_model::look::{TimedFaults, TracedLook};
use pagewise_model::machine::{Machine, SmallFolios};
use pagewise_model::memory_account::MemoryAccount;
use pagewise_model::plan::HugeFile;
use pagewise_model::pool::HugePool;
use pagewise_model::price::SessionPrices;
use pagewise_model::spec::StdoutTarget;
use pagewise_model::{Bytes, Fact, Nanos};
use pagewise_remedy::folio_switches::{self, FolioSwitches};
use pagewise_remedy::reservation::{self, PoolReservation};
use pagewise_remedy::warmth::{self, TextNow};
use pagewise_tracee::launch::{LaunchError, ObservationOptions, OutputSink, ProgramLaunch};
use pagewise_tracee::run::FinishedRun;
use pagewise_tracee::supervise::{AccountedRun, SuperviseError};
use runs::ProgramRunner;
use std::cell::OnceCell;
use std::ffi::OsString;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Time for re-pricing at the start of a session.
const PRICING: Nanos = Nanos::millis(500);
/// Most files that are kept in the page cache.
const MOST_KEPT: usize = 256;
/// Minimum time limit of the traced look. If the budget is longer, it is the limit.
const TRACED_LEAST: Nanos = Nanos::secs(600);

/// Called for each event.
pub type Listener<'a> = &'a mut dyn FnMut(&SessionEvent<'_>);

/// The real world.
pub struct RealWorld<'a> {
    request: &'a SessionRequest,
    runs: Box<dyn ProgramRunner>,
    /// Supervisors for runs at once, started on demand as `helper` says.
    beside: Vec<Box<dyn ProgramRunner>>,
    helper: Option<SupervisorLauncher>,
    /// Blocks of runs at once so far.
    shared: usize,
    recording: faults::RecordingCommands,
    scratch: ScratchDir,
    keeper: CacheKeeper,
    folios: NaturalFolios,
    reserved: Option<PoolReservation>,
    /// Samples the speed of CPUs and memory, if there is room for it. Started on demand.
    speeds: OnceCell<Option<Rc<SpeedSamplers>>>,
    stop: Arc<AtomicBool>,
    listener: Listener<'a>,
}

impl std::fmt::Debug for RealWorld<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RealWorld").field("scratch", &self.scratch).finish_non_exhaustive()
    }
}

impl<'a> RealWorld<'a> {
    /// Starts the supervising process (`exe args... FD`) and makes the scratch directory; `recording`
    /// times faults.
    ///
    /// # Errors
    /// When either fails.
    pub fn start(
        request: &'a SessionRequest,
        exe: &Path,
        args: &[&str],
        recording: faults::RecordingCommands,
        stop: Arc<AtomicBool>,
        listener: Listener<'a>,
    ) -> Result<Self, SessionStop> {
        let scratch = ScratchDir::create(&std::env::temp_dir())
            .map_err(|e| SessionStop::Broken(format!("cannot make a scratch directory: {e}")))?;
        let helper = SupervisorLauncher::of(exe, args);
        let runs = helper.start()?;
        Ok(Self::with(request, runs, Some(helper), recording, scratch, stop, listener))
    }

    fn with(
        request: &'a SessionRequest,
        runs: Box<dyn ProgramRunner>,
        helper: Option<SupervisorLauncher>,
        recording: faults::RecordingCommands,
        scratch: ScratchDir,
        stop: Arc<AtomicBool>,
        listener: Listener<'a>,
    ) -> Self {
        let room = limits::experiment_memory().map_or(Bytes(0), |room| room.bytes);
        Self {
            request,
            runs,
            beside: Vec::new(),
            helper,
            shared: 0,
            recording,
            scratch,
            keeper: CacheKeeper::new(room),
            folios: NaturalFolios::default(),
            reserved: None,
            speeds: OnceCell::new(),
            stop,
            listener,
        }
    }

    fn launch(&self, arm: &ProgramArm, limits: &RunLimits) -> ProgramLaunch {
        let room = limits::experiment_memory().ok().map(|room| room.bytes);
        ProgramLaunch {
            settings: arm.settings.clone(),
            stdin: self.request.spec.input.clone(),
            stdout: match self.request.spec.stdout {
                StdoutTarget::Null => OutputSink::Null,
                StdoutTarget::Pipe => OutputSink::Pipe,
                StdoutTarget::File => OutputSink::File(self.scratch.file("timed-stdout")),
            },
            timeout_ns: limits.time,
            checkpoint: limits.checkpoint,
            memory_limit_bytes: room.into_iter().chain(limits.memory).min(),
            ..ProgramLaunch::experiment(arm.command.clone())
        }
    }

    /// Runs to the end. A run that broke a limit was stopped and counts as an error.
    fn bounded(&mut self, launch: &ProgramLaunch) -> Result<FinishedRun, SessionStop> {
        let finished = self.runs.run(launch, &raised(&self.stop)).map_err(stopped)?;
        within_limits(launch, finished)
    }

    /// What samples the speed of CPUs and memory, where `watch` asks for it. Starting it takes time and
    /// memory: do so before memory is conditioned.
    fn speeds(&self, watch: RunObservation) -> Option<Rc<SpeedSamplers>> {
        let start = || {
            let room = limits::experiment_memory().map_or(Bytes(0), |room| room.bytes);
            SpeedSamplers::start(room).ok().map(Rc::new)
        };
        (watch == RunObservation::Speeds).then(|| self.speeds.get_or_init(start).clone()).flatten()
    }

    /// A bounded run, with the speed of CPUs and memory sampled beside it.
    fn with_speed(
        &mut self,
        launch: &ProgramLaunch,
        speeds: Option<&SpeedSamplers>,
    ) -> Result<FinishedRun, SessionStop> {
        let Some(speeds) = speeds else { return self.bounded(launch) };
        let (done, speed) = speeds.during(|| self.bounded(launch));
        let mut done = done?;
        done.usage.speed = speed;
        Ok(done)
    }

    /// Runs `work` with `--prepare` before it and `--cleanup` after it. `--cleanup` always runs to its end,
    /// even after Ctrl-C: it restores what the others changed. The first error of the three is returned.
    fn around<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, SessionStop>,
    ) -> Result<T, SessionStop> {
        let request = self.request;
        let interrupted = raised(&self.stop);
        let prepared = self.shell(request.spec.prepare.as_deref(), "--prepare", &interrupted);
        let done = prepared.and_then(|()| work(self));
        let cleaned = match self.shell(request.spec.cleanup.as_deref(), "--cleanup", &|| false) {
            Err(SessionStop::Broken(_)) => clean_unsupervised(request.spec.cleanup.as_deref()),
            cleaned => cleaned,
        };
        done.and_then(|value| cleaned.map(|()| value))
    }

    /// `--prepare` or `--cleanup`, outside of every clock.
    fn shell(
        &mut self,
        command: Option<&str>,
        which: &'static str,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<(), SessionStop> {
        let Some(command) = command else { return Ok(()) };
        let argv = ["sh", "-c", command].map(OsString::from).to_vec();
        let launch =
            ProgramLaunch { stderr: OutputSink::Inherit, ..ProgramLaunch::experiment(argv) };
        let ended = self.runs.run(&launch, interrupted).map_err(stopped)?.usage.ended;
        if ended.success() { Ok(()) } else { Err(SessionStop::Around { which, ended }) }
    }

    /// Touches and frees memory so that the host backs it. Returns false if the machine cannot provide all of
    /// it. The host's share is measured in any case.
    fn condition(&mut self, bytes: Bytes) -> Result<bool, SessionStop> {
        let room = limits::experiment_memory().map_or(Bytes(0), |room| room.bytes);
        match self.runs.condition(bytes.min(room), &raised(&self.stop)) {
            Ok(()) => Ok(bytes <= room),
            Err(SuperviseError::Launch(LaunchError::Call { call, .. })) if call == "mmap" => {
                Ok(false)
            }
            Err(other) => Err(stopped(other)),
        }
    }

    /// Restores the files of other arms to their state after a plain start, by an untimed one.
    fn settle(&mut self, arm: &ProgramArm, limits: &RunLimits) -> Result<(), SessionStop> {
        let files = &arm.natural_files;
        if self.folios.drop_changed(files, &mut self.keeper).map_err(SessionStop::Broken)? {
            let plain = self.launch(&ProgramArm::plain(self.request), limits);
            self.around(|live| live.bounded(&plain))?;
            self.folios.settle(files, &mut self.keeper).map_err(SessionStop::Broken)?;
        }
        Ok(())
    }

    /// Brings an arm's files into huge folios; the time that a start takes to find them there.
    fn warm(&mut self, arm: &ProgramArm) -> Result<Nanos, SessionStop> {
        NaturalFolios::warm(&arm.settings.huge_files, &mut self.keeper)
            .map_err(SessionStop::NotHuge)
    }

    /// Ensures that the pool has the pages that an arm needs. Added pages stay until the session ends.
    fn fill_pool(&mut self, arm: &ProgramArm) -> Result<(), SessionStop> {
        let Some(need) = arm.settings.pool else { return Ok(()) };
        let permit = self.request.system.as_ref();
        reservation::ensure(need, permit, &mut self.reserved).map_err(SessionStop::MachineNotSet)
    }

    /// Ensures that heaps use the folios that an arm wants, until the returned guard is dropped.
    fn switch_folios(&self, arm: &ProgramArm) -> Result<Option<FolioSwitches>, SessionStop> {
        let permit = self.request.system.as_ref();
        let wanted = arm.settings.folios.map(|_size| folio_switches::ensure(permit));
        wanted.transpose().map(Option::flatten).map_err(SessionStop::MachineNotSet)
    }

    /// The huge slots of the files that arms bring into huge folios.
    fn huge_slots(&self, arm: &ProgramArm) -> Vec<(String, u64)> {
        let own = arm.settings.huge_files.iter().map(|file| &file.path);
        self.folios.readings(own.chain(&arm.natural_files).map(String::as_str))
    }

    /// The traced run. A run that takes too long is aborted and its result is missing.
    fn look(&mut self, launch: &ProgramLaunch) -> Result<Fact<TracedLook>, SessionStop> {
        let longest = self.request.spec.budget_ns.unwrap_or_default().max(TRACED_LEAST);
        let deadline = clock::now() + longest;
        let late = || clock::now() > deadline;
        let interrupted = raised(&self.stop);
        let scratch = [self.scratch.path().to_owned()];
        match self.runs.traced(launch, &scratch, &|| interrupted() || late()) {
            Ok(traced) => {
                self.keep_warm(Some(&traced));
                Ok(Fact::Known(traced))
            }
            Err(SuperviseError::Trace(why)) => Ok(Fact::Missing(why)),
            Err(SuperviseError::UsesInput { call, effects }) => {
                let what = self.request.read_once().unwrap_or_default();
                Err(SessionStop::UsesInput { what, call, effects })
            }
            Err(SuperviseError::Interrupted) if !interrupted() => {
                Ok(Fact::Missing(format!("it took more than {longest} under tracing")))
            }
            Err(other) => Err(stopped(other)),
        }
    }

    /// Keeps the program's files in the page cache until the session ends: its executables, its
    /// input, and every argument that names a file.
    fn keep_warm(&mut self, traced: Option<&TracedLook>) {
        let paths = conditions::paths(self.request, traced);
        for path in paths.iter().take(MOST_KEPT) {
            self.keeper.hold(path);
        }
    }
}

/// Puts settings of folios back.
fn give_up(folios: Option<FolioSwitches>) -> Result<(), SessionStop> {
    folios.map_or(Ok(()), FolioSwitches::put_back).map_err(SessionStop::Broken)
}

/// The memory that a run had on pages of the pool.
fn on_pool(done: &FinishedRun, arm: &ProgramArm) -> Bytes {
    let Some(need) = arm.settings.pool else { return Bytes(0) };
    let of_pool = done.watches.iter().filter(|watch| watch.watch == pagewise_remedy::POOL);
    let pages: u64 = of_pool.map(|watch| watch.counter).sum();
    Bytes(pages.saturating_mul(need.page_bytes.bytes()))
}

/// Asks whether the user wants to stop.
fn raised(flag: &Arc<AtomicBool>) -> impl Fn() -> bool + use<> {
    let flag = Arc::clone(flag);
    move || flag.load(Ordering::Relaxed)
}

/// The prices of a session that begins.
pub(crate) fn prices(stop: &AtomicBool) -> Result<SessionPrices, SessionStop> {
    let interrupted = || stop.load(Ordering::Relaxed);
    pagewise_measure::calibrate(&CalibrationOptions::cached(PRICING), &interrupted).map_err(
        |error| match error {
            PriceError::Interrupted => SessionStop::Interrupted,
            other => SessionStop::Broken(other.to_string()),
        },
    )
}

impl SessionClock for RealWorld<'_> {
    fn now(&self) -> Nanos {
        clock::now()
    }

    fn interrupted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl SessionSurroundings for RealWorld<'_> {
    fn machine(&mut self) -> Machine {
        let machine = pagewise_kernel::machine::machine();
        let may_change = self.request.system.is_some();
        let small_folios = machine.small_folios.map(|words| SmallFolios { may_change, ..words });
        Machine { small_folios, ..machine }
    }

    fn prices(&mut self) -> Result<SessionPrices, SessionStop> {
        prices(&self.stop)
    }

    fn tell(&mut self, event: &SessionEvent<'_>) {
        (self.listener)(event);
    }
}

impl ProgramWorld for RealWorld<'_> {
    fn pool(&mut self) -> Fact<HugePool> {
        reservation::facts(self.request.system.as_ref())
    }

    fn traced(
        &mut self,
        arm: &ProgramArm,
        plan: TracedLookPlan,
    ) -> Result<(Fact<TracedLook>, String), SessionStop> {
        let stderr = self.scratch.file("look-stderr");
        let mut launch = self.launch(arm, &RunLimits::default());
        (launch.stderr, launch.observe.code) = (OutputSink::File(stderr.clone()), plan.code);
        launch.checkpoint = plan.checkpoint;
        let traced = self.around(|live| live.look(&launch))?;
        Ok((traced, files::last_line(&stderr)))
    }

    fn seen(&mut self, traced: &Fact<TracedLook>) {
        self.keep_warm(traced.known());
    }

    fn timed(&mut self, arm: &ProgramArm, timing: &RunTiming) -> Result<TimedRun, SessionStop> {
        let observed = timing.watch == RunObservation::Kernel;
        let observe = ObservationOptions {
            samples: observed,
            user: observed,
            walks: observed,
            memory: timing.memory,
            run_delay: timing.watch != RunObservation::Speeds,
            ..ObservationOptions::default()
        };
        let speeds = self.speeds(timing.watch);
        self.settle(arm, &timing.limits)?;
        let (look, conditioned, mut done, huge_slots) = self.around(|live| {
            let look = live.warm(arm)?;
            live.fill_pool(arm)?;
            let conditioned = live.condition(timing.fresh)?;
            let launch = ProgramLaunch { observe, ..live.launch(arm, &timing.limits) };
            let folios = live.switch_folios(arm)?;
            let done = live.with_speed(&launch, speeds.as_deref())?;
            give_up(folios)?;
            Ok((look, conditioned, done, live.huge_slots(arm)))
        })?;
        // A user of the remedy pays for this check at each start.
        done.usage.wall_ns += look;
        // The kernel does not count the pool's pages as resident.
        done.usage.peak_rss_bytes += on_pool(&done, arm);
        Ok(TimedRun { done, huge_slots, conditioned, kept: None })
    }

    fn timed_at_once(
        &mut self,
        blocks: &[Vec<(&ProgramArm, RunLimits)>],
        fresh: Bytes,
        spread: bool,
        keep: bool,
    ) -> Result<Vec<Vec<Result<TimedRun, SessionStop>>>, SessionStop> {
        self.run_side_by_side(blocks, fresh, spread, keep)
    }

    fn recorded(
        &mut self,
        arm: &ProgramArm,
        timing: &RunTiming,
    ) -> Result<Fact<TimedFaults>, SessionStop> {
        let commands = self.recording.clone();
        let done = self.around(|live| {
            live.condition(timing.fresh)?;
            let plain = live.launch(arm, &timing.limits);
            live.bounded(&ProgramLaunch { recorder: commands.recorder.clone(), ..plain })
        })?;
        let ended = done.usage.ended;
        if !ended.success() && !self.request.spec.ignore_failure {
            return Ok(Fact::Missing(format!("the recorded run failed: {ended}")));
        }
        commands.beside_probe(done.faults, false, &mut |launch| self.bounded(launch))
    }

    fn accounted(
        &mut self,
        arm: &ProgramArm,
        limits: &RunLimits,
    ) -> Result<Fact<MemoryAccount>, SessionStop> {
        let launch = self.launch(arm, limits);
        let interrupted = raised(&self.stop);
        let done = self.around(|live| match live.runs.accounted(&launch, &interrupted) {
            Err(SuperviseError::Trace(why)) => Ok(Err(why)),
            other => other.map(Ok).map_err(stopped),
        })?;
        Ok(match done {
            Ok(AccountedRun { ended, .. })
                if !ended.success() && !self.request.spec.ignore_failure =>
            {
                Fact::Missing(format!("the run for it failed: {ended}"))
            }
            Ok(AccountedRun { account: Some(account), .. }) => Fact::Known(account),
            Ok(_) => Fact::missing("the program ended before it could be looked at"),
            Err(why) => Fact::Missing(why),
        })
    }

    fn captured(
        &mut self,
        arm: &ProgramArm,
        limits: &RunLimits,
    ) -> Result<CapturedOutput, SessionStop> {
        let (stdout, stderr) = (self.scratch.file("stdout"), self.scratch.file("stderr"));
        let kept = match self.request.spec.stdout {
            StdoutTarget::Pipe => OutputSink::PipeTo(stdout.clone()),
            StdoutTarget::Null | StdoutTarget::File => OutputSink::File(stdout.clone()),
        };
        let launch = ProgramLaunch {
            stdout: kept,
            stderr: OutputSink::File(stderr.clone()),
            observe: ObservationOptions { run_delay: true, ..ObservationOptions::default() },
            ..self.launch(arm, limits)
        };
        self.around(|live| {
            live.warm(arm)?;
            live.fill_pool(arm)?;
            let marks: Vec<FileSnapshot> =
                live.request.spec.outputs.iter().map(|f| FileSnapshot::take(f)).collect();
            let folios = live.switch_folios(arm)?;
            let FinishedRun { usage, .. } = live.bounded(&launch)?;
            give_up(folios)?;
            // Before --cleanup, which may well remove them.
            let mut run = CapturedOutput::of(usage, &stdout, &stderr);
            run.streams.extend(marks.iter().map(|mark| (mark.name(), mark.read())));
            Ok(run)
        })
    }

    fn text_on_huge_pages(&mut self, files: &[HugeFile]) -> Vec<TextNow> {
        files.iter().map(warmth::text_now).collect()
    }

    fn system_totals(&mut self) -> SystemTotals {
        let stall = |resource| pressure::read(resource).ok().map(|p| p.some.total_ns);
        SystemTotals {
            steal_ns: system_stat::steal().unwrap_or_default(),
            cpu_stall_ns: stall(pressure::PressureResource::Cpu),
            memory_stall_ns: stall(pressure::PressureResource::Memory),
        }
    }
}

#[cfg(test)]
mod tests;
