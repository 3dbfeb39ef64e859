//! Prices derived from the cells that were read for them, before all others and over another file.
//!
//! All are prices of undisturbed work, of each cell's [`UndisturbedPace`]. What a neighbour or the host adds is not a
//! property of the work, and differs from minute to minute.
//!
//! The time of a block is a cost for the block plus one for each of its bytes. The two measured block sizes
//! nearest to it give both, since bytes get cheaper the more of them are close together. A second pass
//! through a mapping has no faults. So the extra time of the first pass is the cost of its faults. It holds
//! for blocks of about that size, because the work between two faults decides which kernel data is still in
//! the caches. A populated mapping takes longer to set up than one on demand: the difference is mapping its
//! pages. Tearing down mappings is unmapping them. Reading into fresh memory takes longer than into the same
//! buffer: the difference is its faults.
//!
//! At random a block costs more, the larger the span it may lie in. Its first lines, its translation and the
//! kernel's data on its pages must be fetched. If every block is equally likely, caches and TLBs hold a share
//! of them that falls as one over the span. So a price at random is linear in one over the span, through the
//! two measured spans. Below the smaller span nothing is concluded, and its price is used. Beyond the larger
//! one, four times as large, the line can rise by at most a third of its rise between them.

use pagewise_model::bench::file::{FileBenchReport, FileCell, FilePoint, ReadWay, UndisturbedPace};
use pagewise_model::bench::tlb::AccessOrder;
use pagewise_model::measured::median;
use pagewise_model::{Bytes, Nanos};

/// A cost for a block and for each of its bytes, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LinearCost {
    pub(super) block: f64,
    pub(super) byte: f64,
}

impl LinearCost {
    /// The price at share `part` of the way from this to `other`. `part` may exceed 1.
    fn toward(self, other: Self, part: f64) -> Self {
        let Self { block, byte } = self;
        Self { block: toward(block, other.block, part), byte: toward(byte, other.byte, part) }
    }
}

/// The price at share `part` of the way from `from` to `to`. Never negative.
fn toward(from: f64, to: f64, part: f64) -> f64 {
    (from + (to - from) * part).max(0.0)
}

/// What depends on the order, and at random on the span.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct AccessOrderPrices {
    /// pread(2), entry and exit included.
    pub(super) call: LinearCost,
    /// A copy out of a mapping without faults.
    pub(super) copy: LinearCost,
    /// The sum in place of a mapping without faults.
    pub(super) sum: LinearCost,
    /// A fault on a mapping that is copied from.
    pub(super) copy_fault: f64,
    /// A fault on a mapping that is summed in place.
    pub(super) sum_fault: f64,
    /// A page that is unmapped.
    pub(super) unmap_page: f64,
}

impl AccessOrderPrices {
    fn toward(self, other: &Self, part: f64) -> Self {
        Self {
            call: self.call.toward(other.call, part),
            copy: self.copy.toward(other.copy, part),
            sum: self.sum.toward(other.sum, part),
            copy_fault: toward(self.copy_fault, other.copy_fault, part),
            sum_fault: toward(self.sum_fault, other.sum_fault, part),
            unmap_page: toward(self.unmap_page, other.unmap_page, part),
        }
    }
}

/// Prices at random over two spans, or twice the same.
#[derive(Debug, Clone, Copy, PartialEq)]
struct RandomReadPrices {
    near: (Bytes, AccessOrderPrices),
    far: (Bytes, AccessOrderPrices),
}

impl RandomReadPrices {
    fn over(&self, span: Bytes) -> AccessOrderPrices {
        let inverse = |span: Bytes| 1.0 / span.0.max(1) as f64;
        let ((least, near), (most, far)) = (self.near, self.far);
        if least == most {
            return far;
        }
        let passed = inverse(least) - inverse(span.max(least));
        near.toward(&far, passed / (inverse(least) - inverse(most)))
    }
}

/// All prices, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct FilePrices {
    /// Into the kernel and back.
    pub(super) entry: f64,
    /// Opening and closing.
    pub(super) open: f64,
    /// Making a mapping, without its pages.
    pub(super) map: f64,
    sequential: AccessOrderPrices,
    random: RandomReadPrices,
    /// What setting the position of a descriptor before a read costs, in order and at random.
    positions: [f64; 2],
    /// A page that a populating call maps.
    pub(super) populate_page: f64,
    /// A page of fresh memory.
    pub(super) fresh_page: f64,
}

