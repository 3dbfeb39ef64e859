//! Programs built here and programs of the distribution.

#![allow(clippy::print_stderr, reason = "a test says why it is skipped")]

use super::*;
use std::process::Command;

fn why(path: &Path) -> Option<LendingReason> {
    file::look(&File::open(path).unwrap()).unwrap().why
}

/// A program of `tests/programs`, built; `None` if it cannot be built.
fn built(dir: &Path, compiler: &str, args: &[&str], source: &str) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs").join(source);
    let to = dir.join("program");
    // One cache beside the build, shared by all tests: with an empty cache, Go builds its library first.
    let own = std::env::current_exe().unwrap();
    let cache = own.ancestors().nth(3).unwrap().join("tmp/go");
    let mut command = Command::new(compiler);
    command.args(args).arg("-o").arg(&to).arg(source).env("GOCACHE", cache);
    let done = command.stderr(std::process::Stdio::null()).status();
    done.is_ok_and(|status| status.success()).then_some(to)
}

#[test]
fn lenders_are_known_however_they_make_the_call() {
    let c: [(&[&str], LendingReason); 9] = [
        (&["-O2"], LendingReason::Names),
        (&["-O2", "-static", "-s"], LendingReason::Calls),
        (&["-O2", "-static-pie", "-s"], LendingReason::Calls),
        (&["-O2", "-static", "-nostdlib", "-s", "-DRAW"], LendingReason::Calls),
        (&["-O0", "-static", "-nostdlib", "-s", "-DRAW"], LendingReason::Calls),
        (&["-O2", "-s", "-DBY_SYSCALL"], LendingReason::Calls),
        (&["-O0", "-s", "-DBY_SYSCALL", "-fno-plt"], LendingReason::Calls),
        (&["-O2", "-static", "-s", "-DBY_SYSCALL"], LendingReason::Calls),
        (&["-O2", "-DASSUMED"], LendingReason::Names),
    ];
    for (args, wanted) in c {
        let dir = tempfile::tempdir().unwrap();
        match built(dir.path(), "cc", args, "page_lender.c") {
            Some(program) => assert_eq!(why(&program), Some(wanted), "{args:?}"),
            None => eprintln!("SKIP lenders_are_known cc {args:?}: it cannot be built"),
        }
    }
    for flags in ["", "-s -w"] {
        let dir = tempfile::tempdir().unwrap();
        match built(dir.path(), "go", &["build", "-ldflags", flags], "page_lender.go") {
            Some(program) => assert_eq!(why(&program), Some(LendingReason::Calls), "go {flags}"),
            None => eprintln!("SKIP lenders_are_known go {flags}: it cannot be built"),
        }
    }
}

#[test]
fn ordinary_programs_are_no_lenders() {
    let names = [
        "cat", "head", "wc", "sort", "grep", "sed", "awk", "tr", "gzip", "perl", "python3", "sh",
        "bash",
    ];
    for name in names {
        for dir in ["/usr/bin", "/bin"] {
            let path = Path::new(dir).join(name);
            if path.exists() {
                assert_eq!(why(&path), None, "{}", path.display());
            }
        }
    }
    for args in [&["-O2", "-static"][..], &["-O2"]] {
        let dir = tempfile::tempdir().unwrap();
        if let Some(program) = built(dir.path(), "cc", args, "word_check.c") {
            assert_eq!(why(&program), None, "{args:?}");
        }
    }
}

#[test]
fn a_process_is_examined_with_its_libraries() {
    let piped = std::process::Stdio::piped;
    let mut child = Command::new("cat").stdin(piped()).stdout(piped()).spawn().unwrap();
    let pid = child.id() as i32;
    // Its output has passed through its C library, so that library is mapped by now.
    let (input, output) = (child.stdin.as_mut().unwrap(), child.stdout.as_mut().unwrap());
    std::io::Write::write_all(input, b"x").unwrap();
    std::io::Read::read_exact(output, &mut [0]).unwrap();
    let mut files = LendingFiles::default();
    let answer = files.of_process(pid).unwrap();
    assert!(answer.lender.is_none() && answer.took_long, "{answer:?}");
    assert!(!files.of_process(pid).unwrap().took_long, "its files are remembered");
    drop(child.stdin.take());
    child.wait().unwrap();
    let gone = files.of_process(pid).unwrap_err();
    assert!(gone.is_gone(), "{gone}");
}

#[test]
fn what_is_no_program_of_this_machine_is_not_understood() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    std::fs::write(&path, b"\x7fELF\x01\x01 and so on").unwrap();
    assert_eq!(why(&path), Some(LendingReason::Foreign));
    let mut seen = false;
    assert!(LendingFiles::default().look(&File::open(&path).unwrap(), &mut seen).is_some() && seen);
}
