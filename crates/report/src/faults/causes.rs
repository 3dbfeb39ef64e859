//! When faults occurred, their callers, repeated faults, and remedies.

use super::{function_rows, groups, site_line, tallies, timed_wall};
use crate::number::{counted, percent};
use crate::page::ReportDocument;
use crate::style::TextTone;
use pagewise_model::fault::{
    FaultCallers, FaultReport, FaultSaving, FaultSite, FaultTally, GroupTally, StackEnd,
    StackRecording,
};
use pagewise_model::{Fact, Nanos};

/// All causes as lines.
pub(super) fn section(report: &FaultReport) -> ReportDocument {
    let wall = timed_wall(report);
    let mut page = ReportDocument::default();
    page.section(groups("when", &report.by_phase, |k| k.into_str().into(), wall));
    page.section(callers(&report.callers, wall));
    page.section(churn(report, wall));
    page.section(savings(&report.savings, report.wall_ns));
    page
}

/// The functions behind the faults, then the faults without a function, with the reason.
pub(crate) fn caller_rows(
    callers: &FaultCallers,
    name: fn(&FaultSite) -> String,
) -> impl Iterator<Item = (String, FaultTally)> {
    let unnamed = |group: &GroupTally<StackEnd>| {
        (format!("not known: {}", group.kind.into_str()), group.tally)
    };
    function_rows(&callers.functions, name).chain(callers.unnamed.iter().map(unnamed))
}

fn callers(callers: &Fact<FaultCallers>, wall: Option<Nanos>) -> ReportDocument {
    let mut page = ReportDocument::default();
    match callers {
        Fact::Known(callers) => {
            page.append(tallies("callers", caller_rows(callers, site_line), wall));
            page.para(&how_callers_are_known(callers), 2, TextTone::Faint);
        }
        Fact::Missing(why) => {
            page.para(&format!("callers not known: {why}"), 2, TextTone::Faint);
        }
    }
    page
}

fn how_callers_are_known(callers: &FaultCallers) -> String {
    let of = match callers.asked {
        StackRecording::Copied => "one of every fault",
        StackRecording::None
        | StackRecording::Sampled
        | StackRecording::Periodic
        | StackRecording::FramePointers => {
            "of some faults, which represent the others of their instruction"
        }
    };
    let lost = match callers.lost_stacks {
        0 => String::new(),
        n => format!("; {} lost", counted(n, "stack", "stacks")),
    };
    format!(
        "the first function outside standard libraries, the loader and allocators, by {} ({of}{lost})",
        counted(callers.stacks, "stack", "stacks")
    )
}

fn churn(report: &FaultReport, wall: Option<Nanos>) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.append(groups("on a page again", &report.churn.by_reason, |k| k.into_str().into(), wall));
    let functions = function_rows(&report.churn.functions, site_line);
    page.section(tallies("pages that were gone, by", functions, wall));
    page
}

fn savings(savings: &[FaultSaving], wall: Nanos) -> ReportDocument {
    let mut page = ReportDocument::default();
    if !savings.is_empty() {
        page.para(
            "what could remove them (upper bounds; `pagewise tune` tries and proves)",
            2,
            TextTone::Faint,
        );
    }
    for saving in savings {
        page.bullet(&saving_line(saving, wall), TextTone::Plain);
    }
    page
}

/// A remedy with the most that it would save.
pub(super) fn saving_line(saving: &FaultSaving, wall: Nanos) -> String {
    format!(
        "{}: at most {} fewer, {} ({} of wall time): {}",
        saving.remedy,
        counted(saving.faults, "fault", "faults"),
        saving.time_ns,
        percent(super::share(saving.time_ns, wall)),
        saving.why
    )
}
