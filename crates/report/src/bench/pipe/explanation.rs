//! Explains what became cheaper from rung to rung, and which sizes suit.
//!
//! Changes are times of both ends per GiB. Small parts are shown as one sum. The unexplained rest always has
//! its own line.

use super::calls::CallTree;
use super::{consumption_label, picture};
use crate::number::{UNKNOWN, counted, percent, three_digits, whole_size};
use crate::page::ReportDocument;
use crate::style::TextTone;
use crate::table::{ColumnAlignment, ReportTable, TableCell};
use pagewise_model::bench::pipe::{
    PipeBenchReport, PipeConsumption, PipeJudgement, PipeRatio, PipeTimeAccount, PointSpeed,
    RungStep,
};
use pagewise_model::look::CpuSamples;
use pagewise_model::{Fact, Nanos};

/// Least share of a step's largest change for a part to be shown alone.
const TOLD: f64 = 0.02;

/// Every step by reference, its parts, and the calls under it if there are samples.
pub(super) fn explanation(ladder: &PipeBenchReport, judgement: &PipeJudgement) -> ReportDocument {
    let mut page = ReportDocument::default();
    let steps = judgement.steps.iter();
    let shown: Vec<&RungStep> = steps
        .filter(|step| consumption(ladder, step) == Some(PipeConsumption::Untouched))
        .collect();
    if !shown.is_empty() {
        page.heading("why: change of the time of both ends for each GiB, by reference");
        let text =
            "counts of the repeats times prices measured before; the rest is shown as unexplained";
        page.para(text, 2, TextTone::Faint);
    }
    for step in shown {
        page.append(one(ladder, judgement, step));
    }
    page.section(profiles(ladder, judgement));
    for consumption in PipeConsumption::ALL {
        picture::accounts(ladder, judgement, consumption)
            .into_iter()
            .for_each(|svg| page.figure(svg));
    }
    for step in &judgement.steps {
        page.append(details(ladder, judgement, step));
    }
    page
}

/// The profile that the study published of a rung, beside this machine's; empty without samples of such a rung.
fn profiles(ladder: &PipeBenchReport, judgement: &PipeJudgement) -> ReportDocument {
    let mut page = ReportDocument::default();
    let mut table = ReportTable::new(&[
        ("", ColumnAlignment::Left),
        ("", ColumnAlignment::Left),
        ("published", ColumnAlignment::Right),
        ("here", ColumnAlignment::Right),
        ("", ColumnAlignment::Name),
    ]);
    for account in &judgement.accounts {
        let samples = account.samples.known().map_or(0, CpuSamples::total);
        let samples = counted(samples, "sample", "samples");
        let rung = format!("{}, {samples}", picture::rung_name(ladder, account.point));
        for (at, line) in account.published.iter().enumerate() {
            table.row(vec![
                if at == 0 { rung.as_str() } else { "" }.into(),
                line.work.into_str().into(),
                percent(line.published_share).into(),
                TableCell::new(percent(line.share), TextTone::Strong),
                TableCell::new(line.function.as_str(), TextTone::Faint),
            ]);
        }
    }
    if !table.is_empty() {
        page.heading("functions of the producer: share of the samples of both ends");
        page.append(table);
    }
    page
}

/// A step with the calls under it; shown only on pages.
fn details(ladder: &PipeBenchReport, judgement: &PipeJudgement, step: &RungStep) -> ReportDocument {
    let title = format!(
        "{} to {}, {}: {}, {} for each GiB",
        picture::rung_name(ladder, step.from),
        picture::rung_name(ladder, step.to),
        consumption(ladder, step).map_or(UNKNOWN, consumption_label),
        pace(&step.comparison),
        signed(step.change_per_gib_ns)
    );
    let mut inside = ReportDocument::from(parts(judgement, step));
    if let Some(account) = judgement.account(step.to) {
        inside.append(notes(account));
        match &account.samples {
            Fact::Known(samples) => inside.append(CallTree::from_samples(samples).details()),
            Fact::Missing(why) => {
                inside.para(&format!("no calls to show: {why}"), 0, TextTone::Faint)
            }
        }
        let took = Nanos::from_f64(account.per_gib_ns);
        inside.para(&format!("{took} of both ends for each GiB"), 0, TextTone::Faint);
    }
    let mut page = ReportDocument::default();
    page.details(&title, inside);
    page
}

/// Work without a price, and what samples say about it.
fn notes(account: &PipeTimeAccount) -> ReportDocument {
    let mut page = ReportDocument::default();
    if !account.not_priced.is_empty() {
        let names: Vec<&str> = account.not_priced.iter().map(|work| work.into_str()).collect();
        page.para(&format!("no price for: {}", names.join(", ")), 6, TextTone::Faint);
    }
    for disagreement in &account.disagreements {
        page.para(&format!("samples disagree: {disagreement}"), 6, TextTone::Warn);
    }
    page
}

