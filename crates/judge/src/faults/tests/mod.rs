mod holders;
mod recorded;
mod summary;

use super::*;
use pagewise_model::constructed;
use pagewise_model::fault::event::{
    FaultBegin, FaultEnd, FaultErrorCode, FrameRegisters, MapEvent, OperandRegisters,
};
use pagewise_model::fault::{
    CallKind, CallSpan, CallTally, ExecCounts, FaultAround, FaultReport, InstructionOrigin,
    MadeFunction, ProgramPhase, RecordingEnd, RepeatFaultReason, SourceLine, StackRecording,
    ThreadCalls,
};
use pagewise_model::usage::ProgramUsage;

/// No code and no names.
pub(super) struct Blind;

impl CodeSource for Blind {
    fn bytes(&mut self, _place: &CodePlace<'_>) -> Vec<u8> {
        Vec::new()
    }
    fn function(&mut self, _path: &str, _offset: u64) -> Option<String> {
        None
    }
    fn origins(&mut self, _path: &str, offsets: &[u64]) -> Vec<InstructionOrigin> {
        vec![InstructionOrigin::default(); offsets.len()]
    }
    fn made_function(&mut self, _pid: i32, _at: u64) -> Option<MadeFunction> {
        None
    }
    fn walk(
        &mut self,
        _pid: i32,
        _registers: &FrameRegisters,
        _bytes: &[u8],
        _code: FindCode<'_>,
    ) -> StackWalk {
        StackWalk { addresses: Vec::new(), end: StackEnd::NoTable }
    }
}

/// Every instruction is `mov [rax], rdx`; a function for each 256 bytes of a file, a line for each 16.
pub(super) struct Writes;

impl CodeSource for Writes {
    fn bytes(&mut self, _place: &CodePlace<'_>) -> Vec<u8> {
        vec![0x48, 0x89, 0x10]
    }
    fn function(&mut self, path: &str, offset: u64) -> Option<String> {
        Some(format!("{path}#{}", offset / 256))
    }
    fn origins(&mut self, path: &str, offsets: &[u64]) -> Vec<InstructionOrigin> {
        let line = |offset: &u64| InstructionOrigin {
            source: Some(SourceLine { file: format!("{path}.c"), line: (offset / 16) as u32 }),
            inlined: Vec::new(),
        };
        offsets.iter().map(line).collect()
    }
    /// Of each process a function for each 256 bytes, which begins in line 7 of a script.
    fn made_function(&mut self, pid: i32, at: u64) -> Option<MadeFunction> {
        let source = Some(SourceLine { file: "/x/job.py".to_owned(), line: 7 });
        Some(MadeFunction { function: format!("{pid}#{}", at / 256), source, is_script: true })
    }
    /// Every word of the stack that is a code address counts as a return address.
    fn walk(
        &mut self,
        _pid: i32,
        registers: &FrameRegisters,
        bytes: &[u8],
        code: FindCode<'_>,
    ) -> StackWalk {
        let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
        let found = words.filter(|word| code(*word).is_some());
        let addresses = [registers.ip_address].into_iter().chain(found).collect();
        StackWalk { addresses, end: StackEnd::Outermost }
    }
}

pub(super) fn usage(minor_faults: u64, major_faults: u64) -> ProgramUsage {
    ProgramUsage { wall_ns: Nanos::millis(1), minor_faults, major_faults, ..constructed::usage() }
}

pub(super) const IP: u64 = 0x40_1000;
pub(super) const DATA: u64 = 0x70_0000;

pub(super) fn begin(at: u64, tid: i32, address: u64) -> FaultEvent {
    let begin = FaultBegin {
        pid: 1,
        tid,
        address,
        ip_address: IP,
        page_bytes: Some(Bytes(0)),
        registers: Some(OperandRegisters { source: 0, target: 0, stack: 0x7ff0_0000 }),
        in_kernel: false,
    };
    FaultEvent { at_ns: Nanos(at), what: FaultEventPayload::Begin(begin) }
}

fn in_kernel(mut event: FaultEvent) -> FaultEvent {
    if let FaultEventPayload::Begin(begin) = &mut event.what {
        begin.in_kernel = true;
        begin.ip_address = u64::MAX - 7;
    }
    event
}

