//! The same bytes to many sinks.
//!
//! Each piece is read once and written to each sink. This is exact whatever the writer of the source does
//! (`route`). With [`FanOut::live`] pages of a pipe go by reference instead. The input is spliced into our own
//! pipe, `tee(2)` copies each sink's share to a second one, and that is emptied into the sink. So pages are
//! counted and not copied. The second pipe is empty when `tee` is called and has as many slots as the first,
//! so a share is complete. If it is not, or anything is refused, the bytes in our pipe and all later ones are
//! read and written by hand. The source is then polled a few times before sleeping, as in a copy (`polling`).
//! Sinks are served in turn, and the slowest sets the pace, as in tee(1).

use super::calls::{CopyCalls, KernelCalls, TransferCall};
use super::memory::AlignedBuffer;
use super::outlet::CopyOutlet;
use super::polling::SourcePolling;
use super::uncached::UncachedCalls;
use super::{BUFFER, CopyError, CopySide, grow};
use crate::end::{CopyEnd, DescriptorKind};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A fan-out to be made.
///
/// # Examples
///
/// ```
/// use std::io::{Read, Write};
/// let (from, mut feed) = std::io::pipe()?;
/// let (mut left, to_left) = std::io::pipe()?;
/// let (mut right, to_right) = std::io::pipe()?;
/// feed.write_all(b"twice")?;
/// drop(feed);
/// let sinks = [to_left, to_right];
/// let moved = pagewise_lanes::FanOut::new(&from, &sinks).run(|_sink, _error| true)?;
/// drop(sinks);
/// let (mut a, mut b) = (String::new(), String::new());
/// left.read_to_string(&mut a)?;
/// right.read_to_string(&mut b)?;
/// assert_eq!((moved, a.as_str(), b.as_str()), (5, "twice", "twice"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct FanOut<'a> {
    from: BorrowedFd<'a>,
    to: Vec<BorrowedFd<'a>>,
    live: bool,
    leaves_cache: bool,
    watches: bool,
}

impl<'a> FanOut<'a> {
    /// From `from` to all of `to`.
    pub fn new(from: &'a impl AsFd, to: &'a [impl AsFd]) -> Self {
        let to = to.iter().map(AsFd::as_fd).collect();
        Self { from: from.as_fd(), to, live: false, leaves_cache: false, watches: false }
    }

    /// Passes the content of a pipe on by reference, and grows that pipe.
    ///
    /// **Dangerous if its writer lends pages** (`vmsplice(2)`, `splice(2)`): the readers get whatever is in
    /// these pages when they read, including later writes.
    #[must_use]
    pub fn live(mut self) -> Self {
        self.live = true;
        self
    }

    /// Leaves nothing of regular files in the page cache that was not there before, as [`super::CopyJob::past_cache`].
    #[must_use]
    pub fn past_cache(mut self) -> Self {
        self.leaves_cache = true;
        self
    }

    /// Detects that the reader of a sink has closed its end while there is no input. The sink then fails with
    /// EPIPE (`poll(2)` before each read) before the next write. Input is copied, also with [`FanOut::live`].
    #[must_use]
    pub fn watch_sinks(mut self) -> Self {
        self.watches = true;
        self
    }

    /// Moves everything. Returns the number of bytes that came in. A sink that fails is left out from then
    /// on. `failed` gets its place in the list and the error, and ends everything by returning `false`.
    ///
    /// # Errors
    ///
    /// An error of the source, or the error of the sink at which `failed` returned `false`.
    pub fn run(self, failed: impl FnMut(usize, CopyError) -> bool) -> Result<u64, CopyError> {
        self.run_on(&KernelCalls, failed)
    }

    pub(super) fn run_on(
        self,
        calls: &impl CopyCalls,
        mut failed: impl FnMut(usize, CopyError) -> bool,
    ) -> Result<u64, CopyError> {
        if !self.leaves_cache {
            return self.spread(calls, failed);
        }
        let past = UncachedCalls::new(calls, std::iter::once(self.from).chain(self.to.clone()));
        let mut has_failed = vec![false; self.to.len()];
        let done = self.spread(&past, |sink, error| {
            has_failed[sink] = true;
            failed(sink, error)
        });
        let errors = past.finish(done.unwrap_or_else(|error| error.moved));
        let moved = done?;
        for (end, error) in errors {
            let goes_on =
                end.checked_sub(1).is_some_and(|sink| has_failed[sink] || failed(sink, error));
            if !goes_on {
                return Err(error);
            }
        }
        Ok(moved)
    }

