//! Pools the results of many hosts, by a random-effects model on the logarithm of the ratio.
//!
//! Each session gives an estimate and an interval. Results are pooled twice, because sessions on one host
//! give no information about other hosts. First, the sessions of one host (same name, command, arm and
//! quantity) give one estimate for that host: their mean by inverse variance (a fixed effect). If they differ
//! by more than their noise, its deviation grows by the ratio of Birge (1932), which is at least 1. Then the
//! hosts are pooled. Hosts really differ (processor, kernel, settings), so the deviation between hosts is
//! estimated in addition to the noise of each (DerSimonian and Laird 1986). The interval of the mean is
//! widened for that estimate (Hartung and Knapp 2001; never narrower than without).
//!
//! A class is the set of hosts with the same value of a property. Classes differ if their pooled means differ
//! at 1% (chi squared), corrected for the number of properties. An open interval carries no information and
//! is not pooled. A host with only open intervals is counted. Intervals of sessions hold whenever the session
//! stops, so they are wider than those of a fixed number of runs. The pooled interval errs on that side. A
//! session without a host name counts as a separate host.

use pagewise_model::fleet::{
    FleetArm, FleetWord, HostArm, HostClass, HostClassKey, LINES_SCHEMA, PooledEffect,
};
use pagewise_model::run::SavedRun;
use pagewise_model::trial::{ArmVerdict, VerdictWord};
use statrs::distribution::{ChiSquared, ContinuousCDF, StudentsT};
use std::collections::{BTreeMap, BTreeSet};

/// Half the width of a 95% interval in deviations.
const NORMAL: f64 = 1.959_964;
/// A bound farther from 1 than this factor is open.
const OPEN: f64 = 10.0;
/// A gain below this ratio is worth keeping.
const WORTH: f64 = 0.99;
/// Probability at which classes count as different, before the correction for the number of keys.
const DIFFERENT: f64 = 0.01;
/// Hosts that a class needs.
const LEAST_OF_CLASS: u32 = 2;

const KEYS: [HostClassKey; 3] =
    [HostClassKey::Processor, HostClassKey::Kernel, HostClassKey::HugePages];

fn value(key: HostClassKey, arm: &HostArm) -> &str {
    match key {
        HostClassKey::Processor => &arm.cpu_model,
        HostClassKey::Kernel => &arm.kernel,
        HostClassKey::HugePages => &arm.thp,
    }
}

/// Logarithm of the ratio and its deviation. `None` if the interval is open.
fn study(arm: &HostArm) -> Option<(f64, f64)> {
    let is_closed = arm.low > 1.0 / OPEN && arm.high < OPEN && arm.low < arm.high;
    let deviation = (arm.high.ln() - arm.low.ln()) / (2.0 * NORMAL);
    (is_closed && arm.ratio > 0.0).then(|| (arm.ratio.ln(), deviation))
}

/// The mean of studies by inverse variance.
struct PooledMean {
    mean: f64,
    /// Sum of the weights.
    weight: f64,
    /// Sum of the weighted squared deviations from the mean.
    squares: f64,
}

/// Weights each study by the inverse of its own variance plus the `shared` variance.
fn weigh(studies: &[(f64, f64)], shared: f64) -> PooledMean {
    let weighted = || studies.iter().map(|(y, s)| (y, 1.0 / (s * s + shared)));
    let weight: f64 = weighted().map(|(_, w)| w).sum();
    let mean = weighted().map(|(y, w)| w * y).sum::<f64>() / weight;
    let squares = weighted().map(|(y, w)| w * (y - mean).powi(2)).sum();
    PooledMean { mean, weight, squares }
}

/// One estimate of a host from its sessions.
fn of_host(sessions: &[(f64, f64)]) -> (f64, f64) {
    let PooledMean { mean, weight, squares } = weigh(sessions, 0.0);
    let free = (sessions.len().max(2) - 1) as f64;
    (mean, ((squares / free).max(1.0) / weight).sqrt())
}

