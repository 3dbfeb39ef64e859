//! Programs that end while one of their threads is held must end as they would alone.

use pagewise_kernel::pidfd;
use pagewise_kernel::proc::tree;
use pagewise_tracee::inject::{
    CallInjector, HaltOutcome, InjectError, InjectRefusal, ProcessIdentity, ProcessOwner,
    ThreadTracer,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::ffi::CString;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Long enough for a stuck program to count as hung, and for a machine under load.
const DEADLINE: Duration = Duration::from_secs(30);
const STATUS: i32 = 7;

/// The program: its first thread and another one sleep. A third waits for the end of standard input and then
/// ends all of them, as `end` says.
pub(crate) fn sleepers(end: &str) {
    let end = end.to_owned();
    std::thread::spawn(move || {
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        if end == "execs" {
            let [program, option, script] =
                ["/bin/sh", "-c", "exit 7"].map(|word| CString::new(word).unwrap());
            let words = [program.as_ptr(), option.as_ptr(), script.as_ptr(), std::ptr::null()];
            // SAFETY: strings that end with a zero, and an array of them that ends with null.
            unsafe { libc::execv(program.as_ptr(), words.as_ptr()) };
        }
        // SAFETY: ends this process, which has nothing to put in order.
        unsafe { libc::_exit(STATUS) };
    });
    std::thread::spawn(|| std::thread::sleep(DEADLINE * 4));
    std::thread::sleep(DEADLINE * 4);
}

fn start(end: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--role", "sleepers", end]).stdin(Stdio::piped()).spawn().unwrap()
}

/// The threads of `child`, once all three exist and sleep.
fn threads(child: &Child) -> Vec<i32> {
    let begin = Instant::now();
    loop {
        let pid = child.id() as i32;
        let mut found = tree::threads(pid).unwrap();
        let is_asleep = |tid: &i32| {
            let call = std::fs::read_to_string(format!("/proc/{tid}/syscall")).unwrap_or_default();
            call.starts_with(|c: char| c.is_ascii_digit())
        };
        if found.len() == 3 && found.iter().all(is_asleep) {
            found.sort_unstable();
            return found;
        }
        assert!(begin.elapsed() < DEADLINE, "the program does not begin");
    }
}

/// True if it has ended. It does not wait, because a wait would take the stops of a held thread.
fn has_ended(child: &Child, within: Duration) -> bool {
    let process = pidfd::open(child.id() as i32).unwrap();
    let within = Timespec { tv_sec: within.as_secs() as i64, tv_nsec: 0 };
    let mut ended = [PollFd::new(&process, PollFlags::IN)];
    poll(&mut ended, Some(&within)) == Ok(1)
}

fn ended(child: &mut Child) -> ExitStatus {
    assert!(has_ended(child, DEADLINE), "the program hangs");
    child.wait().unwrap()
}

/// Holds each thread in turn while `end` is done to the program. Returns how it ended each time.
fn while_held(how: &str, end: fn(&mut Child)) -> Vec<ExitStatus> {
    let run = |index: usize| {
        let mut child = start(how);
        let tid = threads(&child)[index];
        let (held, is_held) = mpsc::channel();
        let (done, is_done) = mpsc::channel::<()>();
        let hold = move |tracer: &mut ThreadTracer| {
            let halted = tracer.halt(tid).unwrap();
            held.send(matches!(halted, HaltOutcome::Stopped(_))).unwrap();
            let _done = is_done.recv();
        };
        let tracer = ThreadTracer::start(hold).unwrap();
        assert!(is_held.recv().unwrap());
        end(&mut child);
        // Another thread ends the program. By now it has done so, or it waits for the held one.
        std::thread::sleep(Duration::from_millis(30));
        drop(done);
        let status = ended(&mut child);
        tracer.join().unwrap();
        status
    };
    (0..3).map(run).collect()
}

pub(crate) fn killed() {
    for status in while_held("exits", |child| child.kill().unwrap()) {
        assert_eq!(status.signal(), Some(libc::SIGKILL));
    }
}

pub(crate) fn exits() {
    for status in while_held("exits", |child| drop(child.stdin.take())) {
        assert_eq!(status.code(), Some(STATUS));
    }
}

pub(crate) fn execs() {
    for status in while_held("execs", |child| drop(child.stdin.take())) {
        assert_eq!(status.code(), Some(STATUS));
    }
}

/// A leak checker stops the threads of its own program at the end. It must find none of them held.
pub(crate) fn leak_checker_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("leaks");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/programs/leaks.c");
    for option in ["-fsanitize=leak", "-fsanitize=address -static-libasan"] {
        let mut compiler = Command::new("cc");
        compiler.args(option.split(' ')).args(["-pthread", source, "-o"]).arg(&program);
        let built = compiler.stderr(Stdio::null()).status();
        if !built.is_ok_and(|status| status.success()) {
            println!("SKIP a_program_with_a_leak_checker_is_left_alone: no compiler that has one");
            return;
        }
        // The first look at such a large program may take longer than the program lives.
        let refused = (0..20).map(|_| refusals_until_its_end(&program)).find(|&count| count > 0);
        assert!(refused.is_some(), "{option}: it is not refused");
    }
}

/// How often injection into a program with a leak checker is refused. The checker must find no leak.
fn refusals_until_its_end(program: &Path) -> usize {
    let mut child = Command::new(program).stdout(Stdio::null()).spawn().unwrap();
    let process = ProcessIdentity::find(child.id() as i32).unwrap();
    let (mut injector, mut refused) = (CallInjector::new(ProcessOwner::Ours), 0);
    while !has_ended(&child, Duration::ZERO) {
        let result = injector.advise_huge(process, 0, 0);
        let is_refused = matches!(result, Err(InjectError::Refused(InjectRefusal::LeakChecker)));
        refused += usize::from(is_refused);
    }
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
    refused
}

/// A thread that executes a program takes over the process ID. It is released all the same, and the new program
/// can be held again.
pub(crate) fn takes_its_number() {
    let mut child = start("execs");
    let pid = child.id() as i32;
    // The second thread created waits for input.
    let tid = threads(&child)[1];
    let (owed, is_owed) = mpsc::channel();
    let hold = move |tracer: &mut ThreadTracer| {
        // It continues, traced, while `owed` is sent, and stops at the end of its exec.
        let HaltOutcome::Stopped(mut held) = tracer.halt(tid).unwrap() else {
            panic!("it is gone")
        };
        owed.send(()).unwrap();
        while !held.run_to_syscall().unwrap().is_end() && held.tid() == tid {}
        held.tid()
    };
    let tracer = ThreadTracer::start(hold).unwrap();
    is_owed.recv().unwrap();
    drop(child.stdin.take());
    assert_eq!(tracer.join().unwrap(), pid);
    assert_eq!(ended(&mut child).code(), Some(STATUS));
}
