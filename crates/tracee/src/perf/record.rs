//! Decodes the records of a perf ring buffer: pure functions on bytes.
//!
//! The records ([`super::words`]) are samples with IP, TID, TIME, CALLCHAIN in that order, and losses.
//! Unknown types are skipped.

use super::words;
use super::words::{for_each_record, is_in_kernel};
use pagewise_kernel::perf::bindings::{
    PERF_CONTEXT_KERNEL, PERF_CONTEXT_MAX, PERF_RECORD_LOST, PERF_RECORD_LOST_SAMPLES,
    PERF_RECORD_SAMPLE,
};

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SamplingRecord {
    /// A sample in user mode.
    User,
    /// A sample in kernel mode with its kernel stack, leaf first.
    Kernel(Vec<u64>),
    /// The kernel had no room for this many records.
    Lost(u64),
}

/// The records in `bytes` without the samples of process `left_out`, and the number of bytes they take.
pub(super) fn parse(bytes: &[u8], left_out: Option<u32>) -> (Vec<SamplingRecord>, usize) {
    let mut records = Vec::new();
    let used = for_each_record(bytes, |kind, misc, body| {
        records.extend(parse_body(kind, misc, body, left_out));
    });
    (records, used)
}

fn parse_body(kind: u32, misc: u16, body: &[u8], left_out: Option<u32>) -> Option<SamplingRecord> {
    match kind {
        PERF_RECORD_SAMPLE if left_out.is_some() && process(body) == left_out => None,
        PERF_RECORD_SAMPLE if is_in_kernel(misc) => kernel_sample(body),
        PERF_RECORD_SAMPLE => Some(SamplingRecord::User),
        PERF_RECORD_LOST => word(body, 1).map(SamplingRecord::Lost),
        PERF_RECORD_LOST_SAMPLES => word(body, 0).map(SamplingRecord::Lost),
        _ => None,
    }
}

/// The process of a sample: the lower half of the second word.
fn process(body: &[u8]) -> Option<u32> {
    word(body, 1).map(|ids| (ids & u64::from(u32::MAX)) as u32)
}

/// Body: ip, pid and tid, time, number of chain entries, the entries.
fn kernel_sample(body: &[u8]) -> Option<SamplingRecord> {
    let ip = word(body, 0)?;
    let entries = usize::try_from(word(body, 3)?).ok()?;
    let chain = (4..).take(entries).map_while(|i| word(body, i));
    let stack = kernel_part(chain);
    Some(SamplingRecord::Kernel(if stack.is_empty() { vec![ip] } else { stack }))
}

/// The entries from the mark "kernel" to the next mark.
fn kernel_part(chain: impl Iterator<Item = u64>) -> Vec<u64> {
    let is_mark = |entry: &u64| *entry >= PERF_CONTEXT_MAX;
    chain
        .skip_while(|entry| *entry != PERF_CONTEXT_KERNEL)
        .skip(1)
        .take_while(|entry| !is_mark(entry))
        .collect()
}

fn word(body: &[u8], index: usize) -> Option<u64> {
    words::word(body, index.checked_mul(8)?)
}

#[cfg(test)]
mod tests {
    use super::super::words::MODE_KERNEL;
    use super::super::words::made::{record, words};
    use super::*;

    /// Recorded on Linux 6.18 x86-64 with the attributes of `sampling`: see the note beside it.
    const RECORDED: &[u8] = include_bytes!("../../fixtures/perf-ring.bin");

    fn sample(misc: u16, chain: &[u64]) -> Vec<u8> {
        let head = [7, 0x10_0000_0001, 99, chain.len() as u64];
        record(PERF_RECORD_SAMPLE, misc, &words(&[&head[..], chain].concat()))
    }

    #[test]
    fn records_of_each_kind_parse() {
        let mut bytes = sample(MODE_KERNEL, &[PERF_CONTEXT_KERNEL, 7, 8, 9]);
        bytes.extend(sample(2, &[]));
        bytes.extend(record(PERF_RECORD_LOST, 0, &words(&[1, 42])));
        bytes.extend(record(4, 0, &words(&[0])));
        bytes.extend(sample(MODE_KERNEL, &[]));
        let want = [
            SamplingRecord::Kernel(vec![7, 8, 9]),
            SamplingRecord::User,
            SamplingRecord::Lost(42),
            SamplingRecord::Kernel(vec![7]),
        ];
        let (records, used) = parse(&bytes, None);
        assert_eq!(records, want);
        assert_eq!(used, bytes.len());
        assert_eq!(parse(&bytes, Some(2)).0, want);
        assert_eq!(parse(&bytes, Some(1)), (vec![SamplingRecord::Lost(42)], used));
    }

    #[test]
    fn a_size_of_zero_or_past_the_end_stops_the_parser() {
        let mut bytes = sample(2, &[]);
        let whole = bytes.len();
        bytes.extend([9, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(parse(&bytes, None), (vec![SamplingRecord::User], whole));
        bytes[whole + 6] = 200;
        assert_eq!(parse(&bytes, None), (vec![SamplingRecord::User], whole));
    }

    #[test]
    fn a_chain_that_claims_more_than_it_has_is_cut() {
        let mut bytes = sample(MODE_KERNEL, &[PERF_CONTEXT_KERNEL, 7]);
        bytes[8 + 24..8 + 32].copy_from_slice(&u64::MAX.to_ne_bytes());
        assert_eq!(parse(&bytes, None).0, [SamplingRecord::Kernel(vec![7])]);
    }

    #[test]
    fn a_recorded_ring_parses_to_its_last_byte() {
        let (records, used) = parse(RECORDED, None);
        assert_eq!(used, RECORDED.len());
        let kernel = records.iter().filter(|r| matches!(r, SamplingRecord::Kernel(_))).count();
        assert!(kernel > 10 && kernel < records.len(), "{kernel} of {}", records.len());
        for record in &records {
            if let SamplingRecord::Kernel(stack) = record {
                assert!(stack.iter().all(|ip| *ip >> 63 == 1), "{stack:x?}");
            }
        }
    }

    #[test]
    fn damaged_recordings_never_panic_and_never_run_past_the_end() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut bytes = RECORDED.to_vec();
        for _ in 0..20_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let at = (state >> 8) as usize % bytes.len();
            let before = bytes[at];
            bytes[at] = state as u8;
            let cut = (state >> 40) as usize % bytes.len();
            assert!(parse(&bytes[cut..], None).1 <= bytes.len() - cut);
            if state & 4 == 0 {
                bytes[at] = before;
            }
        }
    }
}
