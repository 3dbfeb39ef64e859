//! Fault times in place of prices.

use super::*;
use pagewise_model::fault::{FaultTally, GroupTally};
use pagewise_model::look::TimedFaults;

const FAULTS: u64 = 100_000;

fn group(kind: CostKind, faults: u64, each_ns: u64) -> GroupTally<CostKind> {
    let tally = FaultTally { faults, time_ns: Nanos(faults * each_ns), ..FaultTally::default() };
    GroupTally { kind, tally }
}

/// Faults of a separate run, with a probe of 900 ns. A first touch is priced at 600 ns.
fn timed(by_cost: Vec<GroupTally<CostKind>>) -> TimedFaults {
    let (probe_ns, added_ns) = (Nanos(900), Nanos(1000));
    TimedFaults { by_cost, probe_ns, added_ns, in_shown_run: false }
}

/// A program with this system time and a fixed number of anonymous faults, of which `faults` were recorded.
fn recorded(faults: TimedFaults, sys_ms: u64) -> Diagnosis {
    let mut look = grown(usage(1000, 400, sys_ms), FAULTS);
    look.faults = Fact::Known(faults);
    judge(&look)
}

fn anonymous(diagnosis: &Diagnosis) -> u64 {
    ns(diagnosis, CostKind::AnonFaults) + ns(diagnosis, CostKind::Zeroing)
}

#[test]
fn times_stand_in_for_prices_less_what_the_probe_adds() {
    let diagnosis = recorded(timed(vec![group(CostKind::AnonFaults, FAULTS, 1400)]), 600);
    assert_eq!(anonymous(&diagnosis), 110_000_000);
    let cost = diagnosis.cost(CostKind::Zeroing).unwrap();
    assert_eq!((cost.basis, cost.cost_ns), (CostBasis::Timed, Nanos(18_333_333)));
    let evidence = "100000 faults timed, 1.10 us each with zeroing; by counts and prices 60";
    assert!(cost.evidence.starts_with(evidence), "{}", cost.evidence);
    let said = &diagnosis.disagreements;
    assert!(said.len() == 1 && said[0].contains("as timed"), "{said:?}");
}

#[test]
fn each_kind_has_its_own_time() {
    let by_cost = vec![
        group(CostKind::AnonFaults, FAULTS - 2000, 900),
        group(CostKind::FileFaults, 1000, 2300),
        group(CostKind::MajorFaults, 1000, 90_000),
    ];
    let diagnosis = recorded(timed(by_cost), 600);
    assert_eq!(ns(&diagnosis, CostKind::FileFaults), 2_000_000);
    assert_eq!(
        diagnosis.cost(CostKind::FileFaults).unwrap().evidence,
        "1000 faults timed, 2.00 us each"
    );
    assert_eq!(anonymous(&diagnosis), (FAULTS - 2000) * 600);
    // Waiting for a device is no cost.
    assert!(diagnosis.cost(CostKind::MajorFaults).is_none());
}

#[test]
fn faults_that_nobody_recorded_keep_their_price() {
    let diagnosis = recorded(timed(vec![group(CostKind::AnonFaults, 40_000, 900)]), 600);
    assert_eq!(anonymous(&diagnosis), 60_000_000);
    let cost = diagnosis.cost(CostKind::AnonFaults).unwrap();
    assert!(cost.evidence.contains("60000 not recorded x 0.60 us"), "{}", cost.evidence);
    assert!(diagnosis.disagreements.is_empty(), "{:?}", diagnosis.disagreements);
}

#[test]
fn waiting_is_no_cost() {
    let of_system_time = |ms| recorded(timed(vec![group(CostKind::AnonFaults, FAULTS, 1400)]), ms);
    // A little more than the system time is that time.
    let diagnosis = of_system_time(100);
    assert_eq!(anonymous(&diagnosis), 100_000_000);
    let cost = diagnosis.cost(CostKind::AnonFaults).unwrap();
    assert!(
        cost.basis == CostBasis::Timed && cost.evidence.contains("capped"),
        "{}",
        cost.evidence
    );
    let diagnosis = of_system_time(80);
    assert_eq!(anonymous(&diagnosis), 60_000_000);
    let cost = diagnosis.cost(CostKind::AnonFaults).unwrap();
    assert_eq!(cost.basis, CostBasis::CountsTimesPrice);
    let said = &diagnosis.disagreements;
    assert!(said.len() == 1 && said[0].contains("system time"), "{said:?}");
}

#[test]
fn what_recording_takes_of_the_run_shown_is_no_cost_of_the_program() {
    let faults = timed(vec![group(CostKind::AnonFaults, FAULTS, 1100)]);
    // 100 ms of the 600 are the recording.
    let diagnosis = recorded(TimedFaults { in_shown_run: true, ..faults }, 600);
    assert_eq!(anonymous(&diagnosis), 80_000_000);
    let share = 80.0 / 900.0;
    let both = [CostKind::AnonFaults, CostKind::Zeroing].map(|kind| diagnosis.cost(kind).unwrap());
    assert!((both.map(|cost| cost.time_share).iter().sum::<f64>() - share).abs() < 1e-9);
    assert!((diagnosis.ceiling_share - share).abs() < 1e-9);
    let run = TypicalRun { wall_ns: 100.0, sys_ns: 300.0, user_ns: 100.0, ..TypicalRun::default() };
    let less = run.clone().without_recording(200.0);
    assert_eq!((less.sys_ns, less.wall_ns, less.user_ns), (100.0, 50.0, 100.0));
    assert_eq!(run.without_recording(1000.0).sys_ns, 0.0);
}
