//! A ladder on this kernel: its samples include both ends of the pipe, but not this program; pairs of a comparison;
//! a producer, whose lines are compared; how a pipe works.

use crate::helper::{Place, only_turn, said};
use pagewise_model::Fact;
use pagewise_model::body::{BenchReport, RunBody};
use pagewise_model::run::SavedRun;

#[test]
fn samples_show_both_ends_of_a_rung() {
    let _turn = only_turn();
    let place = Place::new();
    let words = ["bench", "pipe", "--only", "P1", "--consume", "untouched", "--repeats", "1"];
    let mut command = place.pagewise(&words);
    command.args(["--bytes", "512M", "--samples", "--quiet", "--json"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", said(&output.stderr));
    let run = SavedRun::from_json(&output.stdout).unwrap();
    let accounting =
        "pressure-stall accounting is on: it takes part of each wake-up (boot with psi=0)";
    let is_on = std::fs::read("/proc/pressure/cpu").is_ok();
    assert_eq!(run.warnings.iter().any(|warning| warning == accounting), is_on, "{run:?}");
    let Some(RunBody::Bench(BenchReport::Pipe(ladder))) = run.body else { panic!("no ladder") };
    let judgement = ladder.judgement.unwrap();
    let Some(samples) = judgement.accounts[0].samples.known() else {
        println!("SKIP samples_show_both_ends_of_a_rung: {:?}", run.warnings);
        return;
    };
    let seen = |call: &str| -> u64 {
        let within =
            samples.stacks.iter().filter(|stack| stack.symbols.iter().any(|s| s.contains(call)));
        within.map(|stack| stack.count).sum()
    };
    // Both ends take about the same time. An end that is sampled in the small run alone has a twentieth of that.
    let (writer, reader) = (seen("pipe_write"), seen("pipe_read"));
    assert!(writer > reader / 5 && reader > writer / 5, "{writer} {reader} {samples:?}");
    assert_eq!(seen("do_wait"), 0, "{samples:?}");
    let published = &judgement.accounts[0].published;
    let shares: Vec<_> = published.iter().map(|line| (line.work.into_str(), line.share)).collect();
    assert!(
        matches!(shares[..], [("copies", copied), ("page allocation", _)] if copied > 0.0),
        "{shares:?}"
    );
}

#[test]
fn a_comparison_measures_pairs_one_after_the_other() {
    let _turn = only_turn();
    let place = Place::new();
    let file = place.path().join("pairs.csv");
    let words = "bench pipe --only P3 --compare one-buffer --consume untouched --repeats 6 --bytes 32M \
                 --no-prices --quiet --json --csv";
    let words: Vec<&str> = words.split_whitespace().chain(file.to_str()).collect();
    let output = place.pagewise(&words).output().unwrap();
    assert!(output.status.success(), "{}", said(&output.stderr));
    let run = SavedRun::from_json(&output.stdout).unwrap();
    let Some(RunBody::Bench(BenchReport::Pipe(ladder))) = run.body else { panic!("no ladder") };
    let [two, one] = &ladder.points[..] else { panic!("{ladder:?}") };
    assert_eq!((one.rung.name.as_str(), one.samples.len()), ("P3+one-buffer", 6), "{one:?}");
    for (at, (two, one)) in two.samples.iter().zip(&one.samples).enumerate() {
        let at = at as u32;
        assert_eq!((two.place.min(one.place), two.place.max(one.place)), (2 * at, 2 * at + 1));
    }
    let judgement = ladder.judgement.unwrap();
    let [step] = &judgement.steps[..] else { panic!("{judgement:?}") };
    assert!((step.from, step.to) == (0, 1) && step.comparison.interval.known().is_some());
    let csv = std::fs::read_to_string(file).unwrap();
    let ratio = format!(",{:.4},", step.comparison.ratio);
    assert_eq!(csv.lines().filter(|line| line.contains(&ratio)).count(), 6, "{csv}");
    let nothing = ["bench", "pipe", "--only", "P5", "--compare", "busy"];
    let refused = place.pagewise(&nothing).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused.stderr).contains("--compare busy makes no difference to these rungs"));
}

#[test]
fn a_producer_passes_exact_lines_and_is_set_beside_the_others() {
    let _turn = only_turn();
    let place = Place::new();
    let words = "bench pipe --producer fizzbuzz --repeats 6 --bytes 32M --no-prices --quiet --json";
    let words: Vec<&str> = words.split_whitespace().collect();
    let output = place.pagewise(&words).output().unwrap();
    assert!(output.status.success(), "{}", said(&output.stderr));
    let run = SavedRun::from_json(&output.stdout).unwrap();
    let Some(RunBody::Bench(BenchReport::Pipe(ladder))) = run.body else { panic!("no ladder") };
    let lines = ladder.points.iter().filter(|point| point.rung.name == "fizzbuzz");
    let lines: Vec<_> = lines.map(|point| (point.reader.into_str(), &point.verified)).collect();
    assert!(
        matches!(lines[..], [("meter", Fact::Missing(_)), ("read", Fact::Known(true))]),
        "{lines:?}"
    );
    let told: Vec<_> = ladder.claims.iter().filter(|c| c.claim.contains("FizzBuzz")).collect();
    assert_eq!(told.len(), 3, "{told:?}");
    let words = ["bench", "pipe", "--producer", "fizzbuzz", "--print", "--bytes", "23"];
    let printed = place.pagewise(&words).output().unwrap();
    assert_eq!(said(&printed.stdout), "1\n2\nFizz\n4\nBuzz\nFizz\n7\n");
}

#[test]
fn how_a_pipe_works_is_shown_on_a_live_one() {
    let _turn = only_turn();
    let place = Place::new();
    let output = place.pagewise(&["bench", "pipe", "--explain", "--quiet"]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output.stderr));
    let text = said(&output.stdout);
    for part in ["write 4096 B", "Spare pages", "Batches", "Folios", "Switches", "flushes the TLB"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.lines().count() < 40 && text.lines().all(|line| line.len() <= 80), "{text}");
}
