//! Readings made by known prices: forecasts for what was never read are found again, exactly and through
//! noise; and what is reported of them.

use super::{CalibrationOccasion, calibrate, reasons, trial_error, waited_share};
use crate::stats::Rng;
use pagewise_model::bench::file::{CacheResidency, FileCell, FilePoint, FileSample, ReadWay};
use pagewise_model::bench::tlb::AccessOrder;
use pagewise_model::cache::FolioClass;
use pagewise_model::choice::{
    Calibration, CalibrationKey, CostTerm, CpuSharing, FileReadings, FileState, NEAR, PriceList,
    ReadChoice, ReadDemand, ReadPhase, ReadTrial, SpanDemand,
};
use pagewise_model::constructed::{cell, machine, price_list, reading, readings};
use pagewise_model::measured::median;
use pagewise_model::{Bytes, Nanos, PageSize};

const LARGE: Bytes = Bytes::mib(64);
const ARMS: [ReadWay; 5] =
    [ReadWay::Pread, ReadWay::Uring, ReadWay::Map, ReadWay::MapPopulate, ReadWay::Place];
const CLASSES: [FolioClass; 2] = [FolioClass::Piece, FolioClass::Huge];

fn key() -> CalibrationKey {
    CalibrationKey::new(&machine(), "ext4".to_owned(), 7)
}

fn occasion() -> CalibrationOccasion {
    CalibrationOccasion { key: key(), unix_ns: 1, took_ns: Nanos::secs(15) }
}

fn list(
    (phase, arm): (ReadPhase, ReadWay),
    order: Option<AccessOrder>,
    folios: FolioClass,
    prices: &[(CostTerm, f64)],
) -> PriceList {
    PriceList { order, ..price_list(phase, arm, folios, prices) }
}

/// What a pass of a way costs; huge pages make what is mapped easier to reach.
fn pass(arm: ReadWay, order: AccessOrder, folios: FolioClass) -> Vec<(CostTerm, f64)> {
    let (call, byte) = match arm {
        ReadWay::Pread => (150.0, 0.05),
        ReadWay::Uring => (220.0, 0.055),
        ReadWay::Place => (6.0, 0.028),
        _ => (12.0, 0.045),
    };
    let reach = if folios == FolioClass::Huge { 5.0 } else { 20.0 };
    let lead = if order == AccessOrder::Random { 0.03 } else { 0.002 };
    vec![
        (CostTerm::Block, call),
        (CostTerm::LeadByte, byte + lead),
        (CostTerm::RampByte, byte + lead / 3.0),
        (CostTerm::Byte, byte),
        (CostTerm::SpillByte, byte - 0.01),
        (CostTerm::FarByte, 0.01),
        (CostTerm::Reach, if order == AccessOrder::Random { reach } else { 0.0 }),
    ]
}

fn truth() -> Calibration {
    let mut lists = Vec::new();
    for folios in CLASSES {
        let page = if folios == FolioClass::Huge { 0.5 } else { 20.0 };
        for arm in ARMS {
            let whole = if arm == ReadWay::MapPopulate { page } else { 0.0 };
            let faults = if arm.is_mapped() { 2.0 * page - whole } else { 0.0 };
            let buffers = if arm == ReadWay::Uring { 0.5 } else { 0.0 };
            let torn = if arm.is_mapped() { page / 2.0 } else { 0.0 };
            let set_up =
                [(CostTerm::Once, 9e3), (CostTerm::Page, whole), (CostTerm::BufferByte, buffers)];
            lists.push(list((ReadPhase::SetUp, arm), None, folios, &set_up));
            let tear_down = [(CostTerm::Once, 5e3), (CostTerm::Page, torn)];
            lists.push(list((ReadPhase::TearDown, arm), None, folios, &tear_down));
            for order in AccessOrder::ALL {
                let first = [(CostTerm::Page, faults), (CostTerm::NearByte, 0.03)];
                lists.push(list((ReadPhase::First, arm), Some(order), folios, &first));
                let prices = pass(arm, order, folios);
                lists.push(list((ReadPhase::Pass, arm), Some(order), folios, &prices));
            }
        }
    }
    for (arm, order) in ARMS.into_iter().flat_map(|arm| AccessOrder::ALL.map(|order| (arm, order)))
    {
        let device = [(CostTerm::Page, 800.0), (CostTerm::Block, 60_000.0)];
        lists.push(list((ReadPhase::Device, arm), Some(order), FolioClass::Piece, &device));
    }
    let sharing = |(arm, order, folios)| CpuSharing {
        arm,
        order,
        folios,
        start_ns: 40_000.0,
        blocks_share: 0.1,
        bytes_share: 0.5,
        first_share: if arm == ReadWay::Map { 0.8 } else { 0.2 },
    };
    Calibration {
        key: key(),
        cpus: 2,
        base_page_bytes: PageSize::BASE_4K,
        taken_unix_ns: 1,
        took_ns: Nanos::secs(15),
        processes: 0,
        missed_share: 0.0,
        error_share: 0.0,
        lists,
        sharing: ARMS
            .into_iter()
            .flat_map(|arm| AccessOrder::ALL.map(|order| (arm, order)))
            .flat_map(|(arm, order)| CLASSES.map(|folios| (arm, order, folios)))
            .map(sharing)
            .collect(),
    }
}

