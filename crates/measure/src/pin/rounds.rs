//! All points, round after round, each time in a new order.

use super::once::{self, Job, Taken};
use super::plan::Plan;
use crate::company::{Company, Progress};
use crate::error::PriceError;
use crate::sample::Stop;
use pagewise_kernel::clock;
use pagewise_model::pin::{Pins, Point, Sample};
use pagewise_model::{Fact, Nanos};

/// Measures all points of `plan`. What was measured before the caller wanted no more, or before the cap,
/// is in the result; points that lack samples say why.
#[must_use]
pub fn run<'a>(plan: &'a Plan, company: Company<'a, Point>) -> Pins {
    let cost = plan.cost();
    let mut points = plan.points.clone();
    let (end, total) = (clock::now() + cost.cap_ns, cost.mappings);
    let mut session = Session { plan, end, company, done: 0, total, place: 0 };
    for repeat in 0..plan.asked.repeats {
        let mut order: Vec<usize> = (0..points.len()).collect();
        (session.company.shuffle)(&mut order);
        for index in order {
            session.repeat(&mut points[index], repeat);
        }
    }
    Pins {
        seed: plan.asked.seed,
        repeats: plan.asked.repeats,
        quick: plan.asked.quick,
        cpu: plan.cpu,
        region_bytes: Plan::region(),
        base_page_bytes: plan.kinds.base(),
        huge_page_bytes: plan.kinds.huge(),
        points,
        unavailable: plan.unavailable.clone(),
        missing_ways: plan.missing_ways.clone(),
        judgement: None,
    }
}

struct Session<'a> {
    plan: &'a Plan,
    end: Nanos,
    company: Company<'a, Point>,
    done: u64,
    total: u64,
    place: u32,
}

impl Session<'_> {
    /// One mapping of a point; a point that failed is left alone.
    fn repeat(&mut self, point: &mut Point, repeat: u32) {
        (self.company.tell)(&Progress { done: self.done, total: self.total, point });
        self.done += 1;
        if point.refused.is_some() {
            return;
        }
        match self.take(point) {
            Ok(taken) => {
                let Taken { call_ns, release_ns, within_share, page } = taken;
                point.page_bytes = Fact::Known(page);
                let place = self.place;
                point.samples.push(Sample { repeat, place, call_ns, release_ns, within_share });
                self.place += 1;
            }
            Err(error) => {
                let reason = error.to_string();
                if point.samples.is_empty() {
                    point.page_bytes = Fact::missing(reason.clone());
                }
                point.refused = Some(reason);
            }
        }
    }

    fn take(&self, point: &Point) -> Result<Taken, PriceError> {
        if (self.company.stop)() {
            return Err(PriceError::Interrupted);
        }
        if clock::now() >= self.end {
            return Err(PriceError::Unavailable("the time for all mappings was up".to_owned()));
        }
        let job = Job {
            way: point.way,
            pages: point.pages,
            size: point.size_bytes,
            region: Plan::region(),
            cpu: self.plan.cpu,
            kinds: self.plan.kinds,
            piece: self.plan.piece(),
        };
        let stop = Stop(self.company.stop);
        std::thread::scope(|scope| {
            scope.spawn(|| once::take(&job, stop)).join().map_err(|_| PriceError::ThreadLost)?
        })
    }
}
