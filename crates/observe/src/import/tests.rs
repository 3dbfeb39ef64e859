use super::*;
use pagewise_model::profile::ProfiledStack;
use proptest::prelude::*;

const SCRIPT: &str = "# ========
awk 4711/4711 [001] 12.345678:    250000 cpu-clock:
\tffffffff81000007 clear_page_erms+0x7 ([kernel.kallsyms])
\tffffffff82000010 asm_exc_page_fault+0x26 ([kernel.kallsyms])
\t    55d4c0a01234 main+0x24 (/usr/bin/mawk)

awk 4711/4711 [001] 12.346:    250000 cpu-clock:
\tffffffff81000009 clear_page_erms+0x9 ([kernel.kallsyms])
\tffffffff82000010 asm_exc_page_fault+0x26 ([kernel.kallsyms])
\t    55d4c0a01999 main+0x99 (/usr/bin/mawk)

sh 9 [000] 12.4:    250000 cpu-clock:
\t    7f00 [unknown] (/usr/lib/libc.so.6)
nonsense
";

fn imported(text: &str) -> ImportedProfile {
    refusal_or(text).unwrap()
}

fn refusal_or(text: &str) -> Result<ImportedProfile, ImportRefusal> {
    read_text(
        &text.as_bytes()[..text.len().min(HEAD)],
        &text.as_bytes()[text.len().min(HEAD)..],
        Nanos::millis(10),
    )
}

fn refusal(text: &str) -> String {
    let ImportRefusal { why, help } = refusal_or(text).unwrap_err();
    format!("{why}; {}", help.unwrap_or_default())
}

fn kernel(stack: &ProfiledStack) -> Vec<&str> {
    stack.kernel.iter().map(AsRef::as_ref).collect()
}

#[test]
fn equal_stacks_of_perf_script_are_counted_together() {
    let all = imported(SCRIPT);
    assert_eq!(all.samples.period_ns, Nanos(250_000));
    assert!(all.has_period);
    assert_eq!(all.unknown_lines, 1);
    let [first, second] = &all.samples.stacks[..] else { panic!("{:?}", all.samples) };
    assert_eq!((&*first.process, first.count), ("awk", 2));
    assert_eq!(kernel(first), ["clear_page_erms", "asm_exc_page_fault"]);
    assert_eq!(first.user[0].function.as_deref(), Some("main"));
    assert_eq!((&*second.process, second.user[0].function.as_deref()), ("sh", None));
}

#[test]
fn folded_stacks_begin_at_the_root() {
    let all = imported(
        "awk;_start;main;asm_exc_page_fault;clear_page_erms 7\n\
         awk;_start;main 3\n\nsh;main;do_syscall_64_[k];vfs_read_[k] 2\n",
    );
    assert_eq!((all.unknown_lines, all.has_period), (0, false));
    assert_eq!(all.samples.period_ns, Nanos::millis(10));
    let kernel: Vec<Vec<&str>> = all.samples.stacks.iter().map(kernel).collect();
    assert_eq!(kernel[0], ["clear_page_erms", "asm_exc_page_fault"]);
    assert!(kernel[1].is_empty());
    assert_eq!(kernel[2], ["vfs_read", "do_syscall_64"]);
    assert_eq!(all.samples.stacks[0].user[0].function.as_deref(), Some("main"));
}

#[test]
fn other_files_are_refused() {
    for other in ["", "hello world", "{\"json\": 1}", "one 1\ntwo 2\n"] {
        assert!(refusal(other).contains("neither"), "{other}");
    }
    assert!(is_perf_data(b"PERFILE2...") && is_perf_data(b"2ELIFREP") && !is_perf_data(b"awk"));
}

#[test]
fn all_lines_show_the_form() {
    assert!(refusal("a;b 3\nno count\n").contains("line 2 is no folded stack"));
    assert!(refusal("a;b 3\n  awk 4711 250000\n").contains("line 2 is no folded stack"));
    let nonsense = "nonsense\n".repeat(20);
    assert!(refusal(&format!("{SCRIPT}{nonsense}")).contains("21 of its 34 lines"));
}

