//! A world made of numbers: a program that takes half a second and fills a heap.

use pagewise_model::code_tlb::{CodeBurst, CodeRun, CodeTlb, SteppedCode};
use pagewise_model::constructed;
use pagewise_model::look::{SideEffect, TimedFaults, TracedLook, TracedProcess};
use pagewise_model::machine::Machine;
use pagewise_model::memory_account::MemoryAccount;
use pagewise_model::plan::HugeFile;
use pagewise_model::pool::HugePool;
use pagewise_model::price::{ChasePoint, SessionPrices, TransferPoint};
use pagewise_model::spec::SessionSpec;
use pagewise_model::usage::{ProgramEnd, ProgramUsage};
use pagewise_model::{Bytes, Fact, Measured, Nanos};
use pagewise_remedy::receipt::ReceiptConditions;
use pagewise_remedy::warmth::TextNow;
use pagewise_tracee::launch::LaunchError;
use pagewise_tracee::run::FinishedRun;
use pagewise_tune::output::{CapturedOutput, StreamHashes};
use pagewise_tune::race::{SessionClock, SystemTotals};
use pagewise_tune::world::{
    ProgramArm, ProgramWorld, RunLimits, RunTiming, SessionEvent, SessionSurroundings, TimedRun,
    TracedLookPlan,
};
use pagewise_tune::{SessionRequest, SessionStop};
use std::cell::Cell;
use std::path::PathBuf;

/// What a plain session of `prog` requests.
pub(crate) fn spec() -> SessionSpec {
    let command = vec!["prog".into(), "an arg".into()];
    SessionSpec { budget_ns: Some(Nanos::secs(60)), ..SessionSpec::new(command, PathBuf::new(), 1) }
}

/// A request for this session.
pub(crate) fn request(spec: SessionSpec) -> SessionRequest {
    SessionRequest {
        spec,
        system: None,
        quote: |w| {
            let text = String::from_utf8_lossy(w).into_owned();
            if text.contains(' ') { format!("'{text}'") } else { text }
        },
        here: ReceiptConditions::default(),
        offsets: Default::default(),
        id: "test".into(),
    }
}

/// The state of the world.
pub(crate) struct Fake {
    /// Time with huge pages, as a factor of the plain time.
    pub(crate) huge_factor: f64,
    /// Huge faults of a run with huge pages.
    pub(crate) huge_faults: u64,
    /// Output with huge pages.
    pub(crate) huge_output: &'static str,
    /// Minor faults of a plain run.
    pub(crate) faults: u64,
    /// Anonymous memory of the program.
    pub(crate) anon: Bytes,
    /// The program's effects on the outside.
    pub(crate) effects: Vec<SideEffect>,
    pub(crate) written: Vec<String>,
    /// How the program ends.
    pub(crate) ended: ProgramEnd,
    /// Number of runs after which the user stops it.
    pub(crate) interrupt_after: u32,
    /// How the program ends when its output is captured.
    pub(crate) captured_ended: Option<ProgramEnd>,
    /// Why a named file is missing after every run.
    pub(crate) file_missing: Option<&'static str>,
    /// Bytes that the program reads with huge pages.
    pub(crate) huge_reads: Bytes,
    /// Time with its code on huge pages, as a factor of the plain time.
    pub(crate) text_factor: f64,
    /// State of the world: its code is on huge pages.
    pub(crate) is_warm: bool,
    /// Number of processes that each run leaves behind.
    pub(crate) leftovers: u32,
    /// The arm that never ends.
    pub(crate) hangs: Option<&'static str>,
    /// Whether a price is known for loads on huge pages.
    pub(crate) priced_chase: bool,
    /// The pool of huge pages.
    pub(crate) pool: HugePool,
    /// Timed runs before the machinery fails.
    pub(crate) breaks_after: usize,
    /// Memory limits set for arms.
    pub(crate) memory_limits: Vec<(String, Bytes)>,
    /// Untimed runs so far.
    pub(crate) captured: u32,
    /// Concurrent runs that kept their output.
    pub(crate) kept_at_once: u32,
    /// Runs made with each fault timed.
    pub(crate) recorded: u32,
    /// Runs for an account of memory.
    pub(crate) accounted: u32,
    /// The memory account to return.
    pub(crate) memory: Fact<MemoryAccount>,
    /// Arms of the timed runs, in order.
    pub(crate) timed: Vec<String>,
    /// Number of traced runs.
    pub(crate) traced: u32,
    /// State of the world.
    pub(crate) clock: Cell<u64>,
    /// State of the world.
    pub(crate) state: u64,
}

