//! All points, round after round, each time in a new order.

use super::misses;
use super::once::{self, Job, Taken};
use super::plan::Plan;
use crate::company::{Company, Course, note};
use crate::error::PriceError;
use crate::pinned::on_cpu;
use crate::room;
use pagewise_model::Fact;
use pagewise_model::jump::{Jumps, Order, Point, Sample};

/// Runs all points of `plan`. What was measured before the caller wanted no more, or before the cap, is in
/// the result; points that lack samples say why.
#[must_use]
pub fn run(plan: &Plan, company: Company<'_, Point>) -> Jumps {
    let cost = plan.cost();
    let mut points = plan.points.clone();
    let course = Course::begin(company, cost.cap_ns, cost.mappings);
    let mut session = Session { plan, course };
    for repeat in 0..plan.asked.repeats {
        for index in session.course.shuffled(points.len()) {
            session.repeat(&mut points[index], repeat);
        }
    }
    Jumps {
        seed: plan.asked.seed,
        repeats: plan.asked.repeats,
        quick: plan.asked.quick,
        cpu: plan.cpu,
        most_bytes: plan.most.bytes,
        bound_by: plan.most.bound_by.clone(),
        base_page_bytes: plan.kinds.base(),
        huge_page_bytes: plan.kinds.huge(),
        points,
        unavailable: plan.unavailable.clone(),
        counter: misses::event(),
        claimed: room::claimed_tlbs(plan.cpu),
        judgement: None,
    }
}

struct Session<'a, 'c> {
    plan: &'a Plan,
    course: Course<'c, Point>,
}

impl Session<'_, '_> {
    /// One mapping of a point; a point that failed is left alone.
    fn repeat(&mut self, point: &mut Point, repeat: u32) {
        self.course.tell(point);
        if point.refused.is_some() {
            return;
        }
        let taken = self.take(point).map(|Taken { jump_ns, within_share, misses, page }| {
            let (place, misses_per_1000_instructions) = (self.course.taken(), misses);
            let sample =
                Sample { repeat, place, jump_ns, within_share, misses_per_1000_instructions };
            (sample, Fact::Known(page))
        });
        note(taken, &mut point.samples, &mut point.page_bytes, &mut point.refused);
    }

    fn take(&mut self, point: &Point) -> Result<Taken, PriceError> {
        self.course.check("all mappings")?;
        room::still_has(self.plan.resident(point))?;
        let job = Job {
            pages: point.pages,
            apart: point.apart_bytes,
            jumps: point.jumps,
            order: self.order(point),
            kinds: self.plan.kinds,
            piece: self.plan.piece(),
        };
        let stop = self.course.stop();
        on_cpu(self.plan.cpu, || once::take(&job, stop))
    }

    /// All laps of a point, each element once in each.
    fn order(&mut self, point: &Point) -> Vec<usize> {
        let (count, laps) = (point.jumps as usize, once::laps(point.jumps) as usize);
        match point.order {
            Order::Repeated => self.course.shuffled(count).repeat(laps),
            Order::Changing => (0..laps).flat_map(|_| self.course.shuffled(count)).collect(),
        }
    }
}
