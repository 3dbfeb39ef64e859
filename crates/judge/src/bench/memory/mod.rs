//! What first touches say: what each way to get memory is worth against its baseline, whether what is said
//! of the calls holds here, and what the machine should do.
//!
//! The entry is [`judge`]; pure, so saved touches are judged again with the same result. Mappings of one
//! repeat were made in the same round and are paired. Times are for each base page used.
//!
//! Not seen: what pages of another size are worth later, when the memory is used (`bench tlb` measures
//! that).

use crate::bench::best::{BestWay, to_settle};
use crate::stats::{interval_text, less_text, paired_figure, paired_ratio};
use pagewise_model::bench::memory::{
    HostBackingCost, MemoryBenchJudgement, MemoryBenchPhase, MemoryBenchPoint, MemoryBenchRatio,
    MemoryBenchReport, MemoryBenchSample, MemoryBenchWay,
};
use pagewise_model::bench::{BenchClaim, ClaimAnswer, ClaimEvidence, ClaimFigure};
use pagewise_model::{Bytes, Fact};

/// Below this ratio a way is worth asking for.
const WORTH: f64 = 0.97;
/// Threads together that take at most this share of one thread's time are worth it.
const FASTER: f64 = 0.8;
/// The advice mentions host backing from this percentage of chunks on.
const OFTEN: u64 = 5;

/// All conclusions from `touches`.
#[must_use]
pub fn judge(touches: &MemoryBenchReport) -> MemoryBenchJudgement {
    let ratios: Vec<MemoryBenchRatio> =
        touches.points.iter().filter_map(|p| ratio(touches, p)).collect();
    let claims = claims(touches, &ratios);
    let advice = advice(touches, &ratios);
    MemoryBenchJudgement { ratios, claims, advice }
}

/// A way compared with its baseline at the same number of threads.
fn ratio(touches: &MemoryBenchReport, point: &MemoryBenchPoint) -> Option<MemoryBenchRatio> {
    let MemoryBenchPoint { way, every_pages, threads, .. } = *point;
    if point.is(way.baseline(), 1, threads) {
        return None;
    }
    let base = touches.find(way.baseline(), 1, threads)?;
    let logs = point
        .page_times(MemoryBenchPhase::Whole)
        .log_ratios(&base.page_times(MemoryBenchPhase::Whole));
    let (ratio, interval) = paired_ratio(&logs, "mappings of both")?;
    Some(MemoryBenchRatio { way, every_pages, threads, ratio, interval })
}

/// The ratio of a way by one thread.
fn find(
    ratios: &[MemoryBenchRatio],
    way: MemoryBenchWay,
    every_pages: u64,
) -> Option<&MemoryBenchRatio> {
    ratios.iter().find(|r| (r.way, r.every_pages, r.threads) == (way, every_pages, 1))
}

/// Every claim that has measurements.
fn claims(touches: &MemoryBenchReport, ratios: &[MemoryBenchRatio]) -> Vec<BenchClaim> {
    let claims = [
        fewer_faults(touches),
        filled(
            touches,
            MemoryBenchWay::MapPopulate,
            "MAP_POPULATE leaves no fault for the first touch",
        ),
        filled(
            touches,
            MemoryBenchWay::PopulateWrite,
            "MADV_POPULATE_WRITE leaves no fault for the first touch",
        ),
        faster(touches, ratios),
        willneed(touches),
        willneed_of_file(touches),
        whole_copies(touches),
        split(touches),
        shared(touches),
        pressed(touches),
    ];
    claims.into_iter().flatten().collect()
}

fn tested(claim: impl Into<String>, evidence: ClaimEvidence, why: String) -> Option<BenchClaim> {
    Some(BenchClaim::judged(claim, evidence, why))
}

/// Of something that was tried once.
fn once(holds: bool) -> ClaimEvidence {
    ClaimEvidence::counted([holds])
}

/// Whether each mapping took the expected number of faults. `None` if that number is unknown.
fn as_expected(point: &MemoryBenchPoint) -> Option<impl Iterator<Item = bool>> {
    let expected = *point.expected_faults.known()?;
    Some(point.samples.iter().map(move |s| MemoryBenchPoint::is_expected(s.touch_faults, expected)))
}

/// A point with samples.
fn measured(touches: &MemoryBenchReport, way: MemoryBenchWay) -> Option<&MemoryBenchPoint> {
    touches.plain(way).filter(|point| !point.samples.is_empty())
}

