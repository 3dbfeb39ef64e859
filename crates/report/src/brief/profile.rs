//! A profile on one screen: where CPU time went, what samples cannot show of it, the functions it was spent
//! in, and how it was sampled.
//!
//! One figure for each cost: that of the samples, if there are any. Counts and prices are in the whole report.

use super::{Brief, BriefKind, LEAST_SHARE, MOST_ROWS, beside, cost_rows, rows_of, tune_line};
use crate::code_tlb;
use crate::escape::{escape_for, shorten};
use crate::experiment::short_arm;
use crate::number::{count, percent};
use crate::prediction::probable;
use crate::profile::{doubts, followed, has_page_work, page_share, share, sums};
use crate::style::TerminalStyle;
use crate::symbol;
use crate::table::{ReportTable, TableCell};
use pagewise_model::body::RunBody;
use pagewise_model::diagnosis::{CostKind, PageCost};
use pagewise_model::profile::{
    ProfileActivity, ProfileBucket, ProfileReason, ProfileReport, SortedSamples,
};
use pagewise_model::run::SavedRun;
use pagewise_model::{Nanos, library};
use std::collections::BTreeMap;

/// Costs that kernel samples do not show.
const IN_USER_CODE: [CostKind; 2] = [CostKind::AddressTranslation, CostKind::Malloc];
/// Largest number of kinds of work that are named for a site.
const MOST_KINDS: usize = 2;
/// A kind with this share of a site is named alone.
const MOST_OF_IT: f64 = 0.75;
/// Largest number of predicted gains that are shown.
const MOST_GAINS: usize = 3;
/// Smallest predicted gain that is shown, as a share of the time.
const LEAST_GAIN: f64 = 0.01;
/// Cells for the text beside a site's name.
const KINDS: usize = 42;

pub(super) const KIND: BriefKind = BriefKind { parts, next, notes, most_rows: MOST_ROWS };

fn found(run: &SavedRun) -> Option<&ProfileReport> {
    match &run.body {
        Some(RunBody::Profile(profile)) => Some(profile),
        _ => None,
    }
}

fn sampled(run: &SavedRun) -> Option<&SortedSamples> {
    found(run)?.sorted.known().filter(|sorted| sorted.samples > 0)
}

fn costs(run: &SavedRun) -> impl Iterator<Item = &PageCost> {
    run.diagnosis.iter().flat_map(|diagnosis| &diagnosis.costs)
}

fn parts(report: &mut Brief<'_>, run: &SavedRun, rows: usize) {
    let inner = report.inner();
    let Some(sorted) = sampled(run) else {
        report.add("costs", &cost_rows(costs(run), &inner));
        return;
    };
    report.add("time", &times(sorted, &inner, rows));
    let unseen: Vec<&PageCost> = costs(run)
        .filter(|cost| IN_USER_CODE.contains(&cost.kind) && cost.time_share >= LEAST_SHARE)
        .collect();
    if !unseen.is_empty() {
        report.add("user", &cost_rows(unseen.into_iter(), &inner));
    }
    report.add("sites", &sites(sorted, &inner, rows));
    if is_running(run) && !run.predictions.is_empty() {
        report.add("tuned", &gains(run, &inner));
    }
    if let Some(text) = found(run).and_then(|profile| code_tlb::of_profile(profile, run)) {
        report.sentence("code", &text);
    }
    report.sentence("from", &how(run, sorted));
}

/// Whether the process ran before the profile began.
fn is_running(run: &SavedRun) -> bool {
    found(run).is_some_and(|profile| profile.course.is_some())
}

/// What the most promising remedies would gain if the process was started with them.
fn gains(run: &SavedRun, style: &TerminalStyle) -> String {
    let mut table = rows_of(2);
    let worth = run.predictions.iter().filter(|one| one.gain_share >= LEAST_GAIN);
    for one in worth.take(MOST_GAINS) {
        table.row(vec![short_arm(&one.arm).into(), probable(one).into()]);
    }
    if table.is_empty() {
        table.row(vec![format!("no remedy is predicted to gain {}", percent(LEAST_GAIN)).into()]);
    }
    beside(table, style)
}

/// Kinds of work, the largest first, with their purposes.
fn times(sorted: &SortedSamples, style: &TerminalStyle, rows: usize) -> String {
    let mut table = rows_of(4);
    let all = sums(sorted, |bucket| bucket.what);
    let row = |table: &mut ReportTable, name: String, samples: u64, reasons: String| {
        let time = Nanos(samples.saturating_mul(sorted.period_ns.0)).to_string();
        let part = percent(share(samples, sorted.samples));
        table.row(vec![name.into(), part.into(), time.into(), reasons.into()]);
    };
    let (listed, rest) = all.split_at(all.len().min(rows));
    for (what, samples) in listed {
        row(&mut table, what.label().to_owned(), *samples, purposes(sorted, *what));
    }
    if !rest.is_empty() {
        let samples = rest.iter().map(|(_, samples)| samples).sum();
        row(&mut table, format!("{} more", rest.len()), samples, String::new());
    }
    beside(table, style)
}

