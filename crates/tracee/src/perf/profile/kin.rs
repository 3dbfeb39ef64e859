//! Selects the program's samples if clocks of whole CPUs sample all processes.
//!
//! Every fork on the machine is reported with its time, so each sample can be attributed. A child of a
//! process of the program belongs to the program. A number that is given to another process no longer does. A
//! process that has ended still belongs until then, since it releases its memory after its last record
//! (kernel/exit.c, `do_exit`).
//!
//! Samples of other processes are dropped without counting or keeping anything. The first sample of a process
//! is dropped when its turn comes (`merge`, two rounds later at most), all others unread.
//!
//! Not seen: if a number passes from another process to one of the program, samples are lost until the fork
//! is read, for one round at most.

use rustc_hash::FxHashSet;

/// Processes of the program, and processes known not to belong to it.
#[derive(Debug, Default)]
pub(super) struct KinFilter {
    ours: FxHashSet<i32>,
    strangers: FxHashSet<i32>,
}

impl KinFilter {
    /// Adds process `pid` to the program.
    pub(super) fn adopt(&mut self, pid: i32) {
        self.ours.insert(pid);
    }

    /// Process `parent_pid` has made process `pid`, or a thread of itself. Returns whether that belongs to
    /// the program.
    pub(super) fn fork(&mut self, pid: i32, parent_pid: i32) -> bool {
        let is_ours = self.ours.contains(&parent_pid);
        if is_ours {
            self.ours.insert(pid);
        } else {
            self.ours.remove(&pid);
        }
        is_ours
    }

    /// Whether process `pid` belongs to the program at the current event time. Before the program exists, no
    /// process is recorded as a stranger: the process that will execute it already runs.
    pub(super) fn has(&mut self, pid: i32) -> bool {
        let is_ours = self.ours.contains(&pid);
        if !is_ours && !self.ours.is_empty() {
            self.strangers.insert(pid);
        }
        is_ours
    }

    /// Whether process `pid` is known not to belong to the program, with no fork read since that reuses its
    /// number.
    pub(super) fn is_stranger(&self, pid: i32) -> bool {
        self.strangers.contains(&pid)
    }

    /// A fork that made process `pid` was read: the number may belong to a new process.
    pub(super) fn doubt(&mut self, pid: i32) {
        self.strangers.remove(&pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_ours_until_another_process_has_their_number() {
        let mut kin = KinFilter::default();
        assert!(!kin.has(1) && !kin.is_stranger(1), "before it is adopted");
        kin.adopt(1);
        assert!(kin.fork(2, 1) && kin.fork(3, 2) && kin.has(3));
        assert!(kin.fork(1, 1), "a thread");
        assert!(!kin.fork(8, 7) && !kin.has(8));
        // 3 has ended, and another process has its number.
        assert!(!kin.fork(3, 7) && !kin.has(3) && kin.has(2));
    }

    #[test]
    fn a_stranger_is_one_until_its_number_is_given_anew() {
        let mut kin = KinFilter::default();
        kin.adopt(1);
        assert!(!kin.is_stranger(8), "it has not been asked for");
        assert!(!kin.has(8) && kin.is_stranger(8) && !kin.is_stranger(1));
        kin.doubt(8);
        assert!(!kin.is_stranger(8) && kin.fork(8, 1) && kin.has(8));
    }
}