/// `16384 faults for 64.0 MiB`.
fn faults_text(point: &MemoryBenchPoint) -> String {
    let faults = point.touch_faults().unwrap_or(0);
    format!("{faults} faults for {}", point.mapped_bytes)
}

fn fewer_faults(touches: &MemoryBenchReport) -> Option<BenchClaim> {
    let (huge, base) =
        (measured(touches, MemoryBenchWay::Thp)?, measured(touches, MemoryBenchWay::OnDemand)?);
    let fewer = touches.huge_page_bytes.bytes() / touches.base_page_bytes.bytes().max(1);
    let held = as_expected(huge)?.chain(as_expected(base)?);
    let why = format!("{}, and {} on base pages", faults_text(huge), faults_text(base));
    tested(
        format!("a huge page takes one fault instead of {fewer}"),
        ClaimEvidence::counted(held),
        why,
    )
}

fn filled(touches: &MemoryBenchReport, way: MemoryBenchWay, what: &str) -> Option<BenchClaim> {
    let point = measured(touches, way)?;
    let resident = point.resident_bytes()?;
    let is_full = point.samples.iter().map(|sample| has_resident(sample, point.mapped_bytes));
    let held = as_expected(point)?.zip(is_full).map(|(faults, full)| faults && full);
    let why = format!(
        "{resident} of {} mapped before the first touch, then {} faults",
        point.mapped_bytes,
        point.touch_faults().unwrap_or(0)
    );
    tested(what, ClaimEvidence::counted(held), why)
}

fn faster(touches: &MemoryBenchReport, ratios: &[MemoryBenchRatio]) -> Option<BenchClaim> {
    let ratio = find(ratios, MemoryBenchWay::PopulateWrite, 1)?;
    let ns = |way| Some(measured(touches, way)?.page_ns(MemoryBenchPhase::Whole)?.median);
    let why = format!(
        "{:.0} ns per page populated and touched, {:.0} ns on demand (ratio {:.2}){}",
        ns(MemoryBenchWay::PopulateWrite)?,
        ns(MemoryBenchWay::OnDemand)?,
        ratio.ratio,
        interval_text(&ratio.interval)
    );
    let repeats = measured(touches, MemoryBenchWay::PopulateWrite)?.samples.len() as u64;
    let figure = ClaimFigure::new(ratio.ratio, ratio.interval.clone(), repeats).below(1.0);
    let claim = "populating memory is faster than one fault per page";
    tested(claim, ClaimEvidence::figure(figure), why)
}

/// Whether at least `least` bytes were mapped before the first touch.
fn has_resident(sample: &MemoryBenchSample, least: Bytes) -> bool {
    sample.resident_bytes.known().is_some_and(|resident| *resident >= least)
}

fn willneed(touches: &MemoryBenchReport) -> Option<BenchClaim> {
    let point = measured(touches, MemoryBenchWay::Willneed)?;
    let resident = point.resident_bytes()?;
    let is_mapped = point.samples.iter().map(|sample| has_resident(sample, Bytes(1)));
    let held = as_expected(point)?.zip(is_mapped).map(|(faults, mapped)| mapped || !faults);
    let why = format!("{resident} mapped after the call, then {}", faults_text(point));
    tested("MADV_WILLNEED fills anonymous memory", ClaimEvidence::counted(held), why)
}

fn willneed_of_file(touches: &MemoryBenchReport) -> Option<BenchClaim> {
    let point = measured(touches, MemoryBenchWay::FileWillneed)?;
    let without = measured(touches, MemoryBenchWay::FileFaultAround)?;
    let resident = point.resident_bytes()?;
    let (with, plain) = (point.touch_faults()?, without.touch_faults()?);
    let why =
        format!("{resident} mapped after the call, then {with} faults; without it {plain} faults");
    // A mapped page would be a fault less.
    let has_mapped = |sample: &MemoryBenchSample| {
        has_resident(sample, Bytes(1)) || sample.touch_faults < plain - plain / 10
    };
    let held = ClaimEvidence::counted(point.samples.iter().map(has_mapped));
    tested("POSIX_MADV_WILLNEED maps the cached pages of a file", held, why)
}

fn whole_copies(touches: &MemoryBenchReport) -> Option<BenchClaim> {
    let point = measured(touches, MemoryBenchWay::ForkCowHuge)?;
    let page = *point.page_bytes.known()?;
    let why = format!("{} in the child, which got pages of {page}", faults_text(point));
    let holds = page == touches.huge_page_bytes;
    tested("a write to a huge page shared by fork copies the whole page", once(holds), why)
}

