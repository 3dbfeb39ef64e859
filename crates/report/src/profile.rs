//! Where CPU time went, in buckets: what was done, largest first, with what for under each; what was
//! done for, as a whole; counts and prices beside samples; what no rule knows, with its stacks. And who
//! called it: the call graph of one bucket or of all.
//!
//! Shares are of all samples, those of a graph's lines of its bucket.

use crate::chart::Flame;
use crate::number::{count, counted, percent};
use crate::page::Document;
use crate::paragraph::Paragraph;
use crate::style::Tone;
use crate::table::{Align, Cell, Table};
use pagewise_model::profile::{
    Bucket, Clock, Compared, FollowedProcess, GraphLine, Profile, Sorted, What, Why,
};
use pagewise_model::{Fact, Nanos};
use std::collections::BTreeMap;

/// Shares of samples below this are not listed by themselves.
const LEAST_SHARE: f64 = 0.005;
/// Pressure-stall accounting is named from this share of samples on.
const LEAST_ACCOUNTING: f64 = 0.005;
/// First periods of tasks, as a share of the samples, that are worth a line.
const LEAST_BLIND: f64 = 0.05;
/// Functions of a stack that are shown of either end.
const MOST_FUNCTIONS: usize = 8;
/// Which graphs `--graph` shows without a name.
const ALL: &str = "all";
/// Callees that are too rare to be listed.
const RARE: &str = "(rare)";
/// A line of a graph is not indented by more than this many columns.
const DEEPEST: usize = 24;

/// The largest bucket in one sentence.
pub(crate) fn headline(profile: &Profile) -> String {
    match &profile.sorted {
        Fact::Known(sorted) => match sorted.buckets.first() {
            Some(bucket) => {
                let share = percent(bucket.time_share);
                format!("the largest part of CPU time, {share}: {}", title(bucket))
            }
            None => "no sample hit the process: it used almost no CPU time".to_owned(),
        },
        Fact::Missing(why) => format!("no samples: {why}"),
    }
}

/// The call graphs of all buckets in one picture. What is too rare to be listed in them has no name.
fn flame_graph(sorted: &Sorted) -> String {
    let mut root = Flame::root(sorted.samples);
    for bucket in &sorted.buckets {
        // From the root to the line that is next, by depth.
        let mut path: Vec<&str> = Vec::new();
        for line in &bucket.graph {
            path.truncate(line.depth as usize);
            path.push(if line.folded > 0 { RARE } else { &line.name });
            let flame = path.iter().fold(&mut root, |flame, name| flame.callee(name));
            flame.samples = flame.samples.saturating_add(line.samples);
        }
    }
    let subtitle = format!(
        "{} samples of {}; callees are above callers, kernel frames above the program's",
        count(sorted.samples),
        sorted.period_ns
    );
    root.draw("CPU time by callers", &subtitle)
}

fn title(bucket: &Bucket) -> String {
    match bucket.why {
        Why::Own => bucket.what.label().to_owned(),
        Why::Unknown => format!("{}, {}", bucket.what.label(), bucket.why.label()),
        _ => format!("{} for {}", bucket.what.label(), bucket.why.label()),
    }
}

/// The buckets.
#[must_use]
pub fn profile_section(profile: &Profile) -> Document {
    let mut page = Document::default();
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
            page.item_tone("buckets", &format!("none by samples: {why}"), Tone::Warn);
        }
    }
    if !profile.unseen.is_empty() {
        let names: Vec<&str> = profile.unseen.iter().map(|what| what.label()).collect();
        page.item("no figure", &format!("without samples for {}", names.join(", ")));
    }
    for compared in profile.compared.iter().filter(|compared| is_worth_showing(compared, profile)) {
        let tone = if compared.differ { Tone::Warn } else { Tone::Plain };
        page.item_tone("two ways", &comparison(compared), tone);
    }
    notes(profile, &mut page);
    page
}

