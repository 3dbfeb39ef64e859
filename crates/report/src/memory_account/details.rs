//! All parts of each process; pages show them in details that a reader can open.

use crate::number::percent;
use crate::page::ReportDocument;
use crate::table::{ColumnAlignment, ReportTable, TableCell};
use pagewise_model::Bytes;
use pagewise_model::memory_account::{MemoryAccount, MemoryPart, OwnerEvidence, ProcessAccount};

pub(super) fn add_details(account: &MemoryAccount, page: &mut ReportDocument) {
    for process in &account.processes {
        let title = format!("all parts of {} ({})", process.name, process.pid);
        page.details(&title, parts(process).into());
        let title = format!("which pages of {} ({}) are resident", process.name, process.pid);
        page.details(&title, map(process).into());
    }
}

fn parts(process: &ProcessAccount) -> ReportTable {
    let mut table = ReportTable::new(&[
        ("kind", ColumnAlignment::Left),
        ("name", ColumnAlignment::Name),
        ("proportional", ColumnAlignment::Decimal),
        ("", ColumnAlignment::Left),
        ("resident", ColumnAlignment::Decimal),
        ("huge", ColumnAlignment::Decimal),
        ("referenced", ColumnAlignment::Decimal),
        ("known by", ColumnAlignment::Left),
    ]);
    for part in &process.parts {
        table.row(cells(part, process.pss_bytes));
    }
    table
}

/// The largest mappings, each in parts by address.
fn map(process: &ProcessAccount) -> ReportTable {
    let mut table = ReportTable::new(&[
        ("address", ColumnAlignment::Left),
        ("size", ColumnAlignment::Decimal),
        ("resident", ColumnAlignment::Decimal),
        ("referenced", ColumnAlignment::Decimal),
        ("parts by address, full where all is resident", ColumnAlignment::Left),
        ("name", ColumnAlignment::Name),
    ]);
    for strip in &process.map {
        let cells: String = strip.cells.iter().map(|percent| shade(*percent)).collect();
        let row = [
            strip.start_address.to_string(),
            strip.size_bytes.to_string(),
            strip.resident_bytes.to_string(),
            strip.referenced_bytes.to_string(),
            cells,
            strip.name.clone(),
        ];
        table.row(row.map(TableCell::from).to_vec());
    }
    table
}

/// A cell of a strip, by the percentage that is resident.
const fn shade(percent: u8) -> char {
    match percent {
        0 => '·',
        1..34 => '░',
        34..67 => '▒',
        67..100 => '▓',
        _ => '█',
    }
}

fn cells(part: &MemoryPart, whole: Bytes) -> Vec<TableCell> {
    let share = part.pss_bytes.0 as f64 / whole.0.max(1) as f64;
    let size = |bytes: Bytes| if bytes.0 == 0 { String::new() } else { bytes.to_string() };
    vec![
        part.kind.into_str().into(),
        part.name.as_str().into(),
        TableCell::from(part.pss_bytes.to_string()).hover(percent(share)),
        TableCell::bar(share),
        size(part.rss_bytes).into(),
        size(part.huge_bytes).into(),
        size(part.referenced_bytes).into(),
        evidence(part.evidence).into(),
    ]
}

const fn evidence(evidence: OwnerEvidence) -> &'static str {
    match evidence {
        OwnerEvidence::Name => "its mapping's name",
        OwnerEvidence::Mark => "a mark in it",
        OwnerEvidence::Caller => "the code that mapped it",
        OwnerEvidence::Exclusion => "no other owner",
        OwnerEvidence::Nothing => "",
    }
}
