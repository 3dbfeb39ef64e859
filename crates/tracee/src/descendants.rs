//! Ends all descendants of this process, which must be a subreaper.
//!
//! Signals go only to direct children. The id of a child cannot be reused until it is reaped, so no signal
//! can reach an unrelated process. When a child ends, the kernel gives its children to the nearest subreaper,
//! which is this process. The loop runs until no child is left. The kernel confirms that with `ECHILD`; no
//! scan has to.
//!
//! A chain whose links fork and exit can move on between a listing and a signal. Two measures catch it. The
//! process group that a child leads is killed with it, in one step for all members, because `fork` fails
//! while a signal is pending. And the loop looks again at once as long as something new appears, at a higher
//! priority than ordinary processes if the kernel permits. The group or session that a child leads contains
//! only its descendants, and its number stays in use as long as the child's.
//!
//! Not covered: a process of another user (a descendant that ran `sudo`), which an ordinary user cannot
//! signal; a process that hangs in the kernel; a chain that stays ahead for 10 s. These are named in the
//! error. Also not covered, and not named: a process that another one made for the program (`docker run`), or
//! one that entered a foreign pid namespace.

use crate::launch_error::{LaunchError, SurvivingProcess};
use crate::wait;
use pagewise_kernel::pidfd;
use pagewise_kernel::proc::tree::OwnChildren;
use pagewise_kernel::proc::{own_pid, stat, status, tree};
use pagewise_kernel::scheduling::RealtimeBoost;
use pagewise_model::usage::ProgramEnd;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// How long to wait for killed processes. One in uninterruptible sleep ends late.
pub(crate) const KILL_PATIENCE: Duration = Duration::from_secs(10);

/// Number of looks without a pause in between.
const EAGER_LOOKS: u32 = 100;
/// Pause between two looks after [`EAGER_LOOKS`].
const PAUSE: Duration = Duration::from_millis(1);

/// Outcome for processes that were to be ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct KillOutcome {
    /// Processes that were alive and were ended by SIGKILL.
    pub(crate) killed: u32,
    /// Processes still alive after [`KILL_PATIENCE`].
    pub(crate) alive: Vec<SurvivingProcess>,
}

impl KillOutcome {
    /// Returns an error for `program` if any process is still alive.
    pub(crate) fn check(self, program: String) -> Result<(), LaunchError> {
        match self.alive.is_empty() {
            true => Ok(()),
            false => Err(LaunchError::Unkillable { program, alive: self.alive }),
        }
    }
}

/// Children that are treated differently.
#[derive(Debug, Default)]
pub(crate) struct ExceptedChildren {
    /// These are left alone.
    pub(crate) helpers: HashSet<i32>,
    /// Killed but not reaped: its exit status is still to be read.
    pub(crate) unreaped: Option<i32>,
}

impl ExceptedChildren {
    fn is_nobody(&self) -> bool {
        self.helpers.is_empty() && self.unreaped.is_none()
    }
}

/// Kills all descendants and waits for their end. No other thread may reap children meanwhile.
pub(crate) fn end_all(except: &ExceptedChildren) -> KillOutcome {
    let deadline = Instant::now() + KILL_PATIENCE;
    let mut ahead = None;
    let mut children = OwnChildren::default();
    let (mut killed, mut newest, mut idle) = (0, None, 0);
    loop {
        let mut ours = children.list().unwrap_or_default();
        ours.retain(|pid| !except.helpers.contains(pid));
        // Starts from the last: in a chain, the first ones have ended.
        ours.iter().rev().for_each(|pid| wait::kill_child_and_group(*pid));
        let left = still_alive(&ours, except, &mut killed);
        let is_new = ours.last().is_some_and(|last| newest.replace(*last) != Some(*last));
        if left.is_empty() && !is_new && (!except.is_nobody() || wait::has_no_child()) {
            return KillOutcome { killed, alive: Vec::new() };
        }
        if Instant::now() > deadline {
            return KillOutcome { killed, alive: left.into_iter().map(survivor).collect() };
        }
        idle = if is_new { 0 } else { idle + 1 };
        if idle > EAGER_LOOKS {
            std::thread::sleep(PAUSE);
        } else {
            ahead.get_or_insert_with(RealtimeBoost::of_ordinary_processes);
            std::thread::yield_now();
        }
    }
}

/// Reaps those of the children `ours` that have ended. Returns the rest.
fn still_alive(ours: &[i32], except: &ExceptedChildren, killed: &mut u32) -> Vec<i32> {
    let is_alive = |pid: &i32| {
        if except.unreaped == Some(*pid) {
            return !wait::has_ended(*pid);
        }
        let ended = wait::reap_if_ended(*pid);
        *killed += u32::from(ended == Some(ProgramEnd::Signaled(libc::SIGKILL)));
        ended.is_none()
    };
    ours.iter().copied().filter(is_alive).collect()
}

/// Reaps children that have ended by themselves. Leaves children that another thread of this process traces:
/// that thread must see their ends and reaps them. Two calls for an ordinary orphan: a program may fork faster
/// than more calls can follow, until no process id is free.
pub(crate) fn reap_ended(except: &ExceptedChildren) {
    let mut children = OwnChildren::default().list().unwrap_or_default();
    children.retain(|pid| !except.helpers.contains(pid) && except.unreaped != Some(*pid));
    for pid in children.into_iter().filter(|pid| wait::has_ended(*pid)) {
        if wait::reap_own_if_ended(pid).is_none() && !is_traced_beside(pid) {
            wait::reap_if_ended(pid);
        }
    }
}

/// Whether a thread other than the calling one traces `pid`.
fn is_traced_beside(pid: i32) -> bool {
    let tracer = status::read(pid).ok().and_then(|status| status.tracer_pid).unwrap_or(0);
    tracer != 0 && tracer != rustix::thread::gettid().as_raw_nonzero().get()
}

/// Kills the children while another thread reaps them. Uses a pidfd, because an id may have been reused by
/// then. The parent is read between opening the pidfd and the signal: if the signal finds the process alive,
/// it is that child.
pub(crate) fn kill_beside_a_reaper() {
    for pid in tree::children(own_pid()).unwrap_or_default() {
        let Ok(child) = pidfd::open(pid) else { continue };
        if stat::read(pid).is_ok_and(|stat| stat.ppid == own_pid()) {
            let _gone = pidfd::send_signal(&child, libc::SIGKILL);
        }
    }
}

fn survivor(pid: i32) -> SurvivingProcess {
    let (name, state) = stat::read(pid).map_or((String::new(), '?'), |s| (s.comm, s.state));
    SurvivingProcess { pid, name, state, foreign: !wait::may_signal(pid) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_outlives_sigkill_is_named() {
        let killed = |alive| KillOutcome { killed: 3, alive };
        assert_eq!(killed(Vec::new()).check("x".into()), Ok(()));
        let one = |pid, state, foreign| SurvivingProcess { pid, name: "y".into(), state, foreign };
        let error = killed(vec![one(7, 'D', false), one(8, 'S', true)]).check("x".into());
        let text = error.unwrap_err().to_string();
        let expected = "7 `y` (it is blocked in the kernel, state D), \
            8 `y` (it belongs to another user";
        assert!(text.contains(expected) && text.contains("2 processes"), "{text}");
        assert!(text.contains(&format!("within {} s", KILL_PATIENCE.as_secs())), "{text}");
    }
}
