//! Ladders made from known prices and counts: what was put in must come out.

use super::*;
use crate::stats::Rng;
use pagewise_model::ladder::{
    Account, Answer, Buffers, Consumption, EndUsage, Pace, Pages, Placement, Point, Reader, Rung,
    Sample, Wait, Work, Writer, Yardsticks,
};
use pagewise_model::look::KernelStack;
use pagewise_model::price::TransferPoint;
use pagewise_model::{Measured, Nanos};

const GIB: u64 = 1 << 30;
const PAGES: u64 = GIB / 4096;
/// One copy of a GiB, one page allocated, entry and lock of a call, a wake-up without its calls, a
/// fault, one slot, one page looked up, nanoseconds.
const COPY: f64 = 50e6;
const PAGE: f64 = 100.0;
const ENTRY: f64 = 80.0;
const LOCK: f64 = 120.0;
const WAKEUP: f64 = 5_000.0;
/// What of it is CPU time: all of one on the same CPU.
const AWAKE: f64 = 1_000.0;
const FAULT: f64 = 600.0;
const SLOT: f64 = 40.0;
const PIN: f64 = 30.0;
/// What a GiB costs more from another core's cache.
const CROSS: f64 = 20e6;

fn flat(value: f64) -> Measured {
    Measured { median: value, min: value, max: value, n: 9 }
}

fn prices() -> Prices {
    let pair = 2.0 * (ENTRY + LOCK);
    let bytes = |n: u64| 2.0 * COPY * n as f64 / GIB as f64;
    let transfer = |n: u64, pages: f64| TransferPoint {
        transfer_bytes: Bytes(n),
        transfer_ns: flat(pair + bytes(n - 1) + pages * PAGE),
    };
    Prices {
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
    }
}

