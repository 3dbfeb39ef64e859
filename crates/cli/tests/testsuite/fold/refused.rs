//! Files and names that are refused. Each refusal is one line with the next step and leaves nothing behind.

use super::{fold, folded};
use crate::helper::{PROGRAM, Place, as_nobody, is_root, open_place, said};
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output};

/// Asserts a refusal in one line that has a next step and these words.
fn assert_refused(done: &Output, words: &str) {
    let text = said(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() <= 2 && lines[0].starts_with("pagewise: "), "{text}");
    assert!(lines.iter().skip(1).all(|line| line.starts_with("help: ")), "{text}");
    assert!(lines[0].contains(words), "{text}");
    assert!(done.stdout.is_empty(), "{}", said(&done.stdout));
}

fn entries(place: &Place) -> Vec<String> {
    let names = place.path().read_dir().unwrap().flatten();
    let mut names: Vec<String> = names.map(|e| said(e.file_name().as_encoded_bytes())).collect();
    names.sort();
    names
}

#[test]
fn what_is_no_program_of_this_kind_is_refused() {
    let place = Place::new();
    let (file, copy) = (place.path().join("file"), place.path().join("copy"));
    let good = std::fs::read(PROGRAM).unwrap();
    let patched = |at: usize, value: &[u8]| {
        let mut bytes = good.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        bytes
    };
    let first = u64::from_le_bytes(good[32..40].try_into().unwrap()) as usize;
    let kind_of = |nth: usize| good[first + nth * 56];
    let loads: Vec<usize> = (0..20).filter(|nth| kind_of(*nth) == 1).collect();
    let second = first + loads[1] * 56;
    let its_offset = u64::from_le_bytes(good[second + 8..second + 16].try_into().unwrap());
    let cases = [
        (b"#!/bin/sh\n".to_vec(), "not a readable ELF file"),
        (good[..=its_offset as usize].to_vec(), "truncated or damaged"),
        (good[..70].to_vec(), "truncated or damaged"),
        (patched(5, &[2]), ""),
        (patched(4, &[1]), ""),
        (patched(56, &[0, 0]), "it has no loadable segment"),
        (patched(second + 8, &u64::MAX.to_le_bytes()), ""),
        (patched(second + 16, &(u64::MAX - 0xfff).to_le_bytes()), ""),
        (patched(second + 40, &[0; 8]), "larger in the file than in memory"),
    ];
    for (bytes, words) in cases {
        std::fs::write(&file, bytes).unwrap();
        assert_refused(&fold(&place, &["--merge"], &file, &copy), words);
        assert_eq!(entries(&place), ["file"]);
    }
    assert_refused(&fold(&place, &[], Path::new("/nonexistent/file"), &copy), "stat");
    assert_refused(&fold(&place, &[], place.path(), &copy), "not a regular file");
}

#[test]
fn the_file_itself_is_never_the_copy() {
    let place = Place::new();
    let path = |name: &str| place.path().join(name);
    let file = path("file");
    std::fs::copy(PROGRAM, &file).unwrap();
    std::fs::hard_link(&file, path("hard")).unwrap();
    symlink(&file, path("soft")).unwrap();
    symlink("/nonexistent/file", path("nowhere")).unwrap();
    std::fs::create_dir(path("directory")).unwrap();
    let before = entries(&place);
    for name in ["file", "hard", "soft"] {
        assert_refused(&fold(&place, &["--force"], &file, &path(name)), "is the file itself");
    }
    for name in ["nowhere", "directory"] {
        assert_refused(&fold(&place, &["--force"], &file, &path(name)), "not a regular file");
    }
    assert_eq!(entries(&place), before);
    assert!(std::fs::read(&file).unwrap() == std::fs::read(PROGRAM).unwrap());
}

#[test]
fn a_name_that_is_taken_is_replaced_only_when_asked_for() {
    let place = Place::new();
    let copy = place.path().join("copy");
    std::fs::write(&copy, b"there").unwrap();
    assert_refused(&fold(&place, &[], Path::new(PROGRAM), &copy), "already exists");
    assert_eq!(std::fs::read(&copy).unwrap(), b"there");
    folded(&place, &["--force"], Path::new(PROGRAM), &copy);
    assert!(std::fs::read(&copy).unwrap().starts_with(b"\x7fELF"));
    assert_eq!(entries(&place), ["copy"]);
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let place = Place::new();
    let copy = place.path().join("copy");
    let done = fold(&place, &["--pad-tail", "1G"], Path::new(PROGRAM), &copy);
    assert_refused(&done, "--pad-tail 1.0 GiB");
    let words = ["text", "fold", "--linker", "-o", "copy"];
    assert_eq!(place.pagewise(&words).output().unwrap().status.code(), Some(2));
    assert_eq!(place.pagewise(&["text", "fold", PROGRAM]).output().unwrap().status.code(), Some(2));
}

#[test]
fn a_directory_without_permission_or_room_is_reported() {
    const TEST: &str = "a_directory_without_permission_or_room_is_reported";
    let place = Place::new();
    let nowhere = place.path().join("none/copy");
    assert_refused(&fold(&place, &[], Path::new(PROGRAM), &nowhere), "No such file");
    if !is_root() {
        return println!("SKIP {TEST}: only root can become another account and mount");
    }
    let open = open_place("pagewise-fold-");
    let program = open.path().join("pagewise");
    let closed = open.path().join("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, Permissions::from_mode(0o755)).unwrap();
    let mut command = as_nobody(&program);
    command.args(["text", "fold", "--json"]).arg(&program).arg("-o").arg(closed.join("copy"));
    assert_refused(&command.output().unwrap(), "Permission denied");
    // A file system of half the size, in its own namespace.
    let size = std::fs::metadata(&program).unwrap().len() / 2;
    let script = format!(
        "mount -t tmpfs -o size={size} none \"$1\" || exit 77; \"$0\" text fold \"$0\" -o \"$1/copy\"; code=$?; ls -A \"$1\"; exit $code"
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script]).arg(&program).arg(&closed);
    let done = command.output().unwrap();
    if done.status.code() != Some(2) {
        return println!("SKIP {TEST}: no small file system: {}", said(&done.stderr));
    }
    assert_refused(&done, "No space left");
}
