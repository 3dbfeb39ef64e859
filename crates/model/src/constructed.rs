//! Facts made up for tests (feature `constructed`), each as small as possible. Tests name what matters to
//! them and take the rest from here with `..`.

use crate::bench::file::{
    CacheProof, CacheResidency, ExpectedChecksum, FileBenchPart, FileBenchReport, FileCell,
    FilePoint, FileSample, FileSource, ReadLedger, ReadWay,
};
use crate::cache::FolioClass;
use crate::choice::{Calibration, CalibrationKey, CostTerm, PriceList, ReadPhase, TermPrice};
use crate::comparison::{COMPARISON_SCHEMA, ComparedMachine, ComparedRun, RunComparison};
use crate::look::{Allocator, MapChurn, TracedLook, TracedProcess};
use crate::machine::Machine;
use crate::measured::Fact;
use crate::pool::HugePool;
use crate::profile::ProfiledStack;
use crate::run::SavedRun;
use crate::trial::{ComparedQuantity, Experiment, ExperimentDesign, TimeRatio};
use crate::units::{Bytes, Nanos, PageSize};
use crate::usage::{ProgramEnd, ProgramUsage};
use std::collections::{BTreeMap, BTreeSet};

/// A machine with two CPUs that is not a guest and gives huge pages on request, seen without root.
#[must_use]
pub fn machine() -> Machine {
    Machine {
        kernel: "6.12".to_owned(),
        arch: "x86_64".to_owned(),
        cpu_model: "none".to_owned(),
        cpus: vec![0, 1],
        base_page_bytes: PageSize::BASE_4K,
        huge_page_bytes: Fact::Known(PageSize::PMD_2M),
        memory_bytes: Bytes::gib(8),
        thp_enabled: Fact::Known("madvise".to_owned()),
        thp_defrag: Fact::Known("madvise".to_owned()),
        small_folios: Fact::missing("none"),
        hypervisor: None,
        pipe_max_bytes: Bytes::mib(1),
        perf_event_paranoid: Fact::Known(2),
        uid: 1000,
        allocator_libraries: Vec::new(),
    }
}

/// A pool of this many pages of 2 MiB, all free, to which nothing may be added.
#[must_use]
pub const fn pool(pages: u64) -> HugePool {
    HugePool {
        page_bytes: PageSize::PMD_2M,
        pages,
        free_pages: pages,
        reserved_pages: 0,
        surplus_pages: 0,
        addable_pages: 0,
    }
}

/// A program on glibc that used nothing, with `/proc/PID/io` not readable.
#[must_use]
pub fn process() -> TracedProcess {
    TracedProcess {
        pid: 1,
        exe: "/bin/program".to_owned(),
        args: Vec::new(),
        is_static: false,
        is_32_bit: false,
        allocator: Allocator::Glibc,
        glibc_huge_tunable: None,
        is_python: false,
        huge_pages_off: false,
        opens_deep: None,
        threads: 1,
        peak_rss_bytes: Bytes(0),
        anon_bytes: Bytes(0),
        anon_huge_bytes: Bytes(0),
        file_bytes: Bytes(0),
        file_cow_bytes: Bytes(0),
        page_table_bytes: Bytes(0),
        minor_faults: 0,
        moved_bytes: None,
        traced_life_ns: Nanos(1),
        churn: MapChurn::default(),
        forks: 0,
        forked_bytes: Bytes(0),
        inherited_bytes: Bytes(0),
        incomplete: None,
    }
}

/// A look that saw one process and no effect on the outside.
#[must_use]
pub fn traced() -> TracedLook {
    TracedLook {
        processes: vec![process()],
        pipes: Vec::new(),
        pipe_calls: BTreeSet::new(),
        most_processes: 1,
        effects: Vec::new(),
        written: Vec::new(),
        files: Vec::new(),
        pattern: Fact::missing("not stepped"),
        footprint: Fact::missing("not followed"),
        stepped: None,
        descriptor_kinds: BTreeMap::new(),
        checkpoint_bytes: None,
        ended: ProgramEnd::Exited(0),
    }
}

