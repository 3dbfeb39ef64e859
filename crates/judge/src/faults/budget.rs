//! Whether budgets were kept.
//!
//! Lost records can only have made every figure larger. So a budget that the recorded faults break is broken.
//! A budget that they do not break may still be broken.

use pagewise_model::fault::{BrokenBudget, FaultBudgets, FaultReport};

/// How budgets came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetOutcome {
    /// Those not kept.
    pub broken: Vec<BrokenBudget>,
    /// Records were lost, so that the others may be broken too.
    pub is_uncertain: bool,
}

/// Sets `report` against `budgets`.
#[must_use]
pub fn check(budgets: &FaultBudgets, report: &FaultReport) -> BudgetOutcome {
    let total = &report.total;
    let over = |found: u64, most: Option<u64>| most.filter(|most| found > *most);
    let found = total.faults;
    let faults = over(found, budgets.most_faults).map(|most| BrokenBudget::Faults { found, most });
    let found = total.major_faults;
    let major = over(found, budgets.most_major_faults)
        .map(|most| BrokenBudget::MajorFaults { found, most });
    let found = report.touched_pages;
    let pages = over(found, budgets.most_touched_pages)
        .map(|most| BrokenBudget::TouchedPages { found, most });
    let found_ns = total.time_ns;
    let time = budgets.most_time_ns.filter(|most| found_ns > *most);
    let time = time.map(|most_ns| BrokenBudget::Time { found_ns, most_ns });
    BudgetOutcome {
        broken: [faults, major, pages, time].into_iter().flatten().collect(),
        is_uncertain: *budgets != FaultBudgets::default() && !report.is_complete(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::lossy_report;
    use super::*;
    use pagewise_model::Nanos;

    #[test]
    fn each_limit_breaks_by_itself_and_a_loss_leaves_doubt() {
        let report = lossy_report();
        assert_eq!(report.total.faults, 2);
        let outcome = |budgets| check(&budgets, &report);
        let none = FaultBudgets::default();
        assert_eq!(outcome(none), BudgetOutcome { broken: vec![], is_uncertain: false });
        let kept = outcome(FaultBudgets { most_faults: Some(2), ..none });
        assert_eq!(kept, BudgetOutcome { broken: vec![], is_uncertain: true });
        let all = FaultBudgets {
            most_faults: Some(1),
            most_major_faults: Some(0),
            most_touched_pages: Some(1),
            most_time_ns: Some(Nanos(39)),
        };
        let want = [
            BrokenBudget::Faults { found: 2, most: 1 },
            BrokenBudget::MajorFaults { found: 1, most: 0 },
            BrokenBudget::TouchedPages { found: 2, most: 1 },
            BrokenBudget::Time { found_ns: Nanos(40), most_ns: Nanos(39) },
        ];
        assert_eq!(outcome(all).broken, want);
    }
}
