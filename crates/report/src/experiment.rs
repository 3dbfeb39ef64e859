//! What an experiment tried. The first row of the table is the reference; each other row shows how much less
//! or more it needs.

use crate::chart::{
    BarChart, BarGroup, BarMark, BarRow, LineChart, LinePanel, LineSeries, RepeatRange, SizeScale,
    SvgPicture,
};
use crate::escape::escape;
use crate::number::{change, counted, interval, percent, signed_bytes, whole_percent};
use crate::page::ReportDocument;
use crate::paragraph::Paragraph;
use crate::style::{TerminalStyle, TextTone};
use crate::table::{ColumnAlignment, ReportTable, TableCell};
use pagewise_model::trial::{
    ArmEffect, ArmVerdict, ComparedQuantity, Experiment, TimeRatio, VerdictWord,
};
use pagewise_model::usage::ProgramUsage;
use pagewise_model::{Bytes, Nanos};

/// From this width on, CPU and memory have their own columns.
const ROOMY: usize = 76;
/// Largest number of arms whose memory is drawn over time, beside the control.
const DRAWN_OVER_TIME: usize = 3;
/// The largest time that is drawn, in % of the control's.
const WIDEST: f64 = 400.0;
/// With fewer runs, an open interval is expected.
const FEWEST_RUNS: u32 = 3;

/// A verdict in a few words; `ab` selects the words of `ab`.
pub(crate) fn short_word(
    verdict: &ArmVerdict,
    quantity: ComparedQuantity,
    ab: bool,
) -> (String, TextTone) {
    let above = |share: f64| format!("above {}", whole_percent(share));
    let (word, tone) = match verdict.word {
        VerdictWord::Keep if ab => ("faster", TextTone::Good),
        VerdictWord::Keep => ("keep", TextTone::Good),
        VerdictWord::Likely if ab => ("likely faster", TextTone::Good),
        VerdictWord::Likely => ("likely", TextTone::Good),
        VerdictWord::Slower if quantity == ComparedQuantity::Memory => ("larger", TextTone::Bad),
        VerdictWord::Slower => ("slower", TextTone::Bad),
        VerdictWord::Reject => ("reject", TextTone::Bad),
        VerdictWord::CannotTell if is_unproven(verdict) => ("not proven", TextTone::Warn),
        VerdictWord::CannotTell => ("cannot tell", TextTone::Warn),
        VerdictWord::NotTried => ("not tried", TextTone::Warn),
        VerdictWord::NoGain => {
            let gain = verdict.no_gain_above_share.unwrap_or(0.0);
            let text = match verdict.no_loss_above_share {
                Some(loss) if ab => format!("no difference {}", above(gain.max(loss))),
                _ => format!("no gain {}", above(gain)),
            };
            return (text, TextTone::Plain);
        }
    };
    (word.to_owned(), tone)
}

/// Whether the interval of an arm excludes *no change* although the verdict is open. The interval is for this
/// arm alone. The verdict requires more, as for an arm that was picked among all.
pub(crate) fn is_unproven(verdict: &ArmVerdict) -> bool {
    let effect = verdict.effect.as_ref().filter(|effect| effect.is_measured());
    let is_clear = effect.is_some_and(|one| one.ratio_high < 1.0 || one.ratio_low > 1.0);
    verdict.word == VerdictWord::CannotTell && is_clear
}

/// What an arm's runs showed: `48% less time (46..50%)`.
pub(crate) fn effect_phrase(effect: &ArmEffect, quantity: ComparedQuantity) -> String {
    let noun = match quantity {
        ComparedQuantity::Time if effect.at_once => ComparedQuantity::Cpu.noun(),
        other => other.noun(),
    };
    let change = match change(effect.ratio) {
        none if none == "no change" => format!("no change in {noun}"),
        some => format!("{some} {noun}"),
    };
    format!("{change} ({})", interval(effect.ratio, effect.ratio_low, effect.ratio_high))
}

/// Every arm that was tried, with the reason for its verdict; `ab` selects the words of `ab`.
pub(crate) fn tried_section(experiment: &Experiment, ab: bool) -> ReportDocument {
    let mut page = ReportDocument::default();
    let quantity = experiment.design.quantity;
    let [first, second] = asides(quantity).map(label);
    page.heading(&format!(
        "what was tried ({}, {first} and {second} against the first row)",
        quantity.noun()
    ));
    let beside = asides(quantity);
    let [wide, narrow] =
        [&beside[..], &[]].map(|shown| ReportDocument::from(arms_table(experiment, ab, shown)));
    page.fitted(move |style| if style.columns() >= ROOMY { &wide } else { &narrow }.clone());
    if experiment.verdicts.is_empty() {
        page.para("no arm has a verdict", 2, TextTone::Plain);
    }
    if let Some(picture) = picture(experiment) {
        page.figure(picture);
    }
    if let Some(picture) = memory_over_time(experiment) {
        page.figure(picture);
    }
    page.para(&runs_text(experiment), 2, TextTone::Faint);
    for warning in &experiment.warnings {
        page.bullet(warning, TextTone::Warn);
    }
    page
}

