//! Constructed first touches in round numbers that come from no machine.

use super::bench_of;
use pagewise_model::bench::memory::{
    HostBackingCost, HugePageSplit, MemoryBenchJudgement, MemoryBenchPoint, MemoryBenchRatio,
    MemoryBenchReport, MemoryBenchSample, MemoryBenchWay, PopulatePressure, PopulatedFile,
    SharedPool, Unavailable,
};
use pagewise_model::bench::{BenchClaim, ClaimEvidence};
use pagewise_model::body::{BenchReport, RunBody};
use pagewise_model::run::SavedRun;
use pagewise_model::{Bytes, Fact, Measured, Nanos, PageSize};

const PAGES: u64 = 4096;

/// Three mappings that take about this many nanoseconds for each page used.
pub(crate) fn point(
    way: MemoryBenchWay,
    setup_ns: f64,
    touch_ns: f64,
    faults: u64,
) -> MemoryBenchPoint {
    let all = |ns: f64, repeat: u32| {
        Nanos::from_f64(ns * PAGES as f64 * (1.0 + 0.05 * (f64::from(repeat) - 1.0)))
    };
    let sample = |repeat: u32| MemoryBenchSample {
        repeat,
        place: repeat,
        setup_ns: all(setup_ns, repeat),
        touch_ns: all(touch_ns, repeat),
        teardown_ns: all(80.0, repeat),
        cpu_ns: all(setup_ns + touch_ns + 80.0, repeat),
        setup_faults: 0,
        touch_faults: faults,
        resident_bytes: Fact::Known(if faults == 0 { Bytes::mib(16) } else { Bytes(0) }),
    };
    MemoryBenchPoint {
        way,
        every_pages: 1,
        threads: 1,
        mapped_bytes: Bytes::mib(16),
        used_pages: PAGES,
        page_bytes: Fact::Known(PageSize::BASE_4K),
        expected_faults: Fact::Known(faults),
        samples: (0..3).map(sample).collect(),
        refused: None,
    }
}

fn points() -> Vec<MemoryBenchPoint> {
    let huge = Fact::Known(PageSize::PMD_2M);
    let mthp = MemoryBenchWay::Mthp { page_bytes: PageSize::BASE_64K };
    let mut refused = point(MemoryBenchWay::FilePopulateRead, 0.0, 0.0, 0);
    refused.samples.clear();
    refused.refused = Some("`madvise` on a file failed: Invalid argument".into());
    let around = Fact::missing("the kernel decides how many pages one fault maps");
    vec![
        point(MemoryBenchWay::OnDemand, 0.0, 900.0, PAGES),
        MemoryBenchPoint { threads: 2, ..point(MemoryBenchWay::OnDemand, 0.0, 520.0, PAGES) },
        MemoryBenchPoint { page_bytes: huge, ..point(MemoryBenchWay::Thp, 0.0, 120.0, 8) },
        MemoryBenchPoint {
            page_bytes: Fact::Known(PageSize::BASE_64K),
            ..point(mthp, 1.0, 300.0, 256)
        },
        point(MemoryBenchWay::MapPopulate, 700.0, 4.0, 0),
        MemoryBenchPoint {
            every_pages: 10,
            used_pages: PAGES / 10,
            ..point(MemoryBenchWay::MapPopulate, 70.0, 1.0, 0)
        },
        MemoryBenchPoint {
            expected_faults: Fact::Known(PAGES),
            ..point(MemoryBenchWay::Willneed, 0.5, 901.0, 2000)
        },
        MemoryBenchPoint {
            expected_faults: around,
            ..point(MemoryBenchWay::FileFaultAround, 0.0, 60.0, 256)
        },
        refused,
        MemoryBenchPoint {
            refused: Some("interrupted".into()),
            ..point(MemoryBenchWay::ForkCow, 30.0, 1100.0, PAGES)
        },
    ]
}

