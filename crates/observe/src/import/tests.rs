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

fn imported(text: &str) -> Imported {
    read(text.as_bytes(), Nanos::millis(10)).unwrap()
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
         awk;_start;main 3\n\nsh;main;do_syscall_64_[k];vfs_read_[k] 2\nno count\n",
    );
    assert_eq!((all.unknown_lines, all.has_period), (1, false));
    assert_eq!(all.samples.period_ns, Nanos::millis(10));
    let kernel: Vec<Vec<&str>> = all.samples.stacks.iter().map(kernel).collect();
    assert_eq!(kernel[0], ["clear_page_erms", "asm_exc_page_fault"]);
    assert!(kernel[1].is_empty());
    assert_eq!(kernel[2], ["vfs_read", "do_syscall_64"]);
    assert_eq!(all.samples.stacks[0].user[0].function.as_deref(), Some("main"));
}

#[test]
fn other_files_are_refused() {
    for other in ["", "hello world", "{\"json\": 1}", "PERFILE2\0\0"] {
        assert!(read(other.as_bytes(), Nanos(1)).is_err(), "{other}");
    }
    assert!(is_perf_data(b"PERFILE2...") && !is_perf_data(b"awk"));
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,400}", head in prop::bool::ANY) {
        let text = if head { format!("awk 1/1 [0] 1.0: 5 cpu-clock:\n{text}") } else { text };
        let _any = read(text.as_bytes(), Nanos(1));
    }

    #[test]
    fn every_sample_counts_once(counts in prop::collection::vec(1u64..1000, 1..40)) {
        let line = |(at, count): (usize, &u64)| format!("p{};f;g{} {count}\n", at % 3, at % 5);
        let text: String = counts.iter().enumerate().map(line).collect();
        let total: u64 = imported(&text).samples.stacks.iter().map(|stack| stack.count).sum();
        prop_assert_eq!(total, counts.iter().sum::<u64>());
    }
}
