//! Whether the runs of a program stayed within its budgets.
//!
//! A figure is the median of the runs, so one disturbed run fails no build. If records of faults were lost,
//! the recorded count is a lower bound. A budget below that bound is broken; any other budget cannot be
//! judged.

use pagewise_model::check::{
    BudgetFigure, BudgetVerdict, BudgetedQuantity, CheckItem, CheckLimits,
};
use pagewise_model::fault::FaultReport;
use pagewise_model::trial::{ArmVerdict, VerdictWord};
use pagewise_model::usage::ProgramUsage;
use pagewise_model::{Bytes, Nanos};

/// The median of whole numbers. Of two middle values the smaller; `None` without values.
fn median(mut of: Vec<u64>) -> Option<u64> {
    of.sort_unstable();
    of.get(of.len().checked_sub(1)? / 2).copied()
}

/// A figure of a recorded run.
type Recorded = fn(&FaultReport) -> u64;
/// A figure from the kernel's accounting. `None` if the kernel did not account it.
type Used = fn(&ProgramUsage) -> Option<u64>;

/// `number` in the unit of `what`.
const fn figure(what: BudgetedQuantity, number: u64) -> BudgetFigure {
    match what {
        BudgetedQuantity::FaultTime => BudgetFigure::Nanos(Nanos(number)),
        BudgetedQuantity::Copied | BudgetedQuantity::Resident => BudgetFigure::Bytes(Bytes(number)),
        _ => BudgetFigure::Count(number),
    }
}

fn item(
    what: BudgetedQuantity,
    most: Option<u64>,
    found: Option<u64>,
    is_sure: bool,
) -> Option<CheckItem> {
    let most = most?;
    Some(CheckItem {
        what,
        most: figure(what, most),
        found: found.map(|found| figure(what, found)),
        kept: kept(found, most, is_sure),
    })
}

/// Compares the runs with the limits, in the order of the file's keys.
#[must_use]
pub fn judge(limits: &CheckLimits, runs: &[FaultReport]) -> Vec<CheckItem> {
    let faults = &limits.faults;
    let recorded: [(BudgetedQuantity, Option<u64>, Recorded); 4] = [
        (BudgetedQuantity::Faults, faults.most_faults, |run| run.total.faults),
        (BudgetedQuantity::MajorFaults, faults.most_major_faults, |run| run.total.major_faults),
        (BudgetedQuantity::TouchedPages, faults.most_touched_pages, |run| run.touched_pages),
        (BudgetedQuantity::FaultTime, faults.most_time_ns.map(|most| most.0), |run| {
            run.total.time_ns.0
        }),
    ];
    let used: [(BudgetedQuantity, Option<u64>, Used); 3] = [
        (BudgetedQuantity::Copied, limits.most_copied.map(|most| most.0), |usage| {
            Some(usage.read_bytes?.0 + usage.written_bytes?.0)
        }),
        (BudgetedQuantity::Wakeups, limits.most_wakeups, |usage| Some(usage.voluntary_switches)),
        (BudgetedQuantity::Resident, limits.most_resident.map(|most| most.0), |usage| {
            Some(usage.peak_rss_bytes.0)
        }),
    ];
    let is_complete = runs.iter().all(FaultReport::is_complete);
    let recorded = recorded.into_iter().filter_map(|(what, most, of)| {
        item(what, most, median(runs.iter().map(of).collect()), is_complete)
    });
    let used = used.into_iter().filter_map(|(what, most, of)| {
        let all: Option<Vec<u64>> = runs.iter().map(|run| of(run.usage.known()?)).collect();
        item(what, most, all.and_then(median), true)
    });
    recorded.chain(used).collect()
}

fn kept(found: Option<u64>, most: u64, is_sure: bool) -> BudgetVerdict {
    match found {
        Some(found) if found > most => BudgetVerdict::Broken,
        Some(_) if is_sure => BudgetVerdict::Passed,
        _ => BudgetVerdict::CannotTell,
    }
}

