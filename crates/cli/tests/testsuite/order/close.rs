//! `order close`: the functions that are reached, and those that cannot be.

use super::{lines, objects, order};
use crate::helper::{Place, said};
use std::process::Command;

const SECTIONS: &[&str] = &["-ffunction-sections", "-fdata-sections"];

/// `order close` with the two files and these words.
fn close(place: &Place, words: &[&str]) -> std::process::Output {
    let files = ["main.o", "part.o"].map(|name| place.path().join(name));
    let files = files.each_ref().map(|file| file.to_str().unwrap());
    order(place, &[&["close"], words, &files].concat())
}

#[test]
fn functions_that_nothing_leads_to_are_left_out() {
    let place = Place::new();
    if objects(&place, SECTIONS).is_none() {
        return;
    }
    let done = close(&place, &["--by", "function"]);
    let mut names = lines(&done);
    names.sort();
    assert_eq!(names, ["construct", "first", "helper", "main", "second", "third"]);
    assert!(said(&done.stderr).starts_with("6 of 8 functions reached"), "{}", said(&done.stderr));
    assert_eq!(lines(&close(&place, &["--by", "variable"])), ["constructed", "table"]);
    let narrower = lines(&close(&place, &["--by", "function", "--entry", "third"]));
    assert_eq!(narrower.len(), 3, "third, helper, and the constructor: {narrower:?}");
}

#[test]
fn members_of_archives_come_when_they_are_needed() {
    let place = Place::new();
    let Some([main, part]) = objects(&place, &[]) else { return };
    let archive = place.path().join("lib.a");
    let built = Command::new("ar").arg("rcs").args([&archive, &part]).status();
    if !built.is_ok_and(|status| status.success()) {
        println!("SKIP members_of_archives: no ar");
        return;
    }
    let (main, archive) = (main.to_str().unwrap(), archive.to_str().unwrap());
    let member = format!("{archive}(part.o)");
    assert_eq!(lines(&order(&place, &["close", main, archive])), [main, &member]);
    let alone = lines(&order(&place, &["close", archive, "--entry", "never_either"]));
    assert_eq!(alone, [member]);
}

#[test]
fn what_cannot_be_put_in_order_is_reported() {
    let place = Place::new();
    let Some([main, _]) = objects(&place, &[]) else { return };
    let joined = close(&place, &["--by", "function"]);
    assert!(said(&joined.stderr).contains("compile with -ffunction-sections"), "joined");
    let no_entry = close(&place, &["--entry", "nowhere"]);
    assert_eq!(no_entry.status.code(), Some(2));
    assert!(said(&no_entry.stderr).contains("no object file defines nowhere"));
    std::fs::write(&main, "no object").unwrap();
    let text = close(&place, &[]);
    assert_eq!(text.status.code(), Some(2));
    assert!(said(&text.stderr).contains("is not an ELF object file"), "{}", said(&text.stderr));
    if objects(&place, &["-flto"]).is_some() {
        let lto = close(&place, &[]);
        assert_eq!(lto.status.code(), Some(2));
        assert!(said(&lto.stderr).contains("link-time optimisation"), "{}", said(&lto.stderr));
    }
}
