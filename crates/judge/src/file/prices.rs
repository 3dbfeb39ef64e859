//! Prices out of the cells that were read for them, before all others and over another file.
//!
//! The time of a block is a cost for the block and one for each of its bytes: the two sizes of blocks that
//! were read next to its own give both, since bytes get cheaper the more of them are near one another. A
//! second pass through a mapping has no faults: what the first took more is theirs. A populated mapping takes
//! more to set up than one on demand: that is mapping its pages; what its tear-down takes is unmapping
//! them. Reading into fresh memory takes more than into the same buffer: that is its faults.
//!
//! At random a block costs more the larger the span is that it may lie in: of its first lines, its translation
//! and what the kernel keeps of its pages, caches and TLBs hold a share that falls as one over the span, if
//! every block is as likely. So a price at random is a straight line over one over the span, through the two
//! spans that were read for it. Below the smaller one nothing is concluded, and it counts as that; beyond
//! the larger one, four times as large, the line can rise by a third of what it rose between them, no more.

use pagewise_model::Bytes;
use pagewise_model::file::{Arm, Cell, Point, Readings, Sample};
use pagewise_model::measured::median;
use pagewise_model::walk::Order;

/// A cost for a block and for each of its bytes, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Line {
    pub(super) block: f64,
    pub(super) byte: f64,
}

impl Line {
    /// So far on the way from this to `other`, and beyond.
    fn toward(self, other: Self, part: f64) -> Self {
        let Self { block, byte } = self;
        Self { block: toward(block, other.block, part), byte: toward(byte, other.byte, part) }
    }
}

/// A price so far on the way from one to another; none is negative.
fn toward(from: f64, to: f64, part: f64) -> f64 {
    (from + (to - from) * part).max(0.0)
}

/// What depends on the order, and at random on the span.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ordered {
    /// pread(2), entry and exit included.
    pub(super) call: Line,
    /// A copy out of a mapping without faults.
    pub(super) copy: Line,
    /// The sum in place of a mapping without faults.
    pub(super) sum: Line,
    /// A fault on a mapping.
    pub(super) fault: f64,
}

impl Ordered {
    fn toward(self, other: &Self, part: f64) -> Self {
        Self {
            call: self.call.toward(other.call, part),
            copy: self.copy.toward(other.copy, part),
            sum: self.sum.toward(other.sum, part),
            fault: toward(self.fault, other.fault, part),
        }
    }
}

/// Prices at random over two spans, or twice the same.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Random {
    near: (Bytes, Ordered),
    far: (Bytes, Ordered),
}

impl Random {
    fn over(&self, span: Bytes) -> Ordered {
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
pub(super) struct Prices {
    /// Into the kernel and back.
    pub(super) entry: f64,
    /// Opening and closing.
    pub(super) open: f64,
    /// Making a mapping, without its pages.
    pub(super) map: f64,
    sequential: Ordered,
    random: Random,
    /// A page that a populating call maps.
    pub(super) populate_page: f64,
    /// A page that is unmapped.
    pub(super) unmap_page: f64,
    /// A page of fresh memory.
    pub(super) fresh_page: f64,
}

impl Prices {
    /// The prices of a run for blocks of a size; none where cells for them are missing.
    pub(super) fn of(readings: &Readings, block: Bytes) -> Option<Self> {
        let page = readings.base_page_bytes.bytes();
        let source = Cells { all: &readings.prices, page, block };
        let read = |set: fn(&Sample) -> f64| source.each(Arm::Pread, Order::Sequential, set);
        let open = read(|s| (s.set_up_ns + s.tear_down_ns).0 as f64)?;
        let set_up = |arm| source.each(arm, Order::Sequential, |s| s.set_up_ns.0 as f64);
        let (mapped, populated) = (set_up(Arm::Map)?, set_up(Arm::MapPopulate)?);
        let torn = source.each(Arm::MapPopulate, Order::Sequential, |s| s.tear_down_ns.0 as f64)?;
        let pages = source.pages()?;
        Some(Self {
            entry: readings.entry_ns.known()?.median,
            open,
            map: (mapped - open).max(0.0),
            sequential: source.ordered(Order::Sequential, source.spans(Order::Sequential)?.1)?,
            random: source.random()?,
            populate_page: (populated - mapped).max(0.0) / pages,
            unmap_page: torn / pages,
            fresh_page: source.fresh()? / pages,
        })
    }

    /// Those of an order over a span.
    pub(super) fn by(&self, order: Order, span: Bytes) -> Ordered {
        match order {
            Order::Sequential => self.sequential,
            Order::Random => self.random.over(span),
        }
    }
}

/// The cells of the prices.
struct Cells<'a> {
    all: &'a [Point],
    page: u64,
    /// For which prices are wanted.
    block: Bytes,
}

impl Cells<'_> {
    fn find(&self, arm: Arm, order: Order, fresh: bool) -> impl Iterator<Item = &Point> {
        let is_it =
            move |cell: &Cell| cell.arm == arm && cell.order == order && cell.fresh == fresh;
        self.all.iter().filter(move |point| is_it(&point.cell))
    }

