//! Prices that are never negative and have the smallest errors, as shares of the measured values.
//!
//! The sum of absolute errors is minimised, each as a share. So a disturbed process weighs no more than any
//! other, and short times weigh the same as long ones. The minimum is found by least squares with weights
//! that are recomputed from the errors (Schlossmacher, 1973). Each least-squares step uses the active set of
//! Lawson and Hanson (1974), chapter 23, on the normal equations, which are small here.

/// Rounds of weights.
const ROUNDS: u32 = 24;
/// Errors below this share all weigh the same.
const FINE: f64 = 0.002;
/// A pivot below this share of the largest counts as zero.
const SINGULAR: f64 = 1e-10;
/// Gradients below this enter nothing.
const FLAT: f64 = 1e-12;
/// Most steps for each term; it takes few more than one.
const STEPS_EACH: usize = 8;

/// What was measured once.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RegressionRow {
    /// How much there was of each term.
    pub(super) amounts: Vec<f64>,
    pub(super) took: f64,
    /// What its error is a share of.
    pub(super) scale: f64,
}

/// The price of each of `count` terms. 0 for a term that never occurred.
pub(super) fn prices(rows: &[RegressionRow], count: usize) -> Vec<f64> {
    let rows: Vec<&RegressionRow> =
        rows.iter().filter(|row| row.scale > 0.0 && row.took.is_finite()).collect();
    let largest = |term: usize| {
        let shares = rows.iter().map(|row| row.amounts[term] / row.scale);
        shares.fold(0.0, f64::max)
    };
    // Terms count from ones to thousand millions: each is taken as a share of its largest.
    let units: Vec<f64> = (0..count).map(largest).collect();
    let share = |row: &RegressionRow, term: usize| {
        if units[term] > 0.0 { row.amounts[term] / row.scale / units[term] } else { 0.0 }
    };
    let table: Vec<(Vec<f64>, f64)> = rows
        .iter()
        .map(|row| ((0..count).map(|term| share(row, term)).collect(), row.took / row.scale))
        .collect();
    let mut weights = vec![1.0; table.len()];
    let mut found = vec![0.0; count];
    for _ in 0..ROUNDS {
        found = NormalEquations::from_table(&table, &weights, count).solve();
        for (weight, (shares, took)) in weights.iter_mut().zip(&table) {
            *weight = 1.0 / (took - dot(shares, &found)).abs().max(FINE);
        }
    }
    found
        .iter()
        .zip(&units)
        .map(|(price, unit)| if *unit > 0.0 { price / unit } else { 0.0 })
        .collect()
}

