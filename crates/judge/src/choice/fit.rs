//! From readings to prices, phase by phase.

use super::least::{RegressionRow, bounded_prices, prices};
use crate::bench::file::refusals;
use pagewise_model::bench::file::{CacheResidency, FileCell, FilePoint, FileSample, ReadWay};
use pagewise_model::bench::tlb::AccessOrder;
use pagewise_model::cache::FolioClass;
use pagewise_model::choice::{
    Calibration, CalibrationKey, CostTerm, CpuSharing, FileReadings, FileState, PriceList,
    ReadDemand, ReadPhase, SpanDemand, TermPrice, amounts,
};
use pagewise_model::measured::median;
use pagewise_model::{Nanos, PageSize};

/// Shorter times (in nanoseconds) count as this long when an error is taken as a share: their errors are
/// clock noise and chance.
const SHORTEST: f64 = 2000.0;

/// Where and when readings were taken.
#[derive(Debug, Clone)]
pub struct CalibrationOccasion {
    /// What the readings are valid for.
    pub key: CalibrationKey,
    /// Nanoseconds since 1970.
    pub unix_ns: u64,
    pub took_ns: Nanos,
}

/// The prices from `sittings`. `None` if no way was read to its end on the file of pieces.
#[must_use]
pub fn calibrate(files: &[FileReadings], occasion: CalibrationOccasion) -> Option<Calibration> {
    let taken = FitCells::from_files(files);
    let first = files.first()?;
    let mut found = Calibration {
        key: occasion.key,
        cpus: u32::try_from(first.readings.cpus.len()).unwrap_or(u32::MAX),
        base_page_bytes: first.readings.base_page_bytes,
        taken_unix_ns: occasion.unix_ns,
        took_ns: occasion.took_ns,
        processes: u32::try_from(taken.processes()).unwrap_or(u32::MAX),
        missed_share: taken.missed_share(files),
        error_share: 0.0,
        lists: taken.alone(first.readings.base_page_bytes),
        sharing: Vec::new(),
    };
    found.sharing = taken.together(&found);
    let device = taken.device(&found);
    found.lists.extend(device);
    found.error_share = taken.error_share(&found)?;
    Some(found)
}

/// A cell whose processes did what they were asked for. A disturbance only adds time, so the quickest process
/// counts, phase by phase.
#[derive(Clone, Copy)]
struct CellSamples<'a> {
    folios: FolioClass,
    cell: &'a FileCell,
    samples: &'a [FileSample],
}

impl CellSamples<'_> {
    /// The least of what `time` picks.
    fn least(&self, time: impl Fn(&FileSample) -> Option<Nanos>) -> Option<f64> {
        self.samples.iter().filter_map(time).min().map(|ns| ns.0 as f64)
    }

    /// The time of a pass, from 0.
    fn pass(&self, nth: usize) -> Option<f64> {
        self.least(|sample| sample.pass_ns.get(nth).copied())
    }

    /// A demand on what it read.
    fn work<'a>(&self, demand: &'a ReadDemand) -> SpanDemand<'a> {
        SpanDemand { demand, span_bytes: self.cell.span_bytes, folios: self.folios }
    }

    fn is_warm(&self) -> bool {
        self.cell.residency == CacheResidency::Warm
    }
}

struct FitCells<'a>(Vec<CellSamples<'a>>);

impl<'a> FitCells<'a> {
    fn from_files(files: &'a [FileReadings]) -> Self {
        let whole = |readings_of_file: &'a FileReadings| -> Vec<CellSamples<'a>> {
            let FileReadings { folios, readings } = readings_of_file;
            let refused = refusals(readings);
            let points = readings.points.iter().enumerate();
            let read = points.filter(|(at, point)| {
                !point.samples.is_empty() && !refused.iter().any(|r| r.point == *at)
            });
            let one = |(_, point): (usize, &'a FilePoint)| CellSamples {
                folios: *folios,
                cell: &point.cell,
                samples: &point.samples,
            };
            read.map(one).collect()
        };
        Self(files.iter().flat_map(whole).collect())
    }

    /// The share of the readable warm cells that was not read. Cold cells are not available on every file
    /// system.
    fn missed_share(&self, files: &[FileReadings]) -> f64 {
        let all = files.iter().flat_map(|readings_of_file| &readings_of_file.readings.points);
        let points = all.filter(|point| point.cell.residency == CacheResidency::Warm);
        let can = |point: &&FilePoint| self.0.iter().any(|one| one.cell.arm == point.cell.arm);
        let (missed, all) = points.filter(can).fold((0, 0), |(missed, all), point| {
            (missed + u32::from(point.samples.is_empty()), all + 1)
        });
        f64::from(missed) / f64::from(all.max(1))
    }

    /// How many processes they are.
    fn processes(&self) -> usize {
        self.0.iter().map(|one| one.samples.len()).sum()
    }