/// The sample of a cell that takes what `truth` says, each phase off by what `off` draws.
fn sample(
    truth: &Calibration,
    cell: &FileCell,
    folios: FolioClass,
    mut off: impl FnMut() -> f64,
) -> FileSample {
    let mut sample = reading(*cell, Nanos(1), 1).samples.remove(0);
    let demand = ReadDemand { passes: 1, ..ReadDemand::from_cell(cell) };
    let state = FileState {
        cached_share: if cell.residency == CacheResidency::Warm { 1.0 } else { 0.0 },
        ..FileState::cached(cell.span_bytes, folios)
    };
    let once = truth.forecast(cell.arm, &demand, &state).unwrap().parts;
    let pass = once.blocks_ns + once.bytes_ns + once.starts_ns;
    let ns = |value: f64| Nanos::from_f64(value);
    sample.set_up_ns = ns(once.set_up_ns * off());
    sample.tear_down_ns = ns(once.tear_down_ns * off());
    sample.pass_ns = (0..cell.passes)
        .map(|nth| ns(off() * if nth == 0 { pass + once.first_ns + once.device_ns } else { pass }))
        .collect();
    sample
}

fn base(arm: ReadWay, order: AccessOrder, block_bytes: Bytes, span_bytes: Bytes) -> FileCell {
    FileCell { order, block_bytes, span_bytes, passes: 2, ..cell(arm) }
}

/// The cells of a calibration.
fn cells(folios: FolioClass) -> Vec<FileCell> {
    let mut cells = Vec::new();
    for (arm, order) in ARMS.into_iter().flat_map(|arm| AccessOrder::ALL.map(|order| (arm, order)))
    {
        for block in [1, 4, 16, 256, 1024].map(Bytes::kib) {
            cells.push(base(arm, order, block, LARGE));
        }
        for block in [4, 16].map(Bytes::kib) {
            cells.push(base(arm, order, block, NEAR));
        }
        for (block, span) in [(2, LARGE), (16, LARGE), (256, LARGE), (16, NEAR)] {
            cells.push(FileCell { threads: 2, ..base(arm, order, Bytes::kib(block), span) });
        }
        if folios != FolioClass::Piece {
            continue;
        }
        for block in [16, 256].map(Bytes::kib) {
            let (passes, residency) = (1, CacheResidency::Cold);
            cells.push(FileCell { passes, residency, ..base(arm, order, block, Bytes::mib(8)) });
        }
    }
    cells
}

fn files(mut off: impl FnMut() -> f64) -> Vec<FileReadings> {
    let truth = truth();
    let mut readings_of_file = |folios| {
        let point = |cell: FileCell| {
            let samples = vec![sample(&truth, &cell, folios, &mut off)];
            FilePoint { samples, ..FilePoint::new(cell) }
        };
        let mut readings = readings(cells(folios).into_iter().map(point).collect());
        readings.cpus = vec![0, 1];
        FileReadings { folios, readings }
    };
    vec![readings_of_file(FolioClass::Piece), readings_of_file(FolioClass::Huge)]
}

/// Demands and files that no calibration has read.
fn unseen() -> Vec<(ReadWay, ReadDemand, FileState)> {
    let mut rng = Rng::new(11);
    let mut draw = |_| {
        let pick = |rng: &mut Rng, count: usize| rng.below(count as u64) as usize;
        let block_bytes = Bytes(512 << rng.below(12));
        let demand = ReadDemand {
            order: AccessOrder::ALL[pick(&mut rng, 2)],
            block_bytes,
            passes: 1 + pick(&mut rng, 5) as u32,
            threads: 1 + pick(&mut rng, 2) as u32,
        };
        let folios = CLASSES[pick(&mut rng, 2)];
        let size = Bytes::mib(3 + rng.below(500));
        (ARMS[pick(&mut rng, ARMS.len())], demand, FileState::cached(size, folios))
    };
    (0..200).map(&mut draw).collect()
}