fn heading(sorted: &Sorted) -> String {
    let samples = counted(sorted.samples, "sample", "samples");
    let kernel = percent(share(sorted.kernel_samples, sorted.samples));
    let each = sorted.period_ns;
    format!("where CPU time went ({samples} of {each}, {kernel} of them in the kernel)")
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Samples by one axis, the largest first.
fn sums<K: Ord>(sorted: &Sorted, key: impl Fn(&Bucket) -> K) -> Vec<(K, u64)> {
    let mut sums: BTreeMap<K, u64> = BTreeMap::new();
    for bucket in &sorted.buckets {
        *sums.entry(key(bucket)).or_default() += bucket.samples;
    }
    let mut all: Vec<(K, u64)> = sums.into_iter().collect();
    all.sort_by_key(|(_, samples)| std::cmp::Reverse(*samples));
    all
}

fn bucket_table(sorted: &Sorted) -> Document {
    let columns = [Align::Name, Align::Left, Align::Decimal, Align::Decimal];
    let mut table = Table::new(&columns.map(|align| ("", align)));
    let mut listed = sums(sorted, |bucket| bucket.what);
    let is_worth = |(_, samples): &(What, u64)| share(*samples, sorted.samples) >= LEAST_SHARE;
    // The largest come first.
    let small = listed.split_off(listed.partition_point(is_worth));
    for (what, samples) in listed {
        let part = share(samples, sorted.samples);
        let time = Nanos(samples.saturating_mul(sorted.period_ns.0));
        let cells: Vec<Cell> = vec![
            what.label().into(),
            Cell::bar(part),
            percent(part).into(),
            time.to_string().into(),
        ];
        let under = Paragraph::new(reasons(sorted, what), 6, Tone::Faint);
        table.row_with(cells, vec![under]);
    }
    let mut page = Document::default();
    page.append(table);
    if !small.is_empty() {
        let names: Vec<String> = small
            .iter()
            .map(|(what, samples)| {
                format!("{} {}", what.label(), percent(share(*samples, sorted.samples)))
            })
            .collect();
        page.para(&format!("and {}", names.join(", ")), 2, Tone::Faint);
    }
    page
}

/// What `what` was done for, where there is more to say than its name does.
fn reasons(sorted: &Sorted, what: What) -> String {
    let of_what = sorted.buckets.iter().filter(|bucket| bucket.what == what);
    let worth = of_what.filter(|bucket| bucket.time_share >= LEAST_SHARE && bucket.why != Why::Own);
    let one = |bucket: &Bucket| format!("{} {}", bucket.why.label(), percent(bucket.time_share));
    worth.map(one).collect::<Vec<_>>().join(", ")
}

fn purposes(sorted: &Sorted) -> String {
    let all = sums(sorted, |bucket| bucket.why.clone());
    let worth = all.iter().filter(|(_, samples)| share(*samples, sorted.samples) >= LEAST_SHARE);
    let one = |(why, samples): &(Why, u64)| {
        format!("{} {}", why.label(), percent(share(*samples, sorted.samples)))
    };
    worth.map(one).collect::<Vec<_>>().join(", ")
}

fn unclassified_items(sorted: &Sorted, page: &mut Document) {
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

/// A stack from its leaf on; a deep one without its middle.
fn stack_text(symbols: &[String]) -> String {
    if symbols.len() <= MOST_FUNCTIONS {
        return symbols.join(" < ");
    }
    let (inner, outer) =
        (&symbols[..MOST_FUNCTIONS / 2], &symbols[symbols.len() - MOST_FUNCTIONS / 2..]);
    format!("{} < ... < {}", inner.join(" < "), outer.join(" < "))
}

/// One of the two is more than next to nothing.
fn is_worth_showing(compared: &Compared, profile: &Profile) -> bool {
    let all = profile.sorted.known().map_or(0, |s| s.samples.saturating_mul(s.period_ns.0));
    let larger = compared.counted_ns.max(compared.sampled_ns);
    share(larger.0, all) >= LEAST_SHARE
}

fn comparison(compared: &Compared) -> String {
    let Compared { name, counted_ns, sampled_ns, differ } = compared;
    let word = if *differ { ": they disagree" } else { "" };
    format!("{name}: {counted_ns} by counts and prices, {sampled_ns} by samples{word}")
}

fn notes(profile: &Profile, page: &mut Document) {
    if let Some(course) = &profile.course {
        page.item("process", &course_text(course));
        if course.unseen_children > 0 {
            let children = counted(course.unseen_children, "process", "processes");
            let text = format!("{children} below it cannot be observed by this account");
            page.item_tone("not seen", &text, Tone::Warn);
        }
    }
    if let Fact::Known(sorted) = &profile.sorted {
        sample_notes(sorted, page);
    }
    match &profile.dead_rules {
        Fact::Known(dead) if dead.is_empty() => {}
        Fact::Known(dead) => {
            let names: Vec<String> =
                dead.iter().map(|rule| format!("{} ({})", rule.name, rule.kernels)).collect();
            let rules = counted(dead.len() as u64, "rule matches", "rules match");
            let text = format!("{rules} no function of this kernel: {}", names.join(", "));
            page.item_tone("rules", &text, Tone::Warn);
        }
        Fact::Missing(why) => {
            page.item("rules", &format!("not checked against this kernel: {why}"))
        }
    }
}

fn sample_notes(sorted: &Sorted, page: &mut Document) {
    if sorted.lost > 0 {
        let text = format!("{} were lost", counted(sorted.lost, "sample", "samples"));
        page.item_tone("samples", &text, Tone::Warn);
    }
    page.item("clock", &clock_text(&sorted.clock));
    let (blind, seen) = (sorted.blind_ns().0, sorted.samples.saturating_mul(sorted.period_ns.0));
    if blind > 0 && blind as f64 >= LEAST_BLIND * seen as f64 {
        let tasks = counted(sorted.begun_tasks, "process or thread", "processes and threads");
        let text = format!(
            "the first {} of each of {tasks} that began, {} at most: exec, the loader and exit are undercounted",
            sorted.period_ns,
            sorted.blind_ns()
        );
        page.item_tone("not seen", &text, Tone::Warn);
    }
    if sorted.pressure_accounting_share >= LEAST_ACCOUNTING {
        let share = percent(sorted.pressure_accounting_share);
        let text = format!(
            "{share} of the samples are in pressure-stall accounting, part of each wake-up; boot with psi=0 to avoid it"
        );
        page.item_tone("disturbed", &text, Tone::Warn);
    }
}

fn clock_text(clock: &Clock) -> String {
    match clock {
        Clock::Cpus => {
            "of each CPU, without the samples of other programs: exec and exit count in full"
                .to_owned()
        }
        Clock::Tasks { why } => {
            format!("of each process and thread, which misses part of exec and exit; {why}")
        }
    }
}

fn course_text(course: &FollowedProcess) -> String {
    let FollowedProcess { pid, wall_ns, .. } = course;
    let threads = counted(course.threads, "thread", "threads");
    let mut text = format!("{pid} with {threads} followed for {wall_ns}");
    if course.children > 0 {
        let below = counted(course.children, "process", "processes");
        text.push_str(&format!(", {below} below it among them"));
    }
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

/// The call graphs of the buckets that `wanted` names: "all", a what, a why, or "what/why".
#[must_use]
pub fn graph_section(profile: &Profile, wanted: &str) -> Document {
    let mut page = Document::default();
    let Fact::Known(sorted) = &profile.sorted else { return page };
    let is_wanted = |bucket: &&Bucket| match wanted {
        ALL => bucket.time_share >= LEAST_SHARE,
        wanted => wanted.split('/').all(|name| has_name(bucket, name)),
    };
    let shown: Vec<&Bucket> = sorted.buckets.iter().filter(is_wanted).collect();
    if shown.is_empty() {
        let names: Vec<String> = sorted.buckets.iter().map(name).collect();
        let text = format!("no samples in {wanted}; buckets with samples: {}", names.join(", "));
        page.para(&text, 0, Tone::Warn);
    }
    for bucket in shown {
        let mut graph = Document::default();
        let share = percent(bucket.time_share);
        graph.heading(&format!("{}: {} ({share} of CPU time)", name(bucket), title(bucket)));
        graph_lines(bucket, &mut graph);
        page.section(graph);
    }
    page
}

/// The name by which a bucket is asked for.
fn name(bucket: &Bucket) -> String {
    format!("{}/{}", bucket.what.into_str(), bucket.why.name())
}

fn has_name(bucket: &Bucket, name: &str) -> bool {
    let same = |own: &str| own == name || own.replace('-', "_") == name;
    same(bucket.what.into_str()) || same(bucket.why.name())
}

/// Each line with the callees that are the only ones of their callers: a chain is one line.
fn graph_lines(bucket: &Bucket, page: &mut Document) {
    let lines = &bucket.graph;
    // Of the callers of the line that is next, how many stand in the line of their own caller.
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

/// Whether the line after `at` is the only callee of it, which does nothing itself.
fn continues(lines: &[GraphLine], at: usize) -> bool {
    match (lines.get(at), lines.get(at + 1)) {
        (Some(caller), Some(callee)) => {
            callee.depth == caller.depth + 1
                && callee.samples == caller.samples
                && callee.folded == 0
        }
        _ => false,
    }
}

fn chain(lines: &[GraphLine]) -> String {
    let name = |line: &GraphLine| match line.folded {
        0 => line.name.clone(),
        n => counted(n, "more callee", "more callees"),
    };
    lines.iter().map(name).collect::<Vec<_>>().join(" > ")
}
