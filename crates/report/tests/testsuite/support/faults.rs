//! A small constructed recording: a program that fills a buffer in a loop, with its loader.

use super::{machine, usage};
use pagewise_model::body::RunBody;
use pagewise_model::fault::{
    AccessKind, CallerStack, FaultAccount, FaultCallers, FaultCause, FaultChurn, FaultLabel,
    FaultLatencies, FaultNames, FaultOutcome, FaultPlace, FaultReport, FaultSaving, FaultSite,
    FaultTally, FunctionTally, GroupTally, MappingKind, PageFault, PlaceTally, ProgramPhase,
    RecordingMethod, RepeatFaultReason, SourceLine, StackEnd, StackRecording,
};
use pagewise_model::run::{RunKind, SavedRun};
use pagewise_model::{Bytes, Fact, Nanos};

const LOADER: &str = "/lib/ld-linux.so.2";
const LIBC: &str = "/lib/libc.so.6";
const PROGRAM: &str = "/usr/bin/fill";

fn place(kind: MappingKind, path: &str) -> FaultPlace {
    FaultPlace { kind, path: path.into() }
}

fn site(function: Option<&str>, path: &str, offset: u64) -> FaultSite {
    let (function, path) = (function.map(Into::into), path.into());
    FaultSite { function, path, offset_bytes: Bytes(offset), ..FaultSite::default() }
}

fn with_line(site: FaultSite, file: &str, line: u32) -> FaultSite {
    FaultSite { source: Some(SourceLine { file: file.into(), line }), ..site }
}

pub(crate) fn names() -> FaultNames {
    FaultNames {
        places: vec![
            place(MappingKind::Code, LOADER),
            place(MappingKind::Data, PROGRAM),
            place(MappingKind::Anonymous, ""),
        ],
        sites: vec![
            with_line(site(Some("_dl_start"), LOADER, 0x1080), "/src/elf/rtld.c", 511),
            site(None, LOADER, 0x7eb9),
            site(Some("memset"), LIBC, 0x9f550),
        ],
        frames: vec![site(Some("fill"), PROGRAM, 0x1234), site(Some("main"), PROGRAM, 0x1100)],
        stacks: vec![CallerStack { frames: vec![0, 1], end: StackEnd::Outermost }],
    }
}

fn fault(order: u64, at_us: u64, place: u32, site: u32, page: u64) -> PageFault {
    PageFault {
        order,
        since_first_ns: Nanos(at_us * 1000),
        latency_ns: Fact::Known(Nanos(1500)),
        pid: 70,
        tid: 70,
        page_address: page,
        ip_address: 0x7f00_0000_1080,
        access: AccessKind::Write,
        cause: FaultCause::Absent,
        served: FaultOutcome::Minor,
        page_bytes: Some(Bytes(4096)),
        offset_bytes: None,
        place,
        site,
        stack: None,
        labels: vec![],
    }
}

/// One of each kind: a fetch, a copy, a major one, one that failed, and a buffer filled twice.
pub(crate) fn faults() -> Vec<PageFault> {
    let code = |order, at_us, offset| PageFault {
        access: AccessKind::Execute,
        offset_bytes: Some(Bytes(offset)),
        ..fault(order, at_us, 0, 0, 0x7f00_0000_0000 + offset)
    };
    let mut all = vec![code(0, 0, 0x1000), code(1, 12, 0x4000)];
    all[1].served = FaultOutcome::Major;
    all[1].latency_ns = Fact::Known(Nanos(250_500));
    all.push(PageFault {
        cause: FaultCause::Protection,
        offset_bytes: Some(Bytes(0x7000)),
        labels: vec![FaultLabel::CopyOnWrite],
        ..fault(2, 300, 1, 1, 0x5500_0000_7000)
    });
    for round in 0..2 {
        for page in 0..3 {
            let (order, at_us) = (3 + round * 3 + page, 400 + round * 100 + page * 3);
            let mut one = fault(order, at_us, 2, 2, 0x7e00_0000_0000 + page * 4096);
            one.stack = Some(0);
            one.labels = if round > 0 { vec![FaultLabel::Again] } else { vec![] };
            all.push(one);
        }
    }
    all.push(PageFault {
        served: FaultOutcome::No,
        latency_ns: Fact::missing("not allowed, or interrupted by a signal"),
        page_bytes: None,
        tid: 71,
        ..fault(9, 900, 2, 1, 0x7e00_0010_0000)
    });
    all
}