/// The quantities shown beside the deciding one.
pub(crate) const fn asides(quantity: ComparedQuantity) -> [ComparedQuantity; 2] {
    match quantity {
        ComparedQuantity::Memory => [ComparedQuantity::Time, ComparedQuantity::Cpu],
        ComparedQuantity::Cpu => [ComparedQuantity::Time, ComparedQuantity::Memory],
        _ => [ComparedQuantity::Cpu, ComparedQuantity::Memory],
    }
}

/// The heading of a column.
const fn label(quantity: ComparedQuantity) -> &'static str {
    match quantity {
        ComparedQuantity::Cpu => "CPU",
        other => other.noun(),
    }
}

/// The table of arms. The quantities in `shown` get their own columns beside the deciding one. If there are
/// none, the other quantities stand under the rows.
pub(crate) fn arms_table(
    experiment: &Experiment,
    ab: bool,
    shown: &[ComparedQuantity],
) -> ReportTable {
    let mut table = ReportTable::new(&columns(experiment, shown));
    if let Some(cells) = control_row(experiment, shown) {
        table.row(cells);
    }
    for verdict in &experiment.verdicts {
        let mut under = Vec::new();
        if shown.is_empty() {
            let [first, second] = asides(experiment.design.quantity)
                .map(|one| format!("{} {}", label(one), aside(experiment, verdict, one)));
            let text = format!("{first}; {second}");
            under.push(Paragraph::new(text, 6, TextTone::Plain));
        }
        under.push(Paragraph::new(reason(verdict), 6, TextTone::Faint));
        table.row_with(verdict_row(experiment, verdict, shown, ab), under);
    }
    table
}

/// The columns of a table of arms.
pub(crate) fn columns(
    experiment: &Experiment,
    shown: &[ComparedQuantity],
) -> Vec<(&'static str, ColumnAlignment)> {
    let first = [
        ("arm", ColumnAlignment::Name),
        (experiment.compared().noun(), ColumnAlignment::Decimal),
        ("95%", ColumnAlignment::Decimal),
    ];
    let beside = shown.iter().map(|one| (label(*one), ColumnAlignment::Decimal));
    let last = [("runs", ColumnAlignment::Right), ("verdict", ColumnAlignment::Left)];
    first.into_iter().chain(beside).chain(last).collect()
}

/// The name of an arm for people: one file by name, several files as a count. Their paths are in the receipt.
#[must_use]
pub fn short_arm(arm: &str) -> String {
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let part = |part: &str| match part.split_once('=') {
        Some((remedy, files)) if files.starts_with('/') => match files.split(':').count() {
            1 => format!("{remedy}={}", name(files)),
            count => format!("{remedy} ({count} files)"),
        },
        _ => part.to_owned(),
    };
    arm.split('+').map(part).collect::<Vec<_>>().join("+")
}

/// The need of each arm that ran, as a share of the control's, with its interval.
pub(crate) fn picture(experiment: &Experiment) -> Option<SvgPicture> {
    let arm = |verdict: &ArmVerdict| {
        let effect = verdict.effect.as_ref()?;
        let [median, least, most] =
            [effect.ratio, effect.ratio_low, effect.ratio_high].map(|ratio| 100.0 * ratio);
        // An open interval would leave no room for the others.
        let is_open = most > WIDEST;
        let value = RepeatRange { median, least: least.max(0.0), most: most.min(WIDEST) };
        let value = if is_open { Err("too few runs yet".to_owned()) } else { Ok(value) };
        let rows = vec![BarRow { label: String::new(), series: 0, value }];
        Some(BarGroup { title: short_arm(&verdict.arm), detail: String::new(), rows })
    };
    let groups: Vec<BarGroup> = experiment.verdicts.iter().filter_map(arm).collect();
    let is_any = groups.iter().flat_map(|group| &group.rows).any(|row| row.value.is_ok());
    let drawn = BarChart {
        title: format!("{} of each arm with its 95% interval", experiment.design.quantity.noun()),
        subtitle: format!("in % of {}", experiment.design.control),
        unit: "%",
        marks: vec![BarMark { label: experiment.design.control.clone(), value: 100.0 }],
        groups,
        notes: Vec::new(),
    };
    is_any.then(|| drawn.draw())
}

