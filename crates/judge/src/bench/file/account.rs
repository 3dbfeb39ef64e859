//! Where the time of a cell goes: its counts times prices that were taken before.
//!
//! Only cells with one thread are explained. Of a cached cell that is its undisturbed time ([`Pace`]), as the
//! prices are: how much more the median took is shown beside it, and is no part. Others have their median.
//!
//! Of a reading call lookup is what it costs in order; what it costs more at random is reaching the block, as it
//! is in a mapping. Waiting for a device is no price: it is the time in which the process had no CPU, of the cell
//! itself. What no price covers (readahead of a cold cell, what the device's driver does, places of blocks within
//! a page, blocks that are summed after they were copied) stays unexplained.
//!
//! [`Pace`]: pagewise_model::bench::file::Pace

use super::Found;
use super::prices::{Line, Prices};
use pagewise_model::Bytes;
use pagewise_model::bench::file::{Account, Arm, Cell, Point, Residency, Sample, Work, WorkPart};
use pagewise_model::bench::tlb::Order;
use pagewise_model::measured::median;

impl Found<'_> {
    /// The accounts of all cells. Empty without prices.
    pub(super) fn accounts(&self) -> Vec<Account> {
        let page = self.readings.base_page_bytes.bytes();
        let all = self.readings.points.iter().enumerate();
        let explained = all.filter(|(at, p)| p.cell.threads == 1 && self.is_whole(*at));
        let priced = |(at, point): (usize, &Point)| {
            let prices = Prices::from_readings(self.readings, point.cell.block_bytes)?;
            account(at, point, &prices, page)
        };
        explained.filter_map(priced).collect()
    }
}

fn account(at: usize, point: &Point, prices: &Prices, page: u64) -> Option<Account> {
    let cell = &point.cell;
    let of = |pick: fn(&Sample) -> f64| median(&point.series(pick).values());
    let median_ns = of(|s| s.total_ns().0 as f64)?;
    let explained_ns = match cell.residency {
        Residency::Warm => point.pace.as_ref()?.total_ns().0 as f64,
        Residency::Cold => median_ns,
    };
    let counts = Counts {
        calls: of(|s| s.calls as f64)?,
        faults: of(|s| (s.minor_faults + s.major_faults) as f64)?,
        pages: cell.span_bytes.0.div_ceil(page.max(1)) as f64,
    };
    let mut bill =
        Bill { gib: cell.total_bytes().0 as f64 / Bytes::gib(1).0 as f64, parts: vec![] };
    if cell.arm.is_mapped() {
        mapped(&mut bill, cell, &counts, prices);
    } else {
        called(&mut bill, cell, &counts, prices);
    }
    if cell.residency == Residency::Cold {
        let asleep = |s: &Sample| s.total_ns().0.saturating_sub(s.user_ns.0 + s.sys_ns.0) as f64;
        bill.add(Work::Wait, "time without the CPU", (1.0, of(asleep)?));
    }
    let per_gib_ns = explained_ns / bill.gib;
    let reported: f64 = bill.parts.iter().map(|part| part.per_gib_ns).sum();
    let (parts, unexplained_per_gib_ns) = (bill.parts, per_gib_ns - reported);
    per_gib_ns.is_finite().then_some(Account {
        point: at,
        per_gib_ns,
        disturbed_per_gib_ns: (median_ns - explained_ns).max(0.0) / bill.gib,
        parts,
        unexplained_per_gib_ns,
    })
}

/// What happened in a process.
struct Counts {
    calls: f64,
    faults: f64,
    pages: f64,
}

/// Parts as they are added up.
struct Bill {
    gib: f64,
    parts: Vec<WorkPart>,
}

impl Bill {
    /// Adds `count` operations at a price in nanoseconds.
    fn add(&mut self, work: Work, what: &str, (count, price): (f64, f64)) {
        let per_gib_ns = count * price / self.gib;
        if per_gib_ns.is_finite() && per_gib_ns > 0.0 {
            let evidence = format!("{count:.0} {what} at {price:.3} ns");
            self.parts.push(WorkPart { work, per_gib_ns, evidence });
        }
    }
}

fn called(bill: &mut Bill, cell: &Cell, counts: &Counts, prices: &Prices) {
    let Line { block, byte } = prices.by(cell.order, cell.span_bytes).call;
    let in_order = prices.by(Order::Sequential, cell.span_bytes).call.block.min(block);
    let reading = match cell.arm {
        // One lseek(2) in each pass.
        Arm::Readv => counts.calls - f64::from(cell.passes),
        _ => blocks(cell),
    };
    bill.add(Work::Open, "descriptor", (1.0, prices.open));
    bill.add(Work::Entry, "calls", (counts.calls, prices.entry));
    if cell.arm == Arm::Direct {
        return;
    }
    bill.add(Work::Lookup, "reading calls", (reading, (in_order - prices.entry).max(0.0)));
    if cell.arm == Arm::Read {
        bill.add(Work::Lookup, "positions", (reading, prices.position(cell.order)));
    }
    bill.add(Work::Reach, "blocks", (reading, block - in_order.max(prices.entry)));
    bill.add(Work::KernelCopy, "bytes", (bytes(cell), byte));
    if cell.fresh {
        bill.add(Work::FreshMemory, "pages", (counts.pages, prices.fresh_page));
    }
}

fn mapped(bill: &mut Bill, cell: &Cell, counts: &Counts, prices: &Prices) {
    let ordered = prices.by(cell.order, cell.span_bytes);
    let (line, fault, work) = if cell.arm.is_in_place() {
        (ordered.sum, ordered.sum_fault, Work::Sum)
    } else {
        (ordered.copy, ordered.copy_fault, Work::UserCopy)
    };
    let fresh = if cell.fresh { counts.pages } else { 0.0 };
    let is_populated = matches!(
        cell.arm,
        Arm::MapPopulate | Arm::MapPieces | Arm::PlacePopulate | Arm::PlacePieces
    );
    bill.add(Work::Open, "descriptor and mapping", (1.0, prices.open + prices.map));
    bill.add(Work::Entry, "calls", (counts.calls, prices.entry));
    if is_populated {
        bill.add(Work::Populate, "pages", (counts.pages, prices.populate_page));
    } else {
        bill.add(Work::Faults, "faults", ((counts.faults - fresh).max(0.0), fault));
    }
    bill.add(Work::Reach, "blocks", (blocks(cell), line.block));
    bill.add(work, "bytes", (bytes(cell), line.byte));
    bill.add(Work::FreshMemory, "pages", (fresh, prices.fresh_page));
    bill.add(Work::Unmap, "pages", (counts.pages, ordered.unmap_page));
}

fn blocks(cell: &Cell) -> f64 {
    cell.blocks() as f64 * f64::from(cell.passes)
}

fn bytes(cell: &Cell) -> f64 {
    cell.total_bytes().0 as f64
}
