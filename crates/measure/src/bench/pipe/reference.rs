//! The prices that explain the rungs: what one slot of a pipe costs, what finding its page costs, and what a
//! second core adds. Measured before a ladder, in nanoseconds of CPU time for each slot.
//!
//! A pipe is filled and emptied in turn ([`super::turns`]), so no side waits. To pass references, it is
//! emptied into /dev/null and nothing is copied. Filled by tee(2) from another pipe, a slot needs no search
//! for a page. Filled by vmsplice(2), it also costs the walk of the page table and the reference to the page
//! (`get_user_pages_fast`), from base or huge pages. Filled by splice(2) from a memfd, it costs the lookup in
//! the page cache. Filled by vmsplice and read, it costs the copy out of lent pages, with the memory,
//! destination and piece size of the published rungs. That copy is measured twice: with the same bytes each
//! time, and with bytes that are rewritten.
//!
//! Each way is measured with one thread and with a second one that empties on another core. The difference is
//! slots, page descriptors, counters and bytes that are fetched from its caches, and pages that are freed
//! where they were not allocated. The second thread is measured twice: with threads that never leave their
//! CPUs, and with threads that sleep during the other's turn, whose caches are colder. The CPU time of a
//! hand-over between two CPUs is that of both sides.
//!
//! All but the first are differences, so each contains the noise of two figures, and one below zero is
//! missing. Not seen: both ends at the pipe's lock at the same time. Takes about half a second.

use super::end::source::{self, PipeSource};
use super::end::waiter::EndWaiter;
use super::end::{PipeRole, PipeTask};
use super::end::{failed, length};
use super::plan::AllowedCpus;
use super::turns::{CAPACITY, EmptyingThread, FillingCost, PipeLoop};
use super::{catalogue, sequence};
use crate::error::PriceError;
use crate::prices::process::WakeupProbe;
use pagewise_kernel::{SysError, affinity, page_size};
use pagewise_model::bench::pipe::{
    CpuPlacement, CrossCorePrices, PipeConsumption, PipeRung, ReferencePrices, RungPages,
    RungReader, RungWait, RungWriter,
};
use pagewise_model::measured::median;
use pagewise_model::{Bytes, Fact, PageSize};
use rustix::pipe::SpliceFlags;

/// Content of a file that the library leaves on base pages.
const SMALL: Bytes = Bytes::kib(64);
/// Repeats of the hand-over.
const HAND_OVERS: usize = 3;

/// Takes the prices on the first CPU that we may use, and on one of another core.
#[must_use]
pub fn reference_prices() -> ReferencePrices {
    let measuring = std::thread::scope(|scope| scope.spawn(measure).join());
    match measuring {
        Ok(Ok(prices)) => prices,
        Ok(Err(error)) => ReferencePrices::missing(&error.to_string()),
        Err(_) => ReferencePrices::missing("the measuring thread ended before its result"),
    }
}

/// A way to fill slots, on pages of a size.
#[derive(Clone, Copy)]
struct SlotWay {
    writer: RungWriter,
    pages: RungPages,
    buffer: Bytes,
    on: PageSize,
    /// Bytes that the pipe holds.
    pipe: Bytes,
    /// Whether the bytes are read, or passed on by reference.
    is_read: bool,
    /// Whether they are written again for each filling.
    is_renewed: bool,
}

impl SlotWay {
    /// Passed on by reference, the pipe as large as it can be.
    fn new(writer: RungWriter, pages: RungPages, buffer: Bytes) -> Self {
        let on = if pages == RungPages::Base { page_size::base() } else { page_size::huge() };
        Self { writer, pages, buffer, on, pipe: CAPACITY, is_read: false, is_renewed: false }
    }
}

/// Reading pages that were lent.
struct LentPrices {
    same: PlacementPrices,
    renewed: PlacementPrices,
    /// What passing them on in the same pieces costs one thread.
    passed: Result<f64, String>,
}

impl LentPrices {
    fn take(pages: RungPages, taken: impl Fn(SlotWay) -> PlacementPrices) -> Self {
        let vmspliced = SlotWay::new(RungWriter::Vmsplice, pages, catalogue::BUFFER);
        let passed = SlotWay { pipe: Bytes(catalogue::BUFFER.0 / 2), ..vmspliced };
        let same = SlotWay { is_read: true, ..passed };
        let renewed = SlotWay { is_renewed: true, ..same };
        Self { same: taken(same), renewed: taken(renewed), passed: with_reason(by(passed, None)) }
    }

    /// What reading the same bytes each time costs one thread beyond passing them on.
    fn here(&self) -> Fact<f64> {
        beyond(&self.same.here, &self.passed)
    }
}

