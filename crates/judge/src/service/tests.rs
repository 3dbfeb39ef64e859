use super::*;
use crate::guards;
use crate::race::{
    BlockRoom, BlockUnit, PlannedBlock, RaceBlock, RaceEntrant, RaceGoal, RacePolicy, RaceTerms,
    RemedyCounter,
};
use crate::stats::Rng;
use pagewise_model::service::{LoadReport, RequestLatency, ServerMemory, ServerPair, ServiceMode};
use pagewise_model::trial::{ArmVerdict, VerdictWord};
use pagewise_model::{Bytes, Nanos};

/// One side with two windows, with this CPU time per request, p99 and memory.
fn side(cpu_us: f64, p99_ms: f64, mebibytes: u64, errors: f64) -> ServerMeasurement {
    let requests = 100_000.0;
    let window = |drift: f64| ServiceWindow {
        cpu_ns: Nanos::from_f64(cpu_us * drift * 1e3 * requests),
        wall_ns: Nanos::secs(1),
        generator_cpu_ns: Nanos::millis(500),
        load: LoadReport {
            requests,
            errors: Some(errors),
            latency: RequestLatency { p99: Some(p99_ms / 1e3), ..RequestLatency::default() },
            ..LoadReport::default()
        },
        at_once: false,
    };
    let holding = ServerMemory { pss_bytes: Bytes::mib(mebibytes), ..ServerMemory::default() };
    ServerMeasurement {
        ready_ns: Nanos::millis(20),
        warm_ups: 2,
        windows: vec![window(1.02), window(1.0 / 1.02)],
        at_first: holding,
        at_last: holding,
    }
}

fn pair(plain: ServerMeasurement, other: ServerMeasurement) -> ServerPair {
    ServerPair { arm: "arm".to_owned(), mode: ServiceMode::Duet, plain, other }
}

fn block(plain: ServerMeasurement, other: ServerMeasurement) -> RaceBlock {
    RaceBlock::Pair(pair(plain, other))
}

fn policy(unit: BlockUnit, guards: &[ArmGuard], arms: &[(&str, RemedyCounter)]) -> RacePolicy {
    let terms = RaceTerms {
        quantity: ComparedQuantity::CpuPerRequest,
        guards: guards.to_vec(),
        goal: RaceGoal::Gain,
        unit,
        control: "plain".to_owned(),
        seed: 1,
        budget: Nanos::secs(300),
        most_at_once: None,
    };
    let entrant = |(name, counter): &(&str, RemedyCounter)| RaceEntrant {
        name: (*name).to_owned(),
        counter: *counter,
        barred: None,
        at_once: false,
    };
    RacePolicy::new(terms, arms.iter().map(entrant).collect(), Vec::new())
}

fn standings(guards: &[ArmGuard]) -> RacePolicy {
    policy(BlockUnit::Pair, guards, &[("arm", RemedyCounter::None)])
}

fn verdict(all: &RacePolicy) -> ArmVerdict {
    all.verdict(0, None, 5e9)
}

#[test]
fn values_are_means_over_the_windows_of_a_start() {
    let one = side(10.0, 2.0, 64, 0.0);
    let near = |quantity, expected: f64| {
        let value = value(quantity, &one).unwrap().exp();
        assert!((value / expected - 1.0).abs() < 1e-9, "{quantity:?} {value}");
    };
    near(ComparedQuantity::CpuPerRequest, 10_000.0);
    near(ComparedQuantity::Throughput, 1.0 / 100_000.0);
    near(ComparedQuantity::P99, 0.002);
    near(ComparedQuantity::Memory, 64.0 * 1024.0 * 1024.0);
    let mut silent = one.clone();
    silent.windows[1].load.latency.p99 = None;
    assert_eq!(value(ComparedQuantity::P99, &silent), None);
}

