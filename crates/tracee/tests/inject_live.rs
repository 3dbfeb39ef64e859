//! Calls injected into live programs: nothing that the program computes or waits for may change.
//!
//! Runs itself as the programs to inject into; the first argument names the role.
#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used, reason = "a test program")]
#![allow(unsafe_code, reason = "the programs under test use raw registers and calls")]

#[path = "inject_live/target.rs"]
mod target;

use pagewise_tracee::inject::{self, InjectError, Method, Owner};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number = |index: usize| args.get(index).and_then(|a| a.parse::<u64>().ok()).unwrap_or(0);
    match args.get(1).map(String::as_str) {
        Some("map") => target::map(),
        Some("work") => target::work(false),
        Some("signals") => target::work(true),
        Some("inject-forever") => inject_forever(number(2) as i32, number(3), number(4)),
        _ => run_all(&args[1..]),
    }
}

/// Runs the tests whose name contains the first argument that is no option of a test harness.
fn run_all(args: &[String]) {
    let filter = args.iter().find(|arg| !arg.starts_with('-')).map_or("", String::as_str);
    let tests: [(&str, fn()); 5] = [
        ("advice_covers_the_mapping", advice_covers_the_mapping),
        ("five_hundred_injections_change_nothing", five_hundred_injections_change_nothing),
        ("signals_are_all_delivered", signals_are_all_delivered),
        ("a_killed_tracer_leaves_the_target_whole", a_killed_tracer_leaves_the_target_whole),
        ("refusals_are_named", refusals_are_named),
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
            .arg(role)
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

    fn say(&mut self) {
        self.input.as_mut().unwrap().write_all(b"x").unwrap();
    }

    /// Ends the program; its last line.
    fn finish(mut self) -> Vec<u64> {
        drop(self.input.take());
        let last = self.line();
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success(), "the target did not end normally");
        last
    }
}

/// Lines of the mapping that holds `address` in a process' smaps.
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
    let (start, length) = match target.line()[..] {
        [start, length] => (start, length),
        ref other => panic!("unexpected {other:?}"),
    };
    let advised = inject::advise_huge_of(Owner::Other, target.pid(), start, length).unwrap();
    assert_eq!(advised.method, Method::Frame);
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
    let (start, length) = {
        let line = target.line();
        (line[0], line[1])
    };
    let mut slowest = 0;
    for _ in 0..500 {
        let advised = inject::advise_huge_of(Owner::Other, target.pid(), start, length).unwrap();
        assert_eq!(advised.method, Method::Frame);
        slowest = slowest.max(advised.stop_ns.0);
        std::thread::sleep(Duration::from_micros(3100));
    }
    let [rounds, wrong, early, _] = target.finish()[..] else { panic!("no last line") };
    println!("  {rounds} rounds, slowest stop {} us", slowest / 1000);
    assert!(rounds > 0);
    assert_eq!((wrong, early), (0, 0));
}

fn signals_are_all_delivered() {
    let mut target = Target::start("signals");
    let (start, length) = {
        let line = target.line();
        (line[0], line[1])
    };
    for _ in 0..200 {
        match inject::advise_huge_of(Owner::Other, target.pid(), start, length) {
            Ok(_) | Err(InjectError::Refused(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let [rounds, wrong, _, lost] = target.finish()[..] else { panic!("no last line") };
    assert!(rounds > 0);
    assert_eq!((wrong, lost), (0, 0));
}

fn inject_forever(pid: i32, start: u64, length: u64) {
    println!("ready");
    while std::path::Path::new(&format!("/proc/{pid}")).exists() {
        let _refused = inject::advise_huge_of(Owner::Other, pid, start, length);
    }
}

fn a_killed_tracer_leaves_the_target_whole() {
    let mut target = Target::start("work");
    let (start, length) = {
        let line = target.line();
        (line[0], line[1])
    };
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..200 {
        let mut injector = Command::new(std::env::current_exe().unwrap())
            .args(["inject-forever", &target.pid().to_string()])
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

fn refusals_are_named() {
    let gone = inject::advise_huge_of(Owner::Other, i32::MAX, 0, 4096).unwrap_err();
    assert!(gone.to_string().contains("/proc/2147483647/status"), "{gone}");
    let kernel_thread = inject::advise_huge_of(Owner::Other, 2, 0, 4096).unwrap_err();
    assert!(matches!(kernel_thread, InjectError::Refused(_) | InjectError::Sys(_)));
    let mut target = Target::start("map");
    target.line();
    let bad = inject::advise_huge(target.pid(), 4097, 4096).unwrap_err();
    assert!(
        matches!(&bad, InjectError::Call { source, .. } if source.raw_os_error() == Some(libc::EINVAL)),
        "{bad}"
    );
    target.say();
    target.line();
    target.say();
    target.finish();
}
