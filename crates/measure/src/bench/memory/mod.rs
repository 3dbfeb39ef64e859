//! First touches of memory (`bench memory`): what a page costs until it can be used, with every way to get
//! it, in nanoseconds for each base page used.
//!
//! Every sample is a fresh mapping: made, touched once in each used page, unmapped. Each part is timed by the
//! wall clock, because programs wait for wall time and several threads wait for each other. The points are
//! measured in rounds, each in a new random order, so that a disturbance of some seconds hits one sample of
//! many points. The kernel proves the result: its own count of minor faults is compared with the number that
//! the way must take, `smaps` shows the size of the pages, and pages mapped before the first touch are
//! counted.
//!
//! Free memory of a virtual machine may not be present: its host takes free blocks back and faults them in
//! again. `host.rs` touches and frees memory before each mapping, so that the figures are the guest's own,
//! and reports the host's part separately. Files and forks are measured in children (`child.rs`), because a
//! touch of a mapped file may raise `SIGBUS`.
//!
//! Linux maps anonymous memory in mm/memory.c (`do_anonymous_page`), huge pages in mm/huge_memory.c,
//! populates in mm/gup.c. Not seen: faults that wait for a device or for reclaim, and pages of other NUMA
//! nodes.

mod anonymous;
mod child;
mod file;
mod host;
mod plan;
mod pool;
mod split;
mod ways;

pub use plan::{Plan, Request, words};

use crate::bench::frame::{self, Callbacks, Rounds, Slot};
use crate::error::PriceError;
use crate::sample::Stop;
use anonymous::Job;
use child::Phases;
use file::Cached;
use host::Before;
use pagewise_kernel::machine;
use pagewise_model::bench::PageKind;
use pagewise_model::bench::memory::{FirstTouch, Point, Sample, Way};
use pagewise_model::{Bytes, Fact};
use split::Splits;

/// Most memory that is searched, once, for pages that the host has taken back.
const FOUND: Bytes = Bytes::mib(512);

/// Measures all points of `plan`. If the caller stops it or the time limit passes, the result contains the
/// samples so far. Points that lack samples say why.
#[must_use]
pub fn run(plan: &Plan, callbacks: Callbacks<'_, Point>) -> FirstTouch {
    let mut touches = plan.touches.clone();
    let mut rounds = Rounds::begin(callbacks, &plan.cost(), "all mappings");
    let mut source = Source { plan, before: Before::default(), file: None };
    let mut splits = plan.has_split().then(|| Splits::new(plan.kinds));
    // What cannot be touched here fails later, with its reason.
    let (stop, found) = (rounds.stop(), Bytes(FOUND.0.min(touches.most_bytes.0 / 4)));
    let before = &mut source.before;
    let _looked = frame::on_cpu(plan.first_cpu(), || before.touch(false, found, stop));
    for repeat in 0..touches.repeats {
        rounds.round(&mut touches.points, repeat, slot, |_, point, turn| {
            let taken = source.take(point, turn.stop)?;
            Ok(taken.sample(turn.repeat, turn.place))
        });
        if !rounds.is_over() {
            splits.iter_mut().for_each(Splits::step);
        }
    }
    touches.split = splits.map_or(touches.split, Splits::finish);
    let is_pool = |point: &&Point| point.way == Way::PoolFile && !point.samples.is_empty();
    if let Some(point) = touches.points.iter().find(is_pool) {
        let share = || plan.pool.share(point.mapped_bytes);
        touches.shared_pool = frame::on_cpu(plan.first_cpu(), share).into();
    }
    if let Some(size) = plan.pressed() {
        touches.pressure = if rounds.is_over() {
            Fact::missing("the time was up")
        } else {
            frame::on_cpu(plan.first_cpu(), || file::measure(size)).into()
        };
    }
    if machine::machine().hypervisor.is_some() {
        touches.host = source.before.finish(&touches.points);
    }
    touches
}

/// Where samples come from.
struct Source<'a> {
    plan: &'a Plan,
    before: Before,
    /// The file that is mapped, made when it is first needed.
    file: Option<Cached>,
}

impl Source<'_> {
    fn take(&mut self, point: &Point, stop: Stop<'_>) -> Result<Phases, PriceError> {
        let (plan, before_bytes) = (self.plan, self.plan.before(point));
        frame::still_free(before_bytes)?;
        if point.way.is_file() && self.file.is_none() {
            self.file = Some(Cached::new(plan.size())?);
        }
        let (kinds, size) = (plan.kinds, plan.size());
        let (file, before) = (self.file.as_ref(), &mut self.before);
        frame::on_cpu(plan.first_cpu(), || {
            before.touch(is_huge(point.way), before_bytes, stop)?;
            match (point.way, file) {
                (Way::FileFaultAround | Way::FilePopulateRead | Way::FileWillneed, Some(file)) => {
                    file.take(point.way)
                }
                (Way::ForkCow, _) => anonymous::take_copy(kinds, PageKind::Base, size),
                (Way::ForkCowHuge, _) => anonymous::take_copy(kinds, PageKind::Thp, size),
                (Way::Userfaultfd, _) => {
                    anonymous::take_answered(kinds, point.mapped_bytes, &plan.touches.cpus)
                }
                (way, _) if way.is_pool() => plan.pool.take(way, point.mapped_bytes),
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
        size: plan.size(),
        stride: (plan.kinds.base().bytes() * point.every_pages) as usize,
        cpus: plan.touches.cpus.iter().copied().take(threads).collect(),
        holes,
        kinds: plan.kinds,
    }
}

/// The parts of a point that the frame fills in.
fn slot(point: &mut Point) -> Slot<'_, Sample> {
    (&mut point.samples, &mut point.page_bytes, &mut point.refused)
}
