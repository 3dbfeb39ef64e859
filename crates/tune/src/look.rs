//! The timed look: plain runs before anything is decided, and the parameters that they give for every later
//! run (memory to condition, limits, the cost of a run in the budget).

use crate::choose::LEAST_CEILING;
use crate::output::CapturedOutput;
use crate::request::{PLAIN, SessionRequest};
use crate::stop::SessionStop;
use crate::world::{ProgramArm, ProgramWorld, RunLimits, RunObservation, RunTiming, TimedRun};
use pagewise_model::code_tlb::CodeMissCounts;
use pagewise_model::look::{CpuSamples, LookFindings, TracedLook, UserSamples, WalkCounts};
use pagewise_model::spec::SessionSpec;
use pagewise_model::trial::ComparedQuantity;
use pagewise_model::usage::ProgramUsage;
use pagewise_model::{Bytes, Fact, Nanos};
use pagewise_tracee::checkpoint::RunCheckpoint;
use pagewise_tracee::run::FinishedRun;

/// The least memory touched and freed before a run, beyond the program's peak. Usually it is as much as the
/// peak, within bounds. Freed pages merge with their neighbours, and the program takes others than those just
/// touched. So much more memory than it needs must be in place. See
/// docs/decisions/006-touch-memory-before-each-run.md.
const SURPLUS_LEAST: Bytes = Bytes::mib(256);
/// The most memory touched beyond the peak. Touching takes time, and a large program's pages are most of the
/// free memory nearby.
const SURPLUS_MOST: Bytes = Bytes::mib(512);
/// Time to touch a byte, in ns, until a run shows the real one. If the host took memory back, a GiB needs
/// half a second.
const TOUCH_NS: f64 = 0.5;
/// A run may take this many times as long as the slowest plain one: a slower program counts as hanging.
const TIME_FACTOR: u64 = 10;
/// The least time limit: the time of a short program varies with other load.
const TIME_LEAST: Nanos = Nanos::secs(10);
/// The least time limit of a first plain run, when only the traced run is known.
const FIRST_LEAST: Nanos = Nanos::secs(60);
/// A run that takes more than this part of the budget ends at a checkpoint: the budget then holds some eight pairs of
/// runs.
const CHECKPOINT_PART: u64 = 10;
/// A run that takes longer ends at a checkpoint if only a look is wanted.
const LONGEST_LOOK: Nanos = Nanos::secs(10);
/// Memory that an arm may take, relative to the program's peak.
const MEMORY_FACTOR: f64 = 1.25;
/// Memory that an arm may take beyond that: no more than conditioning takes anyway.
const MEMORY_SLACK: Bytes = SURPLUS_LEAST;
/// A kept output may be as small as this share of what the look wrote: the output of a program varies.
const KEPT_SHARE: f64 = 0.9;
/// A kept output may also be this much smaller: a writer may have filled a pipe that its reader closed early.
const KEPT_SLACK: Bytes = Bytes::kib(256);

/// What plain timed runs showed.
#[derive(Debug, Clone)]
pub(crate) struct PlainRuns {
    /// Their usage.
    pub(crate) runs: Vec<ProgramUsage>,
    /// Samples of the first of them.
    pub(crate) samples: Fact<CpuSamples>,
    /// Samples in user mode of the first of them.
    pub(crate) user: Fact<UserSamples>,
    /// Page walks of the first of them.
    pub(crate) walks: Fact<WalkCounts>,
    /// Misses of the TLB for code in the same run.
    pub(crate) code_misses: Fact<CodeMissCounts>,
    /// Typical time from one run to the next: preparation, conditioning and cleanup included.
    pub(crate) cost_ns: Nanos,
    /// Most processes that one left behind.
    pub(crate) leftovers: u32,
}

/// Times the unchanged program. Makes an observed run and, if `enough` says at its cost and current time that
/// there is room, an unobserved one.
pub(crate) fn time(
    world: &mut dyn ProgramWorld,
    arm: &ProgramArm,
    ignore_failure: bool,
    limits: RunLimits,
    enough: impl Fn(Nanos, Nanos) -> bool,
) -> Result<PlainRuns, SessionStop> {
    let before = world.now();
    let timing = RunTiming {
        fresh: Bytes(0),
        watch: RunObservation::Kernel,
        limits,
        ..RunTiming::default()
    };
    let first = sound(world.timed(arm, &timing)?, arm, ignore_failure)?;
    let FinishedRun { leftovers_killed: mut leftovers, usage, samples, user, .. } = first;
    let (walks, code_misses) = (first.walks, first.code_misses);
    let mut runs = vec![usage];
    let touching = touching(conditioned(&runs));
    let mut cost_ns = Nanos(world.now().0.saturating_sub(before.0)) + touching;
    if enough(cost_ns, world.now()) {
        let before = world.now();
        let timing = RunTiming {
            fresh: conditioned(&runs),
            watch: RunObservation::Nothing,
            limits,
            ..RunTiming::default()
        };
        let second = sound(world.timed(arm, &timing)?, arm, ignore_failure)?;
        cost_ns = Nanos(world.now().0.saturating_sub(before.0));
        leftovers = leftovers.max(second.leftovers_killed);
        runs.push(second.usage);
    }
    Ok(PlainRuns { runs, samples, user, walks, code_misses, cost_ns, leftovers })
}

