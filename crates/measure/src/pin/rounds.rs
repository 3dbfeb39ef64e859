//! All points, round after round, each time in a new order.

use super::once::{self, Job, Taken};
use super::plan::Plan;
use crate::company::{Company, Course, note};
use crate::error::PriceError;
use crate::pinned::on_cpu;
use pagewise_model::Fact;
use pagewise_model::pin::{Pins, Point, Sample};

/// Measures all points of `plan`. What was measured before the caller wanted no more, or before the cap,
/// is in the result; points that lack samples say why.
#[must_use]
pub fn run(plan: &Plan, company: Company<'_, Point>) -> Pins {
    let cost = plan.cost();
    let mut points = plan.points.clone();
    let course = Course::begin(company, cost.cap_ns, cost.mappings);
    let mut session = Session { plan, course };
    for repeat in 0..plan.asked.repeats {
        for index in session.course.shuffled(points.len()) {
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
        let taken = self.take(point).map(|taken| {
            let Taken { call_ns, release_ns, within_share, page } = taken;
            let place = self.course.taken();
            (Sample { repeat, place, call_ns, release_ns, within_share }, Fact::Known(page))
        });
        note(taken, &mut point.samples, &mut point.page_bytes, &mut point.refused);
    }

    fn take(&self, point: &Point) -> Result<Taken, PriceError> {
        self.course.check("all mappings")?;
        let job = Job {
            way: point.way,
            pages: point.pages,
            size: point.size_bytes,
            region: Plan::region(),
            kinds: self.plan.kinds,
            piece: self.plan.piece(),
        };
        let stop = self.course.stop();
        on_cpu(self.plan.cpu, || once::take(&job, stop))
    }
}
