//! `cat` and `tee` beside those of the machine: same output, same messages, same exit status. Inputs and
//! options are drawn from a fixed seed. Without the machine's tool the tests print SKIP.

use super::{Draw, PAGEWISE, ours, run, shell};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The machine's tool of this name.
fn peer(tool: &str) -> Option<PathBuf> {
    let path = Path::new("/usr/bin").join(tool);
    let says = Command::new(&path).arg("--version").output().ok()?;
    let is_gnu = String::from_utf8_lossy(&says.stdout).contains("GNU coreutils");
    if !is_gnu {
        eprintln!("SKIP {tool}: no GNU {tool} to compare with (apt: coreutils)");
    }
    is_gnu.then_some(path)
}

fn same(theirs: &Output, ours: &Output, what: &str) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(text(&theirs.stdout), text(&ours.stdout), "standard output of {what}");
    assert_eq!(text(&theirs.stderr), text(&ours.stderr), "messages of {what}");
    assert_eq!(theirs.status, ours.status, "status of {what}");
}

#[test]
fn cat_shows_what_gnu_cat_shows() {
    let Some(gnu) = peer("cat") else { return };
    let place = tempfile::tempdir().unwrap();
    let every: Vec<u8> = (0..=255).collect();
    let alphabets: [&[u8]; 4] = [b"\n\r\ta", &every, b"\n\n\nx", b"\r\n"];
    let mut draw = Draw(7);
    for _ in 0..150 {
        let mut arguments: Vec<String> = Vec::new();
        let letters = draw.bytes(b"AbeEnstTuv", draw.0 as usize % 4);
        if !letters.is_empty() {
            arguments.push(format!("-{}", String::from_utf8(letters).unwrap()));
        }
        for file in 0..=draw.below(3) {
            let size = [0, 1, 7, 3000][draw.below(4)];
            let alphabet = alphabets[draw.below(4)];
            let name = format!("f{file}");
            fs::write(place.path().join(&name), draw.bytes(alphabet, size)).unwrap();
            arguments.push(name);
        }
        match draw.below(8) {
            0 => arguments.push("missing".to_owned()),
            2 => arguments.push("mis sing\n\u{1}$".to_owned()),
            3 => arguments.push("it's missing".to_owned()),
            4 => arguments.push("--show-e".to_owned()),
            1 => arguments.insert(0, ".".to_owned()),
            5 => arguments.push("-".to_owned()),
            _ => {}
        }
        let input = draw.bytes(b"in\n", 50);
        let mut theirs = Command::new(&gnu);
        theirs.args(&arguments);
        let mut mine = ours("cat");
        mine.args(&arguments);
        let what = format!("cat {arguments:?}");
        same(&run(theirs, place.path(), &input), &run(mine, place.path(), &input), &what);
    }
}

#[test]
fn cat_ends_as_gnu_cat_ends() {
    let Some(gnu) = peer("cat") else { return };
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("f"), b"some text\n").unwrap();
    let lines = [
        "TOOL f > /dev/full",
        "TOOL -n f > /dev/full",
        "TOOL f >> f",
        "TOOL < . ",
        "TOOL -z",
        "TOOL --no-such-option",
        "TOOL --show",
        "TOOL --number=3",
        "TOOL f >&-",
        "TOOL <&- 2> /dev/null; echo $?",
        "yes | TOOL | head -n 1; echo ${PIPESTATUS[1]}",
        "TOOL /dev/zero | head -c 1000000 | cksum; echo ${PIPESTATUS[0]}",
        "(trap '' PIPE; TOOL /dev/zero | head -c 10 | cksum; echo ${PIPESTATUS[0]})",
        "TOOL /proc/self/limits | wc -l",
        "TOOL f - f < f",
        "(sleep 0.1; TOOL --version) | :; echo ${PIPESTATUS[0]}",
        "(trap '' PIPE; sleep 0.1; TOOL --help) | :; echo ${PIPESTATUS[0]}",
    ];
    let mine = format!("{PAGEWISE} cat");
    for line in lines {
        let theirs = shell(line, gnu.to_str().unwrap(), place.path());
        same(&theirs, &shell(line, &mine, place.path()), line);
    }
}

#[test]
fn tee_ends_as_gnu_tee_ends() {
    let Some(gnu) = peer("tee") else { return };
    let place = tempfile::tempdir().unwrap();
    let lines = [
        "seq 100000 | TOOL a b | cksum; cksum < a; cksum < b",
        "seq 5 > c; seq 100000 | TOOL -a c | cksum; cksum < c",
        "seq 100000 > d; TOOL e < d | cksum; cksum < e",
        "seq 100000 | TOOL missing/f | cksum; echo ${PIPESTATUS[1]}",
        "seq 10 | TOOL --output-error=exit missing/f; echo ${PIPESTATUS[1]}",
        "seq 100000 | TOOL f > /dev/full; echo ${PIPESTATUS[1]}; cksum < f",
        "seq 100000 | TOOL /dev/full | cksum; echo ${PIPESTATUS[1]}",
        "seq 100000 | TOOL -p g | head -n 1; echo ${PIPESTATUS[1]}; cksum < g",
        "seq 1000000 | TOOL | head -n 1; echo ${PIPESTATUS[1]}",
        "trap '' PIPE; seq 1000000 2> /dev/null | TOOL | head -n 1; echo ${PIPESTATUS[1]}",
        "seq 10 | TOOL 'a b'/c; echo ${PIPESTATUS[1]}",
        "rm -f z; seq 10 | TOOL --app z; cksum < z",
        "seq 1000000 | TOOL --output-error=exit-nopipe | head -n 1; echo ${PIPESTATUS[1]}",
        "TOOL --output-error=never < /dev/null 2> /dev/null; echo $?",
        "TOOL -z",
        "TOOL --append=1",
        "seq 10 | TOOL j >&-; echo $?; cksum < j",
        "TOOL k >&- < /dev/null; echo $?",
        "TOOL l <&- 2> /dev/null; echo $?; cksum < l",
        "(sleep 0.1; TOOL --version) | :; echo ${PIPESTATUS[0]}",
        "(trap '' PIPE; sleep 0.1; TOOL --help) | :; echo ${PIPESTATUS[0]}",
        "TOOL < .",
        "seq 100000 | TOOL >(cksum > h) >(cksum > i) | cksum; sleep 0.3; cat h i",
    ];
    let mine = format!("{PAGEWISE} tee");
    for line in lines {
        let theirs = shell(line, gnu.to_str().unwrap(), place.path());
        same(&theirs, &shell(line, &mine, place.path()), line);
    }
}

#[test]
fn a_reader_that_leaves_ends_the_tools_by_signal() {
    for tool in ["cat", "tee"] {
        let mut command = ours(tool);
        let zero = fs::File::open("/dev/zero").unwrap();
        let mut child = command.stdin(zero).stdout(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        assert_eq!(child.wait().unwrap().signal(), Some(13), "{tool}");
    }
}
