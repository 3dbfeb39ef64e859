//! The events of a recording, and how their samples are laid out.
//!
//! `struct perf_event_attr` and the order of a sample's fields: perf_event_open(2). Only as far as the call
//! chain; what follows it (registers, copies of stacks, weights) is not needed.

use crate::import::stacks::CountedUnit;
use pagewise_kernel::perf::bindings as b;
use pagewise_tracee::perf::words::{RecordWords, halves, word};
use rustc_hash::FxHashMap;

/// Bytes of the first published `struct perf_event_attr`.
const LEAST_ATTR: usize = 64;
/// Bits of the flags of an attribute.
const BY_FREQUENCY: u64 = 1 << 10;
const HAS_TRAILER: u64 = 1 << 18;
/// Fields of the trailer of records that are no samples, in their order, 8 bytes each.
const TRAILER: [u32; 6] = [
    b::PERF_SAMPLE_TID,
    b::PERF_SAMPLE_TIME,
    b::PERF_SAMPLE_ID,
    b::PERF_SAMPLE_STREAM_ID,
    b::PERF_SAMPLE_CPU,
    b::PERF_SAMPLE_IDENTIFIER,
];
/// The most entries of a group that are read with a sample: no kernel has more events open in one.
const MOST_OF_GROUP: u64 = 1 << 12;

/// One event.
#[derive(Debug, Clone, Copy)]
pub(super) struct PerfDataEvent {
    pub(super) counts: CountedUnit,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    /// Its period, or its frequency.
    period: u64,
}

/// What a sample holds before its call chain.
#[derive(Debug)]
pub(super) struct PerfDataSample<'a> {
    pub(super) ip_address: u64,
    pub(super) pid: i32,
    pub(super) at_ns: u64,
    /// 0 if the sample does not say it.
    pub(super) period: u64,
    id: u64,
    pub(super) rest: RecordWords<'a>,
}

impl PerfDataEvent {
    /// From the bytes of its attribute.
    pub(super) fn parse(attr: &[u8]) -> Option<Self> {
        let at = |offset| word(attr, offset);
        let (kind, size) = halves(at(0)?);
        if attr.len() < LEAST_ATTR || (size != 0 && size.cast_unsigned() < LEAST_ATTR as u32) {
            return None;
        }
        // The upper half of a hardware event names the kind of core.
        let config = at(8)?;
        let counts = match kind.cast_unsigned() {
            b::PERF_TYPE_SOFTWARE if config <= u64::from(b::PERF_COUNT_SW_TASK_CLOCK) => {
                CountedUnit::Time
            }
            b::PERF_TYPE_HARDWARE if config & u64::from(u32::MAX) == 0 => CountedUnit::Cycles,
            _ => CountedUnit::Other,
        };
        let (period, sample_type, read_format) = (at(16)?, at(24)?, at(32)?);
        Some(Self { counts, sample_type, read_format, flags: at(40)?, period })
    }

    /// Nanoseconds that a sample without a period represents, if the event says it.
    pub(super) fn period_ns(&self) -> Option<u64> {
        match self.flags & BY_FREQUENCY != 0 {
            true => 1_000_000_000_u64.checked_div(self.period),
            false => (self.counts == CountedUnit::Time).then_some(self.period),
        }
    }

    /// Callers come as call chains, not as copies of the stack.
    pub(super) const fn copies_stacks(&self) -> bool {
        self.has(b::PERF_SAMPLE_STACK_USER)
    }

    const fn has(&self, field: u32) -> bool {
        self.sample_type & field as u64 != 0
    }

    pub(super) const fn has_chain(&self) -> bool {
        self.has(b::PERF_SAMPLE_CALLCHAIN)
    }

