//! The tree runs on the CPU of the thread that traces it.
//!
//! A stop hands over from one thread to another and back: on one CPU that is two switches of 1-2 us, on two
//! it is two wake-ups of an idle CPU, of 20 us and more in virtual machines. A program that asks for its CPUs
//! is answered with those that it would have, one that chooses its own keeps them. A process of several
//! threads gets all CPUs back, since threads may wait for each other without sleeping.
//!
//! What shows through: `Cpus_allowed` in `/proc/PID/status`.

use crate::follow::Newborn;
use crate::ptrace::{Regs, write_memory};
use pagewise_kernel::affinity;
use std::collections::HashMap;

/// Whose choice of CPUs a thread runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    /// Ours: one CPU.
    Ours,
    /// Those that the tree was started with.
    Given,
    /// The program's.
    Own,
}

#[derive(Debug)]
pub(super) struct Pins {
    /// The CPUs that the tree was started with.
    given: Vec<u32>,
    /// Of the thread that traces; `None` where there is no choice.
    one: Option<u32>,
    threads: HashMap<i32, Choice>,
}

impl Pins {
    /// Moves the calling thread and its tracee `root` to one CPU.
    pub(super) fn new(root: i32) -> Self {
        let given = affinity::get(root).unwrap_or_default();
        let here = affinity::current().filter(|cpu| given.len() > 1 && given.contains(cpu));
        let one = here.filter(|cpu| affinity::set(0, &[*cpu]).is_ok());
        let mut pins = Self { given, one, threads: HashMap::new() };
        pins.hold(root);
        pins
    }

    /// Has thread `tid` run here.
    fn hold(&mut self, tid: i32) {
        if let Some(cpu) = self.one
            && affinity::set(tid, &[cpu]).is_ok()
        {
            self.threads.insert(tid, Choice::Ours);
        }
    }

    /// Has thread `tid` run anywhere, if it is here by our choice.
    fn release(&mut self, tid: i32) {
        if self.is_held(tid) && affinity::set(tid, &self.given).is_ok() {
            self.threads.insert(tid, Choice::Given);
        }
    }

    pub(super) fn is_held(&self, tid: i32) -> bool {
        self.threads.get(&tid) == Some(&Choice::Ours)
    }

    pub(super) fn begin(&mut self, new: &Newborn) {
        let maker = new.birth.map_or(new.pid, |birth| birth.thread);
        if let Some(choice) = self.threads.get(&maker).copied() {
            self.threads.insert(new.tid, choice);
        }
        if new.tid != new.pid {
            self.release(maker);
            self.release(new.tid);
        }
    }

    /// A program begins with one thread.
    pub(super) fn executed(&mut self, pid: i32) {
        if self.threads.get(&pid) == Some(&Choice::Given) {
            self.hold(pid);
        }
    }

    pub(super) fn ended(&mut self, tid: i32) {
        self.threads.remove(&tid);
    }

    /// Thread `tid` has chosen its CPUs.
    pub(super) fn chosen(&mut self, tid: i32) {
        self.threads.insert(tid, Choice::Own);
    }

    /// Thread `asker` stands at the exit of a call that has written the CPUs of a thread that is held.
    pub(super) fn answer(&self, asker: i32, regs: &Regs) {
        let Some(mask) = affinity::to_mask(&self.given) else { return };
        let mut bytes: Vec<u8> = mask.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.resize(usize::try_from(regs.rax).unwrap_or(0), 0);
        // What the kernel has just written can be written.
        let _gone = write_memory(asker, regs.rdx, &bytes);
    }
}
