//! Fault times as they were recorded, in place of counts times prices.
//!
//! A recorded latency is not what the fault costs without the recorder: it holds the writing of one
//! record, and it lacks entry, return, and the share of unmapping that a price holds. Both are the
//! same for every fault, so they are taken from a probe: the median latency of first touches,
//! recorded in the same way, less this session's price of such a touch, is taken off each fault.
//! What is left over the price of the probe's kind is what this program's own faults take more, or
//! less: memory that the host must back, queues for the map's lock, large pages to clear.
//!
//! Faults that were not recorded (in the kernel, where they are not seen; populated pages) are
//! counted by the kernel and priced as before. Latencies hold waiting, so they stand in for CPU
//! time only as long as they fit into the system time, within a fifth; where they do not, and for
//! major faults always, counts and prices stand. What each way came to is in the evidence; when the sums differ
//! by more than a fifth, that is a sentence.

use super::second_opinion::{TOLERANCE, disagree};
use super::typical::Typical;
use super::{Estimate, counted, micros};
use pagewise_model::Nanos;
use pagewise_model::diagnosis::{Basis, CostKind};
use pagewise_model::fault::Tally;
use pagewise_model::look::{Look, TimedFaults};
use pagewise_model::price::Prices;

/// What the recorder tells apart, and the priced kinds that share it.
const GROUPS: [(CostKind, &[CostKind]); 3] = [
    (CostKind::AnonFaults, &[CostKind::AnonFaults, CostKind::Zeroing]),
    (CostKind::FileFaults, &[CostKind::FileFaults]),
    (CostKind::CowFaults, &[CostKind::CowFaults]),
];

/// CPU time that recording took in the runs that `look` shows.
pub(crate) fn recording_ns(look: &Look) -> f64 {
    let shown = look.faults.known().filter(|faults| faults.in_shown_run);
    shown.map_or(0.0, |faults| faults.recording_ns().0 as f64)
}

/// The estimates with recorded times in place of prices, and the sentences about them.
pub(super) fn replace(
    priced: Vec<Estimate>,
    look: &Look,
    run: &Typical,
    prices: &Prices,
) -> (Vec<Estimate>, Option<String>) {
    let Some(timed) = look.faults.known() else { return (priced, None) };
    let recorded = Recorded::new(timed, run, prices, &priced);
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
    let mut estimates: Vec<Estimate> = kept.collect();
    estimates.extend(GROUPS.iter().flat_map(|group| recorded.estimates(group)));
    (estimates, said)
}

fn is_replaced(kind: CostKind) -> bool {
    GROUPS.iter().any(|(_, members)| members.contains(&kind))
}

struct Recorded<'a> {
    timed: &'a TimedFaults,
    priced: &'a [Estimate],
    /// What recording adds to a latency, less what a latency lacks of a price; either sign.
    bias_ns: f64,
    /// Faults that the kernel counted but that were not recorded.
    unseen: f64,
    /// What one of them costs, by the mean price of the others.
    unseen_ns: f64,
}

impl<'a> Recorded<'a> {
    fn new(timed: &'a TimedFaults, run: &Typical, prices: &Prices, priced: &'a [Estimate]) -> Self {
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

    fn tally(&self, kind: CostKind) -> Tally {
        let found = self.timed.by_cost.iter().find(|group| group.kind == kind);
        found.map_or_else(Tally::default, |group| group.tally)
    }

    /// What the faults of `kind` take without the recorder.
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
    fn estimates(&self, (kind, members): &(CostKind, &[CostKind])) -> Vec<Estimate> {
        let priced: Vec<&Estimate> =
            self.priced.iter().filter(|e| members.contains(&e.kind)).collect();
        let sum: f64 = priced.iter().map(|e| e.ns).sum();
        let ns = self.group_ns(*kind);
        let timed = |kind, ns| {
            let evidence = self.evidence(members, sum);
            Estimate { kind, ns, basis: Basis::Timed, evidence }
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
