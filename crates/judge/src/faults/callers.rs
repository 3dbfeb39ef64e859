//! Which code caused a fault: the first function outside standard libraries, the loader and allocators.
//!
//! `memset` touches pages on behalf of its caller. `libraries` lists the code to skip on the way out. The
//! faults of an instruction are divided among its callers in the ratio of its sampled stacks. An instruction
//! outside of libraries needs no stack. In an interpreter the function of the script counts: the innermost
//! one on the stack, whatever interpreter or module code lies between. If a walk ends before an outer
//! function is found, the end of the walk is the reason reported.

use super::groups;
use super::libraries::works_for_others;
use super::stacks::WalkedStacks;
use pagewise_model::Nanos;
use pagewise_model::fault::{
    CallerStack, FaultCallers, FaultNames, FaultSite, FaultTally, FunctionTally, GroupTally,
    StackEnd, StackRecording,
};
use std::collections::HashMap;
use std::hash::Hash;

/// Functions that a report names.
const MOST_NAMED: usize = 40;

/// Who is behind the instructions of a program.
#[derive(Debug)]
pub(super) struct FaultAttribution<'a> {
    names: &'a FaultNames,
    /// For each instruction: its stacks and the number of faults that each represents.
    stacks: Vec<Vec<(u32, u64)>>,
    /// For each stack: which code caused its faults, or why that is unknown.
    behind: Vec<Result<&'a FaultSite, StackEnd>>,
    /// For each stack: the innermost function of a script.
    scripts: Vec<Option<&'a FaultSite>>,
}

impl<'a> FaultAttribution<'a> {
    /// `stacks` are those of each site of `names`.
    pub(super) fn new(names: &'a FaultNames, stacks: Vec<Vec<(u32, u64)>>) -> Self {
        let outer = |site| (!works_for_others(site)).then_some(site);
        let outer: Vec<Option<&FaultSite>> = names.frames.iter().map(outer).collect();
        let script = |stack: &CallerStack| {
            let mut frames =
                stack.frames.iter().filter_map(|frame| names.frames.get(*frame as usize));
            frames.find(|site| site.is_script)
        };
        let scripts: Vec<Option<&FaultSite>> = names.stacks.iter().map(script).collect();
        let first = |(stack, script): (&CallerStack, &Option<&'a FaultSite>)| {
            let mut frames = stack.frames.iter();
            let first = || frames.find_map(|frame| *outer.get(*frame as usize)?);
            script.or_else(first).ok_or(stack.end)
        };
        let behind = names.stacks.iter().zip(&scripts).map(first).collect();
        Self { names, stacks, behind, scripts }
    }

    /// The site that caused a fault of the instruction `site` with this stack. The instruction itself if the
    /// cause is unknown.
    pub(super) fn behind(&self, site: u32, stack: Option<u32>) -> Option<&'a FaultSite> {
        let own = self.names.sites.get(site as usize)?;
        let of = |stack: u32| self.behind.get(stack as usize)?.as_ref().ok().copied();
        let script = |stack: u32| self.scripts.get(stack as usize).copied().flatten();
        let found = match works_for_others(own) {
            true => stack.and_then(of),
            false if own.is_script => None,
            false => stack.and_then(script),
        };
        Some(found.unwrap_or(own))
    }

    /// Gives the parts of `tally`, faults of the instruction `site`, to those behind them.
    pub(super) fn share_out(
        &self,
        site: u32,
        tally: FaultTally,
        give: &mut dyn FnMut(Result<&'a FaultSite, StackEnd>, FaultTally),
    ) {
        let Some(own) = self.names.sites.get(site as usize) else { return };
        let is_outer = !works_for_others(own);
        let stacks = self.stacks.get(site as usize).map_or(&[][..], Vec::as_slice);
        let script = |stack: u32| self.scripts.get(stack as usize).copied().flatten();
        let is_in_script =
            !own.is_script && stacks.iter().any(|(stack, _)| script(*stack).is_some());
        if (is_outer && !is_in_script) || stacks.is_empty() {
            give(if is_outer { Ok(own) } else { Err(StackEnd::NotTaken) }, tally);
            return;
        }
        let weights: Vec<u64> = stacks.iter().map(|(_, faults)| *faults).collect();
        for ((stack, _), part) in stacks.iter().zip(split(&tally, &weights)) {
            let behind = match is_outer {
                true => Ok(script(*stack).unwrap_or(own)),
                false => {
                    let behind = self.behind.get(*stack as usize).copied();
                    behind.unwrap_or(Err(StackEnd::NotTaken))
                }
            };
            give(behind, part);
        }
    }
}

