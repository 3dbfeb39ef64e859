//! CPU samples of a program in buckets: what was done, why, who called it, and the same cost by counts and
//! prices.
//!
//! Each sample is in exactly one bucket, so shares add up to the whole. Samples that no rule matches
//! ([`crate::activity`]) form a separate bucket, reported with its most frequent stacks. Times are samples
//! times their period: CPU time of all CPUs together. A small share rests on few samples: n samples have an
//! error of about the square root of n.
//!
//! Not seen: waiting (a sleeping process has no CPU time), and functions inlined into others. Work with
//! interrupts off shows up where they are enabled again.

use crate::activity::{self, KernelRelease};
use crate::code_tlb::sampled_pages;
use crate::diagnosis::{disagree, recording_ns};
use pagewise_model::diagnosis::{CostBasis, CostKind, Diagnosis};
use pagewise_model::look::LookFindings;
use pagewise_model::profile::{
    CallGraphLine, ComparedTime, DeadRule, FollowedProcess, FrequentStack, ProfileActivity,
    ProfileBucket, ProfileReason, ProfileReport, ProfiledStack, SortedSamples, StackSamples,
    UserFrame,
};
use pagewise_model::{Fact, Nanos};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// At most this many unmatched stacks are reported.
const MOST_FREQUENT: usize = 5;
/// Beginning of the functions of pressure-stall accounting.
const PRESSURE_ACCOUNTING: &str = "psi_";
/// Buckets that counts times prices fill without samples.
const COUNTED: [ProfileActivity; 7] = [
    ProfileActivity::User,
    ProfileActivity::Copy,
    ProfileActivity::Zeroing,
    ProfileActivity::FaultEntry,
    ProfileActivity::Mapping,
    ProfileActivity::Unmapping,
    ProfileActivity::Scheduling,
];

/// What a profile is made of.
#[derive(Debug, Clone, Copy)]
pub struct ProfileFacts<'a> {
    pub samples: &'a Fact<StackSamples>,
    /// The counts of the same run, and their cost by prices.
    pub counted: Option<(&'a LookFindings, &'a Diagnosis)>,
    /// All functions of the running kernel.
    pub functions: &'a Fact<HashSet<String>>,
    pub release: &'a str,
    /// Entries of this machine's first-level TLB for code, if it claims any.
    pub code_entries: Option<u32>,
}

/// The profile that `facts` give; `course` for a process that was running already.
#[must_use]
pub fn judge(facts: &ProfileFacts<'_>, course: Option<FollowedProcess>) -> ProfileReport {
    let sorted = match facts.samples {
        Fact::Known(samples) => Fact::Known(sort(samples)),
        Fact::Missing(why) => Fact::Missing(why.clone()),
    };
    let both = sorted.known().zip(facts.counted);
    let compared =
        both.map_or_else(Vec::new, |(sorted, (look, diagnosis))| compare(sorted, look, diagnosis));
    let unseen = match sorted {
        Fact::Known(_) => Vec::new(),
        Fact::Missing(_) => unseen(facts.counted.is_some()),
    };
    let code_pages =
        facts.samples.known().and_then(|samples| sampled_pages(samples, facts.code_entries));
    ProfileReport { sorted, compared, unseen, dead_rules: dead_rules(facts), code_pages, course }
}

/// Buckets that have no figure if no samples were taken.
fn unseen(is_counted: bool) -> Vec<ProfileActivity> {
    let has_figure = |what: &ProfileActivity| match what {
        ProfileActivity::Unclassified | ProfileActivity::User => true,
        what => is_counted && COUNTED.contains(what),
    };
    ProfileActivity::ALL.iter().copied().filter(|what| !has_figure(what)).collect()
}

fn dead_rules(facts: &ProfileFacts<'_>) -> Fact<Vec<DeadRule>> {
    let Some(release) = KernelRelease::parse(facts.release) else {
        return Fact::Missing(format!("{:?} is not a kernel release", facts.release));
    };
    let functions: HashSet<&str> = match facts.functions {
        Fact::Known(functions) => functions.iter().map(String::as_str).collect(),
        Fact::Missing(why) => return Fact::Missing(why.clone()),
    };
    let dead = activity::dead_rules(&functions, release);
    let reported = |rule: &&activity::SymbolRule| DeadRule {
        name: rule.name.to_owned(),
        kernels: rule.kernels.to_string(),
    };
    Fact::Known(dead.iter().map(reported).collect())
}

