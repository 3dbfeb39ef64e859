//! The user stacks of faults, in separate rings, so that they cause no loss of faults.
//!
//! One more `page-faults` event per CPU copies the innermost part of the stack and the registers that a stack
//! walk needs (PERF_SAMPLE_STACK_USER, PERF_SAMPLE_REGS_USER). Sampling by frequency serves to name callers:
//! the kernel begins with every fault of a thread and soon takes some thousand per second ([`A_SECOND`]).
//! Each sample says how many faults it stands for. With a period of [`PERIOD`] it takes one fault in that
//! many, with a period of 1 every fault. At 8 KiB per stack, a ring of 4 MiB holds 500 stacks. So some are
//! lost if faults come fast; they are counted. Records always have the full size; the number of valid stack
//! bytes follows the data.
//!
//! Cost: 1-2 us for each stack of 4 KiB; some 0.03 us of counting for a fault without a stack. x86-64 only:
//! stacks of other machines are not walked.

use super::LEAST_RING_BYTES;
use super::attributes::FaultSelection;
use crate::perf::event;
use crate::perf::rings::CpuRings;
use crate::perf::words::{CopiedStack, RecordWords, halves, word};
use crate::perf::words::{for_each_record, is_in_kernel};
use pagewise_kernel::perf::{bindings as b, perf_event_attr};
use pagewise_model::Nanos;
use pagewise_model::fault::StackRecording;
use pagewise_model::fault::event::{CallStack, FaultEvent, FaultEventPayload, RecordedStack};
use std::os::fd::BorrowedFd;

/// Wanted stacks per second. The second value is used if the first is above `perf_event_max_sample_rate`.
const A_SECOND: [u64; 2] = [5000, 1000];
/// Faults of a thread per stack. A prime, so that loops over pages do not stay in step with it.
const PERIOD: u64 = 7;
/// Bytes per stack if only some stacks are taken; below, if all are.
const SAMPLED_BYTES: u32 = 4 << 10;
const COPIED_BYTES: u32 = 8 << 10;
/// Wanted and expected size of a ring if only some stacks are taken; below, if many are. The kernel may give less.
const SAMPLED_RING_BYTES: [usize; 2] = [2 * LEAST_RING_BYTES, LEAST_RING_BYTES / 4];
const COPIED_RING_BYTES: [usize; 2] = [4 * LEAST_RING_BYTES, 2 * LEAST_RING_BYTES];

/// The rings, one for each CPU.
#[derive(Debug)]
pub(super) struct StackRings {
    rings: CpuRings<()>,
    choice: FaultSelection,
    /// Stacks that the rings reported as lost.
    reported_lost: u64,
}

impl StackRings {
    /// Opens rings for the requested stacks, of `ample` bytes each if that is given. `None` if no stacks are
    /// wanted or available.
    pub(super) fn open(choice: &FaultSelection, ample: Option<usize>) -> Option<Self> {
        if choice.stacks == StackRecording::None || cfg!(not(target_arch = "x86_64")) {
            return None;
        }
        let [wanted, least] =
            if choice.has_many_stacks() { COPIED_RING_BYTES } else { SAMPLED_RING_BYTES };
        let wanted = ample.unwrap_or(wanted);
        let rings = CpuRings::open(&event::online_cpus(), wanted, least, false).ok()?;
        Some(Self { rings, choice: *choice, reported_lost: 0 })
    }

    /// Opens the events of thread `tid`. If the kernel refuses, the thread has no stacks.
    pub(super) fn add_thread(&mut self, tid: i32) {
        for rate in A_SECOND {
            if self.rings.add_event((), &attributes(&self.choice, rate), tid).is_ok() {
                return;
            }
        }
    }

    pub(super) fn count(&self) -> usize {
        self.rings.count()
    }

    /// Descriptors that become readable when a ring is a quarter full.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.rings.descriptors()
    }

    /// Empties the rings. Passes each event to `take` with the number of its ring.
    pub(super) fn collect(&mut self, take: &mut dyn FnMut(usize, FaultEvent)) {
        let period = (self.choice.stacks == StackRecording::Periodic).then_some(PERIOD);
        self.rings.drain(|number, bytes, _| {
            parse(bytes, period, &mut |event| {
                if let FaultEventPayload::LostStacks { stacks } = event.what {
                    self.reported_lost += stacks;
                }
                take(number, event);
            });
        });
    }

    /// Lost stacks that no ring reported.
    pub(super) fn silently_lost(&self) -> u64 {
        self.rings.lost().saturating_sub(self.reported_lost)
    }
}