/// Whether a ratio with this interval stays within the loss `limit`, a share. Broken if the whole interval
/// lies beyond the limit, passed if none of it does.
#[must_use]
pub fn within(low: f64, high: f64, limit: f64) -> BudgetVerdict {
    let most = 1.0 + limit;
    if low > most {
        BudgetVerdict::Broken
    } else if high <= most {
        BudgetVerdict::Passed
    } else {
        BudgetVerdict::CannotTell
    }
}

/// Whether an arm stays within this loss. A rejected arm does not.
#[must_use]
pub fn loss(verdict: &ArmVerdict, limit: f64) -> BudgetVerdict {
    match &verdict.effect {
        _ if verdict.word == VerdictWord::Reject => BudgetVerdict::Broken,
        Some(effect) => within(effect.ratio_low, effect.ratio_high, limit),
        None => BudgetVerdict::CannotTell,
    }
}

/// The time compared with the baseline. It may be longer by the share `limit`.
#[must_use]
pub fn time(verdict: Option<&ArmVerdict>, limit: f64) -> CheckItem {
    let most = 1.0 + limit;
    let effect = verdict.and_then(|verdict| verdict.effect.as_ref());
    let kept = verdict.map_or(BudgetVerdict::CannotTell, |verdict| loss(verdict, limit));
    let found = effect.map(|effect| BudgetFigure::Ratio {
        ratio: effect.ratio,
        low: effect.ratio_low,
        high: effect.ratio_high,
    });
    let most = BudgetFigure::Ratio { ratio: most, low: most, high: most };
    CheckItem { what: BudgetedQuantity::Time, most, found, kept }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::tests::lossy_report;
    use pagewise_model::Fact;
    use pagewise_model::fault::FaultBudgets;

    #[test]
    fn the_median_of_the_runs_counts() {
        assert_eq!(median(vec![9, 1, 5]), Some(5));
        assert_eq!(median(vec![9, 1]), Some(1));
        assert_eq!(median(Vec::new()), None);
    }

    #[test]
    fn a_loss_leaves_doubt_but_what_is_broken_is() {
        let report = lossy_report();
        let limits = |most| CheckLimits {
            faults: FaultBudgets { most_faults: Some(most), ..FaultBudgets::default() },
            ..CheckLimits::default()
        };
        let judged = |most| judge(&limits(most), std::slice::from_ref(&report))[0].clone();
        assert_eq!(judged(1).kept, BudgetVerdict::Broken);
        assert_eq!(judged(2).kept, BudgetVerdict::CannotTell);
        assert_eq!(judged(1).found, Some(BudgetFigure::Count(2)));
    }

    #[test]
    fn what_the_kernel_did_not_account_cannot_be_judged() {
        let report = FaultReport { usage: Fact::Missing("gone".into()), ..lossy_report() };
        let limits = CheckLimits { most_wakeups: Some(3), ..CheckLimits::default() };
        let items = judge(&limits, &[report]);
        assert_eq!(
            (items.len(), items[0].kept, items[0].found),
            (1, BudgetVerdict::CannotTell, None)
        );
    }

    #[test]
    fn time_is_judged_by_its_whole_interval() {
        let verdict = |low: f64, high: f64| -> ArmVerdict {
            let effect = serde_json::json!({
                "ratio": f64::midpoint(low, high), "ratio_low": low, "ratio_high": high,
                "repeat_low": low, "repeat_high": high, "evidence_of_gain": 1.0,
                "evidence_of_worth": 1.0, "sure_share": 0.0, "runs": 4, "control_runs": 4,
            });
            let verdict = serde_json::json!({
                "arm": "b", "word": "cannot_tell", "why": "", "effect": effect, "supervisor_ns": 0,
            });
            serde_json::from_value(verdict).unwrap()
        };
        let of = |low, high| time(Some(&verdict(low, high)), 0.05).kept;
        assert_eq!(of(0.9, 1.04), BudgetVerdict::Passed);
        assert_eq!(of(1.06, 1.2), BudgetVerdict::Broken);
        assert_eq!(of(1.0, 1.1), BudgetVerdict::CannotTell);
        assert_eq!(time(None, 0.05).kept, BudgetVerdict::CannotTell);
    }
}
