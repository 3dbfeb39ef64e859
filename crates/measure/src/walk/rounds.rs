//! All points, round after round, with one repeat of the bandwidth after each round.

use super::bandwidth;
use super::layout::Layout;
use super::once::{self, Job, Taken};
use super::plan::Plan;
use crate::company::{Company, Course, note};
use crate::error::PriceError;
use crate::pinned::on_cpu;
use crate::room;
use pagewise_model::Fact;
use pagewise_model::walk::{Path, Point, Sample, Walks};

/// Odd, so that every place of the order has a key of its own.
const KEY_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Walks all points of `plan`. What was measured before the caller wanted no more, or before the cap,
/// is in the result; points that lack samples say why.
#[must_use]
pub fn run(plan: &Plan, company: Company<'_, Point>) -> Walks {
    let cost = plan.cost();
    let cpu = plan.cpus.first().copied().unwrap_or(0);
    let mut points = plan.points.clone();
    let course = Course::begin(company, cost.cap_ns, cost.mappings);
    let mut session = Session { plan, cpu, course };
    let mut rates = bandwidth::Rounds::new(&plan.cpus, plan.most.bytes);
    for repeat in 0..plan.asked.repeats {
        for index in session.course.shuffled(points.len()) {
            session.repeat(&mut points[index], repeat);
        }
        if repeat < plan.rate_repeats() && !session.course.is_over() {
            rates.step();
        }
    }
    let asked = &plan.asked;
    Walks {
        seed: asked.seed,
        repeats: asked.repeats,
        quick: asked.quick,
        cpu,
        most_bytes: plan.most.bytes,
        bound_by: plan.most.bound_by.clone(),
        base_page_bytes: plan.kinds.base(),
        huge_page_bytes: plan.kinds.huge(),
        points,
        unavailable: plan.unavailable.clone(),
        bandwidth: rates.finish(),
        claimed: room::claimed_tlbs(cpu),
        caches: plan.caches.clone(),
        judgement: None,
    }
}

struct Session<'a, 'c> {
    plan: &'a Plan,
    cpu: u32,
    course: Course<'c, Point>,
}

impl Session<'_, '_> {
    /// One mapping of a point; a point that failed is left alone.
    fn repeat(&mut self, point: &mut Point, repeat: u32) {
        self.course.tell(point);
        if point.refused.is_some() {
            return;
        }
        let taken = self.walk(point).map(|Taken { load_ns, within_share, page }| {
            let place = self.course.taken();
            (Sample { repeat, place, load_ns, within_share }, Fact::Known(page))
        });
        note(taken, &mut point.samples, &mut point.page_bytes, &mut point.refused);
    }

    fn walk(&mut self, point: &Point) -> Result<Taken, PriceError> {
        self.course.check("all walks")?;
        room::still_has(self.plan.resident(point))?;
        let job = self.job(point);
        let stop = self.course.stop();
        on_cpu(self.cpu, || once::take(&job, stop))
    }

    fn job(&mut self, point: &Point) -> Job {
        let kinds = self.plan.kinds;
        let (order, page) = match point.path {
            Path::List { .. } => (Vec::new(), kinds.base()),
            Path::Lines { apart_bytes } => {
                let order = self.course.shuffled(point.elements as usize);
                let has_huge = apart_bytes.0 >= kinds.huge().bytes();
                (order, if has_huge { kinds.huge() } else { kinds.base() })
            }
        };
        let key = u64::from(self.course.place())
            .wrapping_mul(KEY_STEP)
            .wrapping_add(self.plan.asked.seed);
        Job {
            path: point.path,
            pages: point.pages,
            layout: Layout::new(point.path, point.elements, key, order, page),
            kinds,
            warm: once::warm(point.elements, self.plan.is_cached(point)),
            piece: self.plan.piece(),
        }
    }
}
