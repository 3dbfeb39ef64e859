//! Pages that come back: given away, and reused when no reference to them is left.
//!
//! No interface shows a program whether its pages are still referenced, but the kernel checks it
//! at every copy-on-write. The next write copies a private page that `fork(2)` has made shared,
//! unless this mapping holds the only reference to it (`do_wp_page` and `do_huge_pmd_wp_page` in
//! mm/). References that vmsplice has put into a pipe count there, wherever they were sent. So we have
//! the kernel share our pages with a child that is gone immediately. From then on, holders of references
//! keep the bytes unchanged, and a page without other holders is written in place, without clearing or
//! copying.
//!
//! The child need not even start. `clone3(2)` is asked for a process number that cannot exist. The kernel
//! copies the page tables first and looks at the number later (`copy_process` in kernel/fork.c), so it
//! shares the pages, answers EINVAL, and undoes everything but the sharing. If it refuses the call in another
//! way (a filter, Linux before 5.5), a child is made that ends immediately, by `clone(2)` with our
//! table of descriptors, so that it keeps none open, and without a signal at its end, so that no other
//! `wait(2)` or SIGCHLD sees it. Only here is the region inherited.
//!
//! Kernels before 5.9, and before 5.18 for huge pages, looked only at mappings and wrote such pages
//! under their readers. This module does not compare versions: it tries each way once in a process, for
//! each kind of page. Later it looks each time whether a write to the first page takes a fault
//! (`getrusage(2)`), because a filter may answer EINVAL as well. If no way works, if there is no huge page to
//! try it on, or if nothing was shared, the content is moved to fresh pages instead.
//!
//! A process that has ever pinned memory (O_DIRECT, io_uring) shares no pinned page with a child: the
//! child gets a copy, and ours stays writable. A base page with 1024 references looks pinned
//! (`folio_maybe_dma_pinned` in include/linux/mm.h), so the content is also moved if half as
//! many of one page may have been passed on. Not seen: references that readers add (tee(2)), which
//! must stay below the other half.
//!
//! Overhead: 50 to 80 us for a small process (0.1 to 0.3 ms where a child is made), more for one with much
//! memory, whose page tables are copied and whose next writes fault; then a fault for each written
//! page, some 1 us for a huge one.

#![allow(
    unsafe_code,
    reason = "clone of a child that ends at once; a page that is written in a pipe"
)]

use super::proof;
use super::region::{BufferPages, BufferRegion, last_error};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags};
use std::os::fd::AsFd;
use std::sync::OnceLock;

/// The most references to one page that are handed out before its content is moved.
const MOST_REFERENCES: usize = 512;

/// Bounds of the references that were handed out to any one page of a region.
#[derive(Debug, Default)]
pub(super) struct PageReferences {
    /// In rounds before this one, since the content was moved.
    before: usize,
    /// In this round.
    most: usize,
    /// For the page that contains the next bytes, if a part of it was given in this round.
    last: usize,
}

impl PageReferences {
    /// Notes a call that handed over `len` bytes behind those that were `given` in this round.
    pub(super) fn note(&mut self, given: usize, len: usize) {
        let page = BufferPages::Base.size();
        let into = given % page;
        self.last = if into == 0 { 1 } else { self.last + 1 };
        self.most = self.most.max(self.last);
        if into + len > page {
            self.last = 1;
        }
    }

    /// Ends a round; whether the pages may be handed out in another one.
    fn allow_another_round(&mut self) -> bool {
        *self = Self { before: self.before + self.most, ..Self::default() };
        self.before < MOST_REFERENCES
    }
}

/// Makes all of `memory` writable without changing what holders of references see. Its content stays.
///
/// # Errors
///
/// ENOMEM; the region must then not be written.
pub(super) fn take_back(
    memory: &mut BufferRegion,
    references: &mut PageReferences,
) -> Result<(), Errno> {
    let may_stay = references.allow_another_round();
    if may_stay && way_to_share(memory.pages()).is_some_and(|way| way.share(memory).is_ok()) {
        return Ok(());
    }
    memory.move_content()?;
    *references = PageReferences::default();
    Ok(())
}

/// Whether pages of this kind are taken back without moving their content and without a child process.
pub(super) fn works_without_child(pages: BufferPages) -> bool {
    way_to_share(pages) == Some(PageSharing::Refused)
}

/// How pages become shared, so that the kernel looks at their references.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PageSharing {
    /// With a child that the kernel begins to make, and then refuses.
    Refused,
    /// With a child that ends.
    Ended,
}

