//! A bench on one screen: what to do, the rows that support it, claims with this machine's answers, and the
//! spread of repeats.

use super::{Brief, BriefKind, beside};
use crate::bench::{self, BenchSummary};
use crate::claims::{answer, reasons};
use crate::number::{counted, percent, three_digits};
use crate::paragraph::hang;
use crate::style::{TerminalStyle, TextTone};
use pagewise_model::bench::{BenchClaim, ClaimAnswer, ClaimEvidence, ClaimFigure};
use pagewise_model::measured::median;
use pagewise_model::run::SavedRun;
use pagewise_model::{Fact, Measured};

/// Cells of a claim's answer; the longest is `cannot tell`.
const ANSWER: usize = 13;

/// Largest number of unavailable ways that are named.
const MOST_LACKING: usize = 3;

pub(super) const KIND: BriefKind = BriefKind { parts, next: |_| None, notes, most_rows: 12 };

fn parts(report: &mut Brief<'_>, run: &SavedRun, rows: usize) {
    let Some(bench) = bench::in_run(run) else { return };
    let inner = report.inner();
    if let Some(shown) = bench::shown(bench) {
        report.add("how", &shown.text(&inner));
    }
    let BenchSummary { title, table, advice, claims, figures, .. } = bench::short(bench, rows);
    for (at, sentence) in advice.iter().enumerate() {
        report.sentence(if at == 0 { "do" } else { "" }, sentence);
    }
    if !table.is_empty() {
        report.sentence("from", &title);
        report.add("", &beside(table, &inner));
    }
    // The table comes first.
    report.add("claims", &claim_lines(claims, &inner, rows.saturating_sub(1).max(1)));
    report.sentence("noise", &noise(&figures, run));
}

/// Claims with their answers, the decided ones first; for the rest, a count of the answers.
fn claim_lines(claims: &[BenchClaim], style: &TerminalStyle, most: usize) -> String {
    let mut all: Vec<&BenchClaim> = claims.iter().collect();
    all.sort_by_key(|claim| claim.answer == ClaimAnswer::CannotTell);
    let more = all.split_off(all.len().min(most));
    let line = |claim: &BenchClaim| {
        let (word, tone) = answer(claim.answer);
        let text = format!("{}{}", claim.claim, figure(claim));
        let word = format!("{}{}", style.paint(word, tone), " ".repeat(ANSWER - word.len()));
        hang(style, &word, ANSWER, &text, TextTone::Plain)
    };
    let mut lines: String = all.into_iter().map(line).collect();
    if !more.is_empty() {
        let of = |wanted: ClaimAnswer| more.iter().filter(|claim| claim.answer == wanted).count();
        let words = [ClaimAnswer::Confirmed, ClaimAnswer::Refuted, ClaimAnswer::CannotTell]
            .map(|wanted| (of(wanted) > 0).then(|| format!("{} {}", of(wanted), answer(wanted).0)));
        let words: Vec<String> = words.into_iter().flatten().collect();
        lines.push_str(&format!("{} more: {}\n", more.len(), words.join(", ")));
    }
    lines
}

/// The figure behind a claim with its interval, if the evidence is a figure.
fn figure(claim: &BenchClaim) -> String {
    match &claim.evidence {
        ClaimEvidence::Figures(all) => match all.as_slice() {
            [ClaimFigure { estimate, interval: Fact::Known((low, high)), .. }] => {
                let [estimate, low, high] = [*estimate, *low, *high].map(three_digits);
                format!(": {estimate} ({low}-{high})")
            }
            _ => String::new(),
        },
        _ => String::new(),
    }
}

/// The number of repeats, and the spread of the figures over them.
fn noise(figures: &[Measured], run: &SavedRun) -> String {
    let repeats = median(&figures.iter().map(|one| f64::from(one.n)).collect::<Vec<_>>());
    let spread = |one: &Measured| (one.max - one.min) / one.median;
    let spreads: Vec<f64> = figures.iter().filter(|one| one.n > 1).map(spread).collect();
    let repeats = match repeats {
        Some(repeats) => counted(repeats as u64, "repeat", "repeats"),
        None => "nothing was measured".to_owned(),
    };
    let spread = median(&spreads).map_or_else(String::new, |middle| {
        format!("; half of the figures spread over {} or less", percent(middle))
    });
    format!("{repeats}{spread}; took {}", run.took_ns)
}

fn notes(run: &SavedRun) -> Vec<String> {
    let Some(bench) = bench::in_run(run) else { return run.warnings.clone() };
    let BenchSummary { figures, refusals, lacking, .. } = bench::short(bench, 1);
    let why = reasons(refusals.iter().copied()).into_iter().max_by_key(|(_, times)| *times);
    let missing = why.map(|(why, _)| {
        let all = figures.len().max(refusals.len());
        format!("{} of {all} points are missing or have fewer repeats: {why}", refusals.len())
    });
    let (named, more) = lacking.split_at(lacking.len().min(MOST_LACKING));
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    let text = || format!("not available here: {}{more}", named.join(", "));
    let lacking = (!named.is_empty()).then(text);
    run.warnings.iter().cloned().chain(missing).chain(lacking).collect()
}
