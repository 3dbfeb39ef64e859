//! Readings made by known prices: the prices are found again, times are explained by them, and events that
//! are added are recovered.

use super::super::judge;
use super::super::prices::{FilePrices, LinearCost};
use crate::bench::fairness::{self, check, noise};
use crate::stats::Rng;
use pagewise_model::bench::file::{
    BenchmarkFlaw, CacheResidency, CopyRates, CopyRow, CopyWay, FileBenchPart, FileBenchReport,
    FileCell, FilePoint, FileSample, FileTimeAccount, FileWork, ReadWay, UndisturbedPace,
};
use pagewise_model::bench::pipe::ClaimAnswer;
use pagewise_model::bench::tlb::AccessOrder;
use pagewise_model::constructed::{cell, reading, readings};
use pagewise_model::measured::Measured;
use pagewise_model::{Bytes, Fact, Nanos};
use proptest::prelude::*;

const PAGE: u64 = 4096;
const BLOCK: Bytes = Bytes::kib(8);
/// Spans of the prices.
const WHOLE: Bytes = Bytes::mib(64);
const QUARTER: (AccessOrder, Bytes) = (AccessOrder::Random, Bytes::mib(16));
const ENTRY: f64 = 50.0;
const OPEN: f64 = 3000.0;
const MAP: f64 = 2000.0;
const CALL: LinearCost = LinearCost { block: 150.0, byte: 0.05 };
const COPY: LinearCost = LinearCost { block: 20.0, byte: 0.06 };
const SUM: LinearCost = LinearCost { block: 10.0, byte: 0.03 };
const FAULT: f64 = 800.0;
const POPULATE: f64 = 30.0;
const UNMAP: f64 = 20.0;
const FRESH: f64 = 500.0;
/// At random everything but the cost of a byte is this many times as expensive, except for the share of the
/// span that caches hold.
const RANDOM: f64 = 3.0;
const HELD: Bytes = Bytes::mib(4);

fn pages(cell: &FileCell) -> f64 {
    cell.span_bytes.0.div_ceil(PAGE) as f64
}

fn factor(order: AccessOrder, span: Bytes) -> f64 {
    match order {
        AccessOrder::Sequential => 1.0,
        AccessOrder::Random => 1.0 + (RANDOM - 1.0) * (1.0 - HELD.0 as f64 / span.0 as f64),
    }
}

/// What a pass without faults takes.
fn pass(cell: &FileCell, line: LinearCost) -> f64 {
    let block = factor(cell.order, cell.span_bytes) * line.block;
    cell.blocks() as f64 * block + cell.span_bytes.0 as f64 * line.byte
}

/// A point that takes exactly the time that the prices give.
fn priced(cell: FileCell) -> FilePoint {
    let mut point = reading(cell, Nanos(1), 6);
    let ns = |value: f64| Nanos(value.round() as u64);
    let set = |sample: &mut FileSample| {
        let fresh = if cell.fresh { pages(&cell) * FRESH } else { 0.0 };
        if !cell.arm.is_mapped() {
            sample.set_up_ns = ns(OPEN / 2.0);
            sample.tear_down_ns = ns(OPEN / 2.0);
            sample.pass_ns = vec![ns(pass(&cell, CALL) + fresh); cell.passes as usize];
            sample.calls = cell.blocks();
            return;
        }
        let is_populated = cell.arm == ReadWay::MapPopulate;
        let whole = if is_populated { pages(&cell) * POPULATE } else { 0.0 };
        let faults = if is_populated { 0 } else { cell.span_bytes.0 / Bytes::kib(64).0 };
        let factor = factor(cell.order, cell.span_bytes);
        let line = if cell.arm.is_in_place() { SUM } else { COPY };
        sample.set_up_ns = ns(OPEN + MAP + whole);
        sample.tear_down_ns = ns(pages(&cell) * UNMAP);
        sample.pass_ns = vec![ns(pass(&cell, line)); cell.passes as usize];
        sample.pass_ns[0] = ns(pass(&cell, line) + fresh + faults as f64 * FAULT * factor);
        sample.minor_faults = faults;
        sample.pass_faults = vec![0; cell.passes as usize];
        sample.pass_faults[0] = faults;
        sample.calls = 0;
    };
    point.samples.iter_mut().for_each(set);
    undisturbed(point)
}