/// The mean of the hosts with an interval. `None` without such hosts.
fn pool(arms: &[&HostArm]) -> Option<PooledEffect> {
    let mut by_host: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for arm in arms {
        if let Some(found) = study(arm) {
            by_host.entry(&arm.host).or_default().push(found);
        }
    }
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let sessions = number(by_host.values().map(Vec::len).sum());
    let studies: Vec<(f64, f64)> = by_host.values().map(|all| of_host(all)).collect();
    let hosts = number(studies.len());
    let [(only, deviation), rest @ ..] = &studies[..] else { return None };
    if rest.is_empty() {
        let half = NORMAL * deviation;
        let (ratio, low, high) = (only.exp(), (only - half).exp(), (only + half).exp());
        return Some(PooledEffect { hosts, sessions, ratio, low, high, tau: 0.0, next_host: None });
    }
    let tau_squared = between_hosts(&studies);
    let PooledMean { mean, weight, squares } = weigh(&studies, tau_squared);
    let free = f64::from(hosts - 1);
    let error = ((squares / free).max(1.0) / weight).sqrt();
    let half = quantile(free) * error;
    let next_host = (hosts > 2).then(|| {
        let half = quantile(free - 1.0) * (tau_squared + error * error).sqrt();
        ((mean - half).exp(), (mean + half).exp())
    });
    Some(PooledEffect {
        hosts,
        sessions,
        ratio: mean.exp(),
        low: (mean - half).exp(),
        high: (mean + half).exp(),
        tau: tau_squared.sqrt(),
        next_host,
    })
}

/// Variance between hosts.
fn between_hosts(studies: &[(f64, f64)]) -> f64 {
    let PooledMean { weight, squares: q, .. } = weigh(studies, 0.0);
    let of_weights: f64 = studies.iter().map(|(_, s)| s.powi(-4)).sum();
    let free = (studies.len() - 1) as f64;
    ((q - free) / (weight - of_weights / weight)).max(0.0)
}

/// The 97.5% quantile of Student's t.
fn quantile(free: f64) -> f64 {
    StudentsT::new(0.0, 1.0, free).map_or(f64::INFINITY, |t| t.inverse_cdf(0.975))
}

const fn word(pooled: Option<&PooledEffect>) -> FleetWord {
    match pooled {
        Some(pooled) if pooled.high < WORTH => FleetWord::Keep,
        Some(pooled) if pooled.low > WORTH => FleetWord::Reject,
        _ => FleetWord::CannotTell,
    }
}

/// The classes by one property. Empty if they do not differ.
fn classes(key: HostClassKey, arms: &[&HostArm]) -> Vec<HostClass> {
    let mut groups: BTreeMap<&str, Vec<&HostArm>> = BTreeMap::new();
    for arm in arms.iter().filter(|arm| study(arm).is_some()) {
        groups.entry(value(key, arm)).or_default().push(arm);
    }
    let pooled: Vec<(&str, PooledEffect)> = groups
        .into_iter()
        .filter_map(|(value, arms)| Some((value, pool(&arms)?)))
        .filter(|(_, pooled)| pooled.hosts >= LEAST_OF_CLASS)
        .collect();
    if pooled.len() < 2 || !differ(&pooled) {
        return Vec::new();
    }
    pooled
        .into_iter()
        .map(|(value, pooled)| HostClass {
            key,
            value: value.to_owned(),
            pooled,
            word: word(Some(&pooled)),
        })
        .collect()
}

/// Whether the means of classes differ by more than their intervals allow.
fn differ(classes: &[(&str, PooledEffect)]) -> bool {
    let studies: Vec<(f64, f64)> = classes
        .iter()
        .map(|(_, pooled)| {
            let error = (pooled.high.ln() - pooled.low.ln()) / (2.0 * NORMAL);
            (pooled.ratio.ln(), error.max(1e-9))
        })
        .collect();
    let q = weigh(&studies, 0.0).squares;
    let free = (studies.len() - 1) as f64;
    let limit = DIFFERENT / KEYS.len() as f64;
    ChiSquared::new(free).is_ok_and(|chi| chi.sf(q) < limit)
}

