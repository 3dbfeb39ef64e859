//! Code on huge pages for people, in parts that several reports share: a file, pieces and why they are not on
//! huge pages, the totals of the machine.
//!
//! Pieces that stand alike and follow each other are one row; the saved form has each of them.

use crate::cache::cached_file;
use crate::number::{counted, percent};
use crate::page::Document;
use crate::style::Tone;
use crate::table::{Align, Cell, Table};
use pagewise_model::Bytes;
use pagewise_model::text::{Area, HugeTotals, Piece, Standing, TextFile};

/// `18.0 MiB of 21.2 MiB (85%)`.
pub(crate) fn of(part: Bytes, all: Bytes) -> String {
    if all == Bytes(0) {
        return "nothing".to_owned();
    }
    format!("{part} of {all} ({})", percent(part.0 as f64 / all.0 as f64))
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

pub(crate) fn share(part: Bytes, all: Bytes) -> String {
    if all == Bytes(0) {
        return "none there".to_owned();
    }
    format!("{part} ({})", percent(part.0 as f64 / all.0 as f64))
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
