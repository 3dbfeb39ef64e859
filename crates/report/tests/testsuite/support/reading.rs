//! Reads a report as a person does, beside its run, and returns each defect that a reader would trip over.
//!
//! Shared by the tests and by the example `check_report`, which `bench/accept/product/reports` runs on new
//! sessions.

use pagewise_model::bench::{BenchClaim, ClaimAnswer, ClaimEvidence};
use pagewise_model::body::RunBody;
use pagewise_model::diagnosis::CostKind;
use pagewise_model::run::{RunKind, SavedRun};
use pagewise_model::trial::{ArmEffect, ArmVerdict};
use pagewise_report::number::{change, interval};
use pagewise_report::short_arm;
use serde_json::Value;
use std::collections::BTreeSet;

/// Screen height in lines.
const MOST_LINES: usize = 25;
/// Words that make a repeated sentence when they come twice in the same order.
const REPEATED: usize = 8;
/// Width of the labels at the start of a line.
const LABEL: usize = 9;
/// Costs that a report can name.
const COSTS: [CostKind; 13] = [
    CostKind::AnonFaults,
    CostKind::Zeroing,
    CostKind::FileFaults,
    CostKind::CowFaults,
    CostKind::Fork,
    CostKind::MajorFaults,
    CostKind::PipeCopies,
    CostKind::FileCopies,
    CostKind::MapUnmap,
    CostKind::Wakeups,
    CostKind::Reclaim,
    CostKind::AddressTranslation,
    CostKind::Malloc,
];

/// A line and the label of its part.
struct Line<'a> {
    part: &'a str,
    text: &'a str,
}

/// The defects of `text`: the report of `run` on a terminal of this width.
pub(crate) fn defects(text: &str, run: &SavedRun, width: usize) -> Vec<String> {
    let lines = parts(text);
    let headline = headline(text);
    let mut found = form(text, run, width);
    found.extend(repeated(text));
    found.extend(bounds(text));
    found.extend(arms(&lines, &headline, run));
    found.extend(probable_against_interval(text));
    found.extend(costs(text));
    found.extend(advice(&lines, &headline, run));
    if let Some(RunBody::Bench(bench)) = &run.body {
        let saved = serde_json::to_value(bench).unwrap_or_default();
        found.extend(claims(&lines, &saved));
        found.extend(unfounded(text, &saved));
        found.extend(not_borne_out(&lines, &headline));
    }
    found
}

/// The first sentence, on one line.
fn headline(text: &str) -> String {
    let is_over = |line: &&str| !line.starts_with(' ') && !line.is_empty();
    text.lines().take_while(is_over).collect::<Vec<_>>().join(" ")
}

/// The lines that have a label, or that stand under one.
fn parts(text: &str) -> Vec<Line<'_>> {
    let mut part = "";
    let mut found = Vec::new();
    for (label, rest) in text.lines().filter_map(|line| line.split_at_checked(LABEL)) {
        let name = label.strip_prefix("  ").unwrap_or(label).trim_end();
        let is_label = label.ends_with(' ') && name.bytes().all(|byte| byte.is_ascii_lowercase());
        match name {
            "" => {}
            name if is_label => part = name,
            _ => continue,
        }
        found.push(Line { part, text: rest });
    }
    found
}

/// The report fits on a screen. No line is too wide except those meant to be copied.
fn form(text: &str, run: &SavedRun, width: usize) -> Vec<String> {
    let mut found = Vec::new();
    let lines = text.lines().count();
    // The report has a line for each requested file and mapping.
    let is_list = matches!(run.kind, RunKind::Cache | RunKind::Text);
    if !is_list && lines > MOST_LINES {
        found.push(format!("{lines} lines"));
    }
    let is_copied = |line: &str| line.contains("pagewise ") || line.contains("export ");
    let wide = text.lines().filter(|line| line.chars().count() > width && !is_copied(line));
    found.extend(wide.map(|line| format!("too wide: {line}")));
    for odd in ["-0.0%", "NaN", "inf%", "1000.0 us", "1000.0 ms"] {
        if text.contains(odd) {
            found.push(format!("{odd} is no figure"));
        }
    }
    found
}

/// The same words in the same order, twice.
fn repeated(text: &str) -> Option<String> {
    let is_prose = |line: &&str| !line.contains("pagewise ");
    let words: Vec<&str> = text.lines().filter(is_prose).flat_map(str::split_whitespace).collect();
    let mut seen = BTreeSet::new();
    let is_prose = |words: &&[&str]| words.iter().all(|word| word.contains(char::is_alphabetic));
    let twice = words.windows(REPEATED).filter(is_prose).find(|words| !seen.insert(words.to_vec()));
    twice.map(|words| format!("said twice: {}", words.join(" ")))
}

/// No bound exceeds the whole.
fn bounds(text: &str) -> Vec<String> {
    let after = |word: &str| {
        text.split(word).skip(1).filter_map(|rest| percent(rest.trim_start())).collect::<Vec<f64>>()
    };
    let all = after("up to ").into_iter().chain(after("at most "));
    all.filter(|bound| *bound > 100.0).map(|bound| format!("a bound of {bound}%")).collect()
}

