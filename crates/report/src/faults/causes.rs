//! When faults came, who is behind them, which came again, and what would remove them.

use super::{LISTED, groups, site_name, table_of, tally_cells, timed_wall};
use crate::number::{counted, percent};
use crate::page::Page;
use crate::style::{Style, Tone};
use crate::table::{Cell, Table};
use pagewise_model::fault::{
    Callers, FaultReport, FunctionTally, GroupTally, Saving, StackEnd, Stacks, Tally,
};
use pagewise_model::{Fact, Nanos};

/// All of it as lines.
pub(super) fn section(report: &FaultReport, style: &Style) -> String {
    let wall = timed_wall(report);
    let mut page = Page::new(style);
    page.section(&groups("when", &report.by_phase, |k| k.label().into(), wall, style));
    page.section(&callers(&report.callers, wall, style));
    page.section(&churn(report, wall, style));
    page.section(&savings(&report.savings, report.wall_ns, style));
    page.finish()
}

/// The functions behind the faults, then the faults that have none, with the reason.
pub(super) fn caller_rows(callers: &Callers) -> impl Iterator<Item = (String, Tally)> {
    let named = callers.functions.iter().take(LISTED);
    let unnamed = callers.unnamed.iter();
    named
        .map(|one| (site_name(&one.site), one.tally))
        .chain(unnamed.map(|group| (unnamed_row(group), group.tally)))
}

fn unnamed_row(group: &GroupTally<StackEnd>) -> String {
    format!("not known: {}", group.kind.label())
}

fn callers(callers: &Fact<Callers>, wall: Option<Nanos>, style: &Style) -> String {
    let mut page = Page::new(style);
    match callers {
        Fact::Known(callers) => {
            let mut table = table_of("who is behind them", wall);
            for (name, tally) in caller_rows(callers) {
                row(&mut table, name, &tally, wall);
            }
            page.append(&table.render(style));
            page.para(&how_callers_are_known(callers), 2, Tone::Faint);
        }
        Fact::Missing(why) => {
            page.para(&format!("who is behind them is not known: {why}"), 2, Tone::Faint);
        }
    }
    page.finish()
}

fn row(table: &mut Table, name: String, tally: &Tally, wall: Option<Nanos>) {
    table.row([Cell::from(name)].into_iter().chain(tally_cells(tally, wall)).collect());
}

fn how_callers_are_known(callers: &Callers) -> String {
    let of = match callers.asked {
        Stacks::Copied => "one of every fault",
        Stacks::None | Stacks::Sampled | Stacks::FramePointers => {
            "of some faults, which stand for the others of their instruction"
        }
    };
    let lost = match callers.lost_stacks {
        0 => String::new(),
        n => format!("; {} lost", counted(n, "stack", "stacks")),
    };
    format!(
        "the first function outside the C library, the loader and allocators, by {} ({of}{lost})",
        counted(callers.stacks, "stack", "stacks")
    )
}

fn churn(report: &FaultReport, wall: Option<Nanos>, style: &Style) -> String {
    let mut page = Page::new(style);
    page.append(&groups(
        "on a page again",
        &report.churn.by_reason,
        |k| k.label().into(),
        wall,
        style,
    ));
    let functions: Vec<&FunctionTally> = report.churn.functions.iter().take(LISTED).collect();
    if !functions.is_empty() {
        let mut table = table_of("pages that had gone, by", wall);
        for one in functions {
            row(&mut table, site_name(&one.site), &one.tally, wall);
        }
        page.section(&table.render(style));
    }
    page.finish()
}

fn savings(savings: &[Saving], wall: Nanos, style: &Style) -> String {
    let mut page = Page::new(style);
    if !savings.is_empty() {
        page.para(
            "what could remove them (upper bounds: `pagewise tune` tries and proves)",
            2,
            Tone::Faint,
        );
    }
    for saving in savings {
        page.bullet(&saving_line(saving, wall), Tone::Plain);
    }
    page.finish()
}

/// A remedy with what it would save at most.
pub(super) fn saving_line(saving: &Saving, wall: Nanos) -> String {
    format!(
        "{}: at most {} fewer, {} ({} of wall time): {}",
        saving.remedy,
        counted(saving.faults, "fault", "faults"),
        saving.time_ns,
        percent(super::share(saving.time_ns, wall)),
        saving.why
    )
}