impl Default for Fake {
    fn default() -> Self {
        Self {
            huge_factor: 1.0,
            huge_faults: 200,
            huge_output: "out\n",
            faults: 100_000,
            anon: Bytes(100_000 * 4096),
            effects: Vec::new(),
            written: Vec::new(),
            ended: ProgramEnd::Exited(0),
            interrupt_after: u32::MAX,
            captured_ended: None,
            file_missing: None,
            huge_reads: Bytes::kib(8),
            text_factor: 1.0,
            is_warm: false,
            leftovers: 0,
            hangs: None,
            priced_chase: true,
            pool: constructed::pool(0),
            breaks_after: usize::MAX,
            memory_limits: Vec::new(),
            captured: 0,
            kept_at_once: 0,
            recorded: 0,
            accounted: 0,
            memory: Fact::missing("no account here"),
            timed: Vec::new(),
            traced: 0,
            clock: Cell::new(0),
            state: 42,
        }
    }
}

impl Fake {
    /// Number of runs of any kind.
    pub(crate) fn all_runs(&self) -> u32 {
        u32::try_from(self.timed.len()).unwrap_or(u32::MAX)
            + self.captured
            + self.recorded
            + self.accounted
            + self.traced
    }
    /// Timed runs of one arm.
    pub(crate) fn timed_runs(&self, arm: &str) -> usize {
        self.timed.iter().filter(|a| *a == arm).count()
    }
    fn is_huge(arm: &ProgramArm) -> bool {
        arm.settings.env.iter().any(|e| e.entries.iter().any(|x| x.contains("hugetlb=1")))
    }
    /// Uniform within 1% either way.
    fn noise(&mut self) -> f64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        0.99 + 0.02 * ((self.state >> 33) as f64 / f64::from(1u32 << 31))
    }
    fn pass(&self, ns: u64) {
        self.clock.set(self.clock.get() + ns);
    }
    fn find(arm: &ProgramArm) -> Result<(), SessionStop> {
        if arm.command.first().is_none_or(|program| program != "./nosuch") {
            return Ok(());
        }
        Err(SessionStop::Launch(LaunchError::NotFound { program: "./nosuch".to_owned() }))
    }
    fn check(&self) -> Result<(), SessionStop> {
        if self.interrupted() { Err(SessionStop::Interrupted) } else { Ok(()) }
    }
}

fn measured(median: f64) -> Measured {
    Measured { median, min: median, max: median, n: 5 }
}

impl SessionClock for Fake {
    fn now(&self) -> Nanos {
        Nanos(self.clock.get())
    }

    fn interrupted(&self) -> bool {
        self.all_runs() >= self.interrupt_after
    }
}

impl SessionSurroundings for Fake {
    fn machine(&mut self) -> Machine {
        constructed::machine()
    }

    fn prices(&mut self) -> Result<SessionPrices, SessionStop> {
        Ok(SessionPrices {
            anon_fault_ns: measured(1000.0),
            zero_page_ns: measured(200.0),
            file_fault_ns: measured(1500.0),
            file_fault_pages: 16.0,
            cow_fault_ns: measured(1200.0),
            huge_fault_ns: Fact::Known(measured(60_000.0)),
            pipe_transfers: vec![TransferPoint {
                transfer_bytes: Bytes::kib(64),
                transfer_ns: measured(12_800.0),
            }],
            file_reads: vec![TransferPoint {
                transfer_bytes: Bytes::kib(64),
                transfer_ns: measured(5_120.0),
            }],
            syscall_ns: measured(100.0),
            map_unmap_ns: measured(1500.0),
            wakeup_cross_ns: Fact::Known(measured(5000.0)),
            wakeup_same_ns: measured(1500.0),
            spawn_ns: Fact::Known(measured(800_000.0)),
            fork_page_ns: Fact::Known(measured(10.0)),
            chase: vec![ChasePoint {
                set_bytes: Bytes::mib(64),
                base_ns: measured(100.0),
                huge_ns: if self.priced_chase {
                    Fact::Known(measured(60.0))
                } else {
                    Fact::missing("huge pages are off")
                },
            }],
            host_fault_extra_ns: Fact::missing("no guest"),
            prior: false,
        })
    }