fn errors(found: &Calibration) -> Vec<f64> {
    let truth = truth();
    let off = |(arm, demand, state): &(ReadWay, ReadDemand, FileState)| {
        let of = |c: &Calibration| c.forecast(*arm, demand, state).unwrap().total_ns;
        (of(found) / of(&truth) - 1.0).abs()
    };
    unseen().iter().map(off).collect()
}

#[test]
fn what_was_never_read_is_forecast_exactly() {
    let found = calibrate(&files(|| 1.0), occasion()).unwrap();
    let errors = errors(&found);
    let worst = errors.iter().copied().fold(0.0, f64::max);
    assert!(worst < 0.03 && median(&errors).unwrap() < 0.005, "{worst}, {:?}", median(&errors));
    assert!(found.error_share < 0.005, "{}", found.error_share);
    assert_eq!((found.cpus, found.took_ns), (2, Nanos::secs(15)));
}

#[test]
fn noise_and_strays_do_not_carry_over() {
    let mut rng = Rng::new(5);
    let noisy = files(|| if rng.uniform() < 0.03 { 2.0 } else { 1.0 + 0.04 * rng.normal() });
    let found = calibrate(&noisy, occasion()).unwrap();
    let mut errors = errors(&found);
    errors.sort_by(f64::total_cmp);
    assert!(errors[100] < 0.04 && errors[180] < 0.12, "{} {}", errors[100], errors[180]);
    assert!(found.error_share > 0.01 && found.error_share < 0.06, "{}", found.error_share);
}

#[test]
fn what_is_not_cached_is_recovered() {
    let found = calibrate(&files(|| 1.0), occasion()).unwrap();
    let demand =
        |block_bytes| ReadDemand { order: AccessOrder::Random, block_bytes, passes: 2, threads: 1 };
    let half = FileState { cached_share: 0.5, ..FileState::cached(LARGE, FolioClass::Piece) };
    for arm in [ReadWay::Pread, ReadWay::Place] {
        for block in [4, 128].map(Bytes::kib) {
            let of =
                |c: &Calibration| c.forecast(arm, &demand(block), &half).unwrap().parts.device_ns;
            let ratio = of(&found) / of(&truth());
            assert!((ratio - 1.0).abs() < 0.02, "{arm:?} {block}: {ratio}");
        }
    }
}

#[test]
fn cells_for_which_there_was_no_time_are_counted() {
    let mut some = files(|| 1.0);
    for point in some.iter_mut().flat_map(|readings_of_file| &mut readings_of_file.readings.points)
    {
        let is_cold = point.cell.residency == CacheResidency::Cold;
        if is_cold || point.cell.block_bytes == Bytes::kib(1) || point.cell.arm == ReadWay::Uring {
            point.samples.clear();
        }
    }
    let found = calibrate(&some, occasion()).unwrap();
    // Of each of four ways that can be read one cell in 11, of either file.
    assert!((found.missed_share - 1.0 / 11.0).abs() < 1e-9, "{}", found.missed_share);
}

#[test]
fn how_cpus_share_is_recovered() {
    let found = calibrate(&files(|| 1.0), occasion()).unwrap();
    assert_eq!(found.sharing.len(), ARMS.len() * 4);
    let of = |arm| found.sharing.iter().find(|s| s.arm == arm).unwrap();
    assert!((of(ReadWay::Map).first_share - 0.8).abs() < 0.05, "{:?}", of(ReadWay::Map));
    let work = ReadDemand {
        order: AccessOrder::Sequential,
        block_bytes: Bytes::kib(64),
        passes: 1,
        threads: 2,
    };
    let work = SpanDemand { demand: &work, span_bytes: LARGE, folios: FolioClass::Huge };
    let one = found.pass_ns(ReadWay::Place, work).unwrap();
    let known = truth().pass_ns(ReadWay::Place, work).unwrap();
    assert!((one.0 + one.1) / (known.0 + known.1) < 1.01);
}

#[test]
fn cells_that_did_other_work_are_left_out() {
    let mut some = files(|| 1.0);
    for point in some.iter_mut().flat_map(|readings_of_file| &mut readings_of_file.readings.points)
    {
        if point.cell.arm == ReadWay::Uring {
            point.samples.iter_mut().for_each(|sample| sample.ledger.checksum += 1);
        }
    }
    let found = calibrate(&some, occasion()).unwrap();
    let (_, demand, state) = &unseen()[0];
    assert!(found.forecast(ReadWay::Uring, demand, state).is_none());
    assert!(found.missed_share == 0.0, "they are not had here, which is no lack of time");
    assert!(found.forecast(ReadWay::Pread, demand, state).is_some());
    assert!(calibrate(&[], occasion()).is_none());
}