impl FilePrices {
    /// The prices of a run for blocks of a size. `None` if the cells for them are missing.
    pub(super) fn from_readings(readings: &FileBenchReport, block: Bytes) -> Option<Self> {
        let page = readings.base_page_bytes.bytes();
        let source = PriceCells { all: &readings.prices, page, block };
        let open = source.each(ReadWay::Pread, |pace| pace.set_up_ns + pace.tear_down_ns)?;
        let set_up = |arm| source.each(arm, |pace| pace.set_up_ns);
        let (mapped, populated) = (set_up(ReadWay::Map)?, set_up(ReadWay::MapPopulate)?);
        let (_, span) = source.spans(AccessOrder::Sequential)?;
        let pages = source.pages(span);
        Some(Self {
            entry: readings.entry_ns.known()?.median,
            open,
            map: (mapped - open).max(0.0),
            sequential: source.ordered(AccessOrder::Sequential, span)?,
            random: source.random()?,
            positions: AccessOrder::ALL.map(|order| source.position(order).unwrap_or(0.0)),
            populate_page: (populated - mapped).max(0.0) / pages,
            fresh_page: source.fresh()? / pages,
        })
    }

    /// The extra cost of setting a descriptor's position before a read. At random, without the cost of
    /// entering the kernel for the additional call.
    pub(super) fn position(&self, order: AccessOrder) -> f64 {
        let [in_order, at_random] = self.positions;
        match order {
            AccessOrder::Sequential => in_order,
            AccessOrder::Random => (at_random - self.entry).max(0.0),
        }
    }

    /// Those of an order over a span.
    pub(super) fn by(&self, order: AccessOrder, span: Bytes) -> AccessOrderPrices {
        match order {
            AccessOrder::Sequential => self.sequential,
            AccessOrder::Random => self.random.over(span),
        }
    }
}

/// The cells of the prices.
struct PriceCells<'a> {
    all: &'a [FilePoint],
    page: u64,
    /// For which prices are wanted.
    block: Bytes,
}