/// The arms of a session on one host. `host` is the name from the file, if it has one. Otherwise the id of
/// the run is used, or the start time of a run that was not saved.
#[must_use]
pub fn lines(run: &SavedRun, host: Option<&str>) -> Vec<HostArm> {
    let Some((experiment, machine)) = run.experiment.as_ref().zip(run.machine.as_ref()) else {
        return Vec::new();
    };
    let quantity = experiment.design.quantity.into_str().to_owned();
    let start = run.started_unix_ns.to_string();
    let own = if run.id.is_empty() { &start } else { &run.id };
    let line = |verdict: &ArmVerdict| {
        let effect = verdict.effect.as_ref();
        if effect.is_none() && verdict.word != VerdictWord::Reject {
            return None;
        }
        Some(HostArm {
            schema: LINES_SCHEMA,
            host: host.unwrap_or(own).to_owned(),
            run: run.id.clone(),
            started_unix_ns: run.started_unix_ns,
            pagewise: run.pagewise.clone(),
            command: run.command.join(" "),
            arm: verdict.arm.clone(),
            cpu_model: machine.cpu_model.clone(),
            kernel: series(&machine.kernel),
            thp: machine.thp_enabled.known().cloned().unwrap_or_default(),
            cpus: u32::try_from(machine.cpus.len()).unwrap_or(u32::MAX),
            memory_bytes: machine.memory_bytes.0,
            quantity: quantity.clone(),
            word: verdict.word,
            ratio: effect.map_or(1.0, |effect| effect.ratio),
            low: effect.map_or(0.0, |effect| effect.ratio_low),
            high: effect.map_or(f64::MAX, |effect| effect.ratio_high),
            runs: effect.map_or(0, |effect| effect.runs),
        })
    };
    experiment.verdicts.iter().filter_map(line).collect()
}

/// The first two numbers of a kernel's release.
fn series(release: &str) -> String {
    release.split(['.', '-']).take(2).collect::<Vec<_>>().join(".")
}

/// The hosts of lines, each once.
fn names<'a>(lines: &[&'a HostArm]) -> BTreeSet<&'a str> {
    lines.iter().map(|line| line.host.as_str()).collect()
}

/// Each arm of each command, over all hosts, in the order of names.
#[must_use]
pub fn merge(lines: &[HostArm]) -> Vec<FleetArm> {
    let mut groups: BTreeMap<(&str, &str, &str), Vec<&HostArm>> = BTreeMap::new();
    for line in lines {
        groups.entry((&line.command, &line.arm, &line.quantity)).or_default().push(line);
    }
    groups
        .into_iter()
        .map(|((command, arm, quantity), arms)| {
            let (rejected, usable): (Vec<&HostArm>, Vec<&HostArm>) =
                arms.into_iter().partition(|arm| arm.word == VerdictWord::Reject);
            let pooled = pool(&usable);
            let classes: Vec<HostClass> =
                KEYS.iter().flat_map(|key| classes(*key, &usable)).collect();
            let open = names(&usable).len() - pooled.map_or(0, |pooled| pooled.hosts as usize);
            FleetArm {
                command: command.to_owned(),
                arm: arm.to_owned(),
                quantity: quantity.to_owned(),
                word: overall(pooled.as_ref(), &classes, !rejected.is_empty()),
                pooled,
                classes,
                rejected_on: names(&rejected).into_iter().map(str::to_owned).collect(),
                open_on: u32::try_from(open).unwrap_or(u32::MAX),
            }
        })
        .collect()
}

