//! A constructed ladder and a constructed sweep in round numbers that come from no machine.

use super::bench_of;
use pagewise_model::bench::pipe::{
    PipeBenchReport, PipeConsumption, PipeEndUsage, PipeFillStep, PipeJudgement, PipeMechanism,
    PipePoint, PipeRatio, PipeRung, PipeSample, PipeSizeAdvice, PipeTimeAccount, PipeWork,
    PipeWorkBasis, PipeWorkPart, PipeYardsticks, PointSpeed, PublishedShare, ReferencePrices,
    RungBuffers, RungPages, RungReader, RungStep, RungWait, RungWriter,
};
use pagewise_model::bench::{BenchClaim, ClaimEvidence};
use pagewise_model::body::{BenchReport, RunBody};
use pagewise_model::look::{CpuSamples, KernelStack};
use pagewise_model::run::SavedRun;
use pagewise_model::{Bytes, Fact, Measured, Nanos, PageSize};

pub(crate) fn rung(name: &str, writer: RungWriter, reader: RungReader) -> PipeRung {
    PipeRung { buffers: RungBuffers::One, ..PipeRung::plain(name, writer, reader) }
}

/// Three repeats around `rate`.
pub(crate) fn point(rung: &PipeRung, consumption: PipeConsumption, rate: f64) -> PipePoint {
    let sample = |repeat: u32| {
        let end = PipeEndUsage {
            bytes: Bytes::gib(1),
            user_ns: Nanos::millis(2),
            sys_ns: Nanos::from_f64(0.8e9 / rate),
            voluntary_switches: 1_500,
            minor_faults: 20,
            calls: 4_096,
            slots: 262_144,
            ..PipeEndUsage::default()
        };
        let factor = 1.0 + 0.05 * (f64::from(repeat) - 1.0);
        PipeSample {
            repeat,
            place: repeat,
            bytes: Bytes::gib(1),
            timed_bytes: Bytes::gib(1),
            wall_ns: Nanos::from_f64(1e9 / (rate * factor)),
            writer: end,
            reader: PipeEndUsage { slots: 0, ..end },
        }
    };
    let page = if rung.pages == RungPages::Base { PageSize::BASE_4K } else { PageSize::PMD_2M };
    PipePoint {
        writer_cpu: Some(0),
        reader_cpu: Some(1),
        pipe_bytes: rung.pipe_bytes.unwrap_or(Bytes::kib(64)),
        page_bytes: Fact::Known(page),
        verified: match consumption {
            PipeConsumption::Touched => Fact::Known(true),
            _ => Fact::missing("data never read"),
        },
        samples: (0..3).map(sample).collect(),
        refused: None,
        ..PipePoint::refused(rung.clone(), consumption, "")
    }
}

fn flat(rate: f64) -> Fact<Measured> {
    Measured::from_values(&[rate]).map_or(Fact::missing("none"), Fact::Known)
}

fn empty(points: Vec<PipePoint>, sweep: bool) -> PipeBenchReport {
    PipeBenchReport {
        seed: 7,
        repeats: 3,
        asked_bytes: None,
        repeat_ns: Some(Nanos::millis(200)),
        sweep,
        compared: None,
        points,
        yardsticks: PipeYardsticks {
            memcpy_gib_per_s: flat(12.0),
            read_gib_per_s: flat(20.0),
            cross_core_gib_per_s: Fact::missing("one core"),
        },
        claims: Vec::new(),
        mechanism: None,
        judgement: None,
    }
}

/// The mechanism in round numbers, on a ring that has come around.
pub(crate) fn mechanism() -> PipeBenchReport {
    let step = |call: &str, held: u64, head, tail| PipeFillStep {
        call: call.into(),
        held_bytes: Bytes(held),
        head,
        tail,
    };
    let prices = ReferencePrices {
        slot_ns: Fact::Known(20.0),
        pin_base_ns: Fact::Known(30.0),
        ..ReferencePrices::missing("less than the noise")
    };
    let about = |ns: f64| {
        Measured::from_values(&[ns, 0.9 * ns, 1.2 * ns]).map_or(Fact::missing("none"), Fact::Known)
    };
    let mechanism = PipeMechanism {
        capacity_bytes: Bytes::kib(64),
        slots: 16,
        fill: vec![step("write 100 B", 100, 1, 0), step("read 4200 B", 4_098, 18, 15)],
        kept_page_ns: about(200.0),
        new_page_ns: about(100.0),
        lent_page_ns: about(50.0),
        batch_edge_ns: about(-2.0),
        thread_switch_ns: about(1_000.0),
        process_switch_ns: about(1_500.0),
        touch_ns: about(2.0),
        switched_touch_ns: about(3.0),
        flushed_touch_ns: about(30.0),
        flushed_share: about(0.05),
        has_pcid: Fact::Known(true),
    };
    let judgement = PipeJudgement {
        prices,
        accounts: Vec::new(),
        steps: Vec::new(),
        advice: Vec::new(),
        sentences: Vec::new(),
    };
    PipeBenchReport {
        mechanism: Some(Box::new(mechanism)),
        judgement: Some(judgement),
        ..empty(Vec::new(), false)
    }
}

