//! The account of one point: time of both ends for each GiB, and its parts.
//!
//! Counts are the medians over the repeats. The time asleep is the clock time minus the CPU time that the
//! kernel charged (an end that lost its CPU counts as asleep). There are as many wake-ups as ends gave up the
//! CPU, at the price of a hand-over. They are CPU time as far as a priced hand-over is, but never more than
//! the other parts leave of it. The rest of their price is part of the sleep, but never more than was slept:
//! a hand-over costs more if the other end has nothing else to do, as in its price, than if both work. The
//! remaining sleep is waiting. On one CPU no end sleeps beside a working end, so a wake-up there is CPU time
//! and has its full price. An end that spins waits as well, for the measured time. In runs saved before spins
//! and the ends' own code were timed, spins are calls at a price, and own code is CPU time in user mode, part
//! of which is spins.
//!
//! Slots and bytes from another core's caches cost more. Each way has two prices for that: for ends that
//! never leave their CPUs, and for ends that have slept before each piece, whose caches are colder. The share
//! of calls that were slept for interpolates between them. A price below the noise counts as nothing if the
//! other is known.

use super::prices::{UnitPrices, known};
use pagewise_model::bench::pipe::{
    CpuPlacement, CrossCorePrices, PipeConsumption, PipeEndUsage, PipePoint, PipeSample,
    PipeTimeAccount, PipeWork, PipeWorkBasis, PipeWorkPart, RungReader, RungWait, RungWriter,
};
use pagewise_model::measured::median;
use pagewise_model::{Bytes, Fact, Nanos, PageSize};

/// Counts for each GiB.
pub(super) struct PipeCounts {
    /// Wall time of both ends, nanoseconds.
    total: f64,
    /// CPU time of both ends, nanoseconds.
    pub(super) cpu: f64,
    user: f64,
    slots: f64,
    /// Calls that moved bytes, or slept until they could.
    calls: f64,
    pub(super) spins: f64,
    /// Time spun, and time in the ends' own code, if they were measured.
    spun: Option<f64>,
    own: Option<f64>,
    switches: f64,
    faults: f64,
}

impl PipeCounts {
    pub(super) fn from_point(point: &PipePoint) -> Option<Self> {
        let ends = if on_one_cpu(point) { 1.0 } else { 2.0 };
        let middle = |of: &dyn Fn(&PipeSample) -> Option<f64>| {
            let values: Option<Vec<f64>> = point.samples.iter().map(of).collect();
            median(&values?)
        };
        let each = |of: fn(&PipeSample) -> u64| middle(&|s| per_gib(of(s), s.bytes));
        let timed = |of: fn(&PipeEndUsage) -> Option<Nanos>| {
            middle(&|s| per_gib((of(&s.writer)? + of(&s.reader)?).0, s.bytes))
        };
        let spins = each(|s| s.writer.spins + s.reader.spins)?;
        Some(Self {
            total: ends * middle(&|s| per_gib(s.wall_ns.0, s.timed_bytes))?,
            cpu: each(|s| (s.writer.cpu_ns() + s.reader.cpu_ns()).0)?,
            user: each(|s| (s.writer.user_ns + s.reader.user_ns).0)?,
            slots: each(|s| s.writer.slots)?,
            calls: (each(|s| s.writer.calls + s.reader.calls)? - spins).max(0.0),
            spins,
            spun: timed(|end| end.spun_ns),
            own: timed(|end| end.own_ns),
            switches: each(|s| s.writer.voluntary_switches + s.reader.voluntary_switches)?,
            faults: each(|s| s.writer.minor_faults + s.reader.minor_faults)?,
        })
    }

    /// Time spun, if it was measured. It is clock time. An end that lost its CPU meanwhile did not spin, so
    /// the value is limited to the CPU time outside the ends' own code.
    pub(super) fn spun(&self) -> Option<f64> {
        let most = self.cpu - self.own.unwrap_or(0.0);
        self.spun.map(|spun| spun.min(most).max(0.0))
    }

