use super::export::FoldedFaults;
use super::list::{FaultLineFormat, FaultList};
use super::*;
use pagewise_model::Bytes;
use pagewise_model::fault::{
    AccessKind, CallerStack, FaultCause, FaultLabel, FaultOutcome, InlinedFunction, MappingKind,
    StackEnd,
};
use pagewise_model::run::RunKind;
use pagewise_model::units::TscRate;

fn names() -> FaultNames {
    let place = |kind, path: &str| FaultPlace { kind, path: path.into() };
    let site = |function: Option<&str>, path: &str, offset| FaultSite {
        function: function.map(Into::into),
        path: path.into(),
        offset_bytes: Bytes(offset),
        ..FaultSite::default()
    };
    FaultNames {
        places: vec![place(MappingKind::Code, "/lib/ld.so"), place(MappingKind::Heap, "")],
        sites: vec![site(Some("_dl_start"), "/lib/ld.so", 0x1080), site(None, "", 0x7f00)],
        frames: vec![site(Some("fill all"), "/bin/x", 1), site(Some("main"), "/bin/x", 2)],
        stacks: vec![CallerStack { frames: vec![0, 1, 99], end: StackEnd::Outermost }],
    }
}

fn run() -> SavedRun {
    SavedRun::new(RunKind::Faults, "r".into(), 0, vec!["/bin/x y".into(), "z".into()])
}

fn fault(order: u64, place: u32, site: u32) -> PageFault {
    PageFault {
        order,
        since_first_ns: Nanos(order * 1500),
        latency_ns: Fact::Known(Nanos(1400)),
        pid: 7,
        tid: 8,
        page_address: 0x7f00_0000_1000,
        ip_address: 0x7f00_0000_1080,
        access: AccessKind::Write,
        cause: FaultCause::Absent,
        served: FaultOutcome::Minor,
        page_bytes: Some(Bytes(4096)),
        offset_bytes: (place == 0).then_some(Bytes(0x1000)),
        place,
        site,
        stack: None,
        labels: vec![FaultLabel::Again],
    }
}

#[test]
fn pagein_has_the_columns_of_the_figure() {
    let lines = FaultList::new(FaultLineFormat::Pagein, true)
        .lines(&names(), &[fault(0, 0, 0), fault(1, 1, 1)]);
    let want = "   0 0x7F0000001000 C            0 0x7F0000001080: _dl_start (in /lib/ld.so)\n   \
                1 0x7F0000001000 D         1500 0x7F0000001080: (within no file)\n";
    assert_eq!(lines, want);
}

#[test]
fn times_in_cycles_of_the_counter() {
    // 3 cycles a nanosecond.
    let rate = TscRate { cycles: 3000, time: Nanos(1000) };
    let lines = |format| {
        let mut list = FaultList::new(format, true);
        list.count_cycles(rate);
        list.lines(&names(), &[fault(0, 0, 0), fault(1, 1, 1)])
    };
    let pagein = lines(FaultLineFormat::Pagein);
    assert!(pagein.contains(" D         4500 0x7F0000001080: (within no file)\n"), "{pagein}");
    let table = lines(FaultLineFormat::Table);
    let rows: Vec<&str> = table.lines().collect();
    assert!(rows[0].starts_with("   order  since cycles latency cycles    tid what "), "{table}");
    assert!(rows[2].starts_with("       1          4500          4200       8 write "), "{table}");
    let json: Vec<serde_json::Value> = lines(FaultLineFormat::Json)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        (&json[1]["since_first_cycles"], &json[1]["since_first_ns"]),
        (&4500.into(), &1500.into())
    );
    let plain = FaultList::new(FaultLineFormat::Json, true).lines(&names(), &[fault(0, 0, 0)]);
    assert!(!plain.contains("cycles"), "{plain}");
}

/// As [`names`], with a source line for the first instruction.
fn names_with_line() -> FaultNames {
    let mut names = names();
    names.sites[0].source = Some(SourceLine { file: "/src/elf/rtld.c".into(), line: 511 });
    names
}

#[test]
fn a_line_of_source_stands_with_the_function() {
    let lines = |format| FaultList::new(format, true).lines(&names_with_line(), &[fault(0, 0, 0)]);
    assert!(lines(FaultLineFormat::Pagein).ends_with(": _dl_start (rtld.c:511)\n"));
    assert!(lines(FaultLineFormat::Table).contains(" _dl_start (ld.so) rtld.c:511 again"));
    let line: serde_json::Value = serde_json::from_str(&lines(FaultLineFormat::Json)).unwrap();
    assert_eq!(
        (&line["source_file"], &line["source_line"]),
        (&"/src/elf/rtld.c".into(), &511.into())
    );
}

/// As [`names`]; the first instruction is in `inner`, inlined into `outer`, inlined into its function.
fn names_with_inlined() -> FaultNames {
    let mut names = names_with_line();
    let inlined = |function: &str, file: &str, line| InlinedFunction {
        function: function.into(),
        called_at: Some(SourceLine { file: file.into(), line }),
    };
    names.sites[0].inlined =
        vec![inlined("inner", "/src/elf/dl.h", 9), inlined("outer", "/src/elf/do.h", 20)];
    names
}

