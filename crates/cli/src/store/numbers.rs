//! Numbers of saved runs. A run keeps its number for good.
//!
//! A file holds the names of the runs, one a line. The line number is the run's number. A removed run leaves
//! its line, so its number is never reused. Adding lines needs a lock (flock(2)). Runs that were not saved
//! here (copied, or from an older pagewise) get numbers when they are first seen, oldest first. If the file
//! cannot be written, their numbers hold only for this process.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The numbered names, the first with number 1. Adds the names in `present` (oldest first) that have no number.
pub(super) fn lines(file: &Path, present: &[String]) -> Vec<String> {
    let mut opened = open(file);
    let mut bytes = Vec::new();
    if let Ok(file) = &mut opened {
        let is_locked = file.lock().is_ok();
        let is_read = file.read_to_end(&mut bytes).is_ok();
        // Without the lock or the list, others may assign the same numbers: new ones hold only for this process.
        if !is_locked || !is_read {
            opened = Err(std::io::ErrorKind::Unsupported.into());
        }
    }
    let text = String::from_utf8_lossy(&bytes);
    let mut names: Vec<String> = text.lines().map(str::to_owned).collect();
    let known: BTreeSet<&str> = text.lines().collect();
    // A name with a line break would take two lines.
    let is_new = |name: &&String| !known.contains(name.as_str()) && !name.contains('\n');
    let new: Vec<String> = present.iter().filter(is_new).cloned().collect();
    if !new.is_empty() {
        let cut = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        let added = format!("{cut}{}\n", new.join("\n"));
        if let Ok(mut file) = opened {
            let _for_this_start = file.write_all(added.as_bytes());
        }
    }
    names.extend(new);
    names
}

fn open(file: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600);
    options.open(file).or_else(|_| File::open(file))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_number_stays_and_is_given_once() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("numbers");
        let of = |present: &[&str]| {
            lines(&file, &present.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(of(&["b", "c"]), ["b", "c"]);
        // An older run comes in, and a newer one; then the first is removed.
        assert_eq!(of(&["a", "b", "c", "d"]), ["b", "c", "a", "d"]);
        assert_eq!(of(&["c", "e\nf", "g"]), ["b", "c", "a", "d", "g"]);
        // A truncated line ends there.
        std::fs::write(&file, "b\nc").unwrap();
        assert_eq!(of(&["c", "d"]), ["b", "c", "d"]);
        assert_eq!(of(&["c", "d"]), ["b", "c", "d"]);
    }

    #[test]
    fn a_line_that_is_no_text_keeps_its_number_from_others() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("numbers");
        std::fs::write(&file, b"a\n\xff\n").unwrap();
        for _ in 0..2 {
            let names = lines(&file, &["a".to_owned(), "b".to_owned()]);
            assert_eq!((names.len(), names[0].as_str(), names[2].as_str()), (3, "a", "b"));
        }
    }

    #[test]
    fn numbers_taken_at_once_differ() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("numbers");
        std::thread::scope(|scope| {
            for n in 0..8 {
                let file = &file;
                scope.spawn(move || lines(file, &[format!("run {n}")]));
            }
        });
        let all = lines(&file, &[]);
        assert_eq!((all.len(), all.iter().collect::<BTreeSet<_>>().len()), (8, 8));
    }

    #[test]
    fn where_nothing_can_be_written_runs_are_numbered_all_the_same() {
        let nowhere = Path::new("/proc/self/nowhere");
        assert_eq!(lines(nowhere, &["a".to_owned()]), ["a"]);
    }
}
