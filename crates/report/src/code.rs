//! Code on huge pages for people: what of text and read-only data is on them, what is not and why, what
//! each method would reach, and sums over processes.
//!
//! Pieces that stand alike and follow each other are one row; the saved form has each of them.

use crate::cache::{cached_file, letters};
use crate::collapse::{self, collapse_section, generated};
use crate::fold::{self, fold_section};
use crate::heap::heap_section;
use crate::number::{counted, percent};
use crate::page::Document;
use crate::style::Tone;
use crate::table::{Align, Cell, Table};
use crate::text_system::{self, system_section};
use pagewise_model::text::{
    Area, Coverage, ExplainedProcess, HugeTotals, MappedFile, Method, Piece, Placement, Standing,
    TextCount, TextFile, TextReport, TextStatus,
};
use pagewise_model::{Bytes, PageSize};

/// Processes that are listed.
const ROWS: usize = 20;

/// The report in one sentence.
pub(crate) fn headline(report: &TextReport) -> String {
    match report {
        TextReport::Warm { files, .. } => {
            let sum = |part: &dyn Fn(&TextFile) -> Coverage| {
                files.iter().fold(Bytes(0), |sum, file| sum + part(file).text_bytes)
            };
            format!(
                "new starts have {} of text on huge pages, in {}",
                of(sum(&TextFile::huge), sum(&|file| file.size)),
                counted(files.len() as u64, "file", "files")
            )
        }
        TextReport::ExplainFile { file, .. } => {
            let text = of(file.huge().text_bytes, file.size.text_bytes);
            format!("new starts have {text} of text on huge pages")
        }
        TextReport::ExplainProcess { process, .. } => {
            let text = of(process.huge(), process.text());
            format!("{text} of text on huge pages in {} ({})", process.name, process.pid)
        }
        TextReport::Fold { folded, .. } => fold::headline(folded),
        TextReport::Collapse { process, .. } => collapse::headline(process),
        TextReport::System { system, .. } => text_system::headline(system),
        TextReport::Status(status) => status_headline(status),
    }
}

/// `18.0 MiB of 21.2 MiB (85%)`.
pub(crate) fn of(part: Bytes, all: Bytes) -> String {
    if all == Bytes(0) {
        return "nothing".to_owned();
    }
    format!("{part} of {all} ({})", percent(part.0 as f64 / all.0 as f64))
}

/// The report as lines.
#[must_use]
pub fn text_section(report: &TextReport) -> Document {
    let mut page = Document::default();
    match report {
        TextReport::Warm { slot_bytes, files, missing_libraries } => {
            for file in files {
                page.section(warmed(file));
            }
            let is_large = |file: &TextFile| file.size.text_bytes.0 >= slot_bytes.bytes();
            if files.iter().any(|file| is_large(file) && file.huge().text_bytes == Bytes(0)) {
                page.blank();
                page.para("pagewise text explain FILE shows why there is none", 0, Tone::Plain);
            }
            if !missing_libraries.is_empty() {
                page.blank();
                let text = format!("libraries not found: {}", missing_libraries.join(", "));
                page.para(&text, 0, Tone::Warn);
            }
            page.section(meaning(*slot_bytes));
        }
        TextReport::ExplainFile { slot_bytes, file } => {
            page.append(warmed(file));
            page.section(pieces(&file.areas));
            page.section(reached(file, *slot_bytes));
            page.section(meaning(*slot_bytes));
        }
        TextReport::ExplainProcess { slot_bytes, process } => {
            page.append(explained(process, *slot_bytes));
            page.section(meaning(*slot_bytes));
        }
        TextReport::Fold { slot_bytes, folded } => {
            page.append(fold_section(folded, *slot_bytes));
        }
        TextReport::Collapse { slot_bytes, process } => {
            page.append(collapse_section(process, *slot_bytes));
        }
        TextReport::System { slot_bytes, system } => {
            page.append(system_section(system, *slot_bytes));
        }
        TextReport::Status(status) => page.append(sums(status)),
    }
    page
}

/// A file: its cache, and what of its code will be huge.
pub(crate) fn warmed(file: &TextFile) -> Document {
    let mut page = Document::default();
    page.append(cached_file(&file.cache));
    let (huge, size) = (file.huge(), file.size);
    page.para(
        &format!(
            "new starts have {} of text and {} of read-only data on huge pages",
            of(huge.text_bytes, size.text_bytes),
            of(huge.read_only_bytes, size.read_only_bytes)
        ),
        2,
        Tone::Strong,
    );
    page
}

