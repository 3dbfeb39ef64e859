//! A constructed ladder and a constructed sweep in round numbers that come from no machine.

use super::bench_of;
use pagewise_model::bench::pipe::{
    Account, Advice, Buffers, Comparison, Consumption, EndUsage, Judgement, Ladder, Pace, Pages,
    Part, PartBasis, Point, Reader, ReferencePrices, Rung, Sample, Step, Wait, Work, Writer,
    Yardsticks,
};
use pagewise_model::bench::{Claim, Evidence};
use pagewise_model::body::{Bench, Body};
use pagewise_model::look::{KernelStack, Samples};
use pagewise_model::run::Run;
use pagewise_model::{Bytes, Fact, Measured, Nanos, PageSize};

pub(crate) fn rung(name: &str, writer: Writer, reader: Reader) -> Rung {
    Rung { buffers: Buffers::One, ..Rung::plain(name, writer, reader) }
}

/// Three repeats around `rate`.
pub(crate) fn point(rung: &Rung, consumption: Consumption, rate: f64) -> Point {
    let sample = |repeat: u32| {
        let end = EndUsage {
            bytes: Bytes::gib(1),
            user_ns: Nanos::millis(2),
            sys_ns: Nanos::from_f64(0.8e9 / rate),
            voluntary_switches: 1_500,
            minor_faults: 20,
            calls: 4_096,
            slots: 262_144,
            ..EndUsage::default()
        };
        let factor = 1.0 + 0.05 * (f64::from(repeat) - 1.0);
        Sample {
            repeat,
            place: repeat,
            bytes: Bytes::gib(1),
            timed_bytes: Bytes::gib(1),
            wall_ns: Nanos::from_f64(1e9 / (rate * factor)),
            writer: end,
            reader: EndUsage { slots: 0, ..end },
        }
    };
    let page = if rung.pages == Pages::Base { PageSize::BASE_4K } else { PageSize::PMD_2M };
    Point {
        writer_cpu: Some(0),
        reader_cpu: Some(1),
        pipe_bytes: rung.pipe_bytes.unwrap_or(Bytes::kib(64)),
        page_bytes: Fact::Known(page),
        verified: match consumption {
            Consumption::Touched => Fact::Known(true),
            _ => Fact::missing("data never read"),
        },
        samples: (0..3).map(sample).collect(),
        refused: None,
        ..Point::refused(rung.clone(), consumption, "")
    }
}

fn flat(rate: f64) -> Fact<Measured> {
    Measured::from_values(&[rate]).map_or(Fact::missing("none"), Fact::Known)
}

fn empty(points: Vec<Point>, sweep: bool) -> Ladder {
    Ladder {
        seed: 7,
        repeats: 3,
        asked_bytes: None,
        repeat_ns: Some(Nanos::millis(200)),
        sweep,
        points,
        yardsticks: Yardsticks {
            memcpy_gib_per_s: flat(12.0),
            read_gib_per_s: flat(20.0),
            cross_core_gib_per_s: Fact::missing("one core"),
        },
        claims: Vec::new(),
        judgement: None,
    }
}

fn points() -> Vec<Point> {
    let write = rung("write/read", Writer::Write, Reader::Read);
    let lent = Rung {
        pages: Pages::Huge,
        wait: Wait::Busy,
        pipe_bytes: Some(Bytes::kib(128)),
        ..rung("busy loop", Writer::Vmsplice, Reader::Splice)
    };
    let socket = Consumption::ForwardedSocket;
    vec![
        point(&write, Consumption::Untouched, 1.0),
        point(&write, Consumption::Touched, 0.9),
        Point::refused(write, socket, "socketpair failed: EMFILE"),
        point(&lent, Consumption::Untouched, 60.0),
        point(&lent, Consumption::Touched, 25.0),
        point(&lent, socket, 4.0),
    ]
}

fn part(work: Work, per_gib_ns: f64, evidence: &str) -> Part {
    let basis = PartBasis::CountsTimesPrice;
    Part { work, per_gib_ns, basis, evidence: evidence.into() }
}

fn account(at: usize, per_gib_ns: f64, parts: Vec<Part>) -> Account {
    let explained: f64 = parts.iter().map(|p| p.per_gib_ns).sum();
    Account {
        point: at,
        per_gib_ns,
        parts,
        unexplained_per_gib_ns: per_gib_ns - explained,
        not_priced: Vec::new(),
        samples: Fact::missing("perf_event_paranoid is 2"),
        disagreements: Vec::new(),
    }
}

