//! The table of rules: which kernel symbols mean what, for kernels 5.4 to 6.18 on x86-64 and aarch64.
//!
//! The rules are data in a separate text (`rules.txt`, whose head describes the format), read once. Lines in
//! another format are skipped. A test checks the text against the format.

use pagewise_model::profile::{ProfileActivity, ProfileReason};
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// The table.
const TEXT: &str = include_str!("rules.txt");

/// Where in a stack a rule applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum RulePosition {
    /// Carries out what the caller wants. Skipped at the leaf end of the stack.
    Helper,
    /// Only at the leaf, after helpers.
    Leaf,
    /// Matches anywhere in the stack. If several match, the one nearest to the leaf decides.
    Caller,
    /// Anywhere, and before leaves and callers: all that is done within it is part of it.
    Phase,
    /// Anywhere, and before all others.
    Ruling,
    /// Matches anywhere, if nothing else matched.
    #[strum(serialize = "last")]
    LastResort,
}

/// A release of the kernel: 6.18 is (6, 18).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelRelease(pub u32, pub u32);

impl KernelRelease {
    /// The release that a text such as "6.18.44-generic" begins with.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let number = |word: &str| {
            let end = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
            word[..end].parse().ok()
        };
        let (major, rest) = text.trim().split_once('.')?;
        Some(Self(number(major)?, number(rest)?))
    }
}

impl std::fmt::Display for KernelRelease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// The releases that a rule is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReleaseRange {
    first: KernelRelease,
    last: Option<KernelRelease>,
}

impl ReleaseRange {
    fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.split_once('-')?;
        let last = if last.is_empty() { None } else { Some(KernelRelease::parse(last)?) };
        Some(Self { first: KernelRelease::parse(first)?, last })
    }

    /// Whether `release` is among them.
    #[must_use]
    pub fn contains(&self, release: KernelRelease) -> bool {
        self.first <= release && self.last.is_none_or(|last| release <= last)
    }
}

impl std::fmt::Display for ReleaseRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-", self.first)?;
        self.last.map_or(Ok(()), |last| write!(f, "{last}"))
    }
}

/// One rule: if any of `symbols` is found at `place`, it decides what was done, or why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SymbolRule {
    /// What the rule recognises, in plain text.
    pub name: &'static str,
    /// Releases whose functions it names.
    pub kernels: ReleaseRange,
    /// Where it applies.
    pub place: RulePosition,
    /// What is done.
    pub what: Option<ProfileActivity>,
    pub why: Option<ProfileReason>,
    /// Decides the why only if no other rule does.
    pub is_weak: bool,
    /// Symbol names without suffixes. A name that ends in `*` matches every name with that prefix.
    pub symbols: Vec<&'static str>,
}

impl SymbolRule {
    /// Whether one of its symbols is `symbol`, given without suffixes.
    #[must_use]
    pub fn matches(&self, symbol: &str) -> bool {
        self.symbols.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(beginning) => symbol.starts_with(beginning),
            None => symbol == *pattern,
        })
    }

    fn parse(head: &'static str) -> Option<Self> {
        let mut fields = head.split('|').map(str::trim);
        let mut next = || fields.next();
        let (name, kernels) = (next()?, ReleaseRange::parse(next()?)?);
        let place = next()?.parse().ok()?;
        let (what, why) = (next()?, next()?);
        let (why, is_weak) = why.strip_suffix('?').map_or((why, false), |why| (why, true));
        let what = if what.is_empty() { None } else { Some(what.parse().ok()?) };
        let why = if why.is_empty() { None } else { Some(parse_why(why)?) };
        Some(Self { name, kernels, place, what, why, is_weak, symbols: Vec::new() })
    }
}

fn parse_why(word: &'static str) -> Option<ProfileReason> {
    if let Some(call) = word.strip_prefix("call:") {
        return Some(ProfileReason::Call(call.into()));
    }
    ProfileReason::plain().iter().find(|why| why.name() == word).cloned()
}

/// The kind of question that a rule can answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum RuleQuestion {
    /// Whether it is passed over.
    Helper,
    /// What is done, at this place.
    What(RulePosition),
    /// What for, from a rule that is not weak.
    Why,
    /// What for, from one that is.
    WeakWhy,
}