fn one(ladder: &PipeBenchReport, judgement: &PipeJudgement, step: &RungStep) -> ReportDocument {
    let mut page = ReportDocument::default();
    let (from, to) = (picture::rung_name(ladder, step.from), picture::rung_name(ladder, step.to));
    let head = format!("{from} -> {to}: {}", pace(&step.comparison));
    page.hanging(&head, 2);
    page.append(parts(judgement, step));
    let Some(account) = judgement.account(step.to) else { return page };
    page.append(notes(account));
    if let Fact::Known(samples) = &account.samples {
        page.append(CallTree::from_samples(samples).terminal());
    }
    page
}

/// The consumption of a step; `None` if a saved file names a point that does not exist.
fn consumption(ladder: &PipeBenchReport, step: &RungStep) -> Option<PipeConsumption> {
    ladder.points.get(step.to).map(|point| point.consumption)
}

/// `4.81 times the rate (95% interval 4.60 to 5.02)`.
fn pace(comparison: &PipeRatio) -> String {
    let word = match comparison.pace {
        PointSpeed::Faster => "faster",
        PointSpeed::Slower => "slower",
        PointSpeed::CannotTell => "cannot tell",
    };
    let range = match &comparison.interval {
        Fact::Known((low, high)) => {
            format!(" (95% interval {} to {})", three_digits(*low), three_digits(*high))
        }
        Fact::Missing(_) => String::new(),
    };
    format!("{word}, {} times the rate{range}", three_digits(comparison.ratio))
}

/// `-50.0 ms`.
fn signed(ns: f64) -> String {
    let sign = if ns < 0.0 { "-" } else { "+" };
    format!("{sign}{}", Nanos::from_f64(ns.abs()))
}

/// The parts that get their own line, and the sum of the others.
fn parts_shown(step: &RungStep) -> (Vec<(&'static str, f64)>, f64) {
    let largest = step.parts.iter().map(|(_, ns)| ns.abs()).fold(0.0, f64::max);
    let (large, small): (Vec<_>, Vec<_>) =
        step.parts.iter().copied().partition(|(_, ns)| ns.abs() >= TOLD * largest);
    let large = large.into_iter().map(|(work, ns)| (work.into_str(), ns)).collect();
    (large, small.into_iter().map(|(_, ns)| ns).sum())
}

/// A part as a share of the whole change; empty if the share says nothing.
fn share_of_change(step: &RungStep, ns: f64) -> String {
    let share = (ns / step.change_per_gib_ns).abs();
    if share.is_finite() { percent(share) } else { String::new() }
}

fn parts(judgement: &PipeJudgement, step: &RungStep) -> ReportTable {
    let mut table = ReportTable::new(&[
        ("", ColumnAlignment::Left),
        ("", ColumnAlignment::Decimal),
        ("", ColumnAlignment::Right),
        ("", ColumnAlignment::Name),
    ]);
    let account = judgement.account(step.to);
    let mut row = |name: &str, ns: f64, what: String, tone: TextTone| {
        table.row(vec![
            TableCell::new(format!("    {name}"), tone),
            TableCell::new(signed(ns), tone),
            TableCell::new(share_of_change(step, ns), TextTone::Faint),
            TableCell::new(what, TextTone::Faint),
        ]);
    };
    let (large, rest) = parts_shown(step);
    for (name, ns) in large {
        let now = account.and_then(|a| a.parts.iter().find(|p| p.work.into_str() == name));
        let what = now.map_or_else(|| "none now".to_owned(), |p| format!("now {}", p.evidence));
        row(name, ns, what, TextTone::Plain);
    }
    if rest != 0.0 {
        row("other parts", rest, String::new(), TextTone::Faint);
    }
    row("unexplained", step.unexplained_per_gib_ns, String::new(), TextTone::Warn);
    row("together", step.change_per_gib_ns, now_text(judgement, step), TextTone::Strong);
    table
}

fn now_text(judgement: &PipeJudgement, step: &RungStep) -> String {
    let ns = |at| judgement.account(at).map(|a| Nanos::from_f64(a.per_gib_ns).to_string());
    match (ns(step.from), ns(step.to)) {
        (Some(from), Some(to)) => format!("{from} to {to}"),
        _ => String::new(),
    }
}

/// The sizes that suit each technique.
pub(super) fn advice(judgement: &PipeJudgement) -> ReportDocument {
    let mut page = ReportDocument::default();
    if !judgement.advice.is_empty() {
        page.heading("suitable sizes");
    }
    for advice in &judgement.advice {
        let text = format!(
            "{}, {}: {} GiB/s with buffer {} and pipe {}; pipe {} is as good",
            advice.rung,
            consumption_label(advice.consumption),
            three_digits(advice.gib_per_s),
            whole_size(advice.buffer_bytes),
            whole_size(advice.pipe_bytes),
            whole_size(advice.enough_pipe_bytes),
        );
        page.hanging(&text, 2);
        page.para(&advice.why, 6, TextTone::Faint);
    }
    page
}