/// The samples in buckets, the largest first.
#[must_use]
pub fn sort(samples: &StackSamples) -> SortedSamples {
    let mut buckets: BTreeMap<(ProfileActivity, ProfileReason), Vec<&ProfiledStack>> =
        BTreeMap::new();
    for stack in &samples.stacks {
        buckets.entry(cell(stack)).or_default().push(stack);
    }
    let total: u64 = samples.stacks.iter().map(|stack| stack.count).sum();
    let of = |stacks: &[&ProfiledStack]| stacks.iter().map(|stack| stack.count).sum::<u64>();
    let unclassified = frequent(&buckets);
    let mut all: Vec<ProfileBucket> = buckets
        .into_iter()
        .map(|((what, why), stacks)| ProfileBucket {
            what,
            why,
            samples: of(&stacks),
            cpu_ns: Nanos(of(&stacks).saturating_mul(samples.period_ns.0)),
            time_share: share(of(&stacks), total),
            graph: graph(&stacks),
        })
        .filter(|bucket| bucket.samples > 0)
        .collect();
    // The sort is stable: equal buckets stay in the order of what and why.
    all.sort_by_key(|bucket| std::cmp::Reverse(bucket.samples));
    let is_user = |stack: &&ProfiledStack| stack.kernel.is_empty();
    let user: u64 = samples.stacks.iter().filter(is_user).map(|stack| stack.count).sum();
    SortedSamples {
        samples: total,
        kernel_samples: total.saturating_sub(user),
        lost: samples.lost,
        period_ns: samples.period_ns,
        clock: samples.clock.clone(),
        begun_tasks: samples.begun_tasks,
        buckets: all,
        unclassified,
        pressure_accounting_share: share(in_pressure_accounting(samples), total),
    }
}

fn cell(stack: &ProfiledStack) -> (ProfileActivity, ProfileReason) {
    if stack.kernel.is_empty() {
        return (ProfileActivity::User, ProfileReason::Own);
    }
    let names: Vec<&str> = stack.kernel.iter().map(AsRef::as_ref).collect();
    activity::judge(&names)
}

/// The most frequent kernel stacks that no rule matches.
fn frequent(
    buckets: &BTreeMap<(ProfileActivity, ProfileReason), Vec<&ProfiledStack>>,
) -> Vec<FrequentStack> {
    let mut counts: HashMap<&[Arc<str>], u64> = HashMap::new();
    let unknown = buckets.iter().filter(|((what, _), _)| *what == ProfileActivity::Unclassified);
    for stack in unknown.flat_map(|(_, stacks)| stacks) {
        *counts.entry(&stack.kernel).or_default() += stack.count;
    }
    let mut all: Vec<(&[Arc<str>], u64)> = counts.into_iter().collect();
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    let reported = |(symbols, samples): (&[Arc<str>], u64)| FrequentStack {
        symbols: symbols.iter().map(ToString::to_string).collect(),
        samples,
    };
    all.into_iter().take(MOST_FREQUENT).map(reported).collect()
}

