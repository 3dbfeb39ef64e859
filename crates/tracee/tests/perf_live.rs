//! Samples of real programs whose kernel work is known.
#![allow(
    unsafe_code,
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::zombie_processes,
    reason = "a live test reaps its own child and says why it is skipped"
)]

use pagewise_model::Fact;
use pagewise_model::look::{CpuSamples, UNKNOWN_SYMBOL, WalkCounts};
use pagewise_tracee::launch::ObservationOptions;
use pagewise_tracee::mapped_file::MappedFiles;
use pagewise_tracee::perf::{PerfObservations, PerfObservers};
use std::io::Write;
use std::process::{Command, Stdio};

/// The results of observing one program.
struct Seen {
    samples: Fact<CpuSamples>,
    walks: Fact<WalkCounts>,
    cpu_ns: f64,
}

/// Runs `script`. A shell waits on its input until the observers are attached, then executes it.
fn observe(script: &str, observe: ObservationOptions) -> Seen {
    let mut child = Command::new("/bin/sh")
        .args(["-c", "read go; exec /bin/sh -c \"$1\"", "sh", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    let observers = PerfObservers::attach(pid, &observe, &MappedFiles::default(), None);
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let cpu_ns = reap(pid);
    let PerfObservations { samples, walks, .. } = observers.finish();
    Seen { samples, walks, cpu_ns }
}

/// Waits for `pid` and returns the CPU time of this process and its children.
fn reap(pid: i32) -> f64 {
    let mut status = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are to locals of the right types.
    let reaped = unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) };
    assert_eq!((reaped, status), (pid, 0));
    // SAFETY: all zeros is a valid rusage, and wait4 has filled it.
    let usage = unsafe { usage.assume_init() };
    let ns = |t: libc::timeval| t.tv_sec as f64 * 1e9 + t.tv_usec as f64 * 1e3;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}

fn samples_or_skip(test: &str, seen: &Seen) -> Option<CpuSamples> {
    match &seen.samples {
        Fact::Known(samples) => Some(samples.clone()),
        Fact::Missing(reason) => {
            eprintln!("SKIP {test}: {reason}");
            None
        }
    }
}

const SAMPLES: ObservationOptions = ObservationOptions {
    samples: true,
    profile: false,
    user: false,
    walks: false,
    memory: false,
    run_delay: false,
    code: false,
};

/// One pipe. The reader keeps 60 MB in fresh memory.
const PIPE_AND_MEMORY: &str = "head -c 300M /dev/zero | tail -c 60M";

#[test]
fn samples_stand_for_the_cpu_time_of_the_whole_tree() {
    let seen = observe(PIPE_AND_MEMORY, SAMPLES);
    let Some(samples) = samples_or_skip("samples_stand_for_the_cpu_time", &seen) else { return };
    let total = (samples.user + samples.kernel_total() + samples.lost) as f64;
    let ratio = total * samples.period_ns.0 as f64 / seen.cpu_ns;
    assert!((0.7..1.4).contains(&ratio), "{ratio}: {samples:?}");
    assert_eq!(samples.lost, 0);
}

#[test]
fn kernel_work_shows_in_the_stacks() {
    let seen = observe(PIPE_AND_MEMORY, SAMPLES);
    let Some(samples) = samples_or_skip("kernel_work_shows_in_the_stacks", &seen) else { return };
    let through = |part: &str| {
        let has = |names: &[String]| names.iter().any(|name| name.contains(part));
        samples.stacks.iter().filter(|s| has(&s.symbols)).map(|s| s.count).sum::<u64>()
    };
    assert!(through("fault") > 0 && through("pipe") > 0, "{samples:?}");
    assert!(through("pipe") < samples.kernel_total(), "{samples:?}");
    let nameless: u64 = samples
        .stacks
        .iter()
        .filter(|s| s.symbols.iter().all(|name| name == UNKNOWN_SYMBOL))
        .map(|s| s.count)
        .sum();
    assert!((nameless + samples.rest) * 20 <= samples.kernel_total(), "{samples:?}");
    assert!(samples.stacks.windows(2).all(|pair| pair[0].count >= pair[1].count));
}

#[test]
fn what_was_not_asked_for_is_missing_and_so_are_absent_counters() {
    let seen = observe("true", ObservationOptions { walks: true, ..ObservationOptions::default() });
    assert!(seen.samples.reason().unwrap().contains("not requested"));
    match seen.walks {
        Fact::Known(walks) => {
            assert!(walks.cycles > 0 && walks.data_walk_cycles <= walks.cycles);
        }
        Fact::Missing(reason) => assert!(!reason.is_empty()),
    }
}

#[test]
fn a_process_that_is_gone_gives_reasons() {
    let observers = PerfObservers::attach(
        i32::MAX,
        &ObservationOptions {
            samples: true,
            profile: true,
            walks: true,
            ..ObservationOptions::default()
        },
        &MappedFiles::default(),
        None,
    );
    let PerfObservations { samples, profile, walks, .. } = observers.finish();
    assert!(samples.reason().is_some() && walks.reason().is_some() && profile.reason().is_some());
}
