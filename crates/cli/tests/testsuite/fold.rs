//! `pagewise text fold` on programs and libraries of this machine, and on small ones with a known layout. The
//! copies run, are loaded and mapped as predicted, and hold the bytes of their originals.
mod attributes;
mod killed;
mod layout;
mod refused;
mod started;

use crate::helper::{Place, said};
use pagewise_kernel::page_size;
use pagewise_model::Bytes;
use pagewise_model::body::RunBody;
use pagewise_model::fold::{FileRange, FoldChanges, FoldReport};
use pagewise_model::run::SavedRun;
use pagewise_model::text::TextMethod;
use pagewise_model::text_report::TextReport;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// `pagewise text fold` with these options.
fn fold(place: &Place, options: &[&str], file: &Path, copy: &Path) -> Output {
    let words = [&["text", "fold", "--json"], options].concat();
    place.pagewise(&words).arg(file).arg("-o").arg(copy).output().unwrap()
}

/// The report of a fold that made a copy.
fn folded(place: &Place, options: &[&str], file: &Path, copy: &Path) -> FoldReport {
    let done = fold(place, options, file, copy);
    assert_eq!(done.status.code(), Some(0), "{}: {}", file.display(), said(&done.stderr));
    match SavedRun::from_json(&done.stdout).unwrap().body.unwrap() {
        RunBody::Text(TextReport::Fold { folded, .. }) => *folded,
        other => panic!("{other:?}"),
    }
}

/// Asserts that a copy has the bytes of its original except for the reported changes.
fn assert_same_bytes(file: &Path, copy: &Path, changes: &FoldChanges) {
    let (mut original, mut copied) = (std::fs::read(file).unwrap(), std::fs::read(copy).unwrap());
    let len = original.len() as u64;
    let appended = changes.appended.map_or(0, |range| {
        assert_eq!(range.offset_bytes.0, len);
        range.length_bytes.0
    });
    assert_eq!(copied.len() as u64, len + appended);
    assert!(copied[original.len()..].iter().all(|byte| *byte == 0));
    copied.truncate(original.len());
    for FileRange { offset_bytes, length_bytes } in &changes.edited {
        let start = offset_bytes.0 as usize;
        let end = start + length_bytes.0 as usize;
        original[start..end].fill(0);
        copied[start..end].fill(0);
    }
    assert!(original == copied, "{}: other bytes differ", copy.display());
}

/// How much of a file this method reaches, according to `explain`.
fn reach(folded: &FoldReport, method: TextMethod) -> Bytes {
    let reach = folded.original.reach.iter().find(|reach| reach.method == method);
    reach.unwrap().huge.sum()
}

/// Output and status of a program that reads no input.
fn ran(program: &Path, words: &[&str]) -> (String, String, Option<i32>) {
    let mut command = Command::new(program);
    let done = command.args(words).stdin(Stdio::null()).env("LC_ALL", "C").output().unwrap();
    (said(&done.stdout), said(&done.stderr), done.status.code())
}

/// Programs of distributions, with words that make them do something and exit.
const PROGRAMS: [(&str, &[&str]); 7] = [
    ("/usr/bin/true", &[]),
    ("/usr/bin/python3", &["-S", "-c", "import re, sys; print(re.sub('a+', 'b', 'caat'))"]),
    ("/usr/bin/git", &["--version"]),
    ("/usr/bin/gdb", &["--batch", "-nx", "-ex", "print 6 * 7"]),
    ("/usr/bin/redis-server", &["--version"]),
    ("/usr/bin/xz", &["--version"]),
    (
        "/usr/bin/node",
        &["-e", "try { null.x } catch (e) { console.log([3, 1, 2].sort(), e.name) }"],
    ),
];

#[test]
fn folded_programs_do_what_the_originals_do() {
    for (program, words) in PROGRAMS {
        let program = Path::new(program);
        if !program.exists() {
            println!("SKIP {}: not installed", program.display());
            continue;
        }
        // A copy is started by the name of the original, because some programs print their name.
        let place = Place::new();
        let copy = place.path().join(program.file_name().unwrap());
        let unfilled = ["--merge", "--force", "--pad-tail", "0"];
        for options in [&["--merge"][..], &["--force"][..], &unfilled[..]] {
            let folded = folded(&place, options, program, &copy);
            assert_same_bytes(program, &copy, &folded.changes);
            let method = if folded.is_merged { TextMethod::Merged } else { TextMethod::Aligned };
            let is_better = folded.copy.warmed().sum() > folded.original.warmed().sum();
            assert_eq!(is_better, !folded.changes.are_none(), "{:?}", folded.changes);
            let (predicted, made) = (reach(&folded, method), folded.copy.warmed().sum());
            // Pages between neighbours belonged to neither, but are mapped too.
            let slot = if options == unfilled { page_size::huge().bytes() } else { u64::MAX };
            let beyond = made.0.checked_sub(predicted.0).expect("no less than explain says");
            assert!(beyond < slot, "{:?}", folded.changes);
            assert_eq!(ran(&copy, words), ran(program, words), "{}", program.display());
        }
    }
}

/// The libraries of these names in the loader's usual directories.
fn libraries() -> Vec<PathBuf> {
    const NAMES: [&str; 8] = [
        "libstdc++.so.6",
        "libm.so.6",
        "libcrypto.so.3",
        "libsqlite3.so.0",
        "libgcc_s.so.1",
        "libpython3.11.so.1.0",
        "libicudata.so.72",
        "libicui18n.so.72",
    ];
    const PLACES: [&str; 4] =
        ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let path = |name: &str| {
        PLACES.iter().map(|place| Path::new(place).join(name)).find(|path| path.exists())
    };
    NAMES.iter().filter_map(|name| path(name)).collect()
}

#[test]
fn every_folded_library_is_loaded() {
    const TEST: &str = "every_folded_library_is_loaded";
    const LOAD: &str = "import ctypes, sys; ctypes.CDLL(sys.argv[1], mode=2); print('loaded')";
    let python = Path::new("/usr/bin/python3");
    if !python.exists() {
        return println!("SKIP {TEST}: no python3");
    }
    let place = Place::new();
    let mut changed = 0;
    for library in libraries() {
        for options in [&[][..], &["--merge"][..]] {
            let name = format!("{}{}", options.len(), library.file_name().unwrap().display());
            let copy = place.path().join(name);
            let folded = folded(&place, options, &library, &copy);
            assert_same_bytes(&library, &copy, &folded.changes);
            changed += usize::from(!folded.changes.are_none());
            let loaded = ran(python, &["-S", "-c", LOAD, copy.to_str().unwrap()]);
            assert_eq!(loaded, ("loaded\n".to_owned(), String::new(), Some(0)), "{copy:?}");
        }
    }
    if changed == 0 {
        println!("SKIP {TEST}: no library here has anything to win");
    }
}

#[test]
fn a_folded_c_library_serves_every_program() {
    let place = Place::new();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut paths = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    let Some(library) = paths.find(|path| path.ends_with("/libc.so.6")) else {
        return println!("SKIP a_folded_c_library_serves_every_program: this one has no libc.so.6");
    };
    let copy = place.path().join("libc.so.6");
    folded(&place, &["--merge"], Path::new(library), &copy);
    let mut command = Command::new("/bin/sh");
    command.env("LD_LIBRARY_PATH", place.path()).arg("-c");
    let done = command.arg("echo $((6 * 7)); cat /proc/self/maps").output().unwrap();
    let output = said(&done.stdout);
    assert!(done.status.success() && output.starts_with("42\n"), "{}", said(&done.stderr));
    assert!(output.contains(copy.to_str().unwrap()), "{output}");
}