    /// Share of the calls that an end slept for.
    fn share_slept_for(&self) -> f64 {
        (self.switches / self.calls.max(1.0)).min(1.0)
    }

    /// Time that both ends were off their CPUs.
    fn asleep(&self) -> f64 {
        (self.total - self.cpu).max(0.0)
    }
}

fn per_gib(count: u64, bytes: Bytes) -> Option<f64> {
    let share = count as f64 * Bytes::gib(1).0 as f64 / bytes.0 as f64;
    share.is_finite().then_some(share)
}

/// Both ends have one CPU between them.
fn on_one_cpu(point: &PipePoint) -> bool {
    match (point.writer_cpu, point.reader_cpu) {
        (Some(writer), Some(reader)) => writer == reader,
        _ => point.rung.placement == CpuPlacement::SameCore,
    }
}

/// The account of `point`, which is number `at`; `None` without usable repeats.
pub(super) fn account(
    at: usize,
    point: &PipePoint,
    prices: &UnitPrices,
    base: PageSize,
) -> Option<PipeTimeAccount> {
    let counts = PipeCounts::from_point(point)?;
    let is_huge = point.page_bytes.known().is_some_and(|page| page.bytes() > base.bytes());
    let (parts, not_priced) = (Vec::new(), Vec::new());
    let mut bill = PipeAccountBuilder { point, counts, prices, is_huge, parts, not_priced };
    bill.enter_copies();
    bill.enter_pages();
    bill.enter_distance();
    bill.enter_calls();
    let fault = if is_huge { prices.fault_huge } else { prices.fault_base };
    bill.priced(PipeWork::Faults, bill.counts.faults, "faults", fault);
    bill.enter_own();
    bill.enter_sleep();
    let explained = bill.explained();
    Some(PipeTimeAccount {
        point: at,
        per_gib_ns: bill.counts.total,
        parts: bill.parts,
        unexplained_per_gib_ns: bill.counts.total - explained,
        not_priced: bill.not_priced,
        samples: Fact::missing("no kernel samples of this point"),
        disagreements: Vec::new(),
        published: Vec::new(),
    })
}

/// An account under way.
struct PipeAccountBuilder<'a> {
    point: &'a PipePoint,
    counts: PipeCounts,
    prices: &'a UnitPrices,
    is_huge: bool,
    parts: Vec<PipeWorkPart>,
    not_priced: Vec<PipeWork>,
}

