//! What a bench that goes through its points in rounds needs from its caller, and its course: in which
//! order points come, how far it is, and when it is over.

use crate::error::PriceError;
use crate::sample::Stop;
use pagewise_kernel::clock;
use pagewise_model::{Fact, Nanos};

/// How far a run is.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a, P> {
    /// Samples that are done.
    pub done: u64,
    /// Samples in all.
    pub total: u64,
    /// The point that is measured now.
    pub point: &'a P,
}

/// Order, interruption and display.
pub struct Company<'a, P> {
    /// Puts indices into random order, by the seed of the plan.
    pub shuffle: &'a mut dyn FnMut(&mut [usize]),
    /// Whether the caller wants no more.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// Told before each sample.
    pub tell: &'a mut dyn FnMut(&Progress<'_, P>),
}

impl<P> std::fmt::Debug for Company<'_, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Company").finish_non_exhaustive()
    }
}

/// A run under way.
#[derive(Debug)]
pub(crate) struct Course<'a, P> {
    company: Company<'a, P>,
    end: Nanos,
    done: u64,
    total: u64,
    place: u32,
}

impl<'a, P> Course<'a, P> {
    /// One of `total` samples, which is over after `cap`.
    pub(crate) fn begin(company: Company<'a, P>, cap: Nanos, total: u64) -> Self {
        Self { company, end: clock::now() + cap, done: 0, total, place: 0 }
    }

    /// Indices below `count` in a new order.
    pub(crate) fn shuffled(&mut self, count: usize) -> Vec<usize> {
        self.shuffle((0..count).collect())
    }

    /// These indices in a new order.
    pub(crate) fn shuffle(&mut self, mut indices: Vec<usize>) -> Vec<usize> {
        (self.company.shuffle)(&mut indices);
        indices
    }

    /// Whether the caller wants no more.
    pub(crate) fn stop(&self) -> Stop<'a> {
        Stop(self.company.stop)
    }

    /// Moves the end.
    pub(crate) fn end_at(&mut self, end: Nanos) {
        self.end = end;
    }

    /// What is left of the time.
    pub(crate) fn left(&self) -> Nanos {
        Nanos(self.end.0.saturating_sub(clock::now().0))
    }

    /// Whether no further sample is to be taken.
    pub(crate) fn is_over(&self) -> bool {
        self.check("all").is_err()
    }

    /// Fails where no further sample is to be taken; `all` is what the time was for.
    pub(crate) fn check(&self, all: &str) -> Result<(), PriceError> {
        self.stop().check()?;
        if self.left() == Nanos(0) {
            return Err(PriceError::Unavailable(format!("the time for {all} was up")));
        }
        Ok(())
    }

    /// The next sample is of `point`.
    pub(crate) fn tell(&mut self, point: &P) {
        (self.company.tell)(&Progress { done: self.done, total: self.total, point });
        self.done += 1;
    }

    /// The next sample is left out.
    pub(crate) fn pass_over(&mut self) {
        self.done += 1;
    }

    /// Which one of those that were taken the next will be.
    pub(crate) const fn place(&self) -> u32 {
        self.place
    }

    /// It was taken; gives its place.
    pub(crate) fn taken(&mut self) -> u32 {
        self.place += 1;
        self.place - 1
    }
}

/// Notes what came of a mapping of a point: a sample and on which `page` it was, or why the point is left
/// alone from now on. On which page it is stays known where a sample has shown it.
pub(crate) fn note<S, T>(
    taken: Result<(S, Fact<T>), PriceError>,
    samples: &mut Vec<S>,
    page: &mut Fact<T>,
    refused: &mut Option<String>,
) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_course_tells_how_far_it_is_and_when_it_is_over() {
        let mut told = Vec::new();
        let tell = &mut |p: &Progress<'_, u8>| told.push((p.done, p.total, *p.point));
        let shuffle = &mut |order: &mut [usize]| order.reverse();
        let mut course =
            Course::begin(Company { shuffle, stop: &|| false, tell }, Nanos::secs(100), 3);
        assert_eq!((course.shuffled(3), course.shuffle(vec![5, 9])), (vec![2, 1, 0], vec![9, 5]));
        course.tell(&7);
        course.pass_over();
        course.tell(&8);
        assert_eq!((course.place(), course.taken(), course.taken()), (0, 0, 1));
        assert!(!course.is_over());
        course.end_at(Nanos(1));
        let over = course.check("all of it").expect_err("over").to_string();
        assert!(course.is_over() && over.contains("the time for all of it was up"), "{over}");
        assert_eq!(told, [(0, 3, 7), (2, 3, 8)]);
        let company =
            Company { shuffle: &mut |_| (), stop: &|| true, tell: &mut |_: &Progress<'_, u8>| () };
        let course = Course::begin(company, Nanos::secs(100), 1);
        assert!(matches!(course.check("all"), Err(PriceError::Interrupted)));
    }

    #[test]
    fn a_page_that_a_sample_has_shown_stays_known() {
        let gone = || PriceError::Unavailable("gone".into());
        let (mut samples, mut page, mut refused) = (Vec::new(), Fact::missing("not yet"), None);
        note(Ok((7, Fact::Known(4096))), &mut samples, &mut page, &mut refused);
        assert_eq!((&samples, &page, &refused), (&vec![7], &Fact::Known(4096), &None));
        note(Err(gone()), &mut samples, &mut page, &mut refused);
        assert_eq!(refused, Some(gone().to_string()));
        assert_eq!((&samples, &page), (&vec![7], &Fact::Known(4096)));
        note(Err(gone()), &mut Vec::<i32>::new(), &mut page, &mut refused);
        assert_eq!(page, Fact::missing(gone().to_string()));
    }
}
