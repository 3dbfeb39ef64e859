//! What one slot of a pipe costs by itself, and what finding its page costs: the prices that explain
//! the rungs by reference, taken before a ladder. Nanoseconds of CPU time for each slot.
//!
//! One thread fills a pipe and empties it into /dev/null, so nobody waits and nothing is copied.
//! Filled by tee(2) from another pipe, a slot costs no search for a page; filled by vmsplice(2) it
//! costs in addition the walk of the page table and the hold on the page (`get_user_pages_fast`), from
//! base or from huge pages; by splice(2) from a memfd, the look into the page cache. The differences
//! are these prices, so each carries the noise of two figures, and one that comes out below zero is
//! missing. Not seen: what a second core that works on the same pages adds. Takes about 30 ms.

use super::end::source::{self, Source};
use super::end::waiter::Waiter;
use super::end::{Trouble, length};
use super::place::Cpus;
use super::wire::{Role, Task};
use super::{catalogue, sequence};
use crate::sample::time_cpu;
use pagewise_kernel::{SysError, affinity, page_size, pipe};
use pagewise_model::ladder::{Consumption, Pages, Reader, ReferencePrices, Rung, Wait, Writer};
use pagewise_model::measured::median;
use pagewise_model::{Bytes, Fact, PageSize};
use rustix::pipe::SpliceFlags;
use std::fs::File;
use std::os::fd::OwnedFd;

/// Content of a file that the library leaves on base pages.
const SMALL: Bytes = Bytes::kib(64);
/// Capacity wanted of the pipe.
const CAPACITY: Bytes = Bytes::mib(1);
/// Repeats of a price, and fillings of the pipe in each.
const REPEATS: usize = 7;
const FILLINGS: usize = 32;

/// Takes the prices on the first CPU that we may use.
#[must_use]
pub fn reference_prices() -> ReferencePrices {
    let measuring = std::thread::scope(|scope| scope.spawn(measure).join());
    match measuring {
        Ok(Ok(prices)) => prices,
        Ok(Err(trouble)) => ReferencePrices::missing(&trouble.to_string()),
        Err(_) => ReferencePrices::missing("the measuring thread ended before its result"),
    }
}

fn measure() -> Result<ReferencePrices, Trouble> {
    if let Some(cpu) = Cpus::allowed().first() {
        affinity::set(0, &[cpu])?;
    }
    let slot = by_tee()?;
    let beyond = |writer, pages, buffer, on| -> Fact<f64> {
        let rung = Rung {
            pages,
            buffer_bytes: buffer,
            ..Rung::plain("reference", writer, Reader::Splice)
        };
        match by(rung, on) {
            Ok(ns) if ns > slot => Fact::Known(ns - slot),
            Ok(_) => Fact::missing("less than the noise"),
            Err(trouble) => Fact::missing(trouble.to_string()),
        }
    };
    let (base, huge) = (page_size::base(), page_size::huge());
    let large = Bytes(huge.bytes());
    Ok(ReferencePrices {
        slot_ns: Fact::Known(slot),
        pin_base_ns: beyond(Writer::Vmsplice, Pages::Base, catalogue::BUFFER, base),
        pin_huge_ns: beyond(Writer::Vmsplice, Pages::Huge, catalogue::BUFFER, huge),
        cache_base_ns: beyond(Writer::SpliceFrozen, Pages::Base, SMALL, base),
        cache_huge_ns: beyond(Writer::SpliceFrozen, Pages::Huge, large, huge),
    })
}

/// A pipe with a way out that nobody looks at.
struct Loop {
    reader: OwnedFd,
    writer: OwnedFd,
    null: File,
    capacity: usize,
}

impl Loop {
    fn new() -> Result<Self, Trouble> {
        let (reader, writer) = pipe::pipe()?;
        // Beyond the user's limits it stays as large as it is.
        let held = pipe::set_capacity(&writer, CAPACITY).or_else(|_| pipe::capacity(&writer))?;
        let null = File::options().write(true).open("/dev/null");
        let null = null.map_err(|e| SysError::new("open", "/dev/null", e))?;
        Ok(Self { reader, writer, null, capacity: length(held)? })
    }

    fn empty(&self, mut left: usize) -> Result<(), Trouble> {
        while left > 0 {
            let now = SpliceFlags::NONBLOCK;
            let moved = rustix::pipe::splice(&self.reader, None, &self.null, None, left, now);
            left -= moved.map_err(Trouble::of("splice"))?;
        }
        Ok(())
    }

    /// Nanoseconds a slot of filling by `fill` (bytes and slots) and emptying; the median.
    fn price(
        &self,
        mut fill: impl FnMut(&Self) -> Result<(usize, u64), Trouble>,
    ) -> Result<f64, Trouble> {
        let mut values = Vec::with_capacity(REPEATS);
        for repeat in 0..=REPEATS {
            let mut slots = 0;
            let (ns, done) = time_cpu(|| {
                (0..FILLINGS).try_for_each(|_| {
                    let (bytes, filled) = fill(self)?;
                    slots += filled;
                    self.empty(bytes)
                })
            });
            done?;
            // The first repeat warms up.
            if repeat > 0 && slots > 0 {
                values.push(ns / slots as f64);
            }
        }
        median(&values).ok_or_else(|| Trouble::Unavailable("no slot was filled".to_owned()))
    }
}

/// A slot without a search for its page.
fn by_tee() -> Result<f64, Trouble> {
    let target = Loop::new()?;
    let seed = Loop::new()?;
    let page = length(Bytes(page_size::base().bytes()))?;
    let mut content = vec![0; seed.capacity.min(target.capacity)];
    sequence::fill(&mut content, 0);
    let len = rustix::io::write(&seed.writer, &content).map_err(Trouble::of("write"))?;
    target.price(|target| {
        let teed = rustix::pipe::tee(&seed.reader, &target.writer, len, SpliceFlags::NONBLOCK);
        let bytes = teed.map_err(Trouble::of("tee"))?;
        Ok((bytes, bytes.div_ceil(page) as u64))
    })
}

/// A slot by the way of `rung`, whose memory must be on pages of this size.
fn by(rung: Rung, on: PageSize) -> Result<f64, Trouble> {
    let target = Loop::new()?;
    let writer = target.writer.try_clone().map_err(|e| SysError::new("dup", "a pipe", e))?;
    let task = Task {
        role: Role::Producer,
        rung,
        consumption: Consumption::Untouched,
        bytes: Bytes(0),
        cpus: Vec::new(),
    };
    let mut source: Source = source::prepare(writer, &task)?;
    match source.prove_page_size() {
        Fact::Known(size) if size == on => {}
        Fact::Known(size) => return Err(Trouble::Unavailable(format!("on pages of {size}"))),
        Fact::Missing(why) => return Err(Trouble::Unavailable(why)),
    }
    let mut waiter = Waiter::new(Wait::Block);
    target.price(|target| {
        let (mut filled, mut slots) = (0, 0);
        while filled < target.capacity {
            source.turn()?;
            let given = source.give(target.capacity - filled, &mut waiter)?;
            (filled, slots) = (filled + given.bytes, slots + given.slots);
        }
        Ok((filled, slots))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_has_a_price_and_the_others_one_or_a_reason() {
        let prices = reference_prices();
        assert!(prices.slot_ns.known().is_some_and(|ns| *ns > 0.0), "{prices:?}");
        for fact in [&prices.pin_base_ns, &prices.cache_huge_ns] {
            assert!(fact.known().is_some_and(|ns| *ns > 0.0) || fact.reason().is_some());
        }
    }
}
