use super::*;
use pagewise_model::Bytes;
use pagewise_model::constructed::{self, profiled_stack as stack};
use pagewise_model::diagnosis::{CostBasis, CostKind, PageCost};
use pagewise_model::profile::{CallGraphLine, ComparedTime, UserFrame};
use proptest::prelude::*;

fn samples(stacks: Vec<ProfiledStack>) -> StackSamples {
    StackSamples { stacks, period_ns: Nanos(500_000), ..Default::default() }
}

const READ: [&str; 3] = ["_copy_to_iter", "filemap_read", "do_syscall_64"];
const FAULT: [&str; 3] = ["clear_page_erms", "do_anonymous_page", "asm_exc_page_fault"];

#[test]
fn buckets_are_reported_the_largest_first() {
    let all = samples(vec![
        stack("cat", &READ, 30),
        stack("cat", &[], 50),
        stack("wc", &READ, 5),
        stack("wc", &FAULT, 14),
        stack("wc", &["tcp_sendmsg"], 1),
    ]);
    let sorted = sort(&all);
    let reported: Vec<(ProfileActivity, &ProfileReason, u64)> =
        sorted.buckets.iter().map(|b| (b.what, &b.why, b.samples)).collect();
    let want = [
        (ProfileActivity::User, &ProfileReason::Own, 50),
        (ProfileActivity::Copy, &ProfileReason::FileRead, 35),
        (ProfileActivity::Zeroing, &ProfileReason::AnonFault, 14),
        (ProfileActivity::Unclassified, &ProfileReason::Unknown, 1),
    ];
    assert_eq!(reported, want);
    assert_eq!((sorted.samples, sorted.kernel_samples), (100, 50));
    assert_eq!(sorted.buckets[1].cpu_ns, Nanos(35 * 500_000));
    assert!((sorted.buckets[1].time_share - 0.35).abs() < 1e-12);
    assert!((sorted.unclassified_share() - 0.02).abs() < 1e-12);
    let frequent = FrequentStack { symbols: vec!["tcp_sendmsg".to_owned()], samples: 1 };
    assert_eq!(sorted.unclassified, [frequent]);
}

#[test]
fn nothing_sampled_is_nothing_sorted() {
    let sorted = sort(&StackSamples::default());
    assert_eq!((sorted.samples, sorted.buckets.len()), (0, 0));
    assert!(sorted.unclassified_share().abs() < f64::EPSILON);
}

#[test]
fn pressure_accounting_is_distinguished() {
    let switch = ["psi_task_switch", "__schedule", "schedule", "anon_pipe_read"];
    let sorted = sort(&samples(vec![stack("a", &switch, 1), stack("a", &[], 3)]));
    assert!((sorted.pressure_accounting_share - 0.25).abs() < 1e-12);
    assert_eq!(sorted.buckets[1].what, ProfileActivity::Scheduling);
}

#[test]
fn a_graph_opens_from_the_process_to_the_leaf() {
    let main = UserFrame {
        path: "/bin/cat".into(),
        offset_bytes: Bytes(1),
        function: Some("main".into()),
        maker: None,
    };
    let unnamed = UserFrame { path: "/lib/libc.so.6".into(), function: None, ..main.clone() };
    let from_main =
        ProfiledStack { user: vec![unnamed.into(), main.into()], ..stack("cat", &READ, 60) };
    let deeper = ["memcpy", READ[0], READ[1], READ[2]];
    let sorted = sort(&samples(vec![from_main, stack("wc", &deeper, 40)]));
    let [bucket] = &sorted.buckets[..] else { panic!("{sorted:?}") };
    let line = |depth, name: &str, samples| CallGraphLine {
        depth,
        name: name.to_owned(),
        samples,
        folded: 0,
    };
    let want = [
        line(0, "cat", 60),
        line(1, "main", 60),
        line(2, "(libc.so.6)", 60),
        line(3, "do_syscall_64", 60),
        line(4, "filemap_read", 60),
        line(5, "_copy_to_iter", 60),
        line(0, "wc", 40),
        line(1, "do_syscall_64", 40),
        line(2, "filemap_read", 40),
        line(3, "_copy_to_iter", 40),
        line(4, "memcpy", 40),
    ];
    assert_eq!(bucket.graph, want);
}