#[test]
fn plain_servers_of_two_sessions_are_compared_by_their_cost() {
    let service = |cost: f64, starts: usize| TunedService {
        mode: ServiceMode::Duet,
        mode_why: String::new(),
        first: Some(side(99.0, 1.0, 64, 0.0)),
        pairs: vec![pair(side(cost, 1.0, 64, 0.0), side(1.0, 1.0, 64, 0.0)); starts],
    };
    let change = between(&service(10.0, 5), &service(15.0, 5)).unwrap();
    assert!((change.ratio - 1.5).abs() < 1e-9 && change.ratio_low > 1.2, "{change:?}");
    assert_eq!(between(&service(10.0, 0), &service(15.0, 5)), None, "one start is too few");
}

#[test]
fn a_rate_that_still_falls_has_not_settled() {
    let windows = |costs: &[f64]| -> Vec<ServiceWindow> {
        costs.iter().map(|cost| side(*cost, 1.0, 1, 0.0).windows[0].clone()).collect()
    };
    assert!(!is_settled(&windows(&[10.0, 10.0, 10.0])), "too few");
    assert!(!is_settled(&windows(&[10.0, 8.0, 7.9, 7.9])));
    assert!(is_settled(&windows(&[10.0, 8.0, 7.9, 7.9, 7.8])));
    assert!(is_settled(&windows(&[10.0, 9.0, 12.0, 10.0])), "noise, not warming up");
    // A JVM, by second: the fifth is no cheaper than the fourth.
    let jvm = [240.0, 115.0, 97.0, 87.0, 87.0, 78.0, 72.0, 46.0, 34.0, 34.0, 34.0, 34.0];
    let settled = (1..=jvm.len()).find(|count| is_settled(&windows(&jvm[..*count])));
    assert_eq!(settled, Some(12));
}

/// A start with 8 windows of such costs.
fn windows_of(costs: [f64; 8]) -> ServerMeasurement {
    let windows = costs.map(|cost| side(cost, 1.0, 100, 0.0).windows[0].clone());
    ServerMeasurement { windows: windows.to_vec(), ..side(1.0, 1.0, 100, 0.0) }
}

#[test]
fn a_gain_that_other_windows_pay_for_is_not_kept() {
    let mut rng = Rng::new(15);
    let mut all = standings(&[]);
    for _ in 0..12 {
        let mut noise = |cost: f64| cost * (0.005 * rng.normal()).exp();
        let plain = windows_of([10.0; 8].map(&mut noise));
        let other = [9.4, 9.4, 9.4, 20.0, 9.4, 9.4, 9.4, 9.4].map(&mut noise);
        all.add(block(plain, windows_of(other)));
    }
    let verdict = verdict(&all);
    assert_eq!(verdict.word, VerdictWord::CannotTell);
    assert!(verdict.why.starts_with("typical runs of the load"), "{}", verdict.why);
}

#[test]
fn an_arm_stands_once_beside_one_plain_server() {
    let arms = ["a", "b", "c", "last"].map(|name| RaceEntrant {
        name: name.to_owned(),
        counter: RemedyCounter::None,
        barred: None,
        at_once: name != "last",
    });
    let mut all = policy(BlockUnit::Pair, &[], &[]);
    arms.into_iter().for_each(|arm| all.join(arm));
    let room = BlockRoom {
        left_ns: 1000,
        block_ns: 1000,
        cost_ns: &|_| 1,
        side_by_side: 1,
        compare_runs: 0,
    };
    let mut met = Vec::new();
    for _ in 0..4 {
        let first = all.next_block(&room).unwrap();
        let mut beside = std::iter::from_fn(|| all.next_beside(&room).filter(|_| first.at_once));
        let group: Vec<PlannedBlock> = beside.by_ref().take(3).collect();
        assert!(group.iter().all(|order| order.at_once));
        let group = std::iter::once(&first).chain(&group).flat_map(|order| &order.runs);
        let mut arms: Vec<usize> = group.filter_map(|arm| *arm).collect();
        met.extend(arms.clone());
        arms.sort_unstable();
        assert!(arms.windows(2).all(|two| two[0] != two[1]), "{arms:?}");
    }
    assert!((0..4).all(|arm| met.contains(&arm)), "{met:?}");
}

