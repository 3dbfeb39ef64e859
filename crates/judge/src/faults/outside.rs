//! Faults that the kernel takes for a program outside of its calls.
//!
//! On its way back to a program the kernel writes there by itself: the area of restartable sequences
//! (rseq, kernel/rseq.c) whenever a thread was moved or has just been made, signal frames, at its end a
//! thread's cleared number. Memory that a fork has left to be copied is then faulted on, and neither
//! an instruction of the program nor a call of it is behind that. Each such fault that was recorded lies
//! between two calls of its thread. Not seen: any of them without the right to record the kernel's.

use pagewise_model::Nanos;
use pagewise_model::fault::Inside;
use std::collections::HashMap;

/// When each thread faulted in the kernel.
#[derive(Debug, Default)]
pub(super) struct InKernel(HashMap<i32, Vec<Nanos>>);

impl InKernel {
    pub(super) fn add(&mut self, tid: i32, at: Nanos) {
        self.0.entry(tid).or_default().push(at);
    }

    /// Faults in none of the times of `inside`, which are in order.
    pub(super) fn outside(&self, inside: &[Inside]) -> u64 {
        let count = |(tid, times): (&i32, &Vec<Nanos>)| {
            let first = inside.partition_point(|one| one.tid < *tid);
            let end = inside.partition_point(|one| one.tid <= *tid);
            let own = &inside[first..end];
            times.iter().filter(|at| !is_within(own, **at)).count() as u64
        };
        self.0.iter().map(count).sum()
    }
}

fn is_within(own: &[Inside], at: Nanos) -> bool {
    let begun = own.partition_point(|one| one.from_ns <= at);
    // A number may be given to a second thread, whose beginning is then not known: times overlap.
    own[..begun].iter().rev().any(|one| at < one.until_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_between_calls_is_outside() {
        let inside =
            |tid, from, until| Inside { tid, from_ns: Nanos(from), until_ns: Nanos(until) };
        let calls = [inside(1, 0, 10), inside(1, 20, 30), inside(1, 40, 50), inside(3, 0, 15)];
        let mut faults = InKernel::default();
        for (tid, at) in [(1, 5), (1, 12), (1, 20), (1, 30), (1, 49), (2, 5), (3, 14), (3, 15)] {
            faults.add(tid, Nanos(at));
        }
        // 12 and 30 of the first, the one of a thread without calls, 15 of the third.
        assert_eq!(faults.outside(&calls), 4);
        assert_eq!(faults.outside(&[]), 8);
    }
}
