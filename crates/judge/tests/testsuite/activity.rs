//! Stacks labelled by hand, and the rules checked against the symbols of seven kernel generations.

use pagewise_judge::activity::{KernelRelease, classify, dead_rules, judge, rules};
use pagewise_model::profile::{ProfileActivity, ProfileReason};
use std::collections::{HashMap, HashSet};

const STACKS: &str = include_str!("../fixtures/stacks.txt");
const CELLS: &str = include_str!("../fixtures/cells.txt");
const SYMBOLS: &str = include_str!("../fixtures/symbols.txt");

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

fn generations() -> HashMap<&'static str, HashSet<&'static str>> {
    let mut found: HashMap<&str, HashSet<&str>> = HashMap::new();
    let mut current = Vec::new();
    for line in lines(SYMBOLS) {
        match line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            Some(versions) => current = versions.split(' ').collect(),
            None => {
                for version in &current {
                    found.entry(version).or_default().extend(line.split_ascii_whitespace());
                }
            }
        }
    }
    found
}

#[test]
fn labelled_stacks_get_their_label() {
    let mut wrong = Vec::new();
    for line in lines(STACKS) {
        let (label, stack) = line.split_once(": ").expect("label: stack");
        let frames: Vec<&str> = stack.split(" < ").map(str::trim).collect();
        let got = format!("{:?}", classify(&frames)).to_lowercase();
        if got != label {
            wrong.push(format!("{line} -> {got}"));
        }
    }
    assert!(lines(STACKS).count() >= 60);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The label of what and why in the form of the examples; calls as in the table of rules.
fn cell(what: ProfileActivity, why: &ProfileReason) -> String {
    let call = if matches!(why, ProfileReason::Call(_)) { "call:" } else { "" };
    format!("{}/{call}{}", what.into_str(), why.name())
}

#[test]
fn labelled_stacks_are_in_their_bucket() {
    let mut wrong = Vec::new();
    for line in lines(CELLS) {
        let (label, stack) = line.split_once(": ").expect("what/why: stack");
        let frames: Vec<&str> = stack.split(" < ").map(str::trim).collect();
        let (what, why) = judge(&frames);
        if cell(what, &why) != label {
            wrong.push(format!("{line} -> {}", cell(what, &why)));
        }
    }
    assert!(lines(CELLS).count() >= 75);
    assert!(wrong.is_empty(), "{wrong:#?}");
    // Every what and every why of a kernel stack has an example.
    let labels: Vec<&str> = lines(CELLS).filter_map(|line| line.split(": ").next()).collect();
    let has = |part: &str| labels.iter().any(|label| label.split('/').any(|half| half == part));
    let whats = ProfileActivity::ALL
        .iter()
        .filter(|what| **what != ProfileActivity::User)
        .map(|what| what.into_str());
    let whys = ProfileReason::plain()
        .iter()
        .filter(|why| **why != ProfileReason::Own)
        .map(ProfileReason::name);
    let missing: Vec<&str> = whats.chain(whys).filter(|name| !has(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn no_rule_is_dead_on_any_supported_kernel() {
    let generations = generations();
    assert_eq!(generations.len(), 7);
    for (version, symbols) in &generations {
        let release = KernelRelease::parse(version).expect("a release");
        let dead: Vec<&str> = dead_rules(symbols, release).iter().map(|rule| rule.name).collect();
        assert!(dead.is_empty(), "Linux {version}: {dead:?}");
    }
}

#[test]
fn no_symbol_of_a_rule_is_unheard_of() {
    let all: HashSet<&str> = generations().into_values().flatten().collect();
    let unheard: usize = rules()
        .iter()
        .flat_map(|rule| &rule.symbols)
        .filter(|symbol| match symbol.strip_suffix('*') {
            Some(beginning) => !all.iter().any(|known| known.starts_with(beginning)),
            None => !all.contains(**symbol),
        })
        .count();
    let symbols: usize = rules().iter().map(|rule| rule.symbols.len()).sum();
    // The missing ones are those of aarch64, of other file systems, and of functions that compilers may inline.
    assert!(unheard * 8 < symbols, "{unheard} of {symbols}");
}

#[test]
fn a_kernel_without_a_rules_symbols_makes_it_dead() {
    let without_copies: HashSet<&str> = ["filemap_read", "clear_page_erms"].into();
    let release = KernelRelease(6, 18);
    let dead = dead_rules(&without_copies, release);
    let meant = rules().iter().filter(|rule| rule.kernels.contains(release)).count();
    assert_eq!(dead.len(), meant - 2);
    assert!(dead.iter().any(|rule| rule.name == "copies to and from user memory"));
    // A rule for older kernels is not missed on a kernel that never had its symbols.
    let former = "user copies of former generations";
    assert!(dead.iter().all(|rule| rule.name != former));
    assert!(
        dead_rules(&without_copies, KernelRelease(5, 4)).iter().any(|rule| rule.name == former)
    );
}
