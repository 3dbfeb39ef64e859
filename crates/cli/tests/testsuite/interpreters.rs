//! Faults and samples in an interpreter are attributed to the functions of its script. The scripts touch a
//! known number of pages in a function of a known name.

use crate::helper::{Place, only_turn, said};
use pagewise_model::Fact;
use pagewise_model::body::RunBody;
use pagewise_model::fault::{FaultReport, MemoryStack};
use pagewise_model::run::SavedRun;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Memory touched by `fill`.
const MEBIBYTES: u64 = 64;

const PYTHON: &str = "\
import sys

class Store:
    def fill(self, n):
        return [bytearray(1 << 20) for _ in range(n)]

def main():
    print(len(Store().fill(int(sys.argv[1]))))

main()
";

const JAVASCRIPT: &str = "\
'use strict';
function fill(n) {
  const kept = [];
  for (let i = 0; i < n; i++) kept.push(new Uint8Array(1 << 20).fill(1));
  return kept.length;
}
console.log(fill(Number(process.argv[2])));
";

/// The first candidate that answers yes.
fn first(candidates: impl IntoIterator<Item = PathBuf>, ask: &[&str]) -> Option<PathBuf> {
    candidates.into_iter().find(|program| {
        let asked = Command::new(program).args(ask).output();
        asked.is_ok_and(|asked| asked.status.success() && asked.stdout.starts_with(b"yes"))
    })
}

/// A Python that names its functions: in PATH, or among the versions of pyenv.
fn naming_python() -> Option<PathBuf> {
    let named = ["python3", "python3.14", "python3.13", "python3.12"].map(PathBuf::from);
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let kept = std::fs::read_dir(home.join(".pyenv/versions")).into_iter().flatten().flatten();
    let kept = kept.map(|version| version.path().join("bin/python3"));
    let ask = "import sys; print('yes' if hasattr(sys, 'activate_stack_trampoline') else 'no')";
    first(named.into_iter().chain(kept), &["-c", ask])
}

/// A Python that names its functions, and a place with a script for it. `None`, with a line for `test`, without one.
fn python_job(test: &str) -> Option<(PathBuf, Place, String)> {
    let Some(python) = naming_python() else {
        println!("SKIP {test}: no Python from 3.12 on");
        return None;
    };
    let place = Place::new();
    let script = written(&place, "job.py", PYTHON);
    Some((python, place, script))
}

fn report(place: &Place, options: &[&str], program: &Path, script: &str) -> SavedRun {
    let count = MEBIBYTES.to_string();
    let mut faults = place.pagewise(options);
    faults.args(["--json", "--"]).arg(program).args([script, &count]);
    faults.env_remove("PYTHONPERFSUPPORT").env_remove("NODE_OPTIONS").current_dir(place.path());
    let done = faults.output().unwrap();
    assert!(done.status.success(), "{}", said(&done.stderr));
    assert!(said(&done.stderr).starts_with(&count), "{}", said(&done.stderr));
    SavedRun::from_json(&done.stdout).unwrap()
}

fn written(place: &Place, name: &str, text: &str) -> String {
    let path = place.path().join(name);
    std::fs::write(&path, text).unwrap();
    path.to_string_lossy().into_owned()
}

/// Faults caused by the function of this name, with the line where it begins.
fn behind(report: &FaultReport, function: &str) -> Vec<(u64, Option<(String, u32)>)> {
    let functions = &report.callers.known().unwrap().functions;
    let named = functions.iter().filter(|one| one.site.function.as_deref() == Some(function));
    let line = |one: &pagewise_model::fault::FunctionTally| {
        one.site.source.as_ref().map(|source| (source.file.clone(), source.line))
    };
    named.map(|one| (one.tally.faults, line(one))).collect()
}

/// The fewest faults that `fill` can take: about one for each base page, or 1 with huge pages.
fn least_faults() -> u64 {
    let huge = pagewise_kernel::thp::enabled().is_ok_and(|word| word == "always");
    if huge { 1 } else { (MEBIBYTES << 20) / pagewise_kernel::page_size::base().bytes() * 9 / 10 }
}

