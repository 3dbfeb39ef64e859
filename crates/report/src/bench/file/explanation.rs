//! Explains the time: for each way, a row of shares. A share is a count times a price measured before.

use super::grid::usual_block;
use crate::number::{counted, percent, three_digits, whole_size};
use crate::page::ReportDocument;
use crate::style::TextTone;
use crate::table::{ColumnAlignment, ReportTable, TableCell};
use pagewise_model::bench::file::{
    CacheResidency, FileBenchPart, FileBenchReport, FileJudgement, FilePoint, FileTimeAccount,
    FileWork, FileWorkPart,
};
use pagewise_model::bench::tlb::AccessOrder;
use pagewise_model::cache::FolioClass;
use pagewise_model::measured::median;

/// Columns, each with the kinds of work that it adds up.
const COLUMNS: [(&str, &[FileWork]); 7] = [
    ("entry", &[FileWork::Entry, FileWork::Open]),
    ("lookup", &[FileWork::Lookup]),
    ("reach", &[FileWork::Reach]),
    ("copy", &[FileWork::KernelCopy, FileWork::UserCopy, FileWork::Sum]),
    ("faults", &[FileWork::Faults, FileWork::FreshMemory, FileWork::Populate]),
    ("unmap", &[FileWork::Unmap]),
    ("wait", &[FileWork::Wait]),
];

/// A row for each explained cell of the usual block size.
pub(super) fn section(readings: &FileBenchReport) -> ReportDocument {
    let mut page = ReportDocument::default();
    let Some(judgement) = readings.judgement.as_ref().filter(|j| !j.accounts.is_empty()) else {
        return ReportDocument::default();
    };
    let Some(block) = usual_block(readings) else { return ReportDocument::default() };
    page.heading(&format!(
        "where the time goes, shares by counts times prices measured before: blocks of {}",
        whole_size(block)
    ));
    page.para(&summary(readings, judgement), 2, TextTone::Faint);
    let mut columns = vec![
        ("", ColumnAlignment::Left),
        ("", ColumnAlignment::Left),
        ("ms/GiB", ColumnAlignment::Decimal),
    ];
    columns.extend(COLUMNS.iter().map(|(title, _)| (*title, ColumnAlignment::Right)));
    columns.extend([("sum", ColumnAlignment::Right), ("beside", ColumnAlignment::Right)]);
    let mut table = ReportTable::new(&columns);
    let shown =
        readings.part(FileBenchPart::Blocks).filter(|(_, point)| point.cell.block_bytes == block);
    for (at, point) in shown {
        if let Some(account) = judgement.account(at) {
            table.row(row(point, account));
        }
    }
    page.table(table);
    page.para(
        "ms/GiB: undisturbed time of cached cells, the least CPU time of each slice over the processes; the shares refer to it. sum: the part of the time that they make up; beside: how far the median lies above it, because of other programs. entry: calls and opening; lookup: the rest of a call in order; reach: the extra cost of a block at random, in a mapping its whole cost apart from its bytes; copy: by kernel or program, in place the sum; faults: with populating and fresh memory",
        2,
        TextTone::Faint,
    );
    page
}

/// Every explained cell with its parts; shown only on pages.
pub(super) fn parts(readings: &FileBenchReport, judgement: &FileJudgement) -> ReportDocument {
    let mut table = ReportTable::new(&[
        ("", ColumnAlignment::Left),
        ("block", ColumnAlignment::Right),
        ("", ColumnAlignment::Left),
        ("ms/GiB", ColumnAlignment::Decimal),
        ("explained", ColumnAlignment::Right),
        ("disturbed", ColumnAlignment::Right),
        ("parts, ms/GiB", ColumnAlignment::Left),
    ]);
    for account in &judgement.accounts {
        let Some(point) = readings.points.get(account.point) else { continue };
        let cell = &point.cell;
        let part = |part: &FileWorkPart| {
            let ms = three_digits(part.per_gib_ns / 1e6);
            format!("{} {ms} ({})", part.work.into_str(), part.evidence)
        };
        let parts: Vec<String> = account.parts.iter().map(part).collect();
        table.row(vec![
            cell.arm.into_str().into(),
            whole_size(cell.block_bytes).into(),
            format!("{}, {}", cell.order.into_str(), cell.residency.into_str()).into(),
            three_digits(account.per_gib_ns / 1e6).into(),
            percent(account.explained_share()).into(),
            percent(account.disturbed_share()).into(),
            TableCell::new(parts.join("; "), TextTone::Faint),
        ]);
    }
    let mut page = ReportDocument::default();
    if !table.is_empty() {
        page.details(
            "where the time goes: the parts of every cell, by counts times prices",
            table.into(),
        );
    }
    page
}

fn row(point: &FilePoint, account: &FileTimeAccount) -> Vec<TableCell> {
    let cell = &point.cell;
    let order = if cell.order == AccessOrder::Sequential { "in order" } else { "random" };
    let state = if cell.residency == CacheResidency::Cold { ", cold" } else { "" };
    let shown =
        |share: f64| TableCell::from(if share > 0.0 { percent(share) } else { String::new() });
    let mut row = vec![
        cell.arm.into_str().into(),
        format!("{order}{state}").into(),
        three_digits(account.per_gib_ns / 1e6).into(),
    ];
    row.extend(COLUMNS.iter().map(|(_, works)| shown(account.share(works))));
    let reported = 1.0 - account.unexplained_per_gib_ns / account.per_gib_ns;
    row.push(TableCell::new(percent(reported), TextTone::Strong));
    row.push(shown(account.disturbed_share()));
    row
}

/// The explained share of the time, over all cells.
fn summary(readings: &FileBenchReport, judgement: &FileJudgement) -> String {
    let of = |residency: CacheResidency| {
        let accounts = judgement.accounts.iter().filter(|account| {
            let point = readings.points.get(account.point);
            point.is_some_and(|point| point.cell.residency == residency)
        });
        accounts.map(FileTimeAccount::explained_share).collect::<Vec<f64>>()
    };
    let tell = |residency: CacheResidency| {
        let shares = of(residency);
        let least = shares.iter().copied().reduce(f64::min)?;
        Some(format!(
            "of {} {} {} of the time, the least {}",
            counted(shares.len() as u64, "cell", "cells"),
            residency.into_str(),
            percent(median(&shares)?),
            percent(least)
        ))
    };
    let reported: Vec<String> =
        [CacheResidency::Warm, CacheResidency::Cold].into_iter().filter_map(tell).collect();
    let on = |folios: FolioClass| format!(" Prices of a file on {}.", folios.into_str());
    let prices = readings.price_folios.map_or_else(String::new, on);
    format!("Median of the explained part: {}.{prices}", reported.join("; "))
}
