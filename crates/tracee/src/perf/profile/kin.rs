//! Whose samples count where the clocks of whole CPUs tell of everybody's.
//!
//! Every fork on the machine is told with its time, so it is known of each sample: a child of ours is
//! ours, and a number that is given to another process is ours no more. A process that has ended stays
//! ours until then, since what it releases comes after its last record (kernel/exit.c, `do_exit`).
//!
//! Samples of others are dropped, and nothing of them is counted or kept: the first of a process when its
//! turn has come (`merge`, two rounds later at most), all others unread. Not seen: a number that went from
//! another process to one of ours may lose what it did until its fork was read, a round at most.

use rustc_hash::FxHashSet;

/// Processes of the program, and those of which samples came that are none.
#[derive(Debug, Default)]
pub(super) struct Kin {
    ours: FxHashSet<i32>,
    strangers: FxHashSet<i32>,
}

impl Kin {
    /// Process `pid` is the program's.
    pub(super) fn adopt(&mut self, pid: i32) {
        self.ours.insert(pid);
    }

    /// Process `parent_pid` has made process `pid`, or a thread of its own; whether that is the program's.
    pub(super) fn fork(&mut self, pid: i32, parent_pid: i32) -> bool {
        let is_ours = self.ours.contains(&parent_pid);
        if is_ours {
            self.ours.insert(pid);
        } else {
            self.ours.remove(&pid);
        }
        is_ours
    }

    /// Whether process `pid` is the program's at the time that has been reached. Before there is a program,
    /// nobody is a stranger: the process that will execute it runs already.
    pub(super) fn has(&mut self, pid: i32) -> bool {
        let is_ours = self.ours.contains(&pid);
        if !is_ours && !self.ours.is_empty() {
            self.strangers.insert(pid);
        }
        is_ours
    }

    /// Whether process `pid` was none of the program's, and its number is still its own as far as was read.
    pub(super) fn is_stranger(&self, pid: i32) -> bool {
        self.strangers.contains(&pid)
    }

    /// A fork of process `pid` was read: it may be another than before.
    pub(super) fn doubt(&mut self, pid: i32) {
        self.strangers.remove(&pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_ours_until_another_process_has_their_number() {
        let mut kin = Kin::default();
        assert!(!kin.has(1) && !kin.is_stranger(1), "before it is adopted");
        kin.adopt(1);
        assert!(kin.fork(2, 1) && kin.fork(3, 2) && kin.has(3));
        assert!(kin.fork(1, 1), "a thread");
        assert!(!kin.fork(8, 7) && !kin.has(8));
        // 3 has ended, and somebody else has its number.
        assert!(!kin.fork(3, 7) && !kin.has(3) && kin.has(2));
    }

    #[test]
    fn a_stranger_is_one_until_its_number_is_given_anew() {
        let mut kin = Kin::default();
        kin.adopt(1);
        assert!(!kin.is_stranger(8), "it has not been asked for");
        assert!(!kin.has(8) && kin.is_stranger(8) && !kin.is_stranger(1));
        kin.doubt(8);
        assert!(!kin.is_stranger(8) && kin.fork(8, 1) && kin.has(8));
    }
}
