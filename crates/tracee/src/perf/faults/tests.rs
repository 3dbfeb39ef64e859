use super::*;
use crate::perf::words::MODE_KERNEL;
use crate::perf::words::made::{pair, record, words};
use pagewise_model::fault::event::MapEvent;
use proptest::prelude::*;

/// Recorded on Linux 6.18 x86-64 with the attributes of this module: see the note beside it.
const RECORDED: &[u8] = include_bytes!("../../../fixtures/fault-ring.bin");
/// Numbers of its events, as the kernel gave them: beginnings, minor and major ends, for two CPUs.
const RECORDED_IDS: [u64; 6] = [212, 213, 214, 215, 216, 217];

/// Where the tracepoints have their fields.
const FIELDS: TracepointFields = TracepointFields { address: 8, error_code: 24 };

fn streams(ids: &[u64]) -> Streams {
    let order =
        [FaultEventKind::Begin, FaultEventKind::Minor, FaultEventKind::Major, FaultEventKind::Code]
            .into_iter();
    let mut streams = Streams::new(false);
    let each = if ids.len().is_multiple_of(4) { 4 } else { 3 };
    ids.iter().zip(order.take(each).cycle()).for_each(|(id, kind)| streams.add(*id, kind, 7));
    streams
}

fn events(bytes: &[u8], layout: FaultSampleLayout) -> (Vec<FaultEvent>, usize) {
    let mut all = Vec::new();
    let mut streams = streams(&[1, 2, 3, 4]);
    let used = parse(bytes, layout, Some(FIELDS), &mut streams, &mut |event| all.push(event));
    (all, used)
}

fn trailer(at: u64) -> Vec<u8> {
    words(&[pair(7, 8), at, 1])
}

#[test]
fn samples_of_each_layout_parse() {
    let begin = FaultBegin {
        pid: 7,
        tid: 8,
        address: 0x5000,
        ip_address: 0x4000,
        page_bytes: Some(Bytes(0)),
        registers: Some(OperandRegisters { source: 21, target: 22, stack: 23 }),
        in_kernel: false,
    };
    let full = words(&[1, 0x4000, pair(7, 8), 99, 0x5000, 2, 21, 22, 23, 0]);
    let got = events(&record(b::PERF_RECORD_SAMPLE, 2, &full), FaultSampleLayout::FULL).0;
    assert_eq!(got, [FaultEvent { at_ns: Nanos(99), what: FaultEventPayload::Begin(begin) }]);
    // abi 0: the task has no user registers
    let none = words(&[1, 0x4000, pair(7, 8), 99, 0x5000, 0, 0]);
    let got = events(&record(b::PERF_RECORD_SAMPLE, MODE_KERNEL, &none), FaultSampleLayout::FULL).0;
    let what = FaultEventPayload::Begin(FaultBegin { registers: None, in_kernel: true, ..begin });
    assert_eq!(got, [FaultEvent { at_ns: Nanos(99), what }]);
    let lean = words(&[1, 0x4000, pair(7, 8), 99, 0x5000]);
    let got = events(&record(b::PERF_RECORD_SAMPLE, 2, &lean), FaultSampleLayout::LEAN).0;
    let what = FaultEventPayload::Begin(FaultBegin { registers: None, page_bytes: None, ..begin });
    assert_eq!(got, [FaultEvent { at_ns: Nanos(99), what }]);
    for (id, is_major) in [(2, false), (3, true)] {
        let end = words(&[id, pair(7, 8), 120, 0x5000, 4096]);
        let got = events(&record(b::PERF_RECORD_SAMPLE, 2, &end), FaultSampleLayout::FULL).0;
        let end = FaultEnd { tid: 8, address: 0x5000, page_bytes: Some(Bytes(4096)), is_major };
        assert_eq!(got, [FaultEvent { at_ns: Nanos(120), what: FaultEventPayload::End(end) }]);
    }
    let lean = FaultSampleLayout::LEAN.with_chain(true);
    let user = b::PERF_CONTEXT_USER;
    let chained = words(&[1, 0x4000, pair(7, 8), 99, 0x5000, 4, 7, user, 0x4000, 0x4100]);
    let got = events(&record(b::PERF_RECORD_SAMPLE, 2, &chained), lean).0;
    let FaultEventPayload::Stack(stack) = &got[1].what else { panic!("{got:?}") };
    assert_eq!((stack.tid, stack.address, got[0].at_ns), (8, 0x5000, got[1].at_ns));
    assert_eq!(stack.chain, RecordedStack::Walked(vec![0x4000, 0x4100]));
    let too_long = words(&[1, 0x4000, pair(7, 8), 99, 0x5000, 99, user, 0x4000]);
    assert!(events(&record(b::PERF_RECORD_SAMPLE, 2, &too_long), lean).0.is_empty());
    let unknown = words(&[77, pair(7, 8), 120, 0x5000, 4096]);
    assert!(
        events(&record(b::PERF_RECORD_SAMPLE, 2, &unknown), FaultSampleLayout::FULL).0.is_empty()
    );
}

