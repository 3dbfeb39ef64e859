//! From rung to rung: what became cheaper, and what of the change no part explains.
//!
//! A point is held against the one before it under the same consumption. The changes of the parts
//! and the unexplained change are together exactly the change of the time.

use super::compare::compare;
use pagewise_model::ladder::{Account, Consumption, Ladder, Step, Work};

/// All steps, in the order of the ladder, one consumption after the other.
pub(super) fn steps(ladder: &Ladder, accounts: &[Account]) -> Vec<Step> {
    Consumption::ALL
        .into_iter()
        .flat_map(|consumption| {
            let same = accounts
                .iter()
                .filter(|account| ladder.points[account.point].consumption == consumption);
            let same: Vec<&Account> = same.collect();
            let pairs: Vec<Step> =
                same.windows(2).filter_map(|pair| step(ladder, pair[0], pair[1])).collect();
            pairs
        })
        .collect()
}

fn step(ladder: &Ladder, from: &Account, to: &Account) -> Option<Step> {
    let comparison = compare(&ladder.points[from.point], &ladder.points[to.point])?;
    let change = |work: Work| (work, to.part_ns(work) - from.part_ns(work));
    let mut parts: Vec<(Work, f64)> =
        Work::ALL.into_iter().map(change).filter(|(_, ns)| *ns != 0.0).collect();
    parts.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    Some(Step {
        from: from.point,
        to: to.point,
        comparison,
        change_per_gib_ns: to.per_gib_ns - from.per_gib_ns,
        parts,
        unexplained_per_gib_ns: to.unexplained_per_gib_ns - from.unexplained_per_gib_ns,
    })
}
