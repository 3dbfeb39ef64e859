//! Where CPU time went, in buckets: what was done, largest first, with the purposes under each; purposes as a
//! whole; counts and prices compared with samples; samples that no rule covers, with their stacks. Also the
//! call graph of one bucket or of all.
//!
//! Shares are of all samples; in a graph, of its bucket.

use crate::chart::{FlameNode, SvgPicture};
use crate::number::{count, counted, percent};
use crate::page::ReportDocument;
use crate::paragraph::Paragraph;
use crate::style::TextTone;
use crate::table::{ColumnAlignment, ReportTable, TableCell};
use pagewise_model::diagnosis::{CostBasis, CostKind, Diagnosis, PageCost};
use pagewise_model::profile::{
    CallGraphLine, ComparedTime, FollowedProcess, ProfileActivity, ProfileBucket, ProfileReason,
    ProfileReport, SamplingClock, SortedSamples,
};
use pagewise_model::{Fact, Nanos};
use std::collections::BTreeMap;

/// Number of callers that are named at each end of a long chain.
const MOST_CHAINED: usize = 12;
/// Smallest share of samples that is listed by itself.
const LEAST_SHARE: f64 = 0.005;
/// Smallest share of CPU time at which page work may be worth a trial of remedies.
const LEAST_WORTH: f64 = 0.01;
/// Smallest share of samples at which pressure-stall accounting is named.
const LEAST_ACCOUNTING: f64 = 0.005;
/// Smallest share of samples at which the first periods of tasks get a line.
const LEAST_BLIND: f64 = 0.05;
/// Number of functions of a deep stack that are shown, from both ends together.
const MOST_FUNCTIONS: usize = 8;
/// The name with which `--graph` shows all graphs; the default.
const ALL: &str = "all";
/// Callees that are too rare to list.
const RARE: &str = "(rare)";
/// Largest indentation of a graph line, in columns.
const DEEPEST: usize = 24;

/// The cost of page work in one sentence: by samples if there are any, else by counts and prices.
pub(crate) fn headline(profile: &ProfileReport, diagnosis: Option<&Diagnosis>) -> String {
    let measured = match (&profile.sorted, diagnosis) {
        (Fact::Known(sorted), _) if sorted.samples > 0 => by_samples(sorted),
        (_, Some(diagnosis)) => by_counts(diagnosis),
        (Fact::Known(_), None) => {
            "no sample hit the process: it used almost no CPU time".to_owned()
        }
        (Fact::Missing(why), None) => format!("no samples: {why}"),
    };
    let bounds = diagnosis.into_iter().flat_map(bounds);
    let bound = |cost: &PageCost| {
        format!("; {} up to {}, not measured", cost.kind.into_str(), percent(cost.time_share))
    };
    measured + &bounds.map(bound).collect::<String>()
}

fn by_samples(sorted: &SortedSamples) -> String {
    let cpu = Nanos(sorted.samples.saturating_mul(sorted.period_ns.0));
    let of_pages = sums(sorted, |bucket| is_page_work(bucket).then(|| bucket.why.clone()));
    let of_pages = of_pages.iter().filter_map(|(why, samples)| Some((why.as_ref()?, *samples)));
    let all = of_pages.clone().map(|(_, samples)| samples).sum();
    match of_pages.clone().next() {
        Some((why, _)) => {
            let share = percent(share(all, sorted.samples));
            format!("page work takes {share} of {cpu} of CPU time, most for {}", why.label())
        }
        None => format!("no page work in {cpu} of CPU time"),
    }
}

/// The cost by counts and prices alone.
pub(crate) fn by_counts(diagnosis: &Diagnosis) -> String {
    match measured(diagnosis).next() {
        Some(most) => {
            let share = percent(counted_share(diagnosis));
            format!("page costs take {share} of CPU time, the most {}", most.kind.into_str())
        }
        None => "no page cost was measured".to_owned(),
    }
}

/// Costs that are only upper bounds of CPU time.
fn bounds(diagnosis: &Diagnosis) -> impl Iterator<Item = &PageCost> {
    let of_cpu = diagnosis.costs.iter().filter(|cost| cost.kind != CostKind::Wakeups);
    of_cpu.filter(|cost| cost.basis == CostBasis::UpperBound && cost.time_share >= LEAST_SHARE)
}