fn ratio(way: MemoryBenchWay, every_pages: u64, threads: u32, ratio: f64) -> MemoryBenchRatio {
    let interval = Fact::Known((ratio - 0.02, ratio + 0.02));
    MemoryBenchRatio { way, every_pages, threads, ratio, interval }
}

fn judgement() -> MemoryBenchJudgement {
    MemoryBenchJudgement {
        ratios: vec![
            ratio(MemoryBenchWay::Thp, 1, 1, 0.2),
            ratio(MemoryBenchWay::MapPopulate, 1, 1, 0.8),
            ratio(MemoryBenchWay::MapPopulate, 10, 1, 1.55),
        ],
        claims: vec![
            BenchClaim::judged(
                "a huge page takes one fault instead of 512",
                ClaimEvidence::counted([true]),
                "8 faults for 16.0 MiB, and 4096 on base pages",
            ),
            BenchClaim::judged(
                "MADV_WILLNEED fills anonymous memory",
                ClaimEvidence::counted([false]),
                "0 B mapped behind the call",
            ),
        ],
        advice: vec![
            "Do this: 10% less (9..11%).".into(),
            "Do that in 5.0 ns.".into(),
            "The rest: not measured.".into(),
        ],
    }
}

fn flat(ns: f64) -> Measured {
    Measured { median: ns, min: ns, max: ns, n: 1 }
}

fn unavailable() -> Vec<Unavailable> {
    let pool = |way| Unavailable {
        way,
        why: "`mmap MAP_HUGETLB` on 2.0 MiB of memory failed: Cannot allocate memory".into(),
        next: "as root: echo 512 > nr_hugepages".into(),
    };
    vec![pool(MemoryBenchWay::PoolMap), pool(MemoryBenchWay::PoolMemfd)]
}

/// Ways of every kind: one refused, one not as expected.
pub(crate) fn touches() -> MemoryBenchReport {
    MemoryBenchReport {
        seed: 7,
        repeats: 3,
        quick: false,
        cpus: vec![0, 1],
        size_bytes: Bytes::mib(16),
        most_bytes: Bytes::gib(1),
        bound_by: "available memory".into(),
        base_page_bytes: PageSize::BASE_4K,
        huge_page_bytes: PageSize::PMD_2M,
        points: points(),
        unavailable: unavailable(),
        host: vec![HostBackingCost {
            is_huge: false,
            chunk_bytes: Bytes::mib(16),
            chunks: 40,
            slow_chunks: 10,
            extra_page_ns: Fact::Known(800.0),
        }],
        split: Fact::Known(HugePageSplit {
            huge_pages: 8,
            before_bytes: Bytes::mib(16),
            after_bytes: Bytes(0),
            split_ns: flat(3000.0),
            mend_ns: flat(1500.0),
            base_split_ns: flat(1000.0),
            base_mend_ns: flat(900.0),
        }),
        shared_pool: Fact::Known(SharedPool {
            mount: "/mnt/huge".into(),
            pages: 8,
            seen_pages: 8,
            second_faults: 8,
            executable: Fact::Known(true),
        }),
        pressure: Fact::Known(PopulatePressure {
            file_bytes: Bytes::mib(64),
            limit_bytes: Bytes::mib(32),
            alone: populated(Bytes::mib(64), 0),
            limited: populated(Bytes::mib(30), 512),
        }),
        judgement: Some(judgement()),
    }
}

const fn populated(resident_bytes: Bytes, major_faults: u64) -> PopulatedFile {
    let (setup_ns, touch_ns) = (Nanos::millis(40), Nanos::millis(3));
    PopulatedFile { setup_ns, resident_bytes, touch_ns, major_faults }
}

/// A saved run that contains the first touches.
pub(crate) fn bench(touches: MemoryBenchReport) -> SavedRun {
    let mut run = bench_of("memory", "t-0001");
    run.body = Some(RunBody::Bench(BenchReport::Memory(touches)));
    run
}