/// A run that ended as it should.
fn sound(
    run: TimedRun,
    arm: &ProgramArm,
    ignore_failure: bool,
) -> Result<FinishedRun, SessionStop> {
    let run = run.done;
    let ended = run.usage.ended;
    if ended.success() || ignore_failure {
        return Ok(run);
    }
    let name = (arm.name != PLAIN).then(|| arm.name.clone());
    Err(SessionStop::Failed { arm: name, ended, said: String::new(), remove: None })
}

/// The shell command, as one word, that removes what a run writes. It may have existed before the run. `None`
/// if the run writes nothing, or more files than a user can check.
pub(crate) fn removing(request: &SessionRequest, traced: &TracedLook) -> Option<String> {
    const MOST_FILES: usize = 5;
    if traced.written.len() > MOST_FILES {
        return None;
    }
    let paths = traced.written.iter().map(|path| (request.quote)(path.as_bytes()));
    let words: Vec<String> = paths.collect();
    (!words.is_empty()).then(|| (request.quote)(format!("rm -f {}", words.join(" ")).as_bytes()))
}

/// Whether the program may be run again, judged by the traced look and the last line of output in it. Returns
/// what to report about it.
pub(crate) fn rerun(
    request: &SessionRequest,
    traced: &Fact<TracedLook>,
    said: String,
) -> Result<Vec<String>, SessionStop> {
    let mut notes = Vec::new();
    if let (Some(what), Fact::Missing(why)) = (request.read_once(), traced) {
        return Err(SessionStop::InputNotSeen { what, why: why.clone() });
    }
    match traced {
        Fact::Known(seen) if !seen.ended.success() && !request.spec.ignore_failure => {
            let remove = removing(request, seen);
            return Err(SessionStop::Failed { arm: None, ended: seen.ended, said, remove });
        }
        Fact::Known(seen) if !seen.effects.is_empty() && !request.may_rerun() => {
            return Err(SessionStop::NotSafe(seen.effects.clone()));
        }
        Fact::Known(_) => {}
        Fact::Missing(why) if !request.may_rerun() => {
            return Err(SessionStop::NotSeen(why.clone()));
        }
        Fact::Missing(why) => notes.push(format!("no traced look: {why}")),
    }
    notes.extend(traced.known().and_then(|seen| seen.checkpoint_bytes).map(|bytes| {
        format!("long runs end at a checkpoint, after {bytes} read and written: what comes later is not seen; a longer --budget compares whole runs")
    }));
    notes.extend(request.read_once().map(|what| {
        format!("standard input is {what}, which the program does not read: each run gets an empty one instead")
    }));
    Ok(notes)
}

/// How much memory the host should back before a run. This is done before each run, not just before each
/// block: free memory returns to the host within two seconds, and small and huge pages come from different
/// parts of it. Otherwise each arm would pay for the host in a different way.
pub(crate) fn conditioned(runs: &[ProgramUsage]) -> Bytes {
    let peak = peak(runs).0;
    Bytes(peak.saturating_add(peak.clamp(SURPLUS_LEAST.0, SURPLUS_MOST.0)))
}

/// The largest peak memory of these runs.
pub(crate) fn peak(runs: &[ProgramUsage]) -> Bytes {
    runs.iter().map(|run| run.peak_rss_bytes).max().unwrap_or_default()
}

/// What touching this much memory takes, until a run shows it.
pub(crate) fn touching(memory: Bytes) -> Nanos {
    Nanos::from_f64(memory.0 as f64 * TOUCH_NS)
}

/// Whether timing each fault of one more run could give more information than counts and prices: only if
/// these cost something. `runs` are the plain ones, `price_ns` is that of a first touch.
pub(crate) fn is_worth_recording(runs: &[ProgramUsage], price_ns: f64) -> bool {
    let cost = |run: &ProgramUsage| run.minor_faults as f64 * price_ns;
    runs.iter().any(|run| cost(run) >= LEAST_CEILING * run.wall_ns.0 as f64)
}