fn split(touches: &MemoryBenchReport) -> Option<BenchClaim> {
    let Fact::Known(split) = &touches.split else { return None };
    let why = format!(
        "{} on huge pages before and {} after making one base page of each read-only and writable again; {:.0} + {:.0} ns each, {:.0} + {:.0} ns on base pages",
        split.before_bytes,
        split.after_bytes,
        split.split_ns.median,
        split.mend_ns.median,
        split.base_split_ns.median,
        split.base_mend_ns.median
    );
    let holds = split.after_bytes >= split.before_bytes;
    tested("a huge page stays whole when the rights of a part change", once(holds), why)
}

fn pressed(touches: &MemoryBenchReport) -> Option<BenchClaim> {
    let Fact::Known(pressure) = &touches.pressure else { return None };
    let (file, limited) = (pressure.file_bytes, pressure.limited);
    // Without pressure the file must be whole. Otherwise the machine itself was short of memory.
    if pressure.alone.resident_bytes < file {
        return None;
    }
    let why = format!(
        "the call succeeded with {} of {file} mapped under a limit of {}, then {} major faults",
        limited.resident_bytes, pressure.limit_bytes, limited.major_faults
    );
    let holds = limited.resident_bytes >= file;
    tested("a mapping made by MAP_POPULATE is fully populated", once(holds), why)
}

fn shared(touches: &MemoryBenchReport) -> Option<BenchClaim> {
    let Fact::Known(shared) = &touches.shared_pool else { return None };
    let why = format!(
        "a second process found {} of {} pages of a file on {} as the first had written them, with {} faults",
        shared.seen_pages, shared.pages, shared.mount, shared.second_faults
    );
    let holds = shared.seen_pages == shared.pages;
    tested("processes share the huge pages of a file on hugetlbfs", once(holds), why)
}

/// Three sentences of advice. A sentence gives the reason if there is no answer.
fn advice(touches: &MemoryBenchReport, ratios: &[MemoryBenchRatio]) -> Vec<String> {
    vec![page_advice(touches, ratios), ahead(touches, ratios), together(touches)]
}

/// Nanoseconds for each page used, in total, of a way with one thread.
fn page_ns(touches: &MemoryBenchReport, way: MemoryBenchWay, every_pages: u64) -> Option<f64> {
    touches.find(way, every_pages, 1)?.page_ns(MemoryBenchPhase::Whole).map(|ns| ns.median)
}

/// The best of these ways, by one thread that uses all pages.
fn best<'a>(
    touches: &MemoryBenchReport,
    ratios: &'a [MemoryBenchRatio],
    of: impl Fn(MemoryBenchWay) -> bool,
) -> BestWay<&'a MemoryBenchRatio> {
    let single = ratios.iter().filter(|r| r.threads == 1 && r.every_pages == 1 && of(r.way));
    let repeats = u64::from(touches.repeats);
    BestWay::smallest(
        single.map(|r| (r, ClaimFigure::new(r.ratio, r.interval.clone(), repeats).below(WORTH))),
    )
}

/// `map-populate takes 0.98 times as long (95% interval 0.91 to 1.02)`.
fn open_text(best: &MemoryBenchRatio, figure: &ClaimFigure) -> String {
    format!(
        "{} takes {:.2} times as long{}{}",
        best.way.label(),
        best.ratio,
        interval_text(&best.interval),
        to_settle(figure)
    )
}

fn is_larger(way: MemoryBenchWay) -> bool {
    matches!(way, MemoryBenchWay::Thp | MemoryBenchWay::Mthp { .. }) || way.is_pool()
}

fn page_advice(touches: &MemoryBenchReport, ratios: &[MemoryBenchRatio]) -> String {
    let best = match best(touches, ratios, is_larger) {
        BestWay::Proven(best, _) => best,
        BestWay::Open(best, figure) => {
            return format!(
                "Whether larger pages make memory ready faster here: open. {}.",
                open_text(best, &figure)
            );
        }
        BestWay::No(count) => {
            return format!(
                "Do not expect larger pages to make memory ready faster here: none of {count} ways gains 3%."
            );
        }
        BestWay::Unmeasured => {
            return "Whether larger pages make memory ready faster here: not measured. Only one page size has figures."
                .to_owned();
        }
    };
    let how = match best.way {
        MemoryBenchWay::Thp => "MADV_HUGEPAGE".to_owned(),
        MemoryBenchWay::Mthp { page_bytes } => {
            format!("MADV_HUGEPAGE with pages of {page_bytes} enabled")
        }
        _ => "the reserved pool".to_owned(),
    };
    format!(
        "Put memory that you use completely on larger pages ({how}): each {} is ready in {} than on base pages.",
        touches.base_page_bytes,
        less_text(" time", best.ratio, &best.interval)
    )
}