pub(super) fn present(mut event: FaultEvent) -> FaultEvent {
    if let FaultEventPayload::Begin(begin) = &mut event.what {
        begin.page_bytes = Some(Bytes(4096));
    }
    event
}

pub(super) fn end(at: u64, tid: i32, address: u64, is_major: bool) -> FaultEvent {
    let end = FaultEnd { tid, address, page_bytes: Some(Bytes(4096)), is_major };
    FaultEvent { at_ns: Nanos(at), what: FaultEventPayload::End(end) }
}

fn lost(at: u64) -> FaultEvent {
    FaultEvent { at_ns: Nanos(at), what: FaultEventPayload::Lost { records: 3 } }
}

pub(super) fn map(start: u64, size: u64, is_executable: bool, path: &str) -> FaultEvent {
    let map = MapEvent {
        pid: 1,
        start_address: start,
        size_bytes: Bytes(size),
        offset_bytes: Bytes(0x2000),
        is_executable,
        is_shared: false,
        path: path.to_owned(),
        file: None,
    };
    FaultEvent { at_ns: Nanos(0), what: FaultEventPayload::Map(map) }
}

/// The options of a recording, and what it sees.
pub(super) fn options(kernel: bool) -> (FaultRecordingOptions, RecordingScope) {
    let wanted = FaultRecordingOptions {
        list: true,
        latency: true,
        calls: false,
        stacks: StackRecording::Sampled,
        names: true,
        debug_files: false,
        exact: false,
        made_maps: false,
        sites: false,
    };
    (wanted, RecordingScope { kernel, all_ends: true, error_codes: false, from_start: true })
}

fn ending(used: &ProgramUsage, exec: &Fact<ExecCounts>) -> RecordingEnd {
    RecordingEnd::of_started(used.clone(), exec.clone(), Fact::missing("not followed"))
}

pub(super) fn analyse(
    events: impl IntoIterator<Item = FaultEvent>,
    (wanted, sees): (FaultRecordingOptions, RecordingScope),
    used: &ProgramUsage,
    exec: &Fact<ExecCounts>,
    images: &mut dyn CodeSource,
) -> (FaultReport, pagewise_model::fault::FaultNames, Vec<PageFault>) {
    let mut analysis = FaultAnalysis::new(PageSize::BASE_4K, wanted, sees);
    for event in events {
        analysis.take(event, images);
    }
    analysis.conclude(&ending(used, exec), images)
}

pub(super) fn plain(events: impl IntoIterator<Item = FaultEvent>) -> (FaultReport, Vec<PageFault>) {
    let none = Fact::missing("not asked");
    let (report, _, faults) = analyse(events, options(false), &usage(0, 0), &none, &mut Writes);
    (report, faults)
}

#[test]
fn a_beginning_belongs_to_the_next_end_of_its_thread() {
    let (report, faults) = plain([
        begin(100, 1, DATA),
        begin(110, 2, DATA + 0x1000),
        end(150, 2, DATA + 0x1000, true),
        end(170, 1, DATA, false),
    ]);
    let seen: Vec<_> = faults
        .iter()
        .map(|f| (f.order, f.tid, f.since_first_ns.0, f.latency_ns.known().map(|l| l.0), f.served))
        .collect();
    let want =
        [(0, 1, 0, Some(70), FaultOutcome::Minor), (1, 2, 10, Some(40), FaultOutcome::Major)];
    assert_eq!(seen, want);
    assert_eq!((report.total.faults, report.total.major_faults), (2, 1));
    assert_eq!((report.total.time_ns, report.touched_pages), (Nanos(110), 2));
    assert!(report.is_complete());
}