/// Costs of CPU time that were counted, timed or sampled.
fn measured(diagnosis: &Diagnosis) -> impl Iterator<Item = &PageCost> {
    let of_cpu = diagnosis.costs.iter().filter(|cost| cost.kind != CostKind::Wakeups);
    of_cpu.filter(|cost| cost.basis != CostBasis::UpperBound)
}

fn counted_share(diagnosis: &Diagnosis) -> f64 {
    measured(diagnosis).map(|cost| cost.time_share).sum::<f64>().min(1.0)
}

/// The share (0..1) of CPU time that page work takes.
pub(crate) fn page_share(profile: &ProfileReport, diagnosis: Option<&Diagnosis>) -> f64 {
    match &profile.sorted {
        Fact::Known(sorted) if sorted.samples > 0 => {
            let of_pages = sorted.buckets.iter().filter(|bucket| is_page_work(bucket));
            share(of_pages.map(|bucket| bucket.samples).sum(), sorted.samples)
        }
        _ => diagnosis.map_or(0.0, counted_share),
    }
}

/// Whether remedies could be worth a trial.
pub(crate) fn has_page_work(page_share: f64, diagnosis: Option<&Diagnosis>) -> bool {
    let bounds: f64 = diagnosis.into_iter().flat_map(bounds).map(|cost| cost.time_share).sum();
    page_share + bounds >= LEAST_WORTH
}

/// Faults, mappings, copies: work on pages, and not on files or processes.
const fn is_page_work(bucket: &ProfileBucket) -> bool {
    matches!(
        bucket.what,
        ProfileActivity::Copy
            | ProfileActivity::Zeroing
            | ProfileActivity::FaultEntry
            | ProfileActivity::Mapping
            | ProfileActivity::Unmapping
            | ProfileActivity::TlbFlush
            | ProfileActivity::Pinning
            | ProfileActivity::Reclaim
            | ProfileActivity::Compaction
            | ProfileActivity::SwapIn
    ) || matches!(
        bucket.why,
        ProfileReason::Pipe
            | ProfileReason::FileFault
            | ProfileReason::AnonFault
            | ProfileReason::CowFault
            | ProfileReason::Fault
            | ProfileReason::MapCall
    )
}

/// The call graphs of all buckets in one picture. Callees that are too rare to list have no name.
fn flame_graph(sorted: &SortedSamples) -> SvgPicture {
    let mut root = FlameNode::root(sorted.samples);
    for bucket in &sorted.buckets {
        // The path from the root to the next line, by depth.
        let mut path: Vec<&str> = Vec::new();
        for line in &bucket.graph {
            path.truncate(line.depth as usize);
            path.push(if line.folded > 0 { RARE } else { &line.name });
            let flame = path.iter().fold(&mut root, |flame, name| flame.callee(name));
            flame.weight = flame.weight.saturating_add(line.samples);
        }
    }
    let subtitle = format!(
        "{} samples of {}; callees are above callers, kernel frames above the program's",
        count(sorted.samples),
        sorted.period_ns
    );
    let amount = |samples| format!("{} samples", count(samples));
    root.draw("CPU time by callers", &subtitle, &amount)
}

fn title(bucket: &ProfileBucket) -> String {
    match bucket.why {
        ProfileReason::Own => bucket.what.label().to_owned(),
        ProfileReason::Unknown => format!("{}, {}", bucket.what.label(), bucket.why.label()),
        _ => format!("{} for {}", bucket.what.label(), bucket.why.label()),
    }
}

/// The buckets.
#[must_use]
pub fn profile_section(profile: &ProfileReport) -> ReportDocument {
    let mut page = ReportDocument::default();
    match &profile.sorted {
        Fact::Known(sorted) => {
            page.heading(&heading(sorted));
            page.append(bucket_table(sorted));
            page.item("why", &purposes(sorted));
            if sorted.samples > 0 {
                page.figure(flame_graph(sorted));
                page.details("who called it, as text", graph_section(profile, ALL));
            }
            unclassified_items(sorted, &mut page);
        }
        Fact::Missing(why) => {
            page.heading("where CPU time went");
            page.item_tone("buckets", &format!("none by samples: {why}"), TextTone::Warn);
        }
    }
    if !profile.unseen.is_empty() {
        let names: Vec<&str> = profile.unseen.iter().map(|what| what.label()).collect();
        page.item("no figure", &format!("without samples for {}", names.join(", ")));
    }
    for compared in profile.compared.iter().filter(|compared| is_worth_showing(compared, profile)) {
        let tone = if compared.differ { TextTone::Warn } else { TextTone::Plain };
        page.item_tone("two ways", &comparison(compared), tone);
    }
    notes(profile, &mut page);
    page
}