/// A run that used nothing and ended well, with `/proc/PID/io` not readable.
#[must_use]
pub const fn usage() -> ProgramUsage {
    ProgramUsage {
        wall_ns: Nanos(0),
        user_ns: Nanos(0),
        sys_ns: Nanos(0),
        peak_rss_bytes: Bytes(0),
        minor_faults: 0,
        major_faults: 0,
        voluntary_switches: 0,
        involuntary_switches: 0,
        read_bytes: None,
        written_bytes: None,
        read_calls: None,
        write_calls: None,
        device_read_bytes: None,
        speed: None,
        memory: None,
        run_delay_ns: None,
        ended: ProgramEnd::Exited(0),
    }
}

/// The checksum of a pass over any span of [`readings`].
pub const CHECKSUM: u64 = 7;

/// A warm pass over 64 MiB in order, in blocks of 16 KiB.
#[must_use]
pub const fn cell(arm: ReadWay) -> FileCell {
    FileCell::plain(FileBenchPart::Blocks, arm, Bytes::kib(16), Bytes::mib(64))
}

/// A cell with this many processes that did the requested work, taking `pass` for each pass and a hundredth
/// of it each for set-up and tear-down.
#[must_use]
pub fn reading(cell: FileCell, pass: Nanos, repeats: u32) -> FilePoint {
    let cached = if cell.residency == CacheResidency::Warm { 16_384 } else { 0 };
    let faults = if cell.arm.is_mapped() { 1024 } else { 0 };
    let sample = |repeat: u32| FileSample {
        repeat,
        place: repeat,
        set_up_ns: Nanos(pass.0 / 100),
        pass_ns: vec![pass; cell.passes as usize],
        pass_faults: (0..cell.passes).map(|nth| if nth == 0 { faults } else { 0 }).collect(),
        tear_down_ns: Nanos(pass.0 / 100),
        user_ns: Nanos(0),
        sys_ns: pass,
        calls: if cell.arm.is_mapped() { 0 } else { cell.blocks() },
        minor_faults: faults,
        major_faults: 0,
        device_bytes: Fact::Known(Bytes(0)),
        ledger: ReadLedger::asked(&cell, CHECKSUM),
        proof: CacheProof {
            file_pages: 16_384,
            before_pages: cached,
            after_pages: 16_384,
            took_ns: Nanos(100_000),
        },
    };
    FilePoint { samples: (0..repeats).map(sample).collect(), ..FilePoint::new(cell) }
}

/// Readings of a temporary file of 64 MiB.
#[must_use]
pub fn readings(points: Vec<FilePoint>) -> FileBenchReport {
    let truth = |point: &FilePoint| ExpectedChecksum {
        block_bytes: point.cell.block_bytes,
        span_bytes: point.cell.span_bytes,
        checksum: CHECKSUM,
    };
    FileBenchReport {
        seed: 7,
        repeats: 3,
        cold_repeats: 2,
        quick: false,
        summed: false,
        slips: Vec::new(),
        source: FileSource {
            path: None,
            size_bytes: Bytes::mib(64),
            directory: Some("/var/cache".to_owned()),
            written_in_bytes: Some(Bytes::kib(64)),
            bound_by: "the usual size".to_owned(),
        },
        cpus: vec![0, 1],
        base_page_bytes: PageSize::BASE_4K,
        truths: points.iter().map(truth).collect(),
        refills: 0,
        entry_ns: Fact::missing("not measured"),
        prices: Vec::new(),
        price_folios: None,
        points,
        copies: None,
        judgement: None,
    }
}