fn points() -> Vec<PipePoint> {
    let write = rung("write/read", RungWriter::Write, RungReader::Read);
    let lent = PipeRung {
        pages: RungPages::Huge,
        wait: RungWait::Busy,
        pipe_bytes: Some(Bytes::kib(128)),
        ..rung("busy loop", RungWriter::Vmsplice, RungReader::Splice)
    };
    let socket = PipeConsumption::ForwardedSocket;
    vec![
        point(&write, PipeConsumption::Untouched, 1.0),
        point(&write, PipeConsumption::Touched, 0.9),
        PipePoint::refused(write, socket, "socketpair failed: EMFILE"),
        point(&lent, PipeConsumption::Untouched, 60.0),
        point(&lent, PipeConsumption::Touched, 25.0),
        point(&lent, socket, 4.0),
    ]
}

fn part(work: PipeWork, per_gib_ns: f64, evidence: &str) -> PipeWorkPart {
    let basis = PipeWorkBasis::CountsTimesPrice;
    PipeWorkPart { work, per_gib_ns, basis, evidence: evidence.into() }
}

fn account(at: usize, per_gib_ns: f64, parts: Vec<PipeWorkPart>) -> PipeTimeAccount {
    let explained: f64 = parts.iter().map(|p| p.per_gib_ns).sum();
    PipeTimeAccount {
        point: at,
        per_gib_ns,
        parts,
        unexplained_per_gib_ns: per_gib_ns - explained,
        not_priced: Vec::new(),
        samples: Fact::missing("perf_event_paranoid is 2"),
        disagreements: Vec::new(),
        published: Vec::new(),
    }
}

fn published() -> PublishedShare {
    let function = "__mutex_lock".into();
    PublishedShare { work: PipeWork::Locks, function, published_share: 0.1657, share: 0.3 }
}

fn judgement() -> PipeJudgement {
    let before = account(
        0,
        2e9,
        vec![
            part(PipeWork::Copy, 0.2e9, "2 GiB x 100.0 ms"),
            part(PipeWork::Wakeups, 1.6e9, "32000 wake-ups x 50.0 us"),
        ],
    );
    let mut after = account(
        3,
        33e6,
        vec![
            part(PipeWork::Pinning, 20e6, "262144 pages x 76.3 ns"),
            part(PipeWork::Locks, 15e6, "calls"),
        ],
    );
    let stack = |symbols: &[&str], count| KernelStack {
        symbols: symbols.iter().map(ToString::to_string).collect(),
        count,
    };
    after.samples = Fact::Known(CpuSamples {
        user: 10,
        stacks: vec![
            stack(&["gup_fast", "vmsplice", "syscall"], 60),
            stack(&["mutex_lock", "splice", "syscall"], 30),
        ],
        ..CpuSamples::default()
    });
    after.published = vec![published()];
    after.not_priced = vec![PipeWork::Slots];
    after.disagreements =
        vec!["copies: 1.0 ms per GiB by counts and prices, 9 ms by samples".into()];
    let step = RungStep {
        from: 0,
        to: 3,
        comparison: PipeRatio {
            ratio: 60.0,
            interval: Fact::Known((55.0, 64.0)),
            pace: PointSpeed::Faster,
        },
        change_per_gib_ns: 33e6 - 2e9,
        parts: vec![
            (PipeWork::Wakeups, -1.6e9),
            (PipeWork::Copy, -0.2e9),
            (PipeWork::Pinning, 20e6),
            (PipeWork::Locks, 15e6),
        ],
        unexplained_per_gib_ns: -2e6 - 0.2e9,
    };
    PipeJudgement {
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
pub(crate) fn ladder() -> PipeBenchReport {
    let mut ladder = empty(points(), false);
    ladder.judgement = Some(judgement());
    ladder.claims = vec![
        BenchClaim::judged(
            "buffer and pipe size hardly matter",
            ClaimEvidence::counted([false]),
            "write/read: 1.00 GiB/s with pipe 64 KiB, 5.00 with pipe 1 MiB",
        ),
        BenchClaim::judged(
            "each of the five rungs is faster than the one before",
            ClaimEvidence::Nothing,
            "three were not measured",
        ),
    ];
    ladder
}

/// Two techniques over three pipes and two buffers, with one missing point.
pub(crate) fn sweep() -> PipeBenchReport {
    let mut points = Vec::new();
    for (writer, reader, scale) in [
        (RungWriter::Write, RungReader::Read, 1.0),
        (RungWriter::Vmsplice, RungReader::Splice, 6.0),
    ] {
        for (row, buffer) in [64_u64, 1024].into_iter().enumerate() {
            for (column, pipe) in [64_u64, 256, 1024].into_iter().enumerate() {
                let sized = PipeRung {
                    buffer_bytes: Bytes::kib(buffer),
                    pipe_bytes: Some(Bytes::kib(pipe)),
                    ..rung(&format!("{buffer}/{pipe}"), writer, reader)
                };
                let rate = scale * (1.0 + row as f64) * (1.0 + 2.0 * column as f64);
                points.push(point(&sized, PipeConsumption::Untouched, rate));
            }
        }
    }
    points[2] = PipePoint::refused(points[2].rung.clone(), PipeConsumption::Untouched, "EPERM");
    let mut sweep = empty(points, true);
    sweep.judgement = Some(PipeJudgement {
        prices: ReferencePrices::missing("not measured"),
        accounts: Vec::new(),
        steps: Vec::new(),
        sentences: Vec::new(),
        advice: vec![PipeSizeAdvice {
            rung: "vmsplice/splice".into(),
            consumption: PipeConsumption::Untouched,
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
pub(crate) fn bench(ladder: PipeBenchReport) -> SavedRun {
    let mut run = bench_of("pipe", "b-0001");
    run.body = Some(RunBody::Bench(BenchReport::Pipe(ladder)));
    run
}