fn in_pressure_accounting(samples: &StackSamples) -> u64 {
    let is_in = |stack: &&ProfiledStack| {
        stack.kernel.iter().any(|symbol| symbol.starts_with(PRESSURE_ACCOUNTING))
    };
    samples.stacks.iter().filter(is_in).map(|stack| stack.count).sum()
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests;

// Counts times prices compared with samples, for sums that both have.
//
// A price covers a whole transfer or fault, so sums of buckets are compared, not single buckets. The price of
// a fault includes its share of unmapping, that of a transfer its calls, locks and pages. Two costs are not
// compared: wake-ups (their price is the time until the other side runs, samples are CPU time) and address
// translation, which samples cannot see.

/// A comparison: its name, the costs that are added up, and the buckets that belong to them.
struct BucketComparison {
    name: &'static str,
    costs: &'static [CostKind],
    holds: fn(&ProfileBucket) -> bool,
    /// The recording of faults is done within it.
    holds_recording: bool,
}

const SUMS: [BucketComparison; 4] = [
    BucketComparison {
        name: "zeroing",
        costs: &[CostKind::Zeroing],
        holds: |bucket| bucket.what == ProfileActivity::Zeroing,
        holds_recording: false,
    },
    BucketComparison {
        name: "faults, mapping and unmapping, zeroing",
        costs: activity::MAPPING_COSTS,
        holds: |bucket| activity::is_mapping_work(bucket.what, &bucket.why),
        holds_recording: true,
    },
    BucketComparison {
        name: "data through pipes",
        costs: &[CostKind::PipeCopies],
        holds: |bucket| bucket.why == ProfileReason::Pipe && is_transfer(bucket.what),
        holds_recording: false,
    },
    BucketComparison {
        name: "data of files",
        costs: &[CostKind::FileCopies],
        holds: |bucket| is_file_data(&bucket.why) && is_transfer(bucket.what),
        holds_recording: false,
    },
];

const fn is_transfer(what: ProfileActivity) -> bool {
    !matches!(
        what,
        ProfileActivity::Scheduling
            | ProfileActivity::IoWait
            | ProfileActivity::Reclaim
            | ProfileActivity::Compaction
            | ProfileActivity::Pinning
    )
}

fn is_file_data(why: &ProfileReason) -> bool {
    match why {
        ProfileReason::FileRead | ProfileReason::FileWrite => true,
        ProfileReason::Call(name) => {
            matches!(name.as_ref(), "read" | "write" | "pread64" | "pwrite64")
        }
        _ => false,
    }
}

/// All sums of which `diagnosis` has a cost.
fn compare(
    sorted: &SortedSamples,
    look: &LookFindings,
    diagnosis: &Diagnosis,
) -> Vec<ComparedTime> {
    let cpu_ns = sorted.samples as f64 * sorted.period_ns.0 as f64;
    let recording = recording_ns(look);
    let compared = |sum: &BucketComparison| {
        let counts = |basis| matches!(basis, CostBasis::CountsTimesPrice | CostBasis::Timed);
        let costs =
            diagnosis.costs.iter().filter(|c| sum.costs.contains(&c.kind) && counts(c.basis));
        let counted: u64 = costs.map(|cost| cost.cost_ns.0).sum();
        if counted == 0 {
            return None;
        }
        let buckets = sorted.buckets.iter().filter(|bucket| (sum.holds)(bucket));
        let sampled = buckets.map(|bucket| bucket.cpu_ns.0 as f64).sum::<f64>();
        let own = if sum.holds_recording { recording } else { 0.0 };
        let sampled = (sampled - own).max(0.0);
        Some(ComparedTime {
            name: sum.name.to_owned(),
            counted_ns: Nanos(counted),
            sampled_ns: Nanos::from_f64(sampled),
            differ: disagree(counted as f64, sampled, cpu_ns),
        })
    };
    SUMS.iter().filter_map(compared).collect()
}

// The call graph of a bucket: from the process through its own functions to those of the kernel.
//
// Stacks with the same beginning share it. A recursive function is one line, however deep it recurses.
// Otherwise each depth would be a line, and stacks that differ only in depth would be separate. Callees below
// one percent of the bucket are folded into one line. So a graph has at most some hundred lines, however many
// stacks there are.

/// A callee with less than one in this many samples of the bucket is folded.
const FOLDED_BELOW: u64 = 100;

/// What a line of a graph represents. Equal frames of one caller are one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum GraphFrame<'a> {
    /// A process, or a function of the kernel.
    Named(&'a str),
    /// A function of a file other than the program. Only the file if the function is not known.
    Code(Option<&'a str>, &'a str),
}

impl<'a> GraphFrame<'a> {
    fn of_code(frame: &'a UserFrame, process: &str) -> Self {
        let file = frame.path.rsplit('/').next().unwrap_or_default();
        match frame.function.as_deref() {
            Some(function) if is_own(file, process) => Self::Named(function),
            function => Self::Code(function, if file.is_empty() { "no file" } else { file }),
        }
    }

    fn text(self) -> String {
        match self {
            Self::Named(name) => name.to_owned(),
            Self::Code(Some(function), file) => format!("{function} ({file})"),
            Self::Code(None, file) => format!("({file})"),
        }
    }
}

/// Whether a process of this name runs this file. The kernel keeps 15 bytes of a name.
fn is_own(file: &str, process: &str) -> bool {
    file == process || (process.len() == 15 && file.starts_with(process))
}

/// Stacks with the same beginning, whose next level is not yet written.
#[derive(Debug)]
struct GraphGroup<'s, 'a> {
    depth: u32,
    line: Option<CallGraphLine>,
    stacks: Vec<&'s ShownStack<'a>>,
}

/// A stack as it is shown.
#[derive(Debug)]
struct ShownStack<'a> {
    of: &'a ProfiledStack,
    /// Its frames of the program, the outermost first, by their places; of those that follow one like them the last.
    user: Vec<u32>,
}

