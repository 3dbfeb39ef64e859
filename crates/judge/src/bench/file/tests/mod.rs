//! Constructed readings with known answers, the errors of the published benchmark among them.

mod prices;

use super::judge;
use pagewise_model::bench::ClaimAnswer;
use pagewise_model::bench::file::{
    BlockStore, CacheResidency, FileBenchPart, FileCell, FileJudgement, FilePoint, ReadLedger,
    ReadWay,
};
use pagewise_model::bench::tlb::AccessOrder;
use pagewise_model::constructed::{CHECKSUM, cell, reading, readings};
use pagewise_model::{Bytes, Nanos};
use proptest::prelude::*;

const MS: Nanos = Nanos::millis(10);

/// The judgement on read() and one other point, whose ledger was changed.
fn judged(cell: FileCell, change: impl Fn(&mut ReadLedger)) -> FileJudgement {
    let mut other = reading(cell, MS, 6);
    other.samples.iter_mut().for_each(|sample| change(&mut sample.ledger));
    judge(&readings(vec![reading(cell.by(ReadWay::Read), Nanos::millis(20), 6), other]))
}

fn why(cell: FileCell, change: impl Fn(&mut ReadLedger)) -> String {
    let judgement = judged(cell, change);
    assert!(judgement.ratio(1).is_none(), "what is refused is not compared");
    judgement.refusal(1).map_or_else(String::new, str::to_owned)
}

#[test]
fn equal_work_is_compared() {
    let judgement = judged(cell(ReadWay::Map), |_| {});
    assert_eq!(judgement.refusals, []);
    let ratio = judgement.ratio(1).unwrap();
    assert!((ratio.ratio - 0.5).abs() < 1e-6 && ratio.base == 0, "{ratio:?}");
    assert!(ratio.interval.known().is_some_and(|(low, high)| *low <= 0.5 && *high >= 0.5));
}

#[test]
fn written_blocks_are_judged_by_themselves() {
    let of = |arm, store, ms| {
        reading(FileCell { store: Some(store), ..cell(arm) }, Nanos::millis(ms), 6)
    };
    let told = |mapped, synced| {
        judge(&readings(vec![
            of(ReadWay::Read, BlockStore::Cached, 10),
            of(ReadWay::Map, BlockStore::Cached, mapped),
            of(ReadWay::Read, BlockStore::Synced, 50),
            of(ReadWay::Map, BlockStore::Synced, synced),
        ]))
    };
    let answers = |judgement: &FileJudgement| -> Vec<ClaimAnswer> {
        judgement.claims.iter().map(|claim| claim.answer).collect()
    };
    let usual = told(15, 51);
    assert_eq!(
        answers(&usual),
        [ClaimAnswer::Refuted, ClaimAnswer::Confirmed, ClaimAnswer::Confirmed],
        "{:?}",
        usual.claims
    );
    assert_eq!(usual.advice.len(), 1);
    let advice = &usual.advice[0];
    assert!(advice.starts_with("To overwrite a cached file in order: write "), "{advice}");
    assert!(advice.contains("1.5 times mmap-write; in order, on the device: both"), "{advice}");
    assert_eq!(answers(&told(5, 80))[..2], [ClaimAnswer::Confirmed, ClaimAnswer::Refuted]);
}

#[test]
fn the_loop_of_32_bits_is_refused() {
    let large = FileCell { span_bytes: Bytes::gib(4), ..cell(ReadWay::Map) };
    let walked = |asked: &mut ReadLedger| {
        asked.bytes = Bytes(1 << 31);
        asked.blocks /= 2;
        asked.distinct_blocks /= 2;
    };
    assert_eq!(why(large, walked), "it read 2.0 GiB of 4.0 GiB (50%)");
}

#[test]
fn drawing_with_replacement_is_refused() {
    let random = FileCell { order: AccessOrder::Random, ..cell(ReadWay::Map) };
    let drawn = |asked: &mut ReadLedger| asked.distinct_blocks = asked.distinct_blocks * 63 / 100;
    let why = why(random, drawn);
    assert_eq!(why, "it touched 2580 of 4096 blocks (63%), some more than once");
}

#[test]
fn mapping_before_the_clock_is_refused() {
    let mapped = |asked: &mut ReadLedger| asked.mapped_before_bytes = Bytes::mib(64);
    let why = why(cell(ReadWay::MapPopulate), mapped);
    assert_eq!(why, "64.0 MiB was mapped before its clock started");
}