/// A point whose processes were not disturbed.
fn undisturbed(mut point: FilePoint) -> FilePoint {
    point.pace = point.samples.first().map(|sample| UndisturbedPace {
        set_up_ns: sample.set_up_ns,
        slice_ns: sample.pass_ns.iter().map(|pass| vec![*pass]).collect(),
        tear_down_ns: sample.tear_down_ns,
    });
    point
}

/// Readings whose prices are those above.
fn with_prices(points: Vec<FilePoint>) -> FileBenchReport {
    let mut all = readings(points);
    all.entry_ns = Measured::from_values(&[ENTRY]).map_or(Fact::missing("none"), Fact::Known);
    for (order, span_bytes) in
        [(AccessOrder::Sequential, WHOLE), (AccessOrder::Random, WHOLE), QUARTER]
    {
        for block_bytes in [Bytes::kib(4), Bytes::kib(64)] {
            let base = |arm, passes| FileCell {
                part: FileBenchPart::Prices,
                order,
                block_bytes,
                passes,
                span_bytes,
                ..cell(arm)
            };
            for (arm, passes) in [
                (ReadWay::Pread, 1),
                (ReadWay::Map, 2),
                (ReadWay::Place, 2),
                (ReadWay::MapPopulate, 1),
            ] {
                all.prices.push(priced(base(arm, passes)));
            }
            all.prices.push(priced(FileCell { fresh: true, ..base(ReadWay::Pread, 1) }));
        }
    }
    all
}

fn is_near(found: f64, known: f64) -> bool {
    (found - known).abs() <= 0.01 * known
}

#[test]
fn known_prices_are_found_again() {
    let found = FilePrices::from_readings(&with_prices(Vec::new()), BLOCK).unwrap();
    let (sequential, random) =
        (found.by(AccessOrder::Sequential, WHOLE), found.by(AccessOrder::Random, WHOLE));
    let factor = factor(AccessOrder::Random, WHOLE);
    let pairs = [
        (found.entry, ENTRY),
        (found.open, OPEN),
        (sequential.call.block, CALL.block),
        (random.call.block, factor * CALL.block),
        (random.call.byte, CALL.byte),
        (sequential.copy.block, COPY.block),
        (sequential.copy.byte, COPY.byte),
        (random.sum.block, factor * SUM.block),
        (sequential.copy_fault, FAULT),
        (random.copy_fault, factor * FAULT),
        (random.sum_fault, factor * FAULT),
        (found.populate_page, POPULATE),
        (sequential.unmap_page, UNMAP),
        (random.unmap_page, UNMAP),
        (found.fresh_page, FRESH),
        (found.map, MAP),
    ];
    for (at, (found, known)) in pairs.into_iter().enumerate() {
        assert!(is_near(found, known), "{at}: {found} for {known}");
    }
}

#[test]
fn without_cells_there_are_no_prices() {
    assert_eq!(FilePrices::from_readings(&readings(Vec::new()), BLOCK), None);
    let mut none = with_prices(vec![priced(cell(ReadWay::Read))]);
    none.prices.retain(|point| point.cell.arm != ReadWay::Place);
    assert_eq!(judge(&none).accounts, []);
}

fn accounts(points: Vec<FilePoint>) -> Vec<FileTimeAccount> {
    judge(&with_prices(points)).accounts
}