impl PageSharing {
    /// Shares the pages of `memory` and waits until no other process has them.
    fn share(self, memory: &mut BufferRegion) -> Result<(), Errno> {
        // From now on a write to the first page takes a fault only if it is shared.
        touch(memory);
        memory.inherit(true)?;
        let shared = match self {
            Self::Refused => begin_child(),
            Self::Ended => make_child().and_then(wait_for),
        };
        memory.inherit(false)?;
        shared?;
        let before = faults()?;
        touch(memory);
        // A filter's EINVAL has shared nothing.
        if faults()? == before { Err(Errno::NOSYS) } else { Ok(()) }
    }
}

/// Writes the current value to the first page.
fn touch(memory: &mut BufferRegion) {
    let first = &mut memory.as_mut_bytes()[0];
    *first = std::hint::black_box(*first);
}

/// Page faults of this thread that needed no reading.
pub(crate) fn faults() -> Result<u64, Errno> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: `usage` is a place for the result.
    if unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) } != 0 {
        return Err(last_error());
    }
    // SAFETY: the call has set all of it.
    Ok(unsafe { usage.assume_init() }.ru_minflt.unsigned_abs())
}

/// The first way after which a write to memory does not change what a pipe holds of it.
fn way_to_share(pages: BufferPages) -> Option<PageSharing> {
    static BASE: OnceLock<Option<PageSharing>> = OnceLock::new();
    static HUGE: OnceLock<Option<PageSharing>> = OnceLock::new();
    let known = if pages == BufferPages::Base { &BASE } else { &HUGE };
    let works = |way: &PageSharing| first_value_stays(pages, *way).unwrap_or(false);
    *known.get_or_init(|| [PageSharing::Refused, PageSharing::Ended].into_iter().find(works))
}

/// Passes a page on, shares it, overwrites it and checks what was passed on.
fn first_value_stays(pages: BufferPages, way: PageSharing) -> Result<bool, Errno> {
    const FIRST: u8 = 0xa5;
    let mut memory = BufferRegion::anonymous(pages.size(), pages)?;
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    memory.as_mut_bytes()[0] = FIRST;
    if !proof::page_size(&memory).is_ok_and(|size| size == pages.size()) {
        return Err(Errno::NOMEM);
    }
    // SAFETY: the pipe is our own and `writer` its writing end; a change of the page that shows
    // there is what this function is to find.
    unsafe { memory.vmsplice(writer.as_fd(), 0..1, SpliceFlags::NONBLOCK) }?;
    way.share(&mut memory)?;
    memory.as_mut_bytes()[0] = !FIRST;
    let mut found = [0_u8];
    rustix::io::read(&reader, &mut found)?;
    Ok(found == [FIRST])
}

/// Has the kernel copy our page tables for a child that it then refuses to make.
fn begin_child() -> Result<(), Errno> {
    // Beyond every limit of process numbers.
    let number = libc::pid_t::MAX;
    let arguments = libc::clone_args {
        flags: libc::CLONE_FILES as u64,
        set_tid: &raw const number as u64,
        set_tid_size: 1,
        ..NO_ARGUMENTS
    };
    // SAFETY: as in `make_child` where a child is made after all; `arguments` and the number in it
    // outlive the call.
    let pid = unsafe {
        libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<libc::clone_args>())
    };
    match part(pid) {
        Err(Errno::INVAL) => Ok(()),
        Err(errno) => Err(errno),
        Ok(child) => wait_for(child).and(Err(Errno::NOSYS)),
    }
}

/// A call that makes an ordinary child, like fork(2), and requests nothing else.
const NO_ARGUMENTS: libc::clone_args = libc::clone_args {
    flags: 0,
    pidfd: 0,
    child_tid: 0,
    parent_tid: 0,
    exit_signal: 0,
    stack: 0,
    stack_size: 0,
    tls: 0,
    set_tid: 0,
    set_tid_size: 0,
    cgroup: 0,
};

/// A child that ends immediately.
fn make_child() -> Result<libc::pid_t, Errno> {
    let (flags, none) = (libc::c_long::from(libc::CLONE_FILES), 0 as libc::c_long);
    // SAFETY: without shared memory and without a stack this is as fork(2), and the child returns
    // here as the parent does; it makes one call, below, that ends it, and so neither touches a
    // descriptor nor meets a lock that another thread held.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, none, none, none, none) };
    part(pid)
}

