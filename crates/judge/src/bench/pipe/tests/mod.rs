//! Ladders made from known prices and counts. The judgement must recover those prices and counts.

mod account;
mod rates;

use super::*;
use crate::stats::Rng;
use pagewise_model::bench::pipe::{
    ClaimAnswer, CpuPlacement, CrossCorePrices, PipeConsumption, PipeEndUsage, PipePoint, PipeRung,
    PipeSample, PipeTimeAccount, PipeWork, PipeYardsticks, PointSpeed, RungBuffers, RungPages,
    RungReader, RungSwitch, RungWait, RungWriter,
};
use pagewise_model::look::KernelStack;
use pagewise_model::price::TransferPoint;
use pagewise_model::{Measured, Nanos};

const GIB: u64 = 1 << 30;
const PAGES: u64 = GIB / PageSize::BASE_4K.bytes();
/// One copy of a GiB, one page allocated, entry and lock of a call, a wake-up without its calls, a
/// fault, one slot, one page looked up, nanoseconds.
const COPY: f64 = 50e6;
const PAGE: f64 = 100.0;
const ENTRY: f64 = 80.0;
const LOCK: f64 = 120.0;
const WAKEUP: f64 = 5_000.0;
/// The CPU time in it. On a single CPU, all of it is CPU time.
const AWAKE: f64 = 1_000.0;
const FAULT: f64 = 600.0;
const SLOT: f64 = 40.0;
const PIN: f64 = 30.0;
/// One copy of a GiB out of pages that were lent.
const READ: f64 = 80e6;
/// The extra cost of a GiB from another core's cache.
const CROSS: f64 = 20e6;
/// The extra cost of a slot that another core empties.
const APART: f64 = 12.0;
/// The same, of bytes that were written again.
const RENEWED: f64 = 90.0;

fn flat(value: f64) -> Measured {
    Measured { median: value, min: value, max: value, n: 9 }
}

fn prices() -> SessionPrices {
    let pair = 2.0 * (ENTRY + LOCK);
    let bytes = |n: u64| 2.0 * COPY * n as f64 / GIB as f64;
    let transfer = |n: u64, pages: f64| TransferPoint {
        transfer_bytes: Bytes(n),
        transfer_ns: flat(pair + bytes(n - 1) + pages * PAGE),
    };
    SessionPrices {
        anon_fault_ns: flat(FAULT),
        zero_page_ns: flat(150.0),
        file_fault_ns: flat(500.0),
        file_fault_pages: 16.0,
        cow_fault_ns: flat(700.0),
        huge_fault_ns: Fact::Known(flat(90_000.0)),
        pipe_transfers: vec![transfer(1, 0.0), transfer(8192, 0.0), transfer(65536, 14.0)],
        file_reads: Vec::new(),
        syscall_ns: flat(ENTRY),
        map_unmap_ns: flat(2_000.0),
        wakeup_cross_ns: Fact::Known(flat(WAKEUP + pair)),
        wakeup_same_ns: flat(AWAKE + pair),
        spawn_ns: Fact::missing("not needed"),
        fork_page_ns: Fact::missing("not needed"),
        chase: Vec::new(),
        host_fault_extra_ns: Fact::missing("not needed"),
        prior: false,
    }
}

fn references() -> ReferencePrices {
    ReferencePrices {
        slot_ns: Fact::Known(SLOT),
        pin_base_ns: Fact::Known(PIN),
        pin_huge_ns: Fact::Known(PIN / 10.0),
        cache_base_ns: Fact::Known(20.0),
        cache_huge_ns: Fact::Known(15.0),
        read_base_ns: Fact::Known(READ / PAGES as f64),
        read_huge_ns: Fact::missing("not needed"),
        hand_over_cpu_ns: Fact::Known(AWAKE + 2.0 * (ENTRY + LOCK)),
        apart: CrossCorePrices {
            slot_ns: Fact::Known(APART),
            pin_base_ns: Fact::Known(APART),
            pin_huge_ns: Fact::Known(APART / 4.0),
            copied_ns: Fact::Known(CROSS / PAGES as f64),
            read_base_ns: Fact::Known(APART),
            renewed_base_ns: Fact::Known(RENEWED),
            ..CrossCorePrices::missing("not needed")
        },
        asleep: CrossCorePrices::missing("not needed"),
    }
}

fn rung(name: &str, writer: RungWriter, reader: RungReader) -> PipeRung {
    PipeRung { buffers: RungBuffers::One, ..PipeRung::plain(name, writer, reader) }
}

/// Counts of one GiB and the times that nothing prices.
#[derive(Clone, Copy, Default)]
struct Truth {
    calls: u64,
    spins: u64,
    switches: u64,
    faults: u64,
    user: f64,
    kernel: f64,
    waiting: f64,
}