#[test]
fn what_the_prices_say_is_explained() {
    let mut points = Vec::new();
    for arm in [ReadWay::Pread, ReadWay::Map, ReadWay::MapPopulate, ReadWay::Place] {
        for order in AccessOrder::ALL {
            for kib in [8, 16, 512] {
                let block_bytes = Bytes::kib(kib);
                points.push(priced(FileCell { order, block_bytes, ..cell(arm) }));
            }
        }
    }
    points.push(priced(FileCell { fresh: true, ..cell(ReadWay::Pread) }));
    let accounts = accounts(points);
    assert_eq!(accounts.len(), 25);
    for account in &accounts {
        assert!(account.explained_share() > 0.99, "{account:?}");
        let reported: f64 = account.parts.iter().map(|part| part.per_gib_ns).sum();
        assert!(is_near(reported + account.unexplained_per_gib_ns, account.per_gib_ns));
    }
    let share = accounts[6].share(&[FileWork::Faults]);
    assert!(share > 0.1 && share < 0.5, "a mapping in order: {share}");
}

#[test]
fn a_block_at_random_has_the_price_of_its_span() {
    let at = |arm, mib| FileCell {
        order: AccessOrder::Random,
        span_bytes: Bytes::mib(mib),
        ..cell(arm)
    };
    let arms = [ReadWay::Pread, ReadWay::Map, ReadWay::Place];
    let spans = [16, 32, 64, 256, 4096];
    let cells = spans.iter().flat_map(|mib| arms.map(|arm| at(arm, *mib)));
    for account in accounts(cells.map(priced).collect()) {
        assert!(account.explained_share() > 0.99, "{account:?}");
    }
    // Of a smaller span than those that were read nothing is concluded.
    let prices = FilePrices::from_readings(&with_prices(Vec::new()), BLOCK).unwrap();
    let [small, least] =
        [Bytes::kib(64), QUARTER.1].map(|span| prices.by(AccessOrder::Random, span));
    assert_eq!(small, least);
}

#[test]
fn what_a_call_costs_more_at_random_is_reaching_the_block() {
    let random =
        FileCell { order: AccessOrder::Random, block_bytes: Bytes::kib(4), ..cell(ReadWay::Pread) };
    let [account] = &accounts(vec![priced(random)])[..] else { panic!("one account") };
    let per_gib = |work| account.share(&[work]) * account.per_gib_ns;
    let blocks = (Bytes::gib(1).0 / random.block_bytes.0) as f64;
    let more = (factor(AccessOrder::Random, random.span_bytes) - 1.0) * CALL.block;
    assert!(is_near(per_gib(FileWork::Lookup), blocks * (CALL.block - ENTRY)), "{account:?}");
    assert!(is_near(per_gib(FileWork::Reach), blocks * more), "{account:?}");
}

#[test]
fn a_read_pays_for_its_position() {
    const IN_ORDER: f64 = 15.0;
    const SEEK: f64 = ENTRY + 40.0;
    let read = |cell: FileCell| {
        let mut point = priced(FileCell { arm: ReadWay::Read, ..cell });
        let each = if cell.order == AccessOrder::Random { SEEK } else { IN_ORDER };
        for sample in &mut point.samples {
            sample.pass_ns[0].0 += (each * cell.blocks() as f64) as u64;
            sample.calls *= if cell.order == AccessOrder::Random { 2 } else { 1 };
        }
        undisturbed(point)
    };
    let cells = AccessOrder::ALL.map(|order| FileCell { order, ..cell(ReadWay::Read) });
    let mut all = with_prices(cells.map(read).to_vec());
    let smallest = |point: &&FilePoint| {
        let cell = &point.cell;
        cell.arm == ReadWay::Pread && !cell.fresh && cell.block_bytes == Bytes::kib(4)
    };
    let beside: Vec<FileCell> =
        all.prices.iter().filter(smallest).map(|point| point.cell).collect();
    all.prices.extend(beside.into_iter().map(read));
    for account in judge(&all).accounts {
        assert!(account.explained_share() > 0.99, "{account:?}");
    }
}