fn attributes(choice: &FaultSelection, rate: u64) -> perf_event_attr {
    let faults = u64::from(b::PERF_COUNT_SW_PAGE_FAULTS);
    let mut attr = choice.plain(b::PERF_TYPE_SOFTWARE, faults);
    let bytes = if choice.stacks == StackRecording::Copied { COPIED_BYTES } else { SAMPLED_BYTES };
    let mut fields =
        b::PERF_SAMPLE_IP | b::PERF_SAMPLE_TID | b::PERF_SAMPLE_TIME | b::PERF_SAMPLE_ADDR;
    match choice.stacks {
        // With PERF_SAMPLE_PERIOD, the kernel takes a sample of every event (kernel/events/core.c,
        // `perf_swevent_event`).
        StackRecording::Periodic => attr.__bindgen_anon_1.sample_period = PERIOD,
        StackRecording::Copied => {
            attr.__bindgen_anon_1.sample_period = 1;
            fields |= b::PERF_SAMPLE_PERIOD;
        }
        _ => {
            attr.set_freq(1);
            attr.__bindgen_anon_1.sample_freq = rate;
            fields |= b::PERF_SAMPLE_PERIOD;
        }
    }
    attr.sample_type = u64::from(fields);
    event::copy_stacks(&mut attr, bytes);
    attr
}

/// Passes each stack of `bytes` to `take`; returns how many bytes were understood. Each stands for `period` faults;
/// without it, each sample says for how many.
fn parse(bytes: &[u8], period: Option<u64>, take: &mut dyn FnMut(FaultEvent)) -> usize {
    for_each_record(bytes, |record, misc, body| {
        let event = match record {
            b::PERF_RECORD_SAMPLE => stack(is_in_kernel(misc), period, body),
            b::PERF_RECORD_LOST => lost(body, 8),
            b::PERF_RECORD_LOST_SAMPLES => lost(body, 0),
            _ => None,
        };
        if let Some(event) = event {
            take(event);
        }
    })
}

/// Body: instruction, pid and tid, time, address, period unless it is given, registers, stack.
fn stack(in_kernel: bool, period: Option<u64>, body: &[u8]) -> Option<FaultEvent> {
    let mut words = RecordWords(body);
    let ip_address = words.next()?;
    let (pid, tid) = halves(words.next()?);
    let at_ns = Nanos(words.next()?);
    let address = words.next()?;
    let faults = period.or_else(|| words.next())?;
    let CopiedStack { registers, bytes } = words.copied_stack()?;
    let chain = RecordedStack::Copied { registers, bytes };
    let stack = CallStack { pid, tid, address, ip_address, in_kernel, faults, chain };
    Some(FaultEvent { at_ns, what: FaultEventPayload::Stack(stack) })
}