    /// Median over the processes of a way.
    fn each(&self, arm: Arm, order: Order, pick: impl Fn(&Sample) -> f64) -> Option<f64> {
        let samples = self.find(arm, order, false).flat_map(|point| &point.samples);
        median(&samples.map(pick).collect::<Vec<f64>>())
    }

    fn pages(&self) -> Option<f64> {
        let (_, span) = self.spans(Order::Sequential)?;
        Some(span.0.div_ceil(self.page.max(1)).max(1) as f64)
    }

    /// The smallest and the largest span that was read in an order.
    fn spans(&self, order: Order) -> Option<(Bytes, Bytes)> {
        let all = self.all.iter().filter(|point| point.cell.order == order);
        let spans = all.map(|point| point.cell.span_bytes);
        Some((spans.clone().min()?, spans.max()?))
    }

    fn random(&self) -> Option<Random> {
        let (least, most) = self.spans(Order::Random)?;
        let over = |span| Some((span, self.ordered(Order::Random, span)?));
        Some(Random { near: over(least)?, far: over(most)? })
    }

    fn ordered(&self, order: Order, span: Bytes) -> Option<Ordered> {
        Some(Ordered {
            call: self.line(Arm::Pread, (order, span), 0)?,
            copy: self.line(Arm::Map, (order, span), 1)?,
            sum: self.line(Arm::Place, (order, span), 1)?,
            fault: self.fault((order, span))?,
        })
    }

    /// Those of a way over a span, in one buffer.
    fn over(&self, arm: Arm, (order, span): (Order, Bytes)) -> impl Iterator<Item = &Point> {
        self.find(arm, order, false).filter(move |point| point.cell.span_bytes == span)
    }

    /// The line through the two sizes of blocks next to the wanted one, of the pass with this number.
    fn line(&self, arm: Arm, place: (Order, Bytes), pass: usize) -> Option<Line> {
        let time = |point: &Point| {
            let of = |s: &Sample| s.pass_ns.get(pass).map(|ns| ns.0 as f64);
            let ns = median(&point.samples.iter().filter_map(of).collect::<Vec<f64>>())?;
            Some((point.cell.block_bytes, ns / point.cell.blocks().max(1) as f64))
        };
        let mut times: Vec<(Bytes, f64)> = self.over(arm, place).filter_map(time).collect();
        times.sort_by_key(|(block, _)| *block);
        let is_around = |pair: &&[(Bytes, f64)]| self.block <= pair[1].0;
        let around = times.windows(2).find(is_around).or_else(|| times.windows(2).last())?;
        let ((small, of_small), (large, of_large)) = (around[0], around[1]);
        if small == large {
            return None;
        }
        let byte = (of_large - of_small).max(0.0) / (large.0 - small.0) as f64;
        Some(Line { block: (of_small - byte * small.0 as f64).max(0.0), byte })
    }

    /// What the first pass of a copy takes more than the second, for each fault.
    fn fault(&self, place: (Order, Bytes)) -> Option<f64> {
        let samples = self.over(Arm::Map, place).flat_map(|point| &point.samples);
        let each = samples.filter_map(|s| {
            let (first, second) = (s.pass_ns.first()?.0 as f64, s.pass_ns.get(1)?.0 as f64);
            (s.minor_faults > 0).then(|| (first - second).max(0.0) / s.minor_faults as f64)
        });
        median(&each.collect::<Vec<f64>>())
    }

    /// What reading into fresh memory takes more, all of it.
    fn fresh(&self) -> Option<f64> {
        let of = |point: &Point| {
            let times = point.samples.iter().map(|s| s.total_ns().0 as f64);
            median(&times.collect::<Vec<f64>>())
        };
        let more = self.find(Arm::Pread, Order::Sequential, true).filter_map(|fresh| {
            let reused = Cell { fresh: false, ..fresh.cell };
            let other = self.all.iter().find(|point| point.cell == reused)?;
            Some((of(fresh)? - of(other)?).max(0.0))
        });
        median(&more.collect::<Vec<f64>>())
    }
}
