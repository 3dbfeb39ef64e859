//! What it costs more that the ends are on two cores: slots and bytes that come out of another
//! core's caches. Nanoseconds for each slot.
//!
//! Each way has two prices: of ends that never leave their CPUs, and of ends that have slept before
//! each piece, whose caches are colder. In between counts by how many calls were slept for. A price
//! that is less than the noise counts as nothing where the other is known.

use super::account::{Counts, Ledger, copies_in, is_huge, on_one_cpu};
use super::prices::{UnitPrices, known};
use pagewise_model::ladder::{ApartPrices, Consumption, Point, ReferencePrices, Work, Writer};
use pagewise_model::{Fact, PageSize};

/// Enters it in the account of `point`.
pub(super) fn enter(
    ledger: &mut Ledger,
    point: &Point,
    counts: &Counts,
    prices: &UnitPrices,
    base: PageSize,
) {
    if on_one_cpu(point) {
        return;
    }
    let apart = Apart {
        prices: &prices.reference,
        is_huge: is_huge(point, base),
        slept: counts.share_slept_for(),
    };
    let (writer, reads) = (point.rung.writer, point.reader.copies());
    // Lent bytes that are the same each time stay in both caches.
    let is_new =
        point.consumption == Consumption::Touched && !writer.sends_constant() && !copies_in(writer);
    let read = match is_new {
        true => apart.of_pages(|p| (&p.renewed_base_ns, &p.renewed_huge_ns)),
        false => apart.of_pages(|p| (&p.read_base_ns, &p.read_huge_ns)),
    };
    let read = read.filter(|_| reads);
    let slot = match writer {
        Writer::Write | Writer::IoUring if reads => apart.of(|p| &p.copied_ns),
        Writer::Write | Writer::IoUring | Writer::TeeSeed => apart.of(|p| &p.slot_ns),
        Writer::Vmsplice | Writer::GiveDropped => {
            read.or_else(|| apart.of_pages(|p| (&p.pin_base_ns, &p.pin_huge_ns)))
        }
        Writer::SpliceFrozen => apart.of_pages(|p| (&p.cache_base_ns, &p.cache_huge_ns)),
    };
    ledger.priced(Work::CacheTransfer, counts.slots, "slots", slot);
    if is_new && read.is_none() {
        ledger.priced(Work::CacheTransfer, 1.0, "GiB", prices.cross_gib);
    }
}

/// The prices that apply to a point.
struct Apart<'a> {
    prices: &'a ReferencePrices,
    is_huge: bool,
    /// Share of the calls that were slept for.
    slept: f64,
}

impl Apart<'_> {
    fn of(&self, price: impl Fn(&ApartPrices) -> &Fact<f64>) -> Option<f64> {
        let awake = known(price(&self.prices.apart));
        match known(price(&self.prices.asleep)) {
            Some(asleep) => {
                let awake = awake.unwrap_or(0.0);
                Some(awake + self.slept * (asleep - awake))
            }
            None => awake,
        }
    }

    fn of_pages(&self, prices: impl Fn(&ApartPrices) -> (&Fact<f64>, &Fact<f64>)) -> Option<f64> {
        match self.is_huge {
            false => self.of(|p| prices(p).0),
            true => self.of(|p| prices(p).1),
        }
    }
}