/// The percentage at the start of a text.
fn percent(text: &str) -> Option<f64> {
    let (number, _) = text.split_once('%')?;
    number.trim_start_matches('<').parse().ok()
}

/// The first `12% less` or `12% more` of a text.
fn first_change(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_change = |pair: &&[&str]| {
        pair[0].ends_with('%') && matches!(pair[1].trim_end_matches([',', ';']), "less" | "more")
    };
    let found = words.windows(2).find(is_change)?;
    Some(format!("{} {}", found[0], found[1].trim_end_matches([',', ';'])))
}

/// Every figure of an arm matches its runs.
fn arms(lines: &[Line<'_>], headline: &str, run: &SavedRun) -> Vec<String> {
    let verdicts = run.experiment.iter().flat_map(|experiment| &experiment.verdicts);
    let mut found = Vec::new();
    for verdict in verdicts {
        let name = short_arm(&verdict.arm);
        let rows = lines.iter().filter(|line| line.part == "tried");
        let rows = rows.filter_map(|line| line.text.strip_prefix(name.as_str()));
        let rows: Vec<&str> = rows.filter(|rest| rest.starts_with(' ')).collect();
        let said = [": ", " has ", ", has "]
            .into_iter()
            .find_map(|end| headline.split_once(&format!("{name}{end}")));
        let all = rows.iter().copied().chain(said.map(|(_, rest)| rest));
        found.extend(all.filter_map(|text| contradiction(text, verdict)));
        found.extend(rows.iter().filter_map(|row| claim_against_interval(row, &verdict.arm)));
        found.extend(rows.iter().filter_map(|row| doubt_against_interval(row, &verdict.arm)));
    }
    found
}

fn contradiction(text: &str, verdict: &ArmVerdict) -> Option<String> {
    let shown = first_change(text)?;
    let Some(effect) = verdict.effect.as_ref().filter(|effect| effect.is_measured()) else {
        return Some(format!("{}: {shown} without a measured effect", verdict.arm));
    };
    let ArmEffect { ratio, ratio_low, ratio_high, .. } = *effect;
    let range = interval(ratio, ratio_low, ratio_high);
    if shown != change(ratio) {
        return Some(format!("{}: {shown}, and {} elsewhere", verdict.arm, change(ratio)));
    }
    let is_cut = text.contains('…') || text.contains("...");
    (!is_cut && !text.contains(&range)).then(|| format!("{}: {shown} without {range}", verdict.arm))
}

/// The interval of a row: its low and high ends.
fn ends(row: &str) -> Option<(f64, f64)> {
    let range = row.split_whitespace().find(|cell| cell.contains("..") && cell.ends_with('%'))?;
    let (low, high) = range.trim_end_matches('%').split_once("..")?;
    Some((low.parse().ok()?, high.parse().ok()?))
}

/// A row says that nothing is decided although its interval holds a difference.
fn doubt_against_interval(row: &str, arm: &str) -> Option<String> {
    let (low, high) = ends(row).filter(|_| row.trim_end().ends_with("cannot tell"))?;
    (low > 0.0 || high < 0.0).then(|| format!("{arm}: cannot tell although {low}..{high}%"))
}

/// A row claims a difference although its interval holds none.
fn claim_against_interval(row: &str, arm: &str) -> Option<String> {
    let word = ["keep", "faster", "slower", "larger"].into_iter().find(|word| {
        row.trim_end().strip_suffix(word).is_some_and(|rest| rest.ends_with(' '))
            && !row.contains("likely")
    })?;
    let (low, high) = ends(row)?;
    (low <= 0.0 && high >= 0.0).then(|| format!("{arm}: {word} although {low:.1}..{high:.1}%"))
}

/// What is probable has an interval without zero.
fn probable_against_interval(text: &str) -> Vec<String> {
    let after = text.split("probably ").skip(1);
    let range = |rest: &str| {
        let (_, inner) = rest.split_once('(')?;
        ends(inner.split([')', ',']).next()?)
    };
    let spanning = after.filter_map(range).filter(|(low, high)| *low <= 0.0 && *high >= 0.0);
    spanning.map(|(low, high)| format!("probable although {low}..{high}%")).collect()
}

/// Each cost has one figure.
fn costs(text: &str) -> Vec<String> {
    let one = |kind: &CostKind| {
        let name: &str = kind.into();
        let figures: BTreeSet<String> = text
            .split(name)
            .skip(1)
            .filter_map(|rest| {
                let rest = rest.trim_start_matches([' ', ',']);
                let rest = rest.strip_prefix("up to ").unwrap_or(rest);
                percent(rest).map(|figure| figure.to_string())
            })
            .collect();
        (figures.len() > 1).then(|| format!("{name}: {figures:?} percent"))
    };
    COSTS.iter().filter_map(one).collect()
}

/// Advice has a figure beside it, or is left out.
fn advice(lines: &[Line<'_>], headline: &str, run: &SavedRun) -> Vec<String> {
    let mut found = Vec::new();
    let is_advice = |line: &&Line<'_>| matches!(line.part, "fits" | "could");
    let rows = lines.iter().filter(is_advice).filter(|line| line.text.contains(": "));
    let bare = rows.filter(|line| !line.text.contains(|c: char| c.is_ascii_digit()));
    found.extend(bare.map(|line| format!("a way without a figure: {}", line.text.trim())));
    let has_figure = |text: &str| text.contains(|c: char| c.is_ascii_digit());
    let kept = lines.iter().any(|line| matches!(line.part, "keep" | "use"));
    if kept && !has_figure(headline) {
        found.push("what to keep has no figure".to_owned());
    }
    let gain = |verdict: &ArmVerdict| Some(1.0 - verdict.effect.as_ref()?.ratio_high);
    let verdicts = run.experiment.iter().flat_map(|experiment| &experiment.verdicts);
    for verdict in verdicts {
        let bound = lines.iter().filter(|line| line.text.starts_with(&short_arm(&verdict.arm)));
        let bound = bound.filter_map(|line| percent(line.text.split_once("up to ")?.1)).next();
        if let Some((bound, gain)) = bound.zip(gain(verdict))
            && bound < 100.0 * gain
        {
            found.push(format!(
                "{}: up to {bound}%, yet {:.1}% are proven",
                verdict.arm,
                100.0 * gain
            ));
        }
    }
    found
}

/// All values under this name in the saved run.
fn under<'a>(saved: &'a Value, name: &str, found: &mut Vec<&'a Value>) {
    match saved {
        Value::Object(fields) => {
            found.extend(fields.get(name));
            fields.values().for_each(|value| under(value, name, found));
        }
        Value::Array(all) => all.iter().for_each(|value| under(value, name, found)),
        _ => {}
    }
}

/// The items of all lists of this name, in order.
fn items<'a>(saved: &'a Value, name: &str) -> Vec<&'a Value> {
    let mut found = Vec::new();
    under(saved, name, &mut found);
    found.into_iter().filter_map(Value::as_array).flatten().collect()
}

