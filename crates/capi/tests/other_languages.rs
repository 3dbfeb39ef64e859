//! The library as other languages use it: C programs compiled against the header, and the Python package. Each
//! test prints SKIP if its compiler or interpreter is missing.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and says what it skipped"
)]

use pagewise_capi::PAGEWISE_ABI_VERSION;
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const SHARED: &str = "libpagewise_capi.so";
const STATIC: &str = "libpagewise_capi.a";

/// The file that a program linked with the shared library looks for.
fn soname() -> String {
    format!("{SHARED}.{PAGEWISE_ABI_VERSION}")
}

/// Libraries that a program needs when it is linked with the static library.
const SYSTEM: [&str; 5] = ["-lgcc_s", "-lpthread", "-lm", "-ldl", "-lc"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The directory where cargo has put the libraries: beside this test.
fn libraries() -> PathBuf {
    let directory = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    assert!(directory.join(SHARED).is_file(), "no {SHARED} in {}", directory.display());
    directory
}

fn is_missing(program: &str, test: &str) -> bool {
    let answer = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    let missing = !answer.is_ok_and(|status| status.success());
    if missing {
        println!("SKIP {test}: no {program}");
    }
    missing
}

/// Compiles a C file. A warning is an error.
fn compile(source: &str, to: &Path, libraries: &[&OsStr]) {
    let made = Command::new("cc")
        .args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread", "-I"])
        .arg(root().join("include"))
        .arg(root().join(source))
        .arg("-o")
        .arg(to)
        .args(libraries)
        .output()
        .unwrap();
    assert!(made.status.success(), "{source}: {}", String::from_utf8_lossy(&made.stderr));
}

/// Compiles with the shared library. The program finds it beside itself under its SONAME, as if it were
/// installed.
fn compile_shared(source: &str, to: &Path) {
    let directory = libraries();
    let beside = to.with_file_name(soname());
    if !beside.exists() {
        std::os::unix::fs::symlink(directory.join(SHARED), beside).unwrap();
    }
    let found = format!("-Wl,-rpath,{}", to.parent().unwrap().display());
    let words =
        [OsStr::new("-L"), directory.as_os_str(), "-lpagewise_capi".as_ref(), found.as_ref()];
    compile(source, to, &words);
}

fn run(command: &mut Command, input: &[u8]) -> Output {
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().unwrap();
    // The input is small enough to fit the pipe, whatever the program does.
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn c_programs_get_what_the_header_promises() {
    if is_missing("cc", "c_programs_get_what_the_header_promises") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let [shared, fixed, file] = ["shared", "static", "file"].map(|name| place.path().join(name));
    std::fs::write(&file, vec![7; 100_000]).unwrap();
    compile_shared("tests/contract.c", &shared);
    let archive = libraries().join(STATIC);
    let system = SYSTEM.map(OsStr::new);
    compile("tests/contract.c", &fixed, &[&[archive.as_os_str()], &system[..]].concat());
    for program in [shared, fixed] {
        let ended = run(Command::new(program).arg(&file).env("XDG_CACHE_HOME", place.path()), b"");
        assert!(ended.status.success(), "{}", said(&ended));
        assert_eq!(ended.stdout, b"kept\n");
    }
}

#[test]
fn the_examples_do_what_they_say() {
    if is_missing("cc", "the_examples_do_what_they_say") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let [copy, repeat] = ["copy", "repeat"].map(|name| place.path().join(name));
    compile_shared("examples/copy.c", &copy);
    compile_shared("examples/repeat.c", &repeat);
    let copied = run(&mut Command::new(&copy), b"some bytes");
    assert_eq!((copied.stdout.as_slice(), copied.status.code()), (&b"some bytes"[..], Some(0)));
    assert!(said(&copied).starts_with("10 bytes by "), "{}", said(&copied));
    let lines = run(Command::new(&repeat).args(["line", "3000000"]), b"");
    assert!(lines.status.success(), "{}", said(&lines));
    assert_eq!(lines.stdout.len(), 3_000_000);
    assert!(lines.stdout.chunks(5).all(|line| line == b"line\n"));
}

#[test]
fn the_documents_name_the_soname() {
    for page in ["install.md", "library.md", "release-notes.md"] {
        let text = std::fs::read_to_string(root().join("../../docs").join(page)).unwrap();
        let named: Vec<_> =
            text.split('`').filter(|word| word.starts_with(&format!("{SHARED}."))).collect();
        assert!(!named.is_empty(), "{page} names no SONAME");
        assert!(
            named.iter().all(|word| *word == soname()),
            "{page} names {named:?}, not {}",
            soname()
        );
    }
}

#[test]
fn the_header_is_cpp_as_well() {
    if is_missing("c++", "the_header_is_cpp_as_well") {
        return;
    }
    let checked = Command::new("c++")
        .args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++"])
        .arg(root().join("include/pagewise.h"))
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}", said(&checked));
}

#[test]
fn the_python_package_passes_its_tests() {
    if is_missing("python3", "the_python_package_passes_its_tests") {
        return;
    }
    let package = root().join("../../python");
    let mut python = Command::new("python3");
    python.args(["-B", "-W", "error", "-m", "unittest", "discover", "-s", "tests"]);
    python.current_dir(&package).env("PYTHONPATH", "src");
    let ended = run(python.env("PAGEWISE_LANES_LIBRARY", libraries().join(SHARED)), b"");
    let said = said(&ended);
    assert!(ended.status.success() && !said.contains("Ran 0 tests"), "{said}");
    for line in said.lines().filter(|line| line.contains("skipped")) {
        println!("SKIP python: {line}");
    }
}
