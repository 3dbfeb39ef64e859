//! Each form of a small list of faults against reviewed texts in `tests/golden`, and against its readers'
//! needs. With `UPDATE_GOLDEN` set the texts are written again: review the difference.

use crate::support::faults::{faults, names, run};
use crate::support::{PLAIN, check};
use opentelemetry_proto::tonic::profiles::v1development::{Profile, ProfilesData};
use pagewise_model::fault::{PageFault, ScriptInterpreter};
use pagewise_report::faults::{FaultExport, FaultListForm, scripts};
use pagewise_report::render_whole;
use prost::Message;
use serde_json::Value;

/// The list, exported in parts of `part` faults.
fn exported(form: FaultListForm, part: usize) -> String {
    String::from_utf8(bytes(form, part)).unwrap()
}

fn bytes(form: FaultListForm, part: usize) -> Vec<u8> {
    let (names, mut export) = (names(), FaultExport::new(form, true));
    let text: String = faults().chunks(part).map(|part| export.take(&names, part)).collect();
    [text.into_bytes(), export.finish(&run())].concat()
}

fn parsed(form: FaultListForm) -> Value {
    serde_json::from_str(&exported(form, 4)).unwrap()
}

#[test]
fn every_form_is_as_reviewed_and_does_not_depend_on_the_parts() {
    let forms = [
        (FaultListForm::Table, "faults-table.txt"),
        (FaultListForm::Pagein, "faults-pagein.txt"),
        (FaultListForm::Json, "faults.jsonl"),
        (FaultListForm::Folded, "faults.folded"),
        (FaultListForm::FoldedNs, "faults-ns.folded"),
        (FaultListForm::Perf, "faults-perf.txt"),
        (FaultListForm::Chrome, "faults-chrome.json"),
        (FaultListForm::Firefox, "faults-firefox.json"),
        (FaultListForm::Html, "faults.html"),
    ];
    for (form, name) in forms {
        let text = exported(form, 100);
        check(name, &text);
        assert_eq!(exported(form, 1), text, "{name}");
    }
}

#[test]
fn the_summary_is_as_reviewed() {
    check("faults.txt", &render_whole(&run(), &PLAIN));
}

#[test]
fn trace_events_have_what_their_readers_need() {
    let trace = parsed(FaultListForm::Chrome);
    let events = trace["traceEvents"].as_array().unwrap();
    assert_eq!(events.len(), faults().len());
    for event in events {
        for key in ["name", "cat", "ph"] {
            assert!(event[key].is_string(), "{key}: {event}");
        }
        for key in ["ts", "pid", "tid"] {
            assert!(event[key].is_number(), "{key}: {event}");
        }
        match event["ph"].as_str().unwrap() {
            "X" => assert!(event["dur"].as_f64().unwrap() > 0.0, "{event}"),
            "i" => assert_eq!(event["s"], "t", "{event}"),
            other => panic!("{other}: {event}"),
        }
    }
    let empty = FaultExport::new(FaultListForm::Chrome, true).finish(&run());
    let empty: Value = serde_json::from_slice(&empty).unwrap();
    assert_eq!(empty["traceEvents"].as_array().unwrap().len(), 0);
}

#[test]
fn opentelemetry_has_number_and_time_of_each_stack() {
    let whole = bytes(FaultListForm::Otlp, 4);
    assert_eq!(bytes(FaultListForm::Otlp, 1), whole);
    let data = ProfilesData::decode(&whole[..]).unwrap();
    let texts = &data.dictionary.as_ref().unwrap().string_table;
    let [numbers, times] = &data.resource_profiles[0].scope_profiles[0].profiles[..] else {
        panic!("{data:?}")
    };
    let sum = |profile: &Profile| profile.samples.iter().map(|s| s.values[0]).sum::<i64>();
    let latency = |fault: &PageFault| fault.latency_ns.known().map_or(0, |ns| ns.0.cast_signed());
    assert_eq!(sum(numbers), faults().len() as i64);
    assert_eq!(sum(times), faults().iter().map(latency).sum::<i64>());
    assert!(texts.iter().any(|text| text == "latency"), "{texts:?}");
    assert!(
        !bytes(FaultListForm::Pprof, 4).is_empty()
            && bytes(FaultListForm::Pprof, 4) == bytes(FaultListForm::Pprof, 1)
    );
}