impl<'a> ShownStack<'a> {
    fn new(of: &'a ProfiledStack) -> Self {
        let code = |at: usize| GraphFrame::of_code(&of.user[at], &of.process);
        let repeats = |at: usize| at > 0 && code(at) == code(at - 1);
        let user = (0..of.user.len()).rev().filter(|at| !repeats(*at)).map(|at| at as u32);
        Self { of, user: user.collect() }
    }

    /// The frame at this depth below its process.
    fn frame(&self, depth: u32) -> Option<GraphFrame<'a>> {
        let Some(below) = (depth as usize).checked_sub(1) else {
            return Some(GraphFrame::Named(&self.of.process));
        };
        match below.checked_sub(self.user.len()) {
            None => {
                let frame = self.of.user.get(*self.user.get(below)? as usize)?;
                Some(GraphFrame::of_code(frame, &self.of.process))
            }
            Some(inside) => {
                self.of.kernel.iter().rev().nth(inside).map(|name| GraphFrame::Named(name))
            }
        }
    }
}

/// The graph from the outermost callers on. The pending work is lists of stacks, each stack in one list. So
/// memory depends on the number of stacks, not on their depth.
fn graph(stacks: &[&ProfiledStack]) -> Vec<CallGraphLine> {
    let all = stacks.iter().map(|stack| stack.count).sum();
    let mut lines = Vec::new();
    let stacks: Vec<ShownStack<'_>> = stacks.iter().map(|stack| ShownStack::new(stack)).collect();
    let stacks: Vec<&ShownStack<'_>> = stacks.iter().collect();
    // The next last.
    let mut left = callees(0, &stacks, all);
    while let Some(GraphGroup { depth, line, stacks }) = left.pop() {
        lines.extend(line);
        left.extend(callees(depth, &stacks, all));
    }
    lines
}

/// Groups stacks that are equal up to `depth` by their next frame, the most frequent group last.
fn callees<'s, 'a>(depth: u32, stacks: &[&'s ShownStack<'a>], all: u64) -> Vec<GraphGroup<'s, 'a>> {
    let mut samples: FxHashMap<GraphFrame<'a>, u64> = FxHashMap::default();
    for stack in stacks {
        if let Some(frame) = stack.frame(depth) {
            *samples.entry(frame).or_default() += stack.of.count;
        }
    }
    let (mut folded, mut of_folded) = (0, 0);
    samples.retain(|_, samples| {
        let is_listed = samples.saturating_mul(FOLDED_BELOW) >= all;
        if !is_listed {
            (folded, of_folded) = (folded + 1, of_folded + *samples);
        }
        is_listed
    });
    let mut listed: Vec<(GraphFrame<'a>, u64)> = samples.into_iter().collect();
    listed.sort_by(|(a, of_a), (b, of_b)| of_a.cmp(of_b).then_with(|| b.text().cmp(&a.text())));
    let at: FxHashMap<GraphFrame<'a>, usize> =
        listed.iter().enumerate().map(|(at, (frame, _))| (*frame, at)).collect();
    let group = |(frame, samples): &(GraphFrame<'a>, u64)| {
        let line = CallGraphLine { depth, name: frame.text(), samples: *samples, folded: 0 };
        GraphGroup { depth: depth + 1, line: Some(line), stacks: Vec::new() }
    };
    let mut groups: Vec<GraphGroup<'s, 'a>> = listed.iter().map(group).collect();
    for stack in stacks {
        if let Some(at) = stack.frame(depth).and_then(|frame| at.get(&frame)) {
            groups[*at].stacks.push(stack);
        }
    }
    if of_folded > 0 {
        let (name, samples) = (String::new(), of_folded);
        let line = Some(CallGraphLine { depth, name, samples, folded });
        groups.insert(0, GraphGroup { depth, line, stacks: Vec::new() });
    }
    groups
}