#[test]
fn what_is_not_served_is_listed_and_never_mispaired() {
    let exit = FaultEvent { at_ns: Nanos(900), what: FaultEventPayload::Exit { pid: 1, tid: 1 } };
    let (report, faults) = plain([
        begin(100, 1, DATA),
        begin(200, 1, DATA),
        end(230, 1, DATA, false),
        begin(300, 1, DATA + 0x1000),
        end(320, 1, DATA + 0x5000, false),
        exit,
        begin(950, 2, DATA + 0x2000),
    ]);
    let served: Vec<_> = faults.iter().map(|f| f.served).collect();
    assert_eq!(served, [FaultOutcome::No, FaultOutcome::Minor, FaultOutcome::No, FaultOutcome::No]);
    let reasons: Vec<_> = faults.iter().filter_map(|f| f.latency_ns.reason()).collect();
    assert!(reasons[0].contains("signal") && reasons[1].contains("thread ended"), "{reasons:?}");
    assert!(reasons[2].contains("recording ended"), "{reasons:?}");
    assert_eq!(report.unpaired_ends, 1);
    assert_eq!(report.account.failed_faults, Fact::Known(3));
    assert!(!report.is_complete());
    assert_eq!(report.latency.known().map(|l| l.faults), Some(1));
}

#[test]
fn after_a_loss_a_missing_end_is_unknown() {
    let (report, faults) = plain([begin(1, 1, DATA), lost(2), begin(3, 1, DATA)]);
    assert!(faults.iter().all(|f| f.served == FaultOutcome::Unknown));
    assert!(faults.iter().all(|f| f.latency_ns.reason().is_some_and(|why| why.contains("lost"))));
    assert_eq!((report.lost_records, report.unpaired_begins), (3, 2));
    assert!(report.account.failed_faults.reason().is_some());
}

#[test]
fn a_second_fault_on_a_page_is_labelled_and_no_new_page() {
    let read_then_write = [
        begin(1, 1, DATA + 8),
        end(2, 1, DATA + 8, false),
        present(begin(3, 1, DATA + 16)),
        end(4, 1, DATA + 16, false),
    ];
    let (report, faults) = plain(read_then_write);
    assert_eq!(faults[0].labels, []);
    assert_eq!(faults[1].labels, [FaultLabel::Again, FaultLabel::CopyOnWrite]);
    assert_eq!((faults[0].cause, faults[1].cause), (FaultCause::Absent, FaultCause::Protection));
    assert_eq!((faults[1].access, faults[1].page_address), (AccessKind::Write, DATA));
    assert_eq!((report.touched_pages, report.total.again_faults), (1, 1));
}

#[test]
fn the_account_names_each_term() {
    let exec = Fact::Known(ExecCounts { minor_faults: 20, major_faults: 1 });
    let events = || {
        [
            in_kernel(begin(1, 1, DATA)),
            end(2, 1, DATA, false),
            begin(3, 1, DATA + 0x1000),
            end(4, 1, DATA + 0x1000, false),
            in_kernel(begin(5, 1, DATA + 0x2000)),
            end(6, 1, DATA + 0x2000, false),
        ]
    };
    let of = |sees_kernel, exec: &Fact<ExecCounts>| {
        let (report, ..) = analyse(events(), options(sees_kernel), &usage(25, 3), exec, &mut Blind);
        report.account
    };
    // 28 = 21 before, 1 in user mode, 1 in the kernel. The fault of building the image is among the 21.
    let seen = of(true, &exec);
    assert_eq!(seen.kernel_faults, Fact::Known(1));
    assert_eq!((seen.user_faults, seen.unexplained_faults), (1, Fact::Known(5)));
    let without = of(true, &Fact::missing("no stop"));
    assert_eq!(without.kernel_faults, Fact::Known(2));
    assert_eq!(without.unexplained_faults, Fact::Known(25));
    assert!(of(false, &exec).kernel_faults.reason().is_some());
}

