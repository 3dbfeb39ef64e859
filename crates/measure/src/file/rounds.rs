//! All cells, round after round: first the warm ones, then the cold ones, which change how the cache holds
//! the file.

use super::account::sampled;
use super::origin::Content;
use super::plan::Plan;
use super::process::{self, Taken};
use super::state::Cache;
use super::wire::Task;
use crate::company::{Company, Course};
use crate::error::PriceError;
use crate::helper::Launcher;
use pagewise_kernel::{SysError, clock};
use pagewise_model::file::{Cell, Point, Readings, Residency, Truth};
use pagewise_model::{Bytes, Fact, Nanos};

/// How often a warm cell is read again that turned out not to be warm.
const AGAIN: u32 = 2;

/// Reads all cells of `plan` out of `content`, in processes that `launcher` starts. What was measured before the caller wanted no more, or
/// before the cap, is in the result; points that lack samples say why.
///
/// # Errors
/// When the file cannot be read at all.
pub fn run(
    plan: &Plan,
    content: &Content,
    launcher: &Launcher,
    company: Company<'_, Cell>,
) -> Result<Readings, SysError> {
    let cost = plan.cost();
    let truths = truths(plan, content)?;
    let cache = Cache { file: &content.file, size: content.source.size_bytes };
    let course = Course::begin(company, cost.cap_ns, cost.processes);
    let mut end = clock::now();
    let mut session = Session { plan, cache, launcher, course, refills: 0 };
    let mut points: Vec<Point> = plan.cells.iter().copied().map(Point::new).collect();
    for residency in [Residency::Warm, Residency::Cold] {
        // What one leaves of its time the other has as well.
        end += Nanos::from_f64(cost.cap_ns.0 as f64 * plan.share(residency));
        session.course.end_at(end);
        session.rounds(&mut points, residency);
    }
    let asked = &plan.asked;
    Ok(Readings {
        seed: asked.seed,
        repeats: plan.repeats(Residency::Warm),
        cold_repeats: plan.repeats(Residency::Cold),
        quick: asked.quick,
        summed: asked.summed,
        slips: asked.slips.clone(),
        source: content.source.clone(),
        cpus: plan.cpus.clone(),
        base_page_bytes: plan.page,
        truths,
        refills: session.refills,
        entry_ns: Fact::missing("not taken"),
        prices: Vec::new(),
        price_folios: None,
        points,
        copies: None,
        judgement: None,
    })
}

/// What a pass over each span in blocks of each size adds up to.
fn truths(plan: &Plan, content: &Content) -> Result<Vec<Truth>, SysError> {
    let mut wanted: Vec<(Bytes, Bytes)> =
        plan.cells.iter().map(|cell| (cell.block_bytes, cell.span_bytes)).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let truth = |(block_bytes, span_bytes): (Bytes, Bytes)| {
        let block = usize::try_from(block_bytes.0).unwrap_or(usize::MAX);
        let mut checksum = 0_u64;
        for index in 0..span_bytes.0 / block_bytes.0.max(1) {
            let offset = index * block_bytes.0 + sampled(index, block) as u64;
            checksum = checksum.wrapping_add(content.word(offset)?);
        }
        Ok(Truth { block_bytes, span_bytes, checksum })
    };
    wanted.into_iter().map(truth).collect()
}

struct Session<'a, 'c> {
    plan: &'a Plan,
    cache: Cache<'a>,
    launcher: &'a Launcher,
    course: Course<'c, Cell>,
    refills: u32,
}

impl Session<'_, '_> {
    fn rounds(&mut self, points: &mut [Point], residency: Residency) {
        let of = |point: &Point| point.cell.residency == residency;
        for repeat in 0..self.plan.repeats(residency) {
            let order = (0..points.len()).filter(|at| of(&points[*at])).collect();
            for index in self.course.shuffle(order) {
                self.repeat(&mut points[index], repeat);
            }
        }
    }

    /// One process of a point; a point that failed is left alone.
    fn repeat(&mut self, point: &mut Point, repeat: u32) {
        self.course.tell(&point.cell);
        if point.refused.is_some() {
            return;
        }
        match self.read(&point.cell, repeat) {
            Ok(mut taken) => {
                taken.sample.repeat = repeat;
                taken.sample.place = self.course.taken();
                point.add(taken.sample, taken.pace);
            }
            Err(error) => point.refused = Some(error.to_string()),
        }
    }

    fn read(&mut self, cell: &Cell, repeat: u32) -> Result<Taken, PriceError> {
        for _ in 0..=AGAIN {
            self.course.check("all cells")?;
            let task = self.task(cell, repeat);
            let taken = process::run(self.launcher, &self.cache, task, self.course.stop().0)?;
            self.refills += u32::from(taken.filled);
            if process::is_proven(&taken.sample, cell.residency) {
                return Ok(taken);
            }
        }
        let why = "the page cache lost part of the file while it was read";
        Err(PriceError::Unavailable(why.to_owned()))
    }

    /// The same order for all cells of a round, another in the next.
    fn task(&self, cell: &Cell, repeat: u32) -> Task {
        let asked = &self.plan.asked;
        Task {
            cell: *cell,
            slips: asked.slips.clone(),
            summed: asked.summed,
            seed: asked.seed.wrapping_add(u64::from(repeat)),
            cpus: self.plan.seats(cell.threads),
        }
    }
}
