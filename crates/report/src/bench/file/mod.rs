//! Readings of a file for people: one document, CSV, and a picture.
//!
//! Entries, all pure functions of the saved form:
//! - [`document`], and as terminal text [`section`]: every way over the block sizes for each residency and
//!   order, passes, buffers and threads, the parts of the time, which findings of the published study hold,
//!   and the three sentences of advice;
//! - [`csv`]: every process, for other tools;
//! - [`svg`]: the ways over the blocks as a table of colours.
//!
//! Rates include set-up and tear-down, except those of single passes. If a cell did other work than
//! requested, it shows no rate, and says what it did.

use crate::bench::BenchSummary;
use crate::bench::file::grid::{RateEntry, RateGrid, races};
use crate::chart::{HeatMap, HeatPanel, SvgPicture};
use crate::claims;
use crate::csv::{known, samples};
use crate::number::{counted, three_digits, whole_size};
use crate::page::ReportDocument;
use crate::style::{TerminalStyle, TextTone};
use pagewise_model::bench::file::{
    CacheResidency, FileBenchPart, FileBenchReport, FileCell, FilePoint, FileSample, ReadWay,
};
use pagewise_model::bench::tlb::AccessOrder;
use pagewise_model::{Bytes, Nanos};

mod explanation;
mod grid;
mod table;

/// Heading of the claims.
const CLAIMS: &str = "the published study (mmap against system calls, 2019): then, and here";
const WRITTEN: &str = "claims about writing, and what this machine shows";

/// The readings as terminal text.
#[must_use]
pub fn section(readings: &FileBenchReport, style: &TerminalStyle) -> String {
    document(readings, "").text(style)
}

/// The whole document on the readings; `caption` names the machine.
pub(crate) fn document(readings: &FileBenchReport, caption: &str) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.figure(svg(readings, caption));
    for sentence in protocol(readings) {
        page.para(&sentence, 2, TextTone::Faint);
    }
    for grid in races(readings) {
        page.section(table::grid(&grid));
    }
    page.section(table::times(readings));
    for grid in grid::grids(readings).iter().filter(|grid| !grid.is_race) {
        page.section(table::grid(grid));
    }
    page.section(explanation::section(readings));
    if let Some(judgement) = &readings.judgement {
        page.append(explanation::parts(readings, judgement));
        let heading = if readings.is_written() { WRITTEN } else { CLAIMS };
        page.section(claims::section(heading, &judgement.claims));
        page.section(claims::advice(&judgement.advice));
    }
    page
}

/// The readings on one screen: the fastest ways with the headline's block size, and read().
pub(crate) fn short(readings: &FileBenchReport, rows: usize) -> BenchSummary<'_> {
    let judgement = readings.judgement.as_ref();
    let block = fastest(readings).map_or_else(Bytes::default, |(_, cell)| cell.block_bytes);
    let all = || readings.points.iter();
    BenchSummary {
        title: format!(
            "GiB/s once through the file, cached or cold, in blocks of {}",
            whole_size(block)
        ),
        table: table::fastest(readings, block, rows),
        advice: judgement.map_or(&[], |judgement| &judgement.advice),
        claims: judgement.map_or(&[], |judgement| &judgement.claims),
        figures: all().filter_map(FilePoint::rate_gib_per_s).collect(),
        refusals: all().filter_map(|point| point.refused.as_deref()).collect(),
        lacking: Vec::new(),
    }
}

/// Every process as CSV (RFC 4180), one line each. Names end in the unit; an empty field was not measured. A
/// cell without samples has one line with the reason. `refused_why` also reports what the ledger shows.
#[must_use]
pub fn csv(readings: &FileBenchReport) -> String {
    let header = "part,arm,block_bytes,order,residency,passes,fresh,offset_bytes,threads,span_bytes,\
                  refused_why,repeat,place,total_ns,set_up_ns,use_ns,last_pass_ns,tear_down_ns,user_ns,sys_ns,\
                  calls,minor_faults,major_faults,device_bytes,read_bytes,blocks,distinct_blocks,checksum,\
                  mapped_before_bytes,file_pages,before_pages,after_pages,proof_ns";
    let point = |(at, point): (usize, &FilePoint)| {
        let refusal = readings.judgement.as_ref().and_then(|judgement| judgement.refusal(at));
        let cell = &point.cell;
        let lead = vec![
            cell.part.into_str().to_owned(),
            cell.way().to_owned(),
            cell.block_bytes.0.to_string(),
            cell.order.into_str().to_owned(),
            cell.residency.into_str().to_owned(),
            cell.passes.to_string(),
            u8::from(cell.fresh).to_string(),
            cell.offset_bytes.0.to_string(),
            cell.threads.to_string(),
            cell.span_bytes.0.to_string(),
            known(refusal.or(point.refused.as_deref())),
        ];
        (lead, point.samples.iter().map(numbers).collect())
    };
    samples(header, readings.points.iter().enumerate().map(point))
}

