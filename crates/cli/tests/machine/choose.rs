//! `choose` with known prices, with prices measured here, and interrupted.

use crate::helper::{Place, await_gone, experiment, interrupt, only_turn, said};
use pagewise_kernel::lock::ExperimentLock;
use pagewise_lanes::choose::{
    AccessOrder, Calibration, ExaminedFile, FolioClass, ReadChoice, ReadWay,
};
use pagewise_model::body::RunBody;
use pagewise_model::choice::{CostTerm, PriceList, ReadPhase};
use pagewise_model::constructed::{calibration, pass_prices, price_list};
use pagewise_model::run::SavedRun;
use pagewise_model::{Bytes, Nanos, PageSize};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

const SIZE: Bytes = Bytes::mib(4);

/// A file in its own place, with a cache directory beside it.
struct Ground {
    place: Place,
    file: PathBuf,
}

impl Ground {
    fn new() -> Self {
        let place = Place::new();
        let file = place.path().join("data");
        std::fs::write(&file, vec![7; SIZE.0 as usize]).unwrap();
        // Synced to disk, so that it can be dropped and counted.
        std::fs::File::open(&file).unwrap().sync_all().unwrap();
        Self { place, file }
    }

    fn choose(&self, words: &[&str]) -> Command {
        let file = self.file.display().to_string();
        let mut command = self.place.pagewise(&[&["choose", file.as_str()], words].concat());
        command.env("XDG_CACHE_HOME", self.place.path());
        command
    }

    /// The choice that the command prints.
    fn choice(&self, words: &[&str]) -> ReadChoice {
        let done = self.choose(&[words, &["--json"]].concat()).output().unwrap();
        assert_eq!(done.status.code(), Some(0), "{}", said(&done.stderr));
        assert_eq!(said(&done.stderr), "", "nothing is taken anew");
        let Some(RunBody::Choice(choice)) = SavedRun::from_json(&done.stdout).unwrap().body else {
            panic!("no choice")
        };
        choice
    }

    /// Stores prices. A call takes 1 us, plus 0.1 ns a byte. A page of a mapping takes 1 us once and 50 ns each
    /// time; in place, half of that. A page from the device takes 10 us, a read past the cache 20 us.
    fn keep(&self) {
        let subject = ExaminedFile::open(&self.file).unwrap();
        let byte = 50.0 / subject.size().0 as f64 * subject.size().pages(PageSize::BASE_4K) as f64;
        let mut lists = vec![
            list(ReadPhase::Pass, ReadWay::Pread, &pass_prices(1000.0, 0.1)),
            list(ReadPhase::Pass, ReadWay::Map, &pass_prices(0.0, byte)),
            list(ReadPhase::Pass, ReadWay::Place, &pass_prices(0.0, byte / 2.0)),
            list(ReadPhase::Device, ReadWay::Direct, &[(CostTerm::Block, 20_000.0)]),
        ];
        for arm in [ReadWay::Pread, ReadWay::Map, ReadWay::Place] {
            let first = if arm.is_mapped() { 1000.0 } else { 0.0 };
            lists.push(list(ReadPhase::First, arm, &[(CostTerm::Page, first)]));
            lists
                .extend([ReadPhase::SetUp, ReadPhase::TearDown].map(|phase| list(phase, arm, &[])));
            lists.push(list(ReadPhase::Device, arm, &[(CostTerm::Page, 10_000.0)]));
        }
        let calibration = Calibration {
            took_ns: Nanos::secs(17),
            processes: 600,
            ..calibration(subject.place().key.clone(), lists)
        };
        let cache = self.place.path().join("pagewise");
        std::fs::create_dir(&cache).unwrap();
        std::fs::set_permissions(&cache, PermissionsExt::from_mode(0o700)).unwrap();
        let kept = cache.join(subject.place().kept_in.as_ref().unwrap().file_name().unwrap());
        std::fs::write(&kept, serde_json::to_vec(&calibration).unwrap()).unwrap();
        std::fs::set_permissions(&kept, PermissionsExt::from_mode(0o600)).unwrap();
    }
}

fn list(phase: ReadPhase, arm: ReadWay, prices: &[(CostTerm, f64)]) -> PriceList {
    price_list(phase, arm, FolioClass::Piece, prices)
}

fn is_near(found: f64, known: f64) -> bool {
    (found / known - 1.0).abs() < 1e-6
}

