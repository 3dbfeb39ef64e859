//! The functions that a run called: the list for an order, and a summary.

use super::map::{CodeMap, picture, text_maps};
use crate::number::{count, counted, percent};
use crate::page::ReportDocument;
use crate::style::TextTone;
use pagewise_model::first_calls::{CallRecord, CallSource, CalledObject, FirstCall};
use pagewise_model::run::SavedRun;
use pagewise_model::{Nanos, PageSize};
use std::fmt::Write;

/// One name a line, file by file, with the files as comments.
#[must_use]
pub fn call_list(record: &CallRecord) -> String {
    let mut text = String::new();
    for object in record.objects.iter().filter(|object| !object.calls.is_empty()) {
        let path = object.path.escape_debug();
        let (one, many) = noun(record.source);
        let calls = counted(object.calls.len() as u64, one, many);
        let by = match record.source {
            CallSource::Calls | CallSource::Hooks => "first call",
            CallSource::Pages | CallSource::Variables => "first touch of their pages",
        };
        let _infallible = writeln!(text, "# {path}: {calls} by {by}");
        for call in &object.calls {
            text.push_str(&call.name);
            text.push('\n');
        }
    }
    text
}

/// The noun for the listed things: singular and plural.
const fn noun(source: CallSource) -> (&'static str, &'static str) {
    match source {
        CallSource::Variables => ("variable", "variables"),
        _ => ("function", "functions"),
    }
}

/// How many functions of each file were called.
#[must_use]
pub fn call_section(record: &CallRecord) -> ReportDocument {
    let mut page = ReportDocument::default();
    for object in &record.objects {
        let (called, all) = (object.calls.len() as u64, object.functions);
        let share = percent(called as f64 / (all as f64).max(1.0));
        let (one, many) = noun(record.source);
        let functions = counted(all, one, many);
        let what = match record.source {
            CallSource::Calls | CallSource::Hooks => "called",
            CallSource::Pages | CallSource::Variables => "on pages that were touched",
        };
        let text = format!("{}: {} of {functions} {what} ({share})", object.path, count(called));
        page.para(&text, 0, TextTone::Plain);
    }
    if record.left_out > 0 {
        let calls = counted(record.left_out, "first call is", "first calls are");
        let text = format!("{calls} left out: of no file, or more than the list holds");
        page.para(&text, 0, TextTone::Warn);
    }
    let nameless = record.objects.iter().filter(|object| is_nameless(object)).count();
    if nameless > 0 {
        let files = counted(nameless as u64, "file is", "files are");
        let text = format!(
            "{files} stripped: the list has addresses instead of names, which predict understands \
             but linkers do not. For a linker, record a build with symbols."
        );
        page.para(&text, 0, TextTone::Warn);
    }
    page
}

/// The recording as a page, with a picture of the pages of each file.
#[must_use]
pub fn call_page(record: &CallRecord, run: &SavedRun) -> String {
    let mut page = ReportDocument::default();
    let end = format!("after {}, on a logarithmic scale", last(record));
    let title = match record.source {
        CallSource::Variables => "Pages of data, by first touch",
        CallSource::Pages => "Pages of code, by first touch",
        _ => "Pages of code, by the first call of a function on them",
    };
    page.figure(picture(title, &end, &maps(record)));
    page.append(call_section(record));
    page.details("the pages as text", call_map(record));
    let called: usize = record.objects.iter().map(|object| object.calls.len()).sum();
    let (one, many) = noun(record.source);
    let title = format!("{} of the start", counted(called as u64, one, many));
    crate::run::page_titled(&title, run, page)
}

/// The pages of each file as characters.
#[must_use]
pub fn call_map(record: &CallRecord) -> ReportDocument {
    text_maps(maps(record))
}

/// Time of the last first call.
fn last(record: &CallRecord) -> Nanos {
    let calls = record.objects.iter().flat_map(|object| &object.calls);
    calls.map(|call| call.at_ns).max().unwrap_or(Nanos(1))
}

/// The files with called functions; a function counts with all pages that it spans.
fn maps(record: &CallRecord) -> Vec<CodeMap> {
    let (page, last) = (PageSize::BASE_4K.bytes(), last(record));
    let pages = |call: &FirstCall| {
        let end = call.address.saturating_add(call.bytes.0.max(1)).div_ceil(page);
        let at_ns = call.at_ns;
        (call.address / page..end).map(move |number| (number * page, at_ns))
    };
    let map = |object: &CalledObject| {
        let touched = object.calls.iter().flat_map(pages);
        CodeMap::by_time(&object.path, object.code.clone(), touched, last)
    };
    record.objects.iter().filter(|object| !object.calls.is_empty()).map(map).collect()
}

/// Whether most names are addresses.
fn is_nameless(object: &CalledObject) -> bool {
    let nameless = object.calls.iter().filter(|call| call.name.starts_with("0x")).count();
    nameless * 2 > object.calls.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::Bytes;
    use pagewise_model::run::RunKind;

    fn record(names: &[&str]) -> CallRecord {
        let call = |name: &&str| FirstCall {
            name: (*name).to_owned(),
            address: 1,
            bytes: Bytes(5000),
            at_ns: Nanos(1),
            pid: 1,
        };
        let calls = names.iter().map(call).collect();
        let (functions, code) = (8, 0..20_000);
        let object = |path: &str, calls| CalledObject {
            path: path.to_owned(),
            functions,
            code: code.clone(),
            calls,
        };
        CallRecord {
            command: Vec::new(),
            source: CallSource::Calls,
            left_out: 0,
            objects: vec![object("/a\nb", calls), object("/lib", Vec::new())],
        }
    }

    #[test]
    fn files_are_comments_and_names_are_lines() {
        let list = call_list(&record(&["one", "two"]));
        assert_eq!(list, "# /a\\nb: 2 functions by first call\none\ntwo\n");
        let pages = CallRecord { source: CallSource::Pages, ..record(&["one"]) };
        assert_eq!(call_list(&pages), "# /a\\nb: 1 function by first touch of their pages\none\n");
        let data = CallRecord { source: CallSource::Variables, ..record(&["one", "two"]) };
        assert!(
            call_list(&data).starts_with("# /a\\nb: 2 variables by first touch of their pages\n")
        );
    }

    #[test]
    fn calls_that_have_no_place_are_counted() {
        let some = CallRecord { left_out: 3, source: CallSource::Hooks, ..record(&["one"]) };
        let shown = call_section(&some).text(&crate::TerminalStyle::default());
        assert!(shown.contains("1 of 8 functions called"), "{shown}");
        assert!(shown.contains("3 first calls are left out"), "{shown}");
    }

    #[test]
    fn a_function_colours_all_of_its_pages() {
        let text = call_map(&record(&["one"])).text(&crate::TerminalStyle::default());
        assert!(text.starts_with("/a\\nb\n2 of 5 pages touched\n         0 "), "{text}");
        let run = SavedRun::new(RunKind::Faults, String::new(), 0, Vec::new());
        let html = call_page(&record(&["one"]), &run);
        assert_eq!((html.matches("<svg").count(), html.matches("<title>after").count()), (2, 4));
    }

    #[test]
    fn stripped_files_are_pointed_out() {
        let shown =
            |names: &[&str]| call_section(&record(names)).text(&crate::TerminalStyle::default());
        assert!(shown(&["one"]).contains("/lib: 0 of 8 functions called"));
        assert!(!shown(&["one", "0x10"]).contains("stripped"));
        assert!(shown(&["one", "0x10", "0x20"]).contains("1 file is stripped"));
    }
}
