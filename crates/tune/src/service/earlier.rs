//! A saved session that goes on: with its look, its arms and all its pairs. What was concluded is concluded
//! again at the end; what a pair takes is taken from the pairs until there is a new one.
//!
//! An arm whose server failed stays rejected: a failure is not undone by a start without one.

use super::{Entry, Request, Session};
use crate::stop::Stop;
use crate::world::Arm;
use pagewise_judge::race::Policy;
use pagewise_model::Nanos;
use pagewise_model::run::Run;
use pagewise_model::service::{Asked, Mode, Pair, Service, Side};
use pagewise_model::trial::{Experiment, Word};
use std::collections::BTreeMap;

impl Request {
    /// What a saved session keeps of it, so that it can be continued.
    pub(super) fn asked(&self) -> Asked {
        Asked {
            ready: self.ways.ready.to_string(),
            ready_within_ns: self.ways.ready_within,
            stop: self.ways.stop.clone(),
            stop_within_ns: self.ways.stop_within,
            load_within_ns: self.terms.load_within,
            warm_up_ns: self.terms.warm_up,
            mode: self.mode,
        }
    }
}

/// The run that goes on, and the experiment so far.
pub(super) fn resumed(fresh: Run, saved: Run) -> (Run, Option<Experiment>) {
    let run = Run {
        id: fresh.id,
        started_unix_ns: fresh.started_unix_ns,
        outcome: None,
        receipt: None,
        experiment: None,
        warnings: Vec::new(),
        ..saved
    };
    (run, saved.experiment)
}

impl Session<'_> {
    /// Goes on with the race of a saved session.
    pub(super) fn go_on(&mut self, run: &mut Run, service: &Service) -> Result<(), Stop> {
        let first = service.first.as_ref();
        let first =
            first.ok_or_else(|| Stop::Broken("the saved session has no look".to_owned()))?;
        self.cost.insert(Mode::Duet.name(), took(first));
        self.cost.insert(Mode::Restart.name(), Nanos(2 * took(first).0));
        for pair in &service.pairs {
            self.cost.insert(pair.mode.name(), pair_took(pair));
        }
        let plain = Arm::plain(&self.request.base);
        self.race(run, &plain, service.mode)
    }

    /// Arms that failed in the session that this one continues.
    pub(super) fn rejected_before(
        &self,
        entries: &[Entry],
        policy: &Policy,
    ) -> BTreeMap<usize, String> {
        let before = |(at, entry): (usize, &Entry)| {
            let verdicts = self.earlier.iter().flat_map(|experiment| &experiment.verdicts);
            let mut own = verdicts.filter(|verdict| verdict.arm == entry.arm.name);
            let verdict = own.find(|verdict| verdict.word == Word::Reject)?;
            policy.broken(at).is_none().then(|| (at, verdict.why.clone()))
        };
        entries.iter().enumerate().filter_map(before).collect()
    }
}

/// How long a server was there: until ready, warming up, and loaded.
fn took(side: &Side) -> Nanos {
    let loaded = side.windows.iter().fold(Nanos(0), |sum, window| sum + window.wall_ns);
    let windows = side.windows.len().max(1) as u64;
    side.ready_ns + loaded + Nanos(loaded.0 / windows * u64::from(side.warm_ups))
}

fn pair_took(pair: &Pair) -> Nanos {
    let (plain, other) = (took(&pair.plain), took(&pair.other));
    match pair.mode {
        Mode::Duet => plain.max(other),
        Mode::Restart | Mode::Toggle => plain + other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::service::{Holding, Load, Window};

    fn side(ready: u64, windows: usize) -> Side {
        let window = Window {
            cpu_ns: Nanos(1),
            wall_ns: Nanos::secs(2),
            generator_cpu_ns: Nanos(1),
            load: Load::default(),
        };
        Side {
            ready_ns: Nanos::secs(ready),
            warm_ups: 3,
            windows: vec![window; windows],
            at_first: Holding::default(),
            at_last: Holding::default(),
        }
    }

    #[test]
    fn a_pair_takes_what_its_servers_took_together_or_in_turn() {
        let pair = |mode| Pair { arm: "a".into(), mode, plain: side(1, 2), other: side(3, 2) };
        assert_eq!(pair_took(&pair(Mode::Duet)), Nanos::secs(3 + 10));
        assert_eq!(pair_took(&pair(Mode::Restart)), Nanos::secs(1 + 10 + 3 + 10));
        assert_eq!(took(&side(1, 0)), Nanos::secs(1), "without a window");
    }
}