fn choice(arms: &[ReadWay], demand: ReadDemand) -> ReadChoice {
    let state = FileState::cached(Bytes::mib(256), FolioClass::Piece);
    ReadChoice {
        path: "big.db".to_owned(),
        demand,
        forecasts: truth().forecasts(arms, &demand, &state),
        state,
        calibration_age_ns: Nanos::secs(60),
        calibration_took_ns: Nanos::secs(15),
        calibration_processes: 300,
        file_system: "ext4".to_owned(),
        error_share: 0.04,
        trials: Vec::new(),
        trial_error_share: None,
        reasons: Vec::new(),
    }
}

#[test]
fn the_reasons_name_margin_parts_and_what_cannot_be_reported() {
    let demand = ReadDemand {
        order: AccessOrder::Sequential,
        block_bytes: Bytes::kib(4),
        passes: 8,
        threads: 1,
    };
    let sentences = reasons(&choice(&ARMS, demand));
    assert!(sentences[0].starts_with("A mapping used in place should take "), "{sentences:?}");
    assert!(sentences[0].contains("the next best, a "), "{sentences:?}");
    assert!(sentences[1].starts_with("Its time: ") && sentences[1].contains("with pread():"));
    let two = [ReadWay::Map, ReadWay::MapPopulate];
    let sentences = reasons(&choice(&two, demand));
    assert_eq!(sentences.len(), 2, "no calls to set beside it, but a rival: {sentences:?}");
    assert!(sentences[1].starts_with("No clear winner: "), "{sentences:?}");
    assert!(sentences[1].ends_with("error of 4%."), "{sentences:?}");
    let mut measured = choice(&two, demand);
    let took = measured.forecasts.iter().enumerate();
    measured.trials = took
        .map(|(nth, forecast)| ReadTrial {
            arm: forecast.arm,
            total_ns: vec![Nanos::from_f64(forecast.total_ns * [1.2, 0.9][nth]); 3],
            refused: None,
        })
        .collect();
    let last = reasons(&measured).pop().unwrap();
    assert!(last.starts_with("Measured, it took ") && last.contains("% more than the fastest"));
    assert!(last.ends_with("the median error of the forecasts for 2 ways is 14%."), "{last}");
    measured.trials.truncate(1);
    assert!(reasons(&measured).pop().unwrap().contains("nothing was faster"));
    let only = reasons(&choice(&[ReadWay::Uring], demand));
    assert!(only[0].ends_with("no other way was requested."), "{only:?}");
    assert!(reasons(&choice(&[], demand))[0].starts_with("No choice"));
}

#[test]
fn cells_measured_twice_say_how_far_times_may_be_off() {
    let of = |pass: Nanos, sys: Nanos| {
        let mut point = reading(cell(ReadWay::Pread), pass, 5);
        point.samples.iter_mut().for_each(|sample| sample.sys_ns = sys);
        readings(vec![point])
    };
    let ms = |n| Nanos::millis(n);
    let quiet = of(ms(100), ms(102));
    assert!(trial_error(&quiet, &quiet).is_some_and(|off| off < 0.01));
    // Something began meanwhile, or ended.
    let slower = of(ms(180), ms(184));
    for (start, end) in [(&quiet, &slower), (&slower, &quiet)] {
        assert!(trial_error(start, end).is_some_and(|off| (off - 0.8).abs() < 0.01));
    }
    // Another program had the CPU all the time: both are equal, and both waited.
    let busy = of(ms(200), ms(102));
    assert!(trial_error(&busy, &busy).is_some_and(|off| off > 0.9));
    assert!(waited_share(&busy).is_some_and(|share| share > 0.9));
    assert_eq!(trial_error(&readings(Vec::new()), &quiet), waited_share(&quiet));
    let mut choice = choice(&[ReadWay::Pread], unseen()[0].1);
    let total_ns = vec![Nanos::from_f64(choice.forecasts[0].total_ns); 3];
    choice.trials = vec![ReadTrial { arm: ReadWay::Pread, total_ns, refused: None }];
    choice.trial_error_share = Some(0.34);
    let last = reasons(&choice).pop().unwrap();
    assert!(last.ends_with("By cells measured twice, measured times may be off by 34%."), "{last}");
}
