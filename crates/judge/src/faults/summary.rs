//! The end of an analysis: sums, names and the account.

use super::{Analysis, Close, Image, NO_ENDS, groups};
use pagewise_model::fault::{
    Ending, Fault, FaultReport, FunctionTally, Names, PlaceTally, Served, Site, Step, Tally,
};
use pagewise_model::{Bytes, Fact, Nanos};
use std::cmp::Reverse;
use std::collections::HashMap;

/// Sources and functions that a report names.
const MOST_NAMED: usize = 40;

impl Analysis {
    /// What all events came to. `ending` says how the recording ended; `images` names functions.
    /// The list is empty unless it was wanted.
    #[must_use]
    pub fn conclude(
        mut self,
        ending: &Ending,
        images: &mut dyn Image,
    ) -> (FaultReport, Names, Vec<Fault>) {
        let open: Vec<i32> = self.open.keys().copied().collect();
        for tid in open {
            self.end_recording(tid);
        }
        self.spaces.finish();
        let spaces = &self.spaces;
        let names = Names {
            places: spaces.places(),
            sites: self.sites.named(images, &|path| spaces.path(path).to_owned()),
        };
        let faults = self.ordered_list();
        (self.report(ending, &names), names, faults)
    }

    /// A fault that is still under way fails with its program, unless that lives on.
    fn end_recording(&mut self, tid: i32) {
        const WHY: &str = "the recording ended in it";
        let at = Nanos(u64::MAX);
        if self.options.from_start {
            self.give_up(at, tid, WHY);
        } else {
            self.close(at, tid, Close::Untold(WHY));
        }
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

    fn report(&self, ending: &Ending, names: &Names) -> FaultReport {
        let latencies = self.latencies.latencies();
        let none = || match self.options.has_ends {
            true => Fact::missing("no fault was recorded from its beginning to its end"),
            false => Fact::missing(NO_ENDS),
        };
        FaultReport {
            step: if self.options.sees_kernel { Step::PerfAll } else { Step::PerfUser },
            has_ends: self.options.has_ends,
            has_error_codes: self.options.has_error_codes,
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
            places: self.places(names),
            functions: self.functions(names),
            account: self.account(ending),
            exact: None,
            page_forecasts: self.spaces.page_forecasts(),
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
}
