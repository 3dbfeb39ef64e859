//! A profile of a process that is running already, from now until it ends, the time is over or the user
//! has seen enough.
//!
//! Its CPU time by the kernel's ticks and its faults are read before and after, so that something is
//! known without the right to sample: a process that has been waited for by then has none left.

use super::Profiling;
use super::running::follow;
use crate::recorder::{Target, Until};
use pagewise_kernel::clock;
use pagewise_kernel::proc::stat::Stat;
use pagewise_kernel::proc::tree;
use pagewise_model::profile::{Course, StackSamples};
use pagewise_model::{Fact, Nanos};

/// Profiles `target` and what it has below it; never stops it.
#[must_use]
pub fn profile_running(target: &Target, until: &Until<'_>) -> (Fact<StackSamples>, Course) {
    let pid = target.pid();
    let (profiling, followed) = follow(pid);
    let threads = match &profiling {
        Fact::Known(_) => followed.threads,
        Fact::Missing(_) => tree::threads(pid).map_or(0, |threads| threads.len() as u64),
    };
    let (before, start) = (target.stat(), clock::now());
    (until.begun)(threads);
    let has_ended = target.attend(until);
    let wall_ns = Nanos(clock::now().0.saturating_sub(start.0));
    let after = target.stat();
    let between = |of: fn(&Stat) -> u64| {
        let (before, after) = (before.known()?, after.known()?);
        Some(of(after).saturating_sub(of(before)))
    };
    let samples = profiling.and_then(Profiling::finish);
    let course = Course {
        pid,
        threads,
        children: followed.children,
        unseen_children: followed.unseen_children,
        wall_ns,
        user_ns: between(|stat| stat.user_ticks).map(ticks),
        sys_ns: between(|stat| stat.system_ticks).map(ticks),
        faults: between(Stat::faults_with_children),
        has_ended,
    };
    (samples, course)
}

fn ticks(count: u64) -> Nanos {
    let a_second = rustix::param::clock_ticks_per_second().max(1);
    Nanos(count.saturating_mul(1_000_000_000 / a_second))
}
