//! A constructed profile in round numbers that come from no machine.

use pagewise_model::body::Body;
use pagewise_model::profile::{
    Bucket, Clock, Compared, DeadRule, FollowedProcess, FrequentStack, GraphLine, Profile, Sorted,
    What, Why,
};
use pagewise_model::run::{Run, RunKind};
use pagewise_model::{Fact, Nanos};

const PERIOD: Nanos = Nanos(500_000);
const SAMPLES: u64 = 2000;

fn line(depth: u32, name: &str, samples: u64) -> GraphLine {
    GraphLine { depth, name: name.into(), samples, folded: 0 }
}

fn bucket(what: What, why: Why, samples: u64, graph: Vec<GraphLine>) -> Bucket {
    Bucket {
        what,
        why,
        samples,
        cpu_ns: Nanos(samples * PERIOD.0),
        time_share: samples as f64 / SAMPLES as f64,
        graph,
    }
}

/// The samples of a pipeline of two programs.
pub(crate) fn sorted() -> Sorted {
    let copies = vec![
        line(0, "producer", 450),
        line(1, "main (producer)", 450),
        line(2, "write (libc.so.6)", 450),
        line(3, "entry_SYSCALL_64_after_hwframe", 450),
        line(4, "do_syscall_64", 450),
        line(5, "anon_pipe_write", 450),
        line(6, "copy_page_from_iter", 430),
        line(7, "_copy_from_iter", 430),
        GraphLine { depth: 6, name: String::new(), samples: 20, folded: 7 },
        line(0, "consumer", 150),
        line(1, "do_syscall_64", 150),
        line(2, "anon_pipe_read", 150),
    ];
    Sorted {
        samples: SAMPLES,
        kernel_samples: 1400,
        lost: 3,
        period_ns: PERIOD,
        clock: Clock::Cpus,
        begun_tasks: 2,
        buckets: vec![
            bucket(What::User, Why::Own, 600, vec![line(0, "consumer", 600)]),
            bucket(What::Copy, Why::Pipe, 600, copies),
            bucket(What::Scheduling, Why::Pipe, 300, vec![line(0, "producer", 300)]),
            bucket(What::Copy, Why::FileRead, 240, vec![line(0, "producer", 240)]),
            bucket(What::Zeroing, Why::AnonFault, 200, vec![line(0, "consumer", 200)]),
            bucket(
                What::Unclassified,
                Why::Call("sendto".into()),
                40,
                vec![line(0, "producer", 40)],
            ),
            bucket(What::Handling, Why::Exec, 15, vec![line(0, "sh", 15)]),
            bucket(What::Lock, Why::Pipe, 5, vec![line(0, "producer", 5)]),
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
pub(crate) fn profile() -> Profile {
    let compared = |name: &str, counted, sampled, differ| Compared {
        name: name.into(),
        counted_ns: Nanos::millis(counted),
        sampled_ns: Nanos::millis(sampled),
        differ,
    };
    let dead = DeadRule { name: "swapping in".into(), kernels: "5.4-".into() };
    Profile {
        sorted: Fact::Known(sorted()),
        compared: vec![
            compared("zeroing", 95, 100, false),
            compared("data through pipes", 520, 302, true),
        ],
        unseen: Vec::new(),
        dead_rules: Fact::Known(vec![dead]),
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

pub(crate) fn run(profile: Profile) -> Run {
    let mut run = Run::new(RunKind::Profile, String::new(), 0, vec!["producer".into()]);
    run.body = Some(Body::Profile(profile));
    run
}