/// Readings whose calls take this long for blocks of 4, 16 and 64 KiB.
fn with_calls(per_block: impl Fn(Bytes) -> f64) -> FileBenchReport {
    let mut all = with_prices(Vec::new());
    all.prices.retain(|point| point.cell.arm != ReadWay::Pread || point.cell.fresh);
    for (order, span_bytes) in
        [(AccessOrder::Sequential, WHOLE), (AccessOrder::Random, WHOLE), QUARTER]
    {
        for block_bytes in [4, 16, 64].map(Bytes::kib) {
            let whole = FileCell {
                part: FileBenchPart::Prices,
                order,
                block_bytes,
                span_bytes,
                ..cell(ReadWay::Pread)
            };
            let mut point = priced(whole);
            let pass = Nanos((whole.blocks() as f64 * per_block(block_bytes)) as u64);
            point.samples.iter_mut().for_each(|sample| sample.pass_ns = vec![pass]);
            all.prices.push(undisturbed(point));
        }
    }
    all
}

/// What a call for a block of `kib` KiB costs, in order.
fn call(all: &FileBenchReport, kib: u64) -> f64 {
    let block = Bytes::kib(kib);
    let line =
        FilePrices::from_readings(all, block).unwrap().by(AccessOrder::Sequential, WHOLE).call;
    assert!(line.block >= 0.0 && line.byte >= 0.0, "{line:?}");
    line.block + line.byte * block.0 as f64
}

/// Calls that take so long are priced so, between the sizes that were read and beyond them.
fn find_calls(per_block: impl Fn(Bytes) -> f64) {
    let all = with_calls(&per_block);
    for kib in [1, 4, 8, 16, 32, 64, 128] {
        let found = call(&all, kib);
        assert!(is_near(found, per_block(Bytes::kib(kib))), "{kib} KiB: {found}");
    }
}

#[test]
fn bytes_have_the_price_of_blocks_of_about_their_size() {
    // Beyond the middle a byte costs half as much.
    let per_block = |block: Bytes| {
        let near = block.0.min(Bytes::kib(16).0) as f64;
        CALL.block + CALL.byte * (near + (block.0 as f64 - near) / 2.0)
    };
    find_calls(per_block);
}

#[test]
fn bytes_that_cost_more_in_larger_blocks_are_priced_as_well() {
    // Beyond the middle a byte costs three times as much, and a block by itself nothing.
    let per_block = |block: Bytes| {
        let near = block.0.min(Bytes::kib(16).0) as f64;
        CALL.byte * (near + (block.0 as f64 - near) * 3.0)
    };
    find_calls(per_block);
}

#[test]
fn one_span_alone_is_the_price_of_all() {
    let mut all = with_prices(Vec::new());
    all.prices.retain(|point| point.cell.span_bytes == WHOLE);
    let prices = FilePrices::from_readings(&all, BLOCK).unwrap();
    let [near, far] = [16, 4096].map(|mib| prices.by(AccessOrder::Random, Bytes::mib(mib)));
    assert_eq!(near, far);
}

#[test]
fn faults_that_are_added_are_recovered() {
    let plain = priced(cell(ReadWay::Map));
    let mut more = plain.clone();
    for sample in &mut more.samples {
        sample.minor_faults += 1000;
        sample.pass_ns[0] += Nanos(1000 * FAULT as u64);
    }
    let found = accounts(vec![plain, undisturbed(more)]);
    let faults =
        |account: &FileTimeAccount| account.share(&[FileWork::Faults]) * account.per_gib_ns / 16.0;
    let recovered = faults(&found[1]) - faults(&found[0]);
    assert!(is_near(recovered, 1000.0 * FAULT), "{recovered}");
    assert!(found[1].explained_share() > 0.99);
}

#[test]
fn what_others_took_is_reported_and_not_explained() {
    let mut busy = priced(cell(ReadWay::Map));
    let quiet = judge(&with_prices(vec![busy.clone()])).accounts;
    busy.samples.iter_mut().for_each(|sample| sample.pass_ns[0] += Nanos::millis(16));
    let found = accounts(vec![busy]);
    assert_eq!(found[0].parts, quiet[0].parts);
    assert!(is_near(found[0].disturbed_per_gib_ns, 16e6 * 16.0), "{found:?}");
    assert!(found[0].explained_share() > 0.99 && quiet[0].disturbed_share() < 0.01);
}