fn heading(sorted: &SortedSamples) -> String {
    let samples = counted(sorted.samples, "sample", "samples");
    let kernel = percent(share(sorted.kernel_samples, sorted.samples));
    let each = sorted.period_ns;
    format!("where CPU time went ({samples} of {each}, {kernel} of them in the kernel)")
}

pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Samples by one key, the largest first.
pub(crate) fn sums<K: Ord>(
    sorted: &SortedSamples,
    key: impl Fn(&ProfileBucket) -> K,
) -> Vec<(K, u64)> {
    let mut sums: BTreeMap<K, u64> = BTreeMap::new();
    for bucket in &sorted.buckets {
        *sums.entry(key(bucket)).or_default() += bucket.samples;
    }
    let mut all: Vec<(K, u64)> = sums.into_iter().collect();
    all.sort_by_key(|(_, samples)| std::cmp::Reverse(*samples));
    all
}

fn bucket_table(sorted: &SortedSamples) -> ReportDocument {
    let columns = [
        ColumnAlignment::Name,
        ColumnAlignment::Left,
        ColumnAlignment::Decimal,
        ColumnAlignment::Decimal,
    ];
    let mut table = ReportTable::new(&columns.map(|align| ("", align)));
    let mut listed = sums(sorted, |bucket| bucket.what);
    let is_worth =
        |(_, samples): &(ProfileActivity, u64)| share(*samples, sorted.samples) >= LEAST_SHARE;
    // The largest come first.
    let small = listed.split_off(listed.partition_point(is_worth));
    for (what, samples) in listed {
        let part = share(samples, sorted.samples);
        let time = Nanos(samples.saturating_mul(sorted.period_ns.0));
        let cells: Vec<TableCell> = vec![
            what.label().into(),
            TableCell::bar(part),
            percent(part).into(),
            time.to_string().into(),
        ];
        let under = Paragraph::new(reasons(sorted, what), 6, TextTone::Faint);
        table.row_with(cells, vec![under]);
    }
    let mut page = ReportDocument::default();
    page.append(table);
    if !small.is_empty() {
        let names: Vec<String> = small
            .iter()
            .map(|(what, samples)| {
                format!("{} {}", what.label(), percent(share(*samples, sorted.samples)))
            })
            .collect();
        page.para(&format!("and {}", names.join(", ")), 2, TextTone::Faint);
    }
    page
}

/// The purposes of `what`; empty if they add nothing to its name.
fn reasons(sorted: &SortedSamples, what: ProfileActivity) -> String {
    let of_what = sorted.buckets.iter().filter(|bucket| bucket.what == what);
    let worth = of_what
        .filter(|bucket| bucket.time_share >= LEAST_SHARE && bucket.why != ProfileReason::Own);
    let one =
        |bucket: &ProfileBucket| format!("{} {}", bucket.why.label(), percent(bucket.time_share));
    worth.map(one).collect::<Vec<_>>().join(", ")
}

fn purposes(sorted: &SortedSamples) -> String {
    let all = sums(sorted, |bucket| bucket.why.clone());
    let worth = all.iter().filter(|(_, samples)| share(*samples, sorted.samples) >= LEAST_SHARE);
    let one = |(why, samples): &(ProfileReason, u64)| {
        format!("{} {}", why.label(), percent(share(*samples, sorted.samples)))
    };
    worth.map(one).collect::<Vec<_>>().join(", ")
}

fn unclassified_items(sorted: &SortedSamples, page: &mut ReportDocument) {
    if sorted.unclassified.is_empty() {
        return;
    }
    let share = percent(sorted.unclassified_share());
    page.item("no rule", &format!("{share} of the samples in the kernel; most frequent:"));
    for stack in &sorted.unclassified {
        let names = stack_text(&stack.symbols);
        page.hanging(&format!("{} x {names}", count(stack.samples)), 4);
    }
}

