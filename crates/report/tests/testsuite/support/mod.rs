//! Constructed facts in round numbers that come from no machine.
#![allow(dead_code, unused_imports, reason = "each test file uses a part of these builders")]

pub(crate) mod code;
pub(crate) mod faults;
pub(crate) mod file;
pub(crate) mod first_touch;
pub(crate) mod forms;
pub(crate) mod jump;
mod keys;
pub(crate) mod ladder;
pub(crate) mod pin;
pub(crate) mod profile;
pub(crate) mod reading;
pub(crate) mod service;
pub(crate) mod walk;

pub(crate) use service::served;

use pagewise_model::body::RunBody;
use pagewise_model::capability::{
    Capability, CapabilityAnswer, DoctorReport, MachineTrait, MeasurementSpoiler,
};
use pagewise_model::constructed;
use pagewise_model::diagnosis::{
    CostBasis, CostKind, Diagnosis, KernelActivity, KernelTime, PageCost,
};
use pagewise_model::fault::{FaultTally, GroupTally};
use pagewise_model::look::{
    AccessPattern, CpuSamples, FootprintGrowth, KernelStack, LookFindings, PipeSeen, SideEffect,
    TimedFaults, TracedLook, TracedProcess, UserSamples, WalkCounts,
};
use pagewise_model::machine::Machine;
use pagewise_model::plan::{ArmSettings, RemedyCandidate, RemedyDose, RemedyReceipt};
use pagewise_model::run::{OutputCheck, RunKind, SavedRun, SessionOutcome};
use pagewise_model::trial::{
    ArmEffect, ArmRun, ArmVerdict, ComparedQuantity, Experiment, ExperimentBlock, ExperimentDesign,
    SystemLoad, TimeAndMemory, VerdictWord,
};
use pagewise_model::usage::{ProgramEnd, ProgramUsage};
use pagewise_model::{Bytes, Fact, Nanos};
use pagewise_report::TerminalStyle;
use pagewise_report::escape::is_hostile;

pub(crate) const PLAIN: TerminalStyle = TerminalStyle { colour: false, width: 80, unicode: true };

/// Compares with the reviewed text of this name. With `UPDATE_GOLDEN` set, writes it again instead.
pub(crate) fn check(name: &str, got: &str) {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, got).unwrap();
    }
    let want = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    assert_eq!(got, want, "{name} changed:\n{got}");
}

/// Markup, control characters and field separators, in hostile text.
pub(crate) const HOSTILE: &str =
    "</title><script>alert(1)</script>\x1b]0;x\x07\u{202e}\" onload='x' & , \n";

/// The text has no character that could act on a terminal or on its reader.
pub(crate) fn assert_harmless(text: &str) {
    let bad: Vec<char> = text.chars().filter(|&c| c != '\n' && is_hostile(c)).collect();
    assert!(bad.is_empty(), "{bad:?} in\n{text}");
}

/// A page without the script that every page has.
pub(crate) fn without_own_script(page: &str) -> String {
    let own = concat!("<script>\n", include_str!("../../../src/page/page.js"), "</script>");
    page.replacen(own, "", 1)
}

/// A page loads nothing, and runs only the script that every page has.
pub(crate) fn assert_needs_nothing_from_outside(page: &str) {
    let page = without_own_script(page);
    for part in ["http://", "https://", "<script", "<link", "@import", "url("] {
        let namespace = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!namespace.contains(part), "{part}");
    }
}

/// Every line of a CSV text has as many fields as the first.
pub(crate) fn assert_rows_are_whole(text: &str) {
    let fields = |line: &str| line.split(',').count();
    let header = fields(text.lines().next().unwrap());
    assert!(text.lines().all(|line| fields(line) == header), "{text}");
}

pub(crate) fn machine() -> Machine {
    Machine {
        kernel: "6.0.0-test".into(),
        cpu_model: "Example CPU".into(),
        cpus: vec![0, 1, 2, 3],
        thp_defrag: Fact::missing("not readable"),
        hypervisor: Some("KVM".into()),
        ..constructed::machine()
    }
}

pub(crate) fn usage(wall_ms: u64) -> ProgramUsage {
    ProgramUsage {
        wall_ns: Nanos::millis(wall_ms),
        user_ns: Nanos::millis(wall_ms / 2),
        sys_ns: Nanos::millis(wall_ms / 2),
        peak_rss_bytes: Bytes::gib(1),
        minor_faults: 262_144,
        voluntary_switches: 12,
        involuntary_switches: 3,
        read_bytes: Some(Bytes::mib(4)),
        read_calls: Some(1),
        ..constructed::usage()
    }
}

