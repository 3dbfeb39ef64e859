//! Which of several ways to advise. One is proven worth it, none is, the answer is open, or nothing was
//! measured. Without proof there is no advice.

use pagewise_model::bench::{ClaimAnswer, ClaimEvidence, ClaimFigure};

/// The best of several ways. Each figure comes with the claim that the way is worth it.
pub(crate) enum BestWay<T> {
    /// It is proven to be worth it.
    Proven(T, ClaimFigure),
    /// No way is proven to be worth it, but this one may be.
    Open(T, ClaimFigure),
    /// This number of ways was measured, and none is worth it.
    No(usize),
    Unmeasured,
}

impl<T> BestWay<T> {
    /// Of figures of which the largest is best.
    pub(crate) fn largest(ways: impl IntoIterator<Item = (T, ClaimFigure)>) -> Self {
        Self::by(ways, |figure| figure.estimate)
    }

    /// Of figures of which the smallest is best.
    pub(crate) fn smallest(ways: impl IntoIterator<Item = (T, ClaimFigure)>) -> Self {
        Self::by(ways, |figure| -figure.estimate)
    }

    fn by(
        ways: impl IntoIterator<Item = (T, ClaimFigure)>,
        merit: fn(&ClaimFigure) -> f64,
    ) -> Self {
        let of = |answer| move |(_, figure): &(T, ClaimFigure)| figure.answer() == answer;
        let mut ways: Vec<(T, ClaimFigure)> = ways.into_iter().collect();
        let count = ways.len();
        // The best is last.
        ways.sort_by(|a, b| merit(&a.1).total_cmp(&merit(&b.1)));
        let last = |answer| ways.iter().rposition(of(answer));
        if let Some(at) = last(ClaimAnswer::Confirmed) {
            let (way, figure) = ways.swap_remove(at);
            return Self::Proven(way, figure);
        }
        match last(ClaimAnswer::CannotTell) {
            Some(at) => {
                let (way, figure) = ways.swap_remove(at);
                Self::Open(way, figure)
            }
            None if count == 0 => Self::Unmeasured,
            None => Self::No(count),
        }
    }
}

/// `; about 12 repeats would settle it (now 6)`. Empty if the figure is settled.
pub(crate) fn to_settle(figure: &ClaimFigure) -> String {
    let needed = ClaimEvidence::figure(figure.clone()).to_settle();
    needed.map_or_else(String::new, |needed| format!("; {needed}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::Fact;

    #[test]
    fn what_is_proven_goes_before_what_only_looks_better() {
        let figure = |ratio: f64, off: f64| {
            let interval = Fact::Known((ratio / off, ratio * off));
            ClaimFigure::new(ratio, interval, 9).above(1.03)
        };
        let of = |ways: &[(f64, f64)]| {
            BestWay::largest(ways.iter().map(|&(ratio, off)| (ratio, figure(ratio, off))))
        };
        assert!(matches!(of(&[(2.0, 1.1), (9.0, 20.0)]), BestWay::Proven(way, _) if way == 2.0));
        let BestWay::Open(way, figure) = of(&[(0.5, 1.1), (1.2, 1.5), (1.1, 1.5)]) else {
            panic!("not open")
        };
        assert!(way == 1.2 && to_settle(&figure).contains("repeats would settle it"));
        assert!(matches!(of(&[(0.5, 1.1), (0.9, 1.1)]), BestWay::No(2)));
        assert!(matches!(of(&[]), BestWay::Unmeasured));
    }
}
