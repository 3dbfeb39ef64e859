//! The lines of source that touched pages.

use super::{PAGES, Programs, ranges, refused, run_with, said, users};
use serde_json::Value;

const SOURCE: &str = include_str!("../../../../tests/programs/faults.c");

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
