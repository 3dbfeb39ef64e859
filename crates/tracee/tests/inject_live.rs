//! Calls injected into live programs must not change what the program computes or waits for.
//!
//! The test runs itself as the programs to inject into. `--role` names which.
#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used, reason = "a test program")]
#![allow(unsafe_code, reason = "the programs under test use raw registers and calls")]

#[path = "inject_live/held.rs"]
mod held;
#[path = "inject_live/target.rs"]
mod target;

use pagewise_kernel::proc::{stat, status};
use pagewise_tracee::inject::{
    AcceptedAdvice, CallInjector, HaltOutcome, InjectError, InjectMethod, InjectRefusal,
    ProcessIdentity, ProcessOwner, ThreadTracer,
};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number = |index: usize| args.get(index).and_then(|a| a.parse::<u64>().ok()).unwrap_or(0);
    let role = args.get(2).filter(|_| args[1] == "--role");
    match role.map(String::as_str) {
        Some("map") => target::map(),
        Some("work") => target::work(false),
        Some("signals") => target::work(true),
        Some("waits") => target::waits(),
        Some("vfork") => target::vfork(),
        Some("other-stack") => target::other_stack(),
        Some("old-table") => target::old_table(),
        Some("sleepers") => held::sleepers(&args[3]),
        Some("inject-forever") => inject_forever(number(3) as i32, number(4), number(5)),
        _ => run_all(&args[1..]),
    }
}

/// Runs the tests whose name contains the first argument that is not an option of a test harness.
fn run_all(args: &[String]) {
    let filter = args.iter().find(|arg| !arg.starts_with('-')).map_or("", String::as_str);
    let tests: [(&str, fn()); 15] = [
        ("advice_covers_the_mapping", advice_covers_the_mapping),
        ("five_hundred_injections_change_nothing", five_hundred_injections_change_nothing),
        ("signals_are_all_delivered", signals_are_all_delivered),
        ("a_killed_tracer_leaves_the_target_whole", a_killed_tracer_leaves_the_target_whole),
        ("waits_with_a_timeout_end", waits_with_a_timeout_end),
        ("a_program_on_another_stack_is_served", a_program_on_another_stack_is_served),
        ("a_thread_in_vfork_is_not_waited_for", a_thread_in_vfork_is_not_waited_for),
        ("a_call_by_the_32_bit_table_goes_on", a_call_by_the_32_bit_table_goes_on),
        ("a_program_with_a_leak_checker_is_left_alone", held::leak_checker_is_left_alone),
        ("a_program_killed_while_held_ends", held::killed),
        ("a_program_that_exits_while_held_ends", held::exits),
        ("a_program_that_execs_while_held_goes_on", held::execs),
        ("a_thread_that_execs_is_held_by_its_new_number", held::takes_its_number),
        ("refusals_are_named", refusals_are_named),
        ("all_of_this_works_for_an_ordinary_user", all_of_this_works_for_an_ordinary_user),
    ];
    let mut ran = 0;
    for (name, test) in tests.into_iter().filter(|(name, _)| name.contains(filter)) {
        test();
        println!("test {name} ... ok");
        ran += 1;
    }
    assert!(ran > 0 || !filter.is_empty(), "no test was selected");
}

struct Target {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Target {
    fn start(role: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--role", role])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output }
    }

    fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    fn line(&mut self) -> Vec<u64> {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.split_whitespace().map(|word| word.parse().unwrap()).collect()
    }

    /// The mapping that the first line names.
    fn mapping(&mut self) -> (u64, u64) {
        match self.line()[..] {
            [start, length] => (start, length),
            ref other => panic!("unexpected {other:?}"),
        }
    }

    fn say(&mut self) {
        self.input.as_mut().unwrap().write_all(b"x").unwrap();
    }

    /// Ends the program and returns its last line.
    fn finish(mut self) -> Vec<u64> {
        drop(self.input.take());
        let last = self.line();
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success(), "the target did not end normally");
        last
    }
}

/// The lines of `smaps` for the mapping that holds `address` in a process.
fn smaps_of(pid: i32, address: u64) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
    let mut inside = false;
    let mut found = String::new();
    for line in text.lines() {
        if let Some((range, _)) = line.split_once(' ')
            && let Some((start, end)) = range.split_once('-')
            && let (Ok(start), Ok(end)) =
                (u64::from_str_radix(start, 16), u64::from_str_radix(end, 16))
        {
            inside = start <= address && address < end;
        }
        if inside {
            found += line;
            found.push('\n');
        }
    }
    found
}