    fn spread(
        self,
        calls: &impl CopyCalls,
        failed: impl FnMut(usize, CopyError) -> bool,
    ) -> Result<u64, CopyError> {
        let source = CopyEnd::of(self.from).map_err(|errno| CopyError {
            side: CopySide::Source,
            call: "fstat",
            errno,
            moved: 0,
        })?;
        let is_pipe = |to| CopyEnd::of(to).is_ok_and(|end| end.kind == DescriptorKind::Pipe);
        let outlets = self.to.iter().map(|&to| CopyOutlet {
            calls,
            to,
            moved: 0,
            grows: is_pipe(to),
            interrupts: false,
        });
        let outlets = outlets.map(Some).collect();
        let polling = SourcePolling::new(source.kind == DescriptorKind::Pipe);
        let watched = self.to.iter().map(|&to| self.watches && is_pipe(to)).collect();
        let mut spread =
            FanOutEngine { calls, from: self.from, polling, outlets, watched, failed, moved: 0 };
        if self.live && !self.watches && !self.leaves_cache && source.kind == DescriptorKind::Pipe {
            grow(calls, self.from);
            spread.by_reference()?;
        }
        spread.by_copying()
    }
}

/// A fan-out at work.
struct FanOutEngine<'a, C, F> {
    calls: &'a C,
    from: BorrowedFd<'a>,
    polling: SourcePolling,
    outlets: Vec<Option<CopyOutlet<'a, C>>>,
    /// Sinks whose readers are watched.
    watched: Vec<bool>,
    failed: F,
    moved: u64,
}

/// A private pipe: reading end, writing end.
type Pipe = (OwnedFd, OwnedFd);

/// The result of sharing the bytes in our pipe.
enum TeeOutcome {
    /// Every sink has it and our pipe is empty.
    Whole,
    /// Every remaining sink has it. Our pipe still holds bytes that a failed one did not take.
    Stale,
    /// It had to be read and written by hand.
    ByHand,
}

/// Moves the `held` bytes of our pipe to a sink, by hand if the kernel refuses a splice.
fn pass(
    outlet: &mut CopyOutlet<'_, impl CopyCalls>,
    pipe: &OwnedFd,
    mut held: usize,
) -> Result<(), CopyError> {
    if outlet.splice_all(pipe, &mut held)? { Ok(()) } else { outlet.drain(pipe, held) }
}

impl<'a, C: CopyCalls, F: FnMut(usize, CopyError) -> bool> FanOutEngine<'a, C, F> {
    /// Moves bytes through our pipes until the source's end or a refusal. [`Self::by_copying`] continues from
    /// there.
    fn by_reference(&mut self) -> Result<(), CopyError> {
        let (Some((mut first, mut capacity)), Some((mut second, _))) = (self.pipe(), self.pipe())
        else {
            return Ok(());
        };
        while self.outlets.iter().any(Option::is_some) {
            let (calls, from, to) = (self.calls, self.from, first.1.as_fd());
            let n = match self.polling.splice(|how| calls.transfer(how, from, to, capacity)) {
                Ok(0) => return Ok(()),
                Ok(n) => n,
                Err(Errno::INTR) => continue,
                Err(_) => return Ok(()),
            };
            self.moved += n as u64;
            match self.share(&first.0, &mut second, n)? {
                TeeOutcome::Whole => {}
                TeeOutcome::ByHand => return Ok(()),
                TeeOutcome::Stale => {
                    let Some(fresh) = self.pipe() else { return Ok(()) };
                    (first, capacity) = fresh;
                }
            }
        }
        Ok(())
    }

    /// A new private pipe, grown, and its capacity.
    fn pipe(&self) -> Option<(Pipe, usize)> {
        let pipe = self.calls.pipe().ok()?;
        let capacity = grow(self.calls, pipe.1.as_fd());
        (capacity > 0).then_some((pipe, capacity))
    }