#[test]
fn a_fault_has_the_price_of_blocks_of_about_its_size() {
    let mut all = with_prices(Vec::new());
    // Between the sizes of blocks that were read a fault gets cheaper by half.
    for point in all.prices.iter_mut().filter(|point| point.cell.arm == ReadWay::Map) {
        let faults = point.samples[0].minor_faults;
        let cheaper = if point.cell.block_bytes == Bytes::kib(64) { 0.5 * FAULT } else { 0.0 };
        let factor = factor(point.cell.order, point.cell.span_bytes);
        let less = Nanos((faults as f64 * factor * cheaper) as u64);
        point.samples.iter_mut().for_each(|sample| sample.pass_ns[0].0 -= less.0);
        *point = undisturbed(point.clone());
    }
    for (kib, known) in [(2, FAULT), (4, FAULT), (34, 0.75 * FAULT), (64, 0.5 * FAULT)] {
        let found = FilePrices::from_readings(&all, Bytes::kib(kib))
            .unwrap()
            .by(AccessOrder::Sequential, WHOLE);
        assert!(is_near(found.copy_fault, known) && is_near(found.sum_fault, FAULT), "{found:?}");
    }
}

#[test]
fn waiting_is_accounted_and_threads_are_not_explained() {
    let mut cold = priced(FileCell { residency: CacheResidency::Cold, ..cell(ReadWay::Pread) });
    for sample in &mut cold.samples {
        (sample.sys_ns, sample.user_ns) = (sample.total_ns(), Nanos(0));
        sample.pass_ns[0] += Nanos::millis(30);
    }
    let several =
        priced(FileCell { part: FileBenchPart::Threads, threads: 2, ..cell(ReadWay::Pread) });
    let found = accounts(vec![cold, several]);
    assert_eq!(found.len(), 1);
    let wait = found[0].share(&[FileWork::Wait]) * found[0].per_gib_ns / 16.0;
    assert!(is_near(wait, 30e6) && found[0].explained_share() > 0.99, "{wait}");
}

#[test]
fn the_findings_of_the_study_have_an_answer() {
    let again = |arm| FileCell { part: FileBenchPart::Passes, passes: 3, ..cell(arm) };
    let all = with_prices(vec![
        priced(cell(ReadWay::Read)),
        priced(cell(ReadWay::Map)),
        priced(cell(ReadWay::MapPopulate)),
        priced(again(ReadWay::Read)),
        priced(again(ReadWay::Map)),
    ]);
    let claims = judge(&all).claims;
    let answers: Vec<ClaimAnswer> = claims.iter().map(|claim| claim.answer).collect();
    use ClaimAnswer::{Confirmed, Refuted};
    let known = [Refuted, Refuted, Refuted, Confirmed, Refuted, Confirmed, Confirmed];
    assert_eq!(answers, known, "{claims:#?}");
    assert!(judge(&readings(Vec::new())).claims.is_empty());
}

#[test]
fn later_passes_are_pure_copies_by_their_faults_not_by_their_speed() {
    let again = |arm| FileCell { part: FileBenchPart::Passes, passes: 3, ..cell(arm) };
    let claim = |change: fn(&mut FileSample)| {
        let mut point = priced(again(ReadWay::Map));
        point.samples.iter_mut().for_each(change);
        judge(&readings(vec![point])).claims.swap_remove(0)
    };
    let noisy = claim(|s| s.pass_ns[2] = Nanos(s.pass_ns[0].0 * u64::from(1 + s.repeat)));
    assert!(
        noisy.answer == ClaimAnswer::Confirmed && noisy.why.contains("and 0 faults"),
        "{noisy:?}"
    );
    let faulting = claim(|s| s.pass_faults[1] = s.pass_faults[0]);
    assert_eq!(faulting.answer, ClaimAnswer::Refuted, "{faulting:?}");
    let uncounted = claim(|s| s.pass_faults.clear());
    assert_eq!(uncounted.answer, ClaimAnswer::CannotTell, "{uncounted:?}");
}