#[test]
fn a_function_that_calls_itself_is_one_line() {
    let code = |function: &str| {
        let function = Some(function.into());
        UserFrame { path: "/bin/a".into(), offset_bytes: Bytes(1), function, maker: None }.into()
    };
    let deep = |depth: usize, leaf: &str| ProfiledStack {
        user: [&[leaf][..], &vec!["again"; depth], &["main"]]
            .concat()
            .into_iter()
            .map(code)
            .collect(),
        ..stack("a", &READ, 10)
    };
    let sorted = sort(&samples(vec![deep(100, "leaf"), deep(3, "leaf"), deep(1, "other")]));
    let [bucket] = &sorted.buckets[..] else { panic!("{sorted:?}") };
    let names = bucket.graph.iter().map(|line| (line.depth, line.name.as_str(), line.samples));
    let of_program: Vec<_> = names.filter(|(_, name, _)| !READ.contains(name)).collect();
    let want = [(0, "a", 30), (1, "main", 30), (2, "again", 30), (3, "leaf", 20), (3, "other", 10)];
    assert_eq!(of_program, want);
}

#[test]
fn rare_callees_are_folded_into_one_line() {
    let rare = |n: u64| stack("a", &["_copy_to_iter", &format!("f{n}"), "filemap_read"], 1);
    let mut all: Vec<ProfiledStack> = (0..9).map(rare).collect();
    all.push(stack("a", &READ[..2], 991));
    let sorted = sort(&samples(all));
    let [bucket] = &sorted.buckets[..] else { panic!("{sorted:?}") };
    let [.., folded] = &bucket.graph[..] else { panic!("{bucket:?}") };
    let want = CallGraphLine { depth: 2, name: String::new(), samples: 9, folded: 9 };
    assert_eq!((folded, bucket.graph.len()), (&want, 4));
}

fn cost(kind: CostKind, basis: CostBasis, ms: u64) -> PageCost {
    PageCost {
        kind,
        cost_ns: Nanos::millis(ms),
        time_share: 0.0,
        basis,
        evidence: String::new(),
        sampled_ns: Fact::missing("not asked"),
    }
}

fn counted(costs: Vec<PageCost>) -> (LookFindings, Diagnosis) {
    let look = LookFindings {
        runs: vec![constructed::usage()],
        traced: Fact::missing("not requested"),
        samples: Fact::missing("not requested"),
        user: Fact::missing("not here"),
        walks: Fact::missing("not requested"),
        code_misses: Fact::missing("not requested"),
        faults: Fact::missing("not requested"),
    };
    let diagnosis = Diagnosis {
        costs,
        ceiling_share: 0.0,
        not_in_ceiling: Vec::new(),
        host_share: Fact::missing("not requested"),
        kernel_time: Fact::missing("not requested"),
        disagreements: Vec::new(),
    };
    (look, diagnosis)
}

fn judged(samples: Fact<StackSamples>, costs: Vec<PageCost>) -> ProfileReport {
    let (look, diagnosis) = counted(costs);
    let functions = Fact::Known(HashSet::from(["clear_page_erms".to_owned()]));
    let facts = ProfileFacts {
        samples: &samples,
        counted: Some((&look, &diagnosis)),
        functions: &functions,
        release: "6.18.1-test",
        code_entries: Some(64),
    };
    judge(&facts, None)
}

#[test]
fn two_ways_to_one_sum_are_set_beside_each_other() {
    // 200 samples of 0.5 ms: 100 ms of file data, 10 ms of them in the calls, and 50 ms of zeroing.
    let all = samples(vec![
        stack("a", &READ, 180),
        stack("a", &["vfs_read", "ksys_read"], 20),
        stack("a", &FAULT, 100),
        stack("a", &["schedule", "anon_pipe_read"], 500),
    ]);
    let costs = vec![
        cost(CostKind::FileCopies, CostBasis::CountsTimesPrice, 95),
        cost(CostKind::Zeroing, CostBasis::CountsTimesPrice, 20),
        cost(CostKind::AddressTranslation, CostBasis::UpperBound, 70),
        cost(CostKind::Wakeups, CostBasis::CountsTimesPrice, 9),
    ];
    let profile = judged(Fact::Known(all), costs);
    let reported = |name: &str, counted, sampled, differ| ComparedTime {
        name: name.to_owned(),
        counted_ns: Nanos::millis(counted),
        sampled_ns: Nanos::millis(sampled),
        differ,
    };
    let want = [
        reported("zeroing", 20, 50, true),
        reported("faults, mapping and unmapping, zeroing", 20, 50, true),
        reported("data of files", 95, 100, false),
    ];
    assert_eq!(profile.compared, want);
    assert!(profile.unseen.is_empty());
}