pub(crate) fn look() -> LookFindings {
    LookFindings {
        runs: vec![usage(1000), usage(1040)],
        traced: Fact::missing("ptrace is not permitted"),
        samples: Fact::missing("perf_event_paranoid is 2"),
        user: Fact::missing("no samples"),
        walks: Fact::missing("no hardware counters"),
        code_misses: Fact::missing("no hardware counters"),
        faults: Fact::missing("not requested"),
    }
}

fn process(exe: &str, incomplete: Option<&str>) -> TracedProcess {
    TracedProcess {
        exe: exe.into(),
        threads: 2,
        peak_rss_bytes: Bytes::mib(64),
        anon_bytes: Bytes::mib(60),
        file_bytes: Bytes::mib(4),
        page_table_bytes: Bytes::kib(256),
        minor_faults: 16_000,
        moved_bytes: Some(Bytes::mib(4)),
        traced_life_ns: Nanos::secs(1),
        incomplete: incomplete.map(Into::into),
        ..constructed::process()
    }
}

pub(crate) fn traced_look() -> LookFindings {
    let pipe = PipeSeen {
        inode: 7,
        capacity_bytes: Bytes::kib(64),
        writers: vec![1],
        readers: vec![2],
        inherited: false,
    };
    let effect = SideEffect {
        action: "opened for writing".into(),
        subject: "/var/tmp/result".into(),
        pid: 1,
    };
    let pattern = AccessPattern {
        bursts: 8,
        instructions: 9000,
        accesses: 3000,
        jumps: 1200,
        next_pages: 40,
        jump_span_bytes: Bytes::mib(48),
        jump_huge_bytes: Bytes(0),
    };
    LookFindings {
        runs: vec![usage(1000)],
        traced: Fact::Known(TracedLook {
            processes: vec![
                process("/usr/bin/producer", None),
                process("/bin/eater", Some("it was killed")),
            ],
            pipes: vec![pipe],
            pipe_calls: std::collections::BTreeSet::new(),
            most_processes: 2,
            effects: vec![effect],
            files: Vec::new(),
            pattern: Fact::Known(pattern),
            written: Vec::new(),
            footprint: Fact::Known(FootprintGrowth { probes: 8, new_pages_per_ms: 2100.0 }),
            stepped: None,
            descriptor_kinds: [("pipe".to_owned(), 2)].into(),
            checkpoint_bytes: None,
            ended: ProgramEnd::Exited(0),
        }),
        samples: Fact::Known(CpuSamples {
            user: 300,
            stacks: vec![
                KernelStack { symbols: vec!["_copy_to_iter".into()], count: 80 },
                KernelStack { symbols: vec!["handle_mm_fault".into()], count: 15 },
            ],
            rest: 5,
            period_ns: Nanos::millis(1),
            lost: 2,
        }),
        user: Fact::Known(UserSamples { all: 300, malloc: 30 }),
        walks: Fact::Known(WalkCounts { cycles: 1000, data_walk_cycles: 210, code_walk_cycles: 5 }),
        code_misses: Fact::missing("no hardware counters"),
        faults: Fact::Known(timed_faults()),
    }
}

fn timed_faults() -> TimedFaults {
    let group = |kind, faults| {
        let tally = FaultTally { faults, time_ns: Nanos(faults * 1200), ..FaultTally::default() };
        GroupTally { kind, tally }
    };
    TimedFaults {
        by_cost: vec![group(CostKind::AnonFaults, 15_900), group(CostKind::FileFaults, 80)],
        probe_ns: Nanos(850),
        added_ns: Nanos(950),
        in_shown_run: true,
    }
}

pub(crate) fn cost(kind: CostKind, share: f64, basis: CostBasis, evidence: &str) -> PageCost {
    PageCost {
        kind,
        cost_ns: Nanos::from_f64(share * 1e9),
        time_share: share,
        basis,
        evidence: evidence.into(),
        sampled_ns: Fact::missing("no samples"),
    }
}

pub(crate) fn diagnosis() -> Diagnosis {
    Diagnosis {
        costs: vec![
            cost(
                CostKind::AnonFaults,
                0.38,
                CostBasis::CountsTimesPrice,
                "262,144 faults at 1.5 us each",
            ),
            cost(
                CostKind::AddressTranslation,
                0.06,
                CostBasis::UpperBound,
                "1.0 GiB jumped in, on base pages",
            ),
        ],
        ceiling_share: 0.44,
        not_in_ceiling: Vec::new(),
        host_share: Fact::missing("no price of host memory"),
        kernel_time: Fact::Known(KernelTime {
            activity_share: [(KernelActivity::Fault, 0.14), (KernelActivity::Zeroing, 0.25)].into(),
            symbol_share: vec![("clear_page_erms".into(), 0.24), ("rare".into(), 0.001)],
        }),
        disagreements: vec![],
    }
}

