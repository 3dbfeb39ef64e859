//! A choice by stored prices: it looks at the file, takes the prices of its file system, and gives a reason if
//! it cannot choose.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test program")]

use pagewise_lanes::choose::{
    AccessOrder, Calibration, CalibrationPlace, ChooseError, ExaminedFile, FolioClass, KeptPrices,
    ReadDemand, ReadWay,
};
use pagewise_model::choice::ReadPhase;
use pagewise_model::constructed::{calibration, pass_prices, price_list};
use pagewise_model::{Bytes, Nanos};
use std::path::Path;

/// A call 1000 ns, its byte 1 ns; a byte of a mapping 2 ns.
fn prices(place: &CalibrationPlace) -> Calibration {
    let list = |phase, arm, prices: &[_]| price_list(phase, arm, FolioClass::Piece, prices);
    let mut lists = vec![
        list(ReadPhase::Pass, ReadWay::Pread, &pass_prices(1000.0, 1.0)),
        list(ReadPhase::Pass, ReadWay::Map, &pass_prices(0.0, 2.0)),
    ];
    for arm in [ReadWay::Pread, ReadWay::Map] {
        lists.extend(
            [ReadPhase::SetUp, ReadPhase::First, ReadPhase::TearDown].map(|p| list(p, arm, &[])),
        );
    }
    calibration(place.key.clone(), lists)
}

fn demand(block: u64) -> ReadDemand {
    ReadDemand { order: AccessOrder::Sequential, block_bytes: Bytes(block), passes: 1, threads: 1 }
}

fn file(dir: &Path, name: &str, len: usize) -> ExaminedFile {
    let path = dir.join(name);
    std::fs::write(&path, vec![7; len]).unwrap();
    ExaminedFile::open(&path).unwrap()
}

#[test]
fn prices_that_are_kept_decide() {
    let dir = tempfile::tempdir().unwrap();
    let subject = file(dir.path(), "data", 64 << 10);
    let kept = KeptPrices { calibration: prices(subject.place()), age: Nanos::secs(9) };
    let best = |block: u64| {
        let choice = subject
            .choose_by(&kept, &demand(block), &[ReadWay::Pread, ReadWay::Map, ReadWay::Place])
            .unwrap();
        (choice.best().unwrap().arm, choice.forecasts.len(), choice.best().unwrap().total_ns)
    };
    assert_eq!(subject.size(), Bytes::kib(64));
    assert_eq!(best(512), (ReadWay::Map, 2, 131_072.0));
    assert_eq!(best(32 << 10), (ReadWay::Pread, 2, 67_536.0));
}

#[test]
fn what_cannot_be_chosen_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let subject = file(dir.path(), "small", 4 << 10);
    let kept = KeptPrices { calibration: prices(subject.place()), age: Nanos(0) };
    for (block, why) in [(0, "has no price"), (8 << 10, "larger than the file")] {
        let error = subject.choose_by(&kept, &demand(block), &[ReadWay::Pread]).unwrap_err();
        assert!(matches!(error, ChooseError::Demand(_)), "{error}");
        assert!(error.to_string().contains(why) && !error.help().is_empty(), "{error}");
    }
    let none = dir.path().join("none");
    assert!(matches!(ExaminedFile::open(&none), Err(ChooseError::Sys(_))));
    assert!(ExaminedFile::open(dir.path()).unwrap_err().to_string().contains("not a regular file"));
    std::fs::write(&none, b"").unwrap();
    assert!(ExaminedFile::open(&none).unwrap_err().to_string().contains("empty"));
}