#[test]
fn the_error_code_is_where_the_format_says() {
    // size of the data, then two common words, address, instruction, code, and padding
    let mut body = words(&[4, pair(7, 8), 98]);
    body.extend(36_u32.to_ne_bytes());
    body.extend(words(&[0, 0x5000, 0x4000, 7]));
    let got = events(&record(b::PERF_RECORD_SAMPLE, 2, &body), FaultSampleLayout::FULL).0;
    let code = FaultErrorCode { tid: 8, address: 0x5000, bits: 7 };
    assert_eq!(got, [FaultEvent { at_ns: Nanos(98), what: FaultEventPayload::ErrorCode(code) }]);
    body.truncate(body.len() - 4);
    assert!(events(&record(b::PERF_RECORD_SAMPLE, 2, &body), FaultSampleLayout::FULL).0.is_empty());
}

#[test]
fn records_of_a_second_event_of_a_thread_are_left_out() {
    let mut streams = Streams::new(true);
    streams.add(1, FaultEventKind::Begin, 7);
    streams.add(2, FaultEventKind::Begin, 8);
    let sample = |id| {
        let body = words(&[id, 0x4000, pair(7, 8), 99, 0x5000]);
        record(b::PERF_RECORD_SAMPLE, 2, &body)
    };
    let exit = |id| {
        let body = words(&[pair(7, 7), pair(8, 8), 50, pair(7, 8), 120, id]);
        record(b::PERF_RECORD_EXIT, 0, &body)
    };
    let bytes = [sample(1), sample(2), exit(1), exit(2), sample(1)].concat();
    let mut all = Vec::new();
    parse(&bytes, FaultSampleLayout::LEAN, None, &mut streams, &mut |event| all.push(event.what));
    let is: Vec<bool> =
        all.iter().map(|what| matches!(what, FaultEventPayload::Begin(_))).collect();
    assert_eq!(is, [true, false, true]);
}