/// Ends the process if it is the child. Returns the child's number in the parent.
fn part(pid: libc::c_long) -> Result<libc::pid_t, Errno> {
    match libc::pid_t::try_from(pid) {
        Ok(0) => {
            // SAFETY: ends the child; nothing of the parent's is run or written out.
            unsafe { libc::_exit(0) }
        }
        Ok(pid) if pid > 0 => Ok(pid),
        _ => Err(last_error()),
    }
}

/// Waits until a child has ended and given its memory back.
fn wait_for(child: libc::pid_t) -> Result<(), Errno> {
    loop {
        // SAFETY: the status is not requested, so nothing is written.
        let ended = unsafe { libc::waitpid(child, std::ptr::null_mut(), libc::__WALL) };
        match last_error() {
            _ if ended == child => return Ok(()),
            Errno::INTR => {}
            // Other code has already reaped it, so it has ended.
            Errno::CHILD => return Ok(()),
            errno => return Err(errno),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// Waits until no other test of this process shares page tables: that costs all threads faults, and a
    /// copy that lends ends when it counts too many.
    pub(crate) fn only_sharer() -> MutexGuard<'static, ()> {
        static TURN: Mutex<()> = Mutex::new(());
        TURN.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A region of two pages of a kind, filled with `value`.
    fn filled(pages: BufferPages, value: u8) -> BufferRegion {
        let mut memory = BufferRegion::anonymous(2 * pages.size(), pages).unwrap();
        memory.as_mut_bytes().fill(value);
        memory
    }

    #[test]
    fn content_stays_whichever_way() {
        let _turn = only_sharer();
        for pages in [BufferPages::Base, BufferPages::Huge] {
            let (mut shared, mut moved) = (filled(pages, 1), filled(pages, 2));
            take_back(&mut shared, &mut PageReferences::default()).unwrap();
            moved.move_content().unwrap();
            assert!(shared.as_bytes().iter().all(|byte| *byte == 1));
            assert!(moved.as_bytes().iter().all(|byte| *byte == 2));
            assert_eq!(moved.len(), 2 * pages.size());
        }
    }

    #[test]
    fn what_a_pipe_holds_stays_when_content_is_moved() {
        let mut memory = filled(BufferPages::Base, 1);
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        // SAFETY: `writer` is the writing end of our own pipe; the pages are replaced before the
        // next write.
        unsafe { memory.vmsplice(writer.as_fd(), 0..10, SpliceFlags::empty()) }.unwrap();
        memory.move_content().unwrap();
        memory.as_mut_bytes().fill(9);
        let mut found = [0; 10];
        assert_eq!(rustix::io::read(&reader, &mut found), Ok(10));
        assert_eq!(found, [1; 10]);
    }

    #[test]
    fn references_to_a_page_are_bounded_over_rounds() {
        let page = BufferPages::Base.size();
        let round = |lens: &[usize]| {
            let (mut references, mut given) = (PageReferences::default(), 0);
            for len in lens {
                references.note(given, *len);
                given += len;
            }
            references.most
        };
        assert_eq!(round(&[]), 0);
        assert_eq!(round(&[page, 3 * page, 10 * page]), 1);
        assert_eq!(round(&[page + 1, page - 1, page / 2, page]), 2);
        assert_eq!(round(&[page / 2, 1, 1, page, 1]), 4);
        let mut references = PageReferences::default();
        let mut rounds = 0;
        while references.allow_another_round() {
            references.note(0, page);
            rounds += 1;
        }
        assert_eq!(rounds, MOST_REFERENCES);
    }

    #[test]
    fn a_child_that_somebody_waited_for_has_ended() {
        let _turn = only_sharer();
        let child = make_child().unwrap();
        assert_eq!(wait_for(child), Ok(()));
        assert_eq!(wait_for(child), Ok(()));
    }

    #[test]
    #[allow(clippy::print_stdout, reason = "a skipped test says so")]
    fn each_way_to_share_keeps_the_first_value() {
        let _turn = only_sharer();
        for pages in [BufferPages::Base, BufferPages::Huge] {
            let mut first = None;
            for way in [PageSharing::Refused, PageSharing::Ended] {
                match first_value_stays(pages, way) {
                    Ok(true) => first = first.or(Some(way)),
                    other => println!("SKIP sharing {pages:?} by {way:?}: {other:?}"),
                }
            }
            assert_eq!(way_to_share(pages), first, "{pages:?}");
        }
    }
}
