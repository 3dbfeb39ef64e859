//! The two arms of `bench text -- COMMAND`: the code files of a program, how much of their text was on huge
//! pages in each arm, the same after each run, and page-table walks for code.

use crate::code_tlb;
use crate::number::{counted, percent};
use crate::page::ReportDocument;
use crate::style::TextTone;
use crate::table::{ColumnAlignment, ReportTable, TableCell};
use pagewise_model::look::WalkCounts;
use pagewise_model::text_trial::{FileInArms, ON, TextTrial};
use pagewise_model::trial::{ArmRun, Experiment};
use pagewise_model::{Bytes, Fact};

/// The arms as terminal text; `experiment` is the one that compared them.
#[must_use]
pub fn text_trial_section(trial: &TextTrial, experiment: Option<&Experiment>) -> ReportDocument {
    let mut page = ReportDocument::default();
    if trial.files.is_empty() {
        page.item("iTLB", &code_tlb::of_trial(trial));
        return page;
    }
    page.heading("text on huge pages, as the kernel showed it to a start of each arm");
    let mut table = ReportTable::new(&[
        ("file", ColumnAlignment::Name),
        ("text", ColumnAlignment::Decimal),
        ("off", ColumnAlignment::Decimal),
        ("on", ColumnAlignment::Decimal),
        ("", ColumnAlignment::Left),
    ]);
    for file in &trial.files {
        table.row(vec![
            file.path.as_str().into(),
            file.text_bytes.to_string().into(),
            file.off_huge_bytes.to_string().into(),
            file.on_huge_bytes.to_string().into(),
            TableCell::new(covered(file), TextTone::Faint),
        ]);
    }
    page.append(table);
    if let Some(experiment) = experiment {
        page.para(&held(experiment), 2, TextTone::Faint);
    }
    for left in &trial.left {
        page.para(&format!("unchanged: {}: {}", left.path, left.why), 2, TextTone::Faint);
    }
    page.para(&walks(trial), 2, TextTone::Faint);
    page.para(&format!("iTLB: {}", code_tlb::of_trial(trial)), 2, TextTone::Faint);
    page
}

/// How much of the program's code was on huge pages in each arm, in a sentence.
pub(crate) fn summary(trial: &TextTrial) -> String {
    let sum = |of: fn(&FileInArms) -> Bytes| {
        trial.files.iter().fold(Bytes(0), |sum, file| sum + of(file))
    };
    format!(
        "{} of {} in {} on huge pages in the arm on, {} in the arm off",
        sum(|file| file.on_huge_bytes),
        sum(|file| file.text_bytes),
        counted(trial.files.len() as u64, "file", "files"),
        sum(|file| file.off_huge_bytes)
    )
}

/// The share of a file's text that is on huge pages in the arm with huge pages.
fn covered(file: &FileInArms) -> String {
    match file.text_bytes {
        Bytes(0) => String::new(),
        Bytes(text) => percent(file.on_huge_bytes.0 as f64 / text as f64),
    }
}

/// The counter of huge pages after the runs of each arm, in a sentence.
fn held(experiment: &Experiment) -> String {
    let blocks = experiment.blocks.iter().filter(|block| block.dropped.is_none());
    let points: Vec<&ArmRun> = blocks.flat_map(|block| &block.points).collect();
    let on: Vec<u64> = points.iter().filter_map(|point| point.mechanism).collect();
    let idle = |point: &&ArmRun| {
        let of_on = point.idle_mechanisms.iter().find(|(arm, _)| arm == ON);
        of_on.map(|(_, count)| *count)
    };
    let off: Vec<u64> = points.iter().filter_map(idle).collect();
    format!("huge pages of these files mapped in each run: {} on, {} off", range(&on), range(&off))
}

fn range(counts: &[u64]) -> String {
    let runs = counted(counts.len() as u64, "run", "runs");
    match (counts.iter().min(), counts.iter().max()) {
        (Some(least), Some(most)) if least == most => format!("{least} in {runs}"),
        (Some(least), Some(most)) => format!("{least} to {most} in {runs}"),
        _ => "not read".to_owned(),
    }
}

/// Page-table walks for code in both arms, in a sentence.
fn walks(trial: &TextTrial) -> String {
    let share = |walks: &Fact<WalkCounts>| match walks {
        Fact::Known(counts) => {
            let of = counts.code_walk_cycles as f64 / counts.cycles.max(1) as f64;
            Ok(percent(of))
        }
        Fact::Missing(why) => Err(why.clone()),
    };
    match (share(&trial.off_walks), share(&trial.on_walks)) {
        (Ok(off), Ok(on)) => {
            format!("cycles in walks of the page table for code: {off} off, {on} on")
        }
        (Err(why), _) | (_, Err(why)) => {
            format!("walks of the page table for code are not counted: {why}")
        }
    }
}
