//! Stacks labelled by hand, and the rules against the symbols of six kernel generations.

use pagewise_judge::activity::{RULES, classify, dead_rules};
use std::collections::{HashMap, HashSet};

const STACKS: &str = include_str!("fixtures/stacks.txt");
const SYMBOLS: &str = include_str!("fixtures/symbols.txt");

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

fn generations() -> HashMap<&'static str, HashSet<&'static str>> {
    let mut found: HashMap<&str, HashSet<&str>> = HashMap::new();
    let mut current = "";
    for line in lines(SYMBOLS) {
        match line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            Some(version) => current = version,
            None => found.entry(current).or_default().extend(line.split_ascii_whitespace()),
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

#[test]
fn no_rule_is_dead_on_any_supported_kernel() {
    let generations = generations();
    assert_eq!(generations.len(), 6);
    for (version, symbols) in &generations {
        let dead: Vec<&str> = dead_rules(symbols).iter().map(|rule| rule.name).collect();
        assert!(dead.is_empty(), "Linux {version}: {dead:?}");
    }
}

#[test]
fn a_kernel_without_a_rules_symbols_makes_it_dead() {
    let without_copies: HashSet<&str> = ["filemap_read", "clear_page_erms"].into();
    let dead = dead_rules(&without_copies);
    assert_eq!(dead.len(), RULES.len() - 2);
    assert!(dead.iter().any(|rule| rule.name == "copies to and from user memory"));
}