    /// The fields of a sample; `None` if it is too short for them.
    pub(super) fn sample<'a>(&self, body: &'a [u8]) -> Option<PerfDataSample<'a>> {
        let mut words = RecordWords(body);
        let mut take = |field| if self.has(field) { words.next() } else { Some(0) };
        let identifier = take(b::PERF_SAMPLE_IDENTIFIER)?;
        let ip_address = take(b::PERF_SAMPLE_IP)?;
        let pid = halves(take(b::PERF_SAMPLE_TID)?).0;
        let at_ns = take(b::PERF_SAMPLE_TIME)?;
        take(b::PERF_SAMPLE_ADDR)?;
        let id = take(b::PERF_SAMPLE_ID)?;
        take(b::PERF_SAMPLE_STREAM_ID)?;
        take(b::PERF_SAMPLE_CPU)?;
        let period = take(b::PERF_SAMPLE_PERIOD)?;
        if self.has(b::PERF_SAMPLE_READ) {
            self.skip_counts(&mut words)?;
        }
        let id = if identifier == 0 { id } else { identifier };
        Some(PerfDataSample { ip_address, pid, at_ns, period, id, rest: words })
    }

    /// Passes over the counts that a sample holds (`struct read_format`).
    fn skip_counts(&self, words: &mut RecordWords<'_>) -> Option<()> {
        let has = |flag: u32| u64::from(self.read_format & u64::from(flag) != 0);
        let times = has(b::PERF_FORMAT_TOTAL_TIME_ENABLED) + has(b::PERF_FORMAT_TOTAL_TIME_RUNNING);
        let each = 1 + has(b::PERF_FORMAT_ID) + has(b::PERF_FORMAT_LOST);
        let left = match has(b::PERF_FORMAT_GROUP) {
            0 => times + each,
            _ => words.next().filter(|members| *members <= MOST_OF_GROUP)? * each + times,
        };
        for _ in 0..left {
            words.next()?;
        }
        Some(())
    }

    /// When a non-sample record was written. 0 if the record does not say it.
    fn trailer_time(&self, body: &[u8]) -> u64 {
        let has_time = self.flags & HAS_TRAILER != 0 && self.has(b::PERF_SAMPLE_TIME);
        let fields = TRAILER.iter().filter(|field| self.has(**field)).count();
        let before = usize::from(self.has(b::PERF_SAMPLE_TID));
        let at = body.len().checked_sub((fields - before.min(fields)) * 8);
        at.filter(|_| has_time).and_then(|at| word(body, at)).unwrap_or(0)
    }
}

/// Where a sample has the identifier of its event.
#[derive(Debug, Clone, Copy)]
enum IdentifierPlace {
    /// Nowhere: there is one event.
    None,
    /// In its first word.
    First,
    /// In a field, at the same place in all.
    Field,
}

/// All events of a recording.
#[derive(Debug)]
pub(super) struct PerfDataEvents {
    all: Vec<PerfDataEvent>,
    ids: FxHashMap<u64, usize>,
    identifier: IdentifierPlace,
    /// What the selected samples count.
    pub(super) taken: CountedUnit,
}

impl PerfDataEvents {
    /// Those of these attributes, each with the numbers that it has in records.
    pub(super) fn new(found: Vec<(PerfDataEvent, Vec<u64>)>) -> Result<Self, String> {
        let all: Vec<PerfDataEvent> = found.iter().map(|(event, _)| *event).collect();
        let first = all.first().ok_or("it names no event")?;
        let identifier = if all.len() == 1 {
            IdentifierPlace::None
        } else if all.iter().all(|event| event.has(b::PERF_SAMPLE_IDENTIFIER)) {
            IdentifierPlace::First
        } else if first.has(b::PERF_SAMPLE_ID)
            && all.iter().all(|event| event.sample_type == first.sample_type)
        {
            IdentifierPlace::Field
        } else {
            return Err(
                "its samples do not say which of its events they are of (no identifier)".into()
            );
        };
        let taken = all.iter().map(|event| event.counts).min().unwrap_or(CountedUnit::Other);
        let numbered =
            found.iter().enumerate().flat_map(|(at, (_, ids))| ids.iter().map(move |id| (*id, at)));
        let ids = numbered.collect();
        Ok(Self { all, ids, identifier, taken })
    }

