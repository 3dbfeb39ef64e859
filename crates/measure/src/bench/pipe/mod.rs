//! The ladder of `bench pipe`: every way to move bytes through a pipe, measured on this machine.
//!
//! A point is one technique under one consumption (see `pagewise_model::bench::pipe`). Each repeat of a
//! point is a fresh pair of processes on CPUs of its placement, set off together when both have
//! everything at hand; the clock runs from the arrival of the first bytes. One small repeat goes
//! before, which warms up, sizes the rest and finds out what is refused. Then the points are gone
//! through in rounds, each round in a new random order from the seed, so that a disturbance of some
//! seconds hits one repeat of several points and not all of one.
//!
//! Bytes are counted at both ends and must agree; where the consumer touches them it checks every
//! one against the sequence that the producer wrote. The page size of a buffer is what
//! `/proc/self/smaps` shows. Every pair has a deadline, the whole has a cap.
//!
//! Not seen: what the kernel does for the pipe on other CPUs (freeing pages by RCU), and, where
//! bytes are forwarded to a socket, the CPU time of the process behind it.

pub mod catalogue;
mod end;
mod pair;
mod plan;
mod reference;
mod sequence;
pub(crate) mod turns;
mod yardsticks;

pub use crate::helper::Launcher;
pub use end::serve_end;
pub use plan::Plan;
pub use reference::reference_prices;

use crate::bench::frame::{Callbacks, Rounds};
use crate::error::PriceError;
use pagewise_model::bench::pipe::{Ladder, Point};
use pagewise_model::{Bytes, Fact};
use pair::{Job, Outcome};
use plan::Cpus;

/// Measures all points of `plan`, in processes that `launcher` starts as the ends. What was measured before the caller wanted no more, or before the
/// cap, is in the result; points that lack repeats say why.
///
/// # Errors
/// When nothing may be begun.
pub fn run(
    plan: &Plan,
    launcher: &Launcher,
    callbacks: Callbacks<'_, Point>,
) -> Result<Ladder, PriceError> {
    let cost = plan.cost()?;
    let cpus = Cpus::allowed();
    let rounds = Rounds::begin(callbacks, &cost, "the whole ladder");
    let mut session = Session { plan, launcher, cpus: cpus.clone(), rounds };
    let mut yardsticks = yardsticks::Rounds::new(cpus);
    let mut lanes: Vec<Lane> = Vec::with_capacity(plan.points.len());
    for (rung, consumption) in &plan.points {
        let point = Point::refused(rung.clone(), *consumption, "not begun");
        lanes.push(session.pilot(point));
    }
    for repeat in 0..plan.repeats {
        for index in session.rounds.shuffled(lanes.len()) {
            session.repeat(&mut lanes[index], repeat);
        }
        if !session.rounds.is_over() {
            yardsticks.step();
        }
    }
    Ok(Ladder {
        seed: plan.seed,
        repeats: plan.repeats,
        asked_bytes: plan.bytes,
        repeat_ns: plan.bytes.is_none().then_some(plan.repeat_ns),
        sweep: plan.sweep,
        points: lanes.into_iter().map(|lane| lane.point).collect(),
        yardsticks: yardsticks.finish(),
        claims: Vec::new(),
        judgement: None,
    })
}

/// A point with the size of its repeats.
struct Lane {
    point: Point,
    bytes: Bytes,
}

struct Session<'a, 'c> {
    plan: &'a Plan,
    launcher: &'a Launcher,
    cpus: Cpus,
    rounds: Rounds<'c, Point>,
}

impl Session<'_, '_> {
    /// The small repeat that goes before: it tells what the point is on, and whether at all.
    fn pilot(&mut self, mut point: Point) -> Lane {
        let pilot = self.plan.pilot();
        let mut bytes = pilot;
        match self.pair(&point, pilot) {
            Ok(outcome) => {
                let rate = outcome.sample.timed_bytes.0 as f64 / outcome.sample.wall_ns.as_secs();
                let rate = if rate.is_finite() { rate } else { 0.0 };
                bytes = self.plan.size(&point.rung, rate);
                point.refused = None;
                point.verified = Fact::missing("the data is never read");
                learn(&mut point, &outcome);
            }
            Err(error) => refuse(&mut point, &error),
        }
        Lane { point, bytes }
    }

    /// One counted repeat; a point that failed is left alone.
    fn repeat(&mut self, lane: &mut Lane, repeat: u32) {
        if lane.point.refused.is_some() {
            self.rounds.pass_over();
            return;
        }
        match self.pair(&lane.point, lane.bytes) {
            Ok(outcome) => {
                learn(&mut lane.point, &outcome);
                let mut sample = outcome.sample;
                (sample.repeat, sample.place) = (repeat, self.rounds.taken());
                lane.point.samples.push(sample);
            }
            Err(error) => refuse(&mut lane.point, &error),
        }
    }

    fn pair(&mut self, point: &Point, bytes: Bytes) -> Result<Outcome, PriceError> {
        self.rounds.show(point);
        self.rounds.check()?;
        let (rung, consumption) = (&point.rung, point.consumption);
        let seats = self.cpus.seats(rung.placement).map_err(PriceError::Unavailable)?;
        let job = Job { rung, consumption, bytes, seats };
        let within = self.rounds.left().min(Plan::patience(bytes));
        let stop = self.rounds.stop().0;
        pair::run(self.launcher, &job, (within, stop))
    }
}

/// Takes over what a pair showed of its point: the worst of all repeats counts.
fn learn(point: &mut Point, outcome: &Outcome) {
    point.pipe_bytes = outcome.pipe_bytes;
    (point.writer_cpu, point.reader_cpu) = (outcome.seats.writer, outcome.seats.reader);
    if point.samples.is_empty() || point.page_bytes.known() != outcome.page_bytes.known() {
        point.page_bytes = outcome.page_bytes.clone();
    }
    if let Some(whole) = outcome.verified {
        let before = point.verified.known().copied().unwrap_or(true);
        point.verified = Fact::Known(whole && before);
    }
}

fn refuse(point: &mut Point, error: &PriceError) {
    let reason = error.to_string();
    if point.samples.is_empty() {
        point.page_bytes = Fact::missing(reason.clone());
        point.verified = Fact::missing(reason.clone());
    }
    point.refused = Some(reason);
}
