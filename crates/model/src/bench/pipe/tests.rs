use super::*;
use crate::bench::ClaimEvidence;

fn rung(writer: RungWriter, reader: RungReader) -> PipeRung {
    PipeRung {
        name: "test".to_owned(),
        writer,
        reader,
        pages: RungPages::Huge,
        wait: RungWait::Busy,
        buffers: RungBuffers::Two,
        gift: false,
        lock: false,
        untouched: false,
        check_huge: false,
        buffer_bytes: Bytes::kib(256),
        pipe_bytes: Some(Bytes::kib(128)),
        placement: CpuPlacement::TwoCores,
    }
}

fn sample(repeat: u32, wall_ns: u64) -> PipeSample {
    let end = PipeEndUsage {
        bytes: Bytes::gib(2),
        user_ns: Nanos::millis(100),
        sys_ns: Nanos::millis(900),
        voluntary_switches: 10,
        slots: 1 << 19,
        ..PipeEndUsage::default()
    };
    PipeSample {
        repeat,
        place: repeat,
        bytes: Bytes::gib(2),
        timed_bytes: Bytes::gib(1),
        wall_ns: Nanos(wall_ns),
        writer: end,
        reader: end,
    }
}

fn point() -> PipePoint {
    PipePoint {
        samples: vec![sample(0, 500_000_000), sample(1, 250_000_000)],
        refused: None,
        page_bytes: Fact::Known(PageSize::PMD_2M),
        verified: Fact::missing("nobody looks"),
        pipe_bytes: Bytes::kib(128),
        writer_cpu: Some(0),
        reader_cpu: Some(1),
        ..PipePoint::refused(
            rung(RungWriter::Vmsplice, RungReader::Splice),
            PipeConsumption::Untouched,
            "",
        )
    }
}

#[test]
fn a_ladder_there_and_back_in_keys_with_units() {
    let ladder = PipeBenchReport {
        seed: 7,
        repeats: 2,
        asked_bytes: None,
        repeat_ns: Some(Nanos::millis(200)),
        sweep: false,
        compared: Some(RungSwitch::OneBuffer),
        points: vec![point()],
        yardsticks: PipeYardsticks {
            memcpy_gib_per_s: Fact::missing("no"),
            read_gib_per_s: Measured::from_values(&[30.0]).map_or(Fact::missing("no"), Fact::Known),
            cross_core_gib_per_s: Fact::missing("one core"),
        },
        claims: vec![BenchClaim::judged(
            "buffer and pipe size hardly matter",
            ClaimEvidence::counted([false]),
            "1.0 to 5.0",
        )],
        mechanism: None,
        judgement: None,
    };
    let text = serde_json::to_string(&ladder).unwrap();
    assert_eq!(serde_json::from_str::<PipeBenchReport>(&text).unwrap(), ladder);
    for part in [
        r#""writer":"vmsplice""#,
        r#""consumption":"untouched""#,
        r#""buffer_bytes":262144"#,
        r#""wall_ns":500000000"#,
        r#""answer":"refuted""#,
        r#""safe":false"#,
        r#""compared":"one_buffer""#,
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn figures_are_of_what_was_timed() {
    let one = sample(0, 500_000_000);
    assert_eq!(one.gib_per_s(), Some(2.0));
    assert_eq!(one.cpu_s_per_gib(), Some(1.0));
    assert_eq!(one.wakeups_per_gib(), Some(10.0));
    let per_slot = one.ns_per_slot().unwrap();
    assert!((per_slot - 500_000_000.0 / f64::from(1 << 18)).abs() < 1e-6, "{per_slot}");
    let rate = point().rate().unwrap();
    assert_eq!((rate.median, rate.min, rate.max, rate.n), (3.0, 2.0, 4.0, 2));
}

#[test]
fn nothing_moved_has_no_figure() {
    let nothing =
        PipeSample { bytes: Bytes(0), timed_bytes: Bytes(0), wall_ns: Nanos(0), ..sample(0, 1) };
    assert_eq!(nothing.gib_per_s(), None);
    assert_eq!(nothing.cpu_s_per_gib(), None);
    let refused = PipePoint::refused(
        rung(RungWriter::IoUring, RungReader::IoUring),
        PipeConsumption::Touched,
        "io_uring is disabled",
    );
    assert_eq!(refused.rate(), None);
    assert_eq!(refused.page_bytes.reason(), Some("io_uring is disabled"));
}

#[test]
fn what_is_safe_and_what_is_by_reference() {
    assert!(!rung(RungWriter::Vmsplice, RungReader::Read).is_safe());
    assert!(rung(RungWriter::SpliceFrozen, RungReader::Splice).is_safe());
    assert!(rung(RungWriter::GiveDropped, RungReader::Splice).by_reference());
    assert!(!rung(RungWriter::Write, RungReader::Splice).by_reference());
    assert!(!rung(RungWriter::Vmsplice, RungReader::Read).by_reference());
    let spliced = rung(RungWriter::Vmsplice, RungReader::Splice);
    assert_eq!(spliced.reader_for(PipeConsumption::Touched), RungReader::Read);
    assert_eq!(spliced.reader_for(PipeConsumption::ForwardedFile), RungReader::Splice);
}

#[test]
fn a_switch_is_compared_only_where_it_makes_a_difference() {
    use PipeConsumption::{Touched, Untouched};
    let spliced = PipeRung::plain("P3", RungWriter::Vmsplice, RungReader::Splice);
    let untouched = spliced.switched(RungSwitch::Untouched, Untouched).unwrap();
    assert!(untouched.untouched && untouched.name == "P3+untouched");
    assert_eq!(PipeRung { untouched: false, name: "P3".into(), ..untouched.clone() }, spliced);
    assert_eq!(untouched.switched(RungSwitch::Untouched, Untouched), None);
    assert_eq!(spliced.switched(RungSwitch::Untouched, Touched), None, "it must be written");
    let wait = |wait, switch| {
        PipeRung { wait, ..spliced.clone() }.switched(switch, Touched).map(|rung| rung.wait)
    };
    assert_eq!(wait(RungWait::Block, RungSwitch::Busy), Some(RungWait::Busy));
    assert_eq!(wait(RungWait::Busy, RungSwitch::Poll), Some(RungWait::BusyPoll));
    assert_eq!(wait(RungWait::Adaptive, RungSwitch::Busy), None);
    let own = PipeRung { wait: RungWait::Block, ..rung(RungWriter::Write, RungReader::Read) };
    let base = PipeRung { pages: RungPages::Base, ..own.clone() };
    assert!(base.switched(RungSwitch::Huge, Touched).is_some());
    assert_eq!(own.switched(RungSwitch::Huge, Touched), None);
    let reserved = PipeRung { pages: RungPages::HugeTlb, ..own.clone() };
    assert_eq!(reserved.switched(RungSwitch::Huge, Touched), None);
    assert!(own.switched(RungSwitch::Lock, Touched).is_some());
    assert_eq!(own.switched(RungSwitch::Gift, Touched), None);
    assert_eq!(own.switched(RungSwitch::OneBuffer, Touched), None);
    let one = spliced.switched(RungSwitch::OneBuffer, Touched).unwrap();
    assert_eq!(one.buffers, RungBuffers::One);
    assert!(spliced.switched(RungSwitch::Gift, Touched).is_some_and(|rung| rung.gift));
}