/// A stack in the kernel, leaf first, of a program without visible code.
#[must_use]
pub fn profiled_stack(process: &str, kernel: &[&str], count: u64) -> ProfiledStack {
    ProfiledStack {
        process: process.into(),
        kernel: kernel.iter().map(|name| (*name).into()).collect(),
        user: Vec::new(),
        count,
    }
}

/// Prices of one phase of a way for some folios, in any order.
#[must_use]
pub fn price_list(
    phase: ReadPhase,
    arm: ReadWay,
    folios: FolioClass,
    prices: &[(CostTerm, f64)],
) -> PriceList {
    let prices = prices.iter().map(|(term, ns)| TermPrice { term: *term, ns: *ns }).collect();
    PriceList { phase, arm, order: None, folios: Some(folios), prices }
}

/// One price for a call and one for every byte, wherever in a block it lies.
#[must_use]
pub fn pass_prices(block: f64, byte: f64) -> [(CostTerm, f64); 5] {
    let bytes = [CostTerm::LeadByte, CostTerm::RampByte, CostTerm::Byte, CostTerm::SpillByte];
    let [lead, ramp, inner, spill] = bytes.map(|term| (term, byte));
    [(CostTerm::Block, block), lead, ramp, inner, spill]
}

/// Prices of one CPU, taken at once, whose forecasts have an error of 5%.
#[must_use]
pub fn calibration(key: CalibrationKey, lists: Vec<PriceList>) -> Calibration {
    Calibration {
        key,
        cpus: 1,
        base_page_bytes: PageSize::BASE_4K,
        taken_unix_ns: 0,
        took_ns: Nanos(0),
        processes: 0,
        missed_share: 0.0,
        error_share: 0.05,
        lists,
        sharing: Vec::new(),
    }
}

/// An experiment on time, of these arms beside `control`, without a run or a verdict.
#[must_use]
pub fn experiment(control: &str, arms: &[&str]) -> Experiment {
    Experiment {
        design: ExperimentDesign {
            quantity: ComparedQuantity::Time,
            guards: Vec::new(),
            seed: 0,
            budget_ns: Nanos::secs(1),
            control: control.to_owned(),
            arms: arms.iter().map(|arm| (*arm).to_owned()).collect(),
        },
        blocks: Vec::new(),
        verdicts: Vec::new(),
        guarded: Vec::new(),
        time_and_memory: Vec::new(),
        warnings: Vec::new(),
        interrupted: false,
        in_turn_because: None,
        halted: None,
    }
}

/// `runs` compared with the first; every other one changed by `change`.
#[must_use]
pub fn comparison(runs: &[SavedRun], change: Option<&TimeRatio>) -> RunComparison {
    let mut machines: Vec<ComparedMachine> = Vec::new();
    let mut compared = Vec::new();
    for (number, run) in runs.iter().enumerate() {
        let known = machines.iter().position(|other| other.machine == run.machine);
        let at = known.unwrap_or(machines.len());
        if known.is_none() {
            let first = machines.first().and_then(|first| first.machine.as_ref());
            let both = first.zip(run.machine.as_ref());
            let differences = both.map(|(first, own)| first.differences(own)).unwrap_or_default();
            let machine = run.machine.clone();
            machines.push(ComparedMachine { machine, runs: Vec::new(), differences });
        }
        machines[at].runs.push(run.id.clone());
        compared.push(ComparedRun {
            id: run.id.clone(),
            started_unix_ns: run.started_unix_ns,
            command: run.command.clone(),
            pagewise: run.pagewise.clone(),
            machine: u32::try_from(at).unwrap_or(u32::MAX),
            plain_runs: run.plain_runs().len() as u64,
            wall_ns: run.plain_runs().first().map(|usage| usage.wall_ns),
            cpu_ns: None,
            peak_rss_bytes: None,
            faults: None,
            change: change.filter(|_| number > 0).cloned(),
            limit: None,
        });
    }
    RunComparison { schema: COMPARISON_SCHEMA, limit_share: None, machines, runs: compared }
}
