//! The frame of every bench: its callbacks, its cost, the order of its points, when it ends, and how points
//! that cannot be measured are handled.
//!
//! The points are measured in rounds, each in a new random order, so that a disturbance of some seconds hits
//! one sample of several points. A point that failed once is skipped and says why. If samples are fresh
//! mappings, each is timed in [`PIECES`] pieces, and the median counts.

use crate::error::PriceError;
use crate::sample::StopCheck;
use pagewise_kernel::limits::{self, MemoryLimit};
use pagewise_kernel::proc::meminfo;
use pagewise_kernel::{affinity, clock};
use pagewise_model::{Bytes, Fact, Measured, Nanos, PageSize};

/// The bench is stopped this long after its expected end.
const PATIENCE: Nanos = Nanos::secs(20);
/// The short form is stopped after this.
const QUICK: Nanos = Nanos::secs(18);
/// Timed pieces of a sample, their time, and that in the short form.
pub(crate) const PIECES: u32 = 5;
const PIECE: Nanos = Nanos::millis(1);
const QUICK_PIECE: Nanos = Nanos(300_000);
/// Share of the installed memory that the largest set may have.
const SHARE: u64 = 4;
/// Before mappings from this size on it is asked again what may be taken.
const LARGE: Bytes = Bytes::mib(64);

/// How far a run is.
#[derive(Debug, Clone, Copy)]
pub struct BenchProgress<'a, P> {
    /// Samples that are done.
    pub done: u64,
    /// Samples in all.
    pub total: u64,
    /// The point that is measured now.
    pub point: &'a P,
}

/// Order, interruption and display.
pub struct BenchCallbacks<'a, P> {
    /// Puts indices into random order, by the seed of the plan.
    pub shuffle: &'a mut dyn FnMut(&mut [usize]),
    /// Whether the caller wants no more.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// Called before each sample.
    pub show: &'a mut dyn FnMut(&BenchProgress<'_, P>),
}

impl<P> std::fmt::Debug for BenchCallbacks<'_, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BenchCallbacks").finish_non_exhaustive()
    }
}

/// The cost of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BenchCost {
    pub points: u64,
    /// Samples that will be taken: fresh mappings, processes, or pairs of processes.
    pub samples: u64,
    /// About how long it takes.
    pub about_ns: Nanos,
    /// When it is stopped, finished or not.
    pub cap_ns: Nanos,
    /// Most memory taken at a time; of a file that is read, its size.
    pub memory_bytes: Bytes,
}

impl BenchCost {
    /// Cost of `points` with `repeats` mappings each, where a mapping takes `about` this long and
    /// `memory_bytes` at a time. The short form has less patience.
    pub(crate) fn of_mappings(
        points: usize,
        (repeats, is_quick): (u32, bool),
        about: Nanos,
        memory_bytes: Bytes,
    ) -> Self {
        let patient = Nanos(about.0.saturating_mul(2)) + PATIENCE;
        Self {
            points: points as u64,
            samples: points as u64 * u64::from(repeats),
            about_ns: about,
            cap_ns: if is_quick { QUICK } else { patient },
            memory_bytes,
        }
    }
}

/// Which sample is taken: its repeat, and its place in the order of all samples.
#[derive(Clone, Copy)]
pub(crate) struct SampleTurn<'a> {
    pub(crate) repeat: u32,
    pub(crate) place: u32,
    pub(crate) stop: StopCheck<'a>,
}

/// The parts of a point that the frame fills in: its samples, the page size of the samples, and why there are
/// no more.
pub(crate) type Slot<'p, S> = (&'p mut Vec<S>, &'p mut Fact<PageSize>, &'p mut Option<String>);

/// A sample, and the page that it was on.
pub(crate) type Sampled<S> = Result<(S, Fact<PageSize>), PriceError>;

