//! Pages that come back: given away, and used again when nobody refers to them any more.
//!
//! No interface tells a program whether its pages are still referred to, but the kernel asks itself
//! at every copy-on-write: a private page that `fork(2)` has made shared is copied by the next write
//! unless this mapping holds the only reference to it (`do_wp_page` and `do_huge_pmd_wp_page` in
//! mm/). What vmsplice has put into a pipe counts there, wherever it was sent on. So a child is made
//! that ends at once. From then on whoever holds references keeps the bytes as they were, and a
//! page that nobody holds is written in place, without having been cleared or copied.
//!
//! Kernels before 5.9, and before 5.18 for huge pages, looked only at mappings and wrote such pages
//! under their readers. No version is asked for: once in a process, for each kind of page, this is
//! tried. Where it does not hold, and where a child cannot be made, the content is moved to fresh
//! pages instead.
//!
//! The child is made by `clone(2)` without flags and without a signal at its end, so that nobody
//! else's `wait(2)` or SIGCHLD sees it. It holds copies of all descriptors while it lives. Only here
//! is the region inherited. Overhead: 0.1 to 0.3 ms for a small process, more for one with much
//! memory, whose page tables are copied and whose next writes fault; then a fault for each page
//! written, some 3 us for a huge one.

#![allow(
    unsafe_code,
    reason = "clone of a child that ends at once; a page that is written in a pipe"
)]

use super::region::{Pages, Region};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags};
use std::os::fd::AsFd;
use std::sync::OnceLock;

/// Makes all of `memory` writable without a change to what others hold of it. Its content stays.
///
/// # Errors
///
/// ENOMEM; the region must then not be written.
pub(super) fn take_back(memory: &mut Region) -> Result<(), Errno> {
    if keeps_references(memory.pages()) && share_with_child(memory).is_ok() {
        return Ok(());
    }
    memory.move_content()
}

/// Whether a write to memory that a child has shared leaves what a pipe holds of it.
fn keeps_references(pages: Pages) -> bool {
    static BASE: OnceLock<bool> = OnceLock::new();
    static HUGE: OnceLock<bool> = OnceLock::new();
    let known = if pages == Pages::Base { &BASE } else { &HUGE };
    *known.get_or_init(|| first_value_stays(pages).unwrap_or(false))
}

/// Hands a page over, shares it, overwrites it and looks at what was handed over.
fn first_value_stays(pages: Pages) -> Result<bool, Errno> {
    const FIRST: u8 = 0xa5;
    let mut memory = Region::anonymous(pages.size(), pages)?;
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    memory.as_mut_bytes()[0] = FIRST;
    // SAFETY: the pipe is our own and `writer` its writing end; a change of the page that shows
    // there is what this function is to find.
    unsafe { memory.vmsplice(writer.as_fd(), 0..1, SpliceFlags::NONBLOCK) }?;
    share_with_child(&memory)?;
    memory.as_mut_bytes()[0] = !FIRST;
    let mut found = [0_u8];
    rustix::io::read(&reader, &mut found)?;
    Ok(found == [FIRST])
}

/// Lets a child share the pages of `memory`, and end.
fn share_with_child(memory: &Region) -> Result<(), Errno> {
    memory.inherit(true)?;
    let shared = make_child().and_then(wait_for);
    memory.inherit(false)?;
    shared
}

/// A child that ends at once.
fn make_child() -> Result<libc::pid_t, Errno> {
    let none: libc::c_long = 0;
    // SAFETY: without flags and without a stack this is fork(2), and the child returns here as the
    // parent does; it makes one call, below, that ends it, and so never meets a lock that another
    // thread held.
    let pid = unsafe { libc::syscall(libc::SYS_clone, none, none, none, none, none) };
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
        // SAFETY: the status is not asked for, so nothing is written.
        let ended = unsafe { libc::waitpid(child, std::ptr::null_mut(), libc::__WALL) };
        match last_error() {
            _ if ended == child => return Ok(()),
            Errno::INTR => {}
            // Somebody else has waited for it: it has ended.
            Errno::CHILD => return Ok(()),
            errno => return Err(errno),
        }
    }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A region of two pages of a kind, filled with `value`.
    fn filled(pages: Pages, value: u8) -> Region {
        let mut memory = Region::anonymous(2 * pages.size(), pages).unwrap();
        memory.as_mut_bytes().fill(value);
        memory
    }

    #[test]
    fn content_stays_whichever_way() {
        for pages in [Pages::Base, Pages::Huge] {
            let (mut shared, mut moved) = (filled(pages, 1), filled(pages, 2));
            take_back(&mut shared).unwrap();
            moved.move_content().unwrap();
            assert!(shared.as_bytes().iter().all(|byte| *byte == 1));
            assert!(moved.as_bytes().iter().all(|byte| *byte == 2));
            assert_eq!(moved.len(), 2 * pages.size());
        }
    }

    #[test]
    fn what_a_pipe_holds_stays_when_content_is_moved() {
        let mut memory = filled(Pages::Base, 1);
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
    fn a_child_that_somebody_waited_for_has_ended() {
        let child = make_child().unwrap();
        assert_eq!(wait_for(child), Ok(()));
        assert_eq!(wait_for(child), Ok(()));
    }

    #[test]
    fn answers_are_of_this_kernel() {
        for pages in [Pages::Base, Pages::Huge] {
            assert_eq!(first_value_stays(pages).unwrap_or(false), keeps_references(pages));
        }
    }
}