/// Rows of pieces that stand alike.
pub(crate) fn pieces(areas: &[Area]) -> Document {
    let columns = [
        ("", Align::Left),
        ("address", Align::Right),
        ("size", Align::Decimal),
        ("on a huge page, or why not", Align::Left),
    ];
    let mut table = Table::new(&columns);
    for area in areas {
        let stands_alike = |a: &Piece, b: &Piece| a.standing == b.standing;
        for run in area.pieces.chunk_by(stands_alike) {
            let size = run.iter().fold(Bytes(0), |sum, piece| sum + piece.length_bytes);
            let tone = if run[0].standing == Standing::Huge { Tone::Good } else { Tone::Plain };
            table.row(vec![
                area.kind.label().into(),
                format!("{:#x}", run[0].address).into(),
                size.to_string().into(),
                Cell::new(reason(&run[0].standing, run.len() as u64), tone),
            ]);
        }
    }
    table.into()
}

/// Why slots are not on huge pages, or that they are.
pub(crate) fn reason(standing: &Standing, slots: u64) -> String {
    match standing {
        Standing::Huge => counted(slots, "huge page", "huge pages"),
        Standing::SmallFolio => "small folios in the page cache".to_owned(),
        Standing::SmallPages => "small pages".to_owned(),
        Standing::NotCached => "not in the page cache".to_owned(),
        Standing::NotTouched => "not touched yet".to_owned(),
        Standing::Incongruent { off_by_bytes } => {
            format!("address and offset {off_by_bytes} apart")
        }
        Standing::ByChance { one_in } => format!("random base: fits in 1 of {one_in} starts"),
        Standing::Boundary => "boundary of the mapping".to_owned(),
        Standing::TooSmall => "smaller than a huge page".to_owned(),
        Standing::PrivateCopy { copied_bytes } => format!("{copied_bytes} written: a private copy"),
        Standing::PageTable => "blocked by a table of small pages".to_owned(),
        Standing::Disabled => "switched off for the process".to_owned(),
        Standing::NotOffered => "switched off by the system (never)".to_owned(),
        Standing::NotAsked => "not requested (madvise)".to_owned(),
        Standing::Refused => "kept small by MADV_NOHUGEPAGE or MAP_STACK".to_owned(),
        Standing::PoolEmpty => "no free page in the pool".to_owned(),
        Standing::FileSystem { name } => format!("{name} has only base pages"),
        Standing::NotKnown { why } => format!("not known: {why}"),
    }
}

/// What each method reaches.
fn reached(file: &TextFile, slot: PageSize) -> Document {
    let mut page = Document::default();
    page.heading("what each method reaches, from the program headers");
    let columns = [
        ("", Align::Left),
        ("text", Align::Left),
        ("read-only data", Align::Left),
        ("what it takes", Align::Left),
    ];
    let mut table = Table::new(&columns);
    for reach in &file.reach {
        let takes = match reach.method {
            Method::Warm => "text warm: the unchanged file",
            Method::Aligned => "text fold: a copy, aligned",
            Method::Merged => "text fold --merge: as one",
        };
        table.row(vec![
            reach.method.label().into(),
            share(reach.huge.text_bytes, file.size.text_bytes).into(),
            share(reach.huge.read_only_bytes, file.size.read_only_bytes).into(),
            takes.into(),
        ]);
    }
    page.append(table);
    if file.layout.placement == Placement::Program {
        let text = format!(
            "the kernel places a position-independent program at a multiple of its largest alignment: link it with -Wl,-z,max-page-size={:#x} to align it",
            slot.bytes()
        );
        page.para(&text, 2, Tone::Faint);
    }
    page
}

pub(crate) fn share(part: Bytes, all: Bytes) -> String {
    if all == Bytes(0) {
        return "none there".to_owned();
    }
    format!("{part} ({})", percent(part.0 as f64 / all.0 as f64))
}

