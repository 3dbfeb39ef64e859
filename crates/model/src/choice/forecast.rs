//! The predicted time of a way: amounts times prices, phase by phase.

use super::{
    Calibration, CostTerm, CpuSharing, FileState, PriceList, ReadDemand, ReadPhase, amounts,
};
use crate::bench::file::ReadWay;
use crate::cache::FolioClass;
use crate::schema::JsonSchema;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// The parts of a time, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimeParts {
    /// Opening, advising and mapping, with all pages that a populating call maps.
    pub set_up_ns: f64,
    /// The excess of the first pass: faults, and pages populated on the way.
    pub first_ns: f64,
    /// Cost of the blocks in all passes: calls, lookups, and what is far away.
    pub blocks_ns: f64,
    /// Cost of the bytes in all passes.
    pub bytes_ns: f64,
    /// Starting threads.
    pub starts_ns: f64,
    /// Unmapping and closing.
    pub tear_down_ns: f64,
    /// Reading what is not cached.
    pub device_ns: f64,
}

impl TimeParts {
    #[must_use]
    pub fn total_ns(&self) -> f64 {
        self.set_up_ns
            + self.first_ns
            + self.blocks_ns
            + self.bytes_ns
            + self.starts_ns
            + self.tear_down_ns
            + self.device_ns
    }

    /// Adds a share of another time.
    fn add(&mut self, other: &Self, share: f64) {
        self.set_up_ns += share * other.set_up_ns;
        self.first_ns += share * other.first_ns;
        self.blocks_ns += share * other.blocks_ns;
        self.bytes_ns += share * other.bytes_ns;
        self.starts_ns += share * other.starts_ns;
        self.tear_down_ns += share * other.tear_down_ns;
        self.device_ns += share * other.device_ns;
    }
}

/// The predicted time of a way.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReadForecast {
    pub arm: ReadWay,
    /// Time from opening to closing, in nanoseconds.
    pub total_ns: f64,
    /// The parts of that time.
    pub parts: TimeParts,
}

/// A demand on a span of a file that is cached in one kind of folio.
#[derive(Debug, Clone, Copy)]
pub struct SpanDemand<'a> {
    /// The demand of the program.
    pub demand: &'a ReadDemand,
    pub span_bytes: Bytes,
    /// Folios in which the cache holds the span.
    pub folios: FolioClass,
}

impl Calibration {
    /// The predicted time of `arm`; none without prices for it.
    #[must_use]
    pub fn forecast(
        &self,
        arm: ReadWay,
        demand: &ReadDemand,
        state: &FileState,
    ) -> Option<ReadForecast> {
        let span_bytes = state.size_bytes;
        let mut parts = TimeParts::default();
        if arm != ReadWay::Direct {
            for part in &state.folios {
                let work = SpanDemand { demand, span_bytes, folios: part.folios };
                parts.add(&self.cached_parts(arm, work)?, part.share);
            }
        }
        parts.device_ns = self.device_ns(arm, demand, state)?;
        Some(ReadForecast { arm, total_ns: parts.total_ns(), parts })
    }

    /// Time of one pass of one thread over a file that is cached and mapped: blocks, then bytes.
    #[must_use]
    pub fn pass_ns(&self, arm: ReadWay, work: SpanDemand<'_>) -> Option<(f64, f64)> {
        let list = self.list(ReadPhase::Pass, arm, work)?;
        let blocks = self.cost(list, work, CostTerm::is_of_blocks);
        Some((blocks, self.cost(list, work, |term| !term.is_of_blocks())))
    }

    /// Time of a phase for one thread.
    #[must_use]
    pub fn phase_ns(&self, phase: ReadPhase, arm: ReadWay, work: SpanDemand<'_>) -> Option<f64> {
        Some(self.cost(self.list(phase, arm, work)?, work, |_| true))
    }

