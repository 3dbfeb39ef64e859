//! Walks against a known truth. Every point has a sample of each repeat on pages that the kernel has confirmed,
//! or a reason. A caller that stops early gets the results so far.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test program")]

use pagewise_measure::BenchCallbacks;
use pagewise_measure::bench::tlb::{TlbBenchRequest, TlbParts, TlbPlan, run};
use pagewise_model::bench::tlb::{AccessOrder, PageKind, TlbBenchReport, TlbPath};
use pagewise_model::{Bytes, Fact, PageSize};
use std::sync::atomic::{AtomicU32, Ordering};

fn request(parts: TlbParts) -> TlbBenchRequest {
    TlbBenchRequest {
        parts,
        kinds: PageKind::ALL.to_vec(),
        orders: vec![AccessOrder::Random, AccessOrder::Sequential],
        npads: vec![0, 31],
        smallest: Bytes::kib(1),
        largest: Bytes::kib(64),
        repeats: 2,
        quick: true,
        seed: 3,
    }
}

fn walk(plan: &TlbPlan, stop: &(dyn Fn() -> bool + Sync)) -> TlbBenchReport {
    let callbacks =
        BenchCallbacks { shuffle: &mut |order| order.reverse(), stop, show: &mut |_| {} };
    run(plan, callbacks)
}

const LISTS: TlbParts = TlbParts { lists: true, lines: false, bandwidth: false };

#[test]
fn every_sample_is_on_pages_that_the_kernel_has_shown() {
    let plan = TlbPlan::new(request(LISTS)).unwrap();
    let walks = walk(&plan, &|| false);
    let sizes = [walks.base_page_bytes, walks.huge_page_bytes, walks.huge_page_bytes];
    let missing: Vec<PageKind> = walks.unavailable.iter().map(|u| u.pages).collect();
    for (kind, size) in PageKind::ALL.into_iter().zip(sizes) {
        let of = || walks.points.iter().filter(move |p| p.pages == kind);
        assert_eq!(of().count(), if missing.contains(&kind) { 0 } else { 2 * 2 * 7 }, "{kind:?}");
        for point in of() {
            assert_eq!(point.refused, None, "{point:?}");
            assert_eq!(point.page_bytes, Fact::Known(size), "{point:?}");
            assert_eq!(point.samples.len(), 2, "{point:?}");
            assert!(point.samples.iter().all(|s| s.load_ns > 0.0), "{point:?}");
        }
    }
    assert!(!missing.contains(&PageKind::Base));
    let mut places: Vec<u32> =
        walks.points.iter().flat_map(|p| &p.samples).map(|s| s.place).collect();
    places.sort_unstable();
    let count = u32::try_from(places.len()).unwrap();
    assert_eq!(places, (0..count).collect::<Vec<_>>(), "each mapping has its place in the order");
}

#[test]
fn lines_are_walked_beside_packed_ones() {
    let parts = TlbParts { lists: false, lines: true, bandwidth: true };
    let only_base = TlbBenchRequest { kinds: vec![PageKind::Base], repeats: 1, ..request(parts) };
    let walks = walk(&TlbPlan::new(only_base).unwrap(), &|| false);
    let packed = walks.curve(TlbPath::PACKED, PageKind::Base);
    assert!(packed.len() > 30, "{}", packed.len());
    assert_eq!(walks.points.len(), 2 * packed.len());
    for point in &walks.points {
        assert!(point.samples.len() == 1 || point.refused.is_some(), "{point:?}");
        let page: Option<&PageSize> = point.page_bytes.known();
        assert!(page.is_none_or(|page| *page == walks.base_page_bytes), "{point:?}");
    }
    let copied = &walks.bandwidth.one.copy_gib_per_s;
    assert!(copied.known().is_some_and(|rate| rate.median > 0.0), "{copied:?}");
}

#[test]
fn an_interrupt_leaves_what_is_known() {
    let plan = TlbPlan::new(request(LISTS)).unwrap();
    let left = AtomicU32::new(200);
    let stop =
        || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_err();
    let walks = walk(&plan, &stop);
    let taken = walks.points.iter().filter(|p| !p.samples.is_empty()).count();
    assert!(taken > 0 && taken < walks.points.len(), "{taken} of {}", walks.points.len());
    let reasons = walks.points.iter().filter_map(|p| p.refused.as_deref());
    assert!(reasons.into_iter().all(|why| why == "interrupted"));
}