/// Each claim's answer follows from its evidence, and the report has that answer.
fn claims(lines: &[Line<'_>], saved: &Value) -> Vec<String> {
    const WORDS: [(&str, ClaimAnswer); 3] = [
        ("confirmed", ClaimAnswer::Confirmed),
        ("refuted", ClaimAnswer::Refuted),
        ("cannot tell", ClaimAnswer::CannotTell),
    ];
    let all = items(saved, "claims").into_iter();
    let all: Vec<BenchClaim> =
        all.filter_map(|one| serde_json::from_value(one.clone()).ok()).collect();
    let is_known = |claim: &&BenchClaim| claim.evidence != ClaimEvidence::Nothing;
    let against = all.iter().filter(is_known).filter(|one| one.answer != one.evidence.answer());
    let mut found: Vec<String> = against
        .map(|one| format!("{:?} against its evidence: {}", one.answer, one.claim))
        .collect();
    for line in lines.iter().filter(|line| line.part == "claims") {
        let answered = WORDS
            .iter()
            .find_map(|(word, answer)| Some((answer, line.text.strip_prefix(word)?.trim_start())));
        let Some((answer, text)) = answered else { continue };
        let is_meant =
            |one: &&BenchClaim| text.starts_with(&one.claim) || one.claim.starts_with(text);
        match all.iter().find(is_meant) {
            Some(one) if one.answer == *answer => {}
            Some(one) => {
                found.push(format!("{answer:?}, saved as {:?}: {}", one.answer, one.claim))
            }
            None => found.push(format!("no such claim: {text}")),
        }
    }
    found
}

/// A change that rests on one repeat, or advice without a figure.
fn unfounded(text: &str, saved: &Value) -> Vec<String> {
    const NONE: [&str; 4] = ["not measured", "No verdict", "No price", "not known"];
    let mut samples = Vec::new();
    under(saved, "samples", &mut samples);
    let most = samples.iter().filter_map(|list| list.as_array()).map(Vec::len).max();
    let mut found = Vec::new();
    if let Some(change) = first_change(text).filter(|_| most.is_some_and(|most| most < 2)) {
        found.push(format!("{change} from one repeat"));
    }
    let said = ["advice", "sentences"].into_iter().flat_map(|name| items(saved, name));
    let said = said.filter_map(Value::as_str);
    let is_bare = |text: &&str| {
        !text.contains(|c: char| c.is_ascii_digit()) && !NONE.iter().any(|none| text.contains(none))
    };
    found.extend(said.filter(is_bare).map(|text| format!("advice without a figure: {text}")));
    found
}

/// A change in the headline that no row of the table has.
fn not_borne_out(lines: &[Line<'_>], headline: &str) -> Option<String> {
    let shown = first_change(headline)?;
    let share = percent(&shown)? / 100.0;
    let wanted = if shown.ends_with("less") { 1.0 - share } else { 1.0 + share };
    let rows = lines.iter().filter(|line| line.part == "from");
    let ratios = rows.flat_map(|line| line.text.split_whitespace());
    let mut ratios = ratios.filter_map(|cell| cell.parse::<f64>().ok());
    (!ratios.any(|ratio| (ratio - wanted).abs() < 0.006)).then(|| format!("{shown} is in no row"))
}