/// The rules, and where to find them.
#[derive(Debug)]
pub(super) struct RuleTable {
    pub(super) rules: Vec<SymbolRule>,
    whole: HashMap<(RuleQuestion, &'static str), usize>,
    beginnings: HashMap<RuleQuestion, Vec<(&'static str, usize)>>,
}

impl RuleTable {
    fn read(text: &'static str) -> Self {
        let mut rules: Vec<SymbolRule> = Vec::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if line.starts_with(' ') {
                if let Some(rule) = rules.last_mut() {
                    rule.symbols.extend(line.split_ascii_whitespace());
                }
            } else {
                rules.extend(SymbolRule::parse(line));
            }
        }
        let mut table =
            Self { rules: Vec::new(), whole: HashMap::new(), beginnings: HashMap::new() };
        for (at, rule) in rules.iter().enumerate() {
            for question in asked_of(rule) {
                table.add(question, rule, at);
            }
        }
        table.rules = rules;
        table
    }

    fn add(&mut self, question: RuleQuestion, rule: &SymbolRule, at: usize) {
        for symbol in rule.symbols.iter().copied() {
            match symbol.strip_suffix('*') {
                Some(start) => self.beginnings.entry(question).or_default().push((start, at)),
                None => {
                    self.whole.entry((question, symbol)).or_insert(at);
                }
            }
        }
    }

    /// The rule for `symbol`, given without suffixes. An exact name wins over a prefix, an earlier rule over
    /// a later one.
    pub(super) fn find(&self, question: RuleQuestion, symbol: &str) -> Option<&SymbolRule> {
        let whole = || self.whole.get(&(question, symbol)).copied();
        let by_beginning = || {
            let all = self.beginnings.get(&question)?;
            all.iter().find(|(start, _)| symbol.starts_with(start)).map(|(_, at)| *at)
        };
        whole().or_else(by_beginning).and_then(|at| self.rules.get(at))
    }

    /// The rules for `release` that name none of `symbols`, given without suffixes.
    pub(super) fn dead(&self, symbols: &HashSet<&str>, release: KernelRelease) -> Vec<&SymbolRule> {
        let is_alive = |rule: &SymbolRule| {
            let is_there = |pattern: &&str| !pattern.ends_with('*') && symbols.contains(*pattern);
            rule.symbols.iter().any(is_there) || symbols.iter().any(|symbol| rule.matches(symbol))
        };
        let meant = self.rules.iter().filter(|rule| rule.kernels.contains(release));
        meant.filter(|rule| !is_alive(rule)).collect()
    }
}

fn asked_of(rule: &SymbolRule) -> impl Iterator<Item = RuleQuestion> {
    let helper = (rule.place == RulePosition::Helper).then_some(RuleQuestion::Helper);
    let what = rule.what.map(|_| RuleQuestion::What(rule.place));
    let strength = if rule.is_weak { RuleQuestion::WeakWhy } else { RuleQuestion::Why };
    let why = rule.why.as_ref().map(|_| strength);
    [helper, what, why].into_iter().flatten()
}

/// The table, read at its first use.
pub(super) static TABLE: LazyLock<RuleTable> = LazyLock::new(|| RuleTable::read(TEXT));

#[must_use]
pub fn rules() -> &'static [SymbolRule] {
    &TABLE.rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_understood() {
        let is_head = |line: &&str| !line.starts_with([' ', '#']) && !line.is_empty();
        let heads: Vec<&str> = TEXT.lines().filter(is_head).collect();
        let unread: Vec<&&str> =
            heads.iter().filter(|head| SymbolRule::parse(head).is_none()).collect();
        assert!(unread.is_empty(), "{unread:#?}");
        assert_eq!(rules().len(), heads.len());
        assert!(heads.len() > 60);
    }

    #[test]
    fn rules_say_something_and_no_symbol_is_named_twice_for_one_answer() {
        let mut seen = HashSet::new();
        for rule in rules() {
            assert!(!rule.name.is_empty() && !rule.symbols.is_empty(), "{}", rule.name);
            assert!(asked_of(rule).next().is_some(), "{} says nothing", rule.name);
            for question in asked_of(rule) {
                for symbol in &rule.symbols {
                    assert!(seen.insert((question, *symbol)), "{symbol} twice for {question:?}");
                }
            }
        }
    }

    #[test]
    fn releases_are_compared_as_numbers() {
        let release = |text| KernelRelease::parse(text).unwrap();
        assert_eq!(release("6.18.44-fc-v595"), KernelRelease(6, 18));
        assert_eq!(release("5.4-rc1"), KernelRelease(5, 4));
        assert_eq!((KernelRelease::parse("six"), KernelRelease::parse("")), (None, None));
        let until = ReleaseRange::parse("5.4-6.3").unwrap();
        assert!(until.contains(KernelRelease(5, 15)) && until.contains(KernelRelease(6, 3)));
        assert!(!until.contains(KernelRelease(6, 12)) && !until.contains(KernelRelease(4, 19)));
        let since = ReleaseRange::parse("6.4-").unwrap();
        assert!(since.contains(KernelRelease(6, 18)) && !since.contains(KernelRelease(6, 1)));
        assert_eq!((until.to_string(), since.to_string()), ("5.4-6.3".into(), "6.4-".into()));
    }

    #[test]
    fn a_line_of_another_form_is_passed_over() {
        for line in ["", "name", "a | 5.4- | nowhere | copy |", "a | x | leaf | copy |"] {
            assert_eq!(SymbolRule::parse(line), None, "{line}");
        }
        assert_eq!(SymbolRule::parse("a | 5.4- | leaf | nothing |"), None);
        assert_eq!(SymbolRule::parse("a | 5.4- | leaf | copy | nobody"), None);
    }
}