pub(crate) fn dose(remedy: &str) -> RemedyDose {
    RemedyDose { remedy: remedy.into(), parameter: String::new(), settings: ArmSettings::default() }
}

pub(crate) fn candidate(remedy: &str, why: &str, fits: bool) -> RemedyCandidate {
    RemedyCandidate {
        remedy: remedy.into(),
        sentence: "Puts the heap on huge pages.".into(),
        why: why.into(),
        ceiling_share: if fits { 0.44 } else { 0.0 },
        doses: if fits { vec![dose(remedy)] } else { vec![] },
    }
}

pub(crate) fn effect(ratio: f64, low: f64, high: f64) -> ArmEffect {
    ArmEffect {
        ratio,
        ratio_low: low,
        ratio_high: high,
        repeat_low: low - 0.02,
        repeat_high: high + 0.02,
        evidence_of_gain: if ratio < 1.0 { 4000.0 } else { 0.1 },
        evidence_of_worth: if ratio < 1.0 { 20.0 } else { 0.1 },
        sure_share: if ratio < 1.0 { 0.95 } else { 0.0 },
        runs: 9,
        control_runs: 11,
        without_host: None,
        uncorrected: None,
        at_once: false,
        alone: None,
    }
}

pub(crate) fn verdict(
    arm: &str,
    word: VerdictWord,
    why: &str,
    effect: Option<ArmEffect>,
) -> ArmVerdict {
    ArmVerdict {
        arm: arm.into(),
        word,
        why: why.into(),
        no_gain_above_share: (word == VerdictWord::NoGain).then_some(0.02),
        no_loss_above_share: (word == VerdictWord::NoGain).then_some(0.03),
        settled_by_ns: (word == VerdictWord::Likely).then_some(Nanos::secs(40)),
        cpu_ratio: effect.as_ref().map(|e| e.ratio + 0.03),
        peak_rss_change_bytes: effect.as_ref().map(|_| 12 << 20),
        control_peak_rss_bytes: effect.as_ref().map(|_| Bytes::gib(1)),
        supervisor_ns: Nanos::millis(1),
        effect,
    }
}

pub(crate) fn point(arm: &str, wall_ms: u64) -> ArmRun {
    ArmRun {
        arm: arm.into(),
        usage: usage(wall_ms),
        mechanism: None,
        idle_mechanisms: Vec::new(),
        huge_faults: 0,
        supervisor_ns: Nanos(0),
    }
}

pub(crate) fn block(dropped: Option<&str>) -> ExperimentBlock {
    ExperimentBlock {
        at_once: false,
        points: vec![point("plain", 1000), point("plain", 1010), point("heap-huge", 520)],
        system_load: SystemLoad::default(),
        dropped: dropped.map(Into::into),
    }
}

pub(crate) fn design() -> ExperimentDesign {
    ExperimentDesign {
        quantity: ComparedQuantity::Time,
        guards: vec![],
        seed: 42,
        budget_ns: Nanos::secs(60),
        control: "plain".into(),
        arms: vec!["heap-huge".into(), "malloc-keep".into()],
    }
}

pub(crate) fn experiment(verdicts: Vec<ArmVerdict>) -> Experiment {
    Experiment {
        design: design(),
        blocks: vec![block(None), block(None), block(Some("not finished"))],
        verdicts,
        ..constructed::experiment("plain", &[])
    }
}

/// The values beside a control of 1 s and 1 GiB.
fn time_and_memory(
    arm: &str,
    (ms, mib): (u64, u64),
    memory_price: Option<f64>,
    is_on_front: bool,
) -> TimeAndMemory {
    TimeAndMemory {
        arm: arm.into(),
        time_ns: Nanos::millis(ms),
        memory_bytes: Bytes::mib(mib),
        time_ratio: ms as f64 / 1000.0,
        memory_ratio: mib as f64 / 1024.0,
        memory_price,
        is_on_front,
    }
}

pub(crate) fn receipt() -> RemedyReceipt {
    RemedyReceipt {
        command: "pagewise run --with heap-huge -- ./walk --size 1G --rounds 100 --output 'a file' --verbose".into(),
        environment: vec!["export GLIBC_TUNABLES=glibc.malloc.hugetlb=1".into()],
        systemd: vec!["[Service]".into(), "Environment=GLIBC_TUNABLES=glibc.malloc.hugetlb=1".into()],
        containers: None,
        notes: vec!["peak memory grows by 12 MiB".into()],
        undo: "start the program without the variable".into(),
    }
}