    fn some(&self, which: impl Fn(&CellSamples<'a>) -> bool) -> Vec<CellSamples<'a>> {
        self.0.iter().filter(|one| which(one)).copied().collect()
    }

    /// Prices of one thread on a warm file, for every way, order and kind of folio.
    fn alone(&self, page: PageSize) -> Vec<PriceList> {
        let mut lists = Vec::new();
        for folios in FolioClass::ALL {
            let here = |one: &CellSamples<'_>| {
                one.folios == folios && one.is_warm() && one.cell.threads == 1
            };
            for &arm in ReadWay::ALL {
                let of = |phase: ReadPhase| {
                    let stands = |one: &CellSamples<'_>| phase.stand_in(one.cell.arm) == arm;
                    self.some(|one| here(one) && stands(one))
                };
                for end in [SET_UP, TEAR_DOWN] {
                    lists.extend(fixed(arm, folios, end, &of(end.0), page));
                }
                for order in AccessOrder::ALL {
                    let at = |phase| {
                        let mut of = of(phase);
                        of.retain(|one| one.cell.order == order);
                        of
                    };
                    for (phase, terms, took) in PASSES {
                        let of = &at(phase);
                        let at = (Some(order), Some(folios));
                        lists.extend(fitted(of, page, (phase, arm), at, terms, took));
                    }
                }
            }
        }
        lists
    }

    /// How far the passes of several threads are from the part that is theirs.
    fn together(&self, found: &Calibration) -> Vec<CpuSharing> {
        let mut all = Vec::new();
        for folios in FolioClass::ALL {
            let is_shared = |one: &CellSamples<'_>| {
                one.folios == folios && one.is_warm() && one.cell.threads > 1
            };
            for (arm, order) in ReadWay::ALL
                .iter()
                .copied()
                .flat_map(|arm| AccessOrder::ALL.map(|order| (arm, order)))
            {
                let of = |phase: ReadPhase| {
                    self.some(|one| {
                        let whose = phase.stand_in(one.cell.arm);
                        is_shared(one) && (whose, one.cell.order) == (arm, order)
                    })
                };
                let of = [of(ReadPhase::Pass), of(ReadPhase::First)];
                all.extend(sharing((arm, order, folios), &of, found));
            }
        }
        all
    }

    /// The extra time of a cold cell over the time that it should take warm.
    fn device(&self, found: &Calibration) -> Vec<PriceList> {
        let mut lists = Vec::new();
        for &arm in ReadWay::ALL {
            for order in AccessOrder::ALL {
                let of = self
                    .some(|one| !one.is_warm() && (one.cell.arm, one.cell.order) == (arm, order));
                let more = |one: &CellSamples<'_>| {
                    let warm = if arm == ReadWay::Direct { 0.0 } else { forecast(found, one)? };
                    let total = one.least(|sample| Some(sample.total_ns()))?;
                    Some((total - warm, total))
                };
                let (whose, at) = ((ReadPhase::Device, arm), (Some(order), None));
                lists.extend(fitted(
                    &of,
                    found.base_page_bytes,
                    whose,
                    at,
                    &CostTerm::DEVICE,
                    more,
                ));
            }
        }
        lists
    }

    /// Median over all warm processes of how far their forecast is off.
    fn error_share(&self, found: &Calibration) -> Option<f64> {
        let off = |one: &CellSamples<'a>| {
            let forecast = forecast(found, one)?;
            let of =
                |sample: &FileSample| (forecast / sample.total_ns().0.max(1) as f64 - 1.0).abs();
            Some(one.samples.iter().map(of).collect::<Vec<f64>>())
        };
        let warm = self.0.iter().filter(|one| one.is_warm());
        median(&warm.filter_map(off).flatten().collect::<Vec<f64>>())
    }
}

/// The time that a process should have taken, warm.
fn forecast(found: &Calibration, one: &CellSamples<'_>) -> Option<f64> {
    let state = FileState::cached(one.cell.span_bytes, one.folios);
    Some(found.forecast(one.cell.arm, &ReadDemand::from_cell(one.cell), &state)?.total_ns)
}

/// What a process took of some terms, with what an error is a share of.
fn row(
    one: &CellSamples<'_>,
    terms: &[CostTerm],
    (took, scale): (f64, f64),
    page: PageSize,
) -> RegressionRow {
    let demand = ReadDemand::from_cell(one.cell);
    let amount = |term: &CostTerm| amounts(*term, &demand, one.cell.span_bytes, page);
    RegressionRow { amounts: terms.iter().map(amount).collect(), took, scale: scale.max(SHORTEST) }
}

