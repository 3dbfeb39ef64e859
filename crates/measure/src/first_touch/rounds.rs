//! All points, round after round, each time in a new order.

use super::anonymous::{self, Job};
use super::cow;
use super::file::Cached;
use super::host::Before;
use super::plan::Plan;
use super::split::Splits;
use super::taken::Taken;
use super::userfault;
use crate::company::Progress;
use crate::error::PriceError;
use crate::sample::Stop;
use pagewise_kernel::{affinity, clock, limits, machine};
use pagewise_model::first_touch::{FirstTouch, Point, SharedPool, Way};
use pagewise_model::walk::PageKind;
use pagewise_model::{Bytes, Fact, Nanos};

/// Most memory that is looked at, once, for what the host has taken back.
const FOUND: Bytes = Bytes::mib(512);

/// What a run needs from its caller.
pub type Company<'a> = crate::company::Company<'a, Point>;

/// Measures all points of `plan`. What was measured before the caller wanted no more, or before the cap, is
/// in the result; points that lack samples say why.
#[must_use]
pub fn run<'a>(plan: &'a Plan, company: Company<'a>) -> FirstTouch {
    let end = clock::now() + plan.cost().cap_ns;
    let mut points = plan.points.clone();
    let mut session = Session::new(plan, company, end);
    session.look_first();
    for repeat in 0..plan.asked.repeats {
        let mut order: Vec<usize> = (0..points.len()).collect();
        (session.company.shuffle)(&mut order);
        for index in order {
            session.repeat(&mut points[index], repeat);
        }
        if !session.is_over() {
            session.splits.step();
        }
    }
    let shared_pool = session.share_pool(&points);
    let host = if machine::machine().hypervisor.is_some() {
        session.before.finish(&points)
    } else {
        Vec::new()
    };
    FirstTouch {
        seed: plan.asked.seed,
        repeats: plan.asked.repeats,
        quick: plan.asked.quick,
        cpus: plan.cpus.clone(),
        size_bytes: plan.size,
        most_bytes: plan.most.bytes,
        bound_by: plan.most.bound_by.clone(),
        base_page_bytes: plan.kinds.base(),
        huge_page_bytes: plan.kinds.huge(),
        points,
        unavailable: plan.unavailable.clone(),
        host,
        split: session.splits.finish(),
        shared_pool,
        judgement: None,
    }
}

struct Session<'a> {
    plan: &'a Plan,
    company: Company<'a>,
    end: Nanos,
    done: u64,
    place: u32,
    before: Before,
    splits: Splits,
    /// The file that is mapped, made when it is first needed.
    file: Option<Cached>,
}

impl<'a> Session<'a> {
    fn new(plan: &'a Plan, company: Company<'a>, end: Nanos) -> Self {
        let mut splits = Splits::new(plan.kinds);
        if !plan.has_split() {
            splits.refuse("not asked for");
        }
        let before = Before::default();
        Self { plan, company, end, done: 0, place: 0, before, splits, file: None }
    }

    fn is_over(&self) -> bool {
        (self.company.stop)() || clock::now() >= self.end
    }

    /// In which state the memory was found. What cannot be touched here fails later, with its reason.
    fn look_first(&mut self) {
        let (stop, size) = (self.company.stop, Bytes(FOUND.0.min(self.plan.most.bytes.0 / 4)));
        let before = &mut self.before;
        let _looked = on_cpu(self.plan, || before.touch(false, size, Stop(stop)));
    }

    /// What two processes see of one file, where there are such files.
    fn share_pool(&self, points: &[Point]) -> Fact<SharedPool> {
        let file = points.iter().find(|point| point.way == Way::PoolFile);
        match file {
            Some(point) if !point.samples.is_empty() => {
                on_cpu(self.plan, || self.plan.pool.share(point.mapped_bytes)).into()
            }
            _ => Fact::missing("no file on hugetlbfs was touched"),
        }
    }

    /// One mapping of a point; a point that failed is left alone.
    fn repeat(&mut self, point: &mut Point, repeat: u32) {
        let total = self.plan.cost().mappings;
        (self.company.tell)(&Progress { done: self.done, total, point });
        self.done += 1;
        if point.refused.is_some() {
            return;
        }
        match self.take(point) {
            Ok(taken) => {
                point.samples.push(taken.sample(repeat, self.place));
                point.page_bytes = taken.page;
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

    fn take(&mut self, point: &Point) -> Result<Taken, PriceError> {
        let stop = Stop(self.company.stop);
        stop.check()?;
        if clock::now() >= self.end {
            return Err(PriceError::Unavailable("the time for all mappings was up".to_owned()));
        }
        let size = self.plan.before(point);
        if size > limits::own_memory()?.bytes {
            let text = format!("{size} are no longer free for an experiment");
            return Err(PriceError::Unavailable(text));
        }
        if point.way.is_file() && self.file.is_none() {
            self.file = Some(Cached::new(self.plan.size)?);
        }
        let (plan, file, before) = (self.plan, self.file.as_ref(), &mut self.before);
        on_cpu(plan, || {
            before.touch(is_huge(point.way), size, stop)?;
            match (point.way, file) {
                (Way::FileFaultAround | Way::FilePopulateRead | Way::FileWillneed, Some(file)) => {
                    file.take(point.way)
                }
                (Way::ForkCow, _) => cow::take(plan.kinds, PageKind::Base, plan.size),
                (way, _) if way.is_pool() => plan.pool.take(way, point.mapped_bytes),
                (Way::Userfaultfd, _) => {
                    userfault::take(plan.kinds, point.mapped_bytes, &plan.cpus)
                }
                (Way::ForkCowHuge, _) => cow::take(plan.kinds, PageKind::Thp, plan.size),
                _ => anonymous::take(&job(plan, point), stop),
            }
        })
    }
}

/// `work` on a thread of its own, pinned to the first CPU, so that the caller keeps its affinity.
fn on_cpu<T: Send>(
    plan: &Plan,
    work: impl FnOnce() -> Result<T, PriceError> + Send,
) -> Result<T, PriceError> {
    let cpu = plan.cpus.first().copied().unwrap_or(0);
    std::thread::scope(|scope| {
        let working = scope.spawn(move || {
            affinity::set(0, &[cpu])?;
            work()
        });
        working.join().map_err(|_| PriceError::ThreadLost)?
    })
}

/// Whether a way takes its memory from free blocks of huge pages.
fn is_huge(way: Way) -> bool {
    matches!(way, Way::Thp | Way::ForkCowHuge)
}

fn job(plan: &Plan, point: &Point) -> Job {
    let holes = match point.way {
        Way::Mthp { page_bytes } => Some(plan.sizes.holes(page_bytes)),
        _ => None,
    };
    let threads = point.threads as usize;
    Job {
        way: point.way,
        size: plan.size,
        stride: (plan.kinds.base().bytes() * point.every_pages) as usize,
        cpus: plan.cpus.iter().copied().take(threads).collect(),
        holes,
        kinds: plan.kinds,
    }
}