/// The memory over one run of the control and of the arms that need least of it; `None` if it was not sampled.
fn memory_over_time(experiment: &Experiment) -> Option<SvgPicture> {
    let curve = |arm: &str| {
        let usage = &experiment.points_of(arm).next()?.usage;
        let held = &usage.memory.as_ref()?.over_time_bytes;
        let part = usage.wall_ns.0 as f64 / held.len().max(1) as f64;
        let mebibytes = |held: &Bytes| held.0 as f64 / Bytes::mib(1).0 as f64;
        let points = held.iter().map(mebibytes).enumerate().map(|(at, held)| {
            ((at as f64 + 0.5) * part, RepeatRange { median: held, least: held, most: held })
        });
        Some(LineSeries { name: short_arm(arm), points: points.collect() })
    };
    let ran = experiment.verdicts.iter().filter_map(|v| Some((v.effect.as_ref()?.ratio, &v.arm)));
    let mut arms: Vec<(f64, &String)> = ran.collect();
    arms.sort_by(|a, b| a.0.total_cmp(&b.0));
    let least = arms.into_iter().take(DRAWN_OVER_TIME).map(|(_, arm)| arm);
    let shown = std::iter::once(&experiment.design.control).chain(least);
    let series: Vec<LineSeries> = shown.filter_map(|arm| curve(arm)).collect();
    let is_any = series.iter().any(|series| !series.points.is_empty());
    let curves = LinePanel {
        title: "proportional set size of all processes".to_owned(),
        scale: SizeScale::Linear,
        sizes_are: "after the start",
        write: |ns| Nanos(ns as u64).to_string(),
        unit: "MiB",
        series,
        marks: Vec::new(),
    };
    let drawn = LineChart {
        title: "Memory over time".to_owned(),
        subtitle: "one run of each; each point is the largest sample of its part of the run"
            .to_owned(),
        panels: vec![curves],
        notes: Vec::new(),
    };
    is_any.then(|| drawn.draw())
}

/// The row of an arm in a table with [`columns`].
pub(crate) fn verdict_row(
    experiment: &Experiment,
    verdict: &ArmVerdict,
    shown: &[ComparedQuantity],
    ab: bool,
) -> Vec<TableCell> {
    let (word, tone) = short_word(verdict, experiment.design.quantity, ab);
    let mut row: Vec<TableCell> = vec![short_arm(&verdict.arm).into()];
    row.extend(effect_cells(verdict.effect.as_ref(), tone, "no runs"));
    let is_measured = verdict.effect.as_ref().is_some_and(ArmEffect::is_measured);
    row.extend(shown.iter().map(|one| match is_measured {
        true => TableCell::from(aside(experiment, verdict, *one)),
        false => TableCell::from(""),
    }));
    row.push(verdict.effect.as_ref().map_or_else(String::new, |e| e.runs.to_string()).into());
    row.push(TableCell::new(word, tone));
    row
}

/// The effect of an arm and its interval; `none` if it has no runs. One run or an open interval gives no figure.
pub(crate) fn effect_cells(
    effect: Option<&ArmEffect>,
    tone: TextTone,
    none: &str,
) -> [TableCell; 2] {
    match effect {
        Some(e) if e.is_measured() => [
            TableCell::new(change(e.ratio), tone),
            interval(e.ratio, e.ratio_low, e.ratio_high).into(),
        ],
        Some(e) => {
            let is_few = e.runs.min(e.control_runs) < FEWEST_RUNS;
            ["open".into(), if is_few { "too few runs" } else { "" }.into()]
        }
        None => [none.into(), "".into()],
    }
}

/// The reason for a verdict, with what its interval says about a later day.
pub(crate) fn reason(verdict: &ArmVerdict) -> String {
    let mut text = verdict.why.clone();
    let Some(effect) = verdict.effect.as_ref().filter(|effect| effect.is_measured()) else {
        return text;
    };
    if verdict.word == VerdictWord::Likely {
        text.push_str(&format!("; {} sure", percent(effect.sure_share)));
    }
    if matches!(verdict.word, VerdictWord::Keep | VerdictWord::Likely) {
        let later = interval(effect.ratio, effect.repeat_low, effect.repeat_high);
        text.push_str(&format!("; a later repeat: {later}"));
    }
    if let Some(settled) = verdict.settled_by_ns {
        text.push_str(&format!("; about {settled} more would settle it"));
    }
    let others = [
        ("one at a time, by wall time", &effect.alone),
        ("without the host's time", &effect.without_host),
        ("not corrected for the speed of the machine", &effect.uncorrected),
    ];
    for (what, ratio) in others {
        if let Some(at) = ratio {
            let range = interval(at.ratio, at.ratio_low, at.ratio_high);
            text.push_str(&format!("; {what}: {} ({range})", change(at.ratio)));
        }
    }
    text
}