#[test]
fn vector_registers_pay_where_the_same_copy_is_slower_without() {
    let rate =
        |rate: f64| Measured::from_values(&[rate; 7]).map_or(Fact::missing("none"), Fact::Known);
    let row = |way, gib| CopyRow { way, gib_per_s: vec![rate(gib)] };
    let mut all = readings(Vec::new());
    let copies = |plain: f64| CopyRates {
        block_bytes: Bytes::kib(64),
        offset_bytes: vec![Bytes(0)],
        rows: vec![
            row(CopyWay::Kernel, 8.0),
            row(CopyWay::RepMovsb, plain),
            row(CopyWay::Avx2, 20.0),
        ],
        state_bytes: Fact::Known(Bytes::kib(2)),
        save_restore_ns: rate(100.0),
    };
    // At 10 and 20 GiB/s each byte is 0.0466 ns cheaper. That pread is slower decides nothing.
    for (plain, known, part) in [
        (10.0, ClaimAnswer::Confirmed, "from 2.1 KiB per call"),
        (21.7, ClaimAnswer::Refuted, "never earned"),
    ] {
        all.copies = Some(copies(plain));
        let [claim] = &judge(&all).claims[..] else { panic!("one claim") };
        assert!(claim.answer == known && claim.why.contains(part), "{claim:?}");
        assert!(
            claim.why.contains("what pread lacks to rep movsb is call and lookup"),
            "{claim:?}"
        );
    }
}

proptest! {
    #[test]
    fn claims_keep_to_the_rule(noise in noise()) {
        let (seed, repeats, spread) = noise;
        let mut rng = Rng::new(seed);
        let again = |arm| FileCell { part: FileBenchPart::Passes, passes: 3, ..cell(arm) };
        let cells = [
            cell(ReadWay::Read), cell(ReadWay::Map), cell(ReadWay::MapPopulate), again(ReadWay::Read), again(ReadWay::Map),
        ];
        let mut points: Vec<FilePoint> = cells.into_iter().map(priced).collect();
        for point in &mut points {
            let first = point.samples[0].clone();
            let other = |repeat: usize| {
                let mut sample = FileSample { repeat: repeat as u32, ..first.clone() };
                for ns in &mut sample.pass_ns {
                    *ns = Nanos::from_f64(ns.0 as f64 * fairness::factor(&mut rng, spread));
                }
                for faults in &mut sample.pass_faults {
                    *faults = (*faults as f64 * fairness::factor(&mut rng, spread)) as u64 + rng.below(2);
                }
                sample
            };
            point.samples = (0..repeats).map(other).collect();
        }
        let mut all = with_prices(points);
        let mut rate = |rate: f64| {
            let rates: Vec<f64> = (0..repeats).map(|_| rate * fairness::factor(&mut rng, spread)).collect();
            Measured::from_values(&rates).map_or(Fact::missing("none"), Fact::Known)
        };
        let ways = [(CopyWay::Kernel, 8.0), (CopyWay::RepMovsb, 21.0), (CopyWay::Avx2, 20.0)];
        all.copies = Some(CopyRates {
            block_bytes: Bytes::kib(64),
            offset_bytes: vec![Bytes(0)],
            rows: ways.map(|(way, gib)| CopyRow { way, gib_per_s: vec![rate(gib)] }).to_vec(),
            state_bytes: Fact::Known(Bytes::kib(2)),
            save_restore_ns: rate(100.0),
        });
        all.slips = vec![BenchmarkFlaw::UnclockedPopulate];
        let claims = judge(&all).claims;
        prop_assert!(claims.len() >= 8 || repeats == 0, "{:?}", claims);
        check(&claims)?;
    }
}