    /// Gives the `held` bytes of the first pipe to every sink: all but the last get a copy of the
    /// references through the second pipe, the last gets those of the first.
    fn share(
        &mut self,
        first: &OwnedFd,
        second: &mut Pipe,
        held: usize,
    ) -> Result<TeeOutcome, CopyError> {
        let alive = |outlets: &[Option<_>]| outlets.iter().rposition(Option::is_some);
        let Some(last) = alive(&self.outlets) else { return Ok(TeeOutcome::Stale) };
        let mut given = vec![0; self.outlets.len()];
        for index in 0..last {
            if self.outlets[index].is_none() {
                continue;
            }
            let (from, to) = (first.as_fd(), second.1.as_fd());
            let Ok(copied) = self.calls.transfer(TransferCall::Tee, from, to, held) else {
                return self.by_hand(first, held, &given);
            };
            given[index] = copied;
            let to = &second.0;
            let is_empty = self.serve(index, |outlet| pass(outlet, to, copied))?;
            match self.pipe() {
                _ if is_empty => {}
                Some((fresh, _)) => *second = fresh,
                None => return self.by_hand(first, held, &given),
            }
            if copied < held {
                return self.by_hand(first, held, &given);
            }
        }
        let is_empty = self.serve(last, |outlet| pass(outlet, first, held))?;
        Ok(if is_empty { TeeOutcome::Whole } else { TeeOutcome::Stale })
    }

    /// Writes to each sink the part of our pipe's `held` bytes that it does not have yet.
    fn by_hand(
        &mut self,
        pipe: &OwnedFd,
        held: usize,
        given: &[usize],
    ) -> Result<TeeOutcome, CopyError> {
        let mut bytes = vec![0; held];
        let mut have = 0;
        while have < held {
            match self.reader().read(pipe.as_fd(), &mut bytes[have..])? {
                0 => return Err(self.reader().error(CopySide::Source, "read", Errno::IO)),
                n => have += n,
            }
        }
        for (index, given) in given.iter().enumerate() {
            self.serve(index, |outlet| outlet.write_all(&bytes[*given..]))?;
        }
        Ok(TeeOutcome::ByHand)
    }

    /// What reads for all sinks together.
    fn reader(&self) -> CopyOutlet<'a, C> {
        CopyOutlet {
            calls: self.calls,
            to: self.from,
            moved: self.moved,
            grows: false,
            interrupts: false,
        }
    }

    /// Serves one sink. If it fails, it is left out from then on and the result is false.
    fn serve(
        &mut self,
        index: usize,
        give: impl FnOnce(&mut CopyOutlet<'a, C>) -> Result<(), CopyError>,
    ) -> Result<bool, CopyError> {
        let Some(outlet) = &mut self.outlets[index] else { return Ok(true) };
        let Err(error) = give(outlet) else { return Ok(true) };
        self.outlets[index] = None;
        if (self.failed)(index, error) { Ok(false) } else { Err(error) }
    }

    /// Waits for input. Meanwhile, leaves out watched sinks without a reader. Returns false if no sink is
    /// left.
    fn await_source(&mut self) -> Result<bool, CopyError> {
        loop {
            let left: Vec<usize> = (0..self.outlets.len())
                .filter(|&index| self.outlets[index].is_some() && self.watched[index])
                .collect();
            if left.is_empty() {
                return Ok(self.outlets.iter().any(Option::is_some));
            }
            let sinks = left.iter().filter_map(|&index| Some(self.outlets[index].as_ref()?.to));
            let sinks = sinks.map(|to| PollFd::from_borrowed_fd(to, PollFlags::empty()));
            let source = PollFd::from_borrowed_fd(self.from, PollFlags::IN);
            let mut all: Vec<PollFd<'_>> = std::iter::once(source).chain(sinks).collect();
            // An error of poll itself: reading reports the cause.
            if poll(&mut all, None).is_err() || !all[0].revents().is_empty() {
                return Ok(true);
            }
            let gone: Vec<bool> =
                all[1..].iter().map(|sink| sink.revents().contains(PollFlags::ERR)).collect();
            for (index, is_gone) in left.into_iter().zip(gone) {
                let broken = |outlet: &mut CopyOutlet<'a, C>| {
                    Err(outlet.error(CopySide::Sink, "poll", Errno::PIPE))
                };
                if is_gone {
                    self.serve(index, broken)?;
                }
            }
        }
    }

    /// Reads once and writes to each, until the source's end or until no sink is left.
    fn by_copying(mut self) -> Result<u64, CopyError> {
        let mut buffer = AlignedBuffer::new(BUFFER);
        while self.await_source()? {
            let n = self.reader().read(self.from, buffer.bytes())?;
            if n == 0 {
                return Ok(self.moved);
            }
            self.moved += n as u64;
            for index in 0..self.outlets.len() {
                self.serve(index, |outlet| outlet.write_all(&buffer.bytes()[..n]))?;
            }
        }
        Ok(self.moved)
    }
}
