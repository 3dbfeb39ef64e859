//! All parts of each process; pages show them in details that a reader can open.

use crate::number::percent;
use crate::page::Document;
use crate::table::{Align, Cell, Table};
use pagewise_model::Bytes;
use pagewise_model::memory_account::{Evidence, MemoryAccount, Part, ProcessAccount};

pub(super) fn add_details(account: &MemoryAccount, page: &mut Document) {
    for process in &account.processes {
        let title = format!("all parts of {} ({})", process.name, process.pid);
        page.details(&title, parts(process).into());
        let title = format!("which pages of {} ({}) are resident", process.name, process.pid);
        page.details(&title, map(process).into());
    }
}

fn parts(process: &ProcessAccount) -> Table {
    let mut table = Table::new(&[
        ("kind", Align::Left),
        ("name", Align::Name),
        ("proportional", Align::Decimal),
        ("", Align::Left),
        ("resident", Align::Decimal),
        ("huge", Align::Decimal),
        ("referenced", Align::Decimal),
        ("known by", Align::Left),
    ]);
    for part in &process.parts {
        table.row(cells(part, process.pss_bytes));
    }
    table
}

/// The largest mappings, each in parts by address.
fn map(process: &ProcessAccount) -> Table {
    let mut table = Table::new(&[
        ("address", Align::Left),
        ("size", Align::Decimal),
        ("resident", Align::Decimal),
        ("referenced", Align::Decimal),
        ("parts by address, full where all is resident", Align::Left),
        ("name", Align::Name),
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
        table.row(row.map(Cell::from).to_vec());
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

fn cells(part: &Part, whole: Bytes) -> Vec<Cell> {
    let share = part.pss_bytes.0 as f64 / whole.0.max(1) as f64;
    let size = |bytes: Bytes| if bytes.0 == 0 { String::new() } else { bytes.to_string() };
    vec![
        part.kind.into_str().into(),
        part.name.as_str().into(),
        Cell::from(part.pss_bytes.to_string()).hover(percent(share)),
        Cell::bar(share),
        size(part.rss_bytes).into(),
        size(part.huge_bytes).into(),
        size(part.referenced_bytes).into(),
        evidence(part.evidence).into(),
    ]
}

const fn evidence(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::Name => "its mapping's name",
        Evidence::Mark => "a mark in it",
        Evidence::Caller => "the code that mapped it",
        Evidence::Exclusion => "no other owner",
        Evidence::Nothing => "",
    }
}