/// As perf 6.1 prints them, with only these fields.
#[test]
fn fields_that_are_missing_are_named() {
    let frames = "\t    55d4c0a01234 main+0x24 (/usr/bin/mawk)\n\n";
    for (text, missing) in [
        (format!("awk     250000 \n{frames}").repeat(9), "event"),
        ("             awk     250000           401000 main (/usr/bin/mawk)\n".repeat(9), "event"),
        (format!("   4711/4711  12.345678:     250000 cpu-clock: \n{frames}").repeat(9), "comm"),
        (format!("14711  12.345678:     250000 cpu-clock: \n{frames}").repeat(9), "comm"),
        ("awk 4711 12.345678: cpu-clock: \n\n".repeat(9), "ip, sym, dso"),
        ("awk 4711 12.345678: cpu-clock: \n\t  55d4c0a01234\n\n".repeat(9), "sym, dso"),
        ("             awk 4711 12.345678: cpu-clock:      55d4c0a01234\n".repeat(9), "sym, dso"),
    ] {
        let why = refusal(&text);
        assert!(
            why.contains(&format!("without these fields: {missing}; perf script -F comm,")),
            "{why}"
        );
    }
}

#[test]
fn samples_without_chains_and_with_other_lines_are_read() {
    let text = "# captured on: today
             job   13298  6018.058609:    1000000 cpu-clock:      7f2bac7ffca7 _dl_start+0xa7 (/lib64/ld-2.25.so)
             job   13298  6018.058610: PERF_RECORD_FORK(13299:13299):(13298:13298)
             job   13298  6018.058611: PERF_RECORD_MMAP2 1/1: [0x1(0x2) @ 0 08:01 1 2]: r-xp /bin/job
             job   13298  6018.058614:    1000000 cpu-clock:  ffffffff81000010 clear_page_erms+0x7 ([kernel.kallsyms])
             job   13298  6018.058617:       1000 page-faults:            401000 main (/bin/job)
             job   13298  6018.058618:    1000000 cpu-clock:  ffffffff81000010 clear_page_erms
             job   13298  6018.058619:    1000000 cpu-clock:            401000 main
";
    let all = imported(text);
    assert_eq!((all.unknown_lines, all.samples.period_ns), (0, Nanos(1_000_000)));
    let of = |is_kernel: bool| -> u64 {
        let stacks = all.samples.stacks.iter().filter(|stack| stack.kernel.is_empty() != is_kernel);
        stacks.map(|stack| stack.count).sum()
    };
    assert_eq!((of(true), of(false)), (2, 2));
    assert_eq!(all.notes, ["1 samples of other events are left out"]);
}

#[test]
fn lines_of_other_fields_are_passed_over() {
    let text = "job 1 [000] 1.0:    1000000 cpu-clock:     7ffd00001234
\t          401000 leaf+0x10 (/bin/job)
  leaf.c:12
\t          401100 middle (inlined)
 ABI:2    AX:0x1    BX:0x2
 0x401000/0x401100/P/-/-/0
";
    let all = imported(text);
    let [stack] = &all.samples.stacks[..] else { panic!("{all:?}") };
    let names: Vec<_> = stack.user.iter().filter_map(|frame| frame.function.as_deref()).collect();
    assert_eq!((names, all.unknown_lines), (vec!["leaf", "middle"], 0));
}

/// The input read bounds the memory, however short its stacks and names are.
#[test]
fn stacks_that_differ_too_much_are_refused() {
    let text: String = (0..300_000).map(|n| format!("{n:x};{n:x} 1\n")).collect();
    assert!(refusal(&text).contains("more than 2 times its length"));
    let alike: String = (0..300_000).map(|n| format!("{:x};{:x} 1\n", n % 999, n % 999)).collect();
    assert_eq!(imported(&alike).samples.stacks.len(), 999);
}

#[test]
fn of_a_deep_stack_the_innermost_frames_are_kept() {
    let text = format!("p;{}leaf 2\n", "f;".repeat(5000));
    let all = imported(&text);
    let [stack] = &all.samples.stacks[..] else { panic!("{}", all.samples.stacks.len()) };
    assert_eq!((stack.user.len(), stack.user[0].function.as_deref()), (1024, Some("leaf")));
    assert_eq!(all.notes, ["2 samples have their 1024 innermost frames only"]);
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,400}", head in prop::bool::ANY) {
        let text = if head { format!("awk 1/1 [0] 1.0: 5 cpu-clock:\n{text}") } else { text };
        let _any = refusal_or(&text);
    }

    #[test]
    fn every_sample_counts_once(counts in prop::collection::vec(1u64..1000, 1..40)) {
        let line = |(at, count): (usize, &u64)| format!("p{};f;g{} {count}\n", at % 3, at % 5);
        let text: String = counts.iter().enumerate().map(line).collect();
        let total: u64 = imported(&text).samples.stacks.iter().map(|stack| stack.count).sum();
        prop_assert_eq!(total, counts.iter().sum::<u64>());
    }
}
