//! A whole calibration of this machine: properties that hold on any machine.

use pagewise_measure::{CalibrationOptions, PriceError, calibrate};
use pagewise_model::{Measured, Nanos};
use std::sync::atomic::{AtomicU32, Ordering};

fn assert_sound(name: &str, price: &Measured) {
    let values = [price.min, price.median, price.max];
    assert!(price.n >= 5, "{name}: {price:?}");
    assert!(values.is_sorted() && price.min > 0.0 && price.max.is_finite(), "{name}: {price:?}");
}

#[test]
#[allow(clippy::print_stderr, reason = "a skipped test says so")]
fn prices_are_sound_and_the_chase_is_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = Some(dir.path().join("prices.json"));
    let options = CalibrationOptions { budget_ns: Nanos::millis(300), cache, fresh: false };
    let affinity = pagewise_kernel::affinity::get(0).expect("affinity");
    let first = calibrate(&options, &|| false).expect("prices");
    assert_eq!(pagewise_kernel::affinity::get(0).expect("affinity"), affinity);
    for (name, price) in [
        ("anon fault", &first.anon_fault_ns),
        ("zero page", &first.zero_page_ns),
        ("file fault", &first.file_fault_ns),
        ("cow fault", &first.cow_fault_ns),
        ("syscall", &first.syscall_ns),
        ("map unmap", &first.map_unmap_ns),
        ("wakeup same", &first.wakeup_same_ns),
    ] {
        assert_sound(name, price);
    }
    if let Some(spawn) = first.spawn_ns.known() {
        assert_sound("spawn", spawn);
    }
    for transfers in [&first.pipe_transfers, &first.file_reads] {
        assert!(!transfers.is_empty());
        assert!(transfers.is_sorted_by(|a, b| a.transfer_bytes < b.transfer_bytes));
        transfers.iter().for_each(|point| assert_sound("transfer", &point.transfer_ns));
    }
    assert!(first.file_fault_pages >= 1.0);
    assert!(first.zero_page_ns.median < first.anon_fault_ns.median);
    assert!(first.syscall_ns.median < first.anon_fault_ns.median);
    assert!(!first.prior && !first.chase.is_empty());
    first.chase.iter().for_each(|point| assert_sound("chase", &point.base_ns));

    let second = calibrate(&options, &|| false).expect("prices");
    if first.chase.iter().any(|point| point.huge_ns.known().is_none()) {
        eprintln!("SKIP keeping the chase: no huge pages were had");
        return;
    }
    assert!(second.prior);
    assert_eq!(second.chase.len(), first.chase.len());
    for (kept, walked) in second.chase.iter().zip(&first.chase) {
        assert_eq!(kept.set_bytes, walked.set_bytes);
        // Decimal text may change the last binary digit. A second walk would differ far more.
        let ratio = kept.base_ns.median / walked.base_ns.median;
        assert!((ratio - 1.0).abs() < 1e-12, "{kept:?} {walked:?}");
    }
    let fresh = CalibrationOptions { fresh: true, ..options };
    assert!(!calibrate(&fresh, &|| false).expect("prices").prior);
}

#[test]
fn a_calibration_is_stopped_where_it_is() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("prices.json");
    let options = CalibrationOptions {
        budget_ns: Nanos::secs(1000),
        cache: Some(path.clone()),
        fresh: false,
    };
    for asked in [0, 3] {
        let times = AtomicU32::new(0);
        let stop = || times.fetch_add(1, Ordering::Relaxed) >= asked;
        let ended = calibrate(&options, &stop);
        assert!(matches!(ended, Err(PriceError::Interrupted)), "{ended:?}");
    }
    assert!(!path.exists(), "half a chase is not kept");
}
