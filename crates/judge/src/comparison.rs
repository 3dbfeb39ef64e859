//! Compares saved runs with the first of them.
//!
//! The compared quantity is the time of plain runs; for services the CPU time per request of plain servers. A
//! run on another machine also gets a change, for information. It gets no answer on a limit, because the
//! machine may be the cause.

use crate::check::within;
use crate::race::between_sessions;
use crate::service;
use pagewise_model::check::BudgetVerdict;
use pagewise_model::comparison::{
    COMPARISON_SCHEMA, ComparedMachine, ComparedRun, LimitWord, RunComparison,
};
use pagewise_model::measured::median;
use pagewise_model::run::SavedRun;
use pagewise_model::trial::TimeRatio;
use pagewise_model::usage::ProgramUsage;
use pagewise_model::{Bytes, Nanos};

/// Sets `runs` against the first; with `limit_share`, says whether their time grew by more.
#[must_use]
pub fn compare(runs: &[SavedRun], limit_share: Option<f64>) -> RunComparison {
    let mut machines: Vec<ComparedMachine> = Vec::new();
    let mut compared = Vec::with_capacity(runs.len());
    for run in runs {
        let machine = place(&mut machines, run);
        let first = runs.first().filter(|_| !compared.is_empty());
        let change = first.and_then(|first| time_change(first, run));
        let is_same = machine == 0 && run.machine.is_some();
        let word = |share| match &change {
            Some(change) if is_same => against(change, share),
            _ => LimitWord::CannotTell,
        };
        let limit = first.and(limit_share).map(word);
        compared.push(ComparedRun { machine, limit, ..figures(run, change.clone()) });
    }
    RunComparison { schema: COMPARISON_SCHEMA, limit_share, machines, runs: compared }
}

/// The change of the compared quantity from `first` to `second`. `None` with too few runs.
#[must_use]
pub fn time_change(first: &SavedRun, second: &SavedRun) -> Option<TimeRatio> {
    let times =
        |run: &SavedRun| run.plain_runs().iter().map(|usage| usage.wall_ns).collect::<Vec<_>>();
    match (&first.service, &second.service) {
        (Some(a), Some(b)) => service::between(a, b),
        _ => between_sessions(&times(first), &times(second)),
    }
}

/// What a change says about a limit.
#[must_use]
pub fn against(change: &TimeRatio, limit_share: f64) -> LimitWord {
    match within(change.ratio_low, change.ratio_high, limit_share) {
        BudgetVerdict::Broken => LimitWord::Beyond,
        BudgetVerdict::Passed => LimitWord::Within,
        BudgetVerdict::CannotTell => LimitWord::CannotTell,
    }
}

/// The number of the machine of `run`. A new machine is added.
fn place(machines: &mut Vec<ComparedMachine>, run: &SavedRun) -> u32 {
    let is_same = |other: &ComparedMachine| match (&other.machine, &run.machine) {
        (Some(a), Some(b)) => a.differences(b).is_empty(),
        (None, None) => true,
        _ => false,
    };
    let at = machines.iter().position(is_same).unwrap_or_else(|| {
        let first = machines.first().and_then(|first| first.machine.as_ref());
        let differences = match (first, &run.machine) {
            (Some(first), Some(machine)) => first.differences(machine),
            _ => Vec::new(),
        };
        let machine = run.machine.clone();
        machines.push(ComparedMachine { machine, runs: Vec::new(), differences });
        machines.len() - 1
    });
    if let Some(machine) = machines.get_mut(at) {
        machine.runs.push(run.id.clone());
    }
    u32::try_from(at).unwrap_or(u32::MAX)
}

