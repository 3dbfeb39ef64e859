use super::*;
use crate::faults::tests::{
    Blind, DATA, IP, Writes, analyse, begin, end, map, options, plain, present, usage,
};
use pagewise_model::fault::event::{
    CallStack, FaultEvent, FaultEventPayload, FrameRegisters, RecordedStack,
};
use pagewise_model::fault::{FaultRecordingOptions, PageFault, RepeatFaultReason, StackRecording};
use pagewise_model::{Fact, Nanos};

const CODE: CodeKey = CodeKey { path: 1, offset: 0x1000, maker: 0 };

fn walked(offset: u64) -> WalkedStack {
    WalkedStack { frames: vec![CodeKey { path: 2, offset, maker: 0 }], end: StackEnd::Outermost }
}

#[test]
fn equal_stacks_are_one() {
    let mut taken = WalkedStacks::default();
    assert_eq!(taken.add(CODE, &walked(1), 3), Some(0));
    assert_eq!(taken.add(CODE, &walked(2), 0), Some(1));
    assert_eq!(taken.add(CODE, &walked(1), 4), Some(0));
    assert_eq!(taken.by_code(CODE), [(0, 7), (1, 1)]);
    assert_eq!((taken.count(), taken.all().len()), (3, 2));
    assert!(taken.by_code(CodeKey { path: 9, offset: 9, maker: 0 }).is_empty());
}

#[test]
fn an_early_stack_is_for_the_fault_at_its_address() {
    let mut taken = WalkedStacks::default();
    taken.keep_early(7, 0x5000, 3);
    assert_eq!(taken.take_early(8, 0x5000), None);
    assert_eq!(taken.take_early(7, 0x5000), Some(3));
    assert_eq!(taken.take_early(7, 0x5000), None);
    taken.keep_early(7, 0x5000, 3);
    assert_eq!(taken.take_early(7, 0x6000), None);
}

fn stack(at: u64, tid: i32, address: u64, faults: u64, chain: RecordedStack) -> FaultEvent {
    let stack = CallStack { pid: 1, tid, address, ip_address: IP, in_kernel: false, faults, chain };
    FaultEvent { at_ns: Nanos(at), what: FaultEventPayload::Stack(stack) }
}

fn copied(words: &[u64]) -> RecordedStack {
    let registers = FrameRegisters { ip_address: IP, ..FrameRegisters::default() };
    RecordedStack::Copied {
        registers,
        bytes: words.iter().flat_map(|word| word.to_le_bytes()).collect(),
    }
}

#[test]
fn faults_of_the_c_library_are_its_callers() {
    let page = |n: u64| DATA + n * 0x1000;
    let mut events = vec![
        map(0x40_0000, 0x2000, true, "/lib/libc.so.6"),
        map(0x50_0000, 0x2000, true, "/bin/x"),
    ];
    // Two stacks of eight faults: one before its fault begins, one after, from two functions.
    let (first, second) = (copied(&[0x1, 0x40_1100, 0x50_0101]), copied(&[0x50_1001]));
    events.extend([
        stack(9, 1, page(1), 3, first),
        begin(10, 1, page(1)),
        end(19, 1, page(1), false),
        begin(20, 1, page(2)),
        stack(21, 1, page(2), 1, second),
        end(29, 1, page(2), false),
    ]);
    events.extend(
        (3..9).flat_map(|n| [begin(n * 10, 1, page(n)), end(n * 10 + 9, 1, page(n), false)]),
    );
    let none = Fact::missing("not asked");
    let (report, names, faults) = analyse(events, options(false), &usage(8, 0), &none, &mut Writes);
    let callers = report.callers.known().expect("stacks were taken");
    let functions: Vec<_> = callers
        .functions
        .iter()
        .map(|f| (f.site.function.as_deref().unwrap_or_default(), f.tally.faults))
        .collect();
    // A return address is one beyond its call.
    assert_eq!(functions, [("/bin/x#33", 6), ("/bin/x#48", 2)]);
    assert_eq!((callers.stacks, callers.named.faults, callers.unnamed.len()), (2, 8, 0));
    let frames = |fault: &PageFault| {
        let stack = &names.stacks[fault.stack.expect("it was taken") as usize];
        stack.frames.iter().map(|f| names.frames[*f as usize].offset_bytes.0).collect::<Vec<_>>()
    };
    assert_eq!(frames(&faults[0]), [0x30ff, 0x2100]);
    assert_eq!(frames(&faults[1]), [0x3000]);
    assert!(faults[2..].iter().all(|fault| fault.stack.is_none()));
}

#[test]
fn stacks_that_frame_pointers_gave_are_taken_as_they_are() {
    let chain = RecordedStack::Walked(vec![IP, 0x50_0101]);
    let events = [
        map(0x40_0000, 0x2000, true, "/lib/libc.so.6"),
        map(0x50_0000, 0x2000, true, "/bin/x"),
        begin(10, 1, DATA),
        stack(10, 1, DATA, 1, chain),
        end(12, 1, DATA, false),
        FaultEvent { at_ns: Nanos(13), what: FaultEventPayload::LostStacks { stacks: 4 } },
    ];
    let (report, _) = plain(events);
    let callers = report.callers.known().expect("a stack was taken");
    assert_eq!(callers.functions[0].site.function.as_deref(), Some("/bin/x#33"));
    assert_eq!((callers.lost_stacks, report.is_complete()), (4, true));
}

#[test]
fn without_stacks_it_is_said_why_nobody_is_named() {
    let events = || [begin(1, 1, DATA), end(2, 1, DATA, false)];
    let of = |stacks| {
        let (wanted, sees) = options(false);
        let options = (FaultRecordingOptions { stacks, ..wanted }, sees);
        let none = Fact::missing("");
        analyse(events(), options, &usage(1, 0), &none, &mut Blind).0.callers
    };
    assert!(of(StackRecording::None).reason().is_some_and(|why| why.contains("--stacks")));
    assert!(of(StackRecording::Sampled).reason().is_some_and(|why| why.contains("no stack could")));
}

#[test]
fn a_loop_that_maps_anew_is_churn_and_a_write_after_a_read_is_not() {
    let mut events = Vec::new();
    for round in 0..3 {
        let at = round * 100;
        events.extend([
            map(DATA, 0x2000, false, "//anon"),
            begin(at + 10, 1, DATA),
            end(at + 19, 1, DATA, false),
            present(begin(at + 20, 1, DATA)),
            end(at + 29, 1, DATA, false),
        ]);
    }
    events.extend([begin(400, 1, DATA), end(409, 1, DATA, false)]);
    let (report, _) = plain(events);
    let reasons: Vec<_> =
        report.churn.by_reason.iter().map(|group| (group.kind, group.tally.faults)).collect();
    assert_eq!(
        reasons,
        [
            (RepeatFaultReason::Protection, 3),
            (RepeatFaultReason::Remapped, 2),
            (RepeatFaultReason::GivenBack, 1)
        ]
    );
    let who: Vec<_> = report.churn.functions.iter().map(|f| f.tally.faults).collect();
    assert_eq!(who, [3]);
}