pub(crate) fn run(kind: RunKind, outcome: Option<SessionOutcome>) -> SavedRun {
    let command = ["./walk", "--size", "1G"].map(String::from).to_vec();
    let mut run = SavedRun::new(kind, "t-0001".into(), 1_700_000_000_000_000_000, command);
    run.pagewise = "0.0.0".into();
    run.took_ns = Nanos::secs(61);
    run.machine = Some(machine());
    run.outcome = outcome;
    run
}

/// An empty saved run of `pagewise bench KIND`.
pub(crate) fn bench_of(kind: &str, id: &str) -> SavedRun {
    let command = ["pagewise", "bench", kind].map(str::to_owned).to_vec();
    let mut run = SavedRun::new(RunKind::Bench, id.into(), 1_700_000_000_000_000_000, command);
    run.machine = Some(machine());
    run.pagewise = "0.0.0".into();
    run
}

pub(crate) fn proven() -> SavedRun {
    let mut run =
        run(RunKind::Tune, Some(SessionOutcome::Proven { keep: vec!["heap-huge".into()] }));
    run.look = Some(look());
    run.diagnosis = Some(diagnosis());
    run.candidates = vec![
        candidate("heap-huge", "faults take 38%", true),
        candidate("pipe-grow", "no pipe of the tree carried data", false),
        candidate("place", "wake-ups take under 1% of its time", false),
    ];
    run.experiment = Some(experiment(vec![
        verdict(
            "heap-huge",
            VerdictWord::Keep,
            "a gain over 1% is proven; its counter stood out in each of its runs",
            Some(effect(0.516, 0.498, 0.541)),
        ),
        verdict("malloc-keep", VerdictWord::NotTried, "the budget was too short for it", None),
    ]));
    run.experiment.as_mut().unwrap().time_and_memory = vec![
        time_and_memory("plain", (1000, 1024), None, true),
        time_and_memory("heap-huge", (520, 1036), Some(0.024), true),
        time_and_memory("allocator=jemalloc", (1010, 1100), None, false),
    ];
    run.output_checks = vec![OutputCheck { arm: "heap-huge".into(), equal: true, notes: vec![] }];
    run.receipt = Some(receipt());
    run.warnings = vec!["the two plain runs differ in a time stamp, which was left out".into()];
    run
}

pub(crate) fn slower_ab() -> SavedRun {
    let mut run = run(RunKind::Ab, Some(SessionOutcome::NothingKept));
    let mut all = experiment(vec![verdict(
        "second",
        VerdictWord::Slower,
        "a loss over 1% is proven",
        Some(effect(1.2, 1.18, 1.22)),
    )]);
    for point in all.blocks.iter_mut().flat_map(|b| &mut b.points) {
        if point.arm == "heap-huge" {
            point.arm = "second".into();
        }
    }
    all.design.arms = vec!["second".into()];
    run.experiment = Some(all);
    run
}

pub(crate) fn doctor() -> SavedRun {
    let mut run = run(RunKind::Doctor, None);
    run.command = vec![];
    let capability = |group: &str, name: &str, answer, unlock: Option<&str>| Capability {
        group: group.into(),
        name: name.into(),
        gives: "counts of one kind".into(),
        answer,
        unlock: unlock.map(Into::into),
    };
    run.body = Some(RunBody::Checkup(DoctorReport {
        machine: machine(),
        traits: vec![MachineTrait {
            group: "page sizes".into(),
            name: "base page".into(),
            value: "4 KiB".into(),
        }],
        capabilities: vec![
            capability("observing", "ptrace", CapabilityAnswer::Yes, Some("never shown")),
            capability(
                "observing",
                "kernel samples",
                CapabilityAnswer::No("perf_event_open: permission denied".into()),
                Some("sysctl kernel.perf_event_paranoid=1"),
            ),
            capability(
                "remedies",
                "pipe growth",
                CapabilityAnswer::Unknown("fcntl: bad address".into()),
                None,
            ),
        ],
        spoilers: vec![MeasurementSpoiler {
            what: "The host takes free memory back.".into(),
            remedy: "Memory is touched before each run.".into(),
        }],
        keys: keys::keys(),
    }));
    run
}

/// `b` against `a`, with this change of its time.
pub(crate) fn compare_two(
    a: &SavedRun,
    b: &SavedRun,
    change: Option<&pagewise_model::trial::TimeRatio>,
) -> pagewise_report::ReportDocument {
    let runs = [a.clone(), b.clone()];
    pagewise_report::compare(&runs, &constructed::comparison(&runs, change))
}

/// The report on a terminal, after the checks of what a reader may rely on.
pub(crate) fn read_report(run: &SavedRun, style: &TerminalStyle) -> String {
    let text = pagewise_report::render(run, style);
    let found = reading::defects(&text, run, style.width.max(40));
    assert!(found.is_empty(), "{found:#?} in\n{text}");
    text
}
