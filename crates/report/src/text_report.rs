//! Findings and results of `pagewise text`, for people: which text and read-only data is on huge pages, what
//! is not and why, what each method would achieve, and sums over processes.

use crate::cache::letters;
use crate::code::heap_section;
use crate::code::{collapse_headline, collapse_section, generated};
use crate::code::{machine, part_of, pieces, share, warmed};
use crate::fold::{self, fold_section};
use crate::number::counted;
use crate::page::ReportDocument;
use crate::style::TextTone;
use crate::table::{ColumnAlignment, ReportTable, TableCell};
use crate::text_system::{self, system_section};
use pagewise_model::text::{
    HugeStanding, ImagePlacement, MappedFile, TextCoverage, TextFile, TextMethod,
};
use pagewise_model::text_report::{ExplainedProcess, TextCount, TextReport, TextStatus};
use pagewise_model::{Bytes, PageSize};

/// Largest number of processes that are listed.
const ROWS: usize = 10;

/// The report in one sentence.
pub(crate) fn headline(report: &TextReport) -> String {
    match report {
        TextReport::Warm { files, .. } => {
            let sum = |part: &dyn Fn(&TextFile) -> TextCoverage| {
                files.iter().fold(Bytes(0), |sum, file| sum + part(file).text_bytes)
            };
            format!(
                "new starts have {} of text on huge pages, in {}",
                part_of(sum(&TextFile::huge), sum(&|file| file.size)),
                counted(files.len() as u64, "file", "files")
            )
        }
        TextReport::ExplainFile { file, .. } => {
            let text = part_of(file.huge().text_bytes, file.size.text_bytes);
            format!("new starts have {text} of text on huge pages")
        }
        TextReport::ExplainProcess { process, .. } => {
            let text = part_of(process.huge(), process.text());
            format!("{text} of text on huge pages in {} ({})", process.name, process.pid)
        }
        TextReport::Fold { folded, .. } => fold::headline(folded),
        TextReport::Collapse { process, .. } => collapse_headline(process),
        TextReport::System { system, .. } => text_system::headline(system),
        TextReport::Status(status) => status_headline(status),
    }
}

/// The report as lines.
#[must_use]
pub fn text_section(report: &TextReport) -> ReportDocument {
    let mut page = ReportDocument::default();
    match report {
        TextReport::Warm { slot_bytes, files, missing_libraries } => {
            for file in files {
                page.section(warmed(file));
            }
            let is_large = |file: &TextFile| file.size.text_bytes.0 >= slot_bytes.bytes();
            if files.iter().any(|file| is_large(file) && file.huge().text_bytes == Bytes(0)) {
                page.blank();
                page.para("pagewise text explain FILE shows why there is none", 0, TextTone::Plain);
            }
            if !missing_libraries.is_empty() {
                page.blank();
                let text = format!("libraries not found: {}", missing_libraries.join(", "));
                page.para(&text, 0, TextTone::Warn);
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

/// The effect of each method.
fn reached(file: &TextFile, slot: PageSize) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.heading("what each method reaches, from the program headers");
    let columns = [
        ("", ColumnAlignment::Left),
        ("text", ColumnAlignment::Left),
        ("read-only data", ColumnAlignment::Left),
        ("what it takes", ColumnAlignment::Left),
    ];
    let mut table = ReportTable::new(&columns);
    for reach in &file.reach {
        let takes = match reach.method {
            TextMethod::Warm => "text warm: the unchanged file",
            TextMethod::Aligned => "text fold: a copy, aligned",
            TextMethod::Merged => "text fold --merge: as one",
        };
        table.row(vec![
            reach.method.into_str().into(),
            share(reach.huge.text_bytes, file.size.text_bytes).into(),
            share(reach.huge.read_only_bytes, file.size.read_only_bytes).into(),
            takes.into(),
        ]);
    }
    page.append(table);
    if file.layout.placement == ImagePlacement::Program {
        let text = format!(
            "the kernel places a position-independent program at a multiple of its largest alignment: link it with -Wl,-z,max-page-size={:#x} to align it",
            slot.bytes()
        );
        page.para(&text, 2, TextTone::Faint);
    }
    page
}

/// A process, file by file; one line for files with nothing to gain.
fn explained(process: &ExplainedProcess, slot: PageSize) -> ReportDocument {
    let mut page = ReportDocument::default();
    if process.is_disabled {
        page.para(
            "huge pages are switched off for this process (PR_SET_THP_DISABLE)",
            0,
            TextTone::Warn,
        );
    }
    let is_small = |file: &&MappedFile| {
        let mut pieces = file.areas.iter().flat_map(|area| &area.pieces);
        pieces.all(|piece| piece.standing == HugeStanding::TooSmall)
    };
    let (small, large): (Vec<&MappedFile>, Vec<&MappedFile>) =
        process.files.iter().partition(is_small);
    for file in large {
        let mut part = ReportDocument::default();
        part.single(&file.path, 0, TextTone::Strong);
        let (huge, size, warm) = (file.huge(), file.size(), file.after_warm);
        part.para(
            &format!(
                "on huge pages: {} of text and {} of read-only data; after warming and a new start at these addresses: {} and {}",
                part_of(huge.text_bytes, size.text_bytes),
                part_of(huge.read_only_bytes, size.read_only_bytes),
                warm.text_bytes,
                warm.read_only_bytes
            ),
            2,
            TextTone::Plain,
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
        page.para(&text, 0, TextTone::Faint);
    }
    page
}

fn meaning(slot: PageSize) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.para(&format!("maps in pieces of {slot}: {}", letters()), 0, TextTone::Faint);
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
fn sums(status: &TextStatus) -> ReportDocument {
    let mut page = ReportDocument::default();
    let who = if status.pid.is_some() { "file" } else { "process" };
    let columns = [
        (who, ColumnAlignment::Name),
        (if status.pid.is_some() { "" } else { "pid" }, ColumnAlignment::Right),
        ("text", ColumnAlignment::Decimal),
        ("resident", ColumnAlignment::Decimal),
        ("file huge", ColumnAlignment::Decimal),
        ("shared", ColumnAlignment::Decimal),
        ("anonymous", ColumnAlignment::Decimal),
    ];
    let mut table = ReportTable::new(&columns);
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
            TextTone::Faint,
        );
    }
    let other = match status.other_file_pmd_bytes {
        Bytes(0) => String::new(),
        bytes => format!("; beside it, {bytes} of read-only data of files is mapped huge"),
    };
    page.para(&format!("all columns count executable mappings only{other}"), 2, TextTone::Faint);
    if status.hidden_processes > 0 {
        let n = counted(status.hidden_processes, "process", "processes");
        page.para(&format!("{n} could not be examined"), 2, TextTone::Faint);
    }
    page.section(machine("the whole machine", &status.totals));
    page
}

fn row(count: &TextCount, is_process: bool) -> Vec<TableCell> {
    let bytes = |bytes: Bytes, good: bool| {
        let tone = if good && bytes > Bytes(0) { TextTone::Good } else { TextTone::Plain };
        TableCell::new(bytes.to_string(), tone)
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
