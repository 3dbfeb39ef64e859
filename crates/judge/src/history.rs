//! Saved runs of a program over time: how its time changed, and which proven gains were lost.
//!
//! A trend joins the sessions of one command on one machine, with the same input and the same destination of
//! standard output. The same machine means the same processors, memory and host; kernel and settings may have
//! changed. A gain counts as lost in two cases. Either `recheck` says so, or a later session of that kind
//! rules out, by the same quantity, what an earlier one had proven for the same arm. Of `recheck` and the
//! sessions, the newest one that settles it counts.

use crate::comparison::time_change;
use crate::recheck::{self, gain, standing};
use crate::service;
use pagewise_model::Nanos;
use pagewise_model::history::{Trend, TrendPoint};
use pagewise_model::machine::Machine;
use pagewise_model::measured::median;
use pagewise_model::recheck::{GainRecheck, GainStanding};
use pagewise_model::run::SavedRun;
use pagewise_model::trial::{ArmVerdict, VerdictWord};

/// The trends of all commands with two sessions or more; `runs` are oldest first.
#[must_use]
pub fn trends(runs: &[SavedRun]) -> Vec<Trend> {
    let mut groups: Vec<Vec<&SavedRun>> = Vec::new();
    for run in runs.iter().filter(|run| typical(run).is_some()) {
        match groups.iter_mut().find(|group| group.first().is_some_and(|one| is_alike(one, run))) {
            Some(group) => group.push(run),
            None => groups.push(vec![run]),
        }
    }
    groups.iter().filter_map(|group| trend(group)).collect()
}

fn trend(group: &[&SavedRun]) -> Option<Trend> {
    let ([first, .., last], Some(machine)) = (group, group.last()?.machine.as_ref()) else {
        return None;
    };
    let point = |run: &&SavedRun| {
        Some(TrendPoint {
            run: run.id.clone(),
            started_unix_ns: run.started_unix_ns,
            kernel: run.machine.as_ref()?.kernel.clone(),
            typical_ns: typical(run)?,
        })
    };
    Some(Trend {
        command: last.command.clone(),
        machine: machine.line(),
        is_service: last.service.is_some(),
        points: group.iter().filter_map(point).collect(),
        change: time_change(first, last),
    })
}

/// Whether two runs are of one program on one machine.
fn is_alike(a: &SavedRun, b: &SavedRun) -> bool {
    let load = |run: &SavedRun| run.asked_service().map(|service| service.load.clone());
    let machines = a.machine.as_ref().zip(b.machine.as_ref());
    a.command == b.command
        && a.input == b.input
        // Some programs do no work if their output is not read.
        && a.stdout() == b.stdout()
        && load(a) == load(b)
        && machines.is_some_and(|(a, b)| is_same_hardware(a, b))
}

/// Whether two machines have the same processors, memory and host.
#[must_use]
pub fn is_same_hardware(a: &Machine, b: &Machine) -> bool {
    let of = |machine: &Machine| {
        let Machine { arch, cpu_model, cpus, memory_bytes, hypervisor, .. } = machine.clone();
        // Firmware and kernel reserve some memory, and the amount varies.
        (arch, cpu_model, cpus.len(), memory_bytes.0 >> 30, hypervisor)
    };
    of(a) == of(b)
}

/// What a trend is of.
fn typical(run: &SavedRun) -> Option<Nanos> {
    let values: Vec<f64> = match &run.service {
        Some(service) => {
            let sides = service.plain_sides().into_iter();
            sides.filter_map(service::apart).map(|log| log.exp() * 1e9).collect()
        }
        None => run.plain_runs().iter().map(|usage| usage.wall_ns.0 as f64).collect(),
    };
    median(&values).map(Nanos::from_f64)
}

/// Gains that were proven once and are lost: those that `rechecks` say so of, and those that a later session of the
/// same program rules out. `runs` are oldest first.
#[must_use]
pub fn lost_gains(runs: &[SavedRun], rechecks: &[GainRecheck]) -> Vec<GainRecheck> {
    let is_last = |one: &&GainRecheck| {
        let run = runs.iter().find(|run| run.id == one.run);
        let newest = run.and_then(|run| newest_word(runs, run, &one.arm));
        newest.is_none_or(|(session, _)| is_after(one, session))
    };
    let vanished = rechecks.iter().filter(|one| one.standing == GainStanding::Vanished);
    let mut lost: Vec<GainRecheck> = vanished.filter(is_last).cloned().collect();
    for run in runs {
        for (arm, then) in verdicts(run).filter(|(_, verdict)| verdict.word == VerdictWord::Keep) {
            let Some((later, now)) = newest_word(runs, run, arm) else { continue };
            let is_settled_since = rechecks.iter().any(|one| {
                one.run == run.id
                    && one.arm == arm
                    && one.standing != GainStanding::CannotTell
                    && is_after(one, later)
            });
            if standing(Some(now)) == GainStanding::Vanished && !is_settled_since {
                lost.push(GainRecheck {
                    at_unix_ns: later.started_unix_ns,
                    run: run.id.clone(),
                    command: run.command.clone(),
                    arm: arm.to_owned(),
                    then: gain(Some(then)),
                    now: gain(Some(now)),
                    standing: GainStanding::Vanished,
                    change: changed(run, later),
                    new_run: Some(later.id.clone()),
                    problem: None,
                });
            }
        }
    }
    lost
}

