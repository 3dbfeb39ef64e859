//! Other findings, one sentence each: the waste of filling a mapping without use, a split huge page, the
//! host's part, a shared pool.

use crate::number::{count, percent, three_digits};
use crate::page::ReportDocument;
use pagewise_model::bench::memory::{
    HostBackingCost, HugePageSplit, MemoryBenchPhase, MemoryBenchPoint, MemoryBenchReport,
    MemoryBenchWay, PopulatePressure, PopulatedFile, SharedPool,
};
use pagewise_model::{Fact, PageSize};

/// Least share of CPU time in a thread's time; below it, others have disturbed the thread.
const UNDISTURBED: f64 = 0.9;

/// All findings as terminal text.
pub(super) fn section(touches: &MemoryBenchReport) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.heading("what else was found");
    for (label, text) in all(touches) {
        page.item(label, &text);
    }
    page
}

/// A label and the sentence for each finding.
pub(super) fn all(touches: &MemoryBenchReport) -> Vec<(&'static str, String)> {
    let base = touches.base_page_bytes;
    let mut all = Vec::new();
    for point in touches.points.iter().filter(|p| p.every_pages > 1) {
        all.extend(waste(point, base).map(|text| ("waste", text)));
    }
    let of_host = |part: &HostBackingCost| ("host", host(part, base));
    all.extend(touches.host.iter().map(of_host));
    all.extend(disturbed(touches).map(|text| ("others", text)));
    all.push(("split", split(&touches.split)));
    all.push(("sharing", shared(&touches.shared_pool)));
    all.push(("pressure", pressed(&touches.pressure)));
    all
}

/// Whether others used the CPU: a thread that only touches memory waits for nothing else.
fn disturbed(touches: &MemoryBenchReport) -> Option<String> {
    let point = touches.plain(MemoryBenchWay::OnDemand)?;
    let share = point.cpu_page_ns()? / point.page_ns(MemoryBenchPhase::Whole)?.median;
    (share < UNDISTURBED).then(|| {
        format!(
            "only {} of the on-demand time was CPU time: other programs used this CPU, so the figures are too high. Run again on a quiet machine.",
            percent(share)
        )
    })
}

fn waste(point: &MemoryBenchPoint, base: PageSize) -> Option<String> {
    let whole = point.page_ns(MemoryBenchPhase::Whole)?;
    Some(format!(
        "{}: one page in {} is used, {} of {} is mapped in vain; {} ns for each used page",
        point.way.label(),
        point.every_pages,
        point.wasted_bytes(base),
        point.mapped_bytes,
        three_digits(whole.median)
    ))
}

fn host(part: &HostBackingCost, base: PageSize) -> String {
    let pages = if part.is_huge { "huge pages" } else { "base pages" };
    let touched = format!(
        "{} of {} chunks of {} touched beforehand on {pages}",
        count(part.slow_chunks),
        count(part.chunks),
        part.chunk_bytes
    );
    match &part.extra_page_ns {
        Fact::Known(extra) => format!(
            "{touched} ({}) had to be supplied by the host first: {} ns more for each {base}. The figures above do not include it.",
            percent(part.slow_chunks as f64 / part.chunks.max(1) as f64),
            three_digits(*extra)
        ),
        Fact::Missing(why) => format!("{touched} cost more than present memory: {why}"),
    }
}

fn split(split: &Fact<HugePageSplit>) -> String {
    match split {
        Fact::Missing(why) => format!("no huge page was split: {why}"),
        Fact::Known(split) => format!(
            "mprotect of one base page splits a huge page in {} ns; undoing it takes {} ns and \
             leaves it split ({} on huge pages before, {} after); base pages take {} and {} ns",
            three_digits(split.split_ns.median),
            three_digits(split.mend_ns.median),
            split.before_bytes,
            split.after_bytes,
            three_digits(split.base_split_ns.median),
            three_digits(split.base_mend_ns.median)
        ),
    }
}

fn pressed(pressure: &Fact<PopulatePressure>) -> String {
    let all = match pressure {
        Fact::Missing(why) => {
            return format!("no mapping was populated under a memory limit: {why}");
        }
        Fact::Known(all) => all,
    };
    let times = |found: &PopulatedFile| {
        format!("{} to populate it and {} to read it", found.setup_ns, found.touch_ns)
    };
    format!(
        "of {} mapped with MAP_POPULATE under a limit of {}, {} were mapped when the call returned without an error, and reading it then took {} major faults ({}); without the limit {} and {} ({})",
        all.file_bytes,
        all.limit_bytes,
        all.limited.resident_bytes,
        count(all.limited.major_faults),
        times(&all.limited),
        all.alone.resident_bytes,
        count(all.alone.major_faults),
        times(&all.alone)
    )
}

fn shared(shared: &Fact<SharedPool>) -> String {
    match shared {
        Fact::Missing(why) => format!("no file on hugetlbfs was shared: {why}"),
        Fact::Known(shared) => {
            let executable = match &shared.executable {
                Fact::Known(true) => "it can be mapped for execution".to_owned(),
                Fact::Known(false) => "it cannot be mapped for execution".to_owned(),
                Fact::Missing(why) => format!("not known whether it can be executed: {why}"),
            };
            format!(
                "a second process saw {} of {} huge pages of a file on {} and took {} faults; {executable}",
                count(shared.seen_pages),
                count(shared.pages),
                shared.mount,
                count(shared.second_faults)
            )
        }
    }
}
