//! Constructed looks, one per rule.

mod recorded;
mod translation;

use super::*;
use pagewise_model::constructed;
use pagewise_model::diagnosis::KernelActivity;
use pagewise_model::look::{
    AccessPattern, CpuSamples, FootprintGrowth, KernelStack, PipeSeen, TracedLook, TracedProcess,
    WalkCounts,
};
use pagewise_model::measured::Measured;
use pagewise_model::price::{ChasePoint, TransferPoint};
use pagewise_model::usage::{ProgramEnd, ProgramUsage};
use pagewise_model::{Bytes, PageSize};
use std::collections::BTreeMap;

fn exactly(value: f64) -> Measured {
    Measured { median: value, min: value, max: value, n: 1 }
}

fn machine() -> Machine {
    Machine { hypervisor: Some("KVM".into()), ..constructed::machine() }
}

pub(crate) fn prices() -> SessionPrices {
    let point = |mib, base, huge| ChasePoint {
        set_bytes: Bytes::mib(mib),
        base_ns: exactly(base),
        huge_ns: Fact::Known(exactly(huge)),
    };
    let transfer = |bytes: u64, ns: f64| TransferPoint {
        transfer_bytes: Bytes(bytes),
        transfer_ns: exactly(ns),
    };
    SessionPrices {
        anon_fault_ns: exactly(600.0),
        zero_page_ns: exactly(100.0),
        file_fault_ns: exactly(1000.0),
        file_fault_pages: 16.0,
        cow_fault_ns: exactly(800.0),
        huge_fault_ns: Fact::Known(exactly(80_000.0)),
        pipe_transfers: vec![
            transfer(1, 300.0),
            transfer(8 << 10, 500.0),
            transfer(64 << 10, 12_800.0),
        ],
        file_reads: vec![transfer(64 << 10, 6_400.0), transfer(256 << 10, 12_800.0)],
        syscall_ns: exactly(100.0),
        map_unmap_ns: exactly(2000.0),
        wakeup_cross_ns: Fact::Known(exactly(5000.0)),
        wakeup_same_ns: exactly(1500.0),
        spawn_ns: Fact::Known(exactly(400_000.0)),
        fork_page_ns: Fact::Known(exactly(10.0)),
        chase: vec![
            point(1, 5.0, 5.0),
            point(16, 60.0, 30.0),
            point(256, 140.0, 100.0),
            point(1024, 200.0, 110.0),
        ],
        host_fault_extra_ns: Fact::Known(4000.0),
        prior: false,
    }
}

fn usage(wall_ms: u64, user_ms: u64, sys_ms: u64) -> ProgramUsage {
    ProgramUsage {
        wall_ns: Nanos::millis(wall_ms),
        user_ns: Nanos::millis(user_ms),
        sys_ns: Nanos::millis(sys_ms),
        peak_rss_bytes: Bytes::mib(1),
        read_bytes: Some(Bytes(0)),
        written_bytes: Some(Bytes(0)),
        ..constructed::usage()
    }
}

fn process(pid: i32) -> TracedProcess {
    TracedProcess { pid, ..constructed::process() }
}

fn look(run: ProgramUsage, processes: Vec<TracedProcess>) -> LookFindings {
    LookFindings {
        runs: vec![run],
        traced: Fact::Known(TracedLook {
            processes,
            pipes: Vec::new(),
            pipe_calls: std::collections::BTreeSet::new(),
            most_processes: 1,
            effects: Vec::new(),
            files: Vec::new(),
            pattern: Fact::missing("not stepped"),
            written: Vec::new(),
            footprint: Fact::missing("not followed"),
            stepped: None,
            descriptor_kinds: BTreeMap::new(),
            checkpoint_bytes: None,
            ended: ProgramEnd::Exited(0),
        }),
        samples: Fact::missing("no samples"),
        user: Fact::missing("not here"),
        walks: Fact::missing("no counters"),
        code_misses: Fact::missing("no counters"),
        faults: Fact::missing("not timed"),
    }
}

/// One process that has faulted in this many pages itself.
fn grown(run: ProgramUsage, pages: u64) -> LookFindings {
    let anon_bytes = Bytes(pages * PageSize::BASE_4K.bytes());
    let process = TracedProcess { anon_bytes, ..process(1) };
    look(ProgramUsage { minor_faults: pages, ..run }, vec![process])
}

