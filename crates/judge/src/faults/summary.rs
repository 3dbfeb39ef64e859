//! The end of an analysis: sums, names and the account.

use super::callers::{self, FaultAttribution};
use super::interned::InternedValues;
use super::libraries;
use super::sites::{self, CodeKey};
use super::stacks::WalkedStack;
use super::{CodeSource, FaultAnalysis, FaultClose, NO_ENDS};
use pagewise_model::fault::{
    CallerStack, FaultCallers, FaultNames, FaultOutcome, FaultReport, FaultSite, FunctionTally,
    GroupTally, MemorySite, MemorySites, MemoryStack, PageFault, PlaceTally, RecordingEnd,
    RecordingMethod, SourceLine, StackRecording,
};
use pagewise_model::{Bytes, Fact, Nanos};
use std::collections::HashMap;

/// Sources that a report names.
const MOST_NAMED: usize = 40;
/// Stacks of memory that are kept.
const MOST_STACKS: usize = 1000;

impl FaultAnalysis {
    /// The result of all events. `ending` says how the recording ended; `images` names functions and lines.
    /// The list of faults is empty unless it was wanted.
    #[must_use]
    pub fn conclude(
        mut self,
        ending: &RecordingEnd,
        images: &mut dyn CodeSource,
    ) -> (FaultReport, FaultNames, Vec<PageFault>) {
        let mut open: Vec<_> = self.open.iter().map(|(tid, open)| (open.at, *tid)).collect();
        open.sort_unstable();
        for (_, tid) in open {
            self.end_recording(tid);
        }
        self.spaces.finish();
        let names = self.names(images);
        let faults = self.ordered_list();
        (self.report(ending, &names), names, faults)
    }

    /// Which code touched the memory held at the last call of [`Self::hold`]. `images` names functions and
    /// lines.
    #[must_use]
    pub fn memory_sites(self, images: &mut dyn CodeSource) -> MemorySites {
        let names = self.names(images);
        let held = self.holders.held;
        let own = libraries::without_libraries(&names);
        let attribution = FaultAttribution::new(&own, Vec::new());
        let mut by_site: HashMap<&FaultSite, Bytes> = HashMap::new();
        let mut by_stack: HashMap<Vec<String>, Bytes> = HashMap::new();
        for ((site, stack), bytes) in &held.by {
            if let Some(behind) = attribution.behind(*site, *stack) {
                *by_site.entry(behind).or_default() += *bytes;
            }
            *by_stack.entry(frames(&names, *site, *stack)).or_default() += *bytes;
        }
        let stacks = by_stack.into_iter().map(|(frames, bytes)| MemoryStack { frames, bytes });
        let mut stacks: Vec<MemoryStack> = stacks.collect();
        stacks.sort_by(|a, b| (b.bytes, &a.frames).cmp(&(a.bytes, &b.frames)));
        stacks.truncate(MOST_STACKS);
        MemorySites {
            seen_bytes: held.by.values().fold(Bytes(0), |sum, bytes| sum + *bytes),
            unseen_bytes: held.unseen,
            lost_records: self.lost,
            lost_stacks: self.taken.lost,
            sites: by_line(by_site.into_iter().collect()),
            stacks,
        }
    }

    /// A fault that is still under way fails with its program, unless that lives on.
    fn end_recording(&mut self, tid: i32) {
        const WHY: &str = "the recording ended in it";
        let at = Nanos(u64::MAX);
        if self.sees.from_start {
            self.give_up(at, tid, WHY);
        } else {
            self.close(at, tid, FaultClose::Unreported(WHY));
        }
    }

    /// What the faults refer to.
    fn names(&self, images: &mut dyn CodeSource) -> FaultNames {
        let path = |number| self.spaces.path(number).to_owned();
        let mut codes = InternedValues::default();
        let stack = |walked: &WalkedStack| CallerStack {
            frames: walked.frames.iter().map(|code| codes.number(code)).collect(),
            end: walked.end,
        };
        let stacks = self.taken.all().iter().map(stack).collect();
        let site = |code: CodeKey| sites::unnamed(code, &path);
        let frames = codes.all().iter().copied().map(site).collect();
        let sites = self.sites.codes().map(site).collect();
        let mut names = FaultNames { places: self.spaces.places(), sites, frames, stacks };
        if self.wanted.names {
            sites::add_functions(&mut names.frames, codes.all(), images);
            let codes: Vec<CodeKey> = self.sites.codes().collect();
            sites::add_functions(&mut names.sites, &codes, images);
            sites::add_origins(names.sites.iter_mut().chain(&mut names.frames), images);
        }
        names
    }

    fn ordered_list(&mut self) -> Vec<PageFault> {
        let mut list = std::mem::take(&mut self.list);
        list.sort_by_key(|fault| fault.since_first_ns);
        for (order, fault) in (0..).zip(&mut list) {
            fault.order = order;
            if self.lost > 0 && fault.served == FaultOutcome::No {
                fault.served = FaultOutcome::Unknown;
                fault.latency_ns = Fact::missing("its end may be among the lost records");
            }
        }
        list
    }