fn ahead(touches: &MemoryBenchReport, ratios: &[MemoryBenchRatio]) -> String {
    let is_ahead = |way: MemoryBenchWay| {
        matches!(
            way,
            MemoryBenchWay::MapPopulate
                | MemoryBenchWay::PopulateWrite
                | MemoryBenchWay::PopulatePieces
        )
    };
    let advised = match best(touches, ratios, is_ahead) {
        BestWay::Proven(best, _) => format!(
            "Populate base pages ({}) if you will use all of them: {} than by faults",
            best.way.into_str(),
            less_text(" time", best.ratio, &best.interval)
        ),
        BestWay::Open(best, figure) => {
            format!("Whether populating base pages saves time: open. {}", open_text(best, &figure))
        }
        BestWay::No(count) => {
            format!("Do not populate base pages to save time: none of {count} ways gains 3%")
        }
        BestWay::Unmeasured => {
            return "Whether populating base pages saves time: not measured. No way has a figure beside faults."
                .to_owned();
        }
    };
    format!("{advised}{}.", waste(touches, ratios).unwrap_or_default())
}

/// What populating a mapping costs if most of it is not used.
fn waste(touches: &MemoryBenchReport, ratios: &[MemoryBenchRatio]) -> Option<String> {
    let point = touches
        .points
        .iter()
        .find(|p| p.way == MemoryBenchWay::MapPopulate && p.every_pages > 1)?;
    let (used, demand) = (
        page_ns(touches, point.way, point.every_pages)?,
        page_ns(touches, MemoryBenchWay::OnDemand, 1)?,
    );
    let ratio = find(ratios, point.way, point.every_pages)?;
    Some(format!(
        "; if you use one page in {}, MAP_POPULATE costs {used:.0} ns per used page ({:.1} times the {demand:.0} ns of a fault) and wastes {}",
        point.every_pages,
        ratio.ratio,
        point.wasted_bytes(touches.base_page_bytes)
    ))
}

fn together(touches: &MemoryBenchReport) -> String {
    let host = touches.host.iter().find_map(host);
    match (threads(touches), host) {
        (Some(threads), Some(host)) => format!("{threads}; {host}."),
        (Some(threads), None) => format!("{threads}."),
        (None, Some(host)) => format!("Touch memory once before you measure: {host}."),
        (None, None) => {
            "Whether several threads should touch memory: not measured. Only one thread did."
                .to_owned()
        }
    }
}

fn threads(touches: &MemoryBenchReport) -> Option<String> {
    let of_way = |p: &&MemoryBenchPoint| p.way == MemoryBenchWay::OnDemand && !p.samples.is_empty();
    let most = touches.points.iter().filter(of_way).max_by_key(|p| p.threads)?;
    let one = measured(touches, MemoryBenchWay::OnDemand).filter(|_| most.threads > 1)?;
    let times = |point: &MemoryBenchPoint| point.page_times(MemoryBenchPhase::Whole);
    let logs = times(most).log_ratios(&times(one));
    let figure = paired_figure(&logs, "mappings of both")?.below(FASTER);
    let advised = match figure.answer() {
        ClaimAnswer::Confirmed => "Touch large memory first with several threads",
        ClaimAnswer::Refuted => "Do not touch large memory first with several threads for speed",
        ClaimAnswer::CannotTell => {
            "Whether several threads should touch large memory first: open. It is a question of a fifth"
        }
    };
    Some(format!(
        "{advised}: {} threads together take {:.0} ns per page, one thread takes {:.0}{}",
        most.threads,
        most.page_ns(MemoryBenchPhase::Whole)?.median,
        one.page_ns(MemoryBenchPhase::Whole)?.median,
        to_settle(&figure)
    ))
}

fn host(host: &HostBackingCost) -> Option<String> {
    let extra = host.extra_page_ns.known()?;
    let is_often = host.slow_chunks * 100 >= OFTEN * host.chunks;
    is_often.then(|| {
        format!(
            "a page that the host of this virtual machine must supply first costs {extra:.0} ns more ({} of {} chunks touched beforehand were of this kind)",
            host.slow_chunks, host.chunks
        )
    })
}

#[cfg(test)]
mod tests;
