//! The bound of address translation, and counters in its place.

use super::*;

#[test]
fn a_random_walk_has_translation_first_and_a_sequential_one_none() {
    let plain = grown(usage(10_000, 9_900, 90), 20_000);
    let random = judge(&with_pattern(plain.clone(), 800, Bytes::gib(1), Bytes(0)));
    let first = &random.costs[0];
    assert_eq!((first.kind, first.basis), (CostKind::AddressTranslation, CostBasis::UpperBound));
    // 0.8 x 4000 walks of 90 ns in each ms.
    assert!((first.time_share - 0.288).abs() < 1e-6, "{}", first.time_share);
    let evidence =
        "4000 new pages per ms, 80% of them by jumps, one in 1 accesses, x 90 ns over 1.0 GiB;";
    assert!(first.evidence.starts_with(evidence), "{}", first.evidence);
    let sequential = judge(&with_pattern(plain.clone(), 0, Bytes::gib(1), Bytes(0)));
    assert!(sequential.cost(CostKind::AddressTranslation).is_none());
    let strays = judge(&with_pattern(plain.clone(), 2, Bytes::gib(1), Bytes(0)));
    assert!(strays.cost(CostKind::AddressTranslation).unwrap().time_share < 0.001);
    let huge = judge(&with_pattern(plain.clone(), 800, Bytes::gib(1), Bytes::gib(1)));
    assert!(huge.cost(CostKind::AddressTranslation).is_none());
    let within_reach = judge(&with_pattern(plain.clone(), 800, Bytes::mib(1), Bytes(0)));
    assert!(within_reach.cost(CostKind::AddressTranslation).is_none());
    // Reach ends somewhere between 1 and 16 MiB: an upper bound has it end soon.
    let between = judge(&with_pattern(plain, 800, Bytes::mib(8), Bytes(0)));
    assert!(between.cost(CostKind::AddressTranslation).is_some());
}

#[test]
fn the_bound_grows_between_chase_points_and_is_flat_after_the_last() {
    let plain = look(usage(1000, 1000, 0), vec![process(1)]);
    let at = |mib| {
        let look = with_pattern(plain.clone(), 800, Bytes::mib(mib), Bytes(0));
        ns(&judge(&look), CostKind::AddressTranslation)
    };
    // Half-way (in the logarithm) from 256 MiB to 1 GiB: 170 against 105 ns.
    assert_eq!(at(512), Nanos::from_f64(1e3 * 0.8 * 4000.0 * 65.0).0);
    assert_eq!(at(1024), at(8192));
}

#[test]
fn the_more_other_data_between_the_walks_the_dearer_they_may_be() {
    let plain = look(usage(1000, 1000, 0), vec![process(1)]);
    let at = |accesses| {
        let mut look = with_pattern(plain.clone(), 800, Bytes::mib(256), Bytes(0));
        if let Fact::Known(TracedLook { pattern: Fact::Known(pattern), .. }) = &mut look.traced {
            pattern.accesses = accesses;
        }
        ns(&judge(&look), CostKind::AddressTranslation)
    };
    let walks = 1e3 * 0.8 * 4000.0;
    assert_eq!(at(800), Nanos::from_f64(walks * 40.0).0, "as in a chase over 256 MiB");
    // Four lines for each entry where a chase has two: as in a chase over 512 MiB.
    assert_eq!(at(2400), Nanos::from_f64(walks * 65.0).0);
    assert_eq!(at(80_000), Nanos::from_f64(walks * 90.0).0, "never more than the largest set");
}

#[test]
fn no_program_loses_more_than_one_that_only_chases() {
    let mut look = with_pattern(look(usage(1000, 1000, 0), vec![]), 1000, Bytes::gib(1), Bytes(0));
    if let Fact::Known(traced) = &mut look.traced {
        traced.footprint = Fact::Known(FootprintGrowth { probes: 1, new_pages_per_ms: 1e6 });
    }
    assert_eq!(ns(&judge(&look), CostKind::AddressTranslation), 450_000_000);
}

#[test]
fn where_too_little_was_stepped_every_new_page_may_be_a_jump_anywhere() {
    let plain = look(usage(1000, 1000, 0), vec![]);
    let mut look = with_pattern(plain, 0, Bytes::gib(1), Bytes(0));
    assert_eq!(ns(&judge(&look), CostKind::AddressTranslation), 0);
    if let Fact::Known(TracedLook { pattern: Fact::Known(pattern), .. }) = &mut look.traced {
        pattern.instructions = 999;
    }
    assert_eq!(ns(&judge(&look), CostKind::AddressTranslation), 360_000_000);
}

#[test]
fn huge_pages_that_are_no_faster_give_no_bound() {
    let look = with_pattern(look(usage(9, 9, 0), vec![]), 800, Bytes::gib(1), Bytes(0));
    let mut prices = prices();
    for point in &mut prices.chase {
        point.huge_ns = Fact::Known(exactly(point.base_ns.median * 1.2));
    }
    assert!(diagnose(&look, &prices, &machine()).costs.is_empty());
}

#[test]
fn where_pages_were_not_seen_user_time_is_the_bound() {
    let mut run = usage(1000, 900, 10);
    run.peak_rss_bytes = Bytes::gib(1);
    let unseen = look(run.clone(), vec![process(1)]);
    let bounded = ns(&judge(&unseen), CostKind::AddressTranslation);
    assert!(bounded > 90_000_000 && bounded < 900_000_000, "{bounded}");
    let unpriced = SessionPrices { chase: Vec::new(), ..prices() };
    let whole = diagnose(&unseen, &unpriced, &machine());
    assert_eq!(ns(&whole, CostKind::AddressTranslation), 900_000_000);
    run.peak_rss_bytes = Bytes::mib(1);
    let small = look(run, vec![process(1)]);
    assert_eq!(ns(&diagnose(&small, &unpriced, &machine()), CostKind::AddressTranslation), 0);
    let asleep = usage(1000, 1, 1);
    assert!(judge(&look(asleep, vec![process(1)])).ceiling_share < 0.02);
}

#[test]
fn counters_take_the_place_of_the_bound() {
    let mut look = with_pattern(look(usage(10, 10, 0), vec![]), 800, Bytes::gib(1), Bytes(0));
    look.walks =
        Fact::Known(WalkCounts { cycles: 1000, data_walk_cycles: 240, code_walk_cycles: 10 });
    let diagnosis = judge(&look);
    let cost = diagnosis.cost(CostKind::AddressTranslation).unwrap();
    assert_eq!((cost.basis, cost.cost_ns), (CostBasis::Counters, Nanos(2_500_000)));
}