impl PriceCells<'_> {
    fn find(
        &self,
        arm: ReadWay,
        order: AccessOrder,
        fresh: bool,
    ) -> impl Iterator<Item = &FilePoint> {
        let is_it =
            move |cell: &FileCell| cell.arm == arm && cell.order == order && cell.fresh == fresh;
        self.all.iter().filter(move |point| is_it(&point.cell))
    }

    /// Median over the cells of a way in order.
    fn each(&self, arm: ReadWay, pick: impl Fn(&UndisturbedPace) -> Nanos) -> Option<f64> {
        let paces = self.find(arm, AccessOrder::Sequential, false).filter_map(|p| p.pace.as_ref());
        median(&paces.map(|pace| pick(pace).0 as f64).collect::<Vec<f64>>())
    }

    fn pages(&self, span: Bytes) -> f64 {
        span.0.div_ceil(self.page.max(1)).max(1) as f64
    }

    /// The smallest and the largest span that was read in an order.
    fn spans(&self, order: AccessOrder) -> Option<(Bytes, Bytes)> {
        let all = self.all.iter().filter(|point| point.cell.order == order);
        let spans = all.map(|point| point.cell.span_bytes);
        Some((spans.clone().min()?, spans.max()?))
    }

    /// What each read(2) takes more than a pread(2) of the same block.
    fn position(&self, order: AccessOrder) -> Option<f64> {
        let read = self.find(ReadWay::Read, order, false).next()?;
        let beside = FileCell { arm: ReadWay::Pread, ..read.cell };
        let pread = self.all.iter().find(|point| point.cell == beside)?;
        let pass = |point: &FilePoint| Some(point.pace.as_ref()?.pass_ns(0)?.0 as f64);
        Some((pass(read)? - pass(pread)?).max(0.0) / read.cell.blocks().max(1) as f64)
    }

    fn random(&self) -> Option<RandomReadPrices> {
        let (least, most) = self.spans(AccessOrder::Random)?;
        let over = |span| Some((span, self.ordered(AccessOrder::Random, span)?));
        Some(RandomReadPrices { near: over(least)?, far: over(most)? })
    }

    fn ordered(&self, order: AccessOrder, span: Bytes) -> Option<AccessOrderPrices> {
        Some(AccessOrderPrices {
            call: self.line(ReadWay::Pread, (order, span), 0)?,
            copy: self.line(ReadWay::Map, (order, span), 1)?,
            sum: self.line(ReadWay::Place, (order, span), 1)?,
            copy_fault: self.fault(ReadWay::Map, (order, span))?,
            sum_fault: self.fault(ReadWay::Place, (order, span))?,
            unmap_page: self.unmapping((order, span))?,
        })
    }

    /// Those of a way over a span, in one buffer.
    fn over(
        &self,
        arm: ReadWay,
        (order, span): (AccessOrder, Bytes),
    ) -> impl Iterator<Item = &FilePoint> {
        self.find(arm, order, false).filter(move |point| point.cell.span_bytes == span)
    }

    /// The two sizes of blocks next to the wanted one, with what `of` says of their cells.
    fn around(
        &self,
        arm: ReadWay,
        place: (AccessOrder, Bytes),
        of: impl Fn(&FilePoint) -> Option<f64>,
    ) -> Option<[(Bytes, f64); 2]> {
        let reported = |point: &FilePoint| Some((point.cell.block_bytes, of(point)?));
        let mut all: Vec<(Bytes, f64)> = self.over(arm, place).filter_map(reported).collect();
        all.sort_by_key(|(block, _)| *block);
        let is_around = |pair: &&[(Bytes, f64)]| self.block <= pair[1].0;
        let pair = all.windows(2).find(is_around).or_else(|| all.windows(2).last())?;
        (pair[0].0 < pair[1].0).then_some([pair[0], pair[1]])
    }

    /// The line through these two, of the pass with this number; through the wanted block alone where it would
    /// leave less than nothing for the block itself.
    fn line(&self, arm: ReadWay, place: (AccessOrder, Bytes), pass: usize) -> Option<LinearCost> {
        let per_block = |point: &FilePoint| {
            let ns = point.pace.as_ref()?.pass_ns(pass)?.0 as f64;
            Some(ns / point.cell.blocks().max(1) as f64)
        };
        let [(small, of_small), (large, of_large)] = self.around(arm, place, per_block)?;
        let (wanted, least) = (self.block.0 as f64, small.0 as f64);
        let slope = (of_large - of_small).max(0.0) / (large.0 - small.0) as f64;
        let through = of_small + slope * (wanted - least);
        // If a byte costs more in the larger blocks, at least this much must remain for smaller ones.
        let all = if wanted < least { through.max(of_small * wanted / least) } else { through };
        let byte = slope.min(all / wanted.max(1.0));
        Some(LinearCost { block: all - byte * wanted, byte })
    }

    /// The extra time of the first pass over the second, for each fault, between these two.
    fn fault(&self, arm: ReadWay, place: (AccessOrder, Bytes)) -> Option<f64> {
        let each = |point: &FilePoint| {
            let faults: Vec<f64> = point.samples.iter().map(|s| s.minor_faults as f64).collect();
            let faults = median(&faults).filter(|faults| *faults > 0.0)?;
            let pace = point.pace.as_ref()?;
            let (first, second) = (pace.pass_ns(0)?.0 as f64, pace.pass_ns(1)?.0 as f64);
            Some((first - second).max(0.0) / faults)
        };
        let [(small, of_small), (large, of_large)] = self.around(arm, place, each)?;
        let passed = (self.block.0 as f64 - small.0 as f64) / (large.0 - small.0) as f64;
        Some(toward(of_small, of_large, passed.clamp(0.0, 1.0)))
    }

    /// What unmapping takes for each page, median over the mappings.
    fn unmapping(&self, (order, span): (AccessOrder, Bytes)) -> Option<f64> {
        let is_it = |cell: &FileCell| {
            cell.arm.is_mapped() && (cell.order, cell.span_bytes) == (order, span)
        };
        let mapped = self.all.iter().filter(|point| is_it(&point.cell));
        let paces = mapped.filter_map(|point| point.pace.as_ref());
        let each = paces.map(|pace| pace.tear_down_ns.0 as f64 / self.pages(span));
        median(&each.collect::<Vec<f64>>())
    }

    /// What reading into fresh memory takes more, all of it.
    fn fresh(&self) -> Option<f64> {
        let of = |point: &FilePoint| Some(point.pace.as_ref()?.total_ns().0 as f64);
        let more = self.find(ReadWay::Pread, AccessOrder::Sequential, true).filter_map(|fresh| {
            let reused = FileCell { fresh: false, ..fresh.cell };
            let other = self.all.iter().find(|point| point.cell == reused)?;
            Some((of(fresh)? - of(other)?).max(0.0))
        });
        median(&more.collect::<Vec<f64>>())
    }
}