#[test]
fn followed_calls_take_the_place_of_what_has_no_event() {
    let tally = |call: &str, kind, faults| CallTally { call: call.into(), kind, faults };
    let calls = vec![
        tally("mmap", CallKind::Populate, 256),
        tally("read", CallKind::Copy, 7),
        tally("execve", CallKind::Start, 20),
        tally("getdents64", CallKind::Copy, 1),
    ];
    let inside = vec![CallSpan { tid: 1, from_ns: Nanos(3), until_ns: Nanos(5) }];
    let (wanted, sees) = options(true);
    let mut analysis = FaultAnalysis::new(
        PageSize::BASE_4K,
        FaultRecordingOptions { calls: true, ..wanted },
        sees,
    );
    for event in [
        begin(1, 1, DATA),
        end(2, 1, DATA, false),
        in_kernel(begin(3, 1, DATA + 0x1000)),
        end(4, 1, DATA + 0x1000, false),
        in_kernel(begin(6, 1, DATA + 0x2000)),
        end(7, 1, DATA + 0x2000, false),
    ] {
        analysis.take(event, &mut Blind);
    }
    let exec = Fact::Known(ExecCounts { minor_faults: 21, major_faults: 0 });
    let ending = RecordingEnd {
        calls: Fact::Known(ThreadCalls { calls: calls.clone(), inside }),
        ..ending(&usage(308, 0), &exec)
    };
    let account = analysis.conclude(&ending, &mut Blind).0.account;
    assert_eq!(account.outside_faults, Fact::Known(1));
    assert_eq!(account.populate_faults, Fact::Known(256));
    // The kernel fault that an event reported is among those counted at calls.
    assert_eq!(account.kernel_faults, Fact::Known(8));
    assert_eq!(account.start_faults, Fact::Known(20));
    assert_eq!((account.unexplained_faults, account.calls), (Fact::Known(1), calls));
}

#[test]
fn the_processors_word_goes_before_what_is_inferred() {
    let code = |at, address, bits| {
        let code = FaultErrorCode { tid: 1, address, bits };
        FaultEvent { at_ns: Nanos(at), what: FaultEventPayload::ErrorCode(code) }
    };
    let page = |n: u64| DATA + n * 0x1000;
    let fault = |(n, (reported, bits)): (u64, (u64, u64))| {
        let (at, address) = (10 * n, page(n));
        [code(at, page(reported), bits), begin(at, 1, address), end(at + 1, 1, address, false)]
    };
    // Every instruction writes; the code says: read of an absent page, fetch, write of a page that
    // was there, and one that belongs to another address.
    let events = (0..).zip([(0, 4), (1, 0x14), (2, 7), (9, 5)]).flat_map(fault);
    let faults = plain(events).1;
    let seen: Vec<_> = faults.iter().map(|fault| (fault.access, fault.cause)).collect();
    let want = [
        (AccessKind::Read, FaultCause::Absent),
        (AccessKind::Execute, FaultCause::Absent),
        (AccessKind::Write, FaultCause::Protection),
        (AccessKind::Write, FaultCause::Absent),
    ];
    assert_eq!(seen, want);
    assert!(faults[2].labels.contains(&FaultLabel::CopyOnWrite));
}

#[test]
fn threads_on_one_page_at_one_time_are_labelled() {
    let fork =
        FaultEvent { at_ns: Nanos(0), what: FaultEventPayload::Fork { pid: 1, parent_pid: 1 } };
    let (report, faults) = plain([
        fork,
        begin(100, 1, DATA),
        begin(150, 2, DATA + 8),
        end(180, 1, DATA, false),
        end(190, 2, DATA + 8, false),
        present(begin(1_000, 3, DATA)),
        end(1_010, 3, DATA, false),
        begin(1_020, 2, DATA + 0x1000),
        end(1_030, 2, DATA + 0x1000, false),
        present(begin(900_000, 1, DATA)),
        end(900_100, 1, DATA, false),
    ]);
    let raced: Vec<_> = faults.iter().map(|f| f.labels.contains(&FaultLabel::Raced)).collect();
    assert_eq!(raced, [true, true, true, false, false]);
    assert_eq!(report.total.raced_faults, 3);
}

#[test]
fn what_another_thread_has_just_brought_in_was_absent() {
    let fork =
        FaultEvent { at_ns: Nanos(0), what: FaultEventPayload::Fork { pid: 1, parent_pid: 1 } };
    let events = || {
        [
            fork.clone(),
            begin(100, 1, DATA),
            end(1_500, 1, DATA, false),
            present(begin(2_000, 2, DATA + 8)),
            end(3_000, 2, DATA + 8, false),
            // Long after: a write to a page that is there.
            present(begin(900_000, 2, DATA + 8)),
            end(901_000, 2, DATA + 8, false),
        ]
    };
    let (report, faults) = plain(events());
    let causes: Vec<_> = faults.iter().map(|fault| fault.cause).collect();
    assert_eq!(causes, [FaultCause::Absent, FaultCause::Absent, FaultCause::Protection]);
    assert_eq!(faults[1].labels, [FaultLabel::Again, FaultLabel::Raced]);
    assert_eq!(faults[2].labels, [FaultLabel::Again, FaultLabel::CopyOnWrite]);
    let why: Vec<_> = report.churn.by_reason.iter().map(|group| group.kind).collect();
    assert!(
        why.contains(&RepeatFaultReason::Raced) && why.contains(&RepeatFaultReason::Protection),
        "{why:?}"
    );
    // Without ends, it is unknown what the other threads were doing.
    let mut options = options(false);
    options.1.all_ends = false;
    let faults = analyse(events(), options, &usage(3, 0), &Fact::missing(""), &mut Writes).2;
    assert_eq!(faults[1].cause, FaultCause::Protection);
}