/// The newest session after `run` that settles this arm's result.
fn newest_word<'a>(
    runs: &'a [SavedRun],
    run: &SavedRun,
    arm: &str,
) -> Option<(&'a SavedRun, &'a ArmVerdict)> {
    let later = runs.iter().rev().take_while(|later| later.id != run.id);
    let alike = later.filter(|later| is_alike(run, later) && is_measured_alike(run, later));
    let mut words = alike.filter_map(|later| Some((later, recheck::verdict(later, arm)?)));
    words.find(|(_, now)| standing(Some(now)) != GainStanding::CannotTell)
}

/// Whether a gain of one is a gain of the other.
fn is_measured_alike(a: &SavedRun, b: &SavedRun) -> bool {
    let quantity = |run: &SavedRun| run.experiment.as_ref().map(|done| done.design.quantity);
    quantity(a) == quantity(b)
}

/// Whether a gain was measured again after this session, or by it.
fn is_after(recheck: &GainRecheck, session: &SavedRun) -> bool {
    recheck.at_unix_ns > session.started_unix_ns || recheck.new_run.as_ref() == Some(&session.id)
}

/// The verdicts on arms whose setting is recorded the same way.
fn verdicts(run: &SavedRun) -> impl Iterator<Item = (&str, &ArmVerdict)> {
    let verdicts = run.experiment.iter().flat_map(|experiment| &experiment.verdicts);
    verdicts.map(|verdict| (verdict.arm.as_str(), verdict))
}