/// A process, file by file; those with nothing to gain in one line.
fn explained(process: &ExplainedProcess, slot: PageSize) -> Document {
    let mut page = Document::default();
    if process.is_disabled {
        page.para(
            "huge pages are switched off for this process (PR_SET_THP_DISABLE)",
            0,
            Tone::Warn,
        );
    }
    let is_small = |file: &&MappedFile| {
        let mut pieces = file.areas.iter().flat_map(|area| &area.pieces);
        pieces.all(|piece| piece.standing == Standing::TooSmall)
    };
    let (small, large): (Vec<&MappedFile>, Vec<&MappedFile>) =
        process.files.iter().partition(is_small);
    for file in large {
        let mut part = Document::default();
        part.single(&file.path, 0, Tone::Strong);
        let (huge, size, warm) = (file.huge(), file.size(), file.after_warm);
        part.para(
            &format!(
                "on huge pages: {} of text and {} of read-only data; after warming and a new start at these addresses: {} and {}",
                of(huge.text_bytes, size.text_bytes),
                of(huge.read_only_bytes, size.read_only_bytes),
                warm.text_bytes,
                warm.read_only_bytes
            ),
            2,
            Tone::Plain,
        );
        part.append(pieces(&file.areas));
        page.section(part);
    }
    page.section(generated(&process.generated));
    page.section(heap_section(&process.heap, slot));
    if !small.is_empty() {
        let names: Vec<&str> = small.iter().map(|file| file.path.as_str()).collect();
        page.blank();
        let text = format!("no mapping is as large as a huge page: {}", names.join(", "));
        page.para(&text, 0, Tone::Faint);
    }
    page
}

fn meaning(slot: PageSize) -> Document {
    let mut page = Document::default();
    page.para(&format!("maps in pieces of {slot}: {}", letters()), 0, Tone::Faint);
    page
}

fn status_headline(status: &TextStatus) -> String {
    let huge = status.counts.iter().fold(Bytes(0), |sum, count| sum + count.huge());
    let with = status.counts.iter().filter(|count| count.huge() > Bytes(0)).count() as u64;
    match status.pid {
        Some(pid) => format!("{huge} of the text of process {pid} on huge pages"),
        None => format!("text on huge pages in {}", counted(with, "process", "processes")),
    }
}

/// Sums, and the machine's totals.
fn sums(status: &TextStatus) -> Document {
    let mut page = Document::default();
    let who = if status.pid.is_some() { "file" } else { "process" };
    let columns = [
        (who, Align::Name),
        (if status.pid.is_some() { "" } else { "pid" }, Align::Right),
        ("text", Align::Decimal),
        ("resident", Align::Decimal),
        ("file huge", Align::Decimal),
        ("shared", Align::Decimal),
        ("anonymous", Align::Decimal),
    ];
    let mut table = Table::new(&columns);
    for count in status.counts.iter().take(ROWS) {
        table.row(row(count, status.pid.is_none()));
    }
    page.append(table);
    let rest: Vec<&TextCount> = status.counts.iter().skip(ROWS).collect();
    if !rest.is_empty() {
        let huge = rest.iter().filter(|count| count.huge() > Bytes(0)).count();
        page.para(
            &format!("and {} more, {huge} of them with huge text", rest.len()),
            2,
            Tone::Faint,
        );
    }
    if status.hidden_processes > 0 {
        let n = counted(status.hidden_processes, "process", "processes");
        page.para(&format!("{n} could not be examined"), 2, Tone::Faint);
    }
    page.section(machine("the whole machine", &status.totals));
    page
}

fn row(count: &TextCount, is_process: bool) -> Vec<Cell> {
    let bytes = |bytes: Bytes, good: bool| {
        let tone = if good && bytes > Bytes(0) { Tone::Good } else { Tone::Plain };
        Cell::new(bytes.to_string(), tone)
    };
    vec![
        count.name.clone().into(),
        if is_process { count.pid.to_string().into() } else { "".into() },
        bytes(count.text_bytes, false),
        bytes(count.resident_bytes, false),
        bytes(count.file_pmd_bytes, true),
        bytes(count.shmem_pmd_bytes, true),
        bytes(count.anon_huge_bytes, true),
    ]
}

pub(crate) fn machine(heading: &str, totals: &HugeTotals) -> Document {
    let mut page = Document::default();
    page.heading(heading);
    let known = |bytes: Option<Bytes>| {
        bytes.map_or_else(|| "not shown by this kernel".to_owned(), |bytes| bytes.to_string())
    };
    let rows = [
        (
            "files",
            format!(
                "{} in huge folios (FileHugePages), {} mapped huge (FilePmdMapped)",
                known(totals.file_huge_bytes),
                known(totals.file_pmd_bytes)
            ),
        ),
        (
            "shared",
            format!(
                "{} in huge folios (ShmemHugePages), {} mapped huge (ShmemPmdMapped)",
                known(totals.shmem_huge_bytes),
                known(totals.shmem_pmd_bytes)
            ),
        ),
        ("anonymous", format!("{} mapped huge (AnonHugePages)", known(totals.anon_huge_bytes))),
    ];
    for (name, text) in rows {
        page.item(name, &text);
    }
    page
}
