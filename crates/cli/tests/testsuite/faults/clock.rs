//! Times of faults by the time-stamp counter.

use super::{PAGES, Programs, refused, said, users};
use serde_json::Value;
use std::process::Output;

/// Runs the program with this form of the list; `None` if faults or cycles cannot be recorded here.
fn by_counter(test: &str, user: Option<u32>, form: &str) -> Option<Output> {
    let programs = Programs::get()?;
    let options = ["--clock", "tsc", "--format", form];
    let done = programs.command(user, &options, &["write", &PAGES.to_string()]).output().unwrap();
    let text = said(&done.stderr);
    if done.status.code() == Some(2) {
        assert!(text.starts_with("pagewise: the time-stamp counter keeps no time"), "{text}");
        assert!(text.lines().count() == 2 && !text.contains("range "), "not started: {text}");
        println!("SKIP {test}: {text}");
        return None;
    }
    (!refused(test, &done)).then_some(done)
}

#[test]
fn cycles_are_the_times_by_one_rate() {
    for user in users() {
        let Some(done) = by_counter("cycles_are_the_times", user, "json") else { return };
        let list = said(&done.stdout);
        let faults: Vec<Value> =
            list.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let number = |fault: &Value, key: &str| fault[key].as_u64().unwrap();
        let both: Vec<(u64, u64)> = faults
            .iter()
            .map(|fault| (number(fault, "since_first_ns"), number(fault, "since_first_cycles")))
            .collect();
        let (last_ns, last_cycles) = both[both.len() - 1];
        assert!(both.len() as u64 > PAGES && both[0] == (0, 0) && last_ns > 0, "{both:?}");
        let rate = last_cycles as f64 / last_ns as f64;
        assert!((0.1..20.0).contains(&rate), "{rate} cycles a nanosecond");
        for (ns, cycles) in both {
            let expected = ns as f64 * rate;
            assert!((cycles as f64 - expected).abs() <= 1.0 + rate, "{cycles} for {ns} ns");
        }
    }
}

#[test]
fn pagein_counts_cycles_from_the_first_fault() {
    const TEST: &str = "pagein_counts_cycles_from_the_first_fault";
    let Some(done) = by_counter(TEST, None, "pagein") else { return };
    let list = said(&done.stdout);
    let mut last = 0;
    for (order, line) in list.lines().enumerate() {
        // "   0 0x7F0000001000 C            0 0x7F0000001080: main (in /bin/x)"
        let line = line.replace("0x ", "0x");
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[0], order.to_string(), "{line}");
        let words = &words[words.iter().position(|w| ["C", "D"].contains(w)).unwrap()..];
        let cycles: u64 = words[1].parse().unwrap();
        assert!(cycles >= last && (order > 0 || cycles == 0), "{line}");
        assert!(words[2].starts_with("0x") && words[2].ends_with(':'), "{line}");
        last = cycles;
    }
    assert!(list.lines().count() as u64 > PAGES && last > 0, "{list}");
}
