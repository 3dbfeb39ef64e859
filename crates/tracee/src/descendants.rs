//! The end of everything below this process, which must be a subreaper.
//!
//! Only our own children get a signal. The id of a child belongs to nobody else until we reap it, so
//! no signal can reach a stranger. When a child has ended, its children are ours: the kernel gives
//! orphans to the nearest subreaper. We go on until we have no child left, and that is the kernel's
//! own answer (`ECHILD`), not that of a scan.
//!
//! A chain whose links fork and exit moves on between a listing and a signal. Two things catch it.
//! The group that a child leads is killed with it, in one step for all members, because `fork` fails
//! while a signal is pending. And we look again at once for as long as something new appears, ahead
//! of ordinary processes where the kernel lets us. The group or session that a child leads
//! has only its descendants for members, and its number stays in use as long as the child's.
//!
//! Not covered: a process of another user (a descendant that ran `sudo`), which an ordinary user
//! cannot signal; a process that hangs in the kernel; a chain that outruns us for 10 s. These are
//! named. Nor a process that another one made for the program (`docker run`), nor one that entered
//! the pid namespace of others.

use crate::launch_error::{LaunchError, Survivor};
use crate::wait;
use pagewise_kernel::pidfd;
use pagewise_kernel::proc::tree::OwnChildren;
use pagewise_kernel::proc::{own_pid, stat, status, tree};
use pagewise_kernel::scheduling::Ahead;
use pagewise_model::usage::Ended;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// How long processes that were killed are waited for: one in uninterruptible sleep ends late.
pub(crate) const KILL_PATIENCE: Duration = Duration::from_secs(10);

/// So often we look again without a pause.
const EAGER_LOOKS: u32 = 100;
/// Pause between two looks after that.
const PAUSE: Duration = Duration::from_millis(1);

/// What became of processes that were to be ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Killed {
    /// Were alive, and ended by SIGKILL.
    pub(crate) killed: u32,
    /// Are alive although [`KILL_PATIENCE`] has passed.
    pub(crate) alive: Vec<Survivor>,
}

impl Killed {
    /// An error for `program` when some are alive.
    pub(crate) fn check(self, program: String) -> Result<(), LaunchError> {
        match self.alive.is_empty() {
            true => Ok(()),
            false => Err(LaunchError::Unkillable { program, alive: self.alive }),
        }
    }
}

/// Children of ours that are not treated like the others.
#[derive(Debug, Default)]
pub(crate) struct Except {
    /// Left alone.
    pub(crate) helpers: HashSet<i32>,
    /// Killed and not reaped: its end is still to be read.
    pub(crate) unreaped: Option<i32>,
}

impl Except {
    fn is_nobody(&self) -> bool {
        self.helpers.is_empty() && self.unreaped.is_none()
    }
}

/// Kills all descendants and waits for their end. No other thread may reap children meanwhile.
pub(crate) fn end_all(except: &Except) -> Killed {
    let deadline = Instant::now() + KILL_PATIENCE;
    let mut ahead = None;
    let mut children = OwnChildren::default();
    let (mut killed, mut newest, mut idle) = (0, None, 0);
    loop {
        let mut ours = children.list().unwrap_or_default();
        ours.retain(|pid| !except.helpers.contains(pid));
        // From the last one on: of a chain the first have ended.
        ours.iter().rev().for_each(|pid| wait::kill_child_and_group(*pid));
        let left = still_alive(&ours, except, &mut killed);
        let is_new = ours.last().is_some_and(|last| newest.replace(*last) != Some(*last));
        if left.is_empty() && !is_new && (!except.is_nobody() || wait::has_no_child()) {
            return Killed { killed, alive: Vec::new() };
        }
        if Instant::now() > deadline {
            return Killed { killed, alive: left.into_iter().map(survivor).collect() };
        }
        idle = if is_new { 0 } else { idle + 1 };
        if idle > EAGER_LOOKS {
            std::thread::sleep(PAUSE);
        } else {
            ahead.get_or_insert_with(Ahead::of_ordinary_processes);
            std::thread::yield_now();
        }
    }
}

/// Reaps those of our children `ours` that have ended; the others.
fn still_alive(ours: &[i32], except: &Except, killed: &mut u32) -> Vec<i32> {
    let is_alive = |pid: &i32| {
        if except.unreaped == Some(*pid) {
            return !wait::has_ended(*pid);
        }
        let ended = wait::reap_if_ended(*pid);
        *killed += u32::from(ended == Some(Ended::Signaled(libc::SIGKILL)));
        ended.is_none()
    };
    ours.iter().copied().filter(is_alive).collect()
}

/// Reaps our children that have ended by themselves, but not what another thread of ours traces: it has
/// to see their ends, and takes them.
pub(crate) fn reap_ended(except: &Except) {
    let mut children = OwnChildren::default().list().unwrap_or_default();
    children.retain(|pid| !except.helpers.contains(pid) && except.unreaped != Some(*pid));
    for pid in children.into_iter().filter(|pid| wait::has_ended(*pid) && !is_traced_beside(*pid)) {
        wait::reap_if_ended(pid);
    }
}

/// Whether a thread other than the calling one traces `pid`.
fn is_traced_beside(pid: i32) -> bool {
    let tracer = status::read(pid).ok().and_then(|status| status.tracer_pid).unwrap_or(0);
    tracer != 0 && tracer != rustix::thread::gettid().as_raw_nonzero().get()
}

/// Kills our children while another thread reaps them: by a descriptor, for by then an id may be another's.
/// It is the child's as long as the signal finds the process alive whose parent was read in between.
pub(crate) fn kill_beside_a_reaper() {
    for pid in tree::children(own_pid()).unwrap_or_default() {
        let Ok(child) = pidfd::open(pid) else { continue };
        if stat::read(pid).is_ok_and(|stat| stat.ppid == own_pid()) {
            let _gone = pidfd::send_signal(&child, libc::SIGKILL);
        }
    }
}

fn survivor(pid: i32) -> Survivor {
    let (name, state) = stat::read(pid).map_or((String::new(), '?'), |s| (s.comm, s.state));
    Survivor { pid, name, state, foreign: !wait::may_signal(pid) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_outlives_sigkill_is_named() {
        let killed = |alive| Killed { killed: 3, alive };
        assert_eq!(killed(Vec::new()).check("x".into()), Ok(()));
        let one = |pid, state, foreign| Survivor { pid, name: "y".into(), state, foreign };
        let error = killed(vec![one(7, 'D', false), one(8, 'S', true)]).check("x".into());
        let text = error.unwrap_err().to_string();
        let expected = "7 `y` (it is blocked in the kernel, state D), \
            8 `y` (it belongs to another user";
        assert!(text.contains(expected) && text.contains("2 processes"), "{text}");
        assert!(text.contains(&format!("within {} s", KILL_PATIENCE.as_secs())), "{text}");
    }
}
