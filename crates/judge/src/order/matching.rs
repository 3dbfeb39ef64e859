//! Finds the functions of one build in another one. Matches by name, then by stem. Functions that share a
//! stem are matched by size and callees. Renamed functions come last, by equal size and equal callees.

use super::names::stem;
use pagewise_model::Bytes;
use pagewise_model::pieces::BuildSymbol;
use std::collections::{HashMap, HashSet};

/// Callees that a function without a matching name must share, at least.
const LEAST_CALLEES: usize = 2;

/// How names of an order were found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FunctionMatches {
    /// For each of the former functions the place of its counterpart.
    pub places: Vec<Option<usize>>,
    /// By the very name.
    pub exact: u64,
    /// By what stays of the name.
    pub by_stem: u64,
    /// By size and callees.
    pub by_callees: u64,
}

/// The counterparts of `old` among `new`, each taken once.
#[must_use]
pub fn counterparts(old: &[BuildSymbol], new: &[BuildSymbol]) -> FunctionMatches {
    let mut search = MatchSearch::new(old, new);
    search.exact();
    search.by_stem();
    search.by_callees();
    search.found
}

struct MatchSearch<'a> {
    old: &'a [BuildSymbol],
    new: &'a [BuildSymbol],
    stems: Vec<String>,
    is_taken: Vec<bool>,
    found: FunctionMatches,
}

impl<'a> MatchSearch<'a> {
    fn new(old: &'a [BuildSymbol], new: &'a [BuildSymbol]) -> Self {
        Self {
            old,
            new,
            stems: new.iter().map(|one| stem(&one.name)).collect(),
            is_taken: vec![false; new.len()],
            found: FunctionMatches { places: vec![None; old.len()], ..FunctionMatches::default() },
        }
    }

    fn take(&mut self, at: usize, place: usize) {
        self.found.places[at] = Some(place);
        self.is_taken[place] = true;
    }

    /// Those that no counterpart is known of.
    fn open(&self) -> Vec<usize> {
        (0..self.old.len()).filter(|at| self.found.places[*at].is_none()).collect()
    }

    fn exact(&mut self) {
        let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
        for (place, one) in self.new.iter().enumerate().rev() {
            by_name.entry(&one.name).or_default().push(place);
        }
        for (at, one) in self.old.iter().enumerate() {
            if let Some(place) = by_name.get_mut(one.name.as_str()).and_then(Vec::pop) {
                self.take(at, place);
                self.found.exact += 1;
            }
        }
    }

    fn by_stem(&mut self) {
        let mut by_stem: HashMap<String, Vec<usize>> = HashMap::new();
        for (place, stem) in self.stems.iter().enumerate().filter(|(at, _)| !self.is_taken[*at]) {
            by_stem.entry(stem.clone()).or_default().push(place);
        }
        for at in self.open() {
            let former = &self.old[at];
            let Some(places) = by_stem.get_mut(&stem(&former.name)) else { continue };
            let callees = stems(&former.callees);
            let difference = |place: &usize| {
                let new = &self.new[*place];
                let others = stems(&new.callees);
                let apart = callees.symmetric_difference(&others).count();
                (apart, new.bytes.0.abs_diff(former.bytes.0))
            };
            // Of equals the first.
            let best = (0..places.len()).min_by_key(|n| difference(&places[*n]));
            if let Some(best) = best {
                let place = places.remove(best);
                self.take(at, place);
                self.found.by_stem += 1;
            }
        }
    }

    fn by_callees(&mut self) {
        let key = |one: &BuildSymbol| {
            let mut callees: Vec<String> = stems(&one.callees).into_iter().collect();
            callees.sort();
            (callees.len() >= LEAST_CALLEES && one.bytes > Bytes(0))
                .then_some((one.bytes.0, callees))
        };
        let mut alike: HashMap<_, Vec<usize>> = HashMap::new();
        for place in (0..self.new.len()).filter(|place| !self.is_taken[*place]) {
            if let Some(key) = key(&self.new[place]) {
                alike.entry(key).or_default().push(place);
            }
        }
        for at in self.open() {
            let places = key(&self.old[at]).and_then(|key| alike.remove(&key));
            // Only if it matches exactly one function.
            if let Some([place]) = places.as_deref() {
                self.take(at, *place);
                self.found.by_callees += 1;
            }
        }
    }
}

fn stems(names: &[String]) -> HashSet<String> {
    names.iter().map(|name| stem(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(name: &str, size: u64, callees: &[&str]) -> BuildSymbol {
        let callees = callees.iter().map(|callee| (*callee).to_owned()).collect();
        BuildSymbol { name: name.to_owned(), bytes: Bytes(size), callees, ..BuildSymbol::default() }
    }

    #[test]
    fn names_come_before_stems() {
        let old = [known("f.isra.0", 8, &[]), known("g", 8, &[]), known("gone", 8, &[])];
        let new = [known("g", 9, &[]), known("f", 9, &[])];
        let matched = counterparts(&old, &new);
        assert_eq!(matched.places, [Some(1), Some(0), None]);
        assert_eq!((matched.exact, matched.by_stem, matched.by_callees), (1, 1, 0));
    }

    #[test]
    fn of_several_with_one_stem_the_likest_is_taken() {
        let rust = |hash: char| format!("_ZN3foo3new17h{}E", hash.to_string().repeat(16));
        let old = [known(&rust('a'), 40, &["alloc"]), known(&rust('b'), 90, &["free"])];
        let new = [known(&rust('c'), 90, &["free"]), known(&rust('d'), 42, &["alloc"])];
        assert_eq!(counterparts(&old, &new).places, [Some(1), Some(0)]);
    }

    #[test]
    fn another_name_with_the_same_callees_is_found_if_there_is_one() {
        let old = [known("former", 40, &["a", "b"]), known("leaf", 16, &[])];
        let new = [known("later", 40, &["b", "a"]), known("other", 16, &[])];
        assert_eq!(counterparts(&old, &new).places, [Some(0), None]);
        let two = [known("later", 40, &["b", "a"]), known("latest", 40, &["a", "b"])];
        assert_eq!(counterparts(&old, &two).places, [None, None]);
    }
}