/// A look with this many jumps among 1000 first uses of pages, 4000 of which come per ms, in memory of
/// `span`. There are no other accesses between, as in a chase.
fn with_pattern(mut look: LookFindings, jumps: u64, span: Bytes, huge: Bytes) -> LookFindings {
    let pattern = AccessPattern {
        bursts: 10,
        instructions: 10_000,
        accesses: jumps,
        jumps,
        next_pages: 1000 - jumps,
        jump_span_bytes: span,
        jump_huge_bytes: huge,
    };
    look.runs.iter_mut().for_each(|run| run.peak_rss_bytes = span);
    if let Fact::Known(traced) = &mut look.traced {
        traced.pattern = Fact::Known(pattern);
        traced.footprint = Fact::Known(FootprintGrowth { probes: 10, new_pages_per_ms: 4000.0 });
    }
    look
}

fn judge(look: &LookFindings) -> Diagnosis {
    diagnose(look, &prices(), &machine())
}

fn ns(diagnosis: &Diagnosis, kind: CostKind) -> u64 {
    diagnosis.cost(kind).map_or(0, |c| c.cost_ns.0)
}

#[test]
fn anonymous_growth_is_priced_with_its_zeroing_apart() {
    let diagnosis = judge(&grown(usage(1000, 400, 600), 100_000));
    assert_eq!(ns(&diagnosis, CostKind::AnonFaults), 50_000_000);
    assert_eq!(ns(&diagnosis, CostKind::Zeroing), 10_000_000);
    let anon = diagnosis.cost(CostKind::AnonFaults).unwrap();
    assert_eq!(anon.evidence, "100000 faults x 0.50 us");
    assert!((anon.time_share - 0.05).abs() < 1e-9);
    assert!((diagnosis.ceiling_share - 0.06).abs() < 1e-9);
}

#[test]
fn the_split_adds_up_to_the_faults_counted() {
    let mut p = process(1);
    p.anon_bytes = Bytes(1100 * 4096);
    p.file_cow_bytes = Bytes(100 * 4096);
    p.file_bytes = Bytes(1600 * 4096);
    p.churn.munmap_bytes = Bytes(5000 * 4096);
    let traced = look(usage(1, 1, 1), vec![p]).traced;
    let run = TypicalRun { minor_faults: 4000.0, ..TypicalRun::default() };
    let (base, huge) = (PageSize::BASE_4K, PageSize::PMD_2M);
    let split = faults::split(traced.known().unwrap(), &run, &prices(), base, huge);
    let want = faults::MinorFaultSplit {
        anon: 3800.0,
        again: 2800.0,
        cow: 100.0,
        file: 100.0,
        ..faults::MinorFaultSplit::default()
    };
    assert_eq!(split, want);
    let few = TypicalRun { minor_faults: 50.0, ..TypicalRun::default() };
    let split = faults::split(traced.known().unwrap(), &few, &prices(), base, huge);
    assert_eq!(split, faults::MinorFaultSplit { anon: 50.0, ..faults::MinorFaultSplit::default() });
}

#[test]
fn unexplained_faults_of_a_tree_are_copies_after_fork() {
    let mut run = usage(1000, 400, 600);
    run.minor_faults = 1000;
    let diagnosis = judge(&look(run, vec![process(1), process(2)]));
    assert_eq!(ns(&diagnosis, CostKind::CowFaults), 800_000);
    assert!(diagnosis.cost(CostKind::AnonFaults).is_none());
}

#[test]
fn forks_copy_an_entry_for_each_small_page_that_was_touched() {
    let mut parent = process(1);
    (parent.forks, parent.forked_bytes) = (10, Bytes(10 * 100_000 * 4096));
    parent.anon_bytes = Bytes(100_000 * 4096);
    let run = || usage(1000, 400, 600);
    let small = judge(&look(run(), vec![parent.clone(), process(2)]));
    assert_eq!(ns(&small, CostKind::Fork), 10_000_000);
    let evidence = &small.cost(CostKind::Fork).unwrap().evidence;
    assert!(
        evidence.starts_with("10 forks of 3.8 GiB in all, 1000000 entries x 0.01 us"),
        "{evidence}"
    );
    parent.anon_huge_bytes = Bytes(75_000 * 4096);
    let huge = judge(&look(run(), vec![parent, process(2)]));
    assert_eq!(ns(&huge, CostKind::Fork), 2_500_000);
    assert!(judge(&look(run(), vec![process(1)])).cost(CostKind::Fork).is_none());
}