#[test]
fn pairs_go_to_the_arms_that_the_time_can_decide() {
    let arms = ["arm", "second", "third"].map(|name| (name, RemedyCounter::None));
    let named = |seconds: u64| -> Vec<usize> {
        let mut all = policy(BlockUnit::Pair, &[], &arms);
        let mut left = seconds;
        let mut met = Vec::new();
        while left >= 10 {
            let room = BlockRoom {
                left_ns: left,
                block_ns: left,
                cost_ns: &|_| 10,
                side_by_side: 1,
                compare_runs: 0,
            };
            let arm = all.next_block(&room).unwrap().runs.iter().find_map(|arm| *arm).unwrap();
            met.push(arm);
            // Too noisy to decide anything.
            let cost = if met.len() % 2 == 0 { 7.0 } else { 13.0 };
            all.add(RaceBlock::Pair(ServerPair {
                arm: all.name(Some(arm)).to_owned(),
                ..pair(side(10.0, 1.0, 100, 0.0), side(cost, 1.0, 100, 0.0))
            }));
            left -= 10;
        }
        met
    };
    assert_eq!(named(60), [0; 6]);
    let two = named(100);
    assert_eq!(&two[..2], [0, 1]);
    assert!(!two.contains(&2), "{two:?}");
    assert_eq!(&named(130)[..3], [0, 1, 2]);
}

#[test]
fn one_pair_does_not_leave_an_arm_behind() {
    let arms = ["arm", "other"].map(|name| (name, RemedyCounter::None));
    let mut all = policy(BlockUnit::Pair, &[], &arms);
    let plain = || side(10.0, 1.0, 100, 0.0);
    for _ in 0..3 {
        all.add(block(plain(), side(5.0, 1.0, 100, 0.0)));
    }
    for left in [vec![0, 1], vec![0]] {
        all.add(RaceBlock::Pair(ServerPair {
            arm: "other".to_owned(),
            ..pair(plain(), side(9.9, 1.0, 100, 0.0))
        }));
        assert_eq!(all.racing(), left);
    }
}

#[test]
fn an_arm_that_may_break_a_guard_leaves_none_behind() {
    let arms = ["arm", "other"].map(|name| (name, RemedyCounter::None));
    for (tails, left) in [([1.0, 1.0], vec![0]), ([1.5, 0.95], vec![0, 1])] {
        let mut all = policy(BlockUnit::Pair, &USUAL_GUARDS, &arms);
        for round in 0..6 {
            let plain = || side(10.0, 1.0, 100, 0.0);
            all.add(block(plain(), side(5.0, tails[round % 2], 100, 0.0)));
            all.add(RaceBlock::Pair(ServerPair {
                arm: "other".to_owned(),
                ..pair(plain(), side(9.0, 1.0, 100, 0.0))
            }));
        }
        assert_eq!(all.racing(), left);
    }
}

#[test]
fn a_rejected_arm_leaves_none_behind_and_decides_nothing() {
    let arms = ["arm", "other"].map(|name| (name, RemedyCounter::None));
    let mut all = policy(BlockUnit::Pair, &[], &arms);
    for round in 0..4 {
        let plain = || side(10.0, 1.0, 100, 0.0);
        all.add(block(plain(), side(5.0, 1.0, 100, 0.0)));
        let cost = [9.5, 10.2][round % 2];
        all.add(RaceBlock::Pair(ServerPair {
            arm: "other".to_owned(),
            ..pair(plain(), side(cost, 1.0, 100, 0.0))
        }));
    }
    assert_eq!(all.racing(), [0]);
    all.fail(0, "the server ended under load".to_owned());
    assert_eq!(all.racing(), [1]);
    assert!(!all.is_decided());
    let verdict = verdict(&all);
    assert_eq!(
        (verdict.word, &verdict.why[..]),
        (VerdictWord::Reject, "the server ended under load")
    );
    all.fail(1, "it did, too".to_owned());
    assert!(all.racing().is_empty() && all.is_decided());
}

