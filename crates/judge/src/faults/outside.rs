//! Faults that the kernel takes for a program outside of its calls.
//!
//! On its way back to a program the kernel writes user memory itself. It writes the area of restartable
//! sequences (rseq, kernel/rseq.c) whenever a thread was moved or has just been made. It also writes signal
//! frames and, when a thread ends, the thread's cleared number. If a fork has left that memory to be copied,
//! the write faults. No instruction and no call of the program is behind such a fault. Each one that was
//! recorded lies between two calls of its thread. Not seen: any of them without the right to record the
//! kernel's faults.

use pagewise_model::Nanos;
use pagewise_model::fault::CallSpan;
use std::collections::HashMap;

/// When each thread faulted in the kernel.
#[derive(Debug, Default)]
pub(super) struct KernelFaultTimes(HashMap<i32, Vec<Nanos>>);

impl KernelFaultTimes {
    pub(super) fn add(&mut self, tid: i32, at: Nanos) {
        self.0.entry(tid).or_default().push(at);
    }

    /// Faults in none of the times of `inside`, which are in order.
    pub(super) fn outside(&self, inside: &[CallSpan]) -> u64 {
        let count = |(tid, times): (&i32, &Vec<Nanos>)| {
            let first = inside.partition_point(|one| one.tid < *tid);
            let end = inside.partition_point(|one| one.tid <= *tid);
            let own = &inside[first..end];
            times.iter().filter(|at| !is_within(own, **at)).count() as u64
        };
        self.0.iter().map(count).sum()
    }
}

fn is_within(own: &[CallSpan], at: Nanos) -> bool {
    let begun = own.partition_point(|one| one.from_ns <= at);
    // A second thread may reuse a thread number. Its beginning is then unknown, and the times overlap.
    own[..begun].iter().rev().any(|one| at < one.until_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_between_calls_is_outside() {
        let inside =
            |tid, from, until| CallSpan { tid, from_ns: Nanos(from), until_ns: Nanos(until) };
        let calls = [inside(1, 0, 10), inside(1, 20, 30), inside(1, 40, 50), inside(3, 0, 15)];
        let mut faults = KernelFaultTimes::default();
        for (tid, at) in [(1, 5), (1, 12), (1, 20), (1, 30), (1, 49), (2, 5), (3, 14), (3, 15)] {
            faults.add(tid, Nanos(at));
        }
        // Faults 12 and 30 of the first thread, the fault of the thread without calls, and fault 15 of the
        // third.
        assert_eq!(faults.outside(&calls), 4);
        assert_eq!(faults.outside(&[]), 8);
    }
}
