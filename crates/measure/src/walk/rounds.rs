//! All points, round after round, with one repeat of the bandwidth after each round.

use super::bandwidth;
use super::layout::Layout;
use super::once::{self, Job, Taken};
use super::plan::Plan;
use crate::company::Progress;
use crate::error::PriceError;
use crate::sample::Stop;
use pagewise_kernel::{affinity, clock, limits, tlb};
use pagewise_model::walk::{ClaimedTlb, Path, Point, Sample, Walks};
use pagewise_model::{Bytes, Fact, Nanos};

/// Before mappings from this size on it is asked again what may be taken.
const LARGE: Bytes = Bytes::mib(64);
/// Odd, so that every place of the order has a key of its own.
const KEY_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a run needs from its caller.
pub type Company<'a> = crate::company::Company<'a, Point>;

/// Walks all points of `plan`. What was measured before the caller wanted no more, or before the cap,
/// is in the result; points that lack samples say why.
#[must_use]
pub fn run<'a>(plan: &'a Plan, company: Company<'a>) -> Walks {
    let cost = plan.cost();
    let cpu = plan.cpus.first().copied().unwrap_or(0);
    let mut points = plan.points.clone();
    let (end, total) = (clock::now() + cost.cap_ns, cost.mappings);
    let mut session = Session { plan, cpu, end, company, done: 0, total, place: 0 };
    let mut rates = bandwidth::Rounds::new(&plan.cpus, plan.most.bytes);
    for repeat in 0..plan.asked.repeats {
        let mut order: Vec<usize> = (0..points.len()).collect();
        (session.company.shuffle)(&mut order);
        for index in order {
            session.repeat(&mut points[index], repeat);
        }
        if repeat < plan.rate_repeats() && !session.is_over() {
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

struct Session<'a> {
    plan: &'a Plan,
    cpu: u32,
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

    /// One mapping of a point; a point that failed is left alone.
    fn repeat(&mut self, point: &mut Point, repeat: u32) {
        (self.company.tell)(&Progress { done: self.done, total: self.total, point });
        self.done += 1;
        if point.refused.is_some() {
            return;
        }
        match self.walk(point) {
            Ok(taken) => {
                point.page_bytes = Fact::Known(taken.page);
                let (load_ns, within_share) = (taken.load_ns, taken.within_share);
                point.samples.push(Sample { repeat, place: self.place, load_ns, within_share });
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

    fn walk(&mut self, point: &Point) -> Result<Taken, PriceError> {
        if (self.company.stop)() {
            return Err(PriceError::Interrupted);
        }
        if clock::now() >= self.end {
            return Err(PriceError::Unavailable("the time for all walks was up".to_owned()));
        }
        let resident = self.plan.resident(point);
        if resident >= LARGE && resident > limits::own_memory()?.bytes {
            let text = format!("{resident} are no longer free for an experiment");
            return Err(PriceError::Unavailable(text));
        }
        let job = self.job(point);
        let stop = Stop(self.company.stop);
        std::thread::scope(|scope| {
            scope.spawn(|| once::take(&job, stop)).join().map_err(|_| PriceError::ThreadLost)?
        })
    }

    fn job(&mut self, point: &Point) -> Job {
        let kinds = self.plan.kinds;
        let (order, page) = match point.path {
            Path::List { .. } => (Vec::new(), kinds.base()),
            Path::Lines { apart_bytes } => {
                let mut order: Vec<usize> = (0..point.elements as usize).collect();
                (self.company.shuffle)(&mut order);
                let has_huge = apart_bytes.0 >= kinds.huge().bytes();
                (order, if has_huge { kinds.huge() } else { kinds.base() })
            }
        };
        let key = u64::from(self.place).wrapping_mul(KEY_STEP).wrapping_add(self.plan.asked.seed);
        Job {
            path: point.path,
            pages: point.pages,
            layout: Layout::new(point.path, point.elements, key, order, page),
            cpu: self.cpu,
            kinds,
            warm: once::warm(point.elements, self.plan.is_cached(point)),
            piece: self.plan.piece(),
        }
    }
}

/// What the CPU that walked claims: on processors with cores of several kinds each answers for itself.
fn claimed(cpu: u32) -> Vec<ClaimedTlb> {
    let asked = std::thread::scope(|scope| {
        scope
            .spawn(|| affinity::set(0, &[cpu]).map_or_else(|_| Vec::new(), |()| tlb::claimed()))
            .join()
    });
    let one = |found: tlb::Tlb| ClaimedTlb {
        level: found.level,
        side: found.side,
        page_bytes: found.page_sizes(),
        entries: found.entries,
        scaled_entries: found.scaled,
    };
    asked.unwrap_or_default().into_iter().map(one).collect()
}