/// `tally` in parts as the weights, which add up to it exactly.
fn split(tally: &FaultTally, weights: &[u64]) -> Vec<FaultTally> {
    let total: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
    let up_to = |whole: u64, weight: u128| {
        u64::try_from(u128::from(whole).saturating_mul(weight) / total.max(1)).unwrap_or(whole)
    };
    let mut seen = 0_u128;
    let parts = weights.iter().map(|weight| {
        let before = seen;
        seen += u128::from(*weight);
        let part = |whole: u64| up_to(whole, seen) - up_to(whole, before);
        FaultTally {
            faults: part(tally.faults),
            major_faults: part(tally.major_faults),
            again_faults: part(tally.again_faults),
            raced_faults: part(tally.raced_faults),
            time_ns: Nanos(part(tally.time_ns.0)),
        }
    });
    parts.collect()
}

/// The callers of all instructions, each with its faults.
pub(super) fn callers(
    sites: &[GroupTally<u32>],
    attribution: &FaultAttribution<'_>,
    taken: &WalkedStacks,
    asked: StackRecording,
) -> FaultCallers {
    let mut named = FaultTally::default();
    let mut behind: Vec<(&FaultSite, FaultTally)> = Vec::new();
    let mut unnamed = groups::FaultGroups::default();
    for group in sites {
        attribution.share_out(group.kind, group.tally, &mut |who, part| match who {
            _ if part == FaultTally::default() => {}
            Ok(site) => {
                groups::add(&mut named, part);
                behind.push((site, part));
            }
            Err(end) => unnamed.add(end, part),
        });
    }
    FaultCallers {
        asked,
        stacks: taken.count(),
        lost_stacks: taken.lost,
        named,
        functions: by_function(behind),
        unnamed: unnamed.ranked(),
    }
}

/// Combines the instructions of one line of one function. The one that took the most time represents them. An
/// instruction of no function represents itself.
pub(super) fn by_function<'a>(
    sites: impl IntoIterator<Item = (&'a FaultSite, FaultTally)>,
) -> Vec<FunctionTally> {
    let instructions = summed(sites, |site| (line(site), site.offset_bytes));
    let named = summed(instructions, line).into_iter().take(MOST_NAMED);
    named.map(|(site, tally)| FunctionTally { site: site.clone(), tally }).collect()
}

/// The key of a line of a report: file, functions and lines. If no function is known, also the place.
pub(super) fn line(site: &FaultSite) -> impl Copy + Ord + Hash + '_ {
    let place = site.function.is_none().then_some(site.offset_bytes);
    (site.path.as_str(), site.function.as_deref(), site.inlined.as_slice(), &site.source, place)
}