/// The overall answer. Classes with different answers take precedence over the mean. So does a host on which
/// the arm must not be used.
fn overall(
    pooled: Option<&PooledEffect>,
    classes: &[HostClass],
    is_rejected_somewhere: bool,
) -> FleetWord {
    let has = |word| classes.iter().any(|class| class.word == word);
    match word(pooled) {
        _ if has(FleetWord::Keep) && (has(FleetWord::Reject) || has(FleetWord::CannotTell)) => {
            FleetWord::DiffersByClass
        }
        FleetWord::Keep if is_rejected_somewhere => FleetWord::DiffersByClass,
        FleetWord::CannotTell if pooled.is_none() && is_rejected_somewhere => FleetWord::Reject,
        word => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Rng;

    /// A host whose gain is `log_ratio`, seen with a deviation of 1%.
    fn host(n: usize, log_ratio: f64, noise: f64, cpu: &str) -> HostArm {
        let (seen, half) = (log_ratio + noise * 0.01, NORMAL * 0.01);
        HostArm {
            schema: LINES_SCHEMA,
            host: format!("h{n}"),
            run: format!("r{n}"),
            started_unix_ns: 0,
            pagewise: "0".into(),
            command: "app".into(),
            arm: "heap-huge".into(),
            cpu_model: cpu.into(),
            kernel: ["6.1", "6.12"][n % 2].into(),
            thp: "madvise".into(),
            cpus: 4,
            memory_bytes: 1 << 34,
            quantity: "time".into(),
            word: VerdictWord::Keep,
            ratio: seen.exp(),
            low: (seen - half).exp(),
            high: (seen + half).exp(),
            runs: 20,
        }
    }

    fn fleet(hosts: usize, seed: u64, gain: impl Fn(usize) -> f64) -> Vec<HostArm> {
        let mut rng = Rng::new(seed);
        let cpu = |n: usize| ["one", "two", "three", "four", "five"][n / 2 % 5];
        (0..hosts)
            .map(|n| {
                let own = rng.normal() * 0.01;
                host(n, gain(n) + own, rng.normal(), cpu(n))
            })
            .collect()
    }

    #[test]
    fn one_host_is_its_own_answer_and_none_is_no_answer() {
        let one = merge(&[host(0, -0.1, 0.0, "one")]);
        let pooled = one[0].pooled.unwrap();
        assert!((pooled.ratio - (-0.1f64).exp()).abs() < 1e-12 && pooled.next_host.is_none());
        assert_eq!(one[0].word, FleetWord::Keep);
        let open = HostArm { high: 1e6, ..host(0, -0.1, 0.0, "one") };
        let none = merge(&[open]);
        assert_eq!((none[0].word, none[0].open_on), (FleetWord::CannotTell, 1));
    }

    #[test]
    fn a_class_of_opposite_sign_is_found_among_a_thousand_hosts() {
        for seed in 0..20 {
            let sign = |n: usize| if n / 2 % 5 == 3 { 0.05 } else { -0.08 };
            let merged = merge(&fleet(1000, seed, sign));
            assert_eq!(merged[0].word, FleetWord::DiffersByClass, "{seed}");
            let bad: Vec<&str> = merged[0]
                .classes
                .iter()
                .filter(|class| class.word == FleetWord::Reject)
                .map(|class| class.value.as_str())
                .collect();
            assert_eq!(bad, ["four"], "{seed}");
            assert!(merged[0].classes.iter().all(|class| class.key == HostClassKey::Processor));
        }
    }

    #[test]
    fn hosts_alike_are_no_classes() {
        let found = (0..200).filter(|seed| {
            let merged = merge(&fleet(40, *seed, |_| -0.05));
            assert_eq!(merged[0].word, FleetWord::Keep, "{seed}");
            !merged[0].classes.is_empty()
        });
        let found = found.count();
        assert!(found <= 8, "{found} of 200 fleets, at most 1% expected");
    }

    #[test]
    fn the_interval_of_the_mean_covers_it() {
        let covered = (0..400).filter(|seed| {
            let pooled = merge(&fleet(8, *seed, |_| -0.03))[0].pooled.unwrap();
            pooled.low <= (-0.03f64).exp() && (-0.03f64).exp() <= pooled.high
        });
        let covered = covered.count();
        assert!(covered >= 372, "{covered} of 400");
    }

    #[test]
    fn a_host_where_it_is_rejected_is_named() {
        let mut all = fleet(6, 1, |_| -0.1);
        all[2].word = VerdictWord::Reject;
        let merged = merge(&all);
        assert_eq!(merged[0].word, FleetWord::DiffersByClass);
        assert_eq!(merged[0].rejected_on, ["h2"]);
    }

    #[test]
    fn the_pooled_figures_are_those_of_the_formulas() {
        // Three hosts by hand: logarithms -0.10, -0.06, -0.02, each with a deviation of 0.01.
        let all: Vec<HostArm> = [-0.10, -0.06, -0.02]
            .into_iter()
            .enumerate()
            .map(|(n, log)| host(n, log, 0.0, "one"))
            .collect();
        let pooled = merge(&all)[0].pooled.unwrap();
        // Q = 32, C = 20000, tau^2 = 30 / 20000.
        assert!((pooled.tau - (0.0015f64).sqrt()).abs() < 1e-4, "{pooled:?}");
        assert!((pooled.ratio.ln() + 0.06).abs() < 1e-9);
        // Error: sqrt(0.0016 / 3), t with 2 degrees of freedom 4.303.
        assert!((pooled.high.ln() + 0.06 - 4.3027 * (0.0016f64 / 3.0).sqrt()).abs() < 1e-4);
    }

    /// A session on a host, with a deviation of 1%.
    fn session(name: &str, log_ratio: f64, cpu: &str) -> HostArm {
        HostArm { host: name.into(), ..host(0, log_ratio, 0.0, cpu) }
    }

    #[test]
    fn sessions_of_one_host_are_one_host() {
        let logs = [-0.10, -0.11, -0.10, -0.09];
        let one: Vec<HostArm> = logs.iter().map(|log| session("a", *log, "one")).collect();
        let pooled = merge(&one)[0].pooled.unwrap();
        assert_eq!((pooled.hosts, pooled.sessions), (1, 4));
        assert!(pooled.next_host.is_none() && pooled.tau == 0.0);
        // Q = 2 is less than the 3 degrees of freedom: the deviation is 0.01 / sqrt(4).
        assert!((pooled.ratio.ln() + 0.10).abs() < 1e-12);
        assert!((pooled.high.ln() + 0.10 - NORMAL * 0.005).abs() < 1e-9, "{pooled:?}");
        // More sessions on one of two hosts do not outvote the other.
        let other = session("b", 0.0, "one");
        let two = |sessions: &[HostArm]| {
            let all = [sessions, std::slice::from_ref(&other)].concat();
            merge(&all)[0].pooled.unwrap()
        };
        let (few, many) = (two(&one[..1]), two(&one));
        assert_eq!((few.hosts, few.sessions, many.hosts, many.sessions), (2, 2, 2, 5));
        assert!(many.low < 0.7 && many.high > 1.0, "two hosts say little: {many:?}");
        assert!((many.ratio / few.ratio).ln().abs() < 0.005, "{few:?} {many:?}");
    }

    #[test]
    fn sessions_of_one_host_that_differ_widen_its_interval() {
        let both = [session("a", -0.14, "one"), session("a", -0.06, "one")];
        let pooled = merge(&both)[0].pooled.unwrap();
        // Q = 32 with one degree of freedom: the deviation is 0.01 / sqrt(2) * sqrt(32).
        assert!((pooled.ratio.ln() + 0.10).abs() < 1e-12);
        assert!((pooled.high.ln() + 0.10 - NORMAL * 0.04).abs() < 1e-9, "{pooled:?}");
        let alike = [session("a", -0.10, "one"), session("a", -0.10, "one")];
        let pooled = merge(&alike)[0].pooled.unwrap();
        assert!((pooled.high.ln() + 0.10 - NORMAL * 0.01 / 2f64.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn one_host_is_no_class_and_is_named_once() {
        let mut all = vec![session("a", -0.10, "one"), session("b", -0.10, "one")];
        all.extend([session("c", 0.10, "two"), session("c", 0.10, "two")]);
        assert!(merge(&all)[0].classes.is_empty(), "one host is no class");
        all.push(session("d", 0.10, "two"));
        assert_eq!(merge(&all)[0].classes.len(), 2);
        let open = |name| HostArm { high: 1e6, ..session(name, -0.10, "one") };
        let failed = HostArm { word: VerdictWord::Reject, ..session("f", -0.10, "one") };
        all.extend([open("a"), open("e"), open("e"), failed.clone(), failed]);
        let merged = &merge(&all)[0];
        assert_eq!((merged.open_on, &merged.rejected_on[..]), (1, &["f".to_owned()][..]));
    }

    #[test]
    fn the_interval_covers_the_mean_where_each_host_ran_four_times() {
        let covered = (0..400).filter(|seed| {
            let (mut rng, mut all) = (Rng::new(*seed), Vec::new());
            for n in 0..4 {
                let own = -0.03 + rng.normal() * 0.02;
                all.extend((0..4).map(|_| host(n, own, rng.normal(), "one")));
            }
            let pooled = merge(&all)[0].pooled.unwrap();
            pooled.low <= (-0.03f64).exp() && (-0.03f64).exp() <= pooled.high
        });
        let covered = covered.count();
        assert!(covered >= 372, "{covered} of 400");
    }
}