impl PipeAccountBuilder<'_> {
    /// `count` things at `price` each; without a price the kind is named.
    fn priced(&mut self, work: PipeWork, count: f64, what: &str, price: Option<f64>) {
        if count <= 0.0 {
            return;
        }
        let Some(price) = price else {
            if !self.not_priced.contains(&work) {
                self.not_priced.push(work);
            }
            return;
        };
        let evidence = format!("{} {what} x {}", count_text(count), price_text(price));
        let basis = PipeWorkBasis::CountsTimesPrice;
        self.parts.push(PipeWorkPart { work, per_gib_ns: count * price, basis, evidence });
    }

    fn explained(&self) -> f64 {
        self.parts.iter().map(|part| part.per_gib_ns).sum()
    }

    fn accounted(&mut self, work: PipeWork, per_gib_ns: f64, evidence: &str) {
        if per_gib_ns > 0.0 {
            let (basis, evidence) = (PipeWorkBasis::Accounted, evidence.to_owned());
            self.parts.push(PipeWorkPart { work, per_gib_ns, basis, evidence });
        }
    }

    /// The price of a slot on the pages of the point.
    fn of_pages(&self, of_base: &Fact<f64>, of_huge: &Fact<f64>) -> Option<f64> {
        known(if self.is_huge { of_huge } else { of_base })
    }

    fn enter_copies(&mut self) {
        let (point, reference) = (self.point, &self.prices.reference);
        let copied = copies_in(point.rung.writer);
        let (into, mut out) =
            (f64::from(u8::from(copied)), f64::from(u8::from(point.reader.copies())));
        let onward = match point.consumption {
            PipeConsumption::ForwardedFile => 1.0,
            // A splice to a socket passes references. Bytes that were read are copied once more.
            PipeConsumption::ForwardedSocket => out,
            PipeConsumption::Untouched | PipeConsumption::Touched => 0.0,
        };
        let lent = self.of_pages(&reference.read_base_ns, &reference.read_huge_ns);
        if let Some(read) = lent.filter(|_| point.reader.copies() && !copied) {
            self.priced(PipeWork::Copy, self.counts.slots, "pages read", Some(read));
            out = 0.0;
        }
        self.priced(PipeWork::Copy, into + out + onward, "GiB", self.prices.copy_gib);
    }

    fn enter_pages(&mut self) {
        let (reference, slots) = (&self.prices.reference, self.counts.slots);
        match self.point.rung.writer {
            RungWriter::Write | RungWriter::IoUring => {
                return self.priced(PipeWork::PageAllocation, slots, "pages", self.prices.page);
            }
            RungWriter::Vmsplice | RungWriter::GiveDropped | RungWriter::FizzBuzz => {
                let pin = self.of_pages(&reference.pin_base_ns, &reference.pin_huge_ns);
                self.priced(PipeWork::Pinning, slots, "pages", pin);
            }
            RungWriter::SpliceFrozen => {
                let find = self.of_pages(&reference.cache_base_ns, &reference.cache_huge_ns);
                self.priced(PipeWork::Pinning, slots, "pages", find);
            }
            RungWriter::TeeSeed => {}
        }
        // A seed pipe's slots are filled twice: in the copy of the seed and in the pipe itself.
        let times = if self.point.rung.writer == RungWriter::TeeSeed { 2.0 } else { 1.0 };
        self.priced(PipeWork::Slots, times * slots, "slots", known(&reference.slot_ns));
    }

    /// The extra cost of having the ends on two cores.
    fn enter_distance(&mut self) {
        let point = self.point;
        if on_one_cpu(point) {
            return;
        }
        let (writer, reads) = (point.rung.writer, point.reader.copies());
        // Lent bytes that never change stay in both caches.
        let is_new = point.consumption == PipeConsumption::Touched
            && !writer.sends_constant()
            && !copies_in(writer);
        let read = match is_new {
            true => self.apart_of_pages(|p| (&p.renewed_base_ns, &p.renewed_huge_ns)),
            false => self.apart_of_pages(|p| (&p.read_base_ns, &p.read_huge_ns)),
        };
        let read = read.filter(|_| reads);
        let slot = match writer {
            RungWriter::Write | RungWriter::IoUring if reads => self.apart(|p| &p.copied_ns),
            RungWriter::Write | RungWriter::IoUring | RungWriter::TeeSeed => {
                self.apart(|p| &p.slot_ns)
            }
            RungWriter::Vmsplice | RungWriter::GiveDropped | RungWriter::FizzBuzz => {
                read.or_else(|| self.apart_of_pages(|p| (&p.pin_base_ns, &p.pin_huge_ns)))
            }
            RungWriter::SpliceFrozen => {
                self.apart_of_pages(|p| (&p.cache_base_ns, &p.cache_huge_ns))
            }
        };
        self.priced(PipeWork::CacheTransfer, self.counts.slots, "slots", slot);
        if is_new && read.is_none() {
            self.priced(PipeWork::CacheTransfer, 1.0, "GiB", self.prices.cross_gib);
        }
    }

    /// A price of ends apart, between those that never sleep and those that always do.
    fn apart(&self, price: impl Fn(&CrossCorePrices) -> &Fact<f64>) -> Option<f64> {
        let awake = known(price(&self.prices.reference.apart));
        match known(price(&self.prices.reference.asleep)) {
            Some(asleep) => {
                let awake = awake.unwrap_or(0.0);
                Some(awake + self.counts.share_slept_for() * (asleep - awake))
            }
            None => awake,
        }
    }

    fn apart_of_pages(
        &self,
        prices: impl Fn(&CrossCorePrices) -> (&Fact<f64>, &Fact<f64>),
    ) -> Option<f64> {
        self.apart(|apart| if self.is_huge { prices(apart).1 } else { prices(apart).0 })
    }

    fn enter_calls(&mut self) {
        let (point, prices, calls) = (self.point, self.prices, self.counts.calls);
        let polls = match point.rung.wait {
            RungWait::Poll | RungWait::BusyPoll => calls,
            RungWait::Block | RungWait::Busy | RungWait::Adaptive => 0.0,
        };
        self.priced(PipeWork::Entry, calls + polls, "calls", prices.entry);
        self.priced(PipeWork::Locks, calls, "calls", prices.lock);
        match self.counts.spun() {
            Some(spun) => self.accounted(PipeWork::Waiting, spun, "time spun"),
            None => {
                let spin = prices.entry.and_then(|entry| Some(entry + prices.lock?));
                self.priced(PipeWork::Waiting, self.counts.spins, "calls without effect", spin);
            }
        }
        if matches!(
            (point.consumption, point.reader),
            (PipeConsumption::ForwardedSocket | PipeConsumption::ForwardedFile, RungReader::Read)
        ) {
            // The cost of the far side of a copying forwarder beyond the copy has no price.
            self.priced(PipeWork::PageAllocation, self.counts.slots, "pages", None);
        }
    }

    fn enter_sleep(&mut self) {
        let (asleep, switches) = (self.counts.asleep(), self.counts.switches);
        if on_one_cpu(self.point) {
            self.priced(PipeWork::Wakeups, switches, "wake-ups", self.prices.wakeup_same);
            return self.accounted(PipeWork::Waiting, asleep, "neither end on a CPU");
        }
        let Some(price) = self.prices.wakeup_cross.filter(|_| switches > 0.0) else {
            self.priced(PipeWork::Wakeups, switches, "wake-ups", None);
            return self.accounted(PipeWork::Waiting, asleep, "off the CPU");
        };
        // The part of a wake-up beyond its CPU time is sleep. On a single CPU a wake-up is CPU time only.
        let cpu = self.prices.wakeup_cpu.or(self.prices.wakeup_same).unwrap_or(0.0).min(price);
        let awake = (switches * cpu).min((self.counts.cpu - self.explained()).max(0.0));
        let slept = (switches * (price - cpu)).min(asleep);
        self.priced(PipeWork::Wakeups, switches, "wake-ups", Some(price));
        if let Some(part) = self.parts.last_mut().filter(|p| awake + slept < p.per_gib_ns) {
            part.per_gib_ns = awake + slept;
            part.evidence.push_str("; limited by the time asleep and the CPU time left");
        }
        self.accounted(PipeWork::Waiting, asleep - slept, "off the CPU, less the wake-ups");
    }

    /// The ends' own code. Faults that it took are already counted.
    fn enter_own(&mut self) {
        let Some(own) = self.counts.own else {
            return self.accounted(PipeWork::User, self.counts.user, "CPU time in user mode");
        };
        let faults = self.parts.iter().filter(|part| part.work == PipeWork::Faults);
        let faults: f64 = faults.map(|part| part.per_gib_ns).sum();
        self.accounted(PipeWork::User, own - faults, "time in the ends' own code, less its faults");
    }
}

/// Whether bytes are copied into the pipe.
pub(super) fn copies_in(writer: RungWriter) -> bool {
    matches!(writer, RungWriter::Write | RungWriter::IoUring)
}

/// `262144`, `0.50`: a count for each GiB.
fn count_text(count: f64) -> String {
    if count >= 10.0 || (count - count.round()).abs() < 1e-9 {
        format!("{count:.0}")
    } else {
        format!("{count:.2}")
    }
}

/// `12.3 ns`, `1.2 us`: prices below 100 ns with a decimal.
fn price_text(ns: f64) -> String {
    if ns < 100.0 { format!("{ns:.1} ns") } else { Nanos::from_f64(ns).to_string() }
}
