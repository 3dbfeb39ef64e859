//! The usage of running processes between two moments, and the diagnosis from it.

use super::tree::{ServerCounts, ServerTree};
use crate::choose;
use pagewise_judge::diagnosis::diagnose;
use pagewise_kernel::clock;
use pagewise_model::look::{LookFindings, TracedLook};
use pagewise_model::plan::RemedyCandidate;
use pagewise_model::prediction::{GainPrediction, PredictionOffsets};
use pagewise_model::run::SavedRun;
use pagewise_model::service::ServerMeasurement;
use pagewise_model::trial::ComparedQuantity;
use pagewise_model::usage::{ProgramEnd, ProgramUsage};
use pagewise_model::{Bytes, Fact, Nanos};
use pagewise_observe::trace::RunningLook;
use pagewise_remedy::RemedyEvidence;

/// Processes and counters around the windows of a look.
#[derive(Default)]
pub(super) struct WatchedWindows {
    pub(super) running: RunningLook,
    pub(super) before: ServerCounts,
    pub(super) after: ServerCounts,
}

impl WatchedWindows {
    /// The usage of the server in the windows of `side`, as a run of that length.
    pub(super) fn usage(&self, side: &ServerMeasurement) -> ProgramUsage {
        let wall_ns = side.windows.iter().fold(Nanos(0), |sum, window| sum + window.wall_ns);
        self.usage_in(wall_ns, side.at_last.pss_bytes)
    }

    /// The usage in this time, as a run of that length. `pss_bytes` is the memory of all at the end.
    fn usage_in(&self, wall_ns: Nanos, pss_bytes: Bytes) -> ProgramUsage {
        let (before, after) = (&self.before, &self.after);
        let since = |of: fn(&ServerCounts) -> u64| of(after).saturating_sub(of(before));
        let bytes = |of: fn(&pagewise_kernel::proc::io::IoCounters) -> u64| {
            let both = before.io.as_ref().zip(after.io.as_ref())?;
            Some(of(both.1).saturating_sub(of(both.0)))
        };
        ProgramUsage {
            wall_ns,
            user_ns: Nanos(since(|counts| counts.user.0)),
            sys_ns: Nanos(since(|counts| counts.system.0)),
            peak_rss_bytes: pss_bytes,
            minor_faults: since(|counts| counts.minor_faults),
            major_faults: since(|counts| counts.major_faults),
            voluntary_switches: 0,
            involuntary_switches: 0,
            read_bytes: bytes(|io| io.read_chars.0).map(Bytes),
            written_bytes: bytes(|io| io.write_chars.0).map(Bytes),
            read_calls: bytes(|io| io.read_calls),
            write_calls: bytes(|io| io.write_calls),
            device_read_bytes: bytes(|io| io.storage_read.0).map(Bytes),
            speed: None,
            memory: None,
            run_delay_ns: None,
            ended: ProgramEnd::Exited(0),
        }
    }
}

/// A process that runs already, and all below it, observed from now on.
#[derive(Debug)]
pub struct RunningObservation {
    tree: ServerTree,
    start: Nanos,
    running: RunningLook,
    before: ServerCounts,
}

impl RunningObservation {
    /// Begins to observe process `pid`.
    #[must_use]
    pub fn begin(pid: i32) -> Self {
        Self::of(ServerTree::From(pid))
    }

    pub(super) fn of(tree: ServerTree) -> Self {
        let before = tree.counts();
        Self { tree, start: clock::now(), running: RunningLook::begin(&tree.pids()), before }
    }

    /// What happened meanwhile. Call it while the process still runs.
    pub(super) fn watched(mut self) -> WatchedWindows {
        self.running.end(&self.tree.pids());
        WatchedWindows { running: self.running, before: self.before, after: self.tree.counts() }
    }

    /// What was seen, without samples. Call it while the process still runs.
    #[must_use]
    pub fn end(self) -> LookFindings {
        let (tree, start) = (self.tree, self.start);
        let watched = self.watched();
        let wall_ns = Nanos(clock::now().0.saturating_sub(start.0));
        let usage = watched.usage_in(wall_ns, tree.holding().pss_bytes);
        unsampled(usage, watched.running.finish(ProgramEnd::Exited(0)))
    }
}

/// A look without samples.
pub(super) fn unsampled(usage: ProgramUsage, traced: TracedLook) -> LookFindings {
    LookFindings {
        runs: vec![usage],
        traced: Fact::Known(traced),
        ..LookFindings::missing("not taken of a running server")
    }
}

/// Notes down the look at a process that runs, its diagnosis, the remedies that fit, and what these would probably
/// gain if the process was started with them. Needs the machine and its prices in `run`.
pub fn advise(run: &mut SavedRun, look: LookFindings, offsets: &PredictionOffsets) {
    diagnosed(run, look, |evidence| {
        let candidates = choose::candidates(evidence, ComparedQuantity::Cpu);
        let predictions = choose::gains_of_service(&candidates, evidence, offsets);
        (candidates, predictions)
    });
}

/// The diagnosis from the look at a server, its `promising` remedies, and what they will probably gain.
pub(super) fn diagnosed(
    run: &mut SavedRun,
    look: LookFindings,
    promising: impl FnOnce(&RemedyEvidence<'_>) -> (Vec<RemedyCandidate>, Vec<GainPrediction>),
) {
    let (Some(machine), Some(prices)) = (&run.machine, &run.prices) else { return };
    let time =
        |of: fn(&ProgramUsage) -> Nanos| look.runs.iter().map(|usage| of(usage).0).sum::<u64>();
    let cpu_share = time(ProgramUsage::cpu_ns) as f64 / time(|usage| usage.wall_ns).max(1) as f64;
    let mut diagnosis = diagnose(&look, prices, machine);
    // Its CPU time is what counts. In the remaining time it waits for requests.
    diagnosis.ceiling_share = (diagnosis.ceiling_share / cpu_share.max(1e-3)).min(1.0);
    let pool = Fact::missing("not used for services");
    let (seen, judged) = (&look, &diagnosis);
    let evidence = RemedyEvidence {
        look: seen,
        diagnosis: judged,
        machine,
        prices,
        pool: &pool,
        memory: None,
        has_log: true,
    };
    (run.candidates, run.predictions) = promising(&evidence);
    (run.look, run.diagnosis) = (Some(look), Some(diagnosis));
}
