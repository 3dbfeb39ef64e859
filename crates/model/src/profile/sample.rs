//! Samples of the CPU clock with the stacks of kernel and program, as they were taken.

use crate::look::{KernelStack, Samples};
use crate::units::{Bytes, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;

/// Stacks that a [`Samples`] lists at most: a program has some hundred; the rest is counted.
pub const MOST_LISTED: usize = 400;

/// A place in the code of a program.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct UserFrame {
    /// The file it was mapped from; empty for code of no file.
    pub path: Arc<str>,
    /// Offset in that file, or the address.
    pub offset_bytes: Bytes,
    /// The function there, if it was looked up and found.
    pub function: Option<Arc<str>>,
    /// Process that made the code as it ran; absent for the code of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maker: Option<i32>,
}

/// Equal stacks of one program. Names and frames are shared: a profile of another machine may have 100,000 stacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProfiledStack {
    /// Name of the process as the kernel has it.
    pub process: Arc<str>,
    /// Functions of the kernel, leaf first; empty in user mode.
    pub kernel: Vec<Arc<str>>,
    /// Code of the program, innermost first, as far as frame pointers lead.
    pub user: Vec<Arc<UserFrame>>,
    /// Samples with this stack.
    pub count: u64,
}

/// Whose clock the samples are by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// That of each CPU, whatever runs on it: all work of the program has samples, exec and exit too.
    Cpus,
    /// One of each process and thread, which starts with it and ends before its memory is released.
    Tasks {
        /// Why none of whole CPUs.
        why: String,
    },
}

impl Default for Clock {
    fn default() -> Self {
        Self::Tasks { why: "nothing else was tried".to_owned() }
    }
}

/// All samples of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StackSamples {
    /// By stack, the most frequent first.
    pub stacks: Vec<ProfiledStack>,
    /// CPU time that one sample stands for.
    pub period_ns: Nanos,
    /// Whose clock they are by.
    pub clock: Clock,
    /// Samples that the kernel reported as lost; by the clock of whole CPUs they may have been of others.
    pub lost: u64,
    /// Processes and threads that began meanwhile. By a clock of their own none has a sample in its first
    /// period.
    pub begun_tasks: u64,
    /// Numbers of the processes that were seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<i32>,
}

impl StackSamples {
    /// The same as kernel stacks alone, as a look has them.
    #[must_use]
    pub fn kernel_only(&self) -> Samples {
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
        Samples { user, ..Samples::listing(listed, self.period_ns, self.lost) }
    }
}

impl Samples {
    /// Samples in the kernel by their stacks, in any order: the most frequent listed, the rest counted.
    #[must_use]
    pub fn listing(mut stacks: Vec<(Vec<String>, u64)>, period_ns: Nanos, lost: u64) -> Self {
        stacks.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let rest = stacks.iter().skip(MOST_LISTED).map(|(_, count)| count).sum();
        stacks.truncate(MOST_LISTED);
        let stack = |(symbols, count)| KernelStack { symbols, count };
        Self { user: 0, stacks: stacks.into_iter().map(stack).collect(), rest, period_ns, lost }
    }
}

/// The course of a profile of a process that was running already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FollowedProcess {
    pub pid: i32,
    /// Threads that were followed at the beginning, those of its children included.
    pub threads: u64,
    /// Processes below it that were followed from the beginning on.
    pub children: u64,
    /// Processes below it that this account may not observe.
    pub unseen_children: u64,
    /// How long it was followed.
    pub wall_ns: Nanos,
    /// CPU time of the process in user mode meanwhile, as the kernel counts it in ticks, its children
    /// left out. Absent where it had ended.
    pub user_ns: Option<Nanos>,
    /// The same in the kernel.
    pub sys_ns: Option<Nanos>,
    /// Its page faults meanwhile, and those of children that it waited for.
    pub faults: Option<u64>,
    /// It ended while it was followed.
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
        let samples = Samples::listing(stacks, Nanos(1), 0);
        assert_eq!((samples.stacks.len(), samples.rest), (MOST_LISTED, 1));
        assert_eq!(samples.stacks[0].symbols, [format!("f{MOST_LISTED}")]);
    }
}
