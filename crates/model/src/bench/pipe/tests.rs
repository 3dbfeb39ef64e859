use super::*;
use crate::bench::Evidence;

fn rung(writer: Writer, reader: Reader) -> Rung {
    Rung {
        name: "test".to_owned(),
        writer,
        reader,
        pages: Pages::Huge,
        wait: Wait::Busy,
        buffers: Buffers::Two,
        gift: false,
        lock: false,
        untouched: false,
        check_huge: false,
        buffer_bytes: Bytes::kib(256),
        pipe_bytes: Some(Bytes::kib(128)),
        placement: Placement::TwoCores,
    }
}

fn sample(repeat: u32, wall_ns: u64) -> Sample {
    let end = EndUsage {
        bytes: Bytes::gib(2),
        user_ns: Nanos::millis(100),
        sys_ns: Nanos::millis(900),
        voluntary_switches: 10,
        slots: 1 << 19,
        ..EndUsage::default()
    };
    Sample {
        repeat,
        place: repeat,
        bytes: Bytes::gib(2),
        timed_bytes: Bytes::gib(1),
        wall_ns: Nanos(wall_ns),
        writer: end,
        reader: end,
    }
}

fn point() -> Point {
    Point {
        samples: vec![sample(0, 500_000_000), sample(1, 250_000_000)],
        refused: None,
        page_bytes: Fact::Known(PageSize::PMD_2M),
        verified: Fact::missing("nobody looks"),
        pipe_bytes: Bytes::kib(128),
        writer_cpu: Some(0),
        reader_cpu: Some(1),
        ..Point::refused(rung(Writer::Vmsplice, Reader::Splice), Consumption::Untouched, "")
    }
}

#[test]
fn a_ladder_there_and_back_in_keys_with_units() {
    let ladder = Ladder {
        seed: 7,
        repeats: 2,
        asked_bytes: None,
        repeat_ns: Some(Nanos::millis(200)),
        sweep: false,
        points: vec![point()],
        yardsticks: Yardsticks {
            memcpy_gib_per_s: Fact::missing("no"),
            read_gib_per_s: Measured::from_values(&[30.0]).map_or(Fact::missing("no"), Fact::Known),
            cross_core_gib_per_s: Fact::missing("one core"),
        },
        claims: vec![Claim::judged(
            "buffer and pipe size hardly matter",
            Evidence::counted([false]),
            "1.0 to 5.0",
        )],
        judgement: None,
    };
    let text = serde_json::to_string(&ladder).unwrap();
    assert_eq!(serde_json::from_str::<Ladder>(&text).unwrap(), ladder);
    for part in [
        r#""writer":"vmsplice""#,
        r#""consumption":"untouched""#,
        r#""buffer_bytes":262144"#,
        r#""wall_ns":500000000"#,
        r#""answer":"refuted""#,
        r#""safe":false"#,
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
        Sample { bytes: Bytes(0), timed_bytes: Bytes(0), wall_ns: Nanos(0), ..sample(0, 1) };
    assert_eq!(nothing.gib_per_s(), None);
    assert_eq!(nothing.cpu_s_per_gib(), None);
    let refused = Point::refused(
        rung(Writer::IoUring, Reader::IoUring),
        Consumption::Touched,
        "io_uring is disabled",
    );
    assert_eq!(refused.rate(), None);
    assert_eq!(refused.page_bytes.reason(), Some("io_uring is disabled"));
}

#[test]
fn what_is_safe_and_what_is_by_reference() {
    assert!(!rung(Writer::Vmsplice, Reader::Read).is_safe());
    assert!(rung(Writer::SpliceFrozen, Reader::Splice).is_safe());
    assert!(rung(Writer::GiveDropped, Reader::Splice).by_reference());
    assert!(!rung(Writer::Write, Reader::Splice).by_reference());
    assert!(!rung(Writer::Vmsplice, Reader::Read).by_reference());
    let spliced = rung(Writer::Vmsplice, Reader::Splice);
    assert_eq!(spliced.reader_for(Consumption::Touched), Reader::Read);
    assert_eq!(spliced.reader_for(Consumption::ForwardedFile), Reader::Splice);
}
