//! `--no-cache`: what the tools read and write leaves the page cache, and their output is the same.

use super::{await_some, ours, run};
use pagewise_kernel::cachestat;
use rustix::fs::Advice;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

const SIZE: usize = 12 << 20;
/// Bytes that may stay: the last page of a file is partial, and there is an input and an output.
const FEW: u64 = 1 << 17;

/// Bytes of a file in the page cache.
fn cached(path: &Path) -> Option<u64> {
    let file = File::open(path).unwrap();
    cachestat::read(&file, "a file").ok().map(|counts| counts.cached_bytes.0)
}

fn evict(path: &Path) {
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
}

/// A file of lines on a disk, with none of it cached. `None`, after a `SKIP` line, on other file systems.
fn input(place: &Path) -> Option<Vec<u8>> {
    let path = place.join("in");
    let lines = (0..SIZE / 20).map(|line| format!("{line:018}x\n"));
    let content = lines.collect::<String>().into_bytes();
    fs::write(&path, &content).unwrap();
    evict(&path);
    match cached(&path) {
        Some(0) => Some(content),
        left => {
            eprintln!("SKIP past the cache: this file system keeps its pages ({left:?})");
            None
        }
    }
}

/// The tool's output for `in`, given as an argument or as standard input.
fn pass(place: &Path, words: &[&str], by_name: bool) -> Vec<u8> {
    let (input, output) = (place.join("in"), place.join("out"));
    let mut command = ours(words[0]);
    command.args(&words[1..]).current_dir(place).stderr(Stdio::null());
    if by_name {
        command.arg("in");
    } else {
        command.stdin(File::open(&input).unwrap());
    }
    let done = command.stdout(File::create(&output).unwrap()).status().unwrap();
    assert!(done.success(), "{words:?}");
    File::open(&output).unwrap().sync_all().unwrap();
    let stays = |path: &Path| await_some(|| cached(path).filter(|bytes| *bytes <= FEW)).is_none();
    assert!(
        !stays(&input) && !stays(&output),
        "{words:?}: {:?} {:?}",
        cached(&input),
        cached(&output)
    );
    let got = fs::read(&output).unwrap();
    evict(&input);
    got
}

#[test]
fn what_is_read_and_written_leaves_the_cache() {
    let place = tempfile::tempdir().unwrap();
    let Some(content) = input(place.path()) else { return };
    for (words, by_name) in [
        (&["cat", "--no-cache"][..], true),
        (&["cat", "--no-cache"], false),
        (&["tee", "--no-cache", "third"], false),
        (&["meter", "-q", "--no-cache"], true),
        (&["meter", "-q", "-l", "--no-cache"], true),
    ] {
        assert!(pass(place.path(), words, by_name) == content, "{words:?}");
    }
    assert!(fs::read(place.path().join("third")).unwrap() == content);
    let mut plain = Command::new("cat");
    plain.args(["-n", "in"]);
    let numbered = run(plain, place.path(), b"").stdout;
    evict(&place.path().join("in"));
    assert!(pass(place.path(), &["cat", "-n", "--no-cache"], true) == numbered);
}
