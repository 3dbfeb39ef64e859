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

pub use plan::{MemoryBenchPlan, MemoryBenchRequest, words};

use crate::bench::frame::{self, BenchCallbacks, BenchRounds, Slot};
use crate::error::PriceError;
use crate::sample::StopCheck;
use anonymous::AnonymousJob;
use child::SamplePhases;
use file::MemoryBenchFile;
use host::HostCosts;
use pagewise_kernel::machine;
use pagewise_model::bench::PageKind;
use pagewise_model::bench::memory::{
    MemoryBenchPoint, MemoryBenchReport, MemoryBenchSample, MemoryBenchWay,
};
use pagewise_model::{Bytes, Fact};
use split::SplitRepeats;

/// Most memory that is searched, once, for pages that the host has taken back.
const FOUND: Bytes = Bytes::mib(512);

/// Measures all points of `plan`. If the caller stops it or the time limit passes, the result contains the
/// samples so far. Points that lack samples say why.
#[must_use]
pub fn run(
    plan: &MemoryBenchPlan,
    callbacks: BenchCallbacks<'_, MemoryBenchPoint>,
) -> MemoryBenchReport {
    let mut touches = plan.touches.clone();
    let mut rounds = BenchRounds::begin(callbacks, &plan.cost(), "all mappings");
    let mut source = MemorySampleSource { plan, before: HostCosts::default(), file: None };
    let mut splits = plan.has_split().then(|| SplitRepeats::new(plan.kinds));
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
            splits.iter_mut().for_each(SplitRepeats::step);
        }
    }
    touches.split = splits.map_or(touches.split, SplitRepeats::finish);
    let is_pool = |point: &&MemoryBenchPoint| {
        point.way == MemoryBenchWay::PoolFile && !point.samples.is_empty()
    };
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
struct MemorySampleSource<'a> {
    plan: &'a MemoryBenchPlan,
    before: HostCosts,
    /// The file that is mapped, made when it is first needed.
    file: Option<MemoryBenchFile>,
}

impl MemorySampleSource<'_> {
    fn take(
        &mut self,
        point: &MemoryBenchPoint,
        stop: StopCheck<'_>,
    ) -> Result<SamplePhases, PriceError> {
        let (plan, before_bytes) = (self.plan, self.plan.before(point));
        frame::still_free(before_bytes)?;
        if point.way.is_file() && self.file.is_none() {
            self.file = Some(MemoryBenchFile::new(plan.size())?);
        }
        let (kinds, size) = (plan.kinds, plan.size());
        let (file, before) = (self.file.as_ref(), &mut self.before);
        frame::on_cpu(plan.first_cpu(), || {
            before.touch(is_huge(point.way), before_bytes, stop)?;
            match (point.way, file) {
                (
                    MemoryBenchWay::FileFaultAround
                    | MemoryBenchWay::FilePopulateRead
                    | MemoryBenchWay::FileWillneed,
                    Some(file),
                ) => file.take(point.way),
                (MemoryBenchWay::ForkCow, _) => anonymous::take_copy(kinds, PageKind::Base, size),
                (MemoryBenchWay::ForkCowHuge, _) => {
                    anonymous::take_copy(kinds, PageKind::Thp, size)
                }
                (MemoryBenchWay::Userfaultfd, _) => {
                    anonymous::take_answered(kinds, point.mapped_bytes, &plan.touches.cpus)
                }
                (way, _) if way.is_pool() => plan.pool.take(way, point.mapped_bytes),
                _ => anonymous::take(&job(plan, point), stop),
            }
        })
    }
}

/// Whether a way takes its memory from free blocks of huge pages.
fn is_huge(way: MemoryBenchWay) -> bool {
    matches!(way, MemoryBenchWay::Thp | MemoryBenchWay::ForkCowHuge)
}

fn job(plan: &MemoryBenchPlan, point: &MemoryBenchPoint) -> AnonymousJob {
    let holes = match point.way {
        MemoryBenchWay::Mthp { page_bytes } => Some(plan.sizes.holes(page_bytes)),
        _ => None,
    };
    let threads = point.threads as usize;
    AnonymousJob {
        way: point.way,
        size: plan.size(),
        stride: (plan.kinds.base().bytes() * point.every_pages) as usize,
        cpus: plan.touches.cpus.iter().copied().take(threads).collect(),
        holes,
        kinds: plan.kinds,
    }
}

/// The parts of a point that the frame fills in.
fn slot(point: &mut MemoryBenchPoint) -> Slot<'_, MemoryBenchSample> {
    (&mut point.samples, &mut point.page_bytes, &mut point.refused)
}