/// A stack from its leaf on; a deep one is shown without its middle.
fn stack_text(symbols: &[String]) -> String {
    if symbols.len() <= MOST_FUNCTIONS {
        return symbols.join(" < ");
    }
    let (inner, outer) =
        (&symbols[..MOST_FUNCTIONS / 2], &symbols[symbols.len() - MOST_FUNCTIONS / 2..]);
    format!("{} < ... < {}", inner.join(" < "), outer.join(" < "))
}

/// Whether one of the two values is large enough to show.
fn is_worth_showing(compared: &ComparedTime, profile: &ProfileReport) -> bool {
    let all = profile.sorted.known().map_or(0, |s| s.samples.saturating_mul(s.period_ns.0));
    let larger = compared.counted_ns.max(compared.sampled_ns);
    share(larger.0, all) >= LEAST_SHARE
}

fn comparison(compared: &ComparedTime) -> String {
    let ComparedTime { name, counted_ns, sampled_ns, differ } = compared;
    let word = if *differ { ": they disagree" } else { "" };
    format!("{name}: {counted_ns} by counts and prices, {sampled_ns} by samples{word}")
}

fn notes(profile: &ProfileReport, page: &mut ReportDocument) {
    if let Some(course) = &profile.course {
        page.item("process", &course_text(course));
    }
    if let Fact::Known(sorted) = &profile.sorted {
        page.item("clock", &clock_text(&sorted.clock));
    }
    for (label, text) in doubts(profile) {
        page.item_tone(label, &text, TextTone::Warn);
    }
    match &profile.dead_rules {
        Fact::Known(dead) if dead.is_empty() => {}
        Fact::Known(dead) => {
            let names: Vec<String> =
                dead.iter().map(|rule| format!("{} ({})", rule.name, rule.kernels)).collect();
            let rules = counted(dead.len() as u64, "rule matches", "rules match");
            let text = format!("{rules} no function of this kernel: {}", names.join(", "));
            page.item_tone("rules", &text, TextTone::Warn);
        }
        Fact::Missing(why) => {
            page.item("rules", &format!("not checked against this kernel: {why}"))
        }
    }
}

/// What the figures leave out, or what disturbed them, each with a label.
pub(crate) fn doubts(profile: &ProfileReport) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    if let Some(unseen) = profile.course.as_ref().map(|course| course.unseen_children)
        && unseen > 0
    {
        let below = counted(unseen, "descendant", "descendants");
        found.push(("not seen", format!("{below} cannot be observed by this account")));
    }
    let Fact::Known(sorted) = &profile.sorted else { return found };
    if sorted.lost > 0 {
        found.push((
            "samples",
            format!("{} lost", counted(sorted.lost, "sample was", "samples were")),
        ));
    }
    let (blind, seen) = (sorted.blind_ns().0, sorted.samples.saturating_mul(sorted.period_ns.0));
    if blind > 0 && blind as f64 >= LEAST_BLIND * seen as f64 {
        let tasks = counted(sorted.begun_tasks, "process or thread", "processes and threads");
        let text = format!(
            "the first {} of each of {tasks} that began, {} at most: exec, the loader and exit are undercounted",
            sorted.period_ns,
            sorted.blind_ns()
        );
        found.push(("not seen", text));
    }
    if sorted.pressure_accounting_share >= LEAST_ACCOUNTING {
        let share = percent(sorted.pressure_accounting_share);
        let text = format!(
            "{share} of the samples are in pressure-stall accounting, part of each wake-up; boot with psi=0 to avoid it"
        );
        found.push(("disturbed", text));
    }
    found
}

fn clock_text(clock: &SamplingClock) -> String {
    match clock {
        SamplingClock::Cpus => {
            "of each CPU, without the samples of other programs: exec and exit count in full"
                .to_owned()
        }
        SamplingClock::Tasks { why } => {
            format!("of each process and thread, which misses part of exec and exit; {why}")
        }
    }
}

