//! Whether a linker followed an order: where the ordered functions lie in its output.
//!
//! A name counts once, at its first place. Linkers move all functions of that name there.

use super::matching::counterparts;
use pagewise_model::Bytes;
use pagewise_model::pieces::{BuildSymbol, OrderConformance};
use std::collections::HashSet;

/// How `build`, a linked program, follows `order`.
#[must_use]
pub fn conformance(order: &[BuildSymbol], build: &[BuildSymbol]) -> OrderConformance {
    let mut names = HashSet::new();
    let order: Vec<BuildSymbol> =
        order.iter().filter(|function| names.insert(&function.name)).cloned().collect();
    let places = counterparts(&order, build).places;
    let found: Vec<&BuildSymbol> = places.iter().flatten().map(|at| &build[*at]).collect();
    let rises: Vec<bool> = found.windows(2).map(|two| two[0].address < two[1].address).collect();
    let in_order = rises.iter().filter(|rises| **rises).count();
    let runs = rises.split(|rises| !rises).map(|run| run.len() as u64 + 1);
    let end = |function: &&BuildSymbol| function.address + function.bytes.0;
    let start = found.iter().map(|function| function.address).min().unwrap_or_default();
    OrderConformance {
        names: order.len() as u64,
        found: found.len() as u64,
        in_order_share: if rises.is_empty() { 1.0 } else { in_order as f64 / rises.len() as f64 },
        longest_run: if found.is_empty() { 0 } else { runs.max().unwrap_or_default() },
        span_bytes: Bytes(found.iter().map(end).max().unwrap_or(start) - start),
        function_bytes: Bytes(found.iter().map(|function| function.bytes.0).sum()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn functions(all: &[(&str, u64)]) -> Vec<BuildSymbol> {
        let function = |(name, address): &(&str, u64)| BuildSymbol {
            name: (*name).to_owned(),
            address: *address,
            bytes: Bytes(16),
            ..BuildSymbol::default()
        };
        all.iter().map(function).collect()
    }

    #[test]
    fn an_order_that_is_followed_conforms() {
        let order = functions(&[("c", 0), ("a", 0), ("b", 0)]);
        let good = functions(&[("c", 64), ("a", 80), ("b", 96), ("d", 112)]);
        let seen = conformance(&order, &good);
        assert!(seen.is_honoured(), "{seen:?}");
        assert_eq!(
            (seen.longest_run, seen.span_bytes, seen.function_bytes),
            (3, Bytes(48), Bytes(48))
        );
    }

    #[test]
    fn functions_of_one_name_lie_together_at_its_first_place() {
        let order = functions(&[("a", 0), ("b", 0), ("a", 0)]);
        let seen = conformance(&order, &functions(&[("a", 64), ("a", 80), ("b", 96)]));
        assert!(seen.is_honoured() && seen.names == 2, "{seen:?}");
    }

    #[test]
    fn one_that_is_ignored_or_has_lost_its_names_does_not() {
        let order = functions(&[("c", 0), ("a", 0), ("b", 0)]);
        let ignored = conformance(&order, &functions(&[("a", 64), ("b", 80), ("c", 96)]));
        assert!(!ignored.is_honoured() && ignored.longest_run == 2, "{ignored:?}");
        let lost = conformance(&order, &functions(&[("c", 64), ("a", 80)]));
        assert!(!lost.is_honoured() && lost.found == 2, "{lost:?}");
        assert!(!conformance(&order, &[]).is_honoured());
    }
}