fn rung(name: &str, writer: Writer, reader: Reader) -> Rung {
    Rung { buffers: Buffers::One, ..Rung::plain(name, writer, reader) }
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
fn sample(repeat: u32, truth: Truth, cpu: f64, total: f64, ends: f64) -> Sample {
    let half = |n: u64| (n - n / 2, n / 2);
    let (calls, spins) = (half(truth.calls + truth.spins), half(truth.spins));
    let (switches, faults) = (half(truth.switches), half(truth.faults));
    let end = |calls, spins, switches, faults, slots| EndUsage {
        bytes: Bytes(GIB),
        user_ns: Nanos::from_f64(truth.user / 2.0),
        sys_ns: Nanos::from_f64((cpu - truth.user) / 2.0),
        voluntary_switches: switches,
        minor_faults: faults,
        calls,
        spins,
        slots,
        ..EndUsage::default()
    };
    Sample {
        repeat,
        place: repeat,
        bytes: Bytes(GIB),
        timed_bytes: Bytes(GIB),
        wall_ns: Nanos::from_f64(total / ends),
        writer: end(calls.0, spins.0, switches.0, faults.0, PAGES),
        reader: end(calls.1, spins.1, switches.1, faults.1, 0),
    }
}

fn point(rung: Rung, consumption: Consumption, samples: Vec<Sample>) -> Point {
    Point {
        writer_cpu: Some(0),
        reader_cpu: Some(u32::from(rung.placement != Placement::SameCore)),
        pipe_bytes: rung.pipe_bytes.unwrap_or(Bytes::kib(64)),
        page_bytes: Fact::Known(PageSize::BASE_4K),
        samples,
        refused: None,
        ..Point::refused(rung, consumption, "")
    }
}

/// A point whose time is `work` (copies, pages, slots and so on) and what `truth` counts.
fn made(rung: Rung, work: f64, truth: Truth, noise: f64) -> Point {
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
    point(rung, Consumption::Untouched, samples)
}

fn ladder(points: Vec<Point>) -> Ladder {
    Ladder {
        seed: 1,
        repeats: 9,
        asked_bytes: None,
        repeat_ns: None,
        sweep: false,
        points,
        yardsticks: Yardsticks {
            memcpy_gib_per_s: Fact::Known(flat(12.0)),
            read_gib_per_s: Fact::Known(flat(30.0)),
            cross_core_gib_per_s: Fact::Known(flat(1e9 / (COPY + CROSS))),
        },
        claims: Vec::new(),
        judgement: None,
    }
}

fn judged(points: Vec<Point>, reference: &ReferencePrices) -> Judgement {
    let prices = prices();
    judge(
        &ladder(points),
        &Known {
            prices: Some(&prices),
            reference,
            base_page: PageSize::BASE_4K,
            l2_bytes: &Fact::missing("not known"),
            samples: &[],
        },
    )
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

fn write_read() -> Rung {
    rung("write", Writer::Write, Reader::Read)
}

fn write_read_work() -> f64 {
    2.0 * COPY + CROSS + PAGES as f64 * PAGE
}

fn assert_near(got: f64, want: f64, share: f64) {
    assert!((got - want).abs() <= share * want.abs().max(1.0), "{got} is not {want}");
}

fn only(judgement: &Judgement) -> &Account {
    assert_eq!(judgement.accounts.len(), 1);
    &judgement.accounts[0]
}

#[test]
fn every_part_of_a_known_point_is_found() {
    let judgement = judged(vec![made(write_read(), write_read_work(), COUNTS, 0.0)], &references());
    let account = only(&judgement);
    let parts = [
        (Work::Copy, 2.0 * COPY),
        (Work::CacheTransfer, CROSS),
        (Work::PageAllocation, PAGES as f64 * PAGE),
        (Work::Entry, 8_192.0 * ENTRY),
        (Work::Locks, 8_192.0 * LOCK),
        (Work::Faults, 500.0 * FAULT),
        (Work::Wakeups, 3_000.0 * WAKEUP),
        (Work::Waiting, 7e6),
        (Work::User, 2e6),
    ];
    for (work, ns) in parts {
        assert_near(account.part_ns(work), ns, 1e-3);
    }
    assert_eq!(account.parts.len(), parts.len());
    assert!(account.not_priced.is_empty());
    assert!(account.unexplained_per_gib_ns.abs() < 1e-4 * account.per_gib_ns);
}

#[test]
fn injected_copies_wakeups_and_faults_are_recovered_from_noisy_repeats() {
    let reference = references();
    let slots = PAGES as f64 * (SLOT + PIN);
    let spliced = rung("splice", Writer::Vmsplice, Reader::Splice);
    let read = rung("read", Writer::Vmsplice, Reader::Read);
    let more = Truth { switches: 13_000, faults: 90_500, ..COUNTS };
    let points = vec![
        made(spliced.clone(), slots, COUNTS, 0.03),
        made(read, slots + COPY + CROSS, COUNTS, 0.03),
        made(spliced, slots, more, 0.03),
    ];
    let steps = judged(points, &reference).steps;
    assert_eq!(steps.len(), 2);
    let change = |at: usize, work| {
        steps[at].parts.iter().find(|(w, _)| *w == work).map_or(0.0, |(_, ns)| *ns)
    };
    assert_near(change(0, Work::Copy), COPY, 0.1);
    assert_near(change(1, Work::Copy), -COPY, 0.1);
    assert_near(change(1, Work::Wakeups), 10_000.0 * WAKEUP, 0.1);
    assert_near(change(1, Work::Faults), 90_000.0 * FAULT, 0.1);
    for step in &steps {
        let explained: f64 = step.parts.iter().map(|(_, ns)| ns).sum();
        assert_near(explained + step.unexplained_per_gib_ns, step.change_per_gib_ns, 1e-9);
    }
}

#[test]
fn what_has_no_price_stays_unexplained_to_the_nanosecond() {
    let slots = PAGES as f64 * (SLOT + PIN);
    let spliced = || made(rung("s", Writer::Vmsplice, Reader::Splice), slots, COUNTS, 0.0);
    let full = judged(vec![spliced()], &references());
    assert!(only(&full).unexplained_per_gib_ns.abs() < 1e-4 * only(&full).per_gib_ns);
    let without = judged(vec![spliced()], &ReferencePrices::missing("not taken"));
    let account = only(&without);
    assert_eq!(account.not_priced, [Work::Pinning, Work::Slots]);
    assert_near(account.unexplained_per_gib_ns, slots, 1e-3);
    let hidden = Truth { kernel: 33e6, ..COUNTS };
    let more = judged(vec![made(write_read(), write_read_work(), hidden, 0.0)], &references());
    assert_near(only(&more).unexplained_per_gib_ns, 33e6, 1e-3);
}

#[test]
fn prices_that_say_too_much_leave_a_negative_rest() {
    let judgement = judged(vec![made(write_read(), COPY, COUNTS, 0.0)], &references());
    let missing = COPY - write_read_work();
    assert_near(only(&judgement).unexplained_per_gib_ns, missing, 1e-3);
}

#[test]
fn an_end_that_spins_waits() {
    let spinning = Truth { spins: 200_000, switches: 0, waiting: 0.0, ..COUNTS };
    let mut busy = rung("busy", Writer::Vmsplice, Reader::Splice);
    busy.wait = Wait::Busy;
    let slots = PAGES as f64 * (SLOT + PIN);
    let judgement = judged(vec![made(busy, slots, spinning, 0.0)], &references());
    let account = only(&judgement);
    assert_near(account.part_ns(Work::Waiting), 200_000.0 * (ENTRY + LOCK), 1e-3);
    assert_near(account.part_ns(Work::Entry), 8_192.0 * ENTRY, 1e-3);
    assert!(account.part_ns(Work::Wakeups) == 0.0);
}

#[test]
fn wakeups_take_no_longer_than_was_slept() {
    let mut cheap = made(write_read(), write_read_work(), COUNTS, 0.0);
    for sample in &mut cheap.samples {
        sample.wall_ns = Nanos((sample.writer.cpu_ns() + sample.reader.cpu_ns()).0 / 2 + 1_000_000);
    }
    let judgement = judged(vec![cheap], &references());
    let account = only(&judgement);
    assert_near(account.part_ns(Work::Wakeups), 3_000.0 * AWAKE + 2e6, 1e-3);
    let part = account.parts.iter().find(|p| p.work == Work::Wakeups).unwrap();
    assert!(part.evidence.ends_with("capped by the time asleep"), "{}", part.evidence);
    assert!(account.part_ns(Work::Waiting) == 0.0);
}

#[test]
fn on_one_cpu_the_clock_counts_once_and_nothing_crosses() {
    let mut same = write_read();
    same.placement = Placement::SameCore;
    let cpu = write_read_work() - CROSS + 8_192.0 * (ENTRY + LOCK) + 3_000.0 * AWAKE;
    let truth = Truth { calls: 8_192, switches: 3_000, ..Truth::default() };
    let samples = (0..9).map(|i| sample(i, truth, cpu, cpu, 1.0)).collect();
    let judgement = judged(vec![point(same, Consumption::Untouched, samples)], &references());
    let account = only(&judgement);
    assert_near(account.per_gib_ns, cpu, 1e-6);
    assert_near(account.part_ns(Work::Wakeups), 3e6, 1e-3);
    assert!(account.unexplained_per_gib_ns.abs() < 1e-3 * cpu);
    assert!(account.part_ns(Work::CacheTransfer) == 0.0);
}

#[test]
fn copies_by_mode_and_consumption() {
    let copies = |writer, reader, consumption| {
        let rung = rung("r", writer, reader);
        let mut point = made(rung.clone(), 1e9, COUNTS, 0.0);
        point.consumption = consumption;
        point.reader = rung.reader_for(consumption);
        only(&judged(vec![point], &references())).part_ns(Work::Copy) / COPY
    };
    use Consumption::{ForwardedFile, ForwardedSocket, Touched, Untouched};
    for (writer, reader, consumption, want) in [
        (Writer::Write, Reader::Read, Untouched, 2.0),
        (Writer::Write, Reader::Read, ForwardedSocket, 3.0),
        (Writer::Vmsplice, Reader::Splice, Untouched, 0.0),
        (Writer::Vmsplice, Reader::Splice, Touched, 1.0),
        (Writer::SpliceFrozen, Reader::Splice, ForwardedSocket, 0.0),
        (Writer::SpliceFrozen, Reader::Splice, ForwardedFile, 1.0),
        (Writer::IoUring, Reader::VmspliceOut, Untouched, 2.0),
    ] {
        let got = copies(writer, reader, consumption);
        assert!((got - want).abs() < 1e-6, "{writer:?} {reader:?} {consumption:?}: {got}");
    }
}

#[test]
fn samples_that_contradict_prices_are_told() {
    let stack = |symbol: &str, count| KernelStack { symbols: vec![symbol.into()], count };
    let prices = prices();
    let points = || vec![made(write_read(), write_read_work(), COUNTS, 0.0)];
    let told = |copied: u64| {
        let samples = Samples {
            user: 10,
            stacks: vec![stack("_copy_to_iter", copied), stack("anon_pipe_write", 180)],
            period_ns: Nanos(500_000),
            ..Samples::default()
        };
        let reference = references();
        let known = Known {
            prices: Some(&prices),
            reference: &reference,
            base_page: PageSize::BASE_4K,
            l2_bytes: &Fact::missing("not known"),
            samples: &[(0, samples)],
        };
        let judgement = judge(&ladder(points()), &known);
        assert!(only(&judgement).samples.known().is_some());
        only(&judgement).disagreements.clone()
    };
    // Copies are 120 ms of the 150 ms of CPU time, page allocation and calls 28 ms.
    assert_eq!(told(800).len(), 0, "{:?}", told(800));
    let contradicted = told(10);
    assert!(contradicted.iter().any(|s| s.starts_with("copies: 120.0 ms per GiB by counts")));
}

fn rated(rung: Rung, consumption: Consumption, rates: &[f64]) -> Point {
    let one = |(i, rate): (usize, &f64)| sample(i as u32, COUNTS, 1e6, 2e9 / rate, 2.0);
    point(rung, consumption, rates.iter().enumerate().map(one).collect())
}

#[test]
fn a_pace_needs_repeats_that_agree() {
    let at = |rates: &[f64]| rated(write_read(), Consumption::Untouched, rates);
    let pace = |a: &[f64], b: &[f64]| compare(&at(a), &at(b)).unwrap().pace;
    assert_eq!(pace(&[1.0, 1.1, 0.9, 1.0], &[2.0, 2.1, 1.9, 2.0]), Pace::Faster);
    assert_eq!(pace(&[2.0, 2.1, 1.9, 2.0], &[1.0, 1.1, 0.9, 1.0]), Pace::Slower);
    assert_eq!(pace(&[1.0, 1.1, 0.9], &[2.0, 2.1, 1.9]), Pace::CannotTell);
    assert_eq!(pace(&[1.0, 2.0, 1.0, 1.5], &[1.4, 1.2, 2.1, 1.0]), Pace::CannotTell);
    let (slow, fast) = ([1.0, 1.1, 0.9, 1.0, 1.05, 0.95], [1.5, 1.4, 1.6, 1.5, 1.5, 1.45]);
    let comparison = compare(&at(&slow), &at(&fast)).unwrap();
    let (low, high) = *comparison.interval.known().unwrap();
    assert!(low > 1.2 && comparison.ratio > low && comparison.ratio < high && high < 1.8);
    assert_eq!(comparison.pace, Pace::Faster);
    assert!(compare(&at(&[]), &at(&[1.0])).is_none());
}

fn published(factors: [f64; 5]) -> Vec<Point> {
    let mut rungs = vec![
        rung("write", Writer::Write, Reader::Read),
        rung("vmsplice", Writer::Vmsplice, Reader::Read),
        rung("splice", Writer::Vmsplice, Reader::Splice),
        rung("huge", Writer::Vmsplice, Reader::Splice),
        rung("busy", Writer::Vmsplice, Reader::Splice),
    ];
    rungs[3].pages = Pages::Huge;
    rungs[4].pages = Pages::Huge;
    rungs[4].wait = Wait::Busy;
    let figures = [3.7, 12.7, 32.8, 51.0, 62.5];
    let at = |(rung, rate): (Rung, f64)| {
        let rates: Vec<f64> = (0..8).map(|i| rate * (1.0 + 0.01 * f64::from(i))).collect();
        rated(rung, Consumption::Untouched, &rates)
    };
    let rates = figures.iter().zip(factors).map(|(figure, factor)| figure * factor);
    rungs.into_iter().zip(rates).map(at).collect()
}

fn answers(points: Vec<Point>) -> Vec<Answer> {
    claims(&ladder(points)).into_iter().map(|c| c.answer).collect()
}

#[test]
fn claims_hold_where_they_were_made() {
    use Answer::{CannotTell, Confirmed, Refuted};
    let there = answers(published([1.0; 5]));
    assert_eq!(there[..5], [Confirmed; 5]);
    // By reference 62.5 is far above the 30 that the memory gives; nothing was touched.
    assert_eq!(there[5..], [CannotTell, Refuted, CannotTell]);
    let other = answers(published([0.3, 0.4, 0.16, 0.14, 1.0]));
    assert_eq!(other[..5], [Confirmed, Refuted, Refuted, Confirmed, Refuted]);
    let swapped = answers(published([1.0, 0.2, 1.0, 1.0, 1.0]));
    assert_eq!(swapped[..2], [Refuted, Refuted]);
    assert_eq!(answers(Vec::new()), [CannotTell; 8]);
}

/// A grid of one technique: rates by pipe size.
fn grid(consumption: Consumption, rates: &[(u64, f64)]) -> Ladder {
    let at = |&(kib, rate): &(u64, f64)| {
        let mut rung = rung(&format!("pipe {kib}"), Writer::Vmsplice, Reader::Splice);
        rung.pipe_bytes = Some(Bytes::kib(kib));
        rated(rung, consumption, &[rate, rate * 1.01, rate * 0.99, rate])
    };
    let mut ladder = ladder(rates.iter().map(at).collect());
    ladder.sweep = true;
    ladder
}

fn advice(ladder: &Ladder, l2: Bytes) -> pagewise_model::ladder::Advice {
    let known = Known {
        prices: None,
        reference: &ReferencePrices::missing("none"),
        base_page: PageSize::BASE_4K,
        l2_bytes: &Fact::Known(l2),
        samples: &[],
    };
    let judgement = judge(ladder, &known);
    assert!(judgement.steps.is_empty());
    judgement.advice.into_iter().next().unwrap()
}

#[test]
fn sizes_are_advised_by_what_becomes_of_the_bytes() {
    let untouched = grid(Consumption::Untouched, &[(64, 5.0), (256, 20.0), (1024, 60.0)]);
    let found = advice(&untouched, Bytes::mib(1));
    assert_eq!((found.pipe_bytes, found.enough_pipe_bytes), (Bytes::mib(1), Bytes::mib(1)));
    assert!(found.why.ends_with("and it is"), "{}", found.why);
    assert_eq!(claims(&untouched)[5].answer, Answer::Refuted);
    let touched = grid(Consumption::Touched, &[(64, 5.0), (256, 9.9), (1024, 10.0)]);
    let found = advice(&touched, Bytes::mib(1));
    assert_eq!((found.pipe_bytes, found.enough_pipe_bytes), (Bytes::mib(1), Bytes::kib(256)));
    assert!(found.why.ends_with("and it is"), "{}", found.why);
    assert!(advice(&touched, Bytes::kib(256)).why.ends_with("here it takes 256 KiB"));
    let flat = grid(Consumption::Untouched, &[(64, 10.0), (1024, 10.5)]);
    assert_eq!(claims(&flat)[5].answer, Answer::Confirmed);
}

#[test]
fn without_any_price_only_what_the_kernel_accounted_is_explained() {
    let bare = ladder(vec![made(write_read(), write_read_work(), COUNTS, 0.0)]);
    let known = Known {
        prices: None,
        reference: &ReferencePrices::missing("none"),
        base_page: PageSize::BASE_4K,
        l2_bytes: &Fact::missing("none"),
        samples: &[],
    };
    let judgement = judge(&bare, &known);
    let account = only(&judgement);
    let kinds: Vec<Work> = account.parts.iter().map(|p| p.work).collect();
    // The yardstick of memory stands in for the price of a copy.
    assert!(kinds.contains(&Work::Copy) && kinds.contains(&Work::User), "{kinds:?}");
    let unpriced = [Work::PageAllocation, Work::Entry, Work::Locks, Work::Faults, Work::Wakeups];
    assert_eq!(account.not_priced, unpriced);
}
