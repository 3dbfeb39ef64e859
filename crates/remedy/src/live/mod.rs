//! Changes of a running service that can be switched on and off from outside, and the process that undoes
//! them.
//!
//! - *heap*: memory on small pages in large private mappings goes on huge pages (`tracee::collapse`), and later
//!   exactly these huge pages are split. Memory that was huge before is not touched.
//! - *CPUs*: every thread gets another affinity, and later its own again. A thread created meanwhile gets that of
//!   its process, a process that of the service. A thread that has other CPUs by then has chosen them, and keeps
//!   them.
//!
//! The data for the undo ([`LiveUndo`]) is written down before the first step. A helper process ([`serve`]), with
//! its own session and process name, makes the steps. It undoes them on request, and when the requester is
//! gone. If the helper is gone instead, [`LiveSwitch`] undoes them.
//!
//! Cost: a read of the heap's page table (some 5 ms per GiB), then 0.1 to 0.5 ms per huge page; 2 us per
//! thread. Not undone: what is left if both are killed at the same moment; the affinity of a process that
//! left the tree by a double fork in that time.

mod cpus;
mod front;
mod heap;
mod offer;
mod server;

pub use front::{LiveSwitch, SwitchError};
pub use offer::{LiveOffer, RunningService, offers};
pub use server::serve;

use crate::recache::{is_pressed, no_room};
use cpus::ThreadAffinities;
use heap::HeapSlots;
use pagewise_kernel::clock;
use pagewise_kernel::proc::image::TaskIdentity;
use pagewise_kernel::proc::tree;
use pagewise_model::cache::CacheOutcome;
use pagewise_model::{Bytes, Nanos};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Pause between two attempts to undo: a child still shares the memory.
const PAUSE: Duration = Duration::from_millis(50);

/// A change that can be switched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum LiveChange {
    /// Put the heap on huge pages.
    HeapHuge,
    /// Put all threads on these CPUs.
    Cpus { cpus: Vec<u32> },
}

/// Result of a change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveResult {
    /// Number of huge pages or threads that were changed.
    pub changed: u64,
    /// Number that was not changed, with the last reason below.
    pub refused: u64,
    pub why: Option<String>,
}

/// What is left of a change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveRemainder {
    pub huge_bytes: Bytes,
    pub threads: u64,
}

impl LiveRemainder {
    #[must_use]
    pub fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

impl std::fmt::Display for LiveRemainder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.huge_bytes, self.threads) {
            (Bytes(0), threads) => write!(f, "the affinity of {threads} threads"),
            (bytes, 0) => write!(f, "{bytes} on huge pages"),
            (bytes, threads) => {
                write!(f, "{bytes} on huge pages and the affinity of {threads} threads")
            }
        }
    }
}

/// The data to undo a change.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LiveUndo {
    root: TaskIdentity,
    heaps: Vec<HeapSlots>,
    affinities: Option<ThreadAffinities>,
}

impl LiveUndo {
    /// Finds out what `change` is to do to process `root` and its descendants, without doing it.
    ///
    /// # Errors
    /// Why there is nothing to do, or nothing may be done now.
    fn plan(root: TaskIdentity, change: &LiveChange) -> Result<Self, String> {
        let mut undo = Self { root, heaps: Vec::new(), affinities: None };
        let pids = pids(root);
        match change {
            LiveChange::HeapHuge => {
                undo.heaps = heap::find_all(&pids)?;
                let grows = undo.heaps.iter().fold(Bytes(0), |sum, heap| sum + heap.grows());
                if let Some(CacheOutcome::Refused { why, .. }) =
                    no_room(grows + heap::slot()).or_else(is_pressed)
                {
                    return Err(why);
                }
            }
            LiveChange::Cpus { cpus } => {
                undo.affinities = Some(ThreadAffinities::read(root.id(), &pids, cpus)?);
            }
        }
        Ok(undo)
    }

    /// Opens the processes to undo, in a process that did not plan the change. A process that has ended needs
    /// no undo.
    fn hold(&mut self) {
        self.heaps.retain_mut(|heap| heap.hold().is_ok());
    }

