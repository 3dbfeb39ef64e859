use super::*;

fn read(line: &str) -> Option<(&str, CountedUnit, Option<u64>, &str)> {
    match line_of(line)? {
        PerfScriptLine::Sample(PerfScriptHeader { process, counts, nanos, rest }) => {
            Some((process, counts, nanos, rest.trim()))
        }
        PerfScriptLine::Other => Some(("PERF_RECORD", CountedUnit::Time, None, "")),
    }
}

/// What perf 6.1 prints of one sample, with and without call chains, for the fields named.
#[test]
fn headers_of_all_fields_are_known() {
    use CountedUnit::{Cycles, Other, Time};
    let ip = "55d4c0a01234 main+0x24 (/usr/bin/mawk)";
    for (line, want) in [
        // The usual fields.
        (
            "tmux: server 4711/4712 [003] 12.345678:     250000 cpu-clock:pppH: ",
            ("tmux: server", Time, Some(250_000), ""),
        ),
        (
            "             awk    4711 12.345678:     250000 task-clock:u:      55d4c0a01234 main+0x24 (/usr/bin/mawk)",
            ("awk", Time, Some(250_000), ip),
        ),
        ("awk  4711 12.345678: cycles: ", ("awk", Cycles, None, "")),
        ("awk  4711 12.345678: 1 cpu_core/cycles/: ", ("awk", Cycles, None, "")),
        ("sh 1 [000] 1.5:    1 page-faults:", ("sh", Other, None, "")),
        (
            "sh 1 [000] 1.5: sched:sched_switch: prev_comm=sh prev_pid=1",
            ("sh", Other, None, "prev_comm=sh prev_pid=1"),
        ),
        // +misc, +tod, --ns, +pid, a thread of none.
        ("sh 1 [000] K     1.5:    1 cpu-clock:", ("sh", Time, Some(1), "")),
        (
            "sh 1 [000] 2026-11-28 05:42:11.123456     1.5:    1 cpu-clock:",
            ("sh", Time, Some(1), ""),
        ),
        ("sh      -1/-1      [000]     1.500000000:    1 cpu-clock:", ("sh", Time, Some(1), "")),
        (":-1 -1 1.5:    1 cpu-clock:", (":-1", Time, Some(1), "")),
        // Without some of the fields.
        ("awk 1.345678: cpu-clock: ", ("awk", Time, None, "")),
        ("awk  cpu-clock: ", ("awk", Time, None, "")),
        ("awk 4711 cpu-clock: ", ("awk", Time, None, "")),
        ("awk 4711     250000 cpu-clock: ", ("awk", Time, Some(250_000), "")),
        ("awk [001]     250000 cpu-clock: ", ("awk", Time, Some(250_000), "")),
        ("awk 4711 12.345678: ", ("awk", Time, None, "")),
        (
            "             awk    4711 12.345678:      55d4c0a01234 main+0x24 (/usr/bin/mawk)",
            ("awk", Time, None, ip),
        ),
        (
            "             awk cpu-clock:      55d4c0a01234 main+0x24 (/usr/bin/mawk)",
            ("awk", Time, None, ip),
        ),
        ("   4711/4711  12.345678:     250000 cpu-clock: ", ("", Time, Some(250_000), "")),
        // --show-task-events, --show-mmap-events.
        (
            "awk    4711 12.345678: PERF_RECORD_COMM exec: awk:4711/4711",
            ("PERF_RECORD", Time, None, ""),
        ),
        (
            "awk    4711 PERF_RECORD_MMAP2 4711/4711: [0x400000(0x1000) @ 0 08:01 12 34]: r-xp /bin/awk",
            ("PERF_RECORD", Time, None, ""),
        ),
    ] {
        assert_eq!(read(line), Some(want), "{line}");
    }
    for other in ["", "awk", "awk 4711 x: y:z", "\tffff f (x)", "a;b 3", "awk    250000 ", "1.5:"] {
        assert!(read(other).is_none_or(|(process, ..)| process.is_empty()), "{other}");
    }
}

#[test]
fn the_address_of_data_comes_before_that_of_code() {
    let both = "     7ffd00001234           401000 add+0x7 (/bin/x)";
    assert_eq!(frame(both), Some(("401000", "add+0x7 (/bin/x)")));
    assert_eq!(frame("\t  401000 beef1 (/bin/x)"), Some(("401000", "beef1 (/bin/x)")));
    assert_eq!((frame("\t  401000"), frame("\t  add 5 (/x)")), (None, None));
}

#[test]
fn a_frame_is_a_function_in_a_file() {
    for (text, want) in [
        ("main+0x24 (/usr/bin/mawk)", Some(("main", Some("/usr/bin/mawk")))),
        ("[unknown] (/lib/libc.so.6)", Some(("[unknown]", Some("/lib/libc.so.6")))),
        ("f<int (*)(int)>+0x3 (/a b (deleted))", Some(("f<int (*)(int)>", Some("/a b")))),
        ("operator+ (/a)", Some(("operator+", Some("/a")))),
        ("f+0x1", Some(("f", None))),
        ("f (/a)   0x1/0x2/P/-/-/0", Some(("f", Some("/a")))),
        (" (/a)", None),
        ("(/a)", None),
        ("", None),
    ] {
        assert_eq!(place(text), want, "{text}");
    }
}

#[test]
fn the_kernel_is_known_by_the_file() {
    for kernel in ["[kernel.kallsyms]", "[ext4]", "/usr/lib/debug/vmlinux-6.1", "/x/nvme.ko"] {
        assert!(is_of_kernel(kernel), "{kernel}");
    }
    for program in ["[vdso]", "[unknown]", "/usr/bin/awk", "//anon", "inlined"] {
        assert!(!is_of_kernel(program), "{program}");
    }
}
