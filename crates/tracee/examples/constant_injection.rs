//! Runs a program and injects calls into it and all that it starts, as often as can be, until it
//! ends. For `bench/accept/safety/injected-calls`.
//!
//! `constant_injection COUNTS PROGRAM [ARGUMENT...]`: ends as the program ends; the file COUNTS then
//! says how many calls were made, put off, and met a process that had ended.
#![allow(missing_docs, reason = "a program")]

use pagewise_kernel::pidfd;
use pagewise_kernel::proc::{maps, tree};
use pagewise_tracee::inject::{CallInjector, InjectError, ProcessIdentity, ProcessOwner};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode};

/// What came of the attempts.
#[derive(Debug, Default)]
struct Counts {
    made: u64,
    put_off: u64,
    gone: u64,
    refused: u64,
}

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let (Some(file), Some(program)) = (words.next(), words.next()) else {
        return ExitCode::from(2);
    };
    let Ok(mut child) = Command::new(program).args(words).spawn() else {
        return ExitCode::from(127);
    };
    let Ok(root) = i32::try_from(child.id()) else { return ExitCode::from(2) };
    let mut injector = CallInjector::new(ProcessOwner::Ours);
    let mut counts = Counts::default();
    // Not by waiting for the child, which takes the stops of a thread that is held.
    let Ok(process) = pidfd::open(root) else { return ExitCode::from(2) };
    loop {
        for pid in std::iter::once(root).chain(tree::descendants(root).unwrap_or_default()) {
            inject(&mut injector, pid, &mut counts);
        }
        let mut ended = [PollFd::new(&process, PollFlags::IN)];
        if poll(&mut ended, Some(&Timespec::default())) == Ok(1) {
            break;
        }
    }
    let Ok(status) = child.wait() else { return ExitCode::from(2) };
    let Counts { made, put_off, gone, refused } = counts;
    let text = format!("{made} {put_off} {gone} {refused}\n");
    if std::fs::write(file, text).is_err() {
        return ExitCode::from(2);
    }
    let shown = status.code().or(status.signal().map(|signal| 128 + signal));
    ExitCode::from(shown.and_then(|code| u8::try_from(code).ok()).unwrap_or(2))
}

/// One call: advice on the first anonymous mapping of process `pid`, which changes nothing that it
/// could see.
fn inject(injector: &mut CallInjector, pid: i32, counts: &mut Counts) {
    let Ok(process) = ProcessIdentity::find(pid) else { return };
    let found = maps::read(pid).unwrap_or_default();
    let Some(range) = found.iter().find(|m| m.is_anonymous() && m.perms.write) else { return };
    match injector.advise_huge(process, range.start, range.end - range.start) {
        Ok(_) => counts.made += 1,
        Err(InjectError::Gone) => counts.gone += 1,
        Err(error) if error.passes() => counts.put_off += 1,
        Err(_) => counts.refused += 1,
    }
}
