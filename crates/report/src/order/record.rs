//! What a run called: the list that becomes an order, and a few lines about it.

use crate::number::{count, counted, percent};
use crate::page::Document;
use crate::style::Tone;
use pagewise_model::first_calls::{CallRecord, CallSource, CalledObject};
use std::fmt::Write;

/// One name a line, file by file, with the files as comments.
#[must_use]
pub fn call_list(record: &CallRecord) -> String {
    let mut text = String::new();
    for object in record.objects.iter().filter(|object| !object.calls.is_empty()) {
        let path = object.path.escape_debug();
        let calls = counted(object.calls.len() as u64, "function", "functions");
        let by = match record.source {
            CallSource::Calls => "first call",
            CallSource::Pages => "first touch of their pages",
        };
        let _infallible = writeln!(text, "# {path}: {calls} by {by}");
        for call in &object.calls {
            text.push_str(&call.name);
            text.push('\n');
        }
    }
    text
}

/// How many functions of each file were called.
#[must_use]
pub fn call_section(record: &CallRecord) -> Document {
    let mut page = Document::default();
    for object in &record.objects {
        let (called, all) = (object.calls.len() as u64, object.functions);
        let share = percent(called as f64 / (all as f64).max(1.0));
        let functions = counted(all, "function", "functions");
        let what = match record.source {
            CallSource::Calls => "called",
            CallSource::Pages => "on pages that were touched",
        };
        let text = format!("{}: {} of {functions} {what} ({share})", object.path, count(called));
        page.para(&text, 0, Tone::Plain);
    }
    let nameless = record.objects.iter().filter(|object| is_nameless(object)).count();
    if nameless > 0 {
        let files = counted(nameless as u64, "file is", "files are");
        let text = format!(
            "{files} stripped: functions without a name go by their address in this very file, which predict understands and no linker does. Record a build with its symbols for the linker."
        );
        page.para(&text, 0, Tone::Warn);
    }
    page
}

/// Whether most names are addresses.
fn is_nameless(object: &CalledObject) -> bool {
    let nameless = object.calls.iter().filter(|call| call.name.starts_with("0x")).count();
    nameless * 2 > object.calls.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::Nanos;
    use pagewise_model::first_calls::FirstCall;

    fn record(names: &[&str]) -> CallRecord {
        let call = |name: &&str| FirstCall {
            name: (*name).to_owned(),
            address: 1,
            at_ns: Nanos(1),
            pid: 1,
        };
        let calls = names.iter().map(call).collect();
        let object =
            |path: &str, calls| CalledObject { path: path.to_owned(), functions: 8, calls };
        CallRecord {
            command: Vec::new(),
            source: CallSource::Calls,
            objects: vec![object("/a\nb", calls), object("/lib", Vec::new())],
        }
    }

    #[test]
    fn files_are_comments_and_names_are_lines() {
        let list = call_list(&record(&["one", "two"]));
        assert_eq!(list, "# /a\\nb: 2 functions by first call\none\ntwo\n");
        let pages = CallRecord { source: CallSource::Pages, ..record(&["one"]) };
        assert_eq!(call_list(&pages), "# /a\\nb: 1 function by first touch of their pages\none\n");
    }

    #[test]
    fn stripped_files_are_pointed_out() {
        let shown = |names: &[&str]| call_section(&record(names)).text(&crate::Style::default());
        assert!(shown(&["one"]).contains("/lib: 0 of 8 functions called"));
        assert!(!shown(&["one", "0x10"]).contains("stripped"));
        assert!(shown(&["one", "0x10", "0x20"]).contains("1 file is stripped"));
    }
}
