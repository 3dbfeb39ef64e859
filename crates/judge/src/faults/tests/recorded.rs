//! The recorded faults of `true`.

use super::*;

#[test]
fn a_recorded_program_is_explained() {
    const RECORDED: &str = include_str!("../../../../../fixtures/faults/true.jsonl");
    let events: Vec<FaultEvent> =
        RECORDED.lines().map(|line| serde_json::from_str(line).expect("an event")).collect();
    let begins =
        events.iter().filter(|event| matches!(event.what, FaultEventPayload::Begin(_))).count()
            as u64;
    let exec = Fact::Known(ExecCounts { minor_faults: 23, major_faults: 0 });
    let used = usage(23 + begins, 0);
    let (report, names, faults) = analyse(events, options(false), &used, &exec, &mut Blind);
    assert!(report.is_complete());
    assert_eq!(report.total.faults, begins);
    assert_eq!(report.account.unexplained_faults, Fact::Known(0));
    assert_eq!((report.processes, report.executed), (1, 1));
    // The first one fetches the first instruction of the loader.
    let first = &faults[0];
    let place = &names.places[first.place as usize];
    assert_eq!((first.access, place.kind), (AccessKind::Execute, MappingKind::Code));
    assert!(place.path.contains("ld-linux"), "{place:?}");
    assert!(report.by_kind.iter().all(|group| group.kind != MappingKind::Unknown));
    assert!(report.by_kind.iter().any(|group| group.kind == MappingKind::Stack));
    let data = |path: &str| {
        let is = |p: &&pagewise_model::fault::PlaceTally| {
            p.place.kind == MappingKind::Data && p.place.path.contains(path)
        };
        report.places.iter().find(is).map_or(0, |p| p.tally.faults)
    };
    assert!(data("libc.so") > 0 && data("/true") > 0);
    assert!(faults.windows(2).all(|two| two[0].since_first_ns <= two[1].since_first_ns));
    // The phases hold each fault once, and all but the kernel's work show.
    let phases: Vec<ProgramPhase> = report.by_phase.iter().map(|group| group.kind).collect();
    for phase in [ProgramPhase::Loader, ProgramPhase::Relocation, ProgramPhase::Main] {
        assert!(phases.contains(&phase), "{phases:?}");
    }
    assert_eq!(report.by_phase.iter().map(|group| group.tally.faults).sum::<u64>(), begins);
}
