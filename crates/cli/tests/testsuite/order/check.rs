//! `order check`: a linker that followed the order, and each reason why it did not.

use super::{lines, objects, order};
use crate::helper::{Place, only_turn, said};
use pagewise_model::pieces::OrderCheck;
use std::process::{Command, Output};

const ORDER: &str = "helper\nthird\nfirst\nmain\nsecond\nconstruct\n";

/// Links with and without the order, and returns what `order check` says. `None` without the linker.
fn check(place: &Place, compile: &[&str], link: &[&str], words: &[&str]) -> Option<Output> {
    let [main, part] = objects(place, compile)?;
    let at = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(at("order"), ORDER).unwrap();
    for (name, options) in [("before", &[][..]), ("after", link)] {
        let mut cc = Command::new("cc");
        cc.args(compile).args([&main, &part]).args(options).args(["-o", &at(name)]);
        let done = cc.current_dir(place.path()).output().unwrap();
        if !done.status.success() {
            println!("SKIP order check with {link:?}: {}", said(&done.stderr));
            return None;
        }
    }
    let (before, after, list) = (at("before"), at("after"), at("order"));
    let all = ["check", &before, &after, "--order", &list, "--runs", "2", "--no-time"];
    Some(order(place, &[&all, words, &["--", "{}"]].concat()))
}

const LLD: &[&str] = &["-fuse-ld=lld", "-Wl,--symbol-ordering-file=order"];

#[test]
fn a_linker_that_follows_passes() {
    let (_turn, place) = (only_turn(), Place::new());
    let page = place.path().join("page.html");
    let words = ["--json", "--html", page.to_str().unwrap()];
    let Some(done) = check(&place, &["-ffunction-sections"], LLD, &words) else { return };
    if done.status.code() == Some(3) {
        return println!("SKIP order check: {}", said(&done.stderr));
    }
    let seen: OrderCheck = serde_json::from_str(&lines(&done).join("\n")).unwrap();
    let conformance = seen.conformance.unwrap();
    assert!(conformance.is_honoured() && conformance.longest_run == 6, "{seen:?}");
    for start in [&seen.before, &seen.after] {
        assert!(start.faults.len() == 2 && start.faults.iter().all(|n| *n > 0), "{start:?}");
        assert!(!start.touched.is_empty() && start.resident_bytes.iter().all(|b| b.0 > 0));
    }
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.contains("by the time of their first touch"));
}

#[test]
fn an_order_that_is_ignored_is_reported() {
    let (_turn, place) = (only_turn(), Place::new());
    // Without function sections; without the option; by a linker that lacks the option; after link-time
    // optimisation.
    for (compile, link) in [
        (&[][..], LLD),
        (&["-ffunction-sections"], &["-fuse-ld=lld"]),
        (&["-ffunction-sections"], &["-fuse-ld=mold"]),
        (
            &["-ffunction-sections", "-flto", "-O2"],
            &["-fuse-ld=gold", "-Wl,--section-ordering-file=order"],
        ),
    ] {
        let Some(done) = check(&place, compile, link, &[]) else { continue };
        if done.status.code() == Some(3) {
            return println!("SKIP order check: {}", said(&done.stderr));
        }
        assert_eq!(done.status.code(), Some(1), "{compile:?} {link:?}: {}", said(&done.stderr));
        assert!(said(&done.stdout).starts_with("the linker did not follow the order"));
    }
}

#[test]
fn a_command_without_a_place_for_the_program_is_refused() {
    let place = Place::new();
    let Some([main, _]) = objects(&place, &["-ffunction-sections"]) else { return };
    let list = place.path().join("order");
    std::fs::write(&list, ORDER).unwrap();
    let (main, list) = (main.to_str().unwrap(), list.to_str().unwrap());
    let refused = order(&place, &["check", main, main, "--order", list, "--", "true"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused.stderr).contains("does not contain {}"), "{}", said(&refused.stderr));
}

#[test]
fn without_an_order_starts_are_only_counted() {
    let (_turn, place) = (only_turn(), Place::new());
    let Some([main, part]) = objects(&place, &[]) else { return };
    let program = place.path().join("program");
    let linked = Command::new("cc").args([&main, &part]).arg("-o").arg(&program).status();
    assert!(linked.unwrap().success());
    let program = program.to_str().unwrap();
    let words = ["check", program, program, "--runs", "1", "--no-time", "--json", "--", "{}"];
    let done = order(&place, &words);
    if done.status.code() == Some(3) {
        return println!("SKIP order check: {}", said(&done.stderr));
    }
    let seen: OrderCheck = serde_json::from_str(&lines(&done).join("\n")).unwrap();
    assert!(seen.conformance.is_none() && seen.before.touched.len() == seen.after.touched.len());
}
