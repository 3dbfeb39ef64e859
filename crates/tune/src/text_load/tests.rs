//! Rounds on a simulated program. Nothing here waits: the clock is a number.

use super::*;

/// Time of a start with its end, and of a run of the load.
const START: Nanos = Nanos::secs(3);
const WINDOW: Nanos = Nanos::secs(1);

/// A program that serves 100 requests per second for each client, and 110 with its code on huge pages.
#[derive(Default)]
struct Simulated {
    clock: std::cell::Cell<Nanos>,
    rounds: u32,
    is_begun: bool,
    /// The size at which the load fails in the second round.
    fails_at: Option<u32>,
    /// The arms of each load.
    loads: Vec<Vec<usize>>,
    told: Vec<String>,
}

impl SessionClock for Simulated {
    fn now(&self) -> Nanos {
        self.clock.get()
    }

    fn interrupted(&self) -> bool {
        false
    }
}

impl LoadedProgram for Simulated {
    fn begin(&mut self) -> Result<(), SessionStop> {
        assert!(!std::mem::replace(&mut self.is_begun, true));
        self.rounds += 1;
        self.clock.set(self.now() + START);
        Ok(())
    }

    fn load(&mut self, arms: &[usize], size: u32) -> Result<Vec<TextLoadWindow>, SessionStop> {
        assert!(self.is_begun);
        if self.rounds == 2 && self.fails_at == Some(size) {
            return Err(SessionStop::Service("the load failed".to_owned()));
        }
        self.loads.push(arms.to_vec());
        self.clock.set(self.now() + WINDOW);
        let window = |arm: &usize| {
            let rate = f64::from(size) * [100.0, 110.0][*arm];
            TextLoadWindow { rate_per_second: rate, cpu_ns: 1e9 / rate }
        };
        Ok(arms.iter().map(window).collect())
    }

    fn end(&mut self) {
        self.is_begun = false;
    }

    fn tell(&mut self, text: &str) {
        self.told.push(text.to_owned());
    }
}

fn asked(budget: Nanos, disturb: bool) -> TextLoadRequest {
    TextLoadRequest { sizes: vec![1, 4], disturb, cpus: 1, at_once: false, budget, seed: 5 }
}

fn run(
    program: &mut Simulated,
    asked: &TextLoadRequest,
) -> (TextLoadReport, Result<(), SessionStop>) {
    let mut load = empty(asked, TextLoadKind::Clients, "/bin/db".to_owned());
    let end = rounds(asked, program, &mut load);
    (load, end)
}

#[test]
fn rounds_fill_the_budget_with_starts_and_pairs() {
    let (mut program, budget) = (Simulated::default(), Nanos::secs(300));
    let (load, end) = run(&mut program, &asked(budget, false));
    end.unwrap();
    assert!(!program.is_begun && program.now() <= budget, "{}", program.now());
    // 25 s for each of 12 rounds: 3 s for the start, and 5 pairs of 2 s at each of two sizes, an even number.
    let pairs = |round: u32| load.points[0].pairs.iter().filter(|pair| pair.round == round).count();
    assert_eq!((pairs(0), pairs(1), program.rounds), (2, 4, 16));
    assert_eq!(load.rounds_ns, program.now());
    let first = |arm| program.loads.chunks(2).any(|pair| pair == [vec![arm], vec![1 - arm]]);
    assert!(first(0) && first(1), "in random order: {:?}", program.loads);
    let found = judge(&load);
    let (low, high) = *found.overall.unwrap().interval.known().unwrap();
    assert!((low - 1.1).abs() < 1e-9 && (high - 1.1).abs() < 1e-9);
}

#[test]
fn arms_at_once_swap_their_places() {
    let mut program = Simulated::default();
    let asked = TextLoadRequest { at_once: true, ..asked(Nanos::secs(1), false) };
    let (load, end) = run(&mut program, &asked);
    end.unwrap();
    assert_eq!(program.loads, [[0, 1], [1, 0], [0, 1], [1, 0]]);
    for pair in load.points.iter().flat_map(|point| &point.pairs) {
        assert!((pair.on.rate_per_second / pair.off.rate_per_second - 1.1).abs() < 1e-9);
    }
}

#[test]
fn a_budget_that_is_too_small_has_one_round() {
    let mut program = Simulated::default();
    let (load, end) = run(&mut program, &asked(Nanos::secs(1), true));
    end.unwrap();
    let sizes: Vec<(u32, bool, usize)> =
        load.points.iter().map(|point| (point.size, point.disturbed, point.pairs.len())).collect();
    assert_eq!(sizes, [(1, false, 2), (4, false, 2), (1, true, 2), (4, true, 2)]);
    assert!(program.told.iter().any(|text| text == "round 1: 4 clients, beside a busy neighbour"));
}

#[test]
fn what_is_known_stays_when_a_load_fails() {
    let mut program = Simulated { fails_at: Some(4), ..Simulated::default() };
    let (load, end) = run(&mut program, &asked(Nanos::secs(300), false));
    assert_eq!(end.unwrap_err().to_string(), "the load failed");
    assert!(!program.is_begun, "its servers have ended");
    assert!(load.points.iter().all(|point| point.pairs.len() >= 2), "{:?}", load.points);
}