/// A run under way.
#[derive(Debug)]
pub(crate) struct BenchRounds<'a, P> {
    callbacks: BenchCallbacks<'a, P>,
    /// The whole that the time limit applies to, for the message.
    all: &'static str,
    end: Nanos,
    done: u64,
    total: u64,
    place: u32,
}

impl<'a, P> BenchRounds<'a, P> {
    /// A run that takes `cost`, for `all` that was asked for.
    pub(crate) fn begin(
        callbacks: BenchCallbacks<'a, P>,
        cost: &BenchCost,
        all: &'static str,
    ) -> Self {
        let end = clock::now() + cost.cap_ns;
        Self { callbacks, all, end, done: 0, total: cost.samples, place: 0 }
    }

    /// Takes one sample of each point, in a new order. A point that failed is skipped.
    pub(crate) fn round<S>(
        &mut self,
        points: &mut [P],
        repeat: u32,
        slot: for<'p> fn(&'p mut P) -> Slot<'p, S>,
        mut take: impl FnMut(&mut Self, &P, SampleTurn<'a>) -> Sampled<S>,
    ) {
        for index in self.shuffled(points.len()) {
            let point = &mut points[index];
            self.show(point);
            if slot(point).2.is_some() {
                continue;
            }
            let turn = SampleTurn { repeat, place: self.place, stop: self.stop() };
            let taken = self.check().and_then(|()| take(self, point, turn));
            self.place += u32::from(taken.is_ok());
            note(taken, slot(point));
        }
    }

    /// Indices below `count` in a new order of pairs of neighbours, each pair in a new order.
    pub(crate) fn shuffled_pairs(&mut self, count: usize) -> Vec<usize> {
        let pairs = self.shuffled(count.div_ceil(2));
        let pair = |at: usize| self.shuffle((2 * at..count.min(2 * at + 2)).collect());
        pairs.into_iter().flat_map(pair).collect()
    }

    /// Indices below `count` in a new order.
    pub(crate) fn shuffled(&mut self, count: usize) -> Vec<usize> {
        self.shuffle((0..count).collect())
    }

    /// These indices in a new order.
    pub(crate) fn shuffle(&mut self, mut indices: Vec<usize>) -> Vec<usize> {
        (self.callbacks.shuffle)(&mut indices);
        indices
    }

    /// Whether the caller wants no more.
    pub(crate) fn stop(&self) -> StopCheck<'a> {
        StopCheck(self.callbacks.stop)
    }

    /// Moves the end.
    pub(crate) fn end_at(&mut self, end: Nanos) {
        self.end = end;
    }

    /// The remaining time.
    pub(crate) fn left(&self) -> Nanos {
        Nanos(self.end.0.saturating_sub(clock::now().0))
    }

    /// Whether no further sample should be taken.
    pub(crate) fn is_over(&self) -> bool {
        self.check().is_err()
    }

    /// Fails if no further sample should be taken.
    pub(crate) fn check(&self) -> Result<(), PriceError> {
        self.stop().check()?;
        if self.left() == Nanos(0) {
            return Err(PriceError::Unavailable(format!("the time for {} was up", self.all)));
        }
        Ok(())
    }

    /// The next sample is of `point`.
    pub(crate) fn show(&mut self, point: &P) {
        (self.callbacks.show)(&BenchProgress { done: self.done, total: self.total, point });
        self.done += 1;
    }

    /// The next sample is left out.
    pub(crate) fn pass_over(&mut self) {
        self.done += 1;
    }

    /// A sample was taken; gives its place.
    pub(crate) fn taken(&mut self) -> u32 {
        self.place += 1;
        self.place - 1
    }
}

/// Stores a sample and its page size, or why the point is skipped from now on. Once a sample has shown a page
/// size, it stays known.
fn note<S>(taken: Sampled<S>, (samples, page, refused): Slot<'_, S>) {
    match taken {
        Ok((sample, found)) => {
            samples.push(sample);
            *page = found;
        }
        Err(error) => {
            let reason = error.to_string();
            if samples.is_empty() {
                *page = Fact::missing(reason.clone());
            }
            *refused = Some(reason);
        }
    }
}

