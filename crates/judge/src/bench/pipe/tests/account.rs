//! Tests of the account: every part, parts without a price, measured parts, and samples beside it.

use super::*;

#[test]
fn every_part_of_a_known_point_is_found() {
    let judgement = judged(vec![made(write_read(), write_read_work(), COUNTS, 0.0)], &references());
    let account = only(&judgement);
    let parts = [
        (PipeWork::Copy, 2.0 * COPY),
        (PipeWork::CacheTransfer, CROSS),
        (PipeWork::PageAllocation, PAGES as f64 * PAGE),
        (PipeWork::Entry, 8_192.0 * ENTRY),
        (PipeWork::Locks, 8_192.0 * LOCK),
        (PipeWork::Faults, 500.0 * FAULT),
        (PipeWork::Wakeups, 3_000.0 * WAKEUP),
        (PipeWork::Waiting, 7e6),
        (PipeWork::User, 2e6),
    ];
    for (work, ns) in parts {
        assert_near(account.part_ns(work), ns, 1e-3);
    }
    assert_eq!(account.parts.len(), parts.len());
    assert!(account.not_priced.is_empty());
    assert!(account.unexplained_per_gib_ns.abs() < 1e-4 * account.per_gib_ns);
}

#[test]
fn injected_copies_wakeups_and_faults_are_recovered_from_noisy_repeats() {
    let reference = references();
    let slots = PAGES as f64 * (SLOT + PIN + APART);
    let spliced = rung("splice", RungWriter::Vmsplice, RungReader::Splice);
    let read = rung("read", RungWriter::Vmsplice, RungReader::Read);
    let more = Truth { switches: 13_000, faults: 90_500, ..COUNTS };
    let points = vec![
        made(spliced.clone(), slots, COUNTS, 0.03),
        made(read, slots + READ, COUNTS, 0.03),
        made(spliced, slots, more, 0.03),
    ];
    let steps = judged(points, &reference).steps;
    assert_eq!(steps.len(), 2);
    let change = |at: usize, work| {
        steps[at].parts.iter().find(|(w, _)| *w == work).map_or(0.0, |(_, ns)| *ns)
    };
    assert_near(change(0, PipeWork::Copy), READ, 0.1);
    assert_near(change(1, PipeWork::Copy), -READ, 0.1);
    assert_eq!(change(0, PipeWork::CacheTransfer), 0.0, "what is lent again lies in both caches");
    assert_near(change(1, PipeWork::Wakeups), 10_000.0 * WAKEUP, 0.1);
    assert_near(change(1, PipeWork::Faults), 90_000.0 * FAULT, 0.1);
    for step in &steps {
        let explained: f64 = step.parts.iter().map(|(_, ns)| ns).sum();
        assert_near(explained + step.unexplained_per_gib_ns, step.change_per_gib_ns, 1e-9);
    }
}

#[test]
fn what_has_no_price_stays_unexplained_to_the_nanosecond() {
    let slots = PAGES as f64 * (SLOT + PIN + APART);
    let spliced = || made(rung("s", RungWriter::Vmsplice, RungReader::Splice), slots, COUNTS, 0.0);
    let full = judged(vec![spliced()], &references());
    assert!(only(&full).unexplained_per_gib_ns.abs() < 1e-4 * only(&full).per_gib_ns);
    let without = judged(vec![spliced()], &ReferencePrices::missing("not measured"));
    let account = only(&without);
    assert_eq!(account.not_priced, [PipeWork::Pinning, PipeWork::Slots, PipeWork::CacheTransfer]);
    assert_near(account.unexplained_per_gib_ns, slots, 1e-3);
    let hidden = Truth { kernel: 33e6, ..COUNTS };
    let more = judged(vec![made(write_read(), write_read_work(), hidden, 0.0)], &references());
    assert_near(only(&more).unexplained_per_gib_ns, 33e6, 1e-3);
}

#[test]
fn prices_that_say_too_much_leave_a_negative_rest() {
    let judgement = judged(vec![made(write_read(), COPY, COUNTS, 0.0)], &references());
    // For CPU time of the wake-ups the other parts leave no room.
    let missing = COPY - (write_read_work() - 3_000.0 * AWAKE);
    assert_near(only(&judgement).unexplained_per_gib_ns, missing, 1e-3);
}