/// What differs between two sessions: machine, and the files of the program.
fn changed(then: &SavedRun, now: &SavedRun) -> Option<String> {
    let mut all = match (&then.machine, &now.machine) {
        (Some(then), Some(now)) => then.differences(now),
        _ => Vec::new(),
    };
    for file in &now.files {
        let other = then.files.iter().find(|mark| mark.path == file.path);
        if other.is_some_and(|mark| {
            (mark.bytes, mark.modified_unix_ns) != (file.bytes, file.modified_unix_ns)
        }) {
            all.push(format!("{} was replaced", file.path));
        }
    }
    (!all.is_empty()).then(|| all.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::conditions::FileMark;
    use pagewise_model::constructed;
    use pagewise_model::run::RunKind;
    use pagewise_model::spec::{SessionSpec, StdoutTarget};
    use pagewise_model::trial::{ComparedQuantity, Experiment};
    use std::path::PathBuf;

    fn run(id: &str, kernel: &str, word: &str) -> SavedRun {
        let mut run = SavedRun::new(RunKind::Tune, id.to_owned(), 5, vec!["app".to_owned()]);
        run.machine = Some(Machine { kernel: kernel.to_owned(), ..constructed::machine() });
        let usage = |ms: u64| pagewise_model::usage::ProgramUsage {
            wall_ns: Nanos::millis(ms),
            ..constructed::usage()
        };
        let point = |ms| {
            serde_json::json!({
                "arm": "plain", "usage": usage(ms), "mechanism": null, "supervisor_ns": 0,
            })
        };
        let weather = serde_json::json!({
            "steal_ns": 0, "cpu_pressure_share": null, "memory_pressure_share": null,
            "host_by_point_ns": [],
        });
        let experiment = serde_json::json!({
            "design": {"seed": 1, "budget_ns": 1, "control": "plain", "arms": ["heap-huge"]},
            "blocks": [{"points": [point(100), point(102)], "weather": weather, "dropped": null}],
            "verdicts": [{"arm": "heap-huge", "word": word, "why": "", "effect": null,
                "supervisor_ns": 0}],
            "warnings": [], "interrupted": false,
        });
        run.experiment = Some(serde_json::from_value::<Experiment>(experiment).unwrap());
        run
    }

    fn with_program(mut run: SavedRun, bytes: u64) -> SavedRun {
        let mark = FileMark {
            path: "/usr/bin/app".into(),
            bytes,
            modified_unix_ns: 0,
            device: 1,
            inode: 1,
        };
        run.files = vec![mark];
        run
    }

    #[test]
    fn sessions_that_write_elsewhere_are_another_trend() {
        let to = |id: &str, stdout| {
            let mut spec = SessionSpec::new(vec!["app".into()], PathBuf::from("/"), 1);
            spec.stdout = stdout;
            SavedRun { spec: Some(spec), ..run(id, "6.1", "keep") }
        };
        let runs =
            [("a", StdoutTarget::Null), ("b", StdoutTarget::Pipe), ("c", StdoutTarget::Null)];
        let all = trends(&runs.map(|(id, stdout)| to(id, stdout)));
        let ids: Vec<_> = all.iter().flat_map(|one| &one.points).map(|one| &one.run).collect();
        assert_eq!(ids, ["a", "c"]);
    }

    #[test]
    fn a_gain_that_a_later_session_rules_out_is_lost() {
        let then = with_program(run("a", "6.1", "keep"), 10);
        let now = with_program(run("b", "6.18", "no_gain"), 11);
        let lost = lost_gains(&[then.clone(), now.clone()], &[]);
        let [one] = &lost[..] else { panic!("{lost:?}") };
        assert_eq!((one.run.as_str(), one.new_run.as_deref()), ("a", Some("b")));
        assert_eq!(one.change.as_deref(), Some("kernel 6.1 / 6.18; /usr/bin/app was replaced"));
        // What recheck has found counts for both.
        let known = |standing| GainRecheck { standing, ..one.clone() };
        let open = known(GainStanding::CannotTell);
        assert_eq!(lost_gains(&[then.clone(), now.clone()], &[open]).len(), 1);
        assert_eq!(lost_gains(&[then.clone(), now.clone()], &[known(GainStanding::Holds)]), []);
        assert_eq!(
            lost_gains(&[then.clone(), now.clone()], &[known(GainStanding::Vanished)]).len(),
            1
        );
        // It was proven again since.
        assert_eq!(lost_gains(&[then.clone(), now.clone(), run("c", "6.18", "keep")], &[]), []);
        // Neither other machines nor open verdicts say anything.
        let elsewhere = {
            let mut run = now;
            run.machine.as_mut().unwrap().cpu_model = "another".into();
            run
        };
        assert_eq!(lost_gains(&[then.clone(), elsewhere], &[]), []);
        assert_eq!(lost_gains(&[then, run("b", "6.18", "cannot_tell")], &[]), []);
    }

    #[test]
    fn a_session_with_another_goal_or_output_rules_nothing_out() {
        let (then, mut now) = (run("a", "6.1", "keep"), run("b", "6.1", "no_gain"));
        now.experiment.as_mut().unwrap().design.quantity = ComparedQuantity::Memory;
        assert_eq!(lost_gains(&[then.clone(), now], &[]), []);
        let mut now = run("b", "6.1", "no_gain");
        let spec = SessionSpec::new(Vec::new(), PathBuf::new(), 1);
        now.spec = Some(SessionSpec { stdout: StdoutTarget::Pipe, ..spec });
        assert_eq!(lost_gains(&[then.clone(), now.clone()], &[]), []);
        let then = SavedRun { spec: now.spec.clone(), ..then };
        assert_eq!(lost_gains(&[then, now], &[]).len(), 1);
    }

    #[test]
    fn of_recheck_and_sessions_the_newest_counts() {
        let session =
            |id: &str, started_unix_ns, word| SavedRun { started_unix_ns, ..run(id, "6.1", word) };
        let (then, now) = (session("a", 10, "keep"), session("b", 30, "no_gain"));
        let lost = lost_gains(&[then.clone(), now.clone()], &[]);
        let again = |at_unix_ns, standing| GainRecheck {
            at_unix_ns,
            standing,
            new_run: Some("gone".into()),
            ..lost[0].clone()
        };
        let ruled_out = [then.clone(), now];
        assert_eq!(lost_gains(&ruled_out, &[again(20, GainStanding::Holds)]), lost);
        assert_eq!(lost_gains(&ruled_out, &[again(40, GainStanding::Holds)]), []);
        // A gain that was proven again has not vanished. A gain that was not settled since has.
        let proven = [then.clone(), session("c", 30, "keep")];
        let early = [again(20, GainStanding::Vanished)];
        assert_eq!(lost_gains(&proven, &early), []);
        let late = [again(40, GainStanding::Vanished)];
        assert_eq!(lost_gains(&proven, &late), late);
        let open = [then, session("c", 30, "cannot_tell")];
        assert_eq!(lost_gains(&open, &early), early);
        // The run may have been deleted.
        assert_eq!(lost_gains(&[], &early), early);
    }

    #[test]
    fn sessions_of_one_program_on_one_machine_are_a_trend() {
        let mut other = run("o", "6.1", "keep");
        other.command = vec!["other".into()];
        let runs = [run("a", "6.1", "keep"), other, run("b", "6.18", "keep")];
        let found = trends(&runs);
        let [one] = &found[..] else { panic!("{found:?}") };
        let points: Vec<_> =
            one.points.iter().map(|p| (p.run.as_str(), p.kernel.as_str(), p.typical_ns)).collect();
        let typical = Nanos::millis(101);
        assert_eq!(points, [("a", "6.1", typical), ("b", "6.18", typical)]);
        assert!(one.change.as_ref().is_some_and(|change| (change.ratio - 1.0).abs() < 1e-9));
    }
}
