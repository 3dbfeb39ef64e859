//! What page walks on TLB misses cost.
//!
//! With hardware counters: cycles with a walk active over all cycles, of user time. Walks overlap with other
//! work, so this too measures time occupied more than time lost.
//!
//! Without: an upper bound, the number of walks times the time of one. The number is the rate at which a
//! program starts to use pages other than those the smallest TLB keeps, from accessed bits ([`FootprintGrowth`]).
//! The part that continues on the next page, from single-stepped bursts, is subtracted: that entry lies
//! beside the last one and is fetched ahead. The time of one is the difference between a dependent load on
//! base pages and on huge pages (the chase of the price list). The set is as large as all memory that is not
//! on huge pages, enlarged for what other data displaces ([`PageJumps::equivalent`]). Independent loads overlap
//! and cost less, and so do smaller sets: an experiment with huge pages settles it. If neither was seen, user
//! CPU time is the bound. Not in the bound: misses of the first-level TLB that the second level serves, at
//! some cycles each.

use super::CostEstimate;
use super::typical::TypicalRun;
use pagewise_model::Bytes;
use pagewise_model::diagnosis::{CostBasis, CostKind};
use pagewise_model::look::{AccessPattern, FootprintGrowth, LookFindings, WalkCounts};
use pagewise_model::price::{ChasePoint, SessionPrices};

/// With fewer instructions, the access pattern of a program is unknown. It may then access any page.
const FEWEST_STEPPED: u64 = 1000;
/// Memory that the second-level TLB of any machine of the last ten years reaches (1024 base pages
/// and more), so that no price is needed to call its cost small.
const ALWAYS_REACHED: Bytes = Bytes::mib(4);
/// Base pages must be slower than huge ones by this factor over some set for translation to count.
const BEYOND_REACH: f64 = 1.10;

pub(super) fn estimate(
    look: &LookFindings,
    run: &TypicalRun,
    prices: &SessionPrices,
) -> Option<CostEstimate> {
    if let Some(walks) = look.walks.known() {
        return counted(walks, run);
    }
    let curve = LoadTimeCurve::from_chase(&prices.chase);
    let Some((pattern, footprint)) = seen(look).filter(|_| !curve.0.is_empty()) else {
        return by_user_time(Bytes(peak(look)), run, &curve);
    };
    let set = Bytes(peak(look).saturating_sub(pattern.jump_huge_bytes.0));
    bound(footprint, &PageJumps::from_pattern(pattern), set, run, &curve)
}

/// The bound if the used pages were not seen: all user time goes into loads that are slower on base pages.
fn by_user_time(set: Bytes, run: &TypicalRun, curve: &LoadTimeCurve) -> Option<CostEstimate> {
    if set.0 <= ALWAYS_REACHED.0 {
        return None;
    }
    let share = if curve.0.is_empty() {
        1.0
    } else {
        curve.reach()?;
        curve.0.iter().map(|(_, base, huge)| 1.0 - huge / base).fold(0.0, f64::max)
    };
    Some(CostEstimate {
        kind: CostKind::AddressTranslation,
        ns: share * run.user_ns,
        basis: CostBasis::UpperBound,
        evidence: format!(
            "{:.0}% of user time, pages not seen; the heap-huge arm settles it",
            share * 100.0
        ),
    })
}

/// How a program comes from page to page.
struct PageJumps {
    /// Share of the new pages that are not next to one used before.
    share: f64,
    /// Memory accesses for each of them; infinite where too little is known.
    accesses: f64,
}

impl PageJumps {
    fn from_pattern(pattern: &AccessPattern) -> Self {
        if pattern.instructions < FEWEST_STEPPED {
            return Self { share: 1.0, accesses: f64::INFINITY };
        }
        let jumps = pattern.jumps as f64;
        let firsts = pattern.jumps.saturating_add(pattern.next_pages) as f64;
        let accesses = (pattern.accesses as f64 / jumps.max(1.0)).max(1.0);
        Self { share: super::share(jumps, firsts), accesses }
    }

    /// The set of a chase whose walks find as little in the caches as those of this program in `set`
    /// at worst. A chase uses two cache lines a step, its data and its page-table entry; here
    /// each access may use another line, and the entries are displaced the sooner.
    fn equivalent(&self, set: Bytes) -> f64 {
        set.0 as f64 * (1.0 + self.accesses) / 2.0
    }

