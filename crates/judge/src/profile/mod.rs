//! CPU samples of a program in buckets: what was done, what for, who called it, and what the same costs
//! by counts and prices.
//!
//! Each sample is in exactly one bucket, so shares add up to the whole; what no rule knows
//! ([`crate::activity`]) is a bucket of its own, told with its most frequent stacks. Times are samples
//! times their period: CPU time, all CPUs together. A share below some percent rests on few samples: one
//! of n samples has an error of about its square root.
//!
//! Not seen: waiting (a process that sleeps has no CPU time), and what a rule cannot see (functions
//! inlined into others, work with interrupts off, which shows where they come on again).

mod compare;
mod graph;

use crate::activity::{self, Release};
use graph::Graph;
use pagewise_model::Fact;
use pagewise_model::Nanos;
use pagewise_model::diagnosis::Diagnosis;
use pagewise_model::look::Look;
use pagewise_model::profile::{
    Bucket, Course, DeadRule, FrequentStack, Profile, ProfiledStack, Sorted, StackSamples, What,
    Why,
};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Stacks that no rule knows, told at most.
const MOST_FREQUENT: usize = 5;
/// Beginning of the functions of pressure-stall accounting.
const PRESSURE_ACCOUNTING: &str = "psi_";
/// Buckets that counts times prices fill without samples.
const COUNTED: [What; 7] = [
    What::User,
    What::Copy,
    What::Zeroing,
    What::FaultEntry,
    What::Mapping,
    What::Unmapping,
    What::Scheduling,
];

/// What a profile is made of.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The samples.
    pub samples: &'a Fact<StackSamples>,
    /// What was counted in the same run, and what that costs by prices.
    pub counted: Option<(&'a Look, &'a Diagnosis)>,
    /// All functions of the running kernel.
    pub functions: &'a Fact<HashSet<String>>,
    /// Its release.
    pub release: &'a str,
}

/// The profile that `facts` give; `course` for a process that was running already.
#[must_use]
pub fn judge(facts: &Facts<'_>, course: Option<Course>) -> Profile {
    let sorted = match facts.samples {
        Fact::Known(samples) => Fact::Known(sort(samples)),
        Fact::Missing(why) => Fact::Missing(why.clone()),
    };
    let both = sorted.known().zip(facts.counted);
    let compared = both.map_or_else(Vec::new, |(sorted, (look, diagnosis))| {
        compare::compare(sorted, look, diagnosis)
    });
    let unseen = match sorted {
        Fact::Known(_) => Vec::new(),
        Fact::Missing(_) => unseen(facts.counted.is_some()),
    };
    Profile { sorted, compared, unseen, dead_rules: dead_rules(facts), course }
}

/// Buckets without a figure where no samples were taken.
fn unseen(is_counted: bool) -> Vec<What> {
    let has_figure = |what: &What| match what {
        What::Unclassified | What::User => true,
        what => is_counted && COUNTED.contains(what),
    };
    What::ALL.into_iter().filter(|what| !has_figure(what)).collect()
}

fn dead_rules(facts: &Facts<'_>) -> Fact<Vec<DeadRule>> {
    let Some(release) = Release::parse(facts.release) else {
        return Fact::Missing(format!("{:?} is not a kernel release", facts.release));
    };
    let functions: HashSet<&str> = match facts.functions {
        Fact::Known(functions) => functions.iter().map(String::as_str).collect(),
        Fact::Missing(why) => return Fact::Missing(why.clone()),
    };
    let dead = activity::dead_rules(&functions, release);
    let told = |rule: &&activity::Rule| DeadRule {
        name: rule.name.to_owned(),
        kernels: rule.kernels.to_string(),
    };
    Fact::Known(dead.iter().map(told).collect())
}

/// The samples in buckets, the largest first.
#[must_use]
pub fn sort(samples: &StackSamples) -> Sorted {
    let mut buckets: BTreeMap<(What, Why), Vec<&ProfiledStack>> = BTreeMap::new();
    for stack in &samples.stacks {
        buckets.entry(cell(stack)).or_default().push(stack);
    }
    let total: u64 = samples.stacks.iter().map(|stack| stack.count).sum();
    let of = |stacks: &[&ProfiledStack]| stacks.iter().map(|stack| stack.count).sum::<u64>();
    let unclassified = frequent(&buckets);
    let mut all: Vec<Bucket> = buckets
        .into_iter()
        .map(|((what, why), stacks)| Bucket {
            what,
            why,
            samples: of(&stacks),
            cpu_ns: Nanos(of(&stacks).saturating_mul(samples.period_ns.0)),
            time_share: share(of(&stacks), total),
            graph: Graph::of(&stacks).lines(),
        })
        .filter(|bucket| bucket.samples > 0)
        .collect();
    // Stable: equal ones stay in the order of what and why.
    all.sort_by_key(|bucket| std::cmp::Reverse(bucket.samples));
    let is_user = |stack: &&ProfiledStack| stack.kernel.is_empty();
    let user: u64 = samples.stacks.iter().filter(is_user).map(|stack| stack.count).sum();
    Sorted {
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

fn cell(stack: &ProfiledStack) -> (What, Why) {
    if stack.kernel.is_empty() {
        return (What::User, Why::Own);
    }
    let names: Vec<&str> = stack.kernel.iter().map(String::as_str).collect();
    activity::judge(&names)
}

/// The most frequent kernel stacks that no rule knows.
fn frequent(buckets: &BTreeMap<(What, Why), Vec<&ProfiledStack>>) -> Vec<FrequentStack> {
    let mut counts: HashMap<&[String], u64> = HashMap::new();
    let unknown = buckets.iter().filter(|((what, _), _)| *what == What::Unclassified);
    for stack in unknown.flat_map(|(_, stacks)| stacks) {
        *counts.entry(&stack.kernel).or_default() += stack.count;
    }
    let mut all: Vec<(&[String], u64)> = counts.into_iter().collect();
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    let told =
        |(symbols, samples): (&[String], u64)| FrequentStack { symbols: symbols.to_vec(), samples };
    all.into_iter().take(MOST_FREQUENT).map(told).collect()
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
