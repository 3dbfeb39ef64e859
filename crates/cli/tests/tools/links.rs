//! `links`: the tools under their usual names, and the removal of the links.

use super::{PAGEWISE, TOOLS, behind_links, run, said};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn links(place: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(PAGEWISE);
    command.arg("links").args(words);
    run(command, place, b"")
}

#[test]
fn a_shell_takes_the_tools_by_their_usual_names() {
    let place = tempfile::tempdir().unwrap();
    let bin = place.path().join("a bin");
    fs::create_dir(&bin).unwrap();
    let made = links(place.path(), &["--pv", "a bin"]);
    assert!(made.status.success() && said(&made).contains("export PATH='"), "{}", said(&made));
    assert_eq!(bin.join("cat").read_link().unwrap(), behind_links());
    let line = "cat --version; tee --version; meter --version; pv --version; seq 9 | cat -n | tee f \
                | pv -q | cksum; cksum < f";
    let mut shell = Command::new("bash");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    shell.args(["-c", line]).env("PATH", &path);
    let text = said(&run(shell, place.path(), b""));
    let names: Vec<&str> = text.lines().filter(|line| line.contains("(pagewise)")).collect();
    let version = env!("CARGO_PKG_VERSION");
    let wanted =
        ["cat", "tee", "meter", "meter"].map(|name| format!("{name} (pagewise) {version}"));
    assert_eq!(names, wanted, "{text}");
    let sums: Vec<&str> = text.lines().skip(4).collect();
    assert!(sums.len() == 2 && sums[0] == sums[1], "{text}");
    let mut again = Command::new(PAGEWISE);
    again.args(["links", "a bin"]).env("PATH", &path);
    let again = said(&run(again, place.path(), b""));
    assert!(again.contains("kept ") && again.contains("finds these first"), "{again}");
    let gone = links(place.path(), &["--remove", "a bin"]);
    assert_eq!(said(&gone).lines().filter(|line| line.starts_with("removed ")).count(), 4);
    assert_eq!(bin.read_dir().unwrap().count(), 0);
}

#[test]
fn both_programs_have_the_same_tools_and_the_small_one_nothing_else() {
    let place = tempfile::tempdir().unwrap();
    let started = |program: &str, words: &[&str]| {
        let mut command = Command::new(program);
        command.args(words);
        let done = run(command, place.path(), b"b\n\na\n");
        (done.status.code(), said(&done))
    };
    for words in [
        &["cat", "-n"][..],
        &["tee", "--help"],
        &["meter", "--version"],
        &["cat", "--no-such-option"],
        &["tee", "missing/out"],
    ] {
        assert_eq!(started(TOOLS, words), started(PAGEWISE, words), "{words:?}");
    }
    let (status, text) = started(TOOLS, &["--help"]);
    assert!(status == Some(0) && text.starts_with("Usage: pagewise-tools "), "{text}");
    assert_eq!(started(TOOLS, &["--version"]).0, Some(0));
    for words in [&[][..], &["tune"], &["pv"]] {
        let (status, text) = started(TOOLS, words);
        assert!(status == Some(2) && text.contains("no tool is named"), "{text}");
    }
}

#[test]
fn a_file_of_the_name_is_an_error_with_the_next_step() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("tee"), "theirs").unwrap();
    for words in [&["."][..], &["--force", "."]] {
        let reported = links(place.path(), words);
        assert_eq!(reported.status.code(), Some(2));
        let text = said(&reported);
        assert!(
            text.contains("tee is not a link to pagewise") && text.contains("help: "),
            "{text}"
        );
    }
    assert_eq!(fs::read(place.path().join("tee")).unwrap(), b"theirs");
    assert_eq!(place.path().read_dir().unwrap().count(), 1);
    let missing = links(place.path(), &["nowhere"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(said(&missing).contains("help: mkdir -p nowhere"), "{}", said(&missing));
}
