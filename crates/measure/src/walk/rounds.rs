//! All points, round after round, with one repeat of the bandwidth after each round.

use super::bandwidth;
use super::layout::Layout;
use super::once::{self, Job, Taken};
use super::plan::Plan;
use crate::company::{Company, Course, refusal};
use crate::error::PriceError;
use crate::pinned::on_cpu;
use pagewise_kernel::{limits, tlb};
use pagewise_model::walk::{ClaimedTlb, Path, Point, Sample, Walks};
use pagewise_model::{Bytes, Fact};

/// Before mappings from this size on it is asked again what may be taken.
const LARGE: Bytes = Bytes::mib(64);
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
        claimed: claimed(cpu),
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
        match self.walk(point) {
            Ok(taken) => {
                point.page_bytes = Fact::Known(taken.page);
                let (load_ns, within_share) = (taken.load_ns, taken.within_share);
                let place = self.course.taken();
                point.samples.push(Sample { repeat, place, load_ns, within_share });
            }
            Err(error) => {
                let is_first = point.samples.is_empty();
                point.refused = refusal(&error, is_first, &mut point.page_bytes);
            }
        }
    }

    fn walk(&mut self, point: &Point) -> Result<Taken, PriceError> {
        self.course.check("all walks")?;
        let resident = self.plan.resident(point);
        if resident >= LARGE && resident > limits::own_memory()?.bytes {
            let text = format!("{resident} are no longer free for an experiment");
            return Err(PriceError::Unavailable(text));
        }
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

/// What the CPU that walked claims: on processors with cores of several kinds each answers for itself.
fn claimed(cpu: u32) -> Vec<ClaimedTlb> {
    let asked = on_cpu(cpu, || Ok(tlb::claimed()));
    let one = |found: tlb::Tlb| ClaimedTlb {
        level: found.level,
        side: found.side,
        page_bytes: found.page_sizes(),
        entries: found.entries,
        scaled_entries: found.scaled,
    };
    asked.unwrap_or_default().into_iter().map(one).collect()
}
