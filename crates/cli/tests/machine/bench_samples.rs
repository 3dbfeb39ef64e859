//! Samples of a ladder on this kernel: they include both ends of the pipe, but not this program.

use crate::helper::{Place, only_turn, said};
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
    let accounting = "pressure-stall accounting is on: it takes part of each wake-up (boot with psi=0)";
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
    assert!(matches!(shares[..], [("copies", copied), ("page allocation", _)] if copied > 0.0), "{shares:?}");
}