/// Time of a timed piece.
pub(crate) const fn piece(is_quick: bool) -> Nanos {
    if is_quick { QUICK_PIECE } else { PIECE }
}

/// How often something that takes `once_ns` fills a piece, at most `most` times.
pub(crate) fn times(piece: Nanos, once_ns: f64, most: f64) -> u64 {
    (piece.0 as f64 / once_ns.max(1.0)).clamp(1.0, most) as u64
}

/// The pieces of a sample, one after the other.
pub(crate) fn pieces<T>(
    stop: StopCheck<'_>,
    mut take: impl FnMut() -> Result<T, PriceError>,
) -> Result<Vec<T>, PriceError> {
    (0..PIECES).map(|_| stop.check().and_then(|()| take())).collect()
}

/// Median and spread of the pieces of a sample.
pub(crate) fn summary(values: &[f64], price: &'static str) -> Result<Measured, PriceError> {
    Measured::from_values(values).ok_or(PriceError::NoRepeat { price })
}

/// Runs `work` on a separate thread pinned to `cpu`, so that the caller keeps its affinity.
pub(crate) fn on_cpu<T: Send>(
    cpu: u32,
    work: impl FnOnce() -> Result<T, PriceError> + Send,
) -> Result<T, PriceError> {
    std::thread::scope(|scope| {
        let working = scope.spawn(move || {
            affinity::set(0, &[cpu])?;
            work()
        });
        working.join().map_err(|_| PriceError::ThreadLost)?
    })
}

/// The CPUs that may be used, at least one.
pub(crate) fn cpus() -> Result<Vec<u32>, PriceError> {
    let cpus = affinity::get(0)?;
    if cpus.is_empty() {
        return Err(PriceError::Unavailable("no CPU is available".to_owned()));
    }
    Ok(cpus)
}

/// The available part of `wanted`, and why the rest is unavailable.
pub(crate) fn available<W: Copy, M>(
    wanted: &[W],
    try_one: impl Fn(W) -> Result<(), M>,
) -> (Vec<W>, Vec<M>) {
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    for one in wanted {
        match try_one(*one) {
            Ok(()) => there.push(*one),
            Err(why) => missing.push(why),
        }
    }
    (there, missing)
}

/// That no point is left: why the first thing that was asked for is missing, or `otherwise`.
pub(crate) fn nothing(missing: Option<(&str, &str)>, otherwise: &str) -> PriceError {
    let why = missing.map_or_else(|| otherwise.to_owned(), |(name, why)| format!("{name}: {why}"));
    PriceError::Unavailable(format!("nothing to measure: {why}"))
}

/// The smaller of what this process may take and a share of the installed memory.
pub(crate) fn allowed_memory() -> Result<MemoryLimit, PriceError> {
    let limit = limits::own_memory()?;
    let share = Bytes(meminfo::read()?.total.0 / SHARE);
    if share < limit.bytes {
        let bound_by = format!("1/{SHARE} of the installed memory");
        return Ok(MemoryLimit { bytes: share, bound_by });
    }
    Ok(limit)
}