    fn tell(&mut self, _event: &SessionEvent<'_>) {}
}

/// Bursts of a loop over one page more than the TLB has entries.
fn stepped() -> SteppedCode {
    let runs = (0..1000).map(|step| CodeRun(step % 65, 20)).collect();
    let burst = CodeBurst { after_ns: Nanos::millis(5), runs };
    let tlb = CodeTlb { base_entries: 64, huge_entries: 64, is_assumed: false };
    SteppedCode { tlb, bursts: vec![burst; 10] }
}

impl ProgramWorld for Fake {
    fn text_on_huge_pages(&mut self, files: &[HugeFile]) -> Vec<TextNow> {
        let huge_bytes = if self.is_warm { Bytes::mib(4) } else { Bytes(0) };
        files.iter().map(|_| TextNow { huge_bytes, text_bytes: Bytes::mib(5) }).collect()
    }

    fn pool(&mut self) -> Fact<HugePool> {
        Fact::Known(self.pool)
    }

    fn traced(
        &mut self,
        _: &ProgramArm,
        plan: TracedLookPlan,
    ) -> Result<(Fact<TracedLook>, String), SessionStop> {
        self.traced += 1;
        let process = TracedProcess {
            pid: 10,
            exe: "/usr/bin/prog".into(),
            args: vec!["prog".into()],
            peak_rss_bytes: self.anon,
            anon_bytes: self.anon,
            file_bytes: Bytes::mib(2),
            file_cow_bytes: Bytes::kib(40),
            page_table_bytes: Bytes::kib(900),
            minor_faults: self.faults,
            moved_bytes: Some(Bytes::kib(8)),
            traced_life_ns: Nanos::millis(700),
            ..constructed::process()
        };
        let traced = TracedLook {
            processes: vec![process],
            effects: self.effects.clone(),
            written: self.written.clone(),
            stepped: plan.code.then(stepped),
            ended: self.ended,
            ..constructed::traced()
        };
        Ok((Fact::Known(traced), "no such table: t".into()))
    }

    fn seen(&mut self, _: &Fact<TracedLook>) {}

    fn timed(&mut self, arm: &ProgramArm, timing: &RunTiming) -> Result<TimedRun, SessionStop> {
        self.check()?;
        self.timed.push(arm.name.clone());
        self.memory_limits.extend(timing.limits.memory.map(|limit| (arm.name.clone(), limit)));
        if self.timed.len() > self.breaks_after {
            return Err(SessionStop::Broken("no more processes".into()));
        }
        Self::find(arm)?;
        if self.hangs == Some(arm.name.as_str()) {
            return Err(SessionStop::TooLong(timing.limits.time.expect("arms have a limit")));
        }
        // Touching memory takes time.
        self.pass(if timing.fresh > Bytes(0) { 50_000_000 } else { 0 });
        let huge = Self::is_huge(arm);
        let fast = arm.command.first().is_some_and(|program| program == "fast");
        let usual = if fast { 0.5 } else { 1.0 };
        let text = !arm.settings.huge_files.is_empty();
        self.is_warm = text;
        let usual = if text { self.text_factor } else { usual };
        let factor = if huge { self.huge_factor } else { usual } * self.noise();
        let wall = (5e8 * factor) as u64;
        self.pass(wall);
        let faults = if huge { self.faults / 500 + 50 } else { self.faults };
        let usage = ProgramUsage {
            wall_ns: Nanos(wall),
            user_ns: Nanos((4e8 * factor) as u64),
            sys_ns: Nanos(faults * 1000),
            peak_rss_bytes: self.anon,
            minor_faults: faults,
            voluntary_switches: 2,
            involuntary_switches: 5,
            read_bytes: Some(if huge { self.huge_reads } else { Bytes::kib(8) }),
            written_bytes: Some(Bytes(4)),
            read_calls: Some(10),
            write_calls: Some(1),
            device_read_bytes: Some(Bytes(0)),
            ended: self.ended,
            ..constructed::usage()
        };
        let done = FinishedRun {
            files_opened: !arm.settings.tools.is_empty(),
            huge_faults: if huge { self.huge_faults } else { 0 },
            huge_file_maps: if text { 2 } else { 0 },
            cpus_at_end: vec![0, 1],
            leftovers_killed: self.leftovers,
            ..FinishedRun::new(usage)
        };
        let huge_slots = arm.settings.huge_files.iter().map(|f| (f.path.clone(), 2)).collect();
        Ok(TimedRun { done, huge_slots, conditioned: true, kept: None })
    }