#[test]
fn a_failed_request_rejects_the_arm() {
    let mut all = standings(&USUAL_GUARDS);
    all.add(block(side(10.0, 1.0, 100, 0.0), side(5.0, 1.0, 100, 3.0)));
    let verdict = verdict(&all);
    assert_eq!(verdict.word, VerdictWord::Reject);
    assert!(verdict.why.contains("6 requests failed"), "{}", verdict.why);
    assert!(all.racing().is_empty());
}

#[test]
fn memory_beyond_its_guard_is_not_kept() {
    let guards = [guards::parse("memory<+10%", &GUARDED, true).unwrap()];
    let mut all = standings(&guards);
    let mut rng = Rng::new(5);
    for _ in 0..12 {
        let mut noise = || (0.01 * rng.normal()).exp();
        let plain = side(10.0 * noise(), 1.0, 1000, 0.0);
        all.add(block(plain, side(8.0 * noise(), 1.0, 1300, 0.0)));
    }
    let verdict = verdict(&all);
    assert_eq!(verdict.word, VerdictWord::Reject, "{}", verdict.why);
    assert!(verdict.why.contains("30% more memory"), "{}", verdict.why);
}

#[test]
fn a_gain_near_a_guard_is_likely() {
    let mut rng = Rng::new(7);
    for (tails, word) in [([1.02, 1.0], VerdictWord::Keep), ([1.4, 1.0], VerdictWord::Likely)] {
        let mut all = standings(&USUAL_GUARDS);
        for round in 0..6 {
            let mut noise = || (0.01 * rng.normal()).exp();
            let plain = side(10.0 * noise(), 1.0, 100, 0.0);
            all.add(block(plain, side(8.0 * noise(), tails[round % 2], 100, 0.0)));
        }
        let verdict = verdict(&all);
        assert_eq!(verdict.word, word, "{}", verdict.why);
        assert_eq!(
            verdict.why.contains("guard p99<+20% may be broken"),
            word == VerdictWord::Likely
        );
        assert_eq!(all.is_decided(), word == VerdictWord::Keep);
    }
}

#[test]
fn a_gain_without_its_mechanism_at_the_end_is_not_kept() {
    let arms = [("arm", RemedyCounter::AnonHuge)];
    let mut all = policy(BlockUnit::Pair, &[], &arms);
    let mut rng = Rng::new(6);
    for _ in 0..12 {
        let mut noise = || (0.01 * rng.normal()).exp();
        let plain = side(10.0 * noise(), 1.0, 100, 0.0);
        let mut other = side(8.0 * noise(), 1.0, 100, 0.0);
        other.at_first.anon_huge_bytes = Bytes::mib(80);
        all.add(block(plain, other));
    }
    let verdict = verdict(&all);
    assert_eq!(verdict.word, VerdictWord::CannotTell, "huge pages were gone at the end");
}

#[test]
fn one_failed_request_breaks_its_guard_in_any_window() {
    let guards = [USUAL_GUARDS[1], guards::parse("memory<+10%", &GUARDED, true).unwrap()];
    let mut watch = ServiceWatch::new(&guards, Vec::new());
    let window = |errors| side(10.0, 1.0, 100, errors).windows[0].clone();
    assert_eq!(watch.add_on(0, &window(0.0)), None);
    let broken = watch.add_on(0, &window(2.0)).unwrap();
    assert_eq!(broken, "2 requests failed: guard errors=0");
    assert_eq!(watch.failed(&window(1.0)).unwrap(), "1 requests failed: guard errors=0");
    assert_eq!(ServiceWatch::new(&guards[1..], Vec::new()).failed(&window(1.0)), None);
    let holding = |mib| ServerMemory { pss_bytes: Bytes::mib(mib), ..ServerMemory::default() };
    assert_eq!(watch.memory(&holding(100), &holding(109)), None);
    let broken = watch.memory(&holding(100), &holding(120)).unwrap();
    assert_eq!(broken, "20% more memory: guard memory<+10%");
    assert_eq!(watch.memory(&holding(20), &holding(36)), None, "little memory");
    assert!(watch.memory(&holding(20), &holding(37)).is_some());
}