#[test]
fn what_is_mapped_along_with_code_is_counted() {
    let file = map(0x40_0000, 0x8000, true, "/bin/x");
    let (report, _) = plain([
        file,
        // A fetch, a write to the same file, and one to other memory.
        begin(100, 1, IP),
        end(110, 1, IP, false),
        begin(120, 1, IP + 0x2000),
        end(130, 1, IP + 0x2000, false),
        begin(140, 1, DATA),
        end(150, 1, DATA, false),
    ]);
    let page = PageSize::BASE_4K.bytes();
    let want =
        FaultAround { faults: 1, mapped_bytes: Bytes(7 * page), untouched_bytes: Bytes(6 * page) };
    assert_eq!(report.fault_around, Some(want));
}

#[test]
fn what_is_under_way_at_the_end_is_taken_in_the_order_of_time() {
    let page = |n: u64| DATA + n * 0x1000;
    let file = map(DATA, 0x10_0000, true, "/lib/a.so");
    let (report, _) =
        plain(std::iter::once(file).chain((0..8).map(|n| begin(10 << n, n as i32 + 1, page(n)))));
    let phases: Vec<_> = report.by_phase.iter().map(|g| (g.kind, g.tally.faults)).collect();
    assert_eq!(phases, [(ProgramPhase::Main, 2), (ProgramPhase::Steady, 6)]);
}

#[test]
fn without_ends_a_fault_is_counted_and_not_timed() {
    let mut options = options(false);
    options.1.all_ends = false;
    let events = [
        begin(100, 1, DATA),
        begin(200, 1, DATA + 0x1000),
        end(900, 1, DATA + 0x1000, true),
        begin(950, 1, DATA + 0x2000),
    ];
    let (report, _, faults) =
        analyse(events, options, &usage(2, 1), &Fact::missing(""), &mut Writes);
    let served: Vec<_> = faults.iter().map(|fault| fault.served).collect();
    assert_eq!(served, [FaultOutcome::Unknown, FaultOutcome::Major, FaultOutcome::Unknown]);
    assert!(faults.iter().all(|f| f.latency_ns.reason().is_some_and(|w| w.contains("latency"))));
    assert!(report.latency.reason().is_some() && report.account.failed_faults.reason().is_some());
    assert_eq!((report.total.major_faults, report.total.time_ns), (1, Nanos(0)));
    assert_eq!(report.account.unexplained_faults, Fact::Known(0));
    assert!(report.is_complete());
}

#[test]
fn of_a_process_that_ran_before_and_runs_on_the_first_end_and_the_last_beginning_are_no_loss() {
    let mut options = options(false);
    options.1.from_start = false;
    let events = [
        end(90, 1, DATA, false),
        begin(100, 1, DATA + 0x1000),
        end(110, 1, DATA + 0x1000, false),
        end(120, 1, DATA + 0x5000, false),
        begin(130, 2, DATA),
    ];
    let (report, _, faults) =
        analyse(events, options, &usage(1, 0), &Fact::missing(""), &mut Writes);
    assert_eq!((report.unpaired_ends, report.account.user_faults), (1, 1));
    assert_eq!(report.account.failed_faults, Fact::Known(0));
    assert!(faults[1].latency_ns.reason().is_some_and(|why| why.contains("recording ended")));
}

/// Two faults on two pages, one of them major and 40 ns long, and lost records.
pub(crate) fn lossy_report() -> FaultReport {
    let second = DATA + 0x1000;
    plain([begin(1, 1, DATA), begin(100, 2, second), end(140, 2, second, true), lost(150)]).0
}