/// Fails if `resident` is large and no longer free.
pub(crate) fn still_free(resident: Bytes) -> Result<(), PriceError> {
    if resident >= LARGE && resident > limits::own_memory()?.bytes {
        let text = format!("{resident} is no longer free for an experiment");
        return Err(PriceError::Unavailable(text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: BenchCost = BenchCost {
        points: 1,
        samples: 3,
        about_ns: Nanos(0),
        cap_ns: Nanos::secs(100),
        memory_bytes: Bytes(0),
    };

    #[test]
    fn a_run_shows_how_far_it_is_and_when_it_is_over() {
        let mut shown = Vec::new();
        let show = &mut |p: &BenchProgress<'_, u8>| shown.push((p.done, p.total, *p.point));
        let shuffle = &mut |order: &mut [usize]| order.reverse();
        let callbacks = BenchCallbacks { shuffle, stop: &|| false, show };
        let mut rounds = BenchRounds::begin(callbacks, &COST, "all of it");
        assert_eq!((rounds.shuffled(3), rounds.shuffle(vec![5, 9])), (vec![2, 1, 0], vec![9, 5]));
        rounds.show(&7);
        rounds.pass_over();
        rounds.show(&8);
        assert_eq!((rounds.place, rounds.taken(), rounds.taken()), (0, 0, 1));
        assert!(!rounds.is_over());
        rounds.end_at(Nanos(1));
        let over = rounds.check().expect_err("over").to_string();
        assert!(rounds.is_over() && over.contains("the time for all of it was up"), "{over}");
        assert_eq!(shown, [(0, 3, 7), (2, 3, 8)]);
        let show = &mut |_: &BenchProgress<'_, u8>| ();
        let callbacks = BenchCallbacks { shuffle: &mut |_| (), stop: &|| true, show };
        let rounds = BenchRounds::begin(callbacks, &COST, "all");
        assert!(matches!(rounds.check(), Err(PriceError::Interrupted)));
    }

    #[test]
    fn the_two_of_a_pair_are_measured_one_after_the_other() {
        let shuffle = &mut |order: &mut [usize]| order.rotate_left(1);
        let show = &mut |_: &BenchProgress<'_, u8>| ();
        let callbacks = BenchCallbacks { shuffle, stop: &|| false, show };
        let mut rounds = BenchRounds::begin(callbacks, &COST, "all");
        assert_eq!(rounds.shuffled_pairs(6), [3, 2, 5, 4, 1, 0]);
        assert_eq!(rounds.shuffled_pairs(3), [2, 1, 0]);
    }

    #[test]
    fn a_page_that_a_sample_has_shown_stays_known() {
        let gone = || PriceError::Unavailable("gone".into());
        let known = Fact::Known(PageSize::BASE_4K);
        let (mut samples, mut page, mut refused) = (Vec::new(), Fact::missing("not yet"), None);
        note(Ok((7, known.clone())), (&mut samples, &mut page, &mut refused));
        assert_eq!((&samples, &page, &refused), (&vec![7], &known, &None));
        note(Err(gone()), (&mut samples, &mut page, &mut refused));
        assert_eq!(refused, Some(gone().to_string()));
        assert_eq!((&samples, &page), (&vec![7], &known));
        note(Err(gone()), (&mut Vec::<i32>::new(), &mut page, &mut refused));
        assert_eq!(page, Fact::missing(gone().to_string()));
    }

    #[test]
    fn a_point_that_failed_is_left_alone() {
        type Point = (Vec<(u32, u32)>, Fact<PageSize>, Option<String>);
        fn slot((samples, page, refused): &mut Point) -> Slot<'_, (u32, u32)> {
            (samples, page, refused)
        }
        let new = || -> Point { (Vec::new(), Fact::missing("not yet"), None) };
        let mut points = [new(), new()];
        points[0].2 = Some("not here".to_owned());
        let (shuffle, show) = (&mut |_: &mut [usize]| (), &mut |_: &BenchProgress<'_, Point>| ());
        let callbacks = BenchCallbacks { shuffle, stop: &|| false, show };
        let mut rounds = BenchRounds::begin(callbacks, &COST, "all");
        for repeat in 0..2 {
            rounds.round(&mut points, repeat, slot, |_, _, turn| {
                Ok(((turn.repeat, turn.place), Fact::Known(PageSize::BASE_4K)))
            });
        }
        assert_eq!((&points[0].0, &points[1].0), (&vec![], &vec![(0, 0), (1, 1)]));
        assert_eq!(rounds.done, 4);
    }
}
