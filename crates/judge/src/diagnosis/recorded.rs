//! Recorded fault times, used in place of counts times prices.
//!
//! A recorded latency differs from the cost of the fault without the recorder. It includes the writing of one
//! record. It does not include entry, return, and the share of unmapping that a price contains. Both are the
//! same for every fault, so a probe measures them: the median latency of first touches, recorded in the same
//! way, minus this session's price of such a touch, is subtracted from each fault. A remainder above or below
//! the price of the probe's kind is what this program's faults take more or less: memory that the host must
//! back, queues for the map's lock, large pages to clear.
//!
//! The kernel counts faults that were not recorded (in the kernel, where they are not seen; populated pages).
//! They are priced as before. Latencies include waiting, so they replace CPU time only if they fit into the
//! system time, within a fifth. Otherwise, and for major faults always, counts and prices are used. The
//! evidence contains the result of each way. If the sums differ by more than a fifth, a sentence says so.

use super::second_opinion::{TOLERANCE, disagree};
use super::typical::TypicalRun;
use super::{CostEstimate, counted, micros};
use pagewise_model::Nanos;
use pagewise_model::diagnosis::{CostBasis, CostKind};
use pagewise_model::fault::FaultTally;
use pagewise_model::look::{LookFindings, TimedFaults};
use pagewise_model::price::SessionPrices;

/// The groups that the recorder can separate, and the priced kinds in each.
const GROUPS: [(CostKind, &[CostKind]); 3] = [
    (CostKind::AnonFaults, &[CostKind::AnonFaults, CostKind::Zeroing]),
    (CostKind::FileFaults, &[CostKind::FileFaults]),
    (CostKind::CowFaults, &[CostKind::CowFaults]),
];

/// CPU time that recording took in the runs that `look` shows.
pub(crate) fn recording_ns(look: &LookFindings) -> f64 {
    let shown = look.faults.known().filter(|faults| faults.in_shown_run);
    shown.map_or(0.0, |faults| faults.recording_ns().0 as f64)
}

/// The estimates with recorded times in place of prices, and the sentences about them.
pub(super) fn replace(
    priced: Vec<CostEstimate>,
    look: &LookFindings,
    run: &TypicalRun,
    prices: &SessionPrices,
) -> (Vec<CostEstimate>, Option<String>) {
    let Some(timed) = look.faults.known() else { return (priced, None) };
    let recorded = RecordedFaultTimes::new(timed, run, prices, &priced);
    let (by_price, by_record) = (recorded.priced_ns(), recorded.total_ns());
    let [reported, counted, system] = [by_record, by_price, run.sys_ns].map(Nanos::from_f64);
    if by_record > run.sys_ns * (1.0 + TOLERANCE) {
        let said = format!(
            "faults: {reported} as timed, far more than the system time of {system} (it includes waiting): {counted} by counts and prices is used"
        );
        return (priced, Some(said));
    }
    let said = disagree(by_price, by_record, run.cpu_ns())
        .then(|| format!("faults: {reported} as timed, {counted} by counts and prices"));
    let kept = priced.iter().filter(|e| !is_replaced(e.kind)).cloned();
    let mut estimates: Vec<CostEstimate> = kept.collect();
    estimates.extend(GROUPS.iter().flat_map(|group| recorded.estimates(group)));
    (estimates, said)
}

fn is_replaced(kind: CostKind) -> bool {
    GROUPS.iter().any(|(_, members)| members.contains(&kind))
}

struct RecordedFaultTimes<'a> {
    timed: &'a TimedFaults,
    priced: &'a [CostEstimate],
    /// The extra latency of recording, minus the parts of a price that a latency does not contain. May be
    /// negative.
    bias_ns: f64,
    /// Faults that the kernel counted but that were not recorded.
    unseen: f64,
    /// Cost of one of them: the mean price of the others.
    unseen_ns: f64,
}

impl<'a> RecordedFaultTimes<'a> {
    fn new(
        timed: &'a TimedFaults,
        run: &TypicalRun,
        prices: &SessionPrices,
        priced: &'a [CostEstimate],
    ) -> Self {
        let counted = run.minor_faults + run.major_faults;
        let mut all = Self {
            timed,
            priced,
            bias_ns: timed.probe_ns.0 as f64 - prices.anon_fault_ns.median,
            unseen: (counted - timed.faults() as f64).max(0.0),
            unseen_ns: 0.0,
        };
        all.unseen_ns = all.priced_ns() / run.minor_faults.max(1.0);
        all
    }

    fn tally(&self, kind: CostKind) -> FaultTally {
        let found = self.timed.by_cost.iter().find(|group| group.kind == kind);
        found.map_or_else(FaultTally::default, |group| group.tally)
    }

    /// Time of the faults of `kind` without the recorder.
    fn recorded_ns(&self, kind: CostKind) -> f64 {
        let tally = self.tally(kind);
        (tally.time_ns.0 as f64 - tally.faults as f64 * self.bias_ns).max(0.0)
    }

    /// The same with the unrecorded faults, which count as anonymous.
    fn group_ns(&self, kind: CostKind) -> f64 {
        let unseen = if kind == CostKind::AnonFaults { self.unseen * self.unseen_ns } else { 0.0 };
        self.recorded_ns(kind) + unseen
    }

    fn total_ns(&self) -> f64 {
        GROUPS.iter().map(|(kind, _)| self.group_ns(*kind)).sum()
    }

    fn priced_ns(&self) -> f64 {
        self.priced.iter().filter(|e| is_replaced(e.kind)).map(|e| e.ns).sum()
    }

    /// The time of one group, shared among its kinds as prices share it.
    fn estimates(&self, (kind, members): &(CostKind, &[CostKind])) -> Vec<CostEstimate> {
        let priced: Vec<&CostEstimate> =
            self.priced.iter().filter(|e| members.contains(&e.kind)).collect();
        let sum: f64 = priced.iter().map(|e| e.ns).sum();
        let ns = self.group_ns(*kind);
        let timed = |kind, ns| {
            let evidence = self.evidence(members, sum);
            CostEstimate { kind, ns, basis: CostBasis::Timed, evidence }
        };
        if sum > 0.0 {
            priced.iter().map(|e| timed(e.kind, ns * e.ns / sum)).collect()
        } else {
            vec![timed(*kind, ns)]
        }
    }

    fn evidence(&self, members: &[CostKind], priced_ns: f64) -> String {
        let [kind, rest @ ..] = members else { return String::new() };
        let tally = self.tally(*kind);
        let each = micros(self.recorded_ns(*kind) / (tally.faults as f64).max(1.0));
        let mut text = format!("{} timed, {each} each", counted(tally.faults as f64, "fault"));
        if !rest.is_empty() {
            text += " with zeroing";
        }
        if *kind == CostKind::AnonFaults && self.unseen > 0.0 {
            text += &format!(", {:.0} not recorded x {}", self.unseen, micros(self.unseen_ns));
        }
        if priced_ns > 0.0 {
            text += &format!("; by counts and prices {}", Nanos::from_f64(priced_ns));
        }
        text
    }
}