fn figures(run: &SavedRun, change: Option<TimeRatio>) -> ComparedRun {
    let plain = run.plain_runs();
    let typical = |of: fn(&ProgramUsage) -> u64| {
        let values: Vec<f64> = plain.iter().map(|usage| of(usage) as f64).collect();
        median(&values).map(|value| value as u64)
    };
    ComparedRun {
        id: run.id.clone(),
        started_unix_ns: run.started_unix_ns,
        command: run.command.clone(),
        pagewise: run.pagewise.clone(),
        machine: 0,
        plain_runs: plain.len() as u64,
        wall_ns: typical(|usage| usage.wall_ns.0).map(Nanos),
        cpu_ns: typical(|usage| usage.user_ns.0.saturating_add(usage.sys_ns.0)).map(Nanos),
        peak_rss_bytes: typical(|usage| usage.peak_rss_bytes.0).map(Bytes),
        faults: typical(|usage| usage.minor_faults.saturating_add(usage.major_faults)),
        change,
        limit: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::constructed;
    use pagewise_model::look::LookFindings;
    use pagewise_model::machine::Machine;
    use pagewise_model::run::RunKind;

    fn run(id: &str, ms: u64, kernel: &str) -> SavedRun {
        let mut run = SavedRun::new(RunKind::Profile, id.to_owned(), 0, vec!["app".to_owned()]);
        let usage =
            |n: u64| ProgramUsage { wall_ns: Nanos::millis(ms + n), ..constructed::usage() };
        run.look = Some(LookFindings {
            runs: (0..6).map(usage).collect(),
            ..LookFindings::missing("not looked at")
        });
        run.machine = Some(Machine { kernel: kernel.to_owned(), ..constructed::machine() });
        run
    }

    #[test]
    fn a_limit_is_kept_or_broken_beyond_noise_and_drift() {
        let runs = [run("a", 1000, "6.1"), run("b", 1000, "6.1"), run("c", 1400, "6.1")];
        let words = |limit| -> Vec<_> {
            compare(&runs, Some(limit)).runs.iter().map(|run| run.limit).collect()
        };
        use LimitWord::{Beyond, CannotTell, Within};
        assert_eq!(words(0.02), [None, Some(CannotTell), Some(Beyond)]);
        assert_eq!(words(0.2), [None, Some(Within), Some(Beyond)]);
        assert_eq!(words(2.0), [None, Some(Within), Some(Within)]);
        assert_eq!(compare(&runs, Some(0.2)).limit(), Some(Beyond));
        assert_eq!(compare(&runs[..2], Some(0.2)).limit(), Some(Within));
        assert_eq!(compare(&runs, None).limit(), None);
    }

    #[test]
    fn runs_of_other_machines_break_no_limit() {
        let runs = [run("a", 1000, "6.1"), run("b", 2000, "6.18"), run("c", 1000, "6.1")];
        let comparison = compare(&runs, Some(0.2));
        assert_eq!(comparison.limit(), Some(LimitWord::CannotTell));
        let machines: Vec<_> = comparison.machines.iter().map(|m| m.runs.join(" ")).collect();
        assert_eq!(machines, ["a c", "b"]);
        assert_eq!(comparison.machines[1].differences, ["kernel 6.1 / 6.18"]);
        assert!(comparison.runs[1].change.as_ref().is_some_and(|change| change.ratio > 1.9));
        let mut nowhere = run("d", 1000, "6.1");
        nowhere.machine = None;
        let both = compare(&[nowhere.clone(), nowhere], Some(0.2));
        assert_eq!((both.limit(), both.machines.len()), (Some(LimitWord::CannotTell), 1));
    }

    #[test]
    fn figures_are_medians_of_plain_runs() {
        let mut few = run("a", 10, "6.1");
        few.look = None;
        let comparison = compare(&[run("b", 10, "6.1"), few], None);
        assert_eq!(comparison.runs[0].wall_ns, Some(Nanos(12_500_000)));
        assert_eq!((comparison.runs[1].wall_ns, comparison.runs[1].plain_runs), (None, 0));
        assert_eq!(comparison.runs[1].change, None);
    }
}
