//! What is ranked, listed and named at the end.

use super::*;
use pagewise_model::fault::FunctionTally;

#[test]
fn functions_and_places_add_up_to_all() {
    let at = |n: u64| begin(n * 10, 1, DATA + n * 0x1000);
    let done = |n: u64| end(n * 10 + 3, 1, DATA + n * 0x1000, false);
    let mut events =
        vec![map(0x40_0000, 0x2000, true, "/bin/x"), map(DATA, 0x5000, false, "//anon")];
    for n in 0..8 {
        events.extend([at(n), done(n)]);
    }
    let (report, names, faults) =
        analyse(events, options(false), &usage(8, 0), &Fact::missing(""), &mut Writes);
    let sum =
        |tallies: &mut dyn Iterator<Item = FaultTally>| tallies.map(|t| t.faults).sum::<u64>();
    assert_eq!(sum(&mut report.functions.iter().map(|f| f.tally)), 8);
    assert_eq!(sum(&mut report.places.iter().map(|p| p.tally)), 8);
    assert_eq!(sum(&mut report.by_access.iter().map(|g| g.tally)), 8);
    assert_eq!(sum(&mut report.by_cause.iter().map(|g| g.tally)), 8);
    // offset 0x2000 of the mapping and 0x1000 within it
    assert_eq!(report.functions[0].site.function.as_deref(), Some("/bin/x#48"));
    let first = &names.sites[faults[0].site as usize];
    assert_eq!(first.offset_bytes, Bytes(0x3000));
    let line = Some(SourceLine { file: "/bin/x.c".into(), line: 0x300 });
    assert_eq!((&first.source, &report.functions[0].site.source), (&line, &line));
    let kinds: Vec<_> = report.by_kind.iter().map(|g| (g.kind, g.tally.faults)).collect();
    assert_eq!(kinds, [(MappingKind::Anonymous, 5), (MappingKind::Unknown, 3)]);
}

#[test]
fn a_summary_keeps_no_list() {
    let mut options = options(false);
    options.0.list = false;
    let events = [begin(1, 1, DATA), end(2, 1, DATA, false)];
    let (report, _, faults) =
        analyse(events, options, &usage(1, 0), &Fact::missing(""), &mut Blind);
    assert_eq!((report.total.faults, faults.len()), (1, 0));
    assert_eq!(report.by_access[0].kind, AccessKind::Unknown);
}

#[test]
fn lines_are_looked_up_before_faults_are_added_up_by_them() {
    let mut options = options(false);
    options.0.list = false;
    let mut events = vec![map(0x40_0000, 0x2000, true, "/bin/x")];
    // Two instructions of one line, and one of the next.
    for (nth, offset) in (0..).zip([0, 4, 16]) {
        let mut event = begin(10 * nth, 1, DATA + nth * 0x1000);
        if let FaultEventPayload::Begin(begin) = &mut event.what {
            begin.ip_address = IP + offset;
        }
        events.extend([event, end(10 * nth + 5, 1, DATA + nth * 0x1000, false)]);
    }
    let (report, ..) = analyse(events, options, &usage(3, 0), &Fact::missing(""), &mut Writes);
    let line = |one: &FunctionTally| (one.site.source.as_ref().unwrap().line, one.tally.faults);
    let lines: Vec<_> = report.functions.iter().map(line).collect();
    assert_eq!(lines, [(0x300, 2), (0x301, 1)]);
}

/// Writes whose names must not be requested.
struct Nameless;

impl CodeSource for Nameless {
    fn bytes(&mut self, place: &CodePlace<'_>) -> Vec<u8> {
        Writes.bytes(place)
    }
    fn function(&mut self, path: &str, offset: u64) -> Option<String> {
        panic!("the function at {offset} of {path} was asked for")
    }
    fn origins(&mut self, path: &str, _offsets: &[u64]) -> Vec<InstructionOrigin> {
        panic!("lines of {path} were asked for")
    }
    fn made_function(&mut self, pid: i32, at: u64) -> Option<MadeFunction> {
        panic!("the function at {at} of process {pid} was asked for")
    }
    fn walk(
        &mut self,
        pid: i32,
        registers: &FrameRegisters,
        bytes: &[u8],
        code: FindCode<'_>,
    ) -> StackWalk {
        Writes.walk(pid, registers, bytes, code)
    }
}

#[test]
fn nothing_is_looked_up_where_names_are_not_wanted() {
    for list in [false, true] {
        let (wanted, sees) = options(false);
        let options = (FaultRecordingOptions { names: false, list, ..wanted }, sees);
        let events =
            [map(0x40_0000, 0x2000, true, "/bin/x"), begin(1, 1, DATA), end(2, 1, DATA, false)];
        let (report, names, _) =
            analyse(events, options, &usage(1, 0), &Fact::missing(""), &mut Nameless);
        assert_eq!(report.by_access[0].kind, AccessKind::Write);
        let site = &report.functions[0].site;
        assert_eq!((&site.function, site.path.as_str()), (&None, "/bin/x"));
        assert_eq!(names.sites.as_slice(), std::slice::from_ref(site));
    }
}