#[test]
fn an_end_that_spins_waits() {
    let spinning = Truth { spins: 200_000, switches: 0, waiting: 0.0, ..COUNTS };
    let mut busy = rung("busy", RungWriter::Vmsplice, RungReader::Splice);
    busy.wait = RungWait::Busy;
    let slots = PAGES as f64 * (SLOT + PIN + APART);
    let judgement = judged(vec![made(busy, slots, spinning, 0.0)], &references());
    let account = only(&judgement);
    assert_near(account.part_ns(PipeWork::Waiting), 200_000.0 * (ENTRY + LOCK), 1e-3);
    assert_near(account.part_ns(PipeWork::Entry), 8_192.0 * ENTRY, 1e-3);
    assert!(account.part_ns(PipeWork::Wakeups) == 0.0);
}

#[test]
fn time_spun_and_time_in_own_code_are_what_was_measured() {
    let truth = Truth { spins: 200_000, switches: 0, waiting: 0.0, ..COUNTS };
    let mut point = made(rung("t", RungWriter::Vmsplice, RungReader::Splice), 1e6, truth, 0.0);
    for end in point.samples.iter_mut().flat_map(|s| [&mut s.writer, &mut s.reader]) {
        (end.spun_ns, end.own_ns) = (Some(Nanos(4_000_000)), Some(Nanos(3_000_000)));
    }
    let judgement = judged(vec![point.clone()], &references());
    let account = only(&judgement);
    assert_near(account.part_ns(PipeWork::Waiting), 8e6, 1e-6);
    // Both ends' own code, less 500 faults; the kernel's 2 ms of user time are not counted again.
    assert_near(account.part_ns(PipeWork::User), 6e6 - 500.0 * FAULT, 1e-6);
    // If one end did not measure, prices and the kernel's accounting are used.
    point.samples[0].writer.spun_ns = None;
    point.samples[0].reader.own_ns = None;
    let judgement = judged(vec![point], &references());
    let account = only(&judgement);
    assert_near(account.part_ns(PipeWork::Waiting), 200_000.0 * (ENTRY + LOCK), 1e-3);
    assert_near(account.part_ns(PipeWork::User), 2e6, 1e-3);
}

#[test]
fn what_crosses_between_cores_by_mode_and_consumption() {
    let between = |writer, reader, consumption, placement, reference: &ReferencePrices| {
        let mut rung = rung("r", writer, reader);
        rung.placement = placement;
        let mut point = made(rung.clone(), 1e9, COUNTS, 0.0);
        point.reader_cpu = Some(u32::from(placement != CpuPlacement::SameCore));
        (point.consumption, point.reader) = (consumption, rung.reader_for(consumption));
        only(&judged(vec![point], reference)).part_ns(PipeWork::CacheTransfer)
    };
    use PipeConsumption::{Touched, Untouched};
    let slots = PAGES as f64 * APART;
    let mut older = references();
    older.apart.renewed_base_ns = Fact::missing("not measured");
    for (writer, reader, consumption, want) in [
        (RungWriter::Write, RungReader::Read, Untouched, CROSS),
        (RungWriter::Vmsplice, RungReader::Read, Untouched, slots),
        (RungWriter::Vmsplice, RungReader::Splice, Touched, PAGES as f64 * RENEWED),
        (RungWriter::TeeSeed, RungReader::Splice, Touched, slots),
    ] {
        let text = format!("{writer:?} {reader:?} {consumption:?}");
        let got = between(writer, reader, consumption, CpuPlacement::TwoCores, &references());
        assert!((got - want).abs() <= 1e-3 * want, "{text}: {got} is not {want}");
        let same = between(writer, reader, consumption, CpuPlacement::SameCore, &references());
        assert!(same == 0.0, "{text}");
    }
    let by_yardstick =
        between(RungWriter::Vmsplice, RungReader::Splice, Touched, CpuPlacement::TwoCores, &older);
    assert_near(by_yardstick, slots + CROSS, 1e-3);
}

#[test]
fn what_was_slept_for_comes_from_colder_caches() {
    let mut prices = references();
    prices.asleep.read_base_ns = Fact::Known(5.0 * APART);
    let rung = rung("r", RungWriter::Vmsplice, RungReader::Read);
    let transfer = |switches, prices: &ReferencePrices| {
        let counts = Truth { switches, ..COUNTS };
        let point = made(rung.clone(), 1e9, counts, 0.0);
        only(&judged(vec![point], prices)).part_ns(PipeWork::CacheTransfer) / PAGES as f64
    };
    for (switches, want) in [(0, APART), (4_096, 3.0 * APART), (30_000, 5.0 * APART)] {
        assert_near(transfer(switches, &prices), want, 1e-6);
    }
    // A price below the noise counts as nothing beside another price. So does a missing price.
    prices.apart.read_base_ns = Fact::missing("less than the noise");
    assert_near(transfer(4_096, &prices), 2.5 * APART, 1e-6);
    prices.asleep = CrossCorePrices::missing("not measured");
    assert_near(transfer(4_096, &prices), APART, 1e-6);
}

