//! What the machine should do: three sentences, on one pass in order, on one pass at random, and on files
//! that are not cached or are read again.

use pagewise_model::file::{Arm, Cell, Part, Point, Readings, Refusal, Residency};
use pagewise_model::walk::Order;

/// Ways within this share of the best are as good.
const SAME: f64 = 0.03;

/// Three sentences, each a reason where nothing is known.
pub(super) fn advice(readings: &Readings, refusals: &[Refusal]) -> Vec<String> {
    let facts = Facts { readings, refusals };
    vec![facts.warm(), facts.cold(), facts.again()]
}

struct Facts<'a> {
    readings: &'a Readings,
    refusals: &'a [Refusal],
}

/// A way with its rate, GiB/s from the first call to the last.
#[derive(Clone, Copy)]
struct Rated {
    cell: Cell,
    rate: f64,
}

impl Facts<'_> {
    /// The points of a part that did what they were asked for, with their rates.
    fn rated(&self, part: Part) -> impl Iterator<Item = (Rated, &Point)> {
        let is_whole = |at: usize| !self.refusals.iter().any(|refusal| refusal.point == at);
        self.readings.part(part).filter(move |(at, _)| is_whole(*at)).filter_map(|(_, point)| {
            let rate = point.rate_gib_per_s()?.median;
            Some((Rated { cell: point.cell, rate }, point))
        })
    }

    /// The fastest way for one order and residency, over all blocks, among those that `which` takes.
    fn best(&self, order: Order, residency: Residency, which: fn(Arm) -> bool) -> Option<Rated> {
        let all = self.rated(Part::Blocks).map(|(rated, _)| rated);
        let here = all.filter(|r| {
            r.cell.order == order && r.cell.residency == residency && which(r.cell.arm)
        });
        here.max_by(|a, b| a.rate.total_cmp(&b.rate))
    }

    fn warm(&self) -> String {
        let part = |order: Order| {
            let copied = self.best(order, Residency::Warm, |arm| !arm.is_mapped())?;
            let mapped = self.best(order, Residency::Warm, Arm::is_mapped)?;
            Some((copied, mapped))
        };
        let clause = |(copied, mapped): (Rated, Rated)| {
            let (better, other) =
                if mapped.rate > copied.rate { (mapped, copied) } else { (copied, mapped) };
            let gain = better.rate / other.rate;
            let than = format!("{} {:.1}", other.cell.arm.name(), other.rate);
            if gain < 1.0 + SAME {
                return format!("calls and mappings are as fast ({:.1} GiB/s)", better.rate);
            }
            format!(
                "{} in blocks of {} gives {:.1} GiB/s, {gain:.1} times {than}",
                better.cell.arm.name(),
                better.cell.block_bytes,
                better.rate
            )
        };
        match (part(Order::Sequential), part(Order::Random)) {
            (Some(in_order), Some(random)) => format!(
                "To read a cached file once in order: {}; at random: {}.",
                clause(in_order),
                clause(random)
            ),
            (Some(one), None) => format!("To read a cached file once in order: {}.", clause(one)),
            (None, Some(one)) => format!("To read a cached file once at random: {}.", clause(one)),
            (None, None) => {
                "Nothing is said about cached files: calls and mappings were not both read so."
                    .to_owned()
            }
        }
    }

    fn cold(&self) -> String {
        let any = |order| self.best(order, Residency::Cold, |_| true);
        let clause = |best: Rated, order: &str| {
            format!("{order} {} ({:.2} GiB/s)", best.cell.arm.name(), best.rate)
        };
        let found = [(any(Order::Sequential), "in order"), (any(Order::Random), "at random")];
        let clauses: Vec<String> =
            found.into_iter().filter_map(|(best, order)| Some(clause(best?, order))).collect();
        if clauses.is_empty() {
            let why = self.readings.points.iter().filter(|p| p.cell.residency == Residency::Cold);
            let why = why.filter_map(|point| point.refused.as_deref()).next();
            return format!(
                "Nothing is said about files that are not cached: {}.",
                why.unwrap_or("none was read so")
            );
        }
        format!("To read a file that is not cached, fastest is {}.", clauses.join(", "))
    }

    /// What a mapping is worth that is kept, pass after pass.
    fn again(&self) -> String {
        let kept = |which: fn(Arm) -> bool| {
            let all = self.rated(Part::Passes).filter(|(rated, _)| which(rated.cell.arm));
            let rated = all.filter_map(|(rated, point)| {
                let last = rated.cell.passes.checked_sub(1)? as usize;
                let (first, last) = (point.pass_gib_per_s(0)?, point.pass_gib_per_s(last)?);
                Some((rated.cell.arm, first.median, last.median))
            });
            rated.max_by(|a, b| a.2.total_cmp(&b.2))
        };
        let (Some(read), Some(mapped)) = (kept(|arm| !arm.is_mapped()), kept(Arm::is_mapped))
        else {
            return "Nothing is said about files that are read again: no passes were read."
                .to_owned();
        };
        let is_worth = mapped.2 > read.2 * (1.0 + SAME);
        let advice = if is_worth {
            "Keep the mapping of a file that is read again"
        } else {
            "Do not keep a mapping for the sake of later passes"
        };
        format!(
            "{advice}: {} goes from {:.1} GiB/s in the first pass to {:.1} in the last, {} from {:.1} to \
             {:.1}.",
            mapped.0.name(),
            mapped.1,
            mapped.2,
            read.0.name(),
            read.1,
            read.2
        )
    }
}
