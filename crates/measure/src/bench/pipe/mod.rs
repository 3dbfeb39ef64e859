//! The ladder of `bench pipe`: every way to move bytes through a pipe, measured on this machine.
//!
//! A point is one technique with one consumption (see `pagewise_model::bench::pipe`). Each repeat of a point
//! is a fresh pair of processes on the CPUs of its placement. They start together when both are ready. The
//! clock runs from the arrival of the first bytes. One small repeat comes first: it warms up, determines the
//! size of the others, and finds out what is refused. Then the points are measured in rounds, each in a new
//! random order from the seed. So a disturbance of some seconds hits one repeat of several points instead of
//! all repeats of one. The two points of a comparison are measured one after the other, in random order.
//!
//! Bytes are counted at both ends, and the counts must agree. A consumer that touches the bytes checks each
//! of them against the sequence that the producer wrote. The page size of a buffer is what `/proc/self/smaps`
//! shows. Every pair has a deadline, and the whole ladder has a time limit.
//!
//! Not seen: what the kernel does for the pipe on other CPUs (freeing pages by RCU), and, if bytes are
//! forwarded to a socket, the CPU time of the process behind it.

pub mod catalogue;
mod end;
mod mechanism;
mod pair;
mod plan;
mod reference;
mod sequence;
pub(crate) mod turns;
mod yardsticks;

pub use crate::helper::HelperLauncher;
pub use end::{print_fizzbuzz, serve_end};
pub use mechanism::explain;
pub use plan::PipePlan;
pub use reference::reference_prices;

use crate::bench::frame::{BenchCallbacks, BenchRounds};
use crate::error::PriceError;
use pagewise_model::bench::pipe::{PipeBenchReport, PipePoint};
use pagewise_model::{Bytes, Fact};
use pair::{PipeJob, PipeOutcome};
use plan::AllowedCpus;

/// Measures all points of `plan`, in processes that `launcher` starts as the ends. If the caller stops it or
/// the time limit passes, the result contains the samples so far. Points that lack repeats say why.
///
/// # Errors
/// If the plan must not start.
pub fn run(
    plan: &PipePlan,
    launcher: &HelperLauncher,
    callbacks: BenchCallbacks<'_, PipePoint>,
) -> Result<PipeBenchReport, PriceError> {
    let cost = plan.cost()?;
    let cpus = AllowedCpus::allowed();
    let rounds = BenchRounds::begin(callbacks, &cost, "the whole ladder");
    let mut session = PipeBenchSession { plan, launcher, cpus: cpus.clone(), rounds };
    let mut yardsticks = yardsticks::YardstickRounds::new(cpus);
    let mut lanes: Vec<SizedPoint> = Vec::with_capacity(plan.points.len());
    for (rung, consumption) in &plan.points {
        let point = PipePoint::refused(rung.clone(), *consumption, "not begun");
        lanes.push(session.pilot(point));
    }
    for repeat in 0..plan.repeats {
        let order = match plan.compared {
            Some(_) => session.rounds.shuffled_pairs(lanes.len()),
            None => session.rounds.shuffled(lanes.len()),
        };
        for index in order {
            session.repeat(&mut lanes[index], repeat);
        }
        if !session.rounds.is_over() {
            yardsticks.step();
        }
    }
    Ok(PipeBenchReport {
        seed: plan.seed,
        repeats: plan.repeats,
        asked_bytes: plan.bytes,
        repeat_ns: plan.bytes.is_none().then_some(plan.repeat_ns),
        sweep: plan.sweep,
        compared: plan.compared,
        points: lanes.into_iter().map(|lane| lane.point).collect(),
        yardsticks: yardsticks.finish(),
        claims: Vec::new(),
        mechanism: None,
        judgement: None,
    })
}

/// A point with the size of its repeats.
struct SizedPoint {
    point: PipePoint,
    bytes: Bytes,
}

struct PipeBenchSession<'a, 'c> {
    plan: &'a PipePlan,
    launcher: &'a HelperLauncher,
    cpus: AllowedCpus,
    rounds: BenchRounds<'c, PipePoint>,
}

impl PipeBenchSession<'_, '_> {
    /// The small repeat that comes first. It shows which pages the point is on, and whether it works at all.
    fn pilot(&mut self, mut point: PipePoint) -> SizedPoint {
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
        SizedPoint { point, bytes }
    }

    /// One counted repeat. A point that failed is skipped.
    fn repeat(&mut self, lane: &mut SizedPoint, repeat: u32) {
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

    fn pair(&mut self, point: &PipePoint, bytes: Bytes) -> Result<PipeOutcome, PriceError> {
        self.rounds.show(point);
        self.rounds.check()?;
        let (rung, consumption) = (&point.rung, point.consumption);
        let seats = self.cpus.seats(rung.placement).map_err(PriceError::Unavailable)?;
        let job = PipeJob { rung, consumption, bytes, seats };
        let within = self.rounds.left().min(PipePlan::patience(bytes));
        let stop = self.rounds.stop().0;
        pair::run(self.launcher, &job, (within, stop))
    }
}

/// Records what a pair showed about its point: the worst of all repeats counts.
fn learn(point: &mut PipePoint, outcome: &PipeOutcome) {
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

fn refuse(point: &mut PipePoint, error: &PriceError) {
    let reason = error.to_string();
    if point.samples.is_empty() {
        point.page_bytes = Fact::missing(reason.clone());
        point.verified = Fact::missing(reason.clone());
    }
    point.refused = Some(reason);
}
