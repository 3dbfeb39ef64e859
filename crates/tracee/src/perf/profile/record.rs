//! Decodes the records of the profile rings: pure functions on bytes.
//!
//! Samples contain the number of their event, IP, TID, TIME and CALLCHAIN, in that order, then registers and
//! stack if requested. All other records are read by `side_band`. Unknown types are skipped, and so are the
//! records of a thread's second event (`streams`).

use crate::perf::merge::TimedRecord;
use crate::perf::side_band::{self, SideBand};
use crate::perf::streams;
use crate::perf::words::{CopiedStack, RecordWords, halves};
use crate::perf::words::{for_each_record, is_in_kernel};
use pagewise_kernel::perf::bindings as b;
use pagewise_model::Nanos;
use pagewise_model::fault::event::MapEvent;

/// The events of a profile need no kind.
pub(super) type Streams = streams::EventStreams<()>;

/// A sample of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ThreadSample {
    pub(super) pid: i32,
    /// Return addresses in the kernel, leaf first; empty in user mode.
    pub(super) kernel: Vec<u64>,
    /// Addresses in the program, innermost first.
    pub(super) user: Vec<u64>,
    /// Copied stack to find the addresses in instead.
    pub(super) copied: Option<CopiedStack>,
}

/// Content of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ProfileRecord {
    Sample(ThreadSample),
    /// A process has this name. With `is_exec`, it has executed another program.
    Name {
        pid: i32,
        name: String,
        is_exec: bool,
    },
    Map(MapEvent),
    Fork {
        pid: i32,
        parent_pid: i32,
    },
    Lost(u64),
}

/// Something that happened, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProfileEvent {
    pub(super) at_ns: Nanos,
    pub(super) told: ProfileRecord,
}

impl TimedRecord for ProfileEvent {
    fn at_ns(&self) -> Nanos {
        self.at_ns
    }
}

/// Receives events.
pub(super) trait EventReceiver {
    /// Whether samples of process `pid` are worth reading.
    fn wants(&self, pid: i32) -> bool;
    /// Receives one event.
    fn take(&mut self, event: ProfileEvent);
}

/// Passes each event of `bytes` that counts to `taker`; returns how many bytes were understood.
pub(super) fn parse(bytes: &[u8], streams: &mut Streams, taker: &mut impl EventReceiver) -> usize {
    for_each_record(bytes, |record, misc, body| {
        let event = match record {
            b::PERF_RECORD_SAMPLE => sample(misc, body, streams, |pid| taker.wants(pid)),
            _ => side_band(record, misc, body, streams),
        };
        if let Some(event) = event {
            taker.take(event);
        }
    })
}

fn sample(
    misc: u16,
    body: &[u8],
    streams: &mut Streams,
    is_wanted: impl Fn(i32) -> bool,
) -> Option<ProfileEvent> {
    let mut words = RecordWords(body);
    let (id, ip_address) = (words.next()?, words.next()?);
    let (pid, tid) = halves(words.next()?);
    if !streams.accepts(id, tid) || !is_wanted(pid) {
        return None;
    }
    let at_ns = Nanos(words.next()?);
    let (mut kernel, user) = words.call_chain()?;
    match is_in_kernel(misc) {
        true if kernel.is_empty() => kernel.push(ip_address),
        true => {}
        false => kernel.clear(),
    }
    let copied = words.copied_stack();
    Some(ProfileEvent {
        at_ns,
        told: ProfileRecord::Sample(ThreadSample { pid, kernel, user, copied }),
    })
}