#[test]
fn wakeups_take_no_longer_than_was_slept() {
    let mut cheap = made(write_read(), write_read_work(), COUNTS, 0.0);
    for sample in &mut cheap.samples {
        sample.wall_ns = Nanos((sample.writer.cpu_ns() + sample.reader.cpu_ns()).0 / 2 + 1_000_000);
    }
    let judgement = judged(vec![cheap], &references());
    let account = only(&judgement);
    assert_near(account.part_ns(PipeWork::Wakeups), 3_000.0 * AWAKE + 2e6, 1e-3);
    let part = account.parts.iter().find(|p| p.work == PipeWork::Wakeups).unwrap();
    assert!(part.evidence.contains("limited by the time asleep"), "{}", part.evidence);
    assert!(account.part_ns(PipeWork::Waiting) == 0.0);
}

#[test]
fn wakeups_take_no_more_cpu_time_than_is_left() {
    let truth = Truth { calls: 8_192, switches: 3_000, ..Truth::default() };
    let cpu = write_read_work() + 8_192.0 * (ENTRY + LOCK) + 3_000.0 * AWAKE / 2.0;
    let samples = (0..9).map(|i| sample(i, truth, cpu, cpu + 3e9, 2.0)).collect();
    let judgement =
        judged(vec![point(write_read(), PipeConsumption::Untouched, samples)], &references());
    let account = only(&judgement);
    assert_near(account.part_ns(PipeWork::Wakeups), 3_000.0 * (WAKEUP - AWAKE / 2.0), 1e-3);
    assert!(account.unexplained_per_gib_ns.abs() < 1e-3 * account.per_gib_ns);
}

#[test]
fn on_one_cpu_the_clock_counts_once_and_nothing_crosses() {
    let mut same = write_read();
    same.placement = CpuPlacement::SameCore;
    let cpu = write_read_work() - CROSS + 8_192.0 * (ENTRY + LOCK) + 3_000.0 * AWAKE;
    let truth = Truth { calls: 8_192, switches: 3_000, ..Truth::default() };
    let samples = (0..9).map(|i| sample(i, truth, cpu, cpu, 1.0)).collect();
    let judgement = judged(vec![point(same, PipeConsumption::Untouched, samples)], &references());
    let account = only(&judgement);
    assert_near(account.per_gib_ns, cpu, 1e-6);
    assert_near(account.part_ns(PipeWork::Wakeups), 3e6, 1e-3);
    assert!(account.unexplained_per_gib_ns.abs() < 1e-3 * cpu);
    assert!(account.part_ns(PipeWork::CacheTransfer) == 0.0);
}

#[test]
fn copies_by_mode_and_consumption() {
    let copies = |writer, reader, consumption| {
        let rung = rung("r", writer, reader);
        let mut point = made(rung.clone(), 1e9, COUNTS, 0.0);
        point.consumption = consumption;
        point.reader = rung.reader_for(consumption);
        only(&judged(vec![point], &references())).part_ns(PipeWork::Copy)
    };
    use PipeConsumption::{ForwardedFile, ForwardedSocket, Touched, Untouched};
    for (writer, reader, consumption, want) in [
        (RungWriter::Write, RungReader::Read, Untouched, 2.0 * COPY),
        (RungWriter::Write, RungReader::Read, ForwardedSocket, 3.0 * COPY),
        (RungWriter::Vmsplice, RungReader::Splice, Untouched, 0.0),
        (RungWriter::Vmsplice, RungReader::Splice, Touched, READ),
        (RungWriter::SpliceFrozen, RungReader::Splice, ForwardedSocket, 0.0),
        (RungWriter::SpliceFrozen, RungReader::Splice, ForwardedFile, COPY),
        (RungWriter::IoUring, RungReader::VmspliceOut, Untouched, 2.0 * COPY),
    ] {
        let got = copies(writer, reader, consumption);
        assert!((got - want).abs() <= 1e-6 * want, "{writer:?} {reader:?} {consumption:?}: {got}");
    }
}