    /// Makes the change, until `enough` returns true.
    fn change(&self, enough: &dyn Fn() -> bool) -> LiveResult {
        let mut applied = LiveResult::default();
        for heap in &self.heaps {
            heap.collapse(&mut applied, enough);
        }
        if let Some(affinities) = &self.affinities {
            affinities.change(&mut applied);
        }
        applied
    }

    /// Undoes as much as is possible now.
    fn step(&self) -> LiveRemainder {
        let huge = self.heaps.iter().map(|heap| heap.split().0).sum();
        let affinities = self.affinities.as_ref();
        let threads = affinities.map_or(0, |affinities| affinities.restore(&|| pids(self.root)));
        LiveRemainder { huge_bytes: Bytes(huge), threads }
    }

    /// Undoes the change, and tries again for up to `patience`.
    fn within(&self, patience: Nanos) -> LiveRemainder {
        let deadline = clock::now() + patience;
        loop {
            let left = self.step();
            if left.is_nothing() || clock::now() > deadline {
                return left;
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// The process `root` and its descendants; empty if it has ended, even if its number is in use again.
fn pids(root: TaskIdentity) -> Vec<i32> {
    let below = tree::descendants(root.id()).unwrap_or_default();
    let all = std::iter::once(root.id()).chain(below);
    // Checked last: until here the number belonged to it.
    if root.is_there() { all.collect() } else { Vec::new() }
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
mod tests {
    use super::*;
    use pagewise_kernel::affinity;
    use pagewise_kernel::proc::own_pid;
    use pagewise_tracee::collapse::CollapseTarget;
    use std::process::{Child, Stdio};

    fn birth(id: i32) -> TaskIdentity {
        TaskIdentity::of(id).unwrap()
    }

    fn child(program: &str, words: &[&str]) -> (Child, i32) {
        let mut command = std::process::Command::new(program);
        let child = command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = child.spawn().unwrap();
        let pid = child.id().cast_signed();
        (child, pid)
    }

    #[test]
    fn a_heap_is_collapsed_where_it_is_full_and_split_again() {
        if let Err(error) = CollapseTarget::open(own_pid()).and_then(|own| own.permits()) {
            return println!("SKIP a_heap_is_collapsed: {error}");
        }
        let huge = slot_of_tests();
        let mut memory = vec![7u8; 8 * huge];
        memory[3 * huge] = 8;
        let undo = match LiveUndo::plan(birth(own_pid()), &LiveChange::HeapHuge) {
            Ok(undo) => undo,
            Err(why) => return println!("SKIP a_heap_is_collapsed: {why}"),
        };
        let applied = undo.change(&|| false);
        if applied.changed == 0 {
            return println!("SKIP a_heap_is_collapsed: {applied:?}");
        }
        assert!(undo.within(Nanos(0)).is_nothing(), "split by one step");
        let again = LiveUndo::plan(birth(own_pid()), &LiveChange::HeapHuge).unwrap();
        let slots = |undo: &LiveUndo| undo.heaps.iter().map(|heap| heap.size().0).sum::<u64>();
        assert!(slots(&again) >= 6 * huge as u64, "what was split is on small pages");
        let stopped = again.change(&|| true);
        assert_eq!(stopped.changed, 0, "stopped before the first");
        assert!(memory.iter().all(|byte| *byte >= 7));
    }

    fn slot_of_tests() -> usize {
        usize::try_from(heap::slot().0).unwrap()
    }

    #[test]
    fn threads_get_their_own_cpus_again_those_born_meanwhile_too() {
        let all = affinity::get(0).unwrap();
        let [first, second, ..] = all[..] else {
            return println!("SKIP threads_get_their_own_cpus_again: one CPU");
        };
        let (mut shell, pid) = child("sh", &["-c", "read go; sleep 60 & echo $!; wait"]);
        affinity::set(pid, &[first, second]).unwrap();
        let change = LiveChange::Cpus { cpus: vec![second] };
        let undo = LiveUndo::plan(birth(pid), &change).unwrap();
        assert_eq!(undo.change(&|| false).changed, 1);
        assert_eq!(affinity::get(pid).unwrap(), [second]);
        assert!(LiveUndo::plan(birth(pid), &change).unwrap_err().contains("already"));
        use std::io::{BufRead, BufReader, Write};
        shell.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let born: i32 = line.trim().parse().unwrap();
        assert_eq!(affinity::get(born).unwrap(), [second], "inherited");
        assert!(undo.within(Nanos(0)).is_nothing());
        for pid in [pid, born] {
            assert_eq!(affinity::get(pid).unwrap(), [first, second]);
        }
        affinity::set(pid, &[first]).unwrap();
        assert!(undo.within(Nanos(0)).is_nothing());
        assert_eq!(affinity::get(pid).unwrap(), [first], "its own choice since");
        let born = rustix::process::Pid::from_raw(born).unwrap();
        rustix::process::kill_process(born, rustix::process::Signal::KILL).unwrap();
        shell.kill().unwrap();
        shell.wait().unwrap();
    }

    #[test]
    fn a_process_that_has_ended_has_nothing_left() {
        let (mut cat, pid) = child("cat", &[]);
        let change = LiveChange::Cpus { cpus: vec![affinity::get(0).unwrap()[0]] };
        let root = birth(pid);
        let undo = LiveUndo::plan(root, &change);
        cat.kill().unwrap();
        cat.wait().unwrap();
        if let Ok(undo) = undo {
            assert_eq!(undo.change(&|| false).changed, 0);
            assert!(undo.within(Nanos(0)).is_nothing());
        }
        assert!(LiveUndo::plan(root, &change).is_err());
    }

    #[test]
    fn a_stranger_with_the_number_of_what_was_changed_keeps_its_cpus() {
        let all = affinity::get(0).unwrap();
        let [first, second, ..] = all[..] else {
            return println!("SKIP a_stranger_with_the_number: one CPU");
        };
        let (mut cat, pid) = child("cat", &[]);
        let (mut other, stranger) = child("cat", &[]);
        for id in [pid, stranger] {
            affinity::set(id, &[first, second]).unwrap();
        }
        let undo = LiveUndo::plan(birth(pid), &LiveChange::Cpus { cpus: vec![second] }).unwrap();
        // The same plan, after the number of its process went to another one that chose the same CPU.
        let plan = serde_json::to_string(&undo).unwrap();
        let reused = plan.replace(&pid.to_string(), &stranger.to_string());
        let reused: LiveUndo =
            serde_json::from_str(&reused.replace("start_ticks\":", "start_ticks\":1")).unwrap();
        affinity::set(stranger, &[second]).unwrap();
        assert!(reused.within(Nanos(0)).is_nothing());
        assert_eq!(affinity::get(stranger).unwrap(), [second], "it is not ours to undo");
        affinity::set(stranger, &[first, second]).unwrap();
        assert_eq!(reused.change(&|| false).changed, 0, "nor to change");
        assert_eq!(affinity::get(stranger).unwrap(), [first, second]);
        assert!(LiveUndo::plan(reused.root, &LiveChange::Cpus { cpus: vec![second] }).is_err());
        for one in [&mut cat, &mut other] {
            one.kill().unwrap();
            one.wait().unwrap();
        }
    }

    #[test]
    fn a_thread_that_chooses_other_cpus_meanwhile_keeps_them() {
        let all = affinity::get(0).unwrap();
        let [first, second, ..] = all[..] else {
            return println!("SKIP a_thread_that_chooses_other_cpus: one CPU");
        };
        let (mut cat, pid) = child("cat", &[]);
        affinity::set(pid, &[first, second]).unwrap();
        let undo = LiveUndo::plan(birth(pid), &LiveChange::Cpus { cpus: vec![second] }).unwrap();
        assert_eq!(undo.change(&|| false).changed, 1);
        affinity::set(pid, &[first]).unwrap();
        assert!(undo.within(Nanos(0)).is_nothing());
        assert_eq!(affinity::get(pid).unwrap(), [first]);
        cat.kill().unwrap();
        cat.wait().unwrap();
    }

    #[test]
    fn what_is_left_is_named() {
        let left = |huge_bytes, threads| LiveRemainder { huge_bytes, threads }.to_string();
        assert_eq!(left(Bytes::mib(4), 0), "4.0 MiB on huge pages");
        assert_eq!(left(Bytes(0), 2), "the affinity of 2 threads");
        assert!(left(Bytes::mib(4), 2).contains("and the affinity"));
    }
}