/// The observed process, and for how long.
pub(crate) fn followed(course: &FollowedProcess) -> String {
    let FollowedProcess { pid, wall_ns, .. } = course;
    let threads = counted(course.threads, "thread", "threads");
    let mut text = format!("{pid} with {threads} followed for {wall_ns}");
    if course.children > 0 {
        let below = counted(course.children, "process", "processes");
        text.push_str(&format!(", {below} below it among them"));
    }
    text
}

fn course_text(course: &FollowedProcess) -> String {
    let mut text = followed(course);
    match (course.user_ns, course.sys_ns, course.faults) {
        (Some(user), Some(sys), Some(faults)) => {
            let faults = counted(faults, "fault", "faults");
            text.push_str(&format!(
                "; its own times by the kernel: user {user}, system {sys}; {faults}"
            ));
        }
        _ => text.push_str("; it has ended, and its counters with it"),
    }
    text
}

/// The call graphs of the buckets selected by `wanted`: "all", a what, a why, or "what/why".
#[must_use]
pub fn graph_section(profile: &ProfileReport, wanted: &str) -> ReportDocument {
    let mut page = ReportDocument::default();
    let Fact::Known(sorted) = &profile.sorted else { return page };
    let is_wanted = |bucket: &&ProfileBucket| match wanted {
        ALL => bucket.time_share >= LEAST_SHARE,
        wanted => wanted.split('/').all(|name| has_name(bucket, name)),
    };
    let shown: Vec<&ProfileBucket> = sorted.buckets.iter().filter(is_wanted).collect();
    if shown.is_empty() {
        let names: Vec<String> = sorted.buckets.iter().map(name).collect();
        let text = format!("no samples in {wanted}; buckets with samples: {}", names.join(", "));
        page.para(&text, 0, TextTone::Warn);
    }
    for bucket in shown {
        let mut graph = ReportDocument::default();
        let share = percent(bucket.time_share);
        graph.heading(&format!("{}: {} ({share} of CPU time)", name(bucket), title(bucket)));
        graph_lines(bucket, &mut graph);
        page.section(graph);
    }
    page
}

/// The name that selects a bucket.
fn name(bucket: &ProfileBucket) -> String {
    format!("{}/{}", bucket.what.into_str(), bucket.why.name())
}

fn has_name(bucket: &ProfileBucket, name: &str) -> bool {
    let same = |own: &str| own == name || own.replace('-', "_") == name;
    same(bucket.what.into_str()) || same(bucket.why.name())
}

/// Adds each line with its chain of only callees: a chain is one line.
fn graph_lines(bucket: &ProfileBucket, page: &mut ReportDocument) {
    let lines = &bucket.graph;
    // For each caller of the next line: how many callers were merged into another line.
    let mut joined: Vec<usize> = Vec::new();
    let mut at = 0;
    while let Some(first) = lines.get(at) {
        let depth = first.depth as usize;
        joined.truncate(depth);
        let above = joined.last().copied().unwrap_or(0);
        let mut last = at;
        while continues(lines, last) {
            last += 1;
        }
        let share = percent(share(first.samples, bucket.samples));
        let indent = 2 + (2 * depth.saturating_sub(above)).min(DEEPEST);
        page.hanging(&format!("{share} {}", chain(&lines[at..=last])), indent);
        joined.extend((0..=last - at).map(|length| above + length));
        at = last + 1;
    }
}

/// Whether the line after `at` is its only callee, and `at` has no samples of its own.
fn continues(lines: &[CallGraphLine], at: usize) -> bool {
    match (lines.get(at), lines.get(at + 1)) {
        (Some(caller), Some(callee)) => {
            callee.depth == caller.depth + 1
                && callee.samples == caller.samples
                && callee.folded == 0
        }
        _ => false,
    }
}

fn chain(lines: &[CallGraphLine]) -> String {
    let name = |line: &CallGraphLine| match line.folded {
        0 => line.name.clone(),
        n => counted(n, "more callee", "more callees"),
    };
    let names: Vec<String> = lines.iter().map(name).collect();
    let left_out = names.len().saturating_sub(2 * MOST_CHAINED);
    if left_out == 0 {
        return names.join(" > ");
    }
    let (first, last) = (&names[..MOST_CHAINED], &names[names.len() - MOST_CHAINED..]);
    format!("{} > ({left_out} more) > {}", first.join(" > "), last.join(" > "))
}
