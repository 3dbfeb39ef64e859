//! The end of an analysis: sums, names and the account.

use super::{Analysis, Close, Image, groups};
use pagewise_model::fault::{
    Account, ExecCounts, Fault, FaultReport, FunctionTally, Names, PlaceTally, Served, Site, Step,
    Tally,
};
use pagewise_model::usage::Usage;
use pagewise_model::{Bytes, Fact};
use std::cmp::Reverse;
use std::collections::HashMap;

/// Sources and functions that a report names.
const MOST_NAMED: usize = 40;

impl Analysis {
    /// What all events came to. `exec` are the kernel's counts at the first exec; `images` names
    /// functions. The list is empty unless it was wanted.
    #[must_use]
    pub fn conclude(
        mut self,
        usage: &Usage,
        exec: &Fact<ExecCounts>,
        images: &mut dyn Image,
    ) -> (FaultReport, Names, Vec<Fault>) {
        let open: Vec<i32> = self.open.keys().copied().collect();
        for tid in open {
            self.close(tid, Close::Unserved("the recording ended in it"));
        }
        let spaces = &self.spaces;
        let names = Names {
            places: spaces.places(),
            sites: self.sites.named(images, &|path| spaces.path(path).to_owned()),
        };
        let faults = self.ordered_list();
        (self.report(usage, exec, &names), names, faults)
    }

    fn ordered_list(&mut self) -> Vec<Fault> {
        let mut list = std::mem::take(&mut self.list);
        list.sort_by_key(|fault| fault.since_first_ns);
        for (order, fault) in (0..).zip(&mut list) {
            fault.order = order;
            if self.lost > 0 && fault.served == Served::No {
                fault.served = Served::Unknown;
                fault.latency_ns = Fact::missing("its end may be among the lost records");
            }
        }
        list
    }

    fn report(&self, usage: &Usage, exec: &Fact<ExecCounts>, names: &Names) -> FaultReport {
        let latencies = self.latencies.latencies();
        let none = || Fact::missing("no fault was recorded from its beginning to its end");
        FaultReport {
            step: if self.options.sees_kernel { Step::PerfAll } else { Step::PerfUser },
            usage: usage.clone(),
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
            places: self.places(names),
            functions: self.functions(names),
            account: self.account(usage, exec),
        }
    }

    fn places(&self, names: &Names) -> Vec<PlaceTally> {
        let ranked = self.by_place.ranked().into_iter().take(MOST_NAMED);
        let named = ranked.filter_map(|group| {
            let place = names.places.get(group.kind as usize)?.clone();
            Some(PlaceTally { place, tally: group.tally })
        });
        named.collect()
    }

    /// The instructions of one function together; one of no function stands for itself.
    fn functions(&self, names: &Names) -> Vec<FunctionTally> {
        type Key<'a> = (&'a str, Option<&'a str>, Option<Bytes>);
        let mut by_function: HashMap<Key<'_>, (Site, Tally)> = HashMap::new();
        for group in self.by_site.ranked() {
            let Some(site) = names.sites.get(group.kind as usize) else { continue };
            let function = site.function.as_deref();
            let alone = function.is_none().then_some(site.offset_bytes);
            let entry = by_function
                .entry((&site.path, function, alone))
                .or_insert_with(|| (site.clone(), Tally::default()));
            entry.0.offset_bytes = entry.0.offset_bytes.min(site.offset_bytes);
            groups::add(&mut entry.1, group.tally);
        }
        let named = by_function.into_values().map(|(site, tally)| FunctionTally { site, tally });
        let mut all: Vec<FunctionTally> = named.collect();
        all.sort_by(|a, b| {
            let key = |f: &FunctionTally| (Reverse(groups::rank(&f.tally)), f.site.offset_bytes);
            key(a).cmp(&key(b)).then_with(|| a.site.path.cmp(&b.site.path))
        });
        all.truncate(MOST_NAMED);
        all
    }

    fn account(&self, usage: &Usage, exec: &Fact<ExecCounts>) -> Account {
        let rusage_faults = usage.minor_faults.saturating_add(usage.major_faults);
        let before_exec_faults =
            exec.clone().map(|counts| counts.minor_faults.saturating_add(counts.major_faults));
        // Those of building the image are in the counts of the exec as well.
        let early = if exec.known().is_some() { 0 } else { self.kernel_early };
        let kernel_faults = if self.options.sees_kernel {
            Fact::Known(self.kernel_served + early)
        } else {
            Fact::missing("needs kernel.perf_event_paranoid=1 or CAP_PERFMON")
        };
        let known = |fact: &Fact<u64>| fact.known().copied().unwrap_or(0);
        let explained = known(&before_exec_faults) + self.user_served + known(&kernel_faults);
        let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        Account {
            rusage_faults,
            before_exec_faults,
            user_faults: self.user_served,
            kernel_faults,
            populate_faults: Fact::missing("no event tells of them"),
            failed_faults: if self.lost > 0 { 0 } else { self.unserved },
            unexplained_faults: signed(rusage_faults) - signed(explained),
        }
    }
}
