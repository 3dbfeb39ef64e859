//! Samples of the CPU clock, with the stacks of kernel and program.

use crate::look::{CpuSamples, KernelStack};
use crate::schema::JsonSchema;
use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;

/// Most stacks that a [`CpuSamples`] lists. A program has some hundred; the rest is counted.
pub const MOST_LISTED: usize = 400;

/// A place in the code of a program.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct UserFrame {
    /// The file it was mapped from; empty for code without a file.
    pub path: Arc<str>,
    /// Offset in that file, or the address without a file.
    pub offset_bytes: Bytes,
    /// Function at this place, if it was looked up and found.
    pub function: Option<Arc<str>>,
    /// Process that generated the code; absent for code from a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maker: Option<i32>,
}

/// Equal stacks of one program. Names and frames are shared, because a profile from another machine may have
/// 100,000 stacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProfiledStack {
    /// Name of the process in the kernel.
    pub process: Arc<str>,
    /// Functions of the kernel, leaf first; empty for a sample in user mode.
    pub kernel: Vec<Arc<str>>,
    /// Code of the program, innermost first, as far as frame pointers lead.
    pub user: Vec<Arc<UserFrame>>,
    /// Number of samples with this stack.
    pub count: u64,
}

/// The clock of the samples.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SamplingClock {
    /// The clock of each CPU, whatever runs on it. All work of the program has samples, also exec and exit.
    Cpus,
    /// A clock of each process and thread. It starts with the task and ends before its memory is released.
    Tasks {
        /// Why the clocks of whole CPUs could not be used.
        why: String,
    },
}

impl Default for SamplingClock {
    fn default() -> Self {
        Self::Tasks { why: "nothing else was tried".to_owned() }
    }
}

/// All samples of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StackSamples {
    /// Samples by stack, the most frequent first.
    pub stacks: Vec<ProfiledStack>,
    /// CPU time that one sample stands for.
    pub period_ns: Nanos,
    /// The clock of the samples.
    pub clock: SamplingClock,
    /// Number of samples that the kernel reported as lost. With the clock of whole CPUs they may belong to
    /// other programs.
    pub lost: u64,
    /// Number of processes and threads that began during the profile. If each has its own clock, it has no
    /// sample in its first period.
    pub begun_tasks: u64,
    /// Process ids that were seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<i32>,
}

impl StackSamples {
    /// The same as kernel stacks alone, in the form of a look.
    #[must_use]
    pub fn kernel_only(&self) -> CpuSamples {
        let mut user = 0;
        let mut by_stack: HashMap<&[Arc<str>], u64> = HashMap::new();
        for stack in &self.stacks {
            if stack.kernel.is_empty() {
                user += stack.count;
            } else {
                *by_stack.entry(&stack.kernel).or_default() += stack.count;
            }
        }
        let of_kernel = by_stack.into_iter();
        let owned = |symbols: &[Arc<str>]| symbols.iter().map(ToString::to_string).collect();
        let listed = of_kernel.map(|(symbols, count)| (owned(symbols), count)).collect();
        CpuSamples { user, ..CpuSamples::listing(listed, self.period_ns, self.lost) }
    }
}

impl CpuSamples {
    /// Samples in the kernel by stack, given in any order. The most frequent are listed; the rest is counted.
    #[must_use]
    pub fn listing(mut stacks: Vec<(Vec<String>, u64)>, period_ns: Nanos, lost: u64) -> Self {
        stacks.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let rest = stacks.iter().skip(MOST_LISTED).map(|(_, count)| count).sum();
        stacks.truncate(MOST_LISTED);
        let stack = |(symbols, count)| KernelStack { symbols, count };
        Self { user: 0, stacks: stacks.into_iter().map(stack).collect(), rest, period_ns, lost }
    }
}

/// The course of a profile of a process that ran already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FollowedProcess {
    pub pid: i32,
    /// Number of threads at the beginning, including those of its children.
    pub threads: u64,
    /// Number of descendants that were followed from the beginning.
    pub children: u64,
    /// Number of descendants that this account may not observe.
    pub unseen_children: u64,
    /// Wall time for which the process was followed.
    pub wall_ns: Nanos,
    /// CPU time of the process in user mode during that time, without its children, as the kernel counts it
    /// in ticks. Absent if the process had ended.
    pub user_ns: Option<Nanos>,
    /// CPU time of the process in the kernel during that time.
    pub sys_ns: Option<Nanos>,
    /// Page faults of the process during that time, and those of children that it waited for.
    pub faults: Option<u64>,
    /// True if the process ended during that time.
    pub has_ended: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constructed::profiled_stack as stack;

    #[test]
    fn kernel_stacks_of_all_processes_are_added_up() {
        let stacks = vec![
            stack("a", &["vfs_read"], 3),
            stack("b", &["vfs_read"], 4),
            stack("a", &["vfs_write"], 9),
            stack("a", &[], 5),
            stack("b", &[], 6),
        ];
        let all = StackSamples { stacks, period_ns: Nanos(500), lost: 2, ..Default::default() };
        let only = all.kernel_only();
        let counts: Vec<u64> = only.stacks.iter().map(|stack| stack.count).collect();
        assert_eq!((counts, only.user, only.rest, only.lost), (vec![9, 7], 11, 0, 2));
        assert_eq!((only.total(), only.period_ns), (27, Nanos(500)));
    }

    #[test]
    fn rare_stacks_are_counted_together() {
        let stacks = (0..=MOST_LISTED as u64).map(|n| (vec![format!("f{n}")], n + 1)).collect();
        let samples = CpuSamples::listing(stacks, Nanos(1), 0);
        assert_eq!((samples.stacks.len(), samples.rest), (MOST_LISTED, 1));
        assert_eq!(samples.stacks[0].symbols, [format!("f{MOST_LISTED}")]);
    }
}
