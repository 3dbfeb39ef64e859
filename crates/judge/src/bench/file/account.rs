//! Where the time of a cell goes: its counts times prices that were taken before.
//!
//! Only cells with one thread are explained. Of a cached cell that is its undisturbed time ([`UndisturbedPace`]), as the
//! prices are: how much more the median took is shown beside it, and is no part. Others have their median.
//!
//! Of a reading call lookup is what it costs in order; what it costs more at random is reaching the block, as it
//! is in a mapping. Waiting for a device is no price: it is the time in which the process had no CPU, of the cell
//! itself. What no price covers (readahead of a cold cell, what the device's driver does, places of blocks within
//! a page, blocks that are summed after they were copied) stays unexplained.
//!
//! [`UndisturbedPace`]: pagewise_model::bench::file::UndisturbedPace

use super::FileFindings;
use super::prices::{FilePrices, LinearCost};
use pagewise_model::Bytes;
use pagewise_model::bench::file::{
    CacheResidency, FileCell, FilePoint, FileSample, FileTimeAccount, FileWork, FileWorkPart,
    ReadWay,
};
use pagewise_model::bench::tlb::AccessOrder;
use pagewise_model::measured::median;

impl FileFindings<'_> {
    /// The accounts of all cells. Empty without prices.
    pub(super) fn accounts(&self) -> Vec<FileTimeAccount> {
        let page = self.readings.base_page_bytes.bytes();
        let all = self.readings.points.iter().enumerate();
        let explained = all.filter(|(at, p)| p.cell.threads == 1 && self.is_whole(*at));
        let priced = |(at, point): (usize, &FilePoint)| {
            let prices = FilePrices::from_readings(self.readings, point.cell.block_bytes)?;
            account(at, point, &prices, page)
        };
        explained.filter_map(priced).collect()
    }
}

fn account(
    at: usize,
    point: &FilePoint,
    prices: &FilePrices,
    page: u64,
) -> Option<FileTimeAccount> {
    let cell = &point.cell;
    let of = |pick: fn(&FileSample) -> f64| median(&point.series(pick).values());
    let median_ns = of(|s| s.total_ns().0 as f64)?;
    let explained_ns = match cell.residency {
        CacheResidency::Warm => point.pace.as_ref()?.total_ns().0 as f64,
        CacheResidency::Cold => median_ns,
    };
    let counts = FileCounts {
        calls: of(|s| s.calls as f64)?,
        faults: of(|s| (s.minor_faults + s.major_faults) as f64)?,
        pages: cell.span_bytes.0.div_ceil(page.max(1)) as f64,
    };
    let mut bill = FileAccountBuilder {
        gib: cell.total_bytes().0 as f64 / Bytes::gib(1).0 as f64,
        parts: vec![],
    };
    if cell.arm.is_mapped() {
        mapped(&mut bill, cell, &counts, prices);
    } else {
        called(&mut bill, cell, &counts, prices);
    }
    if cell.residency == CacheResidency::Cold {
        let asleep =
            |s: &FileSample| s.total_ns().0.saturating_sub(s.user_ns.0 + s.sys_ns.0) as f64;
        bill.add(FileWork::Wait, "time without the CPU", (1.0, of(asleep)?));
    }
    let per_gib_ns = explained_ns / bill.gib;
    let reported: f64 = bill.parts.iter().map(|part| part.per_gib_ns).sum();
    let (parts, unexplained_per_gib_ns) = (bill.parts, per_gib_ns - reported);
    per_gib_ns.is_finite().then_some(FileTimeAccount {
        point: at,
        per_gib_ns,
        disturbed_per_gib_ns: (median_ns - explained_ns).max(0.0) / bill.gib,
        parts,
        unexplained_per_gib_ns,
    })
}

/// What happened in a process.
struct FileCounts {
    calls: f64,
    faults: f64,
    pages: f64,
}

/// Parts as they are added up.
struct FileAccountBuilder {
    gib: f64,
    parts: Vec<FileWorkPart>,
}

impl FileAccountBuilder {
    /// Adds `count` operations at a price in nanoseconds.
    fn add(&mut self, work: FileWork, what: &str, (count, price): (f64, f64)) {
        let per_gib_ns = count * price / self.gib;
        if per_gib_ns.is_finite() && per_gib_ns > 0.0 {
            let evidence = format!("{count:.0} {what} at {price:.3} ns");
            self.parts.push(FileWorkPart { work, per_gib_ns, evidence });
        }
    }
}

fn called(
    bill: &mut FileAccountBuilder,
    cell: &FileCell,
    counts: &FileCounts,
    prices: &FilePrices,
) {
    let LinearCost { block, byte } = prices.by(cell.order, cell.span_bytes).call;
    let in_order = prices.by(AccessOrder::Sequential, cell.span_bytes).call.block.min(block);
    let reading = match cell.arm {
        // One lseek(2) in each pass.
        ReadWay::Readv => counts.calls - f64::from(cell.passes),
        _ => blocks(cell),
    };
    bill.add(FileWork::Open, "descriptor", (1.0, prices.open));
    bill.add(FileWork::Entry, "calls", (counts.calls, prices.entry));
    if cell.arm == ReadWay::Direct {
        return;
    }
    bill.add(FileWork::Lookup, "reading calls", (reading, (in_order - prices.entry).max(0.0)));
    if cell.arm == ReadWay::Read {
        bill.add(FileWork::Lookup, "positions", (reading, prices.position(cell.order)));
    }
    bill.add(FileWork::Reach, "blocks", (reading, block - in_order.max(prices.entry)));
    bill.add(FileWork::KernelCopy, "bytes", (bytes(cell), byte));
    if cell.fresh {
        bill.add(FileWork::FreshMemory, "pages", (counts.pages, prices.fresh_page));
    }
}

fn mapped(
    bill: &mut FileAccountBuilder,
    cell: &FileCell,
    counts: &FileCounts,
    prices: &FilePrices,
) {
    let ordered = prices.by(cell.order, cell.span_bytes);
    let (line, fault, work) = if cell.arm.is_in_place() {
        (ordered.sum, ordered.sum_fault, FileWork::Sum)
    } else {
        (ordered.copy, ordered.copy_fault, FileWork::UserCopy)
    };
    let fresh = if cell.fresh { counts.pages } else { 0.0 };
    let is_populated = matches!(
        cell.arm,
        ReadWay::MapPopulate | ReadWay::MapPieces | ReadWay::PlacePopulate | ReadWay::PlacePieces
    );
    bill.add(FileWork::Open, "descriptor and mapping", (1.0, prices.open + prices.map));
    bill.add(FileWork::Entry, "calls", (counts.calls, prices.entry));
    if is_populated {
        bill.add(FileWork::Populate, "pages", (counts.pages, prices.populate_page));
    } else {
        bill.add(FileWork::Faults, "faults", ((counts.faults - fresh).max(0.0), fault));
    }
    bill.add(FileWork::Reach, "blocks", (blocks(cell), line.block));
    bill.add(work, "bytes", (bytes(cell), line.byte));
    bill.add(FileWork::FreshMemory, "pages", (fresh, prices.fresh_page));
    bill.add(FileWork::Unmap, "pages", (counts.pages, ordered.unmap_page));
}

fn blocks(cell: &FileCell) -> f64 {
    cell.blocks() as f64 * f64::from(cell.passes)
}

fn bytes(cell: &FileCell) -> f64 {
    cell.total_bytes().0 as f64
}