#[test]
fn pages_that_a_child_had_from_its_parent_are_no_touches_of_its_own() {
    let [mut parent, mut child] = [process(1), process(2)];
    (parent.forks, parent.anon_bytes) = (1, Bytes(1000 * 4096));
    (child.anon_bytes, child.inherited_bytes) = (Bytes(1000 * 4096), Bytes(1000 * 4096));
    let run = ProgramUsage { minor_faults: 1800, ..usage(1000, 400, 600) };
    let cow = judge(&look(run, vec![parent, child]));
    let evidence = &cow.cost(CostKind::CowFaults).unwrap().evidence;
    assert!(evidence.starts_with("800 faults"), "{evidence}");
}

#[test]
fn copies_after_a_fork_are_named() {
    let cow_run = || ProgramUsage { minor_faults: 1000, ..usage(1000, 400, 600) };
    let cow = judge(&look(cow_run(), vec![process(1), process(2)]));
    let mut parent = process(1);
    parent.forks = 1;
    let unseen = judge(&look(cow_run(), vec![parent]));
    assert_eq!(ns(&unseen, CostKind::CowFaults), ns(&cow, CostKind::CowFaults));
    let evidence = &cow.cost(CostKind::CowFaults).unwrap().evidence;
    assert_eq!(evidence, "1000 faults x 0.80 us, 1000 of them on pages that a fork had shared");
}

#[test]
fn a_huge_page_is_one_fault_with_its_own_price() {
    let mut p = process(1);
    p.anon_bytes = Bytes::mib(200);
    p.anon_huge_bytes = Bytes::mib(200);
    let mut run = usage(1000, 400, 600);
    run.minor_faults = 100;
    let diagnosis = judge(&look(run, vec![p]));
    let both = ns(&diagnosis, CostKind::AnonFaults) + ns(&diagnosis, CostKind::Zeroing);
    assert_eq!(both, 100 * 80_000);
    assert!(diagnosis.cost(CostKind::AnonFaults).unwrap().evidence.contains("100 huge"));
}

#[test]
fn without_a_traced_look_all_faults_are_anonymous_and_it_says_so() {
    let mut run = usage(1000, 400, 600);
    run.minor_faults = 10;
    let mut look = look(run, Vec::new());
    look.traced = Fact::missing("ptrace refused");
    let diagnosis = judge(&look);
    assert!(diagnosis.cost(CostKind::AnonFaults).unwrap().evidence.contains("was not traced"));
}

#[test]
fn bytes_go_to_pipes_only_where_two_processes_share_one() {
    let mut run = usage(1000, 100, 900);
    run.read_bytes = Some(Bytes::mib(200));
    run.written_bytes = Some(Bytes::mib(100));
    let mut look = look(run, vec![process(1), process(2)]);
    let alone = judge(&look);
    assert!(alone.cost(CostKind::PipeCopies).is_none());
    assert_eq!(ns(&alone, CostKind::FileCopies), 300 * 1024 * 50);
    let pipe = |writers: &[i32], readers: &[i32], inherited| PipeSeen {
        inode: 1,
        capacity_bytes: Bytes::kib(64),
        writers: writers.to_vec(),
        readers: readers.to_vec(),
        inherited,
    };
    let mut with = |pipes| {
        if let Fact::Known(traced) = &mut look.traced {
            traced.pipes = pipes;
        }
        judge(&look)
    };
    let piped = with(vec![pipe(&[1], &[1, 2], false)]);
    assert_eq!(ns(&piped, CostKind::PipeCopies), 100 * 1024 * 200);
    assert_eq!(ns(&piped, CostKind::FileCopies), 100 * 1024 * 50);
    assert!(with(vec![pipe(&[1], &[2], true)]).cost(CostKind::PipeCopies).is_none());
    assert!(with(vec![pipe(&[1], &[1], false)]).cost(CostKind::PipeCopies).is_none());
}