#[test]
fn a_copy_that_was_not_made_is_refused() {
    let why = why(cell(ReadWay::Map), |asked| asked.checksum += 1);
    assert!(why.contains("checksum is wrong"), "{why}");
    let mut unknown = readings(vec![reading(cell(ReadWay::Map), MS, 1)]);
    unknown.truths.clear();
    assert!(judge(&unknown).refusal(0).is_some_and(|why| why.contains("not known")));
}

#[test]
fn passes_multiply_the_work() {
    let again = FileCell { part: FileBenchPart::Passes, passes: 8, ..cell(ReadWay::Place) };
    assert_eq!(judged(again, |_| {}).refusals, []);
    let once = ReadLedger::asked(&FileCell { passes: 1, ..again }, CHECKSUM);
    assert_eq!(why(again, |asked| *asked = once), "it read 64.0 MiB of 512 MiB (12%)");
}

fn advice(points: Vec<FilePoint>) -> [String; 3] {
    judge(&readings(points)).advice.try_into().unwrap()
}

#[test]
fn the_sentences_name_the_best_of_each_kind() {
    let random = |arm| FileCell { order: AccessOrder::Random, ..cell(arm) };
    let cold = |arm| FileCell { residency: CacheResidency::Cold, ..cell(arm) };
    let again = |arm| FileCell { part: FileBenchPart::Passes, passes: 2, ..cell(arm) };
    let mut kept = reading(again(ReadWay::Place), MS, 3);
    kept.samples.iter_mut().for_each(|sample| sample.pass_ns[1] = Nanos::millis(2));
    let [warm, cold, again] = advice(vec![
        reading(cell(ReadWay::Read), Nanos::millis(20), 3),
        reading(cell(ReadWay::Place), MS, 3),
        reading(random(ReadWay::Pread), MS, 3),
        reading(random(ReadWay::Map), MS, 3),
        reading(cold(ReadWay::Read), Nanos::millis(100), 2),
        reading(cold(ReadWay::MapSequential), Nanos::millis(50), 2),
        reading(again(ReadWay::Read), MS, 3),
        kept,
    ]);
    let part = "in order: a mapping used in place in blocks of 16.0 KiB gives 6.1 GiB/s, 2.0 times \
                read 3.1; at random: calls and mappings are as fast (6.1 GiB/s).";
    assert!(warm.contains(part), "{warm}");
    assert!(cold.contains("in order mmap-sequential ("), "{cold}");
    assert!(
        again.starts_with("Keep the mapping") && again.contains("6.2 GiB/s in the first"),
        "{again}"
    );
    assert!(again.contains("to 31.2 in the last, read() from 6.2 to 6.2"), "{again}");
}

#[test]
fn what_is_not_known_has_its_reason() {
    let mut refused =
        FilePoint::new(FileCell { residency: CacheResidency::Cold, ..cell(ReadWay::Read) });
    refused.refused = Some("3 pages stay".to_owned());
    let sentences = advice(vec![refused]);
    assert!(sentences.iter().all(|sentence| sentence.starts_with("No verdict")));
    assert!(sentences[1].ends_with("uncached files: 3 pages stay."), "{}", sentences[1]);
}

#[test]
fn what_was_refused_advises_nothing() {
    let mut half = reading(cell(ReadWay::Map), MS, 3);
    half.samples[0].ledger.bytes = Bytes(0);
    let [warm, ..] = advice(vec![reading(cell(ReadWay::Read), MS, 3), half]);
    assert!(warm.starts_with("No verdict"), "{warm}");
}

proptest! {
    #[test]
    fn any_other_ledger_is_refused(field in 0..5_usize, by in 1_u64..1 << 40) {
        let change = |ledger: &mut ReadLedger| match field {
            0 => ledger.bytes.0 = ledger.bytes.0.wrapping_add(by),
            1 => ledger.blocks = ledger.blocks.wrapping_add(by),
            2 => ledger.distinct_blocks = ledger.distinct_blocks.wrapping_sub(by),
            3 => ledger.checksum = ledger.checksum.wrapping_add(by),
            _ => ledger.mapped_before_bytes.0 = by,
        };
        prop_assert!(!why(cell(ReadWay::Map), change).is_empty());
    }
}