    /// In words, for the evidence.
    fn words(&self) -> String {
        let every = match self.accesses.is_finite() {
            true => format!(", one in {:.0} accesses", self.accesses),
            false => String::new(),
        };
        format!("{:.0}% of them by jumps{every}", self.share * 100.0)
    }
}

/// Whether the cost rests on page walks or pages that were seen. Otherwise it is a bound for any program of its size.
pub(crate) fn is_seen(look: &LookFindings) -> bool {
    look.walks.known().is_some() || seen(look).is_some()
}

/// The pages used and their pattern, if the traced look saw both.
fn seen(look: &LookFindings) -> Option<(&AccessPattern, &FootprintGrowth)> {
    let traced = look.traced.known()?;
    traced.pattern.known().zip(traced.footprint.known())
}

/// Peak memory of the largest process.
fn peak(look: &LookFindings) -> u64 {
    look.runs.iter().map(|run| run.peak_rss_bytes.0).max().unwrap_or(0)
}

fn counted(walks: &WalkCounts, run: &TypicalRun) -> Option<CostEstimate> {
    let active = walks.data_walk_cycles.saturating_add(walks.code_walk_cycles);
    let share = super::share(active as f64, walks.cycles as f64);
    (share > 0.0).then(|| CostEstimate {
        kind: CostKind::AddressTranslation,
        ns: share * run.user_ns,
        basis: CostBasis::Counters,
        evidence: format!(
            "walks active in {} (data) + {} (code) of {} cycles",
            walks.data_walk_cycles, walks.code_walk_cycles, walks.cycles
        ),
    })
}

/// The bound if the jumps among the new pages go anywhere in a `set` of base pages. The cost is at most that
/// of a program that only does dependent loads there.
fn bound(
    footprint: &FootprintGrowth,
    jumps: &PageJumps,
    set: Bytes,
    run: &TypicalRun,
    curve: &LoadTimeCurve,
) -> Option<CostEstimate> {
    if set.0 <= curve.reach()? {
        return None;
    }
    let (base_ns, huge_ns) = curve.at(jumps.equivalent(set))?;
    let walk_ns = (base_ns - huge_ns).max(0.0);
    let walks_per_ns = footprint.new_pages_per_ms / 1e6 * jumps.share;
    let ns = (walks_per_ns * walk_ns).min(super::share(walk_ns, base_ns)) * run.cpu_ns();
    (ns > 0.0).then(|| CostEstimate {
        kind: CostKind::AddressTranslation,
        ns,
        basis: CostBasis::UpperBound,
        evidence: format!(
            "{:.0} new pages per ms, {}, x {walk_ns:.0} ns over {set}; the heap-huge arm settles it",
            footprint.new_pages_per_ms,
            jumps.words(),
        ),
    })
}

/// Load times over set sizes: (bytes, ns on base pages, ns on huge pages), ascending.
struct LoadTimeCurve(Vec<(f64, f64, f64)>);

impl LoadTimeCurve {
    fn from_chase(chase: &[ChasePoint]) -> Self {
        let mut points: Vec<(f64, f64, f64)> = chase
            .iter()
            .filter_map(|p| {
                // The calmest repeats: what disturbs a load is no page walk.
                let huge = p.huge_ns.known()?.min;
                Some((p.set_bytes.0 as f64, p.base_ns.min, huge))
            })
            .filter(|(set, base, huge)| *set > 0.0 && *base > 0.0 && *huge > 0.0)
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self(points)
    }

    /// The size assumed to be within the TLB's reach, for an upper bound. It is small, because loads on base
    /// pages get slower long before that is clear. `None` if huge pages are never clearly faster.
    fn reach(&self) -> Option<u64> {
        let beyond = self.0.iter().any(|(_, base, huge)| *base > huge * BEYOND_REACH);
        beyond.then_some(ALWAYS_REACHED.0)
    }

    /// Both times for a set of `bytes`: linear in its logarithm between points, flat outside.
    fn at(&self, bytes: f64) -> Option<(f64, f64)> {
        let after = self.0.partition_point(|(set, ..)| *set <= bytes);
        let Some((low_set, low_base, low_huge)) = after.checked_sub(1).map(|i| self.0[i]) else {
            return self.0.first().map(|(_, base, huge)| (*base, *huge));
        };
        let Some((high_set, high_base, high_huge)) = self.0.get(after).copied() else {
            return Some((low_base, low_huge));
        };
        let way = (bytes / low_set).ln() / (high_set / low_set).ln();
        let between = |low: f64, high: f64| low + way * (high - low);
        Some((between(low_base, high_base), between(low_huge, high_huge)))
    }
}