    /// The event of a sample; `None` if it is of none that is known.
    pub(super) fn of_sample(&self, body: &[u8]) -> Option<&PerfDataEvent> {
        let first = self.all.first()?;
        let id = match self.identifier {
            IdentifierPlace::None => return Some(first),
            IdentifierPlace::First => word(body, 0)?,
            IdentifierPlace::Field => first.sample(body)?.id,
        };
        self.all.get(*self.ids.get(&id)?)
    }

    /// When a record was written.
    pub(super) fn time(&self, is_sample: bool, body: &[u8]) -> u64 {
        match is_sample {
            true => {
                self.of_sample(body).and_then(|event| event.sample(body)).map_or(0, |s| s.at_ns)
            }
            false => self.all.first().map_or(0, |first| first.trailer_time(body)),
        }
    }

    /// One of the events whose samples are selected.
    pub(super) fn first_taken(&self) -> Option<&PerfDataEvent> {
        self.all.iter().find(|event| event.counts == self.taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attr(kind: u32, config: u64, sample_type: u32, flags: u64) -> Vec<u8> {
        let head = u64::from(kind) | 128 << 32;
        let fields = [head, config, 999, u64::from(sample_type), 4, flags];
        let mut bytes: Vec<u8> = fields.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.resize(128, 0);
        bytes
    }

    fn event(sample_type: u32) -> PerfDataEvent {
        let clock = u64::from(b::PERF_COUNT_SW_CPU_CLOCK);
        PerfDataEvent::parse(&attr(
            b::PERF_TYPE_SOFTWARE,
            clock,
            sample_type,
            BY_FREQUENCY | HAS_TRAILER,
        ))
        .unwrap()
    }

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn what_an_event_counts_is_known() {
        let of = |kind, config| PerfDataEvent::parse(&attr(kind, config, 0, 0)).unwrap().counts;
        assert_eq!(of(b::PERF_TYPE_SOFTWARE, 1), CountedUnit::Time);
        assert_eq!(of(b::PERF_TYPE_SOFTWARE, 2), CountedUnit::Other, "page faults");
        assert_eq!(of(b::PERF_TYPE_HARDWARE, 4 << 32), CountedUnit::Cycles);
        assert_eq!(of(b::PERF_TYPE_TRACEPOINT, 0), CountedUnit::Other);
        assert_eq!(event(0).period_ns(), Some(1_001_001));
        assert!(PerfDataEvent::parse(&[0; 63]).is_none());
    }

    #[test]
    fn fields_come_in_their_order() {
        let all = b::PERF_SAMPLE_IP | b::PERF_SAMPLE_TID | b::PERF_SAMPLE_TIME;
        let with = event(all | b::PERF_SAMPLE_PERIOD | b::PERF_SAMPLE_READ);
        let body = words(&[0x10, 7, 99, 250, 1, 2, 3]);
        let mut sample = with.sample(&body).unwrap();
        assert_eq!(
            (sample.ip_address, sample.pid, sample.at_ns, sample.period),
            (0x10, 7, 99, 250)
        );
        assert_eq!(sample.rest.next(), Some(3), "value and identifier were passed over");
        assert!(with.sample(&body[..40]).is_none());
        assert_eq!(event(all).trailer_time(&words(&[5, 6, 7, 99])), 99);
        assert_eq!(event(all).trailer_time(&words(&[])), 0);
    }

    #[test]
    fn events_without_identifiers_are_refused() {
        let several = |kind: u32| {
            let other = event(b::PERF_SAMPLE_IP | b::PERF_SAMPLE_ADDR | kind);
            PerfDataEvents::new(vec![(event(b::PERF_SAMPLE_IP | kind), vec![1]), (other, vec![2])])
        };
        assert!(several(0).unwrap_err().contains("identifier"));
        let events = several(b::PERF_SAMPLE_IDENTIFIER).unwrap();
        let found = |id| events.of_sample(&words(&[id])).map(|event| event.sample_type);
        assert!(found(2).unwrap() & u64::from(b::PERF_SAMPLE_ADDR) != 0 && found(3).is_none());
    }
}
