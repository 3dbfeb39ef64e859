//! Probes: moving pages through pipes, and how many large pipes this account may still create.
//!
//! The kernel does not report how much pipe memory a user holds. So large pipes are created until one is
//! refused or the maximum of the remedy `pipe-grow` is reached. They hold no data and exist for less than a
//! millisecond. No more are created: while the limit is exceeded, a new pipe of another program of the user
//! gets two pages for its whole life.

use super::answer::{answer_of, capability};
use crate::error::SysError;
use crate::pipe;
use crate::region::{MemoryRegion, RegionPages};
use pagewise_model::Bytes;
use pagewise_model::capability::{Capability, CapabilityAnswer};
use rustix::pipe::{IoSliceRaw, SpliceFlags};
use std::os::fd::OwnedFd;

const GROUP: &str = "pipes";
const LARGE: Bytes = Bytes::mib(1);
/// The maximum that `pipe-grow` may use (16 MiB); the probe stops there.
const MOST: usize = 16;

pub(super) fn probe() -> Vec<Capability> {
    let (count, ended) = count_large();
    vec![
        capability(
            GROUP,
            "vmsplice and splice",
            "pages passed without a copy",
            answer_of(&hand_over()),
            Some("in a container: allow vmsplice and splice"),
        ),
        capability(
            GROUP,
            "pipes of 1 MiB",
            &gives(count),
            limit_answer(count, ended.as_ref()),
            Some("sysctl fs.pipe-max-size=1048576 fs.pipe-user-pages-soft=65536"),
        ),
    ]
}

fn gives(count: usize) -> String {
    let left = if count >= MOST { format!("{MOST} or more") } else { count.to_string() };
    format!("fewer wake-ups per byte (remedy pipe-grow); this user can have {left} more such pipes")
}

fn limit_answer(count: usize, ended: Option<&SysError>) -> CapabilityAnswer {
    match (count, ended) {
        (0, Some(error)) => match error.errno() {
            Some(libc::EPERM) => CapabilityAnswer::No(
                "this user's pipe memory, or fs.pipe-max-size, is used up".into(),
            ),
            _ => CapabilityAnswer::Unknown(error.to_string()),
        },
        _ => CapabilityAnswer::Yes,
    }
}

/// How many pipes of 1 MiB could be created and held at once, and why not more.
fn count_large() -> (usize, Option<SysError>) {
    let mut held: Vec<(OwnedFd, OwnedFd)> = Vec::new();
    while held.len() < MOST {
        let grown = pipe::pipe().and_then(|ends| pipe::set_capacity(&ends.0, LARGE).map(|_| ends));
        match grown {
            Ok(ends) => held.push(ends),
            Err(error) => return (held.len(), Some(error)),
        }
    }
    (held.len(), None)
}

fn hand_over() -> Result<(), SysError> {
    let mut region = MemoryRegion::new(Bytes(1), RegionPages::Any)?;
    region.touch(region.size());
    let (first, second) = (pipe::pipe()?, pipe::pipe()?);
    let len = region.size().0 as usize;
    let slices = [IoSliceRaw::from_slice(region.as_slice())];
    // SAFETY: `region` outlives the pipes' content: it is not written until both are dropped here.
    let lent = unsafe { rustix::pipe::vmsplice(&first.1, &slices, SpliceFlags::NONBLOCK) };
    lent.map_err(|e| SysError::new("vmsplice", "a pipe", e))?;
    rustix::pipe::splice(&first.0, None, &second.1, None, len, SpliceFlags::NONBLOCK)
        .map(drop)
        .map_err(|e| SysError::new("splice", "two pipes", e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn what_ends_the_count() {
        let error = |e: Errno| SysError::new("x", "y", e);
        assert!(matches!(limit_answer(0, Some(&error(Errno::PERM))), CapabilityAnswer::No(_)));
        assert!(matches!(
            limit_answer(0, Some(&error(Errno::MFILE))),
            CapabilityAnswer::Unknown(_)
        ));
        assert_eq!(limit_answer(3, Some(&error(Errno::PERM))), CapabilityAnswer::Yes);
        assert_eq!(limit_answer(MOST, None), CapabilityAnswer::Yes);
        assert!(gives(3).contains("have 3 more such"));
    }

    #[test]
    fn pages_go_through() {
        hand_over().unwrap();
    }
}