    fn timed_at_once(
        &mut self,
        blocks: &[Vec<(&ProgramArm, RunLimits)>],
        fresh: Bytes,
        _: bool,
        keep: bool,
    ) -> Result<Vec<Vec<Result<TimedRun, SessionStop>>>, SessionStop> {
        let timing =
            |limits: &RunLimits| RunTiming { fresh, limits: *limits, ..RunTiming::default() };
        let mut run = |(arm, limits): &(&ProgramArm, RunLimits)| {
            let timed = self.timed(arm, &timing(limits))?;
            let kept = keep.then(|| self.put_out(arm));
            self.kept_at_once += u32::from(keep);
            Ok(TimedRun { done: FinishedRun { cpus_at_end: vec![0], ..timed.done }, kept, ..timed })
        };
        Ok(blocks.iter().map(|block| block.iter().map(&mut run).collect()).collect())
    }

    fn recorded(
        &mut self,
        _: &ProgramArm,
        _: &RunTiming,
    ) -> Result<Fact<TimedFaults>, SessionStop> {
        self.check()?;
        self.recorded += 1;
        Ok(Fact::missing("no recorder here"))
    }

    fn accounted(
        &mut self,
        _: &ProgramArm,
        limits: &RunLimits,
    ) -> Result<Fact<MemoryAccount>, SessionStop> {
        self.check()?;
        self.accounted += 1;
        assert!(limits.time.is_some_and(|time| time < Nanos::secs(60)), "a part of the budget");
        Ok(self.memory.clone())
    }

    fn captured(
        &mut self,
        arm: &ProgramArm,
        _limits: &RunLimits,
    ) -> Result<CapturedOutput, SessionStop> {
        self.check()?;
        self.captured += 1;
        self.is_warm = !arm.settings.huge_files.is_empty();
        Self::find(arm)?;
        Ok(self.put_out(arm))
    }

    fn system_totals(&mut self) -> SystemTotals {
        SystemTotals::default()
    }
}

impl Fake {
    /// The output of a run of `arm`.
    fn put_out(&self, arm: &ProgramArm) -> CapturedOutput {
        let text = if Self::is_huge(arm) { self.huge_output } else { "out\n" };
        let stream = StreamHashes::read(text.as_bytes()).expect("memory can be read");
        let mut streams = vec![("standard output".into(), Ok(stream))];
        if let Some(why) = self.file_missing {
            streams.push(("file `x`".into(), Err(why.into())));
        }
        CapturedOutput {
            usage: ProgramUsage {
                wall_ns: Nanos::millis(500),
                user_ns: Nanos::millis(500),
                peak_rss_bytes: self.anon,
                written_bytes: Some(Bytes(4)),
                ended: self.captured_ended.unwrap_or(self.ended),
                ..constructed::usage()
            },
            streams,
            said: "no such table: t".into(),
        }
    }
}