fn numbers(sample: &FileSample) -> Vec<String> {
    let (ledger, proof) = (&sample.ledger, &sample.proof);
    let numbers = [
        Some(u64::from(sample.repeat)),
        Some(u64::from(sample.place)),
        Some(sample.total_ns().0),
        Some(sample.set_up_ns.0),
        Some(sample.use_ns().0),
        sample.pass_ns.last().map(|ns| ns.0),
        Some(sample.tear_down_ns.0),
        Some(sample.user_ns.0),
        Some(sample.sys_ns.0),
        Some(sample.calls),
        Some(sample.minor_faults),
        Some(sample.major_faults),
        sample.device_bytes.known().map(|bytes| bytes.0),
        Some(ledger.bytes.0),
        Some(ledger.blocks),
        Some(ledger.distinct_blocks),
        Some(ledger.checksum),
        Some(ledger.mapped_before_bytes.0),
        Some(proof.file_pages),
        Some(proof.before_pages),
        Some(proof.after_pages),
        Some(proof.took_ns.0),
    ];
    numbers.map(known).to_vec()
}

/// Cells without a figure whose way has one elsewhere, and cells with fewer repeats than requested. `None` if
/// there are no such cells. A way without any figure is not available here.
fn incomplete(readings: &FileBenchReport) -> Option<String> {
    let points = &readings.points;
    let is_read = |arm| points.iter().any(|p| p.cell.arm == arm && !p.samples.is_empty());
    let asked = |point: &FilePoint| match point.cell.residency {
        CacheResidency::Warm => readings.repeats as usize,
        CacheResidency::Cold => readings.cold_repeats as usize,
    };
    let empty = points.iter().filter(|p| p.samples.is_empty() && is_read(p.cell.arm)).count();
    let few = points.iter().filter(|p| (1..asked(p)).contains(&p.samples.len())).count();
    let empty = (empty > 0).then(|| format!("{empty} of {} cells have no figure", points.len()));
    let few = (few > 0).then(|| format!("{few} have fewer repeats than requested"));
    let parts: Vec<String> = [empty, few].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The rate of a point that did the requested work, with its cell.
fn rated(readings: &FileBenchReport, (at, point): (usize, &FilePoint)) -> Option<(f64, FileCell)> {
    let judgement = readings.judgement.as_ref();
    let is_whole = judgement.is_none_or(|judgement| judgement.refusal(at).is_none());
    let rate = point.rate_gib_per_s().filter(|_| is_whole)?;
    Some((rate.median, point.cell))
}

/// The fastest reading.
fn fastest(readings: &FileBenchReport) -> Option<(f64, FileCell)> {
    // The most common use comes first.
    let rank = |cell: &FileCell| {
        (cell.residency == CacheResidency::Warm, cell.order == AccessOrder::Sequential)
    };
    let by = |a: &(f64, FileCell), b: &(f64, FileCell)| {
        rank(&a.1).cmp(&rank(&b.1)).then(a.0.total_cmp(&b.0))
    };
    readings.part(FileBenchPart::Blocks).filter_map(|one| rated(readings, one)).max_by(by)
}

/// The verdict on all readings in one sentence, which begins with what is missing.
pub(crate) fn headline(readings: &FileBenchReport) -> String {
    let first =
        incomplete(readings).map_or_else(String::new, |text| format!("incomplete ({text}): "));
    let Some((rate, cell)) = fastest(readings) else {
        return format!("{first}no way to {} the file has a figure", verb(readings));
    };
    let read = readings.find(&cell.by(ReadWay::Read));
    let than = match read.and_then(|read| rated(readings, read)) {
        Some((other, base)) if other < rate => {
            format!(", {} {} GiB/s", base.name(), three_digits(other))
        }
        None if cell.arm != ReadWay::Read => ", read() was not measured there".to_owned(),
        _ => String::new(),
    };
    let cached =
        if cell.residency == CacheResidency::Warm { "a cached file" } else { "an uncached file" };
    let order = if cell.order == AccessOrder::Sequential { "in order" } else { "at random" };
    format!(
        "{first}{cached}, once, {order}, in blocks of {}: {} gives {} GiB/s{than}",
        whole_size(cell.block_bytes),
        cell.name(),
        three_digits(rate)
    )
}

/// What the file is, how cells were read, and what proves their state.
fn protocol(readings: &FileBenchReport) -> Vec<String> {
    let source = &readings.source;
    let file = match (&source.path, &source.directory, source.written_in_bytes) {
        (Some(path), ..) => format!("The file `{path}`, {}", source.size_bytes),
        (None, directory, pieces) => format!(
            "A temporary file in {}, {} ({}), written in pieces of {}",
            directory.as_deref().unwrap_or("a place that is not known"),
            source.size_bytes,
            source.bound_by,
            whole_size(pieces.unwrap_or_default())
        ),
    };
    let use_of = if readings.summed { "; each copied block is also summed" } else { "" };
    let processes = counted(u64::from(readings.repeats), "fresh process", "fresh processes");
    let mut reported = vec![
        format!("{file}."),
        format!(
            "Median of {processes} of each warm cell and {} of each cold one, in shuffled order (seed \
             {}), first call to last{use_of}.",
            readings.cold_repeats, readings.seed
        ),
    ];
    reported.extend(proof(readings));
    if readings.is_written() {
        let text =
            "Written blocks: clean before each process; read back after its clock has stopped.";
        reported.push(text.to_owned());
    }
    if !readings.slips.is_empty() {
        let slips: Vec<&str> = readings.slips.iter().map(|slip| slip.into_str()).collect();
        reported.push(format!("With errors of the published benchmark: {}.", slips.join(", ")));
    }
    reported
}

/// What the proofs showed, and their cost.
fn proof(readings: &FileBenchReport) -> Option<String> {
    let took = |point: &FilePoint| -> Vec<f64> {
        let gib = readings.source.size_bytes.0 as f64 / Bytes::gib(1).0 as f64;
        point
            .samples
            .iter()
            .map(|s| s.proof.took_ns.0 as f64 / gib.max(f64::MIN_POSITIVE))
            .collect()
    };
    let all: Vec<f64> = readings
        .points
        .iter()
        .filter(|point| point.cell.residency == CacheResidency::Warm)
        .flat_map(took)
        .collect();
    let median = pagewise_model::measured::median(&all)?;
    let refills = match readings.refills {
        0 => String::new(),
        n => format!(" (read in again {})", counted(u64::from(n), "time", "times")),
    };
    Some(format!(
        "Warm: all pages of the file cached before and after{refills}, no major fault; cold: none cached \
         before. The proof takes {} for each GiB, not timed.",
        Nanos::from_f64(median)
    ))
}

// The races as a table of colours: every way over the block sizes, one panel for each residency and order.
// The fastest way for each block size has a frame. If the framed way changes between sizes, the ways cross.

/// The readings as SVG; `caption` names the machine.
#[must_use]
pub fn svg(readings: &FileBenchReport, caption: &str) -> SvgPicture {
    let heat = HeatMap {
        title: format!("Which way to {} a file is fastest?", verb(readings)),
        subtitle: caption.to_owned(),
        unit: "GiB/s",
        columns_are: "block",
        rows_are: "way",
        is_best_by_column: true,
        panels: races(readings).into_iter().map(panel).collect(),
    };
    heat.draw()
}

/// What was done with the file.
fn verb(readings: &FileBenchReport) -> &'static str {
    if readings.is_written() { "write" } else { "read" }
}

fn panel(grid: RateGrid) -> HeatPanel {
    let value = |entry: RateEntry| match entry {
        RateEntry::Rate(rate) => Ok(rate.median),
        RateEntry::Refused(why) => Err(format!("refused: {why}")),
        RateEntry::Missing(why) => Err(why),
        RateEntry::Empty => Err("not requested".to_owned()),
    };
    let (rows, cells) = grid
        .rows
        .into_iter()
        .map(|(name, entries)| (name, entries.into_iter().map(value).collect()))
        .unzip();
    HeatPanel { title: grid.title, columns: grid.columns, rows, cells }
}
