//! `text keep` and `text undo`: what they hold, what they record, and what a killed keeper leaves behind.

use super::code::{built, ended, explained_file, started, text_in_smaps, warmed};
use super::{is_skipped, small};
use crate::helper::{Place, said};
use pagewise_model::Bytes;
use pagewise_model::text::TextCoverage;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// The program, dropped from the cache, if it can be brought onto huge pages here.
fn fit(place: &Place, test: &str) -> Option<PathBuf> {
    let program = built(place, test)?;
    let (cache, _) = warmed(place, &program);
    if is_skipped(test, &cache) {
        return None;
    }
    assert_eq!(undo(place, &[program.to_str().unwrap()]).0, Some(0));
    assert_eq!(explained_file(place, &program).huge(), TextCoverage::default());
    Some(program)
}

fn undo(place: &Place, words: &[&str]) -> (Option<i32>, String) {
    let done = place.pagewise(&[&["text", "undo"], words].concat()).output().unwrap();
    (done.status.code(), said(&done.stdout))
}

/// A keeper that has reported its first look.
fn keeper(place: &Place, program: &Path) -> (Child, String) {
    let mut command = place.pagewise(&["text", "keep", program.to_str().unwrap()]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    (child, line)
}

/// Another file with the same content, in small folios, ready to replace the program under its name.
fn another(place: &Place, program: &Path) -> PathBuf {
    let new = place.path().join("new");
    small(&new, &std::fs::read(program).unwrap());
    std::fs::set_permissions(&new, std::fs::metadata(program).unwrap().permissions()).unwrap();
    new
}

#[test]
fn what_is_kept_is_on_huge_pages_and_a_killed_keeper_leaves_it_to_be_dropped() {
    let place = Place::new();
    let Some(program) = fit(&place, "what_is_kept_is_on_huge_pages") else { return };
    let (mut child, line) = keeper(&place, &program);
    assert!(line.contains("on huge pages, read back"), "{line}");
    let running = started(&program);
    assert!(text_in_smaps(&running, &program) > Bytes(0));
    ended(running);
    // A mapped program cannot be dropped: it stays recorded, and the report names its holder.
    let (code, reported) = undo(&place, &["--all"]);
    assert_eq!(code, Some(3), "{reported}");
    assert!(reported.contains(&child.id().to_string()), "{reported}");
    child.kill().unwrap();
    child.wait().unwrap();
    let (code, reported) = undo(&place, &["--all"]);
    assert_eq!(code, Some(0), "{reported}");
    assert_eq!(explained_file(&place, &program).huge(), TextCoverage::default());
    let (code, reported) = undo(&place, &["--all"]);
    assert!(code == Some(0) && !reported.contains(program.to_str().unwrap()), "{reported}");
}

/// As a package upgrade does it: another file takes the name.
#[test]
fn a_file_that_is_replaced_is_brought_there_again() {
    let place = Place::new();
    let Some(program) = fit(&place, "a_file_that_is_replaced_is_brought_there_again") else {
        return;
    };
    let words = ["text", "keep", "--every", "50ms", "--for", "20s", program.to_str().unwrap()];
    let mut child = place.pagewise(&words).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.contains("read back"), "{first}");
    let new = another(&place, &program);
    std::fs::rename(&new, &program).unwrap();
    // If there is no second line, the keeper has ended by itself.
    let second = lines.next().map(Result::unwrap).unwrap_or_default();
    assert!(second.contains("read back"), "{second}");
    let running = started(&program);
    assert!(text_in_smaps(&running, &program) > Bytes(0));
    ended(running);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_start_with_text_huge_is_recorded() {
    let place = Place::new();
    let Some(program) = fit(&place, "a_start_with_text_huge_is_recorded") else { return };
    let words = ["run", "--with", "text-huge", "--", program.to_str().unwrap()];
    assert!(place.pagewise(&words).output().unwrap().status.success());
    assert!(explained_file(&place, &program).huge().text_bytes > Bytes(0));
    let (code, reported) = undo(&place, &["--all", "--json"]);
    assert!(code == Some(0) && reported.contains(program.to_str().unwrap()), "{reported}");
    assert_eq!(explained_file(&place, &program).huge(), TextCoverage::default());
}

#[test]
fn a_keeper_ends_when_its_time_is_over_and_its_unit_names_its_files() {
    let place = Place::new();
    let Some(program) = fit(&place, "a_keeper_ends_when_its_time_is_over") else { return };
    let path = program.to_str().unwrap();
    let done = place.pagewise(&["text", "keep", "--for", "1ms", path]).output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", said(&done.stderr));
    let unit = said(&place.pagewise(&["text", "keep", "--unit", path]).output().unwrap().stdout);
    let start = unit.lines().find(|line| line.starts_with("ExecStart=/")).unwrap();
    assert!(start.contains(" text keep -- ") && start.ends_with(path), "{unit}");
    let refused = place.pagewise(&["text", "keep", "/etc/passwd"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
}

/// As `install` and copies by large writes do it: the new file is on huge pages before the keeper looks.
#[test]
fn a_file_that_is_replaced_by_one_on_huge_pages_is_held_no_more() {
    let place = Place::new();
    let Some(program) = fit(&place, "a_file_that_is_replaced_by_one_on_huge_pages") else { return };
    let words = ["text", "keep", "--every", "50ms", "--for", "20s", program.to_str().unwrap()];
    let mut child = place.pagewise(&words).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("read back"));
    let new = another(&place, &program);
    assert_eq!(warmed(&place, &new).1, Some(0));
    std::fs::rename(&new, &program).unwrap();
    let maps = format!("/proc/{}/maps", child.id());
    let holds = |what: &str| {
        let name = format!("{}{what}", program.display());
        std::fs::read_to_string(&maps).unwrap().lines().any(|line| line.ends_with(&name))
    };
    let end = Instant::now() + Duration::from_secs(10);
    while (holds(" (deleted)") || !holds("")) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!holds(" (deleted)") && holds(""), "{}", std::fs::read_to_string(&maps).unwrap());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn what_is_no_file_any_more_keeps_no_other_from_being_dropped() {
    let place = Place::new();
    let Some(program) = fit(&place, "what_is_no_file_any_more") else { return };
    let second = place.path().join("a second one");
    small(&second, &std::fs::read(&program).unwrap());
    for path in [&program, &second] {
        assert_eq!(warmed(&place, path).1, Some(0));
    }
    std::fs::write(&second, []).unwrap();
    let (code, reported) = undo(&place, &["--all"]);
    assert_eq!(code, Some(0), "{reported}");
    assert_eq!(explained_file(&place, &program).huge(), TextCoverage::default());
    let (code, reported) = undo(&place, &["--all", "--json"]);
    assert!(code == Some(0) && !reported.contains("a second one"), "{reported}");
}
