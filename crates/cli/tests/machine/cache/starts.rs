//! Programs started with `text-huge` and `file-huge`. This test reads from `smaps` which huge pages they have.

use super::code::{built, ended, explained_file, text_in_smaps, warmed};
use super::{content, is_skipped, mapped_huge, small, with_file};
use crate::helper::{Place, experiment, install, only_turn, said};
use pagewise_model::Bytes;
use pagewise_model::run::SavedRun;
use pagewise_model::text::TextMethod;
use pagewise_model::trial::ArmRun;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Stdio};

/// The words of a `run` with these options and this program.
fn words<'a>(options: &[&'a str], program: &'a Path) -> Vec<&'a str> {
    [&["run"], options, &["--", program.to_str().unwrap()]].concat()
}

/// Starts the program through `run` up to where it waits. The child is the program itself by then.
fn started(place: &Place, options: &[&str], program: &Path) -> Child {
    let mut command = place.pagewise(&words(options, program));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    child
}

/// Ends the program and returns what pagewise reported.
fn reported(mut child: Child) -> String {
    let mut error = child.stderr.take().unwrap();
    ended(child);
    let mut text = String::new();
    error.read_to_string(&mut text).unwrap();
    text
}

/// How much of the program's text is on huge pages once it is warmed.
fn reach(place: &Place, program: &Path) -> Bytes {
    let file = explained_file(place, program);
    let warm = file.reach.iter().find(|reach| reach.method == TextMethod::Warm).unwrap();
    warm.huge.text_bytes
}

/// The program in small folios, if it can be built and brought onto huge pages here.
fn fit(place: &Place, test: &str) -> Option<std::path::PathBuf> {
    let program = built(place, test)?;
    let (cache, _) = warmed(place, &program);
    if is_skipped(test, &cache) {
        return None;
    }
    let done = place.pagewise(&["cache", "evict", program.to_str().unwrap()]).output().unwrap();
    assert!(done.status.success(), "{}", said(&done.stdout));
    Some(program)
}

#[test]
fn a_start_with_text_huge_has_its_code_on_huge_pages_and_says_nothing() {
    let place = Place::new();
    let Some(program) = fit(&place, "a_start_with_text_huge_has_its_code") else { return };
    let reach = reach(&place, &program);
    assert!(reach > Bytes(0));
    let child = started(&place, &["--with", "text-huge"], &program);
    assert_eq!(text_in_smaps(&child, &program), reach);
    assert_eq!(reported(child), "");
    let child = started(&place, &["--verbose", "--with", "text-huge"], &program);
    assert_eq!(text_in_smaps(&child, &program), reach);
    let line = reported(child);
    assert!(line.starts_with("pagewise: text-huge: ") && line.contains("as before"), "{line}");
}

#[test]
fn a_script_is_its_interpreter() {
    let place = Place::new();
    let Some(program) = fit(&place, "a_script_is_its_interpreter") else { return };
    let (script, text) = (place.path().join("script"), place.path().join("text"));
    std::fs::write(&text, format!("#!{}\n", program.display())).unwrap();
    install(&text, &script);
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let child = started(&place, &["--with", "text-huge"], &script);
    assert_eq!(text_in_smaps(&child, &program), reach(&place, &program));
    assert_eq!(reported(child), "");
}

#[test]
fn what_somebody_maps_is_left_alone_and_named_in_one_line() {
    let place = Place::new();
    let Some(program) = fit(&place, "what_somebody_maps_is_left_alone") else { return };
    small(&program, &std::fs::read(&program).unwrap());
    let first = started(&place, &[], &program);
    assert_eq!(text_in_smaps(&first, &program), Bytes(0));
    let second = started(&place, &["--with", "text-huge"], &program);
    assert_eq!(text_in_smaps(&second, &program), Bytes(0));
    let line = reported(second);
    assert!(line.contains("it is mapped") && line.contains(&first.id().to_string()), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    assert_eq!(reported(first), "");
}

#[test]
fn what_cannot_be_huge_starts_all_the_same_and_says_why() {
    let place = Place::new();
    for (list, why) in [
        ("text-huge", "smaller than a huge page"),
        ("text-huge=/nonexistent/file", "/nonexistent/file"),
        ("file-huge=/nonexistent/file", "/nonexistent/file"),
    ] {
        let done = place.pagewise(&["run", "--with", list, "--", "sh", "-c", "exit 7"]).output();
        let done = done.unwrap();
        let text = said(&done.stderr);
        assert_eq!((done.status.code(), text.lines().count()), (Some(7), 1), "{list}: {text}");
        assert!(text.contains(why), "{list}: {text}");
    }
    let done = place.pagewise(&["run", "--with", "text-huge", "--", "no-such-program"]).output();
    assert_eq!(done.unwrap().status.code(), Some(127));
}

#[test]
fn a_start_with_file_huge_finds_its_input_on_huge_pages() {
    let (place, path) = with_file();
    let list = format!("file-huge={}", path.display());
    let words = ["run", "--with", &list, "--", "cat", path.to_str().unwrap()];
    let done = place.pagewise(&words).output().unwrap();
    assert_eq!((done.stdout == content(), done.status.code()), (true, Some(0)));
    let text = said(&done.stderr);
    if text.contains("gave no huge folio") || text.contains("only in memory") {
        return println!("SKIP a_start_with_file_huge_finds_its_input: {text}");
    }
    assert_eq!((text.as_str(), mapped_huge(&path)), ("", super::SIZE));
}

/// Each run of the arm finds its files in huge folios. No plain run does.
#[test]
fn an_experiment_gives_each_arm_the_cache_that_it_needs() {
    let _turn = only_turn();
    let place = Place::new();
    let Some(program) = fit(&place, "an_experiment_gives_each_arm_the_cache") else { return };
    let list = format!("text-huge={}", program.display());
    let asked =
        ["tune", "--budget", "20s", "--json", "--input", "/dev/null", "--only", &list, "--"];
    let words = [&asked[..], &[program.to_str().unwrap()]].concat();
    let Some(done) = experiment(|| place.pagewise(&words)) else { return };
    let run =
        SavedRun::from_json(&done.stdout).unwrap_or_else(|e| panic!("{e}: {}", said(&done.stderr)));
    let tried = run.experiment.unwrap();
    let in_blocks = tried.blocks.iter().flat_map(|block| &block.points);
    let (plain, huge): (Vec<&ArmRun>, Vec<&ArmRun>) =
        in_blocks.partition(|point| point.arm == "plain");
    assert!(plain.len() >= 2 && huge.len() >= 2, "{}", said(&done.stderr));
    for point in huge.iter().filter(|point| point.arm == list) {
        assert!(point.mechanism.is_some_and(|slots| slots >= 1), "{point:?}");
    }
    let idle = plain.iter().flat_map(|point| &point.idle_mechanisms);
    assert!(idle.clone().count() >= 2 && idle.clone().all(|(_, slots)| *slots == 0));
    let reported = run.warnings.iter().any(|w| w.contains("read back between runs"));
    assert!(reported, "{:?}", run.warnings);
}
