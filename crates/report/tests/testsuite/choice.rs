//! Which way to read a file, as terminal text: a constructed choice against a reviewed text in `tests/golden`,
//! and a hostile one. `UPDATE_GOLDEN` writes the text again.

use crate::support::{HOSTILE, PLAIN, assert_harmless, check, read_report};
use pagewise_model::bench::file::ReadWay;
use pagewise_model::bench::tlb::AccessOrder;
use pagewise_model::body::RunBody;
use pagewise_model::cache::FolioClass;
use pagewise_model::choice::{
    FileState, FolioClassShare, ReadChoice, ReadDemand, ReadForecast, ReadTrial, TimeParts,
};
use pagewise_model::run::{RunKind, SavedRun};
use pagewise_model::{Bytes, Nanos};
use pagewise_report::escape::cells;
use pagewise_report::{TerminalStyle, headline, render, render_whole};

fn forecast(arm: ReadWay, ms: [f64; 5]) -> ReadForecast {
    let [set_up_ns, first_ns, blocks_ns, bytes_ns, tear_down_ns] = ms.map(|ms| ms * 1e6);
    let parts = TimeParts {
        set_up_ns,
        first_ns,
        blocks_ns,
        bytes_ns,
        tear_down_ns,
        ..TimeParts::default()
    };
    ReadForecast { arm, total_ns: parts.total_ns(), parts }
}

fn choice() -> ReadChoice {
    let share = |folios, share| FolioClassShare { folios, share };
    ReadChoice {
        path: "/srv/big.db".to_owned(),
        demand: ReadDemand {
            order: AccessOrder::Random,
            block_bytes: Bytes::kib(16),
            passes: 3,
            threads: 1,
        },
        state: FileState {
            size_bytes: Bytes::mib(512),
            cached_share: 1.0,
            folios: vec![share(FolioClass::Piece, 0.75), share(FolioClass::Huge, 0.25)],
            assumed: Some("only root can see folio sizes".to_owned()),
        },
        calibration_age_ns: Nanos::secs(3 * 3600),
        calibration_took_ns: Nanos::millis(17_250),
        calibration_processes: 612,
        file_system: "ext4".to_owned(),
        error_share: 0.043,
        forecasts: vec![
            forecast(ReadWay::PlacePopulate, [4.5, 0.5, 9.0, 54.0, 2.0]),
            forecast(ReadWay::Map, [0.0, 12.0, 15.0, 90.0, 2.0]),
            forecast(ReadWay::Read, [0.0, 0.0, 45.0, 105.0, 0.0]),
        ],
        trials: Vec::new(),
        trial_error_share: None,
        reasons: vec![
            "A mapping used in place should take 70.0 ms; the next best 70% more.".to_owned(),
            "It pays 54.0 ms for bytes.".to_owned(),
        ],
    }
}

fn run(choice: ReadChoice) -> SavedRun {
    let mut run =
        SavedRun::new(RunKind::Choose, String::new(), 1_700_000_000_000_000_000, Vec::new());
    run.body = Some(RunBody::Choice(choice));
    run
}

#[test]
fn a_choice_with_what_each_way_pays() {
    let run = run(choice());
    check("choice.txt", &render(&run, &PLAIN));
    assert!(headline(&run).ends_with("the next best 70% more"), "{}", headline(&run));
    assert_eq!(SavedRun::from_json(run.to_json().as_bytes()).unwrap(), run);
}

#[test]
fn all_ways_there_are_fit_a_screen() {
    let mut many = choice();
    many.forecasts = many.forecasts.iter().cycle().take(ReadWay::ALL.len()).cloned().collect();
    let text = read_report(&run(many.clone()), &PLAIN);
    assert!(text.contains("ways that take longer: --verbose"), "{text}");
    let whole = render_whole(&run(many), &PLAIN);
    assert!(whole.lines().count() > text.lines().count(), "{whole}");
}

#[test]
fn what_was_measured_and_what_is_not_cached_have_columns() {
    let mut measured = choice();
    measured.state.cached_share = 0.5;
    measured.state.assumed = None;
    measured.calibration_age_ns = Nanos(0);
    measured.forecasts[2].parts.device_ns = 50e6;
    let trial = |arm, ms: u64| ReadTrial { arm, total_ns: vec![Nanos::millis(ms)], refused: None };
    measured.trials = vec![trial(ReadWay::PlacePopulate, 100), trial(ReadWay::Read, 120)];
    check("choice-measured.txt", &render(&run(measured), &PLAIN));
}

#[test]
fn nothing_to_choose_from_is_said() {
    let mut none = choice();
    none.forecasts.clear();
    none.reasons = vec!["No choice: no way has prices here.".to_owned()];
    let text = render(&run(none), &PLAIN);
    assert!(text.starts_with("No choice") && !text.contains("should take"), "{text}");
    let empty = SavedRun::new(RunKind::Choose, String::new(), 0, Vec::new());
    assert_eq!(headline(&empty), "nothing was examined");
}

#[test]
fn names_of_others_stay_harmless() {
    let mut hostile = choice();
    hostile.path = HOSTILE.to_owned();
    hostile.file_system = HOSTILE.to_owned();
    hostile.state.assumed = Some(HOSTILE.to_owned());
    hostile.reasons = vec![HOSTILE.to_owned(); 2];
    for width in [40, 80] {
        let style = TerminalStyle { width, ..PLAIN };
        let text = render(&run(hostile.clone()), &style);
        assert_harmless(&text);
        assert!(text.lines().all(|line| cells(line) <= width), "{text}");
    }
}
