//! The whole ladder: a pilot of each point, then round after round, with yardsticks in between.

use super::pair::{self, Job, Limits, Outcome, PairError};
use super::place::Cpus;
use super::plan::{Plan, PlanError};
use super::yardsticks;
use crate::helper::Launcher;
use pagewise_kernel::clock;
use pagewise_model::ladder::{Consumption, Ladder, Point};
use pagewise_model::{Bytes, Fact, Nanos};

/// How far a ladder is.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// Pairs that are done.
    pub done: u64,
    /// Pairs in all.
    pub total: u64,
    /// The rung that runs now.
    pub rung: &'a str,
    /// What becomes of its bytes.
    pub consumption: Consumption,
}

/// What the ladder needs from its caller.
pub struct Company<'a> {
    /// The program that serves as the ends.
    pub launcher: &'a Launcher,
    /// Puts indices into random order, by the seed of the plan.
    pub shuffle: &'a mut dyn FnMut(&mut [usize]),
    /// Whether the caller wants no more.
    pub stop: &'a dyn Fn() -> bool,
    /// Told before each pair.
    pub tell: &'a mut dyn FnMut(&Progress<'_>),
}

impl std::fmt::Debug for Company<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Company").field("launcher", self.launcher).finish_non_exhaustive()
    }
}

/// Measures all points of `plan`. What was measured before the caller wanted no more, or before the
/// cap, is in the result; points that lack repeats say why.
///
/// # Errors
/// When nothing may be begun.
pub fn run<'a>(plan: &'a Plan, company: Company<'a>) -> Result<Ladder, PlanError> {
    let cost = plan.cost()?;
    let cpus = Cpus::allowed();
    let end = clock::now() + cost.cap_ns;
    let mut session =
        Session { plan, cpus: cpus.clone(), end, company, done: 0, total: cost.pairs, place: 0 };
    let mut yardsticks = yardsticks::Rounds::new(cpus);
    let mut lanes: Vec<Lane> = Vec::with_capacity(plan.points.len());
    for (rung, consumption) in &plan.points {
        let point = Point::refused(rung.clone(), *consumption, "not begun");
        lanes.push(session.pilot(point));
    }
    for repeat in 0..plan.repeats {
        let mut order: Vec<usize> = (0..lanes.len()).collect();
        (session.company.shuffle)(&mut order);
        for index in order {
            session.repeat(&mut lanes[index], repeat);
        }
        if !session.is_over() {
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

struct Session<'a> {
    plan: &'a Plan,
    cpus: Cpus,
    end: Nanos,
    company: Company<'a>,
    done: u64,
    total: u64,
    place: u32,
}

impl Session<'_> {
    fn is_over(&self) -> bool {
        (self.company.stop)() || clock::now() >= self.end
    }

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
                point.verified = Fact::missing("nobody looks at the bytes");
                learn(&mut point, &outcome);
            }
            Err(error) => refuse(&mut point, &error),
        }
        Lane { point, bytes }
    }

    /// One counted repeat; a point that failed is left alone.
    fn repeat(&mut self, lane: &mut Lane, repeat: u32) {
        if lane.point.refused.is_some() {
            self.done += 1;
            return;
        }
        match self.pair(&lane.point, lane.bytes) {
            Ok(outcome) => {
                learn(&mut lane.point, &outcome);
                let mut sample = outcome.sample;
                (sample.repeat, sample.place) = (repeat, self.place);
                self.place += 1;
                lane.point.samples.push(sample);
            }
            Err(error) => refuse(&mut lane.point, &error),
        }
    }

    fn pair(&mut self, point: &Point, bytes: Bytes) -> Result<Outcome, PairError> {
        let (rung, consumption) = (&point.rung, point.consumption);
        let (done, total) = (self.done, self.total);
        (self.company.tell)(&Progress { done, total, rung: &rung.name, consumption });
        self.done += 1;
        if (self.company.stop)() {
            return Err(PairError::Interrupted);
        }
        let left = Nanos(self.end.0.saturating_sub(clock::now().0));
        if left == Nanos(0) {
            return Err(PairError::Refused("the time for the whole ladder was up".to_owned()));
        }
        let seats = self.cpus.seats(rung.placement).map_err(PairError::Refused)?;
        let job = Job { rung, consumption, bytes, seats };
        let within = left.min(Plan::patience(bytes));
        pair::run(self.company.launcher, &job, Limits { within, stop: self.company.stop })
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

fn refuse(point: &mut Point, error: &PairError) {
    let reason = error.to_string();
    if point.samples.is_empty() {
        point.page_bytes = Fact::missing(reason.clone());
        point.verified = Fact::missing(reason.clone());
    }
    point.refused = Some(reason);
}
