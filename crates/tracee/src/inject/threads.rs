//! Which thread makes the call, and how: the one that takes the least harm from a stop.
//!
//! What a waiting thread waits in is read from `/proc/PID/task/TID/syscall` (proc(5)) while it
//! waits; where that file is missing or refused, the wait counts as harmless.

use super::restart::{Harm, harm, may_be_late};
use super::subject::Subject;
use super::{InjectError, Method, Owner, Refusal};
use pagewise_kernel::proc::{self, stat};
use std::collections::HashMap;
use std::path::Path;

/// How often a thread's timeout may be started anew in its life.
const MOST_LATE: u32 = 3;

/// A thread as it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    tid: i32,
    is_running: bool,
    /// The call it waits in, with its arguments.
    call: Option<(i64, [u64; 6])>,
}

impl Seen {
    fn harm(&self) -> Harm {
        self.call.map_or(Harm::None, |(number, args)| harm(number, args))
    }
}

/// Threads and methods to try, the best first.
///
/// # Errors
/// When there is none.
pub(super) fn plan(
    subject: &Subject,
    owner: Owner,
    owed: &[i32],
    late: &HashMap<i32, u32>,
) -> Result<Vec<(i32, Method)>, InjectError> {
    let seen = look(subject.pid);
    if subject.sites.restorer.is_none() && owner == Owner::Other {
        return Err(Refusal::NoRestorer.into());
    }
    let is_spent = |one: &&Seen| {
        let often = late.get(&one.tid).is_some_and(|&n| n >= MOST_LATE);
        often && one.call.is_some_and(|(number, args)| may_be_late(number, args))
    };
    let usable = seen.iter().filter(|one| !owed.contains(&one.tid) && !is_spent(one));
    let mut ranked: Vec<Ranked> = usable.flat_map(|one| ranked(subject, owner, one)).collect();
    ranked.sort_unstable();
    if ranked.is_empty() {
        let is_of_it = |tid: &i32| Path::new(&format!("/proc/{}/task/{tid}", subject.pid)).exists();
        let is_owed = owed.iter().any(is_of_it);
        return Err(if is_owed { Refusal::Busy } else { Refusal::Waiting }.into());
    }
    Ok(ranked.into_iter().map(|(_, _, tid, method)| (tid, method)).collect())
}

/// Harm of the attempt, then how good the thread is for it.
type Ranked = (u8, u8, i32, Method);

fn ranked(subject: &Subject, owner: Owner, one: &Seen) -> Vec<Ranked> {
    // The main thread's stack is the surest place for a frame.
    let rank = if one.tid == subject.pid { 0 } else { 2 - u8::from(one.is_running) };
    let frame = subject.takes_frame(one.tid).then_some(Method::Frame);
    let registers = (owner == Owner::Ours).then_some(Method::Registers);
    let step = |class: u8, method: Option<Method>| method.map(|m| (class, rank, one.tid, m));
    let steps = match one.harm() {
        Harm::None => [step(0, frame), step(1, registers)],
        Harm::LateAnew => [None, step(2, registers)],
        Harm::Late => [step(3, frame), step(4, registers)],
        Harm::Wrong => [None, None],
    };
    steps.into_iter().flatten().collect()
}

/// The threads that can be stopped now.
fn look(pid: i32) -> Vec<Seen> {
    proc::tree::threads(pid).unwrap_or_default().into_iter().filter_map(see).collect()
}

fn see(tid: i32) -> Option<Seen> {
    let state = stat::read(tid).ok()?.state;
    if matches!(state, 'Z' | 'X' | 'D' | 'T' | 't') {
        return None;
    }
    let text = proc::read_text(format!("/proc/{tid}/syscall")).unwrap_or_default();
    Some(Seen { tid, is_running: state == 'R', call: parse_call(&text) })
}

/// Number and arguments in a `/proc/PID/syscall`; none for a thread that runs or waits elsewhere.
fn parse_call(text: &str) -> Option<(i64, [u64; 6])> {
    let mut words = text.split_ascii_whitespace();
    let number = words.next()?.parse().ok().filter(|number| *number >= 0)?;
    let mut args = [0; 6];
    for arg in &mut args {
        *arg = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    }
    Some((number, args))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inject::layout::Sites;

    fn subject(restorer: Option<u64>, is_go: bool) -> Subject {
        Subject { pid: 10, sites: Sites { call: 0, restorer }, maps: Vec::new(), is_go }
    }

    fn seen(tid: i32, call: Option<i64>) -> Seen {
        let args = [0, 0, 1000, 1000, 0, 0];
        Seen { tid, is_running: call.is_none(), call: call.map(|number| (number, args)) }
    }

    fn order(subject: &Subject, owner: Owner, seen: &[Seen]) -> Vec<(i32, Method)> {
        let mut all: Vec<Ranked> =
            seen.iter().flat_map(|one| ranked(subject, owner, one)).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, _, tid, method)| (tid, method)).collect()
    }

    #[test]
    fn a_sleeping_main_thread_comes_after_those_that_run() {
        let threads = [seen(10, Some(libc::SYS_nanosleep)), seen(11, None), seen(12, Some(0))];
        let frame = |tid| (tid, Method::Frame);
        let registers = |tid| (tid, Method::Registers);
        let native = subject(Some(1), false);
        assert_eq!(order(&native, Owner::Other, &threads), [frame(11), frame(12)]);
        assert_eq!(
            order(&native, Owner::Ours, &threads),
            [frame(11), frame(12), registers(11), registers(12), registers(10)]
        );
        let waits = [seen(10, Some(libc::SYS_epoll_wait)), seen(11, Some(libc::SYS_close))];
        assert_eq!(order(&native, Owner::Other, &waits), [frame(10)]);
    }

    #[test]
    fn a_program_whose_only_thread_is_still_to_stop_is_busy() {
        let (mut child, pid) = crate::waiting::cat();
        let target = Subject { pid, ..subject(Some(1), false) };
        let planned = |owed: &[i32]| plan(&target, Owner::Other, owed, &HashMap::new());
        let owed = planned(&[pid]);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(matches!(owed, Err(InjectError::Refused(Refusal::Busy))), "{owed:?}");
        let gone = planned(&[pid]);
        assert!(matches!(gone, Err(InjectError::Refused(Refusal::Waiting))), "{gone:?}");
    }

    #[test]
    fn only_the_main_thread_of_a_go_program_takes_a_frame() {
        let threads = [seen(10, Some(0)), seen(11, None)];
        assert_eq!(order(&subject(Some(1), true), Owner::Other, &threads), [(10, Method::Frame)]);
        assert!(order(&subject(None, false), Owner::Other, &threads).is_empty());
    }

    #[test]
    fn calls_are_read() {
        let text = "7 0x7ffe 0x1 0xffffffff 0x0 0x8 0x0 0x7ffc 0x7f00\n";
        assert_eq!(parse_call(text), Some((7, [0x7ffe, 1, 0xffff_ffff, 0, 8, 0])));
        for text in ["running\n", "-1 0x7ffe 0x7f00\n", "7 0x1\n", "", "7 1 2 3 4 5 6"] {
            assert_eq!(parse_call(text), None, "{text}");
        }
    }
}