#[test]
fn known_prices_decide_and_their_age_is_reported() {
    let ground = Ground::new();
    ground.keep();
    // 1024 pages: one pass of calls takes 8192 us and 0.42 ms in blocks of 512 bytes.
    let small = ground.choice(&["--block=512", "--order=seq"]);
    let found: Vec<(ReadWay, f64)> = small.forecasts.iter().map(|f| (f.arm, f.total_ns)).collect();
    assert_eq!(
        found.iter().map(|f| f.0).collect::<Vec<_>>(),
        [ReadWay::Place, ReadWay::Map, ReadWay::Pread]
    );
    for ((_, found), known) in found.iter().zip([1_049_600.0, 1_075_200.0, 8_611_430.4]) {
        assert!(is_near(*found, known), "{found} for {known}");
    }
    assert_eq!((small.state.size_bytes, small.state.cached_share), (SIZE, 1.0));
    assert!(small.reasons[0].starts_with("A mapping used in place should take 1.0 ms"));
    let large = ground.choice(&["--block=64K", "--order=random"]);
    assert_eq!(
        (large.best().unwrap().arm, large.demand.order),
        (ReadWay::Pread, AccessOrder::Random)
    );
    let again = ground.choice(&["--block=64K", "--passes=20", "--arm=pread,mmap"]);
    assert_eq!(again.forecasts.len(), 2);
    assert_eq!(again.best().unwrap().arm, ReadWay::Map, "what is mapped once serves all passes");
    let text = said(&ground.choose(&["--block=512"]).output().unwrap().stdout);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["4.0 MiB, all of it cached", "600 processes in 17.00 s", " old (", "place "] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn kept_prices_need_no_quiet_machine() {
    let _turn = only_turn();
    let ground = Ground::new();
    ground.keep();
    // The lock is held now, by this test or by another session.
    let _lock = ExperimentLock::acquire();
    assert!(ground.choice(&["--no-wait"]).best().is_some());
    let refused = ground.choose(&["--no-wait", "--measure"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(3), "{}", said(&refused.stderr));
}

#[test]
fn what_is_not_cached_counts() {
    let ground = Ground::new();
    ground.keep();
    let file = std::fs::File::open(&ground.file).unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let cold = ground.choice(&["--block=1M"]);
    if cold.state.cached_share > 0.0 {
        println!("SKIP what_is_not_cached_counts: the file system keeps what is dropped");
        return;
    }
    // Past the cache, four reads are enough.
    assert_eq!(cold.best().unwrap().arm, ReadWay::Direct);
    assert!(is_near(cold.best().unwrap().total_ns, 80_000.0), "{cold:?}");
    let pread = cold.forecasts.iter().find(|f| f.arm == ReadWay::Pread).unwrap();
    assert!(is_near(pread.parts.device_ns, 10_240_000.0), "{pread:?}");
    let refused = ground.choose(&["--measure"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(3));
    assert!(said(&refused.stderr).contains("--measure needs the whole file"));
}

#[test]
fn a_way_without_prices_is_not_chosen() {
    let ground = Ground::new();
    ground.keep();
    let done = ground.choose(&["--arm=io-uring"]).output().unwrap();
    assert_eq!(done.status.code(), Some(3), "{}", said(&done.stderr));
    assert!(said(&done.stdout).starts_with("No choice"), "{}", said(&done.stdout));
}

#[test]
fn prices_are_taken_once_and_every_way_is_measured() {
    let _turn = only_turn();
    let ground = Ground::new();
    let words = ["--block=16K", "--passes=2", "--json", "--measure", "--repeats=1"];
    let Some(done) = experiment(|| ground.choose(&words)) else { return };
    assert!(said(&done.stderr).contains("measuring the prices"), "{}", said(&done.stderr));
    let run = SavedRun::from_json(&done.stdout).unwrap();
    let Some(RunBody::Choice(choice)) = run.body else { panic!("no choice") };
    assert!(choice.trial_error_share.is_some(), "{choice:?}");
    if run.warnings.iter().any(|warning| warning.contains("too busy to measure")) {
        assert_eq!((done.status.code(), choice.trials.len()), (Some(3), 0));
        println!("SKIP what was measured: {:?}", run.warnings);
        return;
    }
    assert_eq!(done.status.code(), Some(0), "{}", said(&done.stderr));
    assert!(choice.calibration_processes > 0 && choice.calibration_age_ns == Nanos(0));
    let (forecasts, trials) = (&choice.forecasts, &choice.trials);
    assert!(!forecasts.is_empty() && trials.len() == forecasts.len(), "{choice:?}");
    assert!(forecasts.is_sorted_by(|a, b| a.total_ns <= b.total_ns));
    for forecast in forecasts {
        assert!(is_near(forecast.parts.total_ns(), forecast.total_ns), "{forecast:?}");
        let trial = trials.iter().find(|trial| trial.arm == forecast.arm).unwrap();
        assert_eq!((trial.total_ns.len(), &trial.refused), (1, &None), "{trial:?}");
    }
    assert!(choice.reasons.last().unwrap().starts_with("Measured, it took "));
    if run.warnings.iter().any(|warning| warning.contains("too busy")) {
        println!("SKIP what is kept: {:?}", run.warnings);
        return;
    }
    let again = ground.choice(&["--block=16K", "--passes=2"]);
    assert!(again.calibration_age_ns > Nanos(0) && again.trials.is_empty());
    assert_eq!(again.forecasts.len(), forecasts.len());
}

#[test]
fn an_interrupt_keeps_nothing() {
    let _turn = only_turn();
    let ground = Ground::new();
    let Some(done) = interrupt(|| ground.choose(&[]), "measuring the prices") else { return };
    assert_eq!((done.status.code(), said(&done.stdout)), (Some(130), String::new()));
    assert!(await_gone(&ground.place), "a reader was left behind");
    let cache = ground.place.path().join("pagewise");
    let kept = std::fs::read_dir(cache).unwrap().flatten().map(|entry| entry.file_name());
    let kept: Vec<_> = kept.filter(|name| name.to_string_lossy().starts_with("choose")).collect();
    assert!(kept.is_empty(), "{kept:?}");
}
