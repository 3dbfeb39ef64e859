//! Pins the tree to the CPU of the thread that traces it.
//!
//! Each stop hands over from one thread to another and back. On one CPU that is two switches of 1-2 us. On
//! two CPUs it is two wake-ups of an idle CPU, 20 us and more each in virtual machines. A program that asks
//! for its CPUs gets the answer it would get without tracing. A program that chooses its CPUs keeps them. A
//! process with several threads gets all CPUs back, since threads may wait for each other without sleeping.
//!
//! Visible to the program: `Cpus_allowed` in `/proc/PID/status`.

use crate::follow::NewThread;
use crate::ptrace::{Regs, write_memory};
use pagewise_kernel::affinity;
use std::collections::HashMap;

/// Who chose the CPUs of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CpuChooser {
    /// The tracer: one CPU.
    Ours,
    /// The caller: the CPUs that the tree was started with.
    Given,
    /// The program itself.
    Own,
}

#[derive(Debug)]
pub(super) struct CpuPins {
    /// The CPUs that the tree was started with.
    given: Vec<u32>,
    /// CPU of the tracing thread; `None` if there is only one CPU to choose from.
    one: Option<u32>,
    threads: HashMap<i32, CpuChooser>,
}

impl CpuPins {
    /// Moves the calling thread and its tracee `root` to one CPU.
    pub(super) fn new(root: i32) -> Self {
        let given = affinity::get(root).unwrap_or_default();
        let here = affinity::current().filter(|cpu| given.len() > 1 && given.contains(cpu));
        let one = here.filter(|cpu| affinity::set(0, &[*cpu]).is_ok());
        let mut pins = Self { given, one, threads: HashMap::new() };
        pins.hold(root);
        pins
    }

    /// Pins thread `tid` to the tracer's CPU.
    fn hold(&mut self, tid: i32) {
        if let Some(cpu) = self.one
            && affinity::set(tid, &[cpu]).is_ok()
        {
            self.threads.insert(tid, CpuChooser::Ours);
        }
    }

    /// Lets thread `tid` run on any of the given CPUs, if the tracer pinned it.
    fn release(&mut self, tid: i32) {
        if self.is_held(tid) && affinity::set(tid, &self.given).is_ok() {
            self.threads.insert(tid, CpuChooser::Given);
        }
    }

    pub(super) fn is_held(&self, tid: i32) -> bool {
        self.threads.get(&tid) == Some(&CpuChooser::Ours)
    }

    pub(super) fn begin(&mut self, new: &NewThread) {
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
        if self.threads.get(&pid) == Some(&CpuChooser::Given) {
            self.hold(pid);
        }
    }

    pub(super) fn ended(&mut self, tid: i32) {
        self.threads.remove(&tid);
    }

    /// Thread `tid` has chosen its CPUs.
    pub(super) fn chosen(&mut self, tid: i32) {
        self.threads.insert(tid, CpuChooser::Own);
    }

    /// Corrects an affinity answer. Thread `asker` is stopped at the exit of a call that reported the CPU of a
    /// pinned thread; it gets the CPUs that the tree was started with.
    pub(super) fn answer(&self, asker: i32, regs: &Regs) {
        let Some(mask) = affinity::to_mask(&self.given) else { return };
        let mut bytes: Vec<u8> = mask.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.resize(usize::try_from(regs.rax).unwrap_or(0), 0);
        // The kernel has just written to this address, so it is writable.
        let _gone = write_memory(asker, regs.rdx, &bytes);
    }
}