    /// Amounts times the prices that `takes` accepts.
    fn cost(
        &self,
        list: &PriceList,
        work: SpanDemand<'_>,
        takes: impl Fn(CostTerm) -> bool,
    ) -> f64 {
        let amount = |term| amounts(term, work.demand, work.span_bytes, self.base_page_bytes);
        let taken = list.prices.iter().filter(|price| takes(price.term));
        taken.map(|price| price.ns * amount(price.term)).sum()
    }

    fn cached_parts(&self, arm: ReadWay, work: SpanDemand<'_>) -> Option<TimeParts> {
        let of = |phase| self.phase_ns(phase, arm, work);
        let (blocks, bytes) = self.pass_ns(arm, work)?;
        let passes = f64::from(work.demand.passes);
        let shared = |phase: ReadPhase| ReadingThreads {
            sharing: self.sharing(phase.stand_in(arm), work),
            threads: work.demand.threads.max(1),
            cpus: self.cpus,
        };
        let first = shared(ReadPhase::First);
        let shared = shared(ReadPhase::Pass);
        Some(TimeParts {
            set_up_ns: of(ReadPhase::SetUp)?,
            first_ns: first.time(of(ReadPhase::First)?, |sharing| sharing.first_share),
            blocks_ns: passes * shared.time(blocks, |sharing| sharing.blocks_share),
            bytes_ns: passes * shared.time(bytes, |sharing| sharing.bytes_share),
            starts_ns: passes * shared.starts_ns(),
            tear_down_ns: of(ReadPhase::TearDown)?,
            device_ns: 0.0,
        })
    }

    /// How CPUs share these passes. If that is not known for these folios, it is as for pieces.
    fn sharing(&self, arm: ReadWay, work: SpanDemand<'_>) -> Option<&CpuSharing> {
        let of = |folios| {
            let is =
                |s: &&CpuSharing| (s.arm, s.order, s.folios) == (arm, work.demand.order, folios);
            self.sharing.iter().find(is)
        };
        of(work.folios).or_else(|| of(FolioClass::Piece))
    }

    /// Cost of what is not cached: once, or in each pass if the data does not stay in the cache.
    fn device_ns(&self, arm: ReadWay, demand: &ReadDemand, state: &FileState) -> Option<f64> {
        let missing = if arm == ReadWay::Direct { 1.0 } else { 1.0 - state.cached_share };
        if missing <= 0.0 {
            return Some(0.0);
        }
        let span_bytes = state.size_bytes;
        let work = SpanDemand { demand, span_bytes, folios: FolioClass::Piece };
        let stays =
            !matches!(arm, ReadWay::Direct | ReadWay::DontCache) && self.key.has_room(span_bytes);
        let times = if stays { 1.0 } else { f64::from(demand.passes) };
        Some(missing * times * self.phase_ns(ReadPhase::Device, arm, work)?)
    }

    /// Prices of a phase. If there are none for these folios, those for pieces.
    fn list(&self, phase: ReadPhase, arm: ReadWay, work: SpanDemand<'_>) -> Option<&PriceList> {
        let stand_in = phase.stand_in(arm);
        let fits = |list: &&PriceList, folios| {
            list.phase == phase
                && list.arm == stand_in
                && list.order.is_none_or(|own| own == work.demand.order)
                && list.folios.is_none_or(|own| own == folios)
        };
        let of = |folios| self.lists.iter().find(|list| fits(list, folios));
        of(work.folios).or_else(|| of(FolioClass::Piece))
    }
}

/// Threads that read at the same time.
#[derive(Clone, Copy)]
struct ReadingThreads<'a> {
    sharing: Option<&'a CpuSharing>,
    threads: u32,
    cpus: u32,
}