/// The same with an upper bound for each term. A term above its bound is set to it, and the others are solved
/// again.
pub(super) fn bounded_prices(mut rows: Vec<RegressionRow>, most: &[f64]) -> Vec<f64> {
    let mut bound = vec![false; most.len()];
    loop {
        let mut found = prices(&rows, most.len());
        let over = |term: &usize| found[*term] > most[*term];
        let Some(term) = (0..most.len()).find(over) else {
            let set = found.iter_mut().zip(most).zip(&bound).filter(|(_, bound)| **bound);
            set.for_each(|((price, most), _)| *price = *most);
            return found;
        };
        bound[term] = true;
        for row in &mut rows {
            row.took -= std::mem::take(&mut row.amounts[term]) * most[term];
        }
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The normal equations of weighted least squares.
struct NormalEquations {
    matrix: Vec<Vec<f64>>,
    right: Vec<f64>,
}

impl NormalEquations {
    fn from_table(table: &[(Vec<f64>, f64)], weights: &[f64], count: usize) -> Self {
        let mut squares = Self { matrix: vec![vec![0.0; count]; count], right: vec![0.0; count] };
        for ((shares, took), weight) in table.iter().zip(weights) {
            for (row, share) in shares.iter().enumerate() {
                squares.right[row] += weight * share * took;
                for (sum, other) in squares.matrix[row].iter_mut().zip(shares) {
                    *sum += weight * share * other;
                }
            }
        }
        squares
    }

    /// The least squares of all points without a negative one.
    fn solve(&self) -> Vec<f64> {
        let count = self.right.len();
        let (mut point, mut free) = (vec![0.0; count], vec![false; count]);
        let mut tried = vec![false; count];
        for _ in 0..STEPS_EACH * count {
            let Some(next) = self.steepest(&point, &free, &tried) else { break };
            free[next] = true;
            self.settle(next, &mut point, &mut free);
            if free[next] {
                // The point has moved: what could not enter before may now.
                tried.fill(false);
            }
            tried[next] = true;
        }
        point
    }

    /// Moves to the least squares of the free terms, without those that would become negative on the way.
    /// `next` was freed last. It is dropped again if it is collinear with others.
    fn settle(&self, next: usize, point: &mut Vec<f64>, free: &mut [bool]) {
        loop {
            let Some(target) = self.least(free) else {
                free[next] = false;
                return;
            };
            if free.iter().zip(&target).all(|(free, value)| !free || *value > 0.0) {
                *point = target;
                return;
            }
            retreat(point, &target, free);
        }
    }

    /// The term that lessens the squares most when it grows from 0.
    fn steepest(&self, point: &[f64], free: &[bool], tried: &[bool]) -> Option<usize> {
        let slope = |term: usize| self.right[term] - dot(&self.matrix[term], point);
        let open = (0..point.len()).filter(|term| !free[*term] && !tried[*term]);
        let steep = open.filter(|term| slope(*term) > FLAT * self.right[*term].abs().max(1.0));
        steep.max_by(|a, b| slope(*a).total_cmp(&slope(*b)))
    }

    /// The least squares with all other terms at 0. `None` if the solution is not unique.
    fn least(&self, free: &[bool]) -> Option<Vec<f64>> {
        let terms: Vec<usize> = (0..free.len()).filter(|term| free[*term]).collect();
        let mut rows: Vec<Vec<f64>> = terms
            .iter()
            .map(|row| {
                let left = terms.iter().map(|column| self.matrix[*row][*column]);
                left.chain([self.right[*row]]).collect()
            })
            .collect();
        let size = rows.len();
        for step in 0..size {
            let pivot = (step..size)
                .max_by(|a, b| rows[*a][step].abs().total_cmp(&rows[*b][step].abs()))?;
            rows.swap(step, pivot);
            let head = rows[step].clone();
            if head[step].abs()
                <= SINGULAR * self.matrix[terms[step]][terms[step]].abs().max(SINGULAR)
            {
                return None;
            }
            for row in rows.iter_mut().skip(step + 1) {
                let part = row[step] / head[step];
                row.iter_mut().zip(&head).for_each(|(value, head)| *value -= part * head);
            }
        }
        let mut point = vec![0.0; free.len()];
        for step in (0..size).rev() {
            let known: f64 =
                (step + 1..size).map(|column| rows[step][column] * point[terms[column]]).sum();
            point[terms[step]] = (rows[step][size] - known) / rows[step][step];
        }
        Some(point)
    }
}

/// Moves from `point` towards `target` until a free term reaches 0, and takes that term out of the free ones.
fn retreat(point: &mut [f64], target: &[f64], free: &mut [bool]) {
    let sinking = (0..point.len()).filter(|term| free[*term] && target[*term] <= 0.0);
    let way = |term: usize| point[term] / (point[term] - target[term]).max(f64::MIN_POSITIVE);
    let first = sinking.map(|term| (way(term), term)).min_by(|a, b| a.0.total_cmp(&b.0));
    let Some((part, gone)) = first else { return };
    for ((value, target), _) in point.iter_mut().zip(target).zip(&*free).filter(|(_, free)| **free)
    {
        *value = (*value + part * (target - *value)).max(0.0);
    }
    point[gone] = 0.0;
    free[gone] = false;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Rng;
    use proptest::prelude::*;

    fn rows(truth: &[f64], amounts: &[Vec<f64>], off: impl Fn(usize) -> f64) -> Vec<RegressionRow> {
        let row = |(nth, amounts): (usize, &Vec<f64>)| {
            let took = dot(amounts, truth) * off(nth);
            RegressionRow { amounts: amounts.clone(), took, scale: took }
        };
        amounts.iter().enumerate().map(row).collect()
    }

    fn is_near(found: f64, truth: f64, share: f64) -> bool {
        (found - truth).abs() <= share * truth.abs().max(1e-9)
    }

    #[test]
    fn a_line_is_found_though_a_point_is_far_off() {
        let amounts: Vec<Vec<f64>> = (1..=9).map(|n| vec![1.0, 1000.0 * f64::from(n)]).collect();
        let found =
            prices(&rows(&[500.0, 0.25], &amounts, |nth| if nth == 4 { 3.0 } else { 1.0 }), 2);
        assert!(is_near(found[0], 500.0, 0.02) && is_near(found[1], 0.25, 0.02), "{found:?}");
    }

    #[test]
    fn what_would_be_negative_is_nothing() {
        let row =
            |bytes: f64, took: f64| RegressionRow { amounts: vec![1.0, bytes], took, scale: took };
        let found = prices(&[row(10.0, 5.0), row(20.0, 15.0), row(30.0, 25.0)], 2);
        assert!(found[0] == 0.0 && found[1] > 0.5 && found[1] < 0.9, "{found:?}");
    }

    #[test]
    fn the_same_term_twice_and_one_of_which_there_is_nothing() {
        let amounts: Vec<Vec<f64>> =
            (1..=6).map(|n| vec![f64::from(n), f64::from(n), 0.0, 1.0]).collect();
        let found = prices(&rows(&[1.0, 2.0, 9.0, 4.0], &amounts, |_| 1.0), 4);
        assert!(is_near(found[0] + found[1], 3.0, 1e-3) && found[2] == 0.0, "{found:?}");
        assert!(is_near(found[3], 4.0, 1e-3), "{found:?}");
        assert_eq!(prices(&[], 2), [0.0, 0.0]);
    }

    #[test]
    fn what_would_cost_more_than_it_may_costs_that() {
        let amounts: Vec<Vec<f64>> =
            (1..=6).map(|n| vec![1.0, f64::from(n), f64::from(n * n)]).collect();
        let of = |most: &[f64]| bounded_prices(rows(&[5.0, 3.0, 0.5], &amounts, |_| 1.0), most);
        let free = of(&[f64::INFINITY, 4.0, 1.0]);
        assert!(is_near(free[0], 5.0, 1e-3) && is_near(free[1], 3.0, 1e-3), "{free:?}");
        let bound = of(&[f64::INFINITY, 1.0, 1.0]);
        assert!(bound[1] == 1.0 && bound[0] > 0.0 && bound[2] > 0.5, "{bound:?}");
        assert_eq!(of(&[0.0, 0.0, 0.0]), [0.0; 3]);
    }

    proptest! {
        #[test]
        fn known_prices_are_recovered(seed in 0_u64..1 << 32, zero in 0_usize..5) {
            let mut rng = Rng::new(seed);
            let mut truth: Vec<f64> = (0..5).map(|_| 0.5 + 10.0 * rng.uniform()).collect();
            truth[zero] = 0.0;
            let amounts: Vec<Vec<f64>> =
                (0..40).map(|_| (0..5).map(|_| rng.uniform()).collect()).collect();
            let exact = prices(&rows(&truth, &amounts, |_| 1.0), 5);
            for (found, truth) in exact.iter().zip(&truth) {
                prop_assert!((found - truth).abs() < 0.02, "{exact:?} for {truth:?}");
            }
            prop_assert!(exact.iter().all(|price| *price >= 0.0));
        }

        #[test]
        fn any_rows_give_prices(values in prop::collection::vec((0.0..1e9_f64, 0.0..1e9_f64, 1e-3..1e9_f64), 0..12)) {
            let rows: Vec<RegressionRow> = values
                .iter()
                .map(|(a, b, took)| RegressionRow { amounts: vec![*a, *b, 1.0], took: *took, scale: *took })
                .collect();
            let found = prices(&rows, 3);
            prop_assert!(found.iter().all(|price| price.is_finite() && *price >= 0.0), "{found:?}");
        }
    }
}
