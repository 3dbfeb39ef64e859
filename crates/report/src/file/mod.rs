//! Readings of a file for people: as terminal text, CSV, a picture, and one page of HTML.
//!
//! Entries, all pure functions of the saved form:
//! - [`section`]: every way over the blocks for each residency and order, passes, buffers and threads,
//!   where the time goes, what becomes of the published study, and last the three sentences;
//! - [`csv`]: every process, for other tools;
//! - [`svg`]: the ways over the blocks as a table of colours;
//! - [`crate::html`]: everything above on one page that needs nothing from outside.
//!
//! Rates count set-up and tear-down, but for those of single passes. A cell that did other work than it
//! was asked for shows no rate, and says what it did.

mod csv;
mod explanation;
mod grid;
mod html;
mod picture;
mod table;

pub use csv::csv;
pub(crate) use html::body;
pub use picture::svg;

use crate::number::{counted, three_digits, whole_size};
use crate::page::Page;
use crate::style::{Style, Tone};
use crate::{advice, claims};
use pagewise_model::file::{Part, Point, Readings, Residency};
use pagewise_model::walk::Order;
use pagewise_model::{Bytes, Nanos};

/// What the claims are about.
const CLAIMS: &str = "the published study (mmap against system calls, 2019): then, and here";

/// The readings as terminal text.
#[must_use]
pub fn section(readings: &Readings, style: &Style) -> String {
    let mut page = Page::new(style);
    for sentence in protocol(readings) {
        page.para(&sentence, 2, Tone::Faint);
    }
    for grid in grid::races(readings) {
        page.section(&table::grid(&grid, style));
    }
    page.section(&table::times(readings, style));
    for grid in grid::grids(readings).iter().filter(|grid| !grid.is_race) {
        page.section(&table::grid(grid, style));
    }
    page.section(&explanation::section(readings, style));
    if let Some(judgement) = &readings.judgement {
        page.section(&claims::section(CLAIMS, &judgement.claims, style));
        page.section(&advice::section(&judgement.advice, style));
    }
    page.finish()
}

/// The verdict on all readings in one sentence.
pub(crate) fn headline(readings: &Readings) -> String {
    let judgement = readings.judgement.as_ref();
    let is_whole = |at: usize| judgement.is_none_or(|judgement| judgement.refusal(at).is_none());
    let rated = |(at, point): (usize, &Point)| {
        let cell = point.cell;
        let wanted = cell.residency == Residency::Warm && cell.order == Order::Sequential;
        let rate = point.rate_gib_per_s().filter(|_| wanted && is_whole(at))?;
        Some((rate.median, cell))
    };
    let best = readings.part(Part::Blocks).filter_map(rated).max_by(|a, b| a.0.total_cmp(&b.0));
    let Some((rate, cell)) = best else {
        return "files: no cached file was read in order".to_owned();
    };
    let read = readings.find(&cell.by(pagewise_model::file::Arm::Read)).and_then(rated);
    let than = match read {
        Some((read, _)) if read < rate => format!(", read() {} GiB/s", three_digits(read)),
        _ => String::new(),
    };
    format!(
        "a cached file once in order in blocks of {}: {} gives {} GiB/s{than}",
        whole_size(cell.block_bytes),
        cell.arm.name(),
        three_digits(rate)
    )
}

/// What the file is, how cells were read, and what proves their state.
pub(crate) fn protocol(readings: &Readings) -> Vec<String> {
    let source = &readings.source;
    let file = match (&source.path, &source.directory, source.written_in_bytes) {
        (Some(path), ..) => format!("The file `{path}`, {}", source.size_bytes),
        (None, directory, pieces) => format!(
            "A file of our own in {}, {} ({}), written in pieces of {}",
            directory.as_deref().unwrap_or("a place that is not known"),
            source.size_bytes,
            source.bound_by,
            whole_size(pieces.unwrap_or_default())
        ),
    };
    let use_of = if readings.summed { "; each copied block is summed as well" } else { "" };
    let processes = counted(u64::from(readings.repeats), "fresh process", "fresh processes");
    let mut told = vec![
        format!("{file}."),
        format!(
            "Median of {processes} of each warm cell and {} of each cold one, in shuffled order (seed \
             {}), first call to last{use_of}.",
            readings.cold_repeats, readings.seed
        ),
    ];
    told.extend(proof(readings));
    if !readings.slips.is_empty() {
        let slips: Vec<&str> = readings.slips.iter().map(|slip| slip.label()).collect();
        told.push(format!("With errors of the published benchmark: {}.", slips.join(", ")));
    }
    told
}

/// What the proofs showed, and what they took.
fn proof(readings: &Readings) -> Option<String> {
    let took = |point: &Point| -> Vec<f64> {
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
        .filter(|point| point.cell.residency == Residency::Warm)
        .flat_map(took)
        .collect();
    let median = pagewise_model::measured::median(&all)?;
    let refills = match readings.refills {
        0 => String::new(),
        n => format!(" (read in again {})", counted(u64::from(n), "time", "times")),
    };
    Some(format!(
        "Warm: all pages of the file cached before and after{refills}, no major fault; cold: none cached \
         before. The proof takes {} for each GiB, outside the clock.",
        Nanos::from_f64(median)
    ))
}
