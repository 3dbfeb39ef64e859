//! What page walks on TLB misses cost.
//!
//! With hardware counters: cycles with a walk active over all cycles, of user time. Walks overlap
//! with other work, so this too is more what they occupy than what they cost.
//!
//! Without: an upper bound. In single-stepped bursts some accesses *jump*: to a page that is neither
//! the one before nor its neighbour. Over a set wider than the TLB reaches, each may miss. What
//! a miss costs is the difference between a dependent load on base pages and on huge pages in a
//! set of that size (the price list's chase). With j jumps per instruction and [`PLAIN_NS`] for every
//! other instruction, their share of user time is `j dt / (j base + (1 - j) plain)`. Loads that do
//! not depend on each other overlap and cost less: an experiment with huge pages settles it.

use super::Estimate;
use super::typical::Typical;
use pagewise_model::Bytes;
use pagewise_model::diagnosis::{Basis, CostKind};
use pagewise_model::look::{AccessPattern, Look, WalkCounts};
use pagewise_model::price::{ChasePoint, Prices};

/// Time of an instruction that does not jump: about one per cycle at 2.5 GHz.
const PLAIN_NS: f64 = 0.4;
/// Fewer jumps than one in so many bursts are strays of a program that walks in order.
const STRAY_BURSTS: u64 = 4;
/// Memory that the second-level TLB of any machine of the last ten years reaches (1024 base pages
/// and more), so that no price is needed to call its cost small.
const ALWAYS_REACHED: Bytes = Bytes::mib(4);
/// Base pages must be slower than huge ones by this factor over some set for translation to count.
const BEYOND_REACH: f64 = 1.10;

pub(super) fn estimate(look: &Look, run: &Typical, prices: &Prices) -> Option<Estimate> {
    if let Some(walks) = look.walks.known() {
        return counted(walks, run);
    }
    let pattern = look.traced.known()?.pattern.known()?;
    bound(pattern, run, &prices.chase)
}

/// Whether the cost is known or bounded: by counters, by the accesses seen, or because all of the
/// program's memory is within the TLB's reach.
pub(super) fn is_seen(look: &Look, prices: &Prices) -> bool {
    let curve = Curve::of(&prices.chase);
    let peak = look.runs.iter().map(|run| run.peak_rss_bytes.0).max().unwrap_or(0);
    let is_never_slower = !curve.0.is_empty() && curve.reach().is_none();
    if look.walks.known().is_some() || is_never_slower || peak <= ALWAYS_REACHED.0 {
        return true;
    }
    let pattern = look.traced.known().and_then(|traced| traced.pattern.known());
    curve.reach().is_some_and(|reach| peak <= reach || pattern.is_some())
}

fn counted(walks: &WalkCounts, run: &Typical) -> Option<Estimate> {
    let active = walks.data_walk_cycles.saturating_add(walks.code_walk_cycles);
    let share = super::share(active as f64, walks.cycles as f64);
    (share > 0.0).then(|| Estimate {
        kind: CostKind::AddressTranslation,
        ns: share * run.user_ns,
        basis: Basis::Counters,
        evidence: format!(
            "walks active in {} (data) + {} (code) of {} cycles",
            walks.data_walk_cycles, walks.code_walk_cycles, walks.cycles
        ),
    })
}

fn bound(pattern: &AccessPattern, run: &Typical, chase: &[ChasePoint]) -> Option<Estimate> {
    let set = pattern.jump_span_bytes.0.saturating_sub(pattern.jump_huge_bytes.0);
    let curve = Curve::of(chase);
    let stray = pattern.jumps.saturating_mul(STRAY_BURSTS) < u64::from(pattern.bursts);
    if set <= curve.reach()? || pattern.instructions == 0 || stray {
        return None;
    }
    let (base_ns, huge_ns) = curve.at(set as f64)?;
    let miss_ns = (base_ns - huge_ns).max(0.0);
    let jumps = super::share(pattern.jumps as f64, pattern.instructions as f64);
    let per_instruction = jumps * base_ns + (1.0 - jumps) * PLAIN_NS;
    let ns = super::share(jumps * miss_ns, per_instruction) * run.user_ns;
    (ns > 0.0).then(|| Estimate {
        kind: CostKind::AddressTranslation,
        ns,
        basis: Basis::UpperBound,
        evidence: format!(
            "{} of {} accesses jump over {}; settled by the heap-huge arm",
            pattern.jumps,
            pattern.accesses,
            Bytes(set)
        ),
    })
}

/// Load times over set sizes: (bytes, ns on base pages, ns on huge pages), ascending.
struct Curve(Vec<(f64, f64, f64)>);

impl Curve {
    fn of(chase: &[ChasePoint]) -> Self {
        let mut points: Vec<(f64, f64, f64)> = chase
            .iter()
            .filter_map(|p| {
                let huge = p.huge_ns.known()?.median;
                Some((p.set_bytes.0 as f64, p.base_ns.median, huge))
            })
            .filter(|(set, base, huge)| *set > 0.0 && *base > 0.0 && *huge > 0.0)
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self(points)
    }

    /// What is taken to be within the TLB's reach for an upper bound: little, as loads on base pages
    /// get slower long before they are clearly so. None where huge pages are never clearly faster.
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
