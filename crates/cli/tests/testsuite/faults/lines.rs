//! The source lines that touched pages.

use super::{PAGES, Place, Programs, compile, ranges, refused, run_with, said, users};
use serde_json::Value;

const SOURCE: &str = include_str!("../../../../../tests/programs/faults.c");

/// The line of the program's source, counted from 1, that holds `text`.
fn line_of(text: &str) -> usize {
    SOURCE.lines().position(|line| line.contains(text)).unwrap() + 1
}

#[test]
fn each_touch_has_its_line_of_source() {
    let Some(programs) = Programs::get() else { return };
    let writes = line_of("from[i * page] = 1;");
    for user in users() {
        let words = ["write", &PAGES.to_string()];
        let done = programs.command(user, &["--format", "json"], &words).output().unwrap();
        if refused("each_touch_has_its_line_of_source", &done) {
            return;
        }
        let ranges = ranges(&said(&done.stderr));
        let is_touch = |fault: &Value| {
            let page = fault["page_address"].as_u64().unwrap();
            ranges.iter().any(|(from, to)| (*from..*to).contains(&page))
        };
        let list = said(&done.stdout);
        let faults = list.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let touches: Vec<Value> = faults.filter(is_touch).collect();
        assert_eq!(touches.len() as u64, PAGES);
        for touch in touches {
            assert_eq!(touch["source_line"], writes, "{touch}");
            assert!(touch["source_file"].as_str().unwrap().ends_with("/faults.c"), "{touch}");
        }
    }
}

/// Faults by the innermost function, its line, and the line of the program that called it.
fn sites(report: &Value) -> Vec<(String, u64, u64, u64)> {
    let one = |one: &Value| {
        let site = &one["site"];
        let inlined = site["inlined"].as_array().map_or(&[][..], Vec::as_slice);
        let (first, last) = (inlined.first()?, inlined.last()?);
        Some((
            first["function"].as_str()?.to_owned(),
            site["source"]["line"].as_u64()?,
            last["called_at"]["line"].as_u64()?,
            one["tally"]["faults"].as_u64()?,
        ))
    };
    report["functions"].as_array().unwrap().iter().filter_map(one).collect()
}

#[test]
fn an_inlined_function_has_a_line_for_each_place_that_it_is_inlined_at() {
    const TEST: &str = "an_inlined_function_has_a_line_for_each_place";
    const SOURCE: &str = include_str!("../../../../../tests/programs/inlined.c");
    let place = Place::new();
    let program = place.path().join("inlined");
    if !compile("inlined.c", &["-O2", "-g"], &program) {
        return println!("SKIP {TEST}: no C compiler");
    }
    let run = |options: &[&str]| {
        let mut command = place.pagewise(&["faults"]);
        command.args(options).arg("--").arg(&program).arg(PAGES.to_string()).output().unwrap()
    };
    let done = run(&["--json"]);
    if refused(TEST, &done) {
        return;
    }
    let report = &serde_json::from_slice::<Value>(&done.stdout).unwrap()["faults"];
    let line = |text: &str| 1 + SOURCE.lines().position(|line| line.contains(text)).unwrap() as u64;
    let expected = |call, pages| ("touches".to_owned(), line("TOUCH"), line(call), pages);
    let found = sites(report);
    assert!(found.contains(&expected("FIRST", PAGES)), "{found:?}");
    assert!(found.contains(&expected("SECOND", 2 * PAGES)), "{found:?}");
    let shows = |options: &[&str], text: &str| {
        let shown = said(&run(options).stderr);
        assert!(shown.contains(text), "{shown}");
    };
    let (touch, second) = (line("TOUCH"), line("SECOND"));
    shows(&[], &format!("touches inlined.c:{touch} in main inlined.c:{second} "));
    shows(&["-v"], &format!("touches (inlined) inlined.c:{touch} in grows inlined.c:"));
}

#[test]
fn the_summary_names_the_line_that_took_the_most() {
    let text = "the_summary_names_the_line_that_took_the_most";
    let Some(run) = run_with(text, None, &[], &["write", &PAGES.to_string()]) else { return };
    let writes = line_of("from[i * page] = 1;");
    let named = |list: &str| {
        let functions = run.report.pointer(list).and_then(Value::as_array).unwrap();
        functions.iter().any(|one| one["site"]["source"]["line"] == writes)
    };
    assert!(named("/functions"), "{}", run.report["functions"]);
    assert!(named("/callers/known/functions"), "{}", run.report["callers"]);
}
