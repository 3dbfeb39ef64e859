//! The plan of an experiment and its verdicts. The first row of the table is the reference, each
//! other row says how much less or more than it.

use crate::number::{change, counted, interval, p_value, percent, signed_bytes};
use crate::page::Page;
use crate::style::{Style, Tone};
use crate::table::{Align, Cell, Table};
use pagewise_model::trial::{Block, Design, Experiment, Point, Verdict, Word};
use pagewise_model::usage::Usage;
use pagewise_model::{Bytes, Nanos};

/// From this width on CPU and memory have columns of their own.
const ROOMY: usize = 76;

/// The plan, announced before it starts.
#[must_use]
pub fn design_section(design: &Design, style: &Style) -> String {
    let mut page = Page::new(style);
    page.heading("plan");
    page.item("budget", &format!("{} for all experiments", design.budget_ns));
    for (label, arms) in [("screened", &design.screened), ("confirmed", &design.confirmed)] {
        let text = if arms.is_empty() { "none".to_owned() } else { arms.join(", ") };
        page.item(label, &text);
    }
    let blocks = counted(design.blocks.into(), "block", "blocks");
    page.item(
        "blocks",
        &format!("{blocks} of plain, plain again and each arm; random order, seed {}", design.seed),
    );
    let provable = design.smallest_provable_share.map_or_else(
        || "not known: too few runs to see the spread".to_owned(),
        |share| format!("a gain of {} or more, with 80% power", percent(share)),
    );
    page.item("can prove", &provable);
    let ten = design.budget_for_10_percent_ns.map_or_else(
        || "not known: too few runs to see the spread".to_owned(),
        |ns| format!("a budget of {ns}"),
    );
    page.item("10% needs", &ten);
    page.finish()
}

/// How a verdict is shown in a narrow column; between two commands (`ab`) nothing is kept.
/// A verdict in a word, `ab` where the run was one.
pub(crate) fn short_word(verdict: &Verdict, ab: bool) -> (&'static str, Tone) {
    let slower = verdict.effect.as_ref().is_some_and(|e| e.ratio_low > 1.0);
    match verdict.word {
        Word::Keep if ab => ("faster", Tone::Good),
        Word::Keep => ("keep", Tone::Good),
        Word::Reject if ab && slower => ("slower", Tone::Bad),
        Word::Reject => ("reject", Tone::Bad),
        Word::Equivalent => ("equivalent", Tone::Plain),
        Word::CannotTell => ("cannot tell", Tone::Warn),
        Word::NotProven => ("not proven", Tone::Warn),
    }
}

/// Every arm that was tried, with the reason of its verdict under it; in the words of `ab` where
/// asked.
pub(crate) fn tried_section(experiment: &Experiment, ab: bool, style: &Style) -> String {
    let mut page = Page::new(style);
    page.heading("what was tried (time, CPU and memory against the first row)");
    page.append(&arms_table(experiment, ab, style));
    if experiment.verdicts.is_empty() {
        page.para("no arm has a verdict", 2, Tone::Plain);
    }
    page.para(&blocks_text(experiment), 2, Tone::Faint);
    if let Some(text) = control_text(experiment) {
        page.para(&text, 2, Tone::Faint);
    }
    for warning in &experiment.warnings {
        page.bullet(warning, Tone::Warn);
    }
    page.finish()
}

fn arms_table(experiment: &Experiment, ab: bool, style: &Style) -> String {
    let roomy = style.columns() >= ROOMY;
    let mut columns = vec![("arm", Align::Name), ("time", Align::Decimal), ("95%", Align::Decimal)];
    if roomy {
        columns.extend([("CPU", Align::Decimal), ("memory", Align::Decimal)]);
    }
    columns.extend([("p", Align::Decimal), ("blocks", Align::Right), ("verdict", Align::Left)]);
    let mut table = Table::new(&columns);
    if let Some(cells) = control_row(experiment, roomy) {
        table.row(cells);
    }
    for verdict in &experiment.verdicts {
        let mut under = Page::new(style);
        if !roomy {
            let text = format!("CPU {}; memory {}", cpu(verdict), memory(verdict));
            under.para(&text, 6, Tone::Plain);
        }
        under.para(&verdict.why, 6, Tone::Faint);
        if let Some(text) = with_host(verdict) {
            under.para(&text, 6, Tone::Faint);
        }
        table.row_with(verdict_row(verdict, roomy, ab), under.finish());
    }
    table.render(style)
}

