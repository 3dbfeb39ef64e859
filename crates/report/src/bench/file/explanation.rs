//! Explains the time: for each way, a row of shares. A share is a count times a price measured before.

use super::grid::usual_block;
use crate::number::{counted, percent, three_digits, whole_size};
use crate::page::Document;
use crate::style::Tone;
use crate::table::{Align, Cell, Table};
use pagewise_model::bench::file::{
    Account, Judgement, Part, Point, Readings, Residency, Work, WorkPart,
};
use pagewise_model::bench::tlb::Order;
use pagewise_model::cache::FolioClass;
use pagewise_model::measured::median;

/// Columns, each with the kinds of work that it adds up.
const COLUMNS: [(&str, &[Work]); 7] = [
    ("entry", &[Work::Entry, Work::Open]),
    ("lookup", &[Work::Lookup]),
    ("reach", &[Work::Reach]),
    ("copy", &[Work::KernelCopy, Work::UserCopy, Work::Sum]),
    ("faults", &[Work::Faults, Work::FreshMemory, Work::Populate]),
    ("unmap", &[Work::Unmap]),
    ("wait", &[Work::Wait]),
];

/// A row for each explained cell of the usual block size.
pub(super) fn section(readings: &Readings) -> Document {
    let mut page = Document::default();
    let Some(judgement) = readings.judgement.as_ref().filter(|j| !j.accounts.is_empty()) else {
        return Document::default();
    };
    let Some(block) = usual_block(readings) else { return Document::default() };
    page.heading(&format!(
        "where the time goes, shares by counts times prices measured before: blocks of {}",
        whole_size(block)
    ));
    page.para(&summary(readings, judgement), 2, Tone::Faint);
    let mut columns = vec![("", Align::Left), ("", Align::Left), ("ms/GiB", Align::Decimal)];
    columns.extend(COLUMNS.iter().map(|(title, _)| (*title, Align::Right)));
    columns.extend([("sum", Align::Right), ("beside", Align::Right)]);
    let mut table = Table::new(&columns);
    let shown = readings.part(Part::Blocks).filter(|(_, point)| point.cell.block_bytes == block);
    for (at, point) in shown {
        if let Some(account) = judgement.account(at) {
            table.row(row(point, account));
        }
    }
    page.table(table);
    page.para(
        "ms/GiB: undisturbed time of cached cells, the least CPU time of each slice over the processes; the shares refer to it. sum: the part of the time that they make up; beside: how far the median lies above it, because of other programs. entry: calls and opening; lookup: the rest of a call in order; reach: the extra cost of a block at random, in a mapping its whole cost apart from its bytes; copy: by kernel or program, in place the sum; faults: with populating and fresh memory",
        2,
        Tone::Faint,
    );
    page
}

/// Every explained cell with its parts; shown only on pages.
pub(super) fn parts(readings: &Readings, judgement: &Judgement) -> Document {
    let mut table = Table::new(&[
        ("", Align::Left),
        ("block", Align::Right),
        ("", Align::Left),
        ("ms/GiB", Align::Decimal),
        ("explained", Align::Right),
        ("disturbed", Align::Right),
        ("parts, ms/GiB", Align::Left),
    ]);
    for account in &judgement.accounts {
        let Some(point) = readings.points.get(account.point) else { continue };
        let cell = &point.cell;
        let part = |part: &WorkPart| {
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
            Cell::new(parts.join("; "), Tone::Faint),
        ]);
    }
    let mut page = Document::default();
    if !table.is_empty() {
        page.details(
            "where the time goes: the parts of every cell, by counts times prices",
            table.into(),
        );
    }
    page
}

fn row(point: &Point, account: &Account) -> Vec<Cell> {
    let cell = &point.cell;
    let order = if cell.order == Order::Sequential { "in order" } else { "random" };
    let state = if cell.residency == Residency::Cold { ", cold" } else { "" };
    let shown = |share: f64| Cell::from(if share > 0.0 { percent(share) } else { String::new() });
    let mut row = vec![
        cell.arm.into_str().into(),
        format!("{order}{state}").into(),
        three_digits(account.per_gib_ns / 1e6).into(),
    ];
    row.extend(COLUMNS.iter().map(|(_, works)| shown(account.share(works))));
    let reported = 1.0 - account.unexplained_per_gib_ns / account.per_gib_ns;
    row.push(Cell::new(percent(reported), Tone::Strong));
    row.push(shown(account.disturbed_share()));
    row
}

/// The explained share of the time, over all cells.
fn summary(readings: &Readings, judgement: &Judgement) -> String {
    let of = |residency: Residency| {
        let accounts = judgement.accounts.iter().filter(|account| {
            let point = readings.points.get(account.point);
            point.is_some_and(|point| point.cell.residency == residency)
        });
        accounts.map(Account::explained_share).collect::<Vec<f64>>()
    };
    let tell = |residency: Residency| {
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
        [Residency::Warm, Residency::Cold].into_iter().filter_map(tell).collect();
    let on = |folios: FolioClass| format!(" Prices of a file on {}.", folios.into_str());
    let prices = readings.price_folios.map_or_else(String::new, on);
    format!("Median of the explained part: {}.{prices}", reported.join("; "))
}