impl ReadingThreads<'_> {
    /// The part that remains of `alone`, the time of one thread.
    fn time(self, alone: f64, share: impl Fn(&CpuSharing) -> f64) -> f64 {
        let part = 1.0 / f64::from(self.threads.min(self.cpus).max(1));
        alone * (part + self.sharing.map_or(0.0, share) * (1.0 - part))
    }

    fn starts_ns(self) -> f64 {
        let each = self.sharing.map_or(0.0, |sharing| sharing.start_ns);
        if self.threads > 1 { each * f64::from(self.threads) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::super::CalibrationKey;
    use super::*;
    use crate::bench::tlb::AccessOrder;
    use crate::constructed::{self, machine, pass_prices, price_list as list};
    use crate::machine::Machine;
    use crate::units::Nanos;

    /// Round prices: a call 100 ns, a byte 1 ns, a mapped page 10 ns, on huge pages 1 ns.
    fn calibration() -> Calibration {
        let (piece, huge) = (FolioClass::Piece, FolioClass::Huge);
        let mut lists = vec![
            list(ReadPhase::Pass, ReadWay::Read, piece, &pass_prices(100.0, 1.0)),
            list(ReadPhase::Pass, ReadWay::Map, piece, &pass_prices(0.0, 1.0)),
            list(ReadPhase::Pass, ReadWay::Map, huge, &pass_prices(0.0, 0.5)),
            list(ReadPhase::First, ReadWay::Read, piece, &[]),
            list(ReadPhase::First, ReadWay::MapPieces, piece, &[(CostTerm::Page, 10.0)]),
            list(ReadPhase::First, ReadWay::MapPieces, huge, &[(CostTerm::Page, 1.0)]),
            list(ReadPhase::Device, ReadWay::Read, piece, &[(CostTerm::Page, 1000.0)]),
            list(ReadPhase::Device, ReadWay::Direct, piece, &[(CostTerm::Block, 5000.0)]),
        ];
        for arm in [ReadWay::Read, ReadWay::Map] {
            lists.push(list(ReadPhase::SetUp, arm, piece, &[(CostTerm::Once, 3000.0)]));
            lists.push(list(ReadPhase::TearDown, arm, piece, &[(CostTerm::Once, 1000.0)]));
        }
        let sharing = vec![CpuSharing {
            arm: ReadWay::Read,
            order: AccessOrder::Random,
            folios: piece,
            start_ns: 50.0,
            blocks_share: 0.5,
            bytes_share: 1.0,
            first_share: 0.0,
        }];
        let small = Machine { memory_bytes: Bytes::gib(1), ..machine() };
        let key = CalibrationKey::new(&small, "ext4".to_owned(), 1);
        Calibration { cpus: 2, error_share: 0.1, sharing, ..constructed::calibration(key, lists) }
    }

    fn demand(passes: u32, threads: u32) -> ReadDemand {
        ReadDemand { order: AccessOrder::Random, block_bytes: Bytes::kib(4), passes, threads }
    }

    fn total(arm: ReadWay, demand: &ReadDemand, state: &FileState) -> f64 {
        calibration().forecast(arm, demand, state).expect("prices").total_ns
    }

    /// A file of ten pages.
    fn pages(folios: FolioClass) -> FileState {
        FileState::cached(Bytes::kib(40), folios)
    }

    #[test]
    fn passes_repeat_and_set_up_does_not() {
        let state = pages(FolioClass::Piece);
        let pass = 10.0 * 100.0 + 40_960.0;
        assert_eq!(total(ReadWay::Read, &demand(1, 1), &state), 4000.0 + pass);
        assert_eq!(total(ReadWay::Read, &demand(3, 1), &state), 4000.0 + 3.0 * pass);
        let mapped = total(ReadWay::MapPieces, &demand(3, 1), &state);
        assert_eq!(mapped, 4000.0 + 100.0 + 3.0 * 40_960.0, "faults come once");
    }

    #[test]
    fn a_file_costs_by_how_it_lies() {
        let huge = total(ReadWay::MapPieces, &demand(1, 1), &pages(FolioClass::Huge));
        assert_eq!(huge, 4000.0 + 10.0 + 20_480.0);
        let mut half = pages(FolioClass::Huge);
        half.folios = [FolioClass::Huge, FolioClass::Piece]
            .map(|folios| super::super::FolioClassShare { folios, share: 0.5 })
            .to_vec();
        let piece = total(ReadWay::MapPieces, &demand(1, 1), &pages(FolioClass::Piece));
        assert_eq!(total(ReadWay::MapPieces, &demand(1, 1), &half), f64::midpoint(huge, piece));
        let single = total(ReadWay::MapPieces, &demand(1, 1), &pages(FolioClass::Page));
        assert_eq!(single, piece, "without prices of its own those of pieces serve");
    }

    #[test]
    fn threads_share_what_can_be_shared() {
        let parts = calibration()
            .forecast(ReadWay::Read, &demand(1, 2), &pages(FolioClass::Piece))
            .expect("prices")
            .parts;
        assert_eq!((parts.blocks_ns, parts.bytes_ns), (0.75 * 1000.0, 40_960.0));
        assert_eq!(parts.starts_ns, 100.0);
        let many = calibration()
            .forecast(ReadWay::Read, &demand(1, 8), &pages(FolioClass::Piece))
            .expect("prices")
            .parts;
        assert_eq!((many.blocks_ns, many.starts_ns), (parts.blocks_ns, 400.0), "two CPUs");
    }

    #[test]
    fn what_is_not_cached_comes_from_the_device() {
        let mut half = pages(FolioClass::Piece);
        half.cached_share = 0.5;
        let more = |arm, passes| {
            let found = calibration().forecast(arm, &demand(passes, 1), &half).expect("prices");
            found.parts.device_ns
        };
        assert_eq!((more(ReadWay::Read, 1), more(ReadWay::Read, 3)), (5000.0, 5000.0));
        assert_eq!((more(ReadWay::Direct, 1), more(ReadWay::Direct, 3)), (50_000.0, 150_000.0));
        let large =
            FileState { cached_share: 0.5, ..FileState::cached(Bytes::gib(2), FolioClass::Piece) };
        let device = |passes| {
            let demand = demand(passes, 1);
            calibration().forecast(ReadWay::Read, &demand, &large).expect("prices").parts.device_ns
        };
        assert_eq!(device(2), 2.0 * device(1), "there is no room for it to stay");
    }

    #[test]
    fn the_fastest_comes_first_and_what_cannot_be_distinguished_is_named() {
        let arms = [ReadWay::Read, ReadWay::MapPieces, ReadWay::Direct, ReadWay::Uring];
        let state = pages(FolioClass::Piece);
        let forecasts = calibration().forecasts(&arms, &demand(1, 1), &state);
        let order: Vec<ReadWay> = forecasts.iter().map(|forecast| forecast.arm).collect();
        assert_eq!(
            order,
            [ReadWay::MapPieces, ReadWay::Read],
            "no prices, or not for what is cached"
        );
        let choice = super::super::ReadChoice {
            path: "x".to_owned(),
            demand: demand(1, 1),
            state,
            calibration_age_ns: Nanos(0),
            calibration_took_ns: Nanos(0),
            calibration_processes: 0,
            file_system: "ext4".to_owned(),
            error_share: 0.1,
            forecasts,
            trials: Vec::new(),
            trial_error_share: None,
            reasons: Vec::new(),
        };
        assert_eq!(choice.best().map(|best| best.arm), Some(ReadWay::MapPieces));
        assert!(choice.margin_share().is_some_and(|margin| margin > 0.01 && margin < 0.1));
        assert_eq!(
            choice.rivals().map(|rival| rival.arm).collect::<Vec<ReadWay>>(),
            [ReadWay::Read]
        );
    }

    #[test]
    fn it_is_saved_and_read_back() {
        let text = serde_json::to_string(&calibration()).expect("saved");
        let read: Calibration = serde_json::from_str(&text).expect("read");
        assert_eq!(read, calibration());
    }
}
