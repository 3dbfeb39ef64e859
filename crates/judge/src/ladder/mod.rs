//! What a ladder of pipe techniques says: which rung is faster, where the time of each goes, what
//! became cheaper from rung to rung, which sizes suit, and what becomes of published claims.
//!
//! The entries are [`judge`] and [`claims`]; both are pure, so a saved ladder is judged again with
//! the same result. Times are those of both ends together for each GiB (see
//! [`pagewise_model::ladder::Account`]); prices are those taken before the ladder and are not
//! touched by what it finds, so what they do not explain stays visible.
//!
//! Not seen: work of kernel threads, time stolen by the host (it counts as time asleep), and what
//! one core's work does to the caches of the other beyond the bytes themselves.

mod account;
mod claims;
mod compare;
mod distance;
mod prices;
mod samples;
mod sentences;
mod sizes;
mod steps;

pub use claims::claims;
pub use compare::compare;

use pagewise_model::ladder::{Judgement, Ladder, ReferencePrices};
use pagewise_model::look::Samples;
use pagewise_model::price::Prices;
use pagewise_model::{Bytes, Fact, PageSize};
use prices::UnitPrices;

/// What was known before the ladder was measured, or was measured apart from its points.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// Prices of the session.
    pub prices: Option<&'a Prices>,
    /// Prices that only a ladder needs.
    pub reference: &'a ReferencePrices,
    /// Base page of the machine.
    pub base_page: PageSize,
    /// The cache that one core has to itself.
    pub l2_bytes: &'a Fact<Bytes>,
    /// Kernel samples over both processes of some points, by index of the point.
    pub samples: &'a [(usize, Samples)],
}

/// All conclusions from `ladder` but the claims.
#[must_use]
pub fn judge(ladder: &Ladder, known: &Known<'_>) -> Judgement {
    let prices = UnitPrices::freeze(known, &ladder.yardsticks);
    let measured = ladder.points.iter().enumerate();
    let accounts: Vec<_> = measured
        .filter_map(|(at, point)| {
            let account = account::account(at, point, &prices, known.base_page)?;
            Some(samples::set_beside(account, point, known.samples))
        })
        .collect();
    let steps = if ladder.sweep { Vec::new() } else { steps::steps(ladder, &accounts) };
    let advice = if ladder.sweep { sizes::advise(ladder, known.l2_bytes) } else { Vec::new() };
    let sentences = sentences::sentences(ladder);
    Judgement { prices: known.reference.clone(), accounts, steps, advice, sentences }
}

#[cfg(test)]
mod tests;
