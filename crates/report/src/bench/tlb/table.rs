//! Tables: one list at every size, and all lists at five sizes.

use super::{describe, protocol, unsteady};
use crate::claims;
use crate::number::{ratio_text, whole_size};
use crate::page::ReportDocument;
use crate::style::TextTone;
use crate::table::{ColumnAlignment, ReportTable, TableCell};
use pagewise_model::Bytes;
use pagewise_model::bench::tlb::{PageKind, TlbBenchReport, TlbPath, TlbPoint, TlbRatio};

/// Set sizes in the overview, with their titles.
const SETS: [(Bytes, &str); 5] = [
    (Bytes::kib(16), "16 KiB"),
    (Bytes::kib(512), "512 KiB"),
    (Bytes::mib(8), "8 MiB"),
    (Bytes::mib(128), "128 MiB"),
    (Bytes::gib(1), "1 GiB"),
];

/// One list at every size: nanoseconds on each kind of page, and the gain of larger ones.
pub(super) fn list(walks: &TlbBenchReport, path: TlbPath) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.heading(&format!("ns for each load, {}", describe(path)));
    page.para(&protocol(walks), 2, TextTone::Faint);
    page.table(sizes(walks, path, &sets(walks, path)));
    page.append(refused(walks, path));
    page
}

/// As [`list`], at these sizes only.
pub(super) fn sizes(walks: &TlbBenchReport, path: TlbPath, sets: &[Bytes]) -> ReportTable {
    let kinds = kinds(walks, path);
    let mut columns = vec![("set", ColumnAlignment::Right)];
    columns.extend(kinds.iter().map(|kind| (kind.into_str(), ColumnAlignment::Decimal)));
    columns.extend([("of base", ColumnAlignment::Left), ("", ColumnAlignment::Left)]);
    let mut table = ReportTable::new(&columns);
    for &set in sets {
        let elements = set.0 / path.pitch().0;
        let mut row = vec![TableCell::from(whole_size(set))];
        row.extend(kinds.iter().map(|kind| time(walks.find(path, *kind, elements))));
        let ratio = best_ratio(walks, path, set);
        row.push(ratio.map_or_else(String::new, |r| ratio_text(r.ratio, &r.interval)).into());
        row.push(TableCell::new(ratio.map_or("", unsteady), TextTone::Warn));
        table.row(row);
    }
    table
}

/// The kinds of pages that were requested for a list.
fn kinds(walks: &TlbBenchReport, path: TlbPath) -> Vec<PageKind> {
    let used = |kind: &PageKind| !walks.curve(path, *kind).is_empty();
    PageKind::ALL.into_iter().filter(used).collect()
}

/// The set sizes of a list on any kind of page.
fn sets(walks: &TlbBenchReport, path: TlbPath) -> Vec<Bytes> {
    let of = walks.points.iter().filter(|p| p.path == path);
    let mut sets: Vec<Bytes> = of.map(TlbPoint::set_bytes).collect();
    sets.sort_unstable();
    sets.dedup();
    sets
}

/// The ratio of the larger pages on which one set is fastest.
fn best_ratio(walks: &TlbBenchReport, path: TlbPath, set: Bytes) -> Option<&TlbRatio> {
    let all = walks.judgement.iter().flat_map(|judgement| &judgement.ratios);
    let here = all.filter(|ratio| ratio.path == path && ratio.set_bytes == set);
    here.min_by(|a, b| a.ratio.total_cmp(&b.ratio))
}

fn time(point: Option<&TlbPoint>) -> TableCell {
    let Some(point) = point else { return TableCell::new("-", TextTone::Faint) };
    let why = point.refused.as_deref().unwrap_or("not walked");
    TableCell::figure(point.load_ns().as_ref(), why)
}

/// Reasons why samples of a list are missing, each once with its count.
fn refused(walks: &TlbBenchReport, path: TlbPath) -> ReportDocument {
    let points = walks.points.iter().filter(|p| p.path == path);
    let reasons = claims::reasons(points.filter_map(|p| p.refused.as_deref()));
    let mut page = ReportDocument::default();
    for (why, count) in reasons {
        page.para(
            &format!("{count} not walked, or fewer times than requested: {why}"),
            2,
            TextTone::Faint,
        );
    }
    page
}

/// Every list on every kind of page at five sizes; empty if there is only one list.
pub(super) fn overview(walks: &TlbBenchReport) -> ReportDocument {
    let lists = walks.lists();
    if lists.len() < 2 {
        return ReportDocument::default();
    }
    let mut page = ReportDocument::default();
    page.heading("every list, ns for each load");
    let mut columns = vec![
        ("order", ColumnAlignment::Left),
        ("element", ColumnAlignment::Right),
        ("", ColumnAlignment::Left),
    ];
    columns.extend(SETS.iter().map(|(_, title)| (*title, ColumnAlignment::Decimal)));
    let mut table = ReportTable::new(&columns);
    for path in lists {
        let TlbPath::List { order, .. } = path else { continue };
        for kind in kinds(walks, path) {
            let element = path.pitch();
            let mut row: Vec<TableCell> =
                vec![order.into_str().into(), element.to_string().into(), kind.into_str().into()];
            let at = |(set, _): &(Bytes, &str)| time(walks.find(path, kind, set.0 / element.0));
            row.extend(SETS.iter().map(at));
            table.row(row);
        }
    }
    page.table(table);
    page
}