fn with_reason(price: Result<f64, PriceError>) -> Result<f64, String> {
    price.map_err(|error| error.to_string())
}

/// A price with one thread and with a second one on another core, or why it is missing.
struct PlacementPrices {
    here: Result<f64, String>,
    apart: Result<f64, String>,
    /// Apart, each thread having slept while it was the other's turn.
    asleep: Result<f64, String>,
}

impl PlacementPrices {
    fn with(
        other: &Result<u32, String>,
        price: impl Fn(Option<EmptyingThread>) -> Result<f64, PriceError>,
    ) -> Self {
        let apart = |sleeps| {
            other.clone().and_then(|cpu| with_reason(price(Some(EmptyingThread { cpu, sleeps }))))
        };
        Self { here: with_reason(price(None)), apart: apart(false), asleep: apart(true) }
    }
}

/// All ways, by what they fill the pipe with.
struct SlotWayPrices {
    slot: PlacementPrices,
    pin_base: PlacementPrices,
    pin_huge: PlacementPrices,
    cache_base: PlacementPrices,
    cache_huge: PlacementPrices,
    copied: PlacementPrices,
    lent_base: LentPrices,
    lent_huge: LentPrices,
}

impl SlotWayPrices {
    fn with(other: &Result<u32, String>) -> Self {
        let taken = |way| PlacementPrices::with(other, |other| by(way, other));
        let pin = |pages| taken(SlotWay::new(RungWriter::Vmsplice, pages, catalogue::BUFFER));
        let cached = |pages, size| taken(SlotWay::new(RungWriter::SpliceFrozen, pages, size));
        Self {
            slot: PlacementPrices::with(other, by_tee),
            pin_base: pin(RungPages::Base),
            pin_huge: pin(RungPages::Huge),
            cache_base: cached(RungPages::Base, SMALL),
            cache_huge: cached(RungPages::Huge, Bytes(page_size::huge().bytes())),
            copied: PlacementPrices::with(other, by_copy),
            lent_base: LentPrices::take(RungPages::Base, taken),
            lent_huge: LentPrices::take(RungPages::Huge, taken),
        }
    }

    /// What another core adds, in one of the two ways to wait.
    fn dearer(&self, apart: impl Fn(&PlacementPrices) -> &Result<f64, String>) -> CrossCorePrices {
        let dearer = |way: &PlacementPrices| beyond(apart(way), &way.here);
        CrossCorePrices {
            slot_ns: dearer(&self.slot),
            pin_base_ns: dearer(&self.pin_base),
            pin_huge_ns: dearer(&self.pin_huge),
            cache_base_ns: dearer(&self.cache_base),
            cache_huge_ns: dearer(&self.cache_huge),
            copied_ns: dearer(&self.copied),
            read_base_ns: dearer(&self.lent_base.same),
            read_huge_ns: dearer(&self.lent_huge.same),
            renewed_base_ns: dearer(&self.lent_base.renewed),
            renewed_huge_ns: dearer(&self.lent_huge.renewed),
        }
    }
}

fn measure() -> Result<ReferencePrices, PriceError> {
    let cpus = AllowedCpus::allowed();
    if let Some(cpu) = cpus.first() {
        affinity::set(0, &[cpu])?;
    }
    let other = cpus.seats(CpuPlacement::TwoCores);
    let other = other.and_then(|seats| seats.reader.ok_or_else(|| "no second CPU".to_owned()));
    let all = SlotWayPrices::with(&other);
    let alone = |way: &PlacementPrices| beyond(&way.here, &all.slot.here);
    Ok(ReferencePrices {
        slot_ns: Fact::Known(all.slot.here.clone().map_err(PriceError::Unavailable)?),
        pin_base_ns: alone(&all.pin_base),
        pin_huge_ns: alone(&all.pin_huge),
        cache_base_ns: alone(&all.cache_base),
        cache_huge_ns: alone(&all.cache_huge),
        read_base_ns: all.lent_base.here(),
        read_huge_ns: all.lent_huge.here(),
        hand_over_cpu_ns: other.map_or_else(Fact::Missing, hand_over),
        apart: all.dearer(|way| &way.apart),
        asleep: all.dearer(|way| &way.asleep),
    })
}

/// The amount by which one price exceeds another.
fn beyond(price: &Result<f64, String>, other: &Result<f64, String>) -> Fact<f64> {
    match (price, other) {
        (Ok(price), Ok(other)) if price > other => Fact::Known(price - other),
        (Ok(_), Ok(_)) => Fact::missing("less than the noise"),
        (Err(why), _) | (_, Err(why)) => Fact::missing(why),
    }
}

