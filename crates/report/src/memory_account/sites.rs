//! The sites that first touched the memory of a program: the largest as text, all of them with stacks on a page.
//!
//! Shares are of all resident pages: a file page that several processes map counts in each of them.

use super::share;
use crate::chart::{FlameNode, SvgPicture};
use crate::faults::site_line;
use crate::number::{counted, percent};
use crate::page::ReportDocument;
use crate::style::TextTone;
use crate::symbol::readable;
use crate::table::{ColumnAlignment, ReportTable, TableCell};
use pagewise_model::fault::{MemorySite, MemorySites};
use pagewise_model::{Bytes, Fact};

/// Largest number of sites in a text.
const MOST_SITES: usize = 5;

pub(super) fn sites(sites: Option<&Fact<MemorySites>>) -> ReportDocument {
    let mut page = ReportDocument::default();
    match sites {
        // The notes give the reason.
        None | Some(Fact::Missing(_)) => return page,
        Some(Fact::Known(sites)) => {
            page.heading("who first touched it");
            let (shown, rest) = sites.sites.split_at(sites.sites.len().min(MOST_SITES));
            page.append(table(shown, whole(sites)));
            page.para(&others(sites, shown, rest.len()), 2, TextTone::Faint);
            if !sites.stacks.is_empty() {
                page.figure(flame_graph(sites));
                page.details(
                    "all sites of first touches",
                    table(&sites.sites, whole(sites)).into(),
                );
            }
        }
    }
    page
}

pub(crate) fn whole(sites: &MemorySites) -> Bytes {
    sites.seen_bytes + sites.unseen_bytes
}

fn table(sites: &[MemorySite], whole: Bytes) -> ReportTable {
    let columns = [
        ColumnAlignment::Name,
        ColumnAlignment::Left,
        ColumnAlignment::Decimal,
        ColumnAlignment::Decimal,
    ];
    let mut table = ReportTable::new(&columns.map(|align| ("", align)));
    for MemorySite { site, bytes } in sites {
        let part = share(*bytes, whole);
        let cells = [site_line(site).into(), TableCell::bar(part), percent(part).into()];
        table.row([cells.to_vec(), vec![bytes.to_string().into()]].concat());
    }
    table
}

/// The sites that are not in the table.
pub(crate) fn others(sites: &MemorySites, shown: &[MemorySite], more: usize) -> String {
    let listed = shown.iter().fold(0, |sum, one| sum + one.bytes.0);
    let rest = Bytes(sites.seen_bytes.0.saturating_sub(listed));
    let mut parts = Vec::new();
    if more > 0 {
        parts.push(format!("{rest} by other lines"));
    }
    if sites.unseen_bytes > Bytes(0) {
        parts.push(format!("{} without a recorded fault", sites.unseen_bytes));
    }
    if sites.lost_records > 0 {
        parts.push(format!("{} records of faults were lost", sites.lost_records));
    }
    if sites.lost_stacks > 0 {
        parts.push(format!("{} lost", counted(sites.lost_stacks, "stack", "stacks")));
    }
    parts.join(", ")
}

fn flame_graph(sites: &MemorySites) -> SvgPicture {
    let mut root = FlameNode::root(sites.seen_bytes.0);
    for stack in &sites.stacks {
        let mut flame = &mut root;
        for frame in &stack.frames {
            flame = flame.callee(&readable(frame));
            flame.weight = flame.weight.saturating_add(stack.bytes.0);
        }
    }
    let subtitle = format!("{} resident; callees are above callers", sites.seen_bytes);
    root.draw("Memory by who first touched it", &subtitle, &|bytes| Bytes(bytes).to_string())
}
