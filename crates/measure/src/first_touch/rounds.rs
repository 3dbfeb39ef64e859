//! All points, round after round, each time in a new order.

use super::anonymous::{self, Job};
use super::cow;
use super::file::Cached;
use super::host::Before;
use super::plan::Plan;
use super::pressure;
use super::split::Splits;
use super::taken::Taken;
use super::userfault;
use crate::company::{Company, Course, note};
use crate::error::PriceError;
use crate::pinned::on_cpu;
use pagewise_kernel::{limits, machine};
use pagewise_model::first_touch::{FirstTouch, Point, Pressure, SharedPool, Way};
use pagewise_model::walk::PageKind;
use pagewise_model::{Bytes, Fact};

/// Most memory that is looked at, once, for what the host has taken back.
const FOUND: Bytes = Bytes::mib(512);

/// Measures all points of `plan`. What was measured before the caller wanted no more, or before the cap, is
/// in the result; points that lack samples say why.
#[must_use]
pub fn run(plan: &Plan, company: Company<'_, Point>) -> FirstTouch {
    let mut points = plan.points.clone();
    let mut session = Session::new(plan, company);
    session.look_first();
    for repeat in 0..plan.asked.repeats {
        for index in session.course.shuffled(points.len()) {
            session.repeat(&mut points[index], repeat);
        }
        if !session.course.is_over() {
            session.splits.step();
        }
    }
    let shared_pool = session.share_pool(&points);
    let pressure = session.press();
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
        pressure,
        judgement: None,
    }
}

struct Session<'a, 'c> {
    plan: &'a Plan,
    course: Course<'c, Point>,
    before: Before,
    splits: Splits,
    /// The file that is mapped, made when it is first needed.
    file: Option<Cached>,
}

impl<'a, 'c> Session<'a, 'c> {
    fn new(plan: &'a Plan, company: Company<'c, Point>) -> Self {
        let cost = plan.cost();
        let course = Course::begin(company, cost.cap_ns, cost.mappings);
        let mut splits = Splits::new(plan.kinds);
        if !plan.has_split() {
            splits.refuse("not asked for");
        }
        let before = Before::default();
        Self { plan, course, before, splits, file: None }
    }

    /// In which state the memory was found. What cannot be touched here fails later, with its reason.
    fn look_first(&mut self) {
        let (stop, size) = (self.course.stop(), Bytes(FOUND.0.min(self.plan.most.bytes.0 / 4)));
        let before = &mut self.before;
        let _looked = on_cpu(self.plan.first_cpu(), || before.touch(false, size, stop));
    }

    /// What two processes see of one file, where there are such files.
    fn share_pool(&self, points: &[Point]) -> Fact<SharedPool> {
        let file = points.iter().find(|point| point.way == Way::PoolFile);
        match file {
            Some(point) if !point.samples.is_empty() => {
                on_cpu(self.plan.first_cpu(), || self.plan.pool.share(point.mapped_bytes)).into()
            }
            _ => Fact::missing("no file on hugetlbfs was touched"),
        }
    }

    /// What becomes of populating where memory is short.
    fn press(&mut self) -> Fact<Pressure> {
        let Some(size) = self.plan.pressed() else { return Fact::missing("not asked for") };
        if self.course.is_over() {
            return Fact::missing("the time was up");
        }
        on_cpu(self.plan.first_cpu(), || pressure::measure(size)).into()
    }

    /// One mapping of a point; a point that failed is left alone.
    fn repeat(&mut self, point: &mut Point, repeat: u32) {
        self.course.tell(point);
        if point.refused.is_some() {
            return;
        }
        let taken =
            self.take(point).map(|taken| (taken.sample(repeat, self.course.taken()), taken.page));
        note(taken, &mut point.samples, &mut point.page_bytes, &mut point.refused);
    }

    fn take(&mut self, point: &Point) -> Result<Taken, PriceError> {
        self.course.check("all mappings")?;
        let stop = self.course.stop();
        let size = self.plan.before(point);
        if size > limits::own_memory()?.bytes {
            let text = format!("{size} are no longer free for an experiment");
            return Err(PriceError::Unavailable(text));
        }
        if point.way.is_file() && self.file.is_none() {
            self.file = Some(Cached::new(self.plan.size)?);
        }
        let (plan, file, before) = (self.plan, self.file.as_ref(), &mut self.before);
        on_cpu(plan.first_cpu(), || {
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
