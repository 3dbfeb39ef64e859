//! The tools for pipelines as users run them.

#![allow(clippy::unwrap_used, reason = "a failing test panics")]
#![allow(clippy::print_stderr, reason = "a skipped test says why")]

mod closing;
mod failing;
mod gnu;
mod lent;
mod limits;
mod links;
mod meter;
mod past_cache;
mod pv;
mod stand_ins;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

const PAGEWISE: &str = env!("CARGO_BIN_EXE_pagewise");
/// The program that has only the tools.
const TOOLS: &str = env!("CARGO_BIN_EXE_pagewise-tools");

/// Random numbers from a fixed seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, most: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % most
    }

    fn bytes(&mut self, alphabet: &[u8], count: usize) -> Vec<u8> {
        (0..count).map(|_| alphabet[self.below(alphabet.len())]).collect()
    }
}

/// The program that links lead to: the umask of the build may let others write to that of the tools.
fn behind_links() -> PathBuf {
    let is_safe = fs::metadata(TOOLS).unwrap().permissions().mode() & 0o022 == 0;
    fs::canonicalize(if is_safe { TOOLS } else { PAGEWISE }).unwrap()
}

fn ours(tool: &str) -> Command {
    let mut command = Command::new(TOOLS);
    command.arg(tool);
    command
}

/// Runs a command in `place` with `input`. Its messages name the tool as GNU's do.
fn run(mut command: Command, place: &Path, input: &[u8]) -> Output {
    command.current_dir(place).env("LC_ALL", "C");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut to_child = child.stdin.take().unwrap();
    let mut output = std::thread::scope(|scope| {
        // A tool that ends early does not read all of its input.
        scope.spawn(move || drop(to_child.write_all(input)));
        child.wait_with_output().unwrap()
    });
    let text = String::from_utf8_lossy(&output.stderr);
    output.stderr = text.replace("/usr/bin/", "").replace("'pagewise ", "'").into_bytes();
    output
}

/// Everything that a command wrote, on either stream.
fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

/// The output and status of a shell line, with `TOOL` replaced by the program.
fn shell(line: &str, program: &str, place: &Path) -> Output {
    let mut command = Command::new("bash");
    command.args(["-c", &line.replace("TOOL", program)]);
    run(command, place, b"")
}

/// One of the small C programs, built in `place`. `None` without a C compiler.
fn program(name: &str, place: &Path) -> Option<PathBuf> {
    let source = format!("{}/../../tests/programs/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let made = place.join(name);
    let done = Command::new("cc").args(["-O2", "-o"]).arg(&made).arg(source).status();
    if done.is_ok_and(|status| status.success()) {
        return Some(made);
    }
    eprintln!("SKIP {name}: no C compiler (cc)");
    None
}

/// Waits for a value that must come. Fails after a minute.
fn await_some<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        if let Some(found) = look() {
            return Some(found);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}

/// The exit status of a child that must end. A child that does not is killed.
fn end(mut child: Child) -> ExitStatus {
    let ended = await_some(|| child.try_wait().unwrap());
    ended.unwrap_or_else(|| {
        child.kill().unwrap();
        panic!("{child:?} does not end")
    })
}