#[test]
fn inlined_functions_are_frames_between_the_line_and_the_function() {
    let names = names_with_inlined();
    assert_eq!(site_brief(&names.sites[0]), "inner rtld.c:511 in _dl_start do.h:20");
    let one = PageFault { stack: Some(0), ..fault(0, 1, 0) };
    let lines = |format| FaultList::new(format, true).lines(&names, std::slice::from_ref(&one));
    let table = lines(FaultLineFormat::Table);
    assert!(
        table.contains(" inner (ld.so) rtld.c:511 in outer dl.h:9 in _dl_start do.h:20 "),
        "{table}"
    );
    assert!(lines(FaultLineFormat::Pagein).ends_with(": inner (rtld.c:511)\n"));
    let perf = lines(FaultLineFormat::Perf);
    let frames: Vec<&str> =
        perf.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(frames, ["inner", "outer", "_dl_start", "fill", "main"]);
    assert!(perf.contains(" inner (inlined)\n") && perf.contains(" _dl_start (/lib/ld.so)\n"));
    let line: serde_json::Value = serde_json::from_str(&lines(FaultLineFormat::Json)).unwrap();
    assert_eq!(
        (&line["function"], &line["inlined"][1]["called_at"]["line"]),
        (&"_dl_start".into(), &20.into())
    );
    let mut folded = FoldedFaults::new(false);
    folded.add(&names, &[one]);
    assert_eq!(folded.lines(&run()), "x_y;main;fill_all;_dl_start;outer;inner;[heap] 1\n");
}

#[test]
fn the_table_says_who_touched_what() {
    let mut list = FaultList::new(FaultLineFormat::Table, true);
    let lines = list.lines(&names(), &[fault(0, 0, 0)]);
    assert!(lines.starts_with(TITLES_START), "{lines}");
    assert!(lines.contains("code /lib/ld.so+0x1000 <- 0x7f0000001080 _dl_start (ld.so) again"));
    assert!(!list.lines(&names(), &[fault(1, 1, 1)]).contains(TITLES_START));
}

#[test]
fn without_latencies_the_table_has_no_column_for_them() {
    let mut one = fault(0, 0, 0);
    one.latency_ns = Fact::missing("not recorded");
    let with = FaultList::new(FaultLineFormat::Table, true).lines(&names(), &[one.clone()]);
    let without = FaultList::new(FaultLineFormat::Table, false).lines(&names(), &[one]);
    let widths = |text: &str| text.lines().map(str::len).collect::<Vec<_>>();
    assert!(with.contains("latency us") && !without.contains("latency"), "{without}");
    assert_eq!(widths(&with), widths(&without).iter().map(|w| w + 14).collect::<Vec<_>>());
    assert!(with.contains("            - ") && !without.contains(" - "), "{without}");
}

const TITLES_START: &str = "   order";

#[test]
fn json_lines_tell_a_missing_latency_with_its_reason() {
    let mut one = fault(0, 0, 0);
    one.latency_ns = Fact::missing("not allowed");
    let lines = FaultList::new(FaultLineFormat::Json, true).lines(&names(), &[one, fault(1, 9, 9)]);
    let parsed: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(parsed[0]["latency_missing"], "not allowed");
    assert!(parsed[0]["latency_ns"].is_null());
    assert_eq!(parsed[0]["function"], "_dl_start");
    assert_eq!((&parsed[1]["latency_ns"], &parsed[1]["order"]), (&1400.into(), &1.into()));
    assert!(parsed[1]["touched_kind"].is_null());
}

#[test]
fn folded_stacks_add_up() {
    let all = [fault(0, 0, 0), fault(1, 0, 0), fault(2, 1, 1)];
    let lines = |by_time| {
        let mut folded = FoldedFaults::new(by_time);
        folded.add(&names(), &all);
        folded.lines(&run())
    };
    let [first, second] = ["x_y;[no_stack];_dl_start;[code]", "x_y;[no_stack];0x7f00;[heap]"];
    assert_eq!(lines(false), format!("{second} 1\n{first} 2\n"));
    assert_eq!(lines(true), format!("{second} 1400\n{first} 2800\n"));
    let mut folded = FoldedFaults::new(false);
    folded.add(&names(), &[PageFault { stack: Some(0), ..fault(0, 1, 0) }]);
    assert_eq!(folded.lines(&run()), "x_y;main;fill_all;_dl_start;[heap] 1\n");
}

#[test]
fn hostile_names_are_spelled_out() {
    let mut names = names_with_line();
    names.sites[0].function = Some("evil\x1b[2J;a b".into());
    names.sites[0].path = "/tmp/\x07x".into();
    names.sites[0].source.as_mut().unwrap().file = "\x1b[2J".into();
    for format in [
        FaultLineFormat::Pagein,
        FaultLineFormat::Table,
        FaultLineFormat::Json,
        FaultLineFormat::Perf,
    ] {
        let lines = FaultList::new(format, true).lines(&names, &[fault(0, 0, 0)]);
        assert!(!lines.contains(['\x1b', '\x07']), "{lines}");
    }
    let mut folded = FoldedFaults::new(false);
    folded.add(&names, &[fault(0, 0, 0)]);
    assert_eq!(folded.lines(&run()).matches(';').count(), 3);
}

#[test]
fn a_broken_budget_is_one_line() {
    let line = broken_line(&BrokenBudget::Faults { found: 1234, most: 1000 });
    assert_eq!(line, "1,234 page faults, 1,000 allowed");
    let line = broken_line(&BrokenBudget::Time { found_ns: Nanos(2_000), most_ns: Nanos(1_000) });
    assert_eq!(line, "2.0 us in page faults, 1.0 us allowed");
}