fn verdict_row(verdict: &Verdict, roomy: bool, ab: bool) -> Vec<Cell> {
    let (word, tone) = short_word(verdict, ab);
    let mut row: Vec<Cell> = vec![verdict.arm.as_str().into()];
    match &verdict.effect {
        Some(e) => {
            row.push(Cell::new(change(e.ratio), tone));
            row.push(interval(e.ratio, e.ratio_low, e.ratio_high).into());
        }
        None => row.extend(["no blocks".into(), "".into()]),
    }
    if roomy {
        row.extend([cpu(verdict).into(), memory(verdict).into()]);
    }
    match &verdict.effect {
        Some(e) => {
            let p = if e.ratio <= 1.0 { e.p_faster } else { e.p_slower };
            row.extend([p_value(p).into(), e.blocks.to_string().into()]);
        }
        None => row.extend(["".into(), "none".into()]),
    }
    row.push(Cell::new(word, tone));
    row
}

/// The effect with the blocks counted that were dropped because of the host.
pub(crate) fn with_host(verdict: &Verdict) -> Option<String> {
    let all = verdict.effect.as_ref()?.with_host.as_ref()?;
    let range = interval(all.ratio, all.ratio_low, all.ratio_high);
    let blocks = counted(all.blocks.into(), "block", "blocks");
    let change = change(all.ratio);
    Some(format!("with the host's blocks counted: {change} (95% interval {range}), {blocks}"))
}

fn cpu(verdict: &Verdict) -> String {
    verdict.cpu_ratio.map_or_else(|| "no data".to_owned(), change)
}

fn memory(verdict: &Verdict) -> String {
    verdict.peak_rss_change_bytes.map_or_else(|| "no data".to_owned(), signed_bytes)
}

/// Points of the control in the blocks that count: whatever no verdict is about.
fn control_points(experiment: &Experiment) -> Vec<&Point> {
    let is_arm = |name: &str| {
        experiment.verdicts.iter().any(|v| v.arm == name)
            || experiment.design.confirmed.iter().any(|arm| arm == name)
    };
    let counting = experiment.blocks.iter().filter(|b| b.dropped.is_none());
    counting.flat_map(|b| &b.points).filter(|p| !is_arm(&p.arm)).collect()
}

fn control_row(experiment: &Experiment, roomy: bool) -> Option<Vec<Cell>> {
    let points = control_points(experiment);
    let name = points.iter().map(|p| p.arm.as_str()).find(|name| !name.ends_with('\''))?;
    let runs: Vec<Usage> = points.iter().map(|p| p.usage.clone()).collect();
    let median = |of| crate::look::median(&runs, of);
    let mut row: Vec<Cell> =
        vec![name.into(), Nanos(median(|u| u.wall_ns.0)?).to_string().into(), "".into()];
    if roomy {
        row.push(Nanos(median(|u| u.cpu_ns().0)?).to_string().into());
        row.push(Bytes(median(|u| u.peak_rss_bytes.0)?).to_string().into());
    }
    let blocks = experiment.blocks.iter().filter(|b| b.dropped.is_none()).count();
    row.extend(["".into(), blocks.to_string().into(), "reference".into()]);
    Some(row)
}

/// Reasons without their figures ("... by 8%", "... for 5% of a run"), and how often each.
fn kinds<'a>(reasons: &[&'a str]) -> Vec<(&'a str, usize)> {
    let mut found: Vec<(&str, usize)> = Vec::new();
    for reason in reasons {
        let figure = [" by ", " for "].iter().filter_map(|word| reason.rfind(word)).max();
        let kind = &reason[..figure.unwrap_or(reason.len())];
        match found.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count += 1,
            None => found.push((kind, 1)),
        }
    }
    found
}

fn blocks_text(experiment: &Experiment) -> String {
    let planned = experiment.design.blocks;
    let ran = experiment.blocks.len() as u64;
    let mut text = format!("{} of {planned} planned", counted(ran, "block", "blocks"));
    let dropped: Vec<&str> =
        experiment.blocks.iter().filter_map(|b: &Block| b.dropped.as_deref()).collect();
    if !dropped.is_empty() {
        let reasons: Vec<String> =
            kinds(&dropped).into_iter().map(|(kind, count)| format!("{kind}: {count}")).collect();
        text.push_str(&format!(", {} dropped ({})", dropped.len(), reasons.join("; ")));
    }
    let kept = experiment.blocks.iter().filter(|b| b.dropped.is_none() && b.host.is_some());
    match kept.count() {
        0 => {}
        kept => text.push_str(&format!(", {kept} counted though the host interfered")),
    }
    if experiment.interrupted {
        text.push_str("; interrupted before the rest");
    }
    text
}

/// The reference against itself: what the machine's noise alone looks like.
fn control_text(experiment: &Experiment) -> Option<String> {
    let effect = experiment.verdicts.iter().find_map(|v| v.effect.as_ref())?;
    let (change, p) = (change(effect.control_ratio), p_value(effect.control_p));
    Some(format!("the reference against itself: {change} (p {p})"))
}