#[test]
fn samples_that_contradict_prices_are_reported() {
    let stack = |symbol: &str, count| KernelStack { symbols: vec![symbol.into()], count };
    let prices = prices();
    let points = || vec![made(write_read(), write_read_work(), COUNTS, 0.0)];
    let reported = |copied: u64| {
        let samples = CpuSamples {
            user: 10,
            stacks: vec![stack("_copy_to_iter", copied), stack("anon_pipe_write", 180)],
            period_ns: Nanos(500_000),
            ..CpuSamples::default()
        };
        let reference = references();
        let known = PipeContext {
            prices: Some(&prices),
            reference: &reference,
            base_page: PageSize::BASE_4K,
            l2_bytes: &Fact::missing("not known"),
            samples: &[(0, samples)],
        };
        let judgement = judge(&ladder(points()), &known);
        assert!(only(&judgement).samples.known().is_some());
        only(&judgement).disagreements.clone()
    };
    // Copies are 120 ms of the 150 ms of CPU time, page allocation and calls 28 ms.
    assert_eq!(reported(800).len(), 0, "{:?}", reported(800));
    let contradicted = reported(10);
    assert!(contradicted.iter().any(|s| s.starts_with("copies: 120.0 ms per GiB by counts")));
}

#[test]
fn the_published_profile_stands_beside_samples_of_its_rung() {
    let stack = |symbols: &[&str], count| KernelStack {
        symbols: symbols.iter().map(ToString::to_string).collect(),
        count,
    };
    let samples = CpuSamples {
        user: 10,
        stacks: vec![
            stack(&["_copy_from_iter", "copy_page_from_iter", "anon_pipe_write"], 30),
            stack(&["charge", "__alloc_frozen_pages_noprof", "alloc_pages", "anon_pipe_write"], 20),
            stack(&["__alloc_pages", "shmem_fault", "asm_exc_page_fault"], 9),
            stack(&["osq_lock", "__mutex_lock.constprop.0", "splice_to_pipe"], 9),
            stack(&["osq_lock", "__mutex_lock.constprop.0", "__do_sys_vmsplice"], 7),
            stack(&["gup_fast", "iov_iter_get_pages2", "__do_sys_vmsplice"], 5),
            stack(&["schedule", "wait_for_space", "__x64_sys_vmsplice"], 3),
            stack(&["_raw_spin_lock", "__wake_up", "__x64_sys_vmsplice"], 2),
        ],
        rest: 5,
        ..CpuSamples::default()
    };
    let spliced = rung("splice", RungWriter::Vmsplice, RungReader::Splice);
    let huge = PipeRung { pages: RungPages::Huge, ..spliced.clone() };
    let read = rung("read", RungWriter::Vmsplice, RungReader::Read);
    let rungs = [write_read(), spliced, huge, read];
    let points = rungs.map(|rung| made(rung, 1e9, COUNTS, 0.0)).to_vec();
    let samples = [0, 1, 2, 3].map(|at| (at, samples.clone()));
    let judgement = unpriced(&ladder(points), &samples);
    let lines = judgement.accounts.iter().flat_map(|account| {
        account
            .published
            .iter()
            .map(|line| (account.point, line.work, line.function.as_str(), line.share))
    });
    let want = [
        (0, PipeWork::Copy, "copy_page_from_iter", 0.3),
        (0, PipeWork::PageAllocation, "__alloc_pages", 0.2),
        (1, PipeWork::Pinning, "iov_iter_get_pages", 0.05),
        (1, PipeWork::Locks, "__mutex_lock", 0.07),
        (2, PipeWork::Waiting, "wait_for_space", 0.03),
        (2, PipeWork::Wakeups, "__wake_up_common_lock", 0.02),
    ];
    assert_eq!(lines.collect::<Vec<_>>(), want);
}

#[test]
fn without_any_price_only_what_the_kernel_accounted_is_explained() {
    let bare = ladder(vec![made(write_read(), write_read_work(), COUNTS, 0.0)]);
    let judgement = unpriced(&bare, &[]);
    let account = only(&judgement);
    let kinds: Vec<PipeWork> = account.parts.iter().map(|p| p.work).collect();
    // The yardstick of memory stands in for the price of a copy.
    assert!(kinds.contains(&PipeWork::Copy) && kinds.contains(&PipeWork::User), "{kinds:?}");
    let unpriced = [
        PipeWork::PageAllocation,
        PipeWork::CacheTransfer,
        PipeWork::Entry,
        PipeWork::Locks,
        PipeWork::Faults,
        PipeWork::Wakeups,
    ];
    assert_eq!(account.not_priced, unpriced);
}