/// CPU time of both sides of a hand-over to a thread on `cpu`.
fn hand_over(cpu: u32) -> Fact<f64> {
    let once = |_| WakeupProbe::with_partner_on(cpu).hand_over().map(|found| found.cpu_ns);
    match (0..HAND_OVERS).map(once).collect::<Result<Vec<f64>, _>>() {
        Ok(values) => median(&values).map_or(Fact::missing("not measured"), Fact::Known),
        Err(error) => Fact::missing(error.to_string()),
    }
}

/// A slot without a search for its page, emptied by a thread on `other`, or by this one.
fn by_tee(other: Option<EmptyingThread>) -> Result<f64, PriceError> {
    let (target, seed) = (PipeLoop::into_null(CAPACITY)?, PipeLoop::into_null(CAPACITY)?);
    let page = length(Bytes(page_size::base().bytes()))?;
    let content = content(seed.capacity.min(target.capacity));
    let len = rustix::io::write(&seed.writer, &content).map_err(failed("write"))?;
    target.price(other, |target| {
        let teed = rustix::pipe::tee(&seed.reader, &target.writer, len, SpliceFlags::NONBLOCK);
        let bytes = teed.map_err(failed("tee"))?;
        Ok(FillingCost::of_bytes(bytes, bytes.div_ceil(page) as u64))
    })
}

/// A page that is written and read.
fn by_copy(other: Option<EmptyingThread>) -> Result<f64, PriceError> {
    let target = PipeLoop::into_memory(CAPACITY)?;
    let page = length(Bytes(page_size::base().bytes()))?;
    let content = content(target.capacity);
    target.price(other, |target| {
        let bytes = rustix::io::write(&target.writer, &content).map_err(failed("write"))?;
        Ok(FillingCost::of_bytes(bytes, bytes.div_ceil(page) as u64))
    })
}

fn content(len: usize) -> Vec<u8> {
    let mut content = vec![0; len];
    sequence::fill(&mut content, 0);
    content
}

/// The price of a slot with `way`. Its memory must be on the pages that `way` specifies.
fn by(way: SlotWay, other: Option<EmptyingThread>) -> Result<f64, PriceError> {
    let target =
        if way.is_read { PipeLoop::into_memory(way.pipe) } else { PipeLoop::into_null(way.pipe) }?;
    let writer = target.writer.try_clone().map_err(|e| SysError::new("dup", "a pipe", e))?;
    let rung = PipeRung {
        pages: way.pages,
        buffer_bytes: way.buffer,
        ..PipeRung::plain("reference", way.writer, RungReader::Splice)
    };
    let task = PipeTask {
        role: PipeRole::Producer,
        rung,
        consumption: if way.is_renewed {
            PipeConsumption::Touched
        } else {
            PipeConsumption::Untouched
        },
        bytes: Bytes(0),
        cpus: Vec::new(),
    };
    let mut source: PipeSource = source::prepare(writer, &task)?;
    match source.prove_page_size() {
        Fact::Known(size) if size == way.on => {}
        Fact::Known(size) => return Err(PriceError::Unavailable(format!("on pages of {size}"))),
        Fact::Missing(why) => return Err(PriceError::Unavailable(why)),
    }
    let mut waiter = EndWaiter::new(RungWait::Block);
    target.price(other, |target| {
        let mut filled = FillingCost::of_bytes(0, 0);
        while filled.bytes < target.capacity {
            filled.own += source.turn()?;
            let given = source.give(target.capacity - filled.bytes, &mut waiter)?;
            (filled.bytes, filled.slots) = (filled.bytes + given.bytes, filled.slots + given.slots);
        }
        Ok(filled)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_has_a_price_and_the_others_one_or_a_reason() {
        let prices = reference_prices();
        assert!(prices.slot_ns.known().is_some_and(|ns| *ns > 0.0), "{prices:?}");
        let apart = &prices.apart;
        for fact in [
            &prices.pin_base_ns,
            &prices.cache_huge_ns,
            &prices.hand_over_cpu_ns,
            &apart.slot_ns,
            &apart.copied_ns,
        ] {
            assert!(fact.known().is_some_and(|ns| *ns > 0.0) || fact.reason().is_some());
        }
    }

    #[test]
    fn a_price_below_the_other_is_none() {
        assert_eq!(beyond(&Ok(5.0), &Ok(3.0)), Fact::Known(2.0));
        assert_eq!(beyond(&Ok(3.0), &Ok(5.0)).reason(), Some("less than the noise"));
        let refused = || Err("why".to_owned());
        assert_eq!(beyond(&refused(), &Ok(5.0)).reason(), Some("why"));
        assert_eq!(beyond(&Ok(5.0), &refused()).reason(), Some("why"));
    }
}