/// Those of one key together, for which the first stands; the most time first.
fn summed<'a, K: Eq + Hash>(
    sites: impl IntoIterator<Item = (&'a FaultSite, FaultTally)>,
    key: impl Fn(&'a FaultSite) -> K,
) -> Vec<(&'a FaultSite, FaultTally)> {
    let mut sums: HashMap<K, (&FaultSite, FaultTally)> = HashMap::new();
    for (site, tally) in sites {
        groups::add(&mut sums.entry(key(site)).or_insert((site, FaultTally::default())).1, tally);
    }
    let mut all: Vec<_> = sums.into_values().collect();
    all.sort_by_key(|&(site, tally)| {
        (std::cmp::Reverse(groups::rank(&tally)), site.offset_bytes, site.path.as_str())
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::libraries::tests::site;
    use pagewise_model::Bytes;
    use pagewise_model::fault::{InlinedFunction, SourceLine};

    #[test]
    fn the_dearest_instruction_stands_for_its_function() {
        let at =
            |function, offset| FaultSite { offset_bytes: Bytes(offset), ..site(function, "/x") };
        let sites = [at("fill", 3), at("fill", 9), at("", 5), at("", 6)];
        let tally = |ns| FaultTally { faults: 1, time_ns: Nanos(ns), ..FaultTally::default() };
        // In parts the instruction at 9 took more than the one at 3.
        let taken = [(0, 40), (1, 30), (1, 30), (2, 50), (3, 20)];
        let functions = by_function(taken.map(|(site, ns): (usize, _)| (&sites[site], tally(ns))));
        let seen: Vec<_> =
            functions.iter().map(|f| (f.site.offset_bytes.0, f.tally.time_ns.0)).collect();
        assert_eq!(seen, [(9, 100), (5, 50), (6, 20)]);
    }

    #[test]
    fn each_line_is_one_and_so_is_each_place_that_a_function_is_inlined_at() {
        let line = |line| Some(SourceLine { file: "x.c".into(), line });
        let at = |offset, source, called_at| {
            let inlined = InlinedFunction { function: "touch".into(), called_at: line(called_at) };
            let inlined = (called_at > 0).then_some(inlined).into_iter().collect();
            let source = line(source);
            FaultSite { offset_bytes: Bytes(offset), source, inlined, ..site("main", "/x") }
        };
        let sites = [at(1, 3, 8), at(2, 3, 8), at(3, 3, 9), at(4, 8, 0), at(5, 9, 0)];
        let tally = |ns| FaultTally { faults: 1, time_ns: Nanos(ns), ..FaultTally::default() };
        let functions = by_function(sites.iter().zip([9, 8, 7, 6, 5].map(tally)));
        let seen: Vec<_> =
            functions.iter().map(|f| (f.site.offset_bytes.0, f.tally.time_ns.0)).collect();
        assert_eq!(seen, [(1, 17), (3, 7), (4, 6), (5, 5)]);
    }

    #[test]
    fn functions_of_a_script_stand_for_what_their_interpreter_does() {
        let script = |name| FaultSite { is_script: true, ..site(name, "") };
        let names = FaultNames {
            sites: vec![
                site("_PyObject_Malloc", "/opt/bin/python3.13"),
                site("memset", "/lib/libc.so.6"),
                script("compiled"),
                site("StubRoutines (1)", ""),
            ],
            frames: vec![
                site("_PyEval_EvalFrameDefault", "/opt/bin/python3.13"),
                script("grow"),
                script("main"),
                site("main", "/opt/bin/python3.13"),
            ],
            stacks: vec![
                CallerStack { frames: vec![0, 1, 2, 3], end: StackEnd::Outermost },
                CallerStack { frames: vec![0, 2, 3], end: StackEnd::Outermost },
                CallerStack { frames: vec![3], end: StackEnd::Outermost },
            ],
            ..FaultNames::default()
        };
        let stacks = vec![vec![(0, 6), (2, 4)], vec![(1, 1)], vec![(2, 1)], vec![]];
        let attribution = FaultAttribution::new(&names, stacks);
        let tally =
            |faults| FaultTally { faults, time_ns: Nanos(faults * 10), ..FaultTally::default() };
        let sites = [(0, 10), (1, 5), (2, 3), (3, 2)];
        let sites = sites.map(|(kind, faults)| GroupTally { kind, tally: tally(faults) });
        let callers =
            callers(&sites, &attribution, &WalkedStacks::default(), StackRecording::Sampled);
        let functions: Vec<_> = callers
            .functions
            .iter()
            .map(|f| (f.site.function.as_deref().unwrap_or_default(), f.tally.faults))
            .collect();
        let expected = [("grow", 6), ("main", 5), ("_PyObject_Malloc", 4), ("compiled", 3)];
        assert_eq!(functions, expected);
        let unnamed: Vec<_> = callers.unnamed.iter().map(|g| (g.kind, g.tally.faults)).collect();
        assert_eq!(unnamed, [(StackEnd::NotTaken, 2)]);
    }

    #[test]
    fn parts_add_up_to_the_whole() {
        let (faults, time_ns) = (10, Nanos(101));
        let whole =
            FaultTally { faults, major_faults: 3, again_faults: 1, raced_faults: 2, time_ns };
        for weights in [vec![1], vec![1, 1, 1], vec![5, 0, 90, 7], vec![u64::MAX, u64::MAX]] {
            let mut sum = FaultTally::default();
            split(&whole, &weights).into_iter().for_each(|part| groups::add(&mut sum, part));
            assert_eq!(sum, whole, "{weights:?}");
        }
        assert_eq!(split(&whole, &[0, 1])[0], FaultTally::default());
    }

    #[test]
    fn faults_of_a_library_go_to_its_callers_and_those_without_say_why() {
        let names = FaultNames {
            sites: vec![
                site("memset", "/lib/libc.so.6"),
                site("fill", "/bin/x"),
                site("x", "/lib/ld.so"),
            ],
            frames: vec![
                site("", "/lib/libc.so.6"),
                site("load", "/bin/x"),
                site("main", "/bin/x"),
            ],
            stacks: vec![
                CallerStack { frames: vec![0, 1, 2], end: StackEnd::Outermost },
                CallerStack { frames: vec![2], end: StackEnd::Deep },
                CallerStack { frames: vec![0], end: StackEnd::Cut },
            ],
            ..FaultNames::default()
        };
        let stacks = vec![vec![(0, 6), (1, 3), (2, 1)], vec![], vec![]];
        let attribution = FaultAttribution::new(&names, stacks);
        let tally =
            |faults| FaultTally { faults, time_ns: Nanos(faults * 10), ..FaultTally::default() };
        let group = |kind, faults| GroupTally { kind, tally: tally(faults) };
        let sites = [group(0, 100), group(1, 7), group(2, 5)];
        let callers =
            callers(&sites, &attribution, &WalkedStacks::default(), StackRecording::Sampled);
        let functions: Vec<_> = callers
            .functions
            .iter()
            .map(|f| (f.site.function.as_deref().unwrap_or_default(), f.tally.faults))
            .collect();
        assert_eq!(functions, [("load", 60), ("main", 30), ("fill", 7)]);
        assert_eq!(callers.named, tally(97));
        let unnamed: Vec<_> = callers.unnamed.iter().map(|g| (g.kind, g.tally.faults)).collect();
        assert_eq!(unnamed, [(StackEnd::Cut, 10), (StackEnd::NotTaken, 5)]);
    }
}