fn tally(faults: u64, again_faults: u64, ns: u64) -> FaultTally {
    FaultTally { faults, again_faults, time_ns: Nanos(ns), ..FaultTally::default() }
}

fn group<K>(kind: K, tally: FaultTally) -> GroupTally<K> {
    GroupTally { kind, tally }
}

fn behind(tally: FaultTally) -> FunctionTally {
    let site = with_line(site(Some("fill"), PROGRAM, 0x1234), "fill.c", 12);
    FunctionTally { site, tally }
}

fn callers(code: FaultTally, filled: FaultTally, other: FaultTally) -> FaultCallers {
    FaultCallers {
        asked: StackRecording::Sampled,
        stacks: 4,
        lost_stacks: 1,
        named: filled,
        functions: vec![behind(filled)],
        unnamed: vec![group(StackEnd::NotTaken, code), group(StackEnd::Cut, other)],
    }
}

fn account() -> FaultAccount {
    FaultAccount {
        rusage_faults: Fact::Known(30),
        before_exec_faults: Fact::Known(20),
        user_faults: 9,
        kernel_faults: Fact::missing("needs kernel.perf_event_paranoid=1"),
        start_faults: Fact::missing("not followed"),
        populate_faults: Fact::missing("not followed"),
        outside_faults: Fact::missing("not followed"),
        calls: vec![],
        failed_faults: Fact::Known(1),
        unexplained_faults: Fact::Known(1),
    }
}

const fn latencies() -> FaultLatencies {
    FaultLatencies {
        faults: 9,
        p50_ns: Nanos(1500),
        p99_ns: Nanos(250_500),
        p999_ns: Nanos(250_500),
        max_ns: Nanos(250_500),
        total_ns: Nanos(262_500),
    }
}

pub(crate) fn report() -> FaultReport {
    let total = FaultTally { major_faults: 1, ..tally(10, 3, 262_500) };
    let code = FaultTally { major_faults: 1, ..tally(2, 0, 252_000) };
    let filled = tally(6, 3, 9000);
    let other = tally(2, 0, 1500);
    FaultReport {
        step: RecordingMethod::PerfUser,
        has_ends: true,
        has_error_codes: false,
        attached: None,
        wall_ns: Nanos::millis(1),
        usage: Fact::Known(usage(1)),
        total,
        latency: Fact::Known(latencies()),
        touched_pages: 7,
        unpaired_ends: 0,
        unpaired_begins: 0,
        lost_records: 0,
        processes: 1,
        executed: 1,
        by_access: vec![
            group(AccessKind::Execute, code),
            group(AccessKind::Write, tally(8, 3, 10_500)),
        ],
        by_cause: vec![group(FaultCause::Absent, tally(9, 3, 261_000))],
        by_kind: vec![group(MappingKind::Code, code), group(MappingKind::Anonymous, filled)],
        by_page: vec![],
        by_cost: vec![],
        places: vec![PlaceTally { place: place(MappingKind::Code, LOADER), tally: code }],
        functions: vec![FunctionTally { site: site(Some("memset"), LIBC, 0x9f550), tally: filled }],
        callers: Fact::Known(callers(code, filled, other)),
        exact: None,
        fault_around: None,
        fixed_addresses: false,
        page_forecasts: vec![],
        interpreters: vec![],
        unnamed_files: vec![],
        by_phase: vec![
            group(ProgramPhase::Loader, code),
            group(ProgramPhase::Relocation, other),
            group(ProgramPhase::Main, filled),
        ],
        churn: FaultChurn {
            by_reason: vec![group(RepeatFaultReason::Remapped, tally(3, 3, 4500))],
            functions: vec![behind(tally(3, 3, 4500))],
        },
        savings: vec![FaultSaving {
            remedy: "malloc-keep".into(),
            faults: 3,
            time_ns: Nanos(4500),
            why: "private memory that was given back and touched again".into(),
        }],
        account: account(),
    }
}

/// A saved run that contains it.
pub(crate) fn run() -> SavedRun {
    let command = ["./fill", "--twice"].map(String::from).to_vec();
    let mut run =
        SavedRun::new(RunKind::Faults, "f-0001".into(), 1_700_000_000_000_000_000, command);
    run.pagewise = "0.0.0".into();
    run.took_ns = Nanos::millis(12);
    run.machine = Some(machine());
    run.body = Some(RunBody::Faults(report()));
    run
}