/// What an arm needs of a quantity that does not decide.
fn aside(experiment: &Experiment, verdict: &ArmVerdict, what: ComparedQuantity) -> String {
    let shown = match what {
        ComparedQuantity::Memory => verdict.peak_rss_change_bytes.map(signed_bytes),
        ComparedQuantity::Cpu => verdict.cpu_ratio.map(change),
        _ => {
            let wall = |name: &str| median_of(experiment, name, false, |usage| usage.wall_ns.0);
            let ratio = wall(&verdict.arm).zip(wall(&experiment.design.control));
            ratio.map(|(arm, control)| change(arm as f64 / control.max(1) as f64))
        }
    };
    shown.unwrap_or_else(|| "no data".to_owned())
}

/// The median of a figure over the runs of an arm, simultaneous or sequential.
fn median_of(
    experiment: &Experiment,
    arm: &str,
    at_once: bool,
    figure: fn(&ProgramUsage) -> u64,
) -> Option<u64> {
    let points = experiment.points_in(arm, at_once);
    let runs: Vec<ProgramUsage> = points.map(|point| point.usage.clone()).collect();
    crate::look::median(&runs, figure)
}

/// As [`median_of`], as text, for the deciding quantity or one shown beside it.
fn median_text(experiment: &Experiment, arm: &str, what: ComparedQuantity) -> Option<String> {
    let at_once = experiment.is_at_once(arm);
    let median = |figure| median_of(experiment, arm, at_once, figure);
    Some(match what {
        ComparedQuantity::Memory => Bytes(median(|usage| usage.peak_memory().0)?).to_string(),
        ComparedQuantity::Cpu => Nanos(median(|usage| usage.cpu_ns().0)?).to_string(),
        _ if at_once => Nanos(median(|usage| usage.cpu_ns().0)?).to_string(),
        _ => Nanos(median(|usage| usage.wall_ns.0)?).to_string(),
    })
}

/// The row of the control.
pub(crate) fn control_row(
    experiment: &Experiment,
    shown: &[ComparedQuantity],
) -> Option<Vec<TableCell>> {
    let name = experiment.design.control.as_str();
    let text = |what| median_text(experiment, name, what);
    let mut row: Vec<TableCell> =
        vec![name.into(), text(experiment.design.quantity)?.into(), "".into()];
    for one in shown {
        row.push(text(*one)?.into());
    }
    row.extend([experiment.points_of(name).count().to_string().into(), "reference".into()]);
    Some(row)
}

fn runs_text(experiment: &Experiment) -> String {
    let design = &experiment.design;
    let runs: usize = experiment.blocks.iter().map(|block| block.points.len()).sum();
    let unfinished = experiment.blocks.last().is_some_and(|block| block.dropped.is_some());
    let counting = experiment.blocks.iter().filter(|block| block.dropped.is_none());
    let at_once: usize =
        counting.filter(|block| block.at_once).map(|block| block.points.len()).sum();
    let mut text = format!(
        "{} in {}, in random order (seed {}); budget of the session {}",
        counted(runs as u64, "run", "runs"),
        counted(experiment.blocks.len() as u64, "block", "blocks"),
        design.seed,
        design.budget_ns
    );
    if at_once > 0 {
        text.push_str(&format!(
            "; {at_once} of them shared CPUs with others of their block, and are compared by CPU time"
        ));
    }
    if let Some(why) = &experiment.in_turn_because {
        text.push_str(&format!("; one run at a time: {why}"));
    }
    if unfinished {
        text.push_str("; the last block was not finished and does not count");
    }
    text
}

/// A running race: what runs now and the time left, and a line for each arm with its interval.
#[must_use]
pub fn race_lines(
    runs: u32,
    left: Nanos,
    arm: &str,
    standings: &[(String, TimeRatio)],
    style: &TerminalStyle,
) -> String {
    let arm = escape(arm);
    let width = style.columns();
    let fit = |line: String| line.chars().take(width.saturating_sub(2)).collect::<String>();
    let mut lines =
        vec![fit(format!("{}, {left} left, running {arm}", counted(runs.into(), "run", "runs")))];
    lines.extend(standings.iter().map(|(name, at)| {
        let range = interval(at.ratio, at.ratio_low, at.ratio_high);
        fit(format!("  {:<28} {:>10} ({range})", escape(name), change(at.ratio)))
    }));
    lines.join("\n")
}
