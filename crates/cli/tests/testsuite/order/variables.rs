//! `order record --variables`: after a link in that order, the data that a program touches lies together.

use super::order;
use crate::helper::{Place, compile, said};
use pagewise_model::first_calls::CallRecord;
use std::collections::BTreeSet;

const ROWS: usize = 32;

#[test]
fn variables_that_are_touched_come_together() {
    let place = Place::new();
    let at = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let (plain, ordered, calls, data, link) =
        (at("plain"), at("ordered"), at("calls"), at("data"), at("link"));
    let by_lld = ["-O1", "-fdata-sections", "-fuse-ld=lld"];
    let options = format!("-Wl,--symbol-ordering-file={link}");
    for with in [&[][..], &["-no-pie", "-fno-pie"]] {
        if !compile("sparse_data.c", &[&by_lld, with].concat(), plain.as_ref()) {
            return println!("SKIP variables_that_are_touched: no C compiler with lld");
        }
        let done = order(&place, &["record", "-o", &calls, "--", &plain]);
        assert!(done.status.success(), "{}", said(&done.stderr));
        let record = |program: &str, options: &[&str]| {
            let words = ["record", "--variables", "--called", &calls];
            order(&place, &[&words, options, &["--", program]].concat())
        };
        let done = record(&plain, &["-o", &data]);
        if done.status.code() == Some(3) {
            return println!("SKIP variables_that_are_touched: {}", said(&done.stderr));
        }
        let text = std::fs::read_to_string(&data).unwrap();
        let named: Vec<&str> = text.lines().filter(|line| line.starts_with("hot_")).collect();
        let want: Vec<String> = (0..ROWS).map(|row| format!("hot_{row:02}")).collect();
        assert_eq!(named, want);
        let others = text.lines().position(|line| line.starts_with("a_")).unwrap();
        assert!(others > text.lines().position(|line| line == "hot_31").unwrap(), "{text}");
        let words = ["emit", &data, "--by", "variable", "--linker", "lld", "--for", &plain];
        let done = order(&place, &[&words[..], &["-o", &link]].concat());
        assert!(said(&done.stderr).contains("(100%)"), "{}", said(&done.stderr));
        let order_option = [&by_lld[..], with, &[&options]].concat();
        assert!(compile("sparse_data.c", &order_option, ordered.as_ref()));
        let pages = |program: &str| {
            let done = record(program, &["--json"]);
            let record: CallRecord = serde_json::from_slice(&done.stdout).unwrap();
            let calls = record.objects.into_iter().flat_map(|object| object.calls);
            let hot = calls.filter(|call| call.name.starts_with("hot_"));
            hot.map(|call| call.address / rustix::param::page_size() as u64)
                .collect::<BTreeSet<_>>()
        };
        let (before, after) = (pages(&plain).len(), pages(&ordered).len());
        assert!(before >= ROWS && after <= ROWS / 4 + 1, "{before} then {after}");
    }
}