fn kib(smaps: &str, name: &str) -> u64 {
    let line = smaps.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn advice_covers_the_mapping() {
    let enabled =
        std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    if enabled.is_empty() || enabled.contains("[never]") {
        println!("SKIP advice_covers_the_mapping: transparent huge pages are off");
        return;
    }
    let mut target = Target::start("map");
    let (start, length) = target.mapping();
    let mut advised = advise(ProcessOwner::Other, target.pid(), start, length);
    while matches!(&advised, Err(error) if error.passes()) {
        std::thread::sleep(Duration::from_millis(1));
        advised = advise(ProcessOwner::Other, target.pid(), start, length);
    }
    assert_eq!(advised.unwrap().method, InjectMethod::Frame);
    target.say();
    let sum = target.line();
    let smaps = smaps_of(target.pid(), start + length / 2);
    assert!(smaps.lines().any(|l| l.starts_with("VmFlags") && l.contains(" hg")), "{smaps}");
    assert!(kib(&smaps, "AnonHugePages") * 1024 >= length - (4 << 20), "{smaps}");
    assert_eq!(sum, [length / 4096]);
    target.say();
    target.finish();
}

fn five_hundred_injections_change_nothing() {
    let mut target = Target::start("work");
    let (start, length) = target.mapping();
    let (mut made, mut put_off) = (0, 0);
    let mut stops = Vec::new();
    while made < 500 && put_off < 5000 {
        match advise(ProcessOwner::Other, target.pid(), start, length) {
            Ok(advised) => {
                assert_eq!(advised.method, InjectMethod::Frame);
                stops.push(advised.stop_ns.0);
                made += 1;
            }
            Err(error) if error.passes() => put_off += 1,
            Err(error) => panic!("{error}"),
        }
        std::thread::sleep(Duration::from_micros(3100));
    }
    let [rounds, wrong, early, _] = target.finish()[..] else { panic!("no last line") };
    stops.sort_unstable();
    let us = |stop: Option<&u64>| stop.map_or(0, |ns| ns / 1000);
    let (median, most) = (us(stops.get(stops.len() / 2)), us(stops.last()));
    println!("  {rounds} rounds, {put_off} put off, stopped for {median} us, {most} at most");
    assert_eq!(made, 500);
    assert!(rounds > 0);
    assert_eq!((wrong, early), (0, 0));
}

fn signals_are_all_delivered() {
    let mut target = Target::start("signals");
    let (start, length) = target.mapping();
    for _ in 0..200 {
        match advise(ProcessOwner::Other, target.pid(), start, length) {
            Ok(_) => {}
            Err(error) => assert!(error.passes(), "{error}"),
        }
    }
    let [rounds, wrong, _, lost] = target.finish()[..] else { panic!("no last line") };
    assert!(rounds > 0);
    assert_eq!((wrong, lost), (0, 0));
}

/// One attempt by a new injector.
fn advise(
    owner: ProcessOwner,
    pid: i32,
    start: u64,
    length: u64,
) -> Result<AcceptedAdvice, InjectError> {
    let process = ProcessIdentity::find(pid).map_err(|_| InjectError::Gone)?;
    CallInjector::new(owner).advise_huge(process, start, length)
}

fn inject_forever(pid: i32, start: u64, length: u64) {
    println!("ready");
    while std::path::Path::new(&format!("/proc/{pid}")).exists() {
        let _refused = advise(ProcessOwner::Other, pid, start, length);
    }
}

fn a_killed_tracer_leaves_the_target_whole() {
    let mut target = Target::start("work");
    let (start, length) = target.mapping();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..200 {
        let mut injector = Command::new(std::env::current_exe().unwrap())
            .args(["--role", "inject-forever", &target.pid().to_string()])
            .args([start.to_string(), length.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = [0; 6];
        injector.stdout.take().unwrap().read_exact(&mut ready).unwrap();
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        std::thread::sleep(Duration::from_micros(500 + (random >> 40) % 4000));
        injector.kill().unwrap();
        injector.wait().unwrap();
    }
    let [rounds, wrong, _, _] = target.finish()[..] else { panic!("no last line") };
    assert!(rounds > 0);
    assert_eq!(wrong, 0);
}

/// The program's only thread makes waits with a timeout, one after the other. Calls are injected much more
/// often than these end. Each wait must end in its time or a few times that, and not early.
fn waits_with_a_timeout_end() {
    let mut target = Target::start("waits");
    let (start, length) = target.mapping();
    let process = ProcessIdentity::find(target.pid()).unwrap();
    let last = std::thread::spawn(move || target.finish());
    let mut injector = CallInjector::new(ProcessOwner::Ours);
    let (mut by_registers, mut put_off) = (0, 0);
    // A wait that restarts each time never ends. Up to this deadline, it may just be slow.
    let deadline = Instant::now() + Duration::from_secs(60);
    while !last.is_finished() {
        assert!(Instant::now() < deadline, "a wait does not end");
        match injector.advise_huge(process, start, length) {
            Ok(advised) => by_registers += u64::from(advised.method == InjectMethod::Registers),
            Err(InjectError::Refused(InjectRefusal::Waiting)) => put_off += 1,
            Err(error) => assert!(error.passes(), "{error}"),
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let [rounds, early] = last.join().unwrap()[..] else { panic!("no last line") };
    println!("  {by_registers} by registers, {put_off} put off");
    assert_eq!((rounds, early), (1, 0));
    assert!(by_registers > 0 && put_off > 0);
}

/// The main thread computes on a separate stack, as coroutines do. The frame goes to the unused end of the main
/// stack, is cleared, and goes there again.
fn a_program_on_another_stack_is_served() {
    let mut target = Target::start("other-stack");
    let (start, length) = target.mapping();
    let mut made = 0;
    for _ in 0..50 {
        match advise(ProcessOwner::Other, target.pid(), start, length) {
            Ok(advised) => {
                assert_eq!(advised.method, InjectMethod::Frame);
                made += 1;
            }
            Err(error) => assert!(error.passes(), "{error}"),
        }
    }
    assert!(made > 25, "{made} of 50");
    let [rounds, wrong] = target.finish()[..] else { panic!("no last line") };
    assert!(rounds > 0);
    assert_eq!(wrong, 0);
}

/// A thread in `vfork` stops only when its child is done. The injector does not wait for that.
fn a_thread_in_vfork_is_not_waited_for() {
    let mut target = Target::start("vfork");
    let (start, length) = target.mapping();
    let pid = target.pid();
    let deadline = Instant::now() + Duration::from_secs(60);
    while stat::read(pid).unwrap().state != 'D' {
        assert!(Instant::now() < deadline, "the target does not wait for its child");
    }
    let refused = advise(ProcessOwner::Ours, pid, start, length).unwrap_err();
    assert!(matches!(refused, InjectError::Refused(InjectRefusal::Waiting)), "{refused}");
    let (owed, is_owed) = mpsc::channel();
    let (go, may_go) = mpsc::channel::<()>();
    let hold = move |tracer: &mut ThreadTracer| {
        let halted = tracer.halt(pid).unwrap();
        owed.send(matches!(halted, HaltOutcome::Owed(_))).unwrap();
        let _told = may_go.recv();
    };
    let tracer = ThreadTracer::start(hold).unwrap();
    assert!(is_owed.recv().unwrap());
    target.say();
    // Its stop is seen although another wait has taken the report.
    while !takes_a_stop(pid) {
        assert!(Instant::now() < deadline, "it does not stop");
    }
    drop(go);
    while !tracer.is_finished() {
        assert!(Instant::now() < deadline, "it is not let go");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(target.finish(), [1]);
}

/// Waits for a stop of a child, as its parent may. If the stop is for a tracer of this process, the kernel
/// reports it to no other process.
fn takes_a_stop(pid: i32) -> bool {
    // SAFETY: a siginfo_t is plain integers and pointers, all of which may be zero.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = libc::WSTOPPED | libc::WNOHANG;
    // SAFETY: `info` is a live local of the type that the call fills.
    unsafe { libc::waitid(libc::P_PID, pid as u32, &raw mut info, flags) };
    // SAFETY: the kernel has filled the fields of a SIGCHLD, or left them zero.
    unsafe { info.si_pid() != 0 }
}

/// 64-bit code sleeps in a call of the 32-bit table. The kernel continues it by a number that means a different
/// call in the 64-bit table.
fn a_call_by_the_32_bit_table_goes_on() {
    let mut target = Target::start("old-table");
    let [start, length] = target.line()[..] else {
        println!("SKIP a_call_by_the_32_bit_table_goes_on: this kernel has no 32-bit calls");
        target.finish();
        return;
    };
    let pid = target.pid();
    let last = std::thread::spawn(move || target.finish());
    let mut refused = 0;
    let deadline = Instant::now() + Duration::from_secs(60);
    while !last.is_finished() {
        assert!(Instant::now() < deadline, "the sleep does not end");
        match advise(ProcessOwner::Ours, pid, start, length) {
            Ok(_) => {}
            Err(InjectError::Refused(InjectRefusal::ThirtyTwoBit)) => refused += 1,
            Err(error) => assert!(error.passes(), "{error}"),
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    // It slept its full time, and the sleep did not fail.
    assert_eq!(last.join().unwrap(), [0, 0]);
    assert!(refused > 0);
}

fn refusals_are_named() {
    let gone = advise(ProcessOwner::Other, i32::MAX, 0, 4096).unwrap_err();
    assert!(matches!(gone, InjectError::Gone), "{gone}");
    let kernel_thread = advise(ProcessOwner::Other, 2, 0, 4096).unwrap_err();
    assert!(matches!(kernel_thread, InjectError::Gone | InjectError::Sys(_)), "{kernel_thread}");
    let mut target = Target::start("map");
    target.line();
    let bad = advise(ProcessOwner::Ours, target.pid(), 4097, 4096).unwrap_err();
    assert!(
        matches!(&bad, InjectError::Call { source, .. } if source.raw_os_error() == Some(libc::EINVAL)),
        "{bad}"
    );
    target.say();
    target.line();
    target.say();
    target.finish();
}

/// Runs all tests above again without any privilege.
fn all_of_this_works_for_an_ordinary_user() {
    const NOBODY: u32 = 65534;
    let is_root = status::read(std::process::id() as i32).unwrap().euid == Some(0);
    if !is_root {
        println!("SKIP all_of_this_works_for_an_ordinary_user: these tests ran as one already");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let copy = dir.path().join("inject_live");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let again = Command::new(copy).current_dir("/").uid(NOBODY).gid(NOBODY).status().unwrap();
    assert!(again.success(), "{again}");
}