#[test]
fn a_transfer_is_priced_by_its_size() {
    let mut run = usage(1000, 100, 900);
    run.read_bytes = Some(Bytes::mib(100));
    run.written_bytes = Some(Bytes::mib(100));
    let pipe = PipeSeen {
        inode: 1,
        capacity_bytes: Bytes::kib(64),
        writers: vec![1],
        readers: vec![2],
        inherited: false,
    };
    let mut look = look(run, vec![process(1), process(2)]);
    if let Fact::Known(traced) = &mut look.traced {
        traced.pipes = vec![pipe];
    }
    let mut at = |calls: u64| {
        look.runs.iter_mut().for_each(|run| run.write_calls = Some(calls));
        ns(&judge(&look), CostKind::PipeCopies) / calls.max(1)
    };
    assert_eq!(at(12_800), 500, "8 KiB, as priced");
    assert_eq!(at(3_200), 500 + 24 * 12_300 / 56, "32 KiB, between 8 and 64");
    assert_eq!(at(400), 51_200, "256 KiB, as four times 64");
    assert_eq!(at(0), 100 * 16 * 12_800, "unknown: 64 KiB");
}

#[test]
fn file_data_is_priced_by_the_size_of_the_mean_call() {
    let mut run = usage(1000, 100, 900);
    run.read_bytes = Some(Bytes::mib(100));
    let mut at = |calls: u64| {
        run.read_calls = Some(calls);
        ns(&judge(&look(run.clone(), vec![process(1)])), CostKind::FileCopies) / calls.max(1)
    };
    assert_eq!(at(6_400), 6_400, "16 KiB, at most as the smallest size");
    assert_eq!(at(1_600), 6_400, "64 KiB, as priced");
    assert_eq!(at(640), 6_400 + 96 * 6_400 / 192, "160 KiB, between 64 and 256");
    assert_eq!(at(100), 4 * 12_800, "1 MiB, as four times 256 KiB");
}

#[test]
fn mapping_calls_major_faults_and_wakeups_are_priced() {
    let mut p = process(1);
    p.churn.mmap_calls = 600;
    p.churn.munmap_calls = 400;
    let mut run = usage(1000, 100, 500);
    run.major_faults = 10;
    run.voluntary_switches = 20_000;
    let look = look(run, vec![p]);
    let diagnosis = judge(&look);
    assert_eq!(ns(&diagnosis, CostKind::MapUnmap), 1_000_000);
    assert_eq!(ns(&diagnosis, CostKind::MajorFaults), 25_000);
    assert_eq!(diagnosis.costs[0].kind, CostKind::Wakeups);
    assert!((diagnosis.share(&[CostKind::Wakeups]) - 0.1).abs() < 1e-9);
    let one_cpu = Machine { cpus: vec![0], ..machine() };
    let alone = diagnose(&look, &prices(), &one_cpu);
    assert!((alone.share(&[CostKind::Wakeups]) - 0.03).abs() < 1e-9);
}

#[test]
fn system_side_costs_never_exceed_the_system_time() {
    let diagnosis = judge(&grown(usage(300, 100, 200), 1_000_000));
    let sum: u64 = diagnosis.costs.iter().map(|c| c.cost_ns.0).sum();
    assert!(sum.abs_diff(200_000_000) < 10, "{sum}");
    assert!(diagnosis.costs.iter().all(|c| c.evidence.ends_with("capped by system time seen")));
}

#[test]
fn the_host_is_blamed_for_system_time_above_the_price_of_faults() {
    let mut look = grown(usage(1000, 400, 360), 100_000);
    let share = judge(&look).host_share.known().copied().unwrap();
    assert!((share - 300.0 / 760.0).abs() < 1e-6, "{share}");
    let metal = Machine { hypervisor: None, ..machine() };
    assert!(diagnose(&look, &prices(), &metal).host_share.known().is_none());
    look.runs[0].minor_faults = 10;
    assert!(judge(&look).host_share.known().is_none());
}