fn assert_named(run: &SavedRun, function: &str, file: &str, line: u32) {
    let Some(RunBody::Faults(report)) = &run.body else { panic!("no faults") };
    let found = behind(report, function);
    let callers = report.callers.known().unwrap();
    let all = format!(
        "{found:?} of {:#?}, lost {} and {}, {:?}",
        callers.functions, report.lost_records, callers.lost_stacks, report.interpreters
    );
    let [(faults, source)] = &found[..] else { panic!("{all}") };
    assert!(*faults >= least_faults(), "{all}");
    assert_eq!(source.as_ref().map(|(file, line)| (file.as_str(), *line)), Some((file, line)));
    let named: u64 = report.interpreters.iter().map(|one| one.functions).sum();
    assert!(named > 0, "{:?}", report.interpreters);
}

/// Whether `directory` still has a map or a log of an interpreter.
fn is_anything_left(directory: &Path, since: std::time::SystemTime) -> bool {
    let entries = std::fs::read_dir(directory).unwrap().flatten();
    entries.into_iter().any(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_of_interpreter = name.starts_with("perf-") && name.ends_with(".map");
        let is_new = entry.metadata().is_ok_and(|meta| meta.modified().is_ok_and(|at| at >= since));
        is_new && (is_of_interpreter || name.ends_with("-v8.log"))
    })
}

#[test]
fn faults_of_python_are_those_of_its_functions() {
    let _turn = only_turn();
    let Some((python, place, script)) = python_job("faults_of_python") else { return };
    let since = std::time::SystemTime::now();
    let run = report(&place, &["faults", "--interpreter-frames"], &python, &script);
    assert_named(&run, "Store.fill", &script, 4);
    assert!(!is_anything_left(Path::new("/tmp"), since));
    // By default it names none, and the report says which option would.
    let run = report(&place, &["faults"], &python, &script);
    let Some(RunBody::Faults(plain)) = &run.body else { panic!("no faults") };
    assert_eq!(behind(plain, "Store.fill"), []);
    let shown = pagewise_report::render(&run, &pagewise_report::TerminalStyle::default());
    assert!(shown.contains("--interpreter-frames asks it to"), "{shown}");
}

#[test]
fn samples_of_python_are_those_of_its_functions() {
    let _turn = only_turn();
    let Some((python, place, script)) = python_job("samples_of_python") else { return };
    let mut profile = place.pagewise(&["profile", "--interpreter-frames", "--format", "folded"]);
    profile.arg("--").arg(&python).args([&script, "200"]).env_remove("PYTHONPERFSUPPORT");
    let done = profile.output().unwrap();
    if said(&done.stderr).contains("there are no samples") {
        println!("SKIP samples_of_python: {}", said(&done.stderr));
        return;
    }
    let stacks = said(&done.stdout);
    let in_fill = stacks.lines().filter(|line| line.contains(";Store.fill job.py:4;"));
    assert!(in_fill.count() > 0, "{stacks}");
    assert!(stacks.contains("main job.py:7;"), "{stacks}");
}

#[test]
fn faults_of_node_are_those_of_its_functions() {
    let _turn = only_turn();
    let Some(node) = first([PathBuf::from("node")], &["-p", "'yes'"]) else {
        println!("SKIP faults_of_node: no node");
        return;
    };
    let place = Place::new();
    let since = std::time::SystemTime::now();
    let script = written(&place, "job.js", JAVASCRIPT);
    let run = report(&place, &["faults", "--interpreter-frames"], &node, &script);
    assert_named(&run, "fill", &script, 2);
    assert!(!is_anything_left(Path::new("/tmp"), since));
    assert!(!is_anything_left(place.path(), since));
}

#[test]
fn memory_of_python_is_that_of_its_functions() {
    let _turn = only_turn();
    let Some((python, place, script)) = python_job("memory_of_python") else { return };
    let run = report(&place, &["profile", "--memory", "--interpreter-frames"], &python, &script);
    let sites = match run.memory.unwrap().sites.unwrap() {
        Fact::Known(sites) => sites,
        Fact::Missing(why) => return println!("SKIP memory_of_python: {why}"),
    };
    let first = &sites.sites[0];
    let line = first.site.source.as_ref().map(|source| (source.file.as_str(), source.line));
    assert_eq!(first.site.function.as_deref(), Some("Store.fill"), "{sites:#?}");
    assert_eq!(line, Some((script.as_str(), 4)));
    assert!(first.bytes.0 >= (MEBIBYTES << 20) * 9 / 10, "{first:?}");
    let is_framed =
        |stack: &MemoryStack| stack.frames.iter().any(|one| one == "Store.fill job.py:4");
    assert!(sites.stacks.iter().any(is_framed), "{sites:#?}");
}
