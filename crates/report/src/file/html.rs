//! One page with everything: the picture, a table of each grid, what to do, how it was measured.

use super::grid::{Entry, Grid, grids};
use super::{CLAIMS, picture};
use crate::chart::escape_markup;
use crate::document;
use crate::number::{percent, three_digits, whole_size};
use crate::{advice, claims};
use pagewise_model::file::{Account, Judgement, Readings, WorkPart};

/// What stands on the page of a run between its headline and how it was measured.
pub(crate) fn body(readings: &Readings, caption: &str) -> String {
    let mut out = String::new();
    if let Some(judgement) = &readings.judgement {
        out.push_str(&advice::html(&judgement.advice));
    }
    out.push_str(&format!("<figure>{}</figure>\n", picture::svg(readings, caption)));
    grids(readings).iter().for_each(|grid| out.push_str(&table(grid)));
    if let Some(judgement) = &readings.judgement {
        out.push_str(&explanation(readings, judgement));
        out.push_str(&claims::html(CLAIMS, &judgement.claims));
    }
    out
}

/// Every explained cell with its parts.
fn explanation(readings: &Readings, judgement: &Judgement) -> String {
    let row = |account: &Account| {
        let cell = &readings.points.get(account.point)?.cell;
        let part = |part: &WorkPart| {
            let ms = three_digits(part.per_gib_ns / 1e6);
            format!("{} {ms} ({})", part.work.label(), part.evidence)
        };
        let parts: Vec<String> = account.parts.iter().map(part).collect();
        Some(format!(
            "<tr><td>{}</td><td>{}</td><td>{}, {}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td class=\"text faint\">{}</td></tr>\n",
            cell.arm.label(),
            whole_size(cell.block_bytes),
            cell.order.label(),
            cell.residency.label(),
            three_digits(account.per_gib_ns / 1e6),
            percent(account.explained_share()),
            percent(account.disturbed_share()),
            escape_markup(&parts.join("; "))
        ))
    };
    let rows: String = judgement.accounts.iter().filter_map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    format!(
        "<details><summary>Where the time goes, by counts times prices taken before</summary>\n\
         <div class=\"wide\"><table>\n<thead><tr><th></th><th>block</th><th></th><th>ms/GiB</th>\
         <th>explained</th><th>disturbed</th><th>parts, ms/GiB</th></tr></thead>\n{rows}</table></div></details>\n"
    )
}

fn table(grid: &Grid) -> String {
    let heads = grid.columns.iter().map(|name| format!("<th>{}</th>", escape_markup(name)));
    let mut out = format!(
        "<details><summary>{}, GiB/s by {}</summary>\n<div class=\"wide\"><table>\n<thead><tr>\
         <th></th>{}</tr></thead>\n",
        escape_markup(&grid.title),
        grid.columns_are,
        heads.collect::<String>()
    );
    for (name, entries) in &grid.rows {
        let cells: String = entries.iter().map(cell).collect();
        out.push_str(&format!("<tr><td>{}</td>{cells}</tr>\n", escape_markup(name)));
    }
    out + "</table></div></details>\n"
}

fn cell(entry: &Entry) -> String {
    match entry {
        Entry::Rate(rate) => document::cell(rate),
        Entry::Refused(why) => {
            format!("<td class=\"warn\" title=\"{}\">refused</td>", escape_markup(why))
        }
        Entry::Missing(why) => document::empty_cell(why),
        Entry::Empty => "<td></td>".to_owned(),
    }
}