#[test]
fn samples_contradict_counts_only_where_it_matters() {
    let mut run = usage(1000, 500, 500);
    run.read_bytes = Some(Bytes::gib(4));
    let mut look = look(run, vec![process(1)]);
    let sampled = |copy, fault| {
        let stack = |symbol: &str, count| KernelStack { symbols: vec![symbol.into()], count };
        let stacks = vec![
            stack("_copy_to_iter", copy),
            stack("handle_mm_fault", fault),
            stack("shrink_folio_list", 30),
        ];
        let period_ns = Nanos::millis(1);
        Fact::Known(CpuSamples { stacks, period_ns, user: 500, ..CpuSamples::default() })
    };
    // 4 GiB at 50 ns per KiB are 210 ms.
    look.samples = sampled(220, 10);
    let agreed = judge(&look);
    assert_eq!(agreed.disagreements, [] as [String; 0]);
    // Pages that a transfer pins are in no price of a fault.
    let Fact::Known(samples) = &mut look.samples else { panic!("samples") };
    let symbols =
        ["gup_fast_pte_range", "gup_fast_fallback", "iov_iter_get_pages2", "iter_to_pipe"];
    samples.stacks.push(KernelStack { symbols: symbols.map(Into::into).into(), count: 200 });
    assert_eq!(judge(&look).disagreements, [] as [String; 0]);
    let copies = agreed.cost(CostKind::FileCopies).unwrap();
    assert_eq!(copies.sampled_ns, Fact::Known(Nanos::millis(220)));
    assert_eq!(ns(&agreed, CostKind::Reclaim), 30_000_000);
    assert_eq!(agreed.cost(CostKind::Reclaim).map(|c| c.basis), Some(CostBasis::Samples));
    let shares = agreed.kernel_time.known().unwrap();
    let all = 220.0 + 10.0 + 30.0 + 500.0;
    assert_eq!(shares.activity_share[&KernelActivity::Copy], 220.0 / all);
    assert_eq!(shares.symbol_share[0], ("_copy_to_iter".to_owned(), 220.0 / all));
    assert_eq!(shares.symbol_share.len(), 3);
    look.samples = sampled(300, 100);
    let said = judge(&look).disagreements;
    assert_eq!(said.len(), 2, "{said:?}");
    assert_eq!(said[0], "copies: 209.7 ms by counts and prices, 300.0 ms by samples");
    assert!(said[1].starts_with("faults, zeroing and mapping: 0 ns"));
}

#[test]
fn a_shared_activity_is_not_split_by_guess() {
    let kinds = [CostKind::PipeCopies, CostKind::FileCopies];
    let samples = Fact::Known(ActivitySamples::from_samples(&CpuSamples::default()));
    let shared = second_opinion::sampled(CostKind::PipeCopies, &kinds, &samples);
    assert!(shared.reason().unwrap().contains("copies by read and write"));
}

#[test]
fn nothing_and_next_to_nothing_give_finite_numbers() {
    let mut bare = look(usage(0, 0, 0), Vec::new());
    bare.runs[0].minor_faults = 100;
    bare.runs[0].voluntary_switches = 5;
    let mut tiny = look(usage(2, 1, 0), vec![process(1)]);
    tiny.runs[0].minor_faults = 120;
    tiny.runs[0].read_bytes = None;
    let mut none = bare.clone();
    none.runs.clear();
    for look in [bare, tiny, none] {
        let diagnosis = judge(&look);
        assert!((0.0..=1.0).contains(&diagnosis.ceiling_share));
        assert!(diagnosis.costs.iter().all(|c| (0.0..=1.0).contains(&c.time_share)));
    }
}

#[test]
fn the_ceiling_is_of_the_calmest_run_and_as_wide_as_the_noise() {
    let of = |runs: &[ProgramUsage]| {
        let look = LookFindings { runs: runs.to_vec(), ..look(runs[0].clone(), vec![process(1)]) };
        judge(&look).ceiling_share
    };
    let mut calm = usage(100, 50, 50);
    calm.minor_faults = 10_000;
    let disturbed = ProgramUsage { wall_ns: Nanos::millis(300), ..calm.clone() };
    let alone = of(std::slice::from_ref(&calm));
    assert!(alone > 0.0 && alone < 1.0, "{alone}");
    let beside = of(&[disturbed.clone(), calm.clone(), disturbed.clone()]);
    assert!((beside - alone).abs() < 1e-9, "{beside} is not {alone}");
    let noisy = ProgramUsage { user_ns: Nanos::millis(70), ..disturbed };
    let widened = of(&[noisy, calm.clone(), calm]);
    assert!((widened - 1.2 * alone).abs() < 1e-9, "{widened} is not 1.2 times {alone}");
}

#[test]
fn what_was_not_seen_is_not_in_the_ceiling_and_named() {
    let mut run = usage(1000, 900, 10);
    assert!(judge(&look(run.clone(), vec![process(1)])).not_in_ceiling.is_empty());
    run.read_bytes = None;
    assert_eq!(judge(&look(run, vec![process(1)])).not_in_ceiling, ["copies"]);
}