/// A repeat of a GiB with these counts that takes this long: both ends together.
fn sample(repeat: u32, truth: Truth, cpu: f64, total: f64, ends: f64) -> PipeSample {
    let half = |n: u64| (n - n / 2, n / 2);
    let (calls, spins) = (half(truth.calls + truth.spins), half(truth.spins));
    let (switches, faults) = (half(truth.switches), half(truth.faults));
    let end = |calls, spins, switches, faults, slots| PipeEndUsage {
        bytes: Bytes(GIB),
        user_ns: Nanos::from_f64(truth.user / 2.0),
        sys_ns: Nanos::from_f64((cpu - truth.user) / 2.0),
        voluntary_switches: switches,
        minor_faults: faults,
        calls,
        spins,
        slots,
        ..PipeEndUsage::default()
    };
    PipeSample {
        repeat,
        place: repeat,
        bytes: Bytes(GIB),
        timed_bytes: Bytes(GIB),
        wall_ns: Nanos::from_f64(total / ends),
        writer: end(calls.0, spins.0, switches.0, faults.0, PAGES),
        reader: end(calls.1, spins.1, switches.1, faults.1, 0),
    }
}

fn point(rung: PipeRung, consumption: PipeConsumption, samples: Vec<PipeSample>) -> PipePoint {
    PipePoint {
        writer_cpu: Some(0),
        reader_cpu: Some(u32::from(rung.placement != CpuPlacement::SameCore)),
        pipe_bytes: rung.pipe_bytes.unwrap_or(Bytes::kib(64)),
        page_bytes: Fact::Known(PageSize::BASE_4K),
        samples,
        refused: None,
        ..PipePoint::refused(rung, consumption, "")
    }
}

/// A point whose time is `work` (copies, pages, slots and so on) and what `truth` counts.
fn made(rung: PipeRung, work: f64, truth: Truth, noise: f64) -> PipePoint {
    let calls = truth.calls as f64 * (ENTRY + LOCK) + truth.spins as f64 * (ENTRY + LOCK);
    let switches = truth.switches as f64;
    let counted = calls + truth.faults as f64 * FAULT + switches * AWAKE;
    let cpu = work + counted + truth.user + truth.kernel;
    let total = cpu + switches * (WAKEUP - AWAKE) + truth.waiting;
    let mut rng = Rng::new(3);
    let samples = (0..9).map(|repeat| {
        let factor = 1.0 + noise * rng.normal();
        sample(repeat, truth, cpu * factor, total * factor, 2.0)
    });
    let samples = samples.collect();
    point(rung, PipeConsumption::Untouched, samples)
}

fn ladder(points: Vec<PipePoint>) -> PipeBenchReport {
    PipeBenchReport {
        seed: 1,
        repeats: 9,
        asked_bytes: None,
        repeat_ns: None,
        sweep: false,
        compared: None,
        points,
        yardsticks: PipeYardsticks {
            memcpy_gib_per_s: Fact::Known(flat(12.0)),
            read_gib_per_s: Fact::Known(flat(30.0)),
            cross_core_gib_per_s: Fact::Known(flat(1e9 / (COPY + CROSS))),
        },
        claims: Vec::new(),
        mechanism: None,
        judgement: None,
    }
}

fn judged(points: Vec<PipePoint>, reference: &ReferencePrices) -> PipeJudgement {
    let prices = prices();
    judge(
        &ladder(points),
        &PipeContext {
            prices: Some(&prices),
            reference,
            base_page: PageSize::BASE_4K,
            l2_bytes: &Fact::missing("not known"),
            samples: &[],
        },
    )
}

/// The judgement without any price, with these samples by index of the point.
fn unpriced(ladder: &PipeBenchReport, samples: &[(usize, CpuSamples)]) -> PipeJudgement {
    let known = PipeContext {
        prices: None,
        reference: &ReferencePrices::missing("none"),
        base_page: PageSize::BASE_4K,
        l2_bytes: &Fact::missing("not known"),
        samples,
    };
    judge(ladder, &known)
}

const COUNTS: Truth = Truth {
    calls: 8_192,
    spins: 0,
    switches: 3_000,
    faults: 500,
    user: 2e6,
    kernel: 0.0,
    waiting: 7e6,
};

fn write_read() -> PipeRung {
    rung("write", RungWriter::Write, RungReader::Read)
}

fn write_read_work() -> f64 {
    2.0 * COPY + CROSS + PAGES as f64 * PAGE
}

fn assert_near(got: f64, want: f64, share: f64) {
    assert!((got - want).abs() <= share * want.abs().max(1.0), "{got} is not {want}");
}

fn only(judgement: &PipeJudgement) -> &PipeTimeAccount {
    assert_eq!(judgement.accounts.len(), 1);
    &judgement.accounts[0]
}