#[test]
fn pinning_for_a_transfer_is_set_beside_no_price_of_faults() {
    let pinning =
        ["gup_fast_fallback", "pin_user_pages_fast", "iov_iter_extract_pages", "vmsplice_to_pipe"];
    let all = samples(vec![stack("a", &pinning, 200), stack("a", &FAULT, 4)]);
    let sorted = sort(&all);
    assert!(
        sorted.buckets.iter().any(|b| b.what == ProfileActivity::Pinning && b.samples == 200),
        "{sorted:?}"
    );
    let profile =
        judged(Fact::Known(all), vec![cost(CostKind::AnonFaults, CostBasis::CountsTimesPrice, 2)]);
    let [faults] = profile.compared.as_slice() else { panic!("{:?}", profile.compared) };
    assert_eq!((faults.sampled_ns, faults.differ), (Nanos::millis(2), false));
}

#[test]
fn without_samples_the_buckets_without_a_figure_are_named() {
    let profile = judged(Fact::missing("refused"), Vec::new());
    assert_eq!(profile.sorted.reason(), Some("refused"));
    assert!(
        profile.unseen.contains(&ProfileActivity::Lock)
            && profile.unseen.contains(&ProfileActivity::Allocation)
    );
    assert!(
        !profile.unseen.contains(&ProfileActivity::Copy)
            && !profile.unseen.contains(&ProfileActivity::User)
    );
    let dead = profile.dead_rules.known().unwrap();
    assert!(dead.iter().any(|rule| rule.name == "pipes" && rule.kernels == "5.4-"));
    assert!(dead.iter().all(|rule| rule.name != "clearing a page"));
}

#[test]
fn rules_are_not_checked_against_what_is_not_known() {
    let functions = Fact::missing("no kallsyms");
    let samples = Fact::missing("refused");
    let facts = ProfileFacts {
        samples: &samples,
        counted: None,
        functions: &functions,
        release: "6.18",
        code_entries: None,
    };
    let profile = judge(&facts, None);
    assert_eq!(profile.dead_rules.reason(), Some("no kallsyms"));
    // Nothing was counted either: only the program's user time is known.
    assert!(profile.unseen.contains(&ProfileActivity::Copy));
    let odd = ProfileFacts { release: "next", ..facts };
    assert!(judge(&odd, None).dead_rules.reason().unwrap().contains("next"));
}

/// Any stack of functions that rules name, and of some that they do not.
fn any_stack() -> impl Strategy<Value = ProfiledStack> {
    let mut names: Vec<Arc<str>> = activity::rules()
        .iter()
        .flat_map(|rule| rule.symbols.iter().take(3))
        .map(|symbol| symbol.replace('*', "x").into())
        .collect();
    names.extend(["[unknown]", "", "tcp_sendmsg", "a.isra.0"].map(Arc::from));
    let kernel = prop::collection::vec(prop::sample::select(names), 0..9);
    ("[ab]", kernel, 0..50_u64).prop_map(|(process, kernel, count)| ProfiledStack {
        process: process.into(),
        kernel,
        user: Vec::new(),
        count,
    })
}

proptest! {
    #[test]
    fn every_sample_is_in_one_bucket_and_sums_are_the_total(
        stacks in prop::collection::vec(any_stack(), 0..60),
    ) {
        let all = samples(stacks);
        let total: u64 = all.stacks.iter().map(|stack| stack.count).sum();
        let sorted = sort(&all);
        prop_assert_eq!(sorted.samples, total);
        prop_assert_eq!(sorted.buckets.iter().map(|b| b.samples).sum::<u64>(), total);
        let cells: HashSet<(ProfileActivity, &ProfileReason)> = sorted.buckets.iter().map(|b| (b.what, &b.why)).collect();
        prop_assert_eq!(cells.len(), sorted.buckets.len());
        let of = |is_user: bool| -> u64 {
            let own = sorted.buckets.iter().filter(|b| (b.what == ProfileActivity::User) == is_user);
            own.map(|b| b.samples).sum()
        };
        prop_assert_eq!((of(true), of(false)), (total - sorted.kernel_samples, sorted.kernel_samples));
        let shares: f64 = sorted.buckets.iter().map(|b| b.time_share).sum();
        prop_assert!(total == 0 || (shares - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_lines_of_a_graph_add_up_to_its_bucket(
        stacks in prop::collection::vec(any_stack(), 0..60),
    ) {
        for bucket in sort(&samples(stacks)).buckets {
            let at = |depth| bucket.graph.iter().filter(move |line| line.depth == depth);
            prop_assert_eq!(at(0).map(|line| line.samples).sum::<u64>(), bucket.samples);
            for pair in bucket.graph.windows(2) {
                prop_assert!(pair[1].depth <= pair[0].depth + 1);
                // A folded line has no callees.
                prop_assert!(pair[0].folded == 0 || pair[1].depth <= pair[0].depth);
            }
        }
    }
}
