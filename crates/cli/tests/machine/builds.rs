//! `order builds`: starts of builds race each other, and the figures are printed.

use crate::helper::{Place, experiment, said};
use pagewise_model::builds::BuildComparison;
use pagewise_model::trial::VerdictWord;

#[test]
fn builds_race_beside_the_first() {
    let place = Place::new();
    let build = |turns: &str| {
        let source = "volatile long x; int main(void) { for (long i = 0; i < TURNS; i++) x += i; return 0; }";
        format!("echo '{source}' | cc -O1 -DTURNS={turns} -x c - -o {{out}}")
    };
    let [few, many] = ["20000000", "80000000"].map(build);
    let done = experiment(|| {
        place.pagewise(&[
            "order", "builds", "--json", "--quiet", "--runs", "1", "--budget", "5s", "--name",
            "few", "--name", "many", "--", "sh", "-c", &few, "---", "sh", "-c", &many, "---", "{}",
        ])
    });
    let Some(done) = done else { return };
    if matches!(done.status.code(), Some(2 | 3)) {
        return println!("SKIP order builds: {}", said(&done.stderr));
    }
    let all: BuildComparison = serde_json::from_slice(&done.stdout).unwrap();
    let time = |at: usize| all.builds[at].seen.known().unwrap().time.clone();
    assert!(time(0).is_none(), "{all:?}");
    let many = time(1).unwrap();
    assert!(many.effect.is_some() && many.word != VerdictWord::Keep, "{many:?}");
    assert!(place.scratches().is_empty());
}
