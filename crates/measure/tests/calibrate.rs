//! A whole calibration against this machine: what must hold on any.

use pagewise_measure::{Options, calibrate};
use pagewise_model::{Measured, Nanos};

fn assert_sound(name: &str, price: &Measured) {
    let values = [price.min, price.median, price.max];
    assert!(price.n >= 5, "{name}: {price:?}");
    assert!(values.is_sorted() && price.min > 0.0 && price.max.is_finite(), "{name}: {price:?}");
}

#[test]
fn prices_are_sound_and_the_chase_is_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = Some(dir.path().join("prices.json"));
    let options = Options { budget_ns: Nanos::millis(300), cache, fresh: false };
    let affinity = pagewise_kernel::affinity::get(0).expect("affinity");
    let first = calibrate(&options).expect("prices");
    assert_eq!(pagewise_kernel::affinity::get(0).expect("affinity"), affinity);
    for (name, price) in [
        ("anon fault", &first.anon_fault_ns),
        ("zero page", &first.zero_page_ns),
        ("file fault", &first.file_fault_ns),
        ("cow fault", &first.cow_fault_ns),
        ("pipe copy", &first.pipe_copy_kib_ns),
        ("file copy", &first.file_copy_kib_ns),
        ("syscall", &first.syscall_ns),
        ("map unmap", &first.map_unmap_ns),
        ("wakeup same", &first.wakeup_same_ns),
        ("spawn", &first.spawn_ns),
    ] {
        assert_sound(name, price);
    }
    assert!(first.file_fault_pages >= 1.0);
    assert!(first.zero_page_ns.median < first.anon_fault_ns.median);
    assert!(first.syscall_ns.median < first.anon_fault_ns.median);
    assert!(!first.prior && !first.chase.is_empty());
    first.chase.iter().for_each(|point| assert_sound("chase", &point.base_ns));

    let second = calibrate(&options).expect("prices");
    assert!(second.prior);
    assert_eq!(second.chase.len(), first.chase.len());
    for (kept, walked) in second.chase.iter().zip(&first.chase) {
        assert_eq!(kept.set_bytes, walked.set_bytes);
        // Decimal text may change the last binary digit; a second walk would differ far more.
        let ratio = kept.base_ns.median / walked.base_ns.median;
        assert!((ratio - 1.0).abs() < 1e-12, "{kept:?} {walked:?}");
    }
    let fresh = Options { fresh: true, ..options };
    assert!(!calibrate(&fresh).expect("prices").prior);
}