/// The fit of `rows`. `None` without rows.
fn list(
    (phase, arm): (ReadPhase, ReadWay),
    (order, folios): (Option<AccessOrder>, Option<FolioClass>),
    terms: &[CostTerm],
    rows: &[RegressionRow],
) -> Option<PriceList> {
    if rows.is_empty() {
        return None;
    }
    let found = prices(rows, terms.len());
    let priced = terms.iter().zip(found).filter(|(_, ns)| *ns > 0.0);
    let prices = priced.map(|(term, ns)| TermPrice { term: *term, ns }).collect();
    Some(PriceList { phase, arm, order, folios, prices })
}

/// A phase that is timed by itself.
type End = (ReadPhase, fn(&FileSample) -> Nanos);
const SET_UP: End = (ReadPhase::SetUp, |sample| sample.set_up_ns);
const TEAR_DOWN: End = (ReadPhase::TearDown, |sample| sample.tear_down_ns);

/// Set-up or tear-down. Pages count if a mapping has them, the block if queues have buffers.
fn fixed(
    arm: ReadWay,
    folios: FolioClass,
    (phase, time): End,
    of: &[CellSamples<'_>],
    page: PageSize,
) -> Option<PriceList> {
    let counts = |term: &CostTerm| match term {
        CostTerm::Page => arm.is_mapped(),
        CostTerm::BufferByte => matches!(arm, ReadWay::Uring | ReadWay::UringFixed),
        _ => true,
    };
    let terms: Vec<CostTerm> = CostTerm::FIXED.into_iter().filter(counts).collect();
    let took = |one: &CellSamples<'_>| {
        let took = one.least(|sample| Some(time(sample)))?;
        Some((took, took))
    };
    fitted(of, page, (phase, arm), (None, Some(folios)), &terms, took)
}

/// What one took, with what an error is a share of.
type Took = fn(&CellSamples<'_>) -> Option<(f64, f64)>;

/// The passes: the extra time of the first pass over the second, and the later passes.
const PASSES: [(ReadPhase, &[CostTerm], Took); 2] = [
    (ReadPhase::First, &CostTerm::FIRST, |one| {
        let (first, second) = (one.pass(0)?, one.pass(1)?);
        Some((first - second, first))
    }),
    (ReadPhase::Pass, &CostTerm::PASS, |one| {
        let later = one.pass(1)?;
        Some((later, later))
    }),
];

/// The fit of what each `took` of these terms.
fn fitted(
    of: &[CellSamples<'_>],
    page: PageSize,
    whose: (ReadPhase, ReadWay),
    at: (Option<AccessOrder>, Option<FolioClass>),
    terms: &[CostTerm],
    took: impl Fn(&CellSamples<'_>) -> Option<(f64, f64)>,
) -> Option<PriceList> {
    let rows = of.iter().filter_map(|one| Some(row(one, terms, took(one)?, page)));
    list(whose, at, terms, &rows.collect::<Vec<RegressionRow>>())
}

/// How CPUs get in each other's way, by the cells whose passes are those of `arm` and those whose first
/// pass is; none where several threads were not measured.
fn sharing(
    (arm, order, folios): (ReadWay, AccessOrder, FolioClass),
    [passes, firsts]: &[Vec<CellSamples<'_>>; 2],
    found: &Calibration,
) -> Option<CpuSharing> {
    if passes.is_empty() && firsts.is_empty() {
        return None;
    }
    let part = |demand: &ReadDemand| 1.0 / f64::from(demand.threads.min(found.cpus).max(1));
    let later = |one: &CellSamples<'_>| {
        let demand = ReadDemand::from_cell(one.cell);
        let (blocks, bytes) = found.pass_ns(arm, one.work(&demand))?;
        let (took, part) = (one.pass(1)?, part(&demand));
        let rest = 1.0 - part;
        let amounts = vec![f64::from(demand.threads), blocks * rest, bytes * rest];
        Some(RegressionRow { amounts, took: took - (blocks + bytes) * part, scale: took })
    };
    let more = |one: &CellSamples<'_>| {
        let demand = ReadDemand::from_cell(one.cell);
        let first = found.phase_ns(ReadPhase::First, arm, one.work(&demand))?;
        let (took, part) = (one.pass(0)?, part(&demand));
        let row = (vec![first * (1.0 - part)], took - one.pass(1)? - first * part);
        Some(RegressionRow { amounts: row.0, took: row.1, scale: took })
    };
    let later = passes.iter().filter_map(later).collect();
    let more = firsts.iter().filter_map(more).collect();
    let [start_ns, blocks_share, bytes_share]: [f64; 3] =
        bounded_prices(later, &[f64::INFINITY, 1.0, 1.0]).try_into().ok()?;
    let [first_share]: [f64; 1] = bounded_prices(more, &[1.0]).try_into().ok()?;
    Some(CpuSharing { arm, order, folios, start_ns, blocks_share, bytes_share, first_share })
}