/// Where the traced run of a program that takes long ends: every later run ends there, too. Only if the user gave
/// the time of the session, or wants no more than a look.
pub(crate) fn first_checkpoint(spec: &SessionSpec) -> Option<RunCheckpoint> {
    let budget = spec.budget_ns.map(|budget| Nanos(budget.0 / CHECKPOINT_PART));
    let look = spec.advise.then_some(LONGEST_LOOK);
    let after = budget.into_iter().chain(look).min()?;
    (spec.quantity != ComparedQuantity::Memory).then_some(RunCheckpoint::After(after))
}

/// Where each run after this look ends early.
fn checkpoint(traced: &Fact<TracedLook>) -> Option<RunCheckpoint> {
    traced.known()?.checkpoint_bytes.map(RunCheckpoint::At)
}

/// Limits of the first plain run: no more than a traced life suggests.
pub(crate) fn first_limits(traced: &Fact<TracedLook>) -> RunLimits {
    let lives = traced.known().into_iter().flat_map(|t| &t.processes).map(|p| p.traced_life_ns.0);
    let time = lives.max().map(|life| Nanos(life.saturating_mul(TIME_FACTOR)).max(FIRST_LEAST));
    RunLimits { time, memory: None, checkpoint: checkpoint(traced) }
}

/// Limits of runs after the look. The peak of the whole tree is known from only the traced look;
/// without it the room of the machine is the limit.
pub(crate) fn limits(look: &LookFindings) -> RunLimits {
    let slowest = look.runs.iter().map(|u| u.wall_ns.0).max().unwrap_or(0);
    let largest = peak(&look.runs).0;
    let whole = |t: &&TracedLook| t.processes.iter().all(|p| p.incomplete.is_none());
    let memory = look.traced.known().filter(whole).map(|traced| {
        let tree: u64 = traced.processes.iter().map(|p| p.peak_rss_bytes.0).sum();
        Bytes((tree.max(largest) as f64 * MEMORY_FACTOR) as u64) + MEMORY_SLACK
    });
    RunLimits { time: Some(longest(slowest)), memory, checkpoint: checkpoint(&look.traced) }
}

/// The time limit of a run, if the slowest took `slowest` nanoseconds.
pub(crate) fn longest(slowest: u64) -> Nanos {
    Nanos(slowest.saturating_mul(TIME_FACTOR)).max(TIME_LEAST)
}

/// Why the output of a plain run was not kept whole, if so: with its output in a file it ends and
/// writes as it did in the look, unless that file could not take it.
pub(crate) fn not_kept(run: &CapturedOutput, look: &[ProgramUsage]) -> Option<String> {
    if let Some(plain) = look.first().filter(|_| !look.iter().any(|u| u.ended == run.usage.ended)) {
        return Some(format!(
            "its output could not be kept: a plain run that writes to a file ends with {}, otherwise with {}",
            run.usage.ended, plain.ended
        ));
    }
    let least = look.iter().filter_map(|u| u.written_bytes).min()?;
    let written = run.usage.written_bytes?.max(run.kept());
    let enough = least.0 as f64 * KEPT_SHARE - KEPT_SLACK.0 as f64;
    ((written.0 as f64) < enough).then(|| {
        format!("its output could not be kept: a plain run that writes to a file wrote {written}, in the look {least}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::constructed::usage;

    fn with_peak(peak_rss_bytes: Bytes) -> ProgramUsage {
        ProgramUsage { wall_ns: Nanos::secs(1), user_ns: Nanos::secs(1), peak_rss_bytes, ..usage() }
    }

    #[test]
    fn few_faults_are_not_worth_another_run() {
        let with_faults = |minor_faults| ProgramUsage { minor_faults, ..with_peak(Bytes::mib(1)) };
        assert!(!is_worth_recording(&[with_faults(10_000)], 700.0));
        assert!(is_worth_recording(&[with_faults(1), with_faults(30_000)], 700.0));
        assert!(!is_worth_recording(&[], 700.0));
    }

    #[test]
    fn more_than_the_largest_peak_is_conditioned_and_never_little() {
        assert_eq!(conditioned(&[]), Bytes::mib(256));
        assert_eq!(conditioned(&[with_peak(Bytes::mib(40))]), Bytes::mib(296));
        assert_eq!(conditioned(&[with_peak(Bytes::gib(4))]), Bytes::mib(4096 + 512));
        let runs = [with_peak(Bytes::mib(300)), with_peak(Bytes::mib(200))];
        assert_eq!(conditioned(&runs), Bytes::mib(600));
        assert_eq!(conditioned(&[with_peak(Bytes(u64::MAX))]), Bytes(u64::MAX));
    }
}