fn side_band(record: u32, misc: u16, body: &[u8], streams: &mut Streams) -> Option<ProfileEvent> {
    let (at_ns, told) = side_band::read(record, misc, body, streams)?;
    let told = match told {
        SideBand::Map(map) => ProfileRecord::Map(map),
        // Only the name of the first thread is the name of the process.
        SideBand::Name { pid, tid, name, is_exec } if is_exec || pid == tid => {
            ProfileRecord::Name { pid, name, is_exec }
        }
        SideBand::Fork { pid, parent_pid } => ProfileRecord::Fork { pid, parent_pid },
        SideBand::Lost(count) => ProfileRecord::Lost(count),
        SideBand::Name { .. } | SideBand::Exit { .. } => return None,
    };
    Some(ProfileEvent { at_ns, told })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::words::MODE_KERNEL;
    use crate::perf::words::made::{pair, record, words};
    use proptest::prelude::*;

    const USER: u16 = 2;

    fn sample(misc: u16, chain: &[u64]) -> Vec<u8> {
        let head = [1, 0xabc, pair(7, 8), 99, chain.len() as u64];
        record(b::PERF_RECORD_SAMPLE, misc, &words(&[&head[..], chain].concat()))
    }

    /// Wants everything except samples of one process.
    #[derive(Default)]
    struct But {
        unwanted: i32,
        told: Vec<ProfileRecord>,
    }

    impl EventReceiver for But {
        fn wants(&self, pid: i32) -> bool {
            pid != self.unwanted
        }

        fn take(&mut self, event: ProfileEvent) {
            self.told.push(event.told);
        }
    }

    fn read_but(unwanted: i32, bytes: &[u8]) -> Vec<ProfileRecord> {
        let mut streams = Streams::new(false);
        streams.add(1, (), 8);
        let mut all = But { unwanted, told: Vec::new() };
        let used = parse(bytes, &mut streams, &mut all);
        assert_eq!(used, bytes.len());
        all.told
    }

    fn read(bytes: &[u8]) -> Vec<ProfileRecord> {
        read_but(0, bytes)
    }

    #[test]
    fn both_parts_of_a_stack_are_kept_and_modes_told_apart() {
        let chain = [b::PERF_CONTEXT_KERNEL, 11, 12, b::PERF_CONTEXT_USER, 21, 22];
        let told = |kernel: &[u64], user: &[u64]| {
            let (kernel, user) = (kernel.to_vec(), user.to_vec());
            ProfileRecord::Sample(ThreadSample { pid: 7, kernel, user, copied: None })
        };
        assert_eq!(read(&sample(MODE_KERNEL, &chain)), [told(&[11, 12], &[21, 22])]);
        assert_eq!(read(&sample(USER, &chain[3..])), [told(&[], &[21, 22])]);
        assert_eq!(read(&sample(MODE_KERNEL, &[])), [told(&[0xabc], &[])]);
        assert_eq!(read_but(7, &sample(USER, &chain[3..])), []);
    }

    #[test]
    fn names_forks_and_losses_are_told() {
        let name = u64::from_ne_bytes(*b"cat\0\0\0\0\0");
        let trailer = [pair(7, 7), 50, 1];
        let with = |body: &[u64]| words(&[body, &trailer[..]].concat());
        let exec = u16::try_from(b::PERF_RECORD_MISC_COMM_EXEC).unwrap();
        let bytes = [
            record(b::PERF_RECORD_COMM, exec, &with(&[pair(7, 7), name])),
            record(b::PERF_RECORD_COMM, 0, &with(&[pair(7, 9), name])),
            record(b::PERF_RECORD_FORK, 0, &with(&[pair(9, 7), pair(9, 7), 40])),
            record(b::PERF_RECORD_LOST, 0, &with(&[1, 42])),
        ];
        let want = [
            ProfileRecord::Name { pid: 7, name: "cat".to_owned(), is_exec: true },
            ProfileRecord::Fork { pid: 9, parent_pid: 7 },
            ProfileRecord::Lost(42),
        ];
        assert_eq!(read(&bytes.concat()), want);
    }

    proptest! {
        #[test]
        fn damaged_records_never_panic_and_never_run_past_the_end(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
            cut in any::<prop::sample::Index>(),
        ) {
            let chain = [b::PERF_CONTEXT_KERNEL, 11, b::PERF_CONTEXT_USER, 21];
            let mut bytes = [sample(MODE_KERNEL, &chain), sample(USER, &chain)].concat();
            for (at, value) in changes {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            bytes.truncate(cut.index(bytes.len()));
            let used = parse(&bytes, &mut Streams::new(true), &mut But::default());
            prop_assert!(used <= bytes.len());
        }
    }
}