#[test]
fn a_profile_has_a_marker_and_a_sample_for_each_fault_on_its_thread() {
    let profile = parsed(FaultListForm::Firefox);
    for key in ["startTime", "interval", "version", "preprocessedProfileVersion"] {
        assert!(profile["meta"][key].is_number(), "{key}");
    }
    assert_eq!(profile["meta"]["product"], "./fill --twice");
    assert_eq!(profile["meta"]["symbolicated"], true);
    let schema = profile["meta"]["markerSchema"].as_array().unwrap();
    assert!(schema.iter().any(|schema| schema["name"] == "PageFault"), "{schema:?}");
    let threads = profile["threads"].as_array().unwrap();
    assert_eq!(threads.len(), 2);
    let lengths = |table: &str| -> Vec<u64> {
        threads.iter().map(|thread| thread[table]["length"].as_u64().unwrap()).collect()
    };
    assert_eq!(lengths("markers"), [9, 1]);
    let weights = threads.iter().map(|thread| {
        let samples = &thread["samples"];
        samples["weight"].as_array().unwrap().iter().map(|w| w.as_u64().unwrap()).sum::<u64>()
    });
    assert_eq!(weights.collect::<Vec<_>>(), [9, 1]);
    assert!(threads.iter().all(|thread| thread["tid"].is_string() || thread["tid"].is_number()));
}

#[test]
fn perf_script_has_a_line_and_frames_and_a_blank_for_each_fault() {
    let text = exported(FaultListForm::Perf, 3);
    let events: Vec<&str> = text.split_terminator("\n\n").collect();
    assert_eq!(events.len(), faults().len());
    for event in &events {
        let (line, frames) = event.split_once('\n').unwrap();
        // Fields: command, pid/tid, time, period, event.
        let words: Vec<&str> = line.split_whitespace().collect();
        let [command, ids, time, period, event] = words[..] else { panic!("{line}") };
        assert!(command.starts_with(':') && ids.starts_with("70/"), "{line}");
        assert!(time.strip_suffix(':').unwrap().parse::<f64>().is_ok(), "{line}");
        assert!(period == "1" && event.ends_with(":u:"), "{line}");
        for frame in frames.lines() {
            let (address, rest) = frame.trim_start().split_once(' ').unwrap();
            assert!(u64::from_str_radix(address, 16).is_ok(), "{frame}");
            assert!(rest.contains(" (") && rest.ends_with(')'), "{frame}");
        }
    }
    assert!(events[3].lines().count() == 4, "{}", events[3]);
    assert!(events[1].contains("major-faults:u"), "{}", events[1]);
}

#[test]
fn a_page_needs_nothing_from_outside_and_has_a_cell_for_each_page() {
    let page = exported(FaultListForm::Html, 5);
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    assert_eq!(page.matches("<script").count(), 1, "the one for lines to be copied");
    for outside in ["href=", "src=", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    // Two of code, one of data, three filled, one that failed. Each has a hover text in the wide and in the
    // narrow drawing.
    assert_eq!(page.matches(": after ").count(), 2 * 7);
    assert!(page.contains("malloc-keep") && page.contains("/usr/bin/fill data"));
}

#[test]
fn a_mapping_of_many_pages_is_drawn_with_several_to_a_cell() {
    let names = names();
    let mut all = Vec::new();
    for page in 0..20_000 {
        let mut one = faults()[3].clone();
        (one.order, one.page_address) = (page, 0x7e00_0000_0000 + page * 4096);
        all.push(one);
    }
    let mut export = FaultExport::new(FaultListForm::Html, true);
    assert_eq!(export.take(&names, &all), "");
    let page = String::from_utf8(export.finish(&run())).unwrap();
    assert!(page.contains("20,000 pages; each cell is 8 pages"), "{}", &page[..2000]);
    assert_eq!(page.matches(": after ").count(), 2 * 2500);
}

#[test]
fn an_interpreter_that_names_nothing_says_what_lets_it() {
    let said = |name: &str, functions, has_map, is_attached| {
        let interpreter = ScriptInterpreter { name: name.to_owned(), functions, has_map };
        scripts(&interpreter, is_attached)
    };
    let cases = [
        (("python3.13", 3, true, false), Some("3 functions named by python3.13")),
        (("python3.13", 0, true, true), None),
        (("python3.11", 0, false, false), Some("Python 3.12 and later can")),
        (("python3.12", 0, false, false), Some("--interpreter-frames asks it to")),
        (("python3.12", 0, false, true), Some("PYTHONPERFSUPPORT=1")),
        (("node", 0, false, true), Some("--perf-basic-prof")),
        (("java", 0, false, false), Some("those that it compiles")),
        (("java", 0, false, true), Some("jcmd PID Compiler.perfmap")),
    ];
    for ((name, functions, has_map, is_attached), part) in cases {
        let said = said(name, functions, has_map, is_attached);
        assert_eq!(said.is_some(), part.is_some(), "{name}: {said:?}");
        assert!(part.is_none_or(|part| said.as_deref().unwrap_or("").contains(part)), "{said:?}");
    }
}