    fn report(&mut self, ending: &RecordingEnd, names: &FaultNames) -> FaultReport {
        let by_site = self.by_site.ranked();
        let stacks = self.sites.codes().map(|code| self.taken.by_code(code)).collect();
        let own = libraries::without_libraries(names);
        let attribution = FaultAttribution::new(&own, stacks);
        let latencies = self.latencies.latencies();
        let none = || match self.sees.all_ends {
            true => Fact::missing("no fault was recorded completely"),
            false => Fact::missing(NO_ENDS),
        };
        FaultReport {
            step: if self.sees.kernel {
                RecordingMethod::PerfAll
            } else {
                RecordingMethod::PerfUser
            },
            has_ends: self.sees.all_ends,
            has_error_codes: self.sees.error_codes,
            attached: ending.attached.clone(),
            wall_ns: ending.wall_ns,
            usage: ending.usage.clone(),
            total: self.total,
            latency: latencies.map_or_else(none, Fact::Known),
            touched_pages: self.spaces.touched_pages(),
            unpaired_ends: self.unpaired_ends,
            unpaired_begins: if self.lost > 0 { self.unserved } else { 0 },
            lost_records: self.lost,
            processes: self.spaces.processes_seen(),
            executed: self.executed,
            by_access: self.by_access.ranked(),
            by_cause: self.by_cause.ranked(),
            by_kind: self.by_kind.ranked(),
            by_page: self.by_page.ranked(),
            by_cost: self.by_cost.ranked(),
            places: self.places(names),
            functions: functions(&by_site, names),
            callers: self.callers(&by_site, &attribution),
            by_phase: self.phases.conclude(self.now),
            churn: self.churning.conclude(&attribution, &names.sites),
            savings: self.removable.savings(ending.wall_ns, self.spaces.spared_by_huge_pages()),
            account: self.account(ending),
            exact: None,
            fault_around: Some(self.spaces.fault_around()),
            fixed_addresses: false,
            page_forecasts: self.spaces.page_forecasts(),
            interpreters: Vec::new(),
            unnamed_files: Vec::new(),
        }
    }

    fn places(&self, names: &FaultNames) -> Vec<PlaceTally> {
        let ranked = self.by_place.ranked().into_iter().take(MOST_NAMED);
        let named = ranked.filter_map(|group| {
            let place = names.places.get(group.kind as usize)?.clone();
            Some(PlaceTally { place, tally: group.tally })
        });
        named.collect()
    }

    fn callers(
        &self,
        by_site: &[GroupTally<u32>],
        attribution: &FaultAttribution<'_>,
    ) -> Fact<FaultCallers> {
        let asked = self.wanted.stacks;
        if asked == StackRecording::None {
            return Fact::missing("no stacks were requested (--stacks)");
        }
        if self.taken.count() == 0 && self.total.faults > 0 {
            return Fact::missing("no stack could be recorded");
        }
        Fact::Known(callers::callers(by_site, attribution, &self.taken, asked))
    }
}

/// The functions of a stack, the outermost first; those of scripts with the line where they begin.
fn frames(names: &FaultNames, site: u32, stack: Option<u32>) -> Vec<String> {
    let stack = stack.and_then(|stack| names.stacks.get(stack as usize));
    let callers = stack.into_iter().flat_map(|stack| stack.frames.iter().rev());
    let callers = callers.filter_map(|frame| names.frames.get(*frame as usize));
    let all = callers.chain(names.sites.get(site as usize));
    let file = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let name = |site: &FaultSite, (function, line): (Option<&str>, Option<&SourceLine>)| match (
        function, line,
    ) {
        (Some(function), Some(line)) if site.is_script => {
            format!("{function} {}:{}", file(&line.file), line.line)
        }
        (Some(function), _) => function.to_owned(),
        (None, _) if site.path.is_empty() => "[made code]".to_owned(),
        (None, _) => format!("[{}]", file(&site.path)),
    };
    let nested = |site: &FaultSite| -> Vec<String> {
        site.nested().into_iter().rev().map(|one| name(site, one)).collect()
    };
    all.flat_map(nested).collect()
}

/// The instructions of one line of one function together, the largest first.
fn by_line(mut sites: Vec<(&FaultSite, Bytes)>) -> Vec<MemorySite> {
    sites.sort_by_key(|(site, _)| (callers::line(site), site.offset_bytes));
    let mut all: Vec<MemorySite> = Vec::new();
    for (site, bytes) in sites {
        match all.last_mut().filter(|last| callers::line(&last.site) == callers::line(site)) {
            Some(last) => last.bytes += bytes,
            None => all.push(MemorySite { site: site.clone(), bytes }),
        }
    }
    all.sort_by_key(|one| std::cmp::Reverse(one.bytes));
    all.truncate(MOST_NAMED);
    all
}

fn functions(by_site: &[GroupTally<u32>], names: &FaultNames) -> Vec<FunctionTally> {
    let site = |number: u32| names.sites.get(number as usize);
    callers::by_function(by_site.iter().filter_map(|group| Some((site(group.kind)?, group.tally))))
}