#[test]
fn side_band_records_parse() {
    let mut map = words(&[pair(7, 8), 0x1000, 0x2000, 0x3000, 0, 0, 0, pair(5, 1)]);
    map.extend(b"/lib/a b.so\0\0\0\0\0");
    let body = |mut body: Vec<u8>| {
        body.extend(trailer(50));
        body
    };
    let exec = b::PERF_RECORD_MISC_COMM_EXEC as u16;
    let comm = words(&[pair(7, 8), 0]);
    let bytes = [
        record(b::PERF_RECORD_MMAP2, 2, &body(map)),
        record(b::PERF_RECORD_COMM, exec, &body(comm.clone())),
        record(b::PERF_RECORD_COMM, 0, &body(comm)),
        record(b::PERF_RECORD_FORK, 0, &body(words(&[pair(9, 7), pair(9, 8), 50]))),
        record(b::PERF_RECORD_EXIT, 0, &body(words(&[pair(9, 7), pair(10, 8), 50]))),
        record(b::PERF_RECORD_LOST, 0, &body(words(&[1, 42]))),
        record(b::PERF_RECORD_LOST_SAMPLES, 0, &body(words(&[43]))),
        record(b::PERF_RECORD_THROTTLE, 0, &body(words(&[50, 1, 1]))),
    ]
    .concat();
    let map = MapEvent {
        pid: 7,
        start_address: 0x1000,
        size_bytes: Bytes(0x2000),
        offset_bytes: Bytes(0x3000),
        is_executable: true,
        is_shared: true,
        path: "/lib/a b.so".into(),
        file: None,
    };
    let want = [
        FaultEventPayload::Map(map),
        FaultEventPayload::Exec { pid: 7 },
        FaultEventPayload::Fork { pid: 9, parent_pid: 7 },
        FaultEventPayload::Exit { pid: 9, tid: 10 },
        FaultEventPayload::Lost { records: 42 },
        FaultEventPayload::Lost { records: 43 },
        FaultEventPayload::Lost { records: 1 },
    ];
    let (got, used) = events(&bytes, FaultSampleLayout::FULL);
    assert_eq!(used, bytes.len());
    assert!(got.iter().all(|event| event.at_ns == Nanos(50)));
    assert_eq!(got.into_iter().map(|event| event.what).collect::<Vec<_>>(), want);
}

#[test]
fn a_size_of_zero_or_past_the_end_stops_the_parser() {
    let lost = |at| {
        let mut body = words(&[43]);
        body.extend(trailer(at));
        record(b::PERF_RECORD_LOST_SAMPLES, 0, &body)
    };
    let mut bytes = lost(1);
    let whole = bytes.len();
    bytes.extend([9, 0, 0, 0, 2, 0, 0, 0]);
    assert_eq!(
        (
            events(&bytes, FaultSampleLayout::FULL).0.len(),
            events(&bytes, FaultSampleLayout::FULL).1
        ),
        (1, whole)
    );
    bytes[whole + 6] = 200;
    assert_eq!(events(&bytes, FaultSampleLayout::FULL).1, whole);
}

#[test]
fn a_recorded_ring_parses_to_its_last_byte_and_every_beginning_has_its_end() {
    let mut all = Vec::new();
    let mut streams = streams(&RECORDED_IDS);
    let used = parse(RECORDED, FaultSampleLayout::FULL, None, &mut streams, &mut |e| all.push(e));
    assert_eq!(used, RECORDED.len());
    let count =
        |is: fn(&FaultEventPayload) -> bool| all.iter().filter(|event| is(&event.what)).count();
    let begins = count(|what| matches!(what, FaultEventPayload::Begin(_)));
    assert!(begins > 40, "{begins}");
    assert_eq!(begins, count(|what| matches!(what, FaultEventPayload::End(_))));
    assert_eq!(count(|what| matches!(what, FaultEventPayload::Exec { .. })), 1);
    assert_eq!(count(|what| matches!(what, FaultEventPayload::Exit { .. })), 1);
    let maps = |name: &str| {
        all.iter()
            .any(|e| matches!(&e.what, FaultEventPayload::Map(map) if map.path.ends_with(name)))
    };
    assert!(maps("/true") && maps("libc.so.6") && maps("//anon"));
    for event in &all {
        if let FaultEventPayload::Begin(begin) = event.what {
            assert!(begin.registers.is_some_and(|r| r.stack > 0x7f00_0000_0000), "{begin:?}");
            assert!(begin.page_bytes.is_some() && !begin.in_kernel, "{begin:?}");
        }
    }
}

proptest! {
    #[test]
    fn damaged_recordings_never_panic_and_never_run_past_the_end(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = RECORDED.to_vec();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(cut.index(bytes.len()));
        for layout in [FaultSampleLayout::FULL, FaultSampleLayout::LEAN.with_chain(true), FaultSampleLayout::NO_PAGE_SIZE] {
            let mut streams = streams(&RECORDED_IDS);
            let used = parse(&bytes, layout, Some(FIELDS), &mut streams, &mut |_| {});
            prop_assert!(used <= bytes.len());
        }
    }
}
