//! A constructed profile in round numbers that come from no machine.

use pagewise_model::body::RunBody;
use pagewise_model::code_tlb::SampledCodePages;
use pagewise_model::profile::{
    CallGraphLine, ComparedTime, DeadRule, FollowedProcess, FrequentStack, ProfileActivity,
    ProfileBucket, ProfileReason, ProfileReport, SamplingClock, SortedSamples,
};
use pagewise_model::run::{RunKind, SavedRun};
use pagewise_model::{Fact, Nanos};

const PERIOD: Nanos = Nanos(500_000);
const SAMPLES: u64 = 2000;

fn line(depth: u32, name: &str, samples: u64) -> CallGraphLine {
    CallGraphLine { depth, name: name.into(), samples, folded: 0 }
}

fn bucket(
    what: ProfileActivity,
    why: ProfileReason,
    samples: u64,
    graph: Vec<CallGraphLine>,
) -> ProfileBucket {
    ProfileBucket {
        what,
        why,
        samples,
        cpu_ns: Nanos(samples * PERIOD.0),
        time_share: samples as f64 / SAMPLES as f64,
        graph,
    }
}

/// The samples of a pipeline of two programs.
pub(crate) fn sorted() -> SortedSamples {
    let copies = vec![
        line(0, "producer", 450),
        line(1, "main (producer)", 450),
        line(2, "write (libc.so.6)", 450),
        line(3, "entry_SYSCALL_64_after_hwframe", 450),
        line(4, "do_syscall_64", 450),
        line(5, "anon_pipe_write", 450),
        line(6, "copy_page_from_iter", 430),
        line(7, "_copy_from_iter", 430),
        CallGraphLine { depth: 6, name: String::new(), samples: 20, folded: 7 },
        line(0, "consumer", 150),
        line(1, "do_syscall_64", 150),
        line(2, "anon_pipe_read", 150),
    ];
    SortedSamples {
        samples: SAMPLES,
        kernel_samples: 1400,
        lost: 3,
        period_ns: PERIOD,
        clock: SamplingClock::Cpus,
        begun_tasks: 2,
        buckets: vec![
            bucket(ProfileActivity::User, ProfileReason::Own, 600, vec![line(0, "consumer", 600)]),
            bucket(ProfileActivity::Copy, ProfileReason::Pipe, 600, copies),
            bucket(
                ProfileActivity::Scheduling,
                ProfileReason::Pipe,
                300,
                vec![line(0, "producer", 300)],
            ),
            bucket(
                ProfileActivity::Copy,
                ProfileReason::FileRead,
                240,
                vec![line(0, "producer", 240)],
            ),
            bucket(
                ProfileActivity::Zeroing,
                ProfileReason::AnonFault,
                200,
                vec![line(0, "consumer", 200)],
            ),
            bucket(
                ProfileActivity::Unclassified,
                ProfileReason::Call("sendto".into()),
                40,
                vec![line(0, "producer", 40)],
            ),
            bucket(ProfileActivity::Handling, ProfileReason::Exec, 15, vec![line(0, "sh", 15)]),
            bucket(ProfileActivity::Lock, ProfileReason::Pipe, 5, vec![line(0, "producer", 5)]),
        ],
        unclassified: vec![FrequentStack {
            symbols: ["tcp_sendmsg_locked", "tcp_sendmsg", "sock_write_iter"]
                .map(Into::into)
                .into(),
            samples: 40,
        }],
        pressure_accounting_share: 0.012,
    }
}

/// With the counts beside it, and a rule that matches nothing.
pub(crate) fn profile() -> ProfileReport {
    let compared = |name: &str, counted, sampled, differ| ComparedTime {
        name: name.into(),
        counted_ns: Nanos::millis(counted),
        sampled_ns: Nanos::millis(sampled),
        differ,
    };
    let dead = DeadRule { name: "swapping in".into(), kernels: "5.4-".into() };
    ProfileReport {
        sorted: Fact::Known(sorted()),
        compared: vec![
            compared("zeroing", 95, 100, false),
            compared("data through pipes", 520, 302, true),
        ],
        unseen: Vec::new(),
        dead_rules: Fact::Known(vec![dead]),
        code_pages: Some(SampledCodePages {
            samples: 1500,
            pages: 150,
            pages_in_1000: 120.0,
            pages_of_most: 61,
            entries: Some(64),
        }),
        course: None,
    }
}

/// The course of a process that was already running.
pub(crate) fn course() -> FollowedProcess {
    FollowedProcess {
        pid: 4711,
        threads: 9,
        children: 2,
        unseen_children: 1,
        wall_ns: Nanos::secs(5),
        user_ns: Some(Nanos::millis(1200)),
        sys_ns: Some(Nanos::millis(340)),
        faults: Some(12_345),
        has_ended: false,
    }
}

pub(crate) fn run(profile: ProfileReport) -> SavedRun {
    let mut run = SavedRun::new(RunKind::Profile, String::new(), 0, vec!["producer".into()]);
    run.body = Some(RunBody::Profile(profile));
    run
}
