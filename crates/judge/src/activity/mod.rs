//! Sorts kernel stacks into activities: what was the kernel doing for the program at this sample?
//!
//! A stack is a list of symbol names, leaf first. The leaf alone often says nothing (a spin lock,
//! `rep movs` in a helper, the page allocator), so the *stack* is judged:
//! 1. frames that only carry out what their caller wants are passed over ([`Place::Helper`]);
//! 2. the first frame left is tried against the leaf rules ("clearing a page");
//! 3. then each frame from there upwards against the caller rules; the first match wins, so reclaim
//!    inside a fault is reclaim, and a fault inside a copy is a fault;
//! 4. what is still open is tried against the last-resort rules (system call entry, TLB flush).
//!
//! Rules are data ([`rules::RULES`]); one rule lists the names of several kernel generations, and
//! [`dead_rules`] tells which rules match nothing on a kernel: a test holds them against recorded
//! symbol lists, so that a renamed symbol fails there and is not a bucket that is silently 0. Compiler suffixes (`.constprop.0`, `.isra.0`,
//! `.part.0`, `.cold`) and the allocation-profiling suffix `_noprof` are stripped first.
//!
//! Not seen: functions inlined into their callers, and work with interrupts off, which a timer
//! sample bills to the place where they are enabled again (`finish_task_switch`, spin unlock).

mod rules;

pub use rules::{Place, RULES, Rule};

use pagewise_model::diagnosis::Activity;
use pagewise_model::look::{Samples, UNKNOWN_SYMBOL};
use std::collections::{BTreeMap, HashSet};

/// The kernel samples by activity; those whose stacks are not listed are unknown.
#[must_use]
pub fn sort(samples: &Samples) -> BTreeMap<Activity, u64> {
    let mut sorted: BTreeMap<Activity, u64> = BTreeMap::new();
    let mut add = |activity, count: u64| {
        let sum = sorted.entry(activity).or_default();
        *sum = sum.saturating_add(count);
    };
    for stack in &samples.stacks {
        let names: Vec<&str> = stack.symbols.iter().map(String::as_str).collect();
        add(classify(&names), stack.count);
    }
    if samples.rest > 0 {
        add(Activity::Unknown, samples.rest);
    }
    sorted
}

/// The activity of one kernel stack: symbol names, leaf first.
#[must_use]
pub fn classify(stack: &[&str]) -> Activity {
    let frames: Vec<&str> = stack.iter().map(|name| strip_suffixes(name)).collect();
    let start = frames.iter().position(|f| find(Place::Helper, f).is_none()).unwrap_or(0);
    let Some(leaf) = frames.get(start) else { return Activity::Unknown };
    if let Some(rule) = find(Place::Leaf, leaf) {
        return rule.activity;
    }
    let above = &frames[start..];
    let by_caller = above.iter().find_map(|f| find(Place::Caller, f));
    // The last resort also looks at the helpers: a lone TLB flush is still a TLB flush.
    let rule = by_caller.or_else(|| frames.iter().find_map(|f| find(Place::LastResort, f)));
    match rule {
        Some(rule) => rule.activity,
        None if frames.iter().all(|f| f.is_empty() || *f == UNKNOWN_SYMBOL) => Activity::Unknown,
        None => Activity::Other,
    }
}

/// Rules none of whose names exist among `symbols`: what they stand for cannot be recognised on
/// that kernel under this name (or it does not have the feature).
#[must_use]
pub fn dead_rules(symbols: &HashSet<&str>) -> Vec<&'static Rule> {
    let stripped: HashSet<&str> = symbols.iter().map(|s| strip_suffixes(s)).collect();
    RULES.iter().filter(|rule| !stripped.iter().any(|s| rule.matches(s))).collect()
}

/// `symbol` without the suffixes that compilers and allocation profiling add.
#[must_use]
pub fn strip_suffixes(symbol: &str) -> &str {
    const CUTS: [&str; 5] = [".constprop.", ".isra.", ".part.", ".cold", ".llvm."];
    let cut = CUTS.iter().filter_map(|c| symbol.find(c)).min().unwrap_or(symbol.len());
    let name = &symbol[..cut];
    name.strip_suffix("_noprof").unwrap_or(name)
}

fn find(place: Place, symbol: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.place == place && rule.matches(symbol))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::look::KernelStack;

    #[test]
    fn suffixes_are_stripped_in_any_combination() {
        assert_eq!(strip_suffixes("finish_task_switch.isra.0"), "finish_task_switch");
        assert_eq!(strip_suffixes("copy_process.cold"), "copy_process");
        assert_eq!(strip_suffixes("a.part.3.constprop.1.cold"), "a");
        assert_eq!(strip_suffixes("__alloc_pages_noprof"), "__alloc_pages");
        assert_eq!(strip_suffixes("alloc_noprof.isra.0"), "alloc");
        assert_eq!(strip_suffixes("filemap_read"), "filemap_read");
    }

    #[test]
    fn nothing_known_is_unknown_and_a_known_stranger_is_other() {
        assert_eq!(classify(&[]), Activity::Unknown);
        assert_eq!(classify(&[UNKNOWN_SYMBOL, ""]), Activity::Unknown);
        assert_eq!(classify(&["crypto_shash_update"]), Activity::Other);
    }

    #[test]
    fn samples_are_sorted_and_none_is_lost() {
        let stack = |symbols: &[&str], count| KernelStack {
            symbols: symbols.iter().map(ToString::to_string).collect(),
            count,
        };
        let samples = Samples {
            stacks: vec![
                stack(&["_copy_to_iter", "filemap_read"], 7),
                stack(&["_copy_to_iter", "copy_page_to_iter"], 2),
                stack(&["anon_pipe_write"], 3),
                stack(&[], 1),
            ],
            rest: 4,
            user: 50,
            ..Samples::default()
        };
        let sorted = sort(&samples);
        let want = [(Activity::Copy, 9), (Activity::Pipe, 3), (Activity::Unknown, 5)];
        assert_eq!(sorted, BTreeMap::from(want));
        assert_eq!(sorted.values().sum::<u64>(), samples.kernel_total());
        assert_eq!(sort(&Samples::default()), BTreeMap::new());
    }

    #[test]
    fn an_unknown_leaf_is_blamed_on_its_caller() {
        assert_eq!(classify(&[UNKNOWN_SYMBOL, "filemap_read"]), Activity::File);
    }

    #[test]
    fn a_stack_of_helpers_alone_still_gets_an_answer() {
        assert_eq!(classify(&["_raw_spin_lock"]), Activity::Other);
        assert_eq!(classify(&["native_flush_tlb_one_user"]), Activity::MapUnmap);
    }

    #[test]
    fn rules_have_names_and_are_not_repeated() {
        let mut seen = HashSet::new();
        for rule in RULES {
            assert!(!rule.name.is_empty() && !rule.symbols.is_empty());
            for symbol in rule.symbols.split_ascii_whitespace() {
                assert!(seen.insert((rule.place, symbol)), "{symbol} twice as {:?}", rule.place);
            }
        }
    }
}