/// The count is at byte `at`, the time in the last word.
fn lost(body: &[u8], at: usize) -> Option<FaultEvent> {
    let at_ns = Nanos(word(body, (body.len() / 8).checked_sub(1)? * 8)?);
    Some(FaultEvent { at_ns, what: FaultEventPayload::LostStacks { stacks: word(body, at)? } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::faults::FaultSampleLayout;
    use crate::perf::words::MODE_KERNEL;
    use crate::perf::words::made::{pair, record, words};
    use pagewise_kernel::page_size;
    use pagewise_kernel::perf::{PerfCounter, software};
    use pagewise_kernel::region::{MemoryRegion, RegionPages};
    use pagewise_model::Bytes;
    use pagewise_model::fault::event::FrameRegisters;
    use proptest::prelude::*;

    fn events(bytes: &[u8]) -> Vec<FaultEvent> {
        let mut all = Vec::new();
        assert_eq!(parse(bytes, None, &mut |event| all.push(event)), bytes.len());
        all
    }

    fn sample(misc: u16, wanted: u64, there: u64) -> Vec<u8> {
        let mut body = words(&[0x4000, pair(7, 8), 99, 0x5000, 12, 2, 21, 22, 23, 24, wanted]);
        body.extend((0..wanted).map(|n| n as u8));
        if wanted > 0 {
            body.extend(words(&[there]));
        }
        record(b::PERF_RECORD_SAMPLE, misc, &body)
    }

    #[test]
    fn a_stack_has_its_registers_and_the_bytes_that_are_true() {
        let registers = FrameRegisters { base: 21, frame: 22, stack: 23, ip_address: 24 };
        let want = |in_kernel, bytes: &[u8]| FaultEvent {
            at_ns: Nanos(99),
            what: FaultEventPayload::Stack(CallStack {
                pid: 7,
                tid: 8,
                address: 0x5000,
                ip_address: 0x4000,
                in_kernel,
                faults: 12,
                chain: RecordedStack::Copied { registers, bytes: bytes.to_vec() },
            }),
        };
        let bytes = [sample(2, 16, 3), sample(MODE_KERNEL, 8, 99), sample(2, 0, 0)].concat();
        let whole: Vec<u8> = (0..8).collect();
        assert_eq!(events(&bytes), [want(false, &[0, 1, 2]), want(true, &whole), want(false, &[])]);
        let none = words(&[0x4000, pair(7, 8), 99, 0x5000, 12, 0, 0]);
        assert_eq!(events(&record(b::PERF_RECORD_SAMPLE, 2, &none)), []);
    }

    #[test]
    fn one_stack_of_a_period_stands_for_its_faults() {
        let body = words(&[0x4000, pair(7, 8), 99, 0x5000, 2, 21, 22, 23, 24, 8, 0, 0]);
        let mut faults = Vec::new();
        parse(&record(b::PERF_RECORD_SAMPLE, 2, &body), Some(PERIOD), &mut |event| {
            if let FaultEventPayload::Stack(stack) = event.what {
                faults.push((stack.faults, stack.chain));
            }
        });
        let registers = FrameRegisters { base: 21, frame: 22, stack: 23, ip_address: 24 };
        assert_eq!(faults, [(PERIOD, RecordedStack::Copied { registers, bytes: Vec::new() })]);
    }

    /// The numbers of faults that the stacks of `pages` first touches of this thread stand for, and all its
    /// faults meanwhile. `None` if events are refused.
    fn faults_of_stacks(pages: u64) -> Option<(Vec<u64>, u64)> {
        let page = page_size::base().bytes();
        let choice = FaultSelection {
            layout: FaultSampleLayout::LEAN,
            kernel: false,
            all_ends: false,
            codes: None,
            on_exec: false,
            stacks: StackRecording::Periodic,
        };
        let all = software(b::PERF_COUNT_SW_PAGE_FAULTS);
        let all = PerfCounter::open(&all, 0, -1).ok()?;
        let mut region = MemoryRegion::new(Bytes(pages * page), RegionPages::Base).ok()?;
        let mut rings = StackRings::open(&choice, None)?;
        all.enable().ok()?;
        rings.add_thread(0);
        region.touch(Bytes(page));
        all.disable().ok()?;
        let mut faults = Vec::new();
        rings.collect(&mut |_, event| {
            if let FaultEventPayload::Stack(stack) = event.what {
                faults.push(stack.faults);
            }
        });
        Some((faults, all.read().ok()?.value))
    }

    #[test]
    #[allow(clippy::print_stdout, reason = "a skipped test says so")]
    fn the_kernel_copies_one_stack_in_a_period() {
        let thread = std::thread::spawn(|| faults_of_stacks(100 * PERIOD));
        let Some((stacks, faults)) = thread.join().expect("it ends") else {
            return println!("SKIP the_kernel_copies_one_stack: perf events are refused");
        };
        assert!((100..130).contains(&stacks.len()), "{} stacks of {faults} faults", stacks.len());
        assert!(stacks.iter().all(|faults| *faults == PERIOD), "{stacks:?}");
    }

    #[test]
    fn losses_are_told() {
        let bytes = [
            record(b::PERF_RECORD_LOST, 0, &words(&[1, 42, pair(7, 8), 50])),
            record(b::PERF_RECORD_LOST_SAMPLES, 0, &words(&[43, pair(7, 8), 51])),
        ];
        let event = |at, stacks| FaultEvent {
            at_ns: Nanos(at),
            what: FaultEventPayload::LostStacks { stacks },
        };
        assert_eq!(events(&bytes.concat()), [event(50, 42), event(51, 43)]);
    }

    proptest! {
        #[test]
        fn damaged_records_never_panic_and_never_run_past_the_end(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = [sample(2, 16, 3), sample(1, 512, 99)].concat();
            for (at, value) in changes {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            bytes.truncate(cut.index(bytes.len()));
            let used = parse(&bytes, None, &mut |_| ());
            prop_assert!(used <= bytes.len());
        }
    }
}