/// The main purpose of a kind of work; empty if its name says it.
fn purposes(sorted: &SortedSamples, what: ProfileActivity) -> String {
    let of_what = sorted.buckets.iter().filter(|bucket| bucket.what == what);
    let worth = of_what
        .filter(|bucket| bucket.time_share >= LEAST_SHARE && bucket.why != ProfileReason::Own);
    worth.take(MOST_KINDS).map(|bucket| bucket.why.label()).collect::<Vec<_>>().join(", ")
}

/// The program's functions that the samples were in, or that called the kernel there.
fn sites(sorted: &SortedSamples, style: &TerminalStyle, rows: usize) -> String {
    let mut found: BTreeMap<&str, BTreeMap<ProfileActivity, u64>> = BTreeMap::new();
    for bucket in &sorted.buckets {
        for (site, samples) in own_samples(bucket) {
            *found.entry(site).or_default().entry(bucket.what).or_default() += samples;
        }
    }
    let whole = |kinds: &BTreeMap<ProfileActivity, u64>| kinds.values().sum::<u64>();
    let mut found: Vec<(&str, BTreeMap<ProfileActivity, u64>)> = found.into_iter().collect();
    found.retain(|(_, kinds)| share(whole(kinds), sorted.samples) >= LEAST_SHARE);
    found.sort_by_key(|(_, kinds)| std::cmp::Reverse(whole(kinds)));
    let mut table = rows_of(3);
    for (site, kinds) in found.into_iter().take(rows) {
        let all = whole(&kinds);
        let mut kinds: Vec<(ProfileActivity, u64)> = kinds.into_iter().collect();
        kinds.sort_by_key(|(_, samples)| std::cmp::Reverse(*samples));
        let is_most = share(kinds.first().map_or(0, |(_, samples)| *samples), all) >= MOST_OF_IT;
        kinds.truncate(if is_most { 1 } else { MOST_KINDS });
        let kinds: Vec<&str> = kinds.iter().map(|(what, _)| what.label()).collect();
        let part = percent(share(all, sorted.samples));
        let name = escape_for(&site_text(site), style.unicode);
        let name = shorten(&name, style.columns().saturating_sub(KINDS), style.unicode);
        table.row(vec![TableCell::from(name), part.into(), kinds.join(", ").into()]);
    }
    beside(table, style)
}

/// The samples of a bucket by the innermost function of the program. A library's function counts only if it
/// has no caller outside such libraries. Rare lines, which the graph does not list, have no site.
fn own_samples(bucket: &ProfileBucket) -> Vec<(&str, u64)> {
    // The ancestors of the next line, each with its site.
    let mut above: Vec<(usize, Option<&str>)> = Vec::new();
    let mut own: Vec<(Option<&str>, u64)> = Vec::new();
    for (at, line) in bucket.graph.iter().enumerate() {
        above.truncate(line.depth as usize);
        let caller = above.last().copied();
        if let Some((caller, _)) = caller {
            own[caller].1 = own[caller].1.saturating_sub(line.samples);
        }
        let inherited = caller.and_then(|(_, site)| site);
        let site = match file_of(&line.name) {
            _ if line.folded > 0 => None,
            Some(file)
                if line.depth > 0 && (inherited.is_none() || !library::works_for_others(file)) =>
            {
                Some(line.name.as_str())
            }
            _ => inherited,
        };
        above.push((at, site));
        own.push((site, line.samples));
    }
    own.into_iter().filter_map(|(site, samples)| Some((site?, samples))).collect()
}

/// The file of a program's function, as graphs name it; `None` for kernel functions.
fn file_of(name: &str) -> Option<&str> {
    name.strip_suffix(')')?.rsplit_once('(').map(|(_, file)| file)
}

fn site_text(name: &str) -> String {
    match file_of(name) {
        Some("no file") => "code in no file".to_owned(),
        Some(file) if name.starts_with('(') => format!("{file}, function not known"),
        Some(file) => match name.strip_suffix(&format!(" ({file})")) {
            Some(function) => format!("{} ({file})", symbol::readable(function)),
            None => name.to_owned(),
        },
        None => symbol::readable(name).into_owned(),
    }
}

fn how(run: &SavedRun, sorted: &SortedSamples) -> String {
    let samples =
        format!("{} samples, one for each {} of CPU time", count(sorted.samples), sorted.period_ns);
    match found(run).and_then(|profile| profile.course.as_ref()) {
        Some(course) => format!("{samples}; process {}", followed(course)),
        None => samples,
    }
}

/// The command that tries to save the page work; `None` without page work.
fn next(run: &SavedRun) -> Option<String> {
    let diagnosis = run.diagnosis.as_ref()?;
    if is_running(run) {
        let is_worth = run.predictions.iter().any(|one| one.gain_share >= LEAST_GAIN);
        // Its arguments may be a title that it gave itself, and no command.
        return is_worth.then(|| "pagewise tune --serve CMD --load CMD".to_owned());
    }
    has_page_work(page_share(found(run)?, Some(diagnosis)), Some(diagnosis)).then(|| tune_line(run))
}

fn notes(run: &SavedRun) -> Vec<String> {
    let Some(profile) = found(run) else { return run.warnings.clone() };
    // Without costs, the headline gives the reason.
    let refused = profile.sorted.reason().filter(|_| run.diagnosis.is_some());
    let refused = refused.map(|why| format!("no samples: {why}"));
    let doubts = doubts(profile).into_iter().map(|(_, text)| text);
    refused.into_iter().chain(doubts).chain(run.warnings.iter().cloned()).collect()
}