fn judgement() -> Judgement {
    let before = account(
        0,
        2e9,
        vec![
            part(Work::Copy, 0.2e9, "2 GiB x 100.0 ms"),
            part(Work::Wakeups, 1.6e9, "32000 wake-ups x 50.0 us"),
        ],
    );
    let mut after = account(
        3,
        33e6,
        vec![part(Work::Pinning, 20e6, "262144 pages x 76.3 ns"), part(Work::Locks, 15e6, "calls")],
    );
    let stack = |symbols: &[&str], count| KernelStack {
        symbols: symbols.iter().map(ToString::to_string).collect(),
        count,
    };
    after.samples = Fact::Known(Samples {
        user: 10,
        stacks: vec![
            stack(&["gup_fast", "vmsplice", "syscall"], 60),
            stack(&["mutex_lock", "splice", "syscall"], 30),
        ],
        ..Samples::default()
    });
    after.not_priced = vec![Work::Slots];
    after.disagreements =
        vec!["copies: 1.0 ms per GiB by counts and prices, 9 ms by samples".into()];
    let step = Step {
        from: 0,
        to: 3,
        comparison: Comparison {
            ratio: 60.0,
            interval: Fact::Known((55.0, 64.0)),
            pace: Pace::Faster,
        },
        change_per_gib_ns: 33e6 - 2e9,
        parts: vec![
            (Work::Wakeups, -1.6e9),
            (Work::Copy, -0.2e9),
            (Work::Pinning, 20e6),
            (Work::Locks, 15e6),
        ],
        unexplained_per_gib_ns: -2e6 - 0.2e9,
    };
    Judgement {
        prices: ReferencePrices::missing("not measured"),
        accounts: vec![before, after],
        steps: vec![step],
        advice: Vec::new(),
        sentences: ["Do this: 10% less (9..11%).", "Do that in 5.0 ns.", "The rest: not measured."]
            .map(Into::into)
            .into(),
    }
}

/// Two rungs, one of them refused under one consumption, with all conclusions.
pub(crate) fn ladder() -> Ladder {
    let mut ladder = empty(points(), false);
    ladder.judgement = Some(judgement());
    ladder.claims = vec![
        Claim::judged(
            "buffer and pipe size hardly matter",
            Evidence::counted([false]),
            "write/read: 1.00 GiB/s with pipe 64 KiB, 5.00 with pipe 1 MiB",
        ),
        Claim::judged(
            "each of the five rungs is faster than the one before",
            Evidence::Nothing,
            "three were not measured",
        ),
    ];
    ladder
}

/// Two techniques over three pipes and two buffers, with one missing point.
pub(crate) fn sweep() -> Ladder {
    let mut points = Vec::new();
    for (writer, reader, scale) in
        [(Writer::Write, Reader::Read, 1.0), (Writer::Vmsplice, Reader::Splice, 6.0)]
    {
        for (row, buffer) in [64_u64, 1024].into_iter().enumerate() {
            for (column, pipe) in [64_u64, 256, 1024].into_iter().enumerate() {
                let sized = Rung {
                    buffer_bytes: Bytes::kib(buffer),
                    pipe_bytes: Some(Bytes::kib(pipe)),
                    ..rung(&format!("{buffer}/{pipe}"), writer, reader)
                };
                let rate = scale * (1.0 + row as f64) * (1.0 + 2.0 * column as f64);
                points.push(point(&sized, Consumption::Untouched, rate));
            }
        }
    }
    points[2] = Point::refused(points[2].rung.clone(), Consumption::Untouched, "EPERM");
    let mut sweep = empty(points, true);
    sweep.judgement = Some(Judgement {
        prices: ReferencePrices::missing("not measured"),
        accounts: Vec::new(),
        steps: Vec::new(),
        sentences: Vec::new(),
        advice: vec![Advice {
            rung: "vmsplice/splice".into(),
            consumption: Consumption::Untouched,
            buffer_bytes: Bytes::mib(1),
            pipe_bytes: Bytes::mib(1),
            gib_per_s: 60.0,
            enough_pipe_bytes: Bytes::kib(256),
            why: "the bytes are never read, so the largest pipe should be best, and it is".into(),
        }],
    });
    sweep
}

/// A saved run that contains a ladder.
pub(crate) fn bench(ladder: Ladder) -> Run {
    let mut run = bench_of("pipe", "b-0001");
    run.body = Some(Body::Bench(Bench::Ladder(ladder)));
    run
}
