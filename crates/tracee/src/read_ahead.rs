//! Reads a saved working set into the page cache before a program starts.
//!
//! A cold start waits for the device at each page that it touches first, one after the other. Here all parts
//! are requested at once (posix_fadvise(2), WILLNEED, in pieces that one call reads whole), then awaited by
//! reading them. So the device has them all in its queue. No fault finds a page that is still in transit,
//! which would also count as a major fault.
//!
//! Pages already in the page cache are not read. Each piece is probed at every sixteenth page and at its last
//! page, with a read that must not wait (`pagewise_kernel::page_probe`). Probing comes after all
//! requests, because a probe makes the kernel fetch some pages around it. On a quick device, a piece with
//! only its probed pages cached would then look complete. Requests and probes take some 2 us per 128 KiB that
//! is cached.
//!
//! A file that differs from the recorded one is left out. It must have the same length, and the same
//! modification time or build identifier. A set is loaded only from a regular file of at most 64 MiB that
//! names at most 10,000 files. So a grown file or a device costs neither memory nor time. At most half of the
//! available memory is used.

use crate::launch_error::LaunchError;
use object::{Object, ReadCache};
use pagewise_kernel::file_view::{open_regular, read_at_most};
use pagewise_kernel::page_probe::is_cached;
use pagewise_kernel::proc::meminfo;
use pagewise_model::fault::{WORKING_SET_SCHEMA, WorkingSet, WorkingSetFile, WorkingSetRange};
use pagewise_model::{Bytes, bounded};
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Size of one request. A call reads ahead no more than the device's window, which is at least this.
const PIECE: Bytes = Bytes::kib(128);
/// Distance of two probes in a piece.
const PROBE: Bytes = Bytes::kib(64);

/// Size limit of a set file. No recorded start gives a larger one.
const LARGEST: Bytes = Bytes::mib(64);
/// Maximum number of files in a set. All are open at the same time.
pub const MOST_FILES: usize = 10_000;

/// What to read before a start.
#[derive(Debug)]
pub struct ReadAheadPlan {
    files: Vec<(File, Vec<WorkingSetRange>)>,
    left_out: Vec<String>,
}

/// Result of a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadAheadOutcome {
    /// Bytes that had to be awaited.
    pub read: Bytes,
    /// Bytes found in the page cache, before or right after the request.
    pub found: Bytes,
}

/// Loads the working set that is saved at `path`.
///
/// # Errors
/// A sentence that says what is wrong with it.
pub fn load(path: &Path) -> Result<WorkingSet, String> {
    let shown = path.display();
    let unreadable = |why: String| format!("cannot read working set `{shown}`: {why}");
    let text = read_at_most(path, LARGEST).map_err(|e| unreadable(e.source.to_string()))?;
    let set: WorkingSet = bounded::from_json(&text)
        .map_err(|e| format!("`{shown}` is not a working set saved by `pagewise faults`: {e}"))?;
    if set.files.len() > MOST_FILES {
        let files = set.files.len();
        return Err(unreadable(format!("it names {files} files, more than {MOST_FILES}")));
    }
    if set.working_set_schema > WORKING_SET_SCHEMA {
        let newer = set.working_set_schema;
        return Err(format!("working set `{shown}` has form {newer}, newer than this pagewise"));
    }
    Ok(set)
}

/// Modification time of a file, in nanoseconds since 1970.
#[must_use]
pub fn modified(file: &File) -> Option<u64> {
    let meta = file.metadata().ok()?;
    let seconds = u64::try_from(meta.mtime()).ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(u64::try_from(meta.mtime_nsec()).ok()?)
}

/// The build identifier of an ELF file, in hexadecimal digits.
#[must_use]
pub fn build_id(file: &File) -> Option<String> {
    let cache = ReadCache::new(file);
    let elf = object::File::parse(&cache).ok()?;
    let id = elf.build_id().ok()??;
    Some(id.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl ReadAheadPlan {
    /// The parts of `set` whose files are unchanged.
    #[must_use]
    pub fn of(set: &WorkingSet) -> Self {
        let room = meminfo::read().map_or(0, |memory| memory.available.0 / 2);
        let mut plan = Self { files: Vec::new(), left_out: Vec::new() };
        let mut taken = 0_u64;
        for file in &set.files {
            let lengths = file.ranges.iter().map(|range| range.length_bytes.0);
            let with = lengths.fold(taken, u64::saturating_add);
            match unchanged(file) {
                Ok(_) if with > room => {
                    plan.left_out.push(format!("{}: not enough memory is available", file.path));
                }
                Ok(open) => {
                    taken = with;
                    plan.files.push((open, joined(&file.ranges)));
                }
                Err(why) => plan.left_out.push(format!("{}: {why}", file.path)),
            }
        }
        plan
    }

    /// The files that are not read, each with its reason.
    #[must_use]
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Reads what is missing. Returns when all of it is in the page cache.
    #[must_use]
    pub fn execute(&self) -> ReadAheadOutcome {
        let mut done = ReadAheadOutcome::default();
        for (file, offset, length) in self.pieces() {
            // Only a hint: the read below fetches whatever it does not bring.
            let _hint = fadvise(file, offset, NonZeroU64::new(length), Advice::WillNeed);
        }
        let mut buffer = vec![0; PIECE.0 as usize];
        for (file, offset, length) in self.pieces() {
            if is_there(file, offset, length) {
                done.found += Bytes(length);
                continue;
            }
            let part = buffer.get_mut(..length as usize).unwrap_or_default();
            // A read error here is ignored: the program will meet it.
            let read = file.read_at(part, offset).unwrap_or(0);
            done.read += Bytes(read as u64);
        }
        done
    }

    /// All parts to be read: file, offset and length.
    fn pieces(&self) -> impl Iterator<Item = (&File, u64, u64)> {
        self.files.iter().flat_map(|(file, ranges)| {
            let all = ranges.iter().flat_map(pieces);
            all.map(move |(offset, length)| (file, offset, length))
        })
    }
}

/// Reads the working set at `path`, if any, before a start.
pub(crate) fn before_start(path: Option<&str>) -> Result<(), LaunchError> {
    let Some(path) = path else { return Ok(()) };
    let set = load(Path::new(path)).map_err(|why| LaunchError::WorkingSet { why })?;
    let _done = ReadAheadPlan::of(&set).execute();
    Ok(())
}

/// The file, if it is the recorded one; otherwise how it differs.
fn unchanged(recorded: &WorkingSetFile) -> Result<File, String> {
    let gone = || "it does not exist, or cannot be read".to_owned();
    let (file, length) = open_regular(Path::new(&recorded.path)).map_err(|_error| gone())?;
    if length as u64 != recorded.size_bytes.0 {
        return Err("its length has changed".to_owned());
    }
    let is_within = |range: &WorkingSetRange| {
        let end = range.offset_bytes.0.checked_add(range.length_bytes.0);
        end.is_some_and(|end| end <= length as u64)
    };
    if !recorded.ranges.iter().all(is_within) {
        return Err("a part of it lies beyond its end".to_owned());
    }
    let is_same = modified(&file) == Some(recorded.modified_unix_ns)
        || (recorded.build_id.is_some() && build_id(&file) == recorded.build_id);
    if is_same { Ok(file) } else { Err("it has changed since".to_owned()) }
}

/// Joins adjacent ranges, so that fewer calls read them.
fn joined(ranges: &[WorkingSetRange]) -> Vec<WorkingSetRange> {
    let mut all: Vec<WorkingSetRange> = Vec::new();
    for range in ranges {
        match all.last_mut() {
            Some(last) if last.offset_bytes + last.length_bytes == range.offset_bytes => {
                last.length_bytes += range.length_bytes;
            }
            _ => all.push(*range),
        }
    }
    all
}

/// Splits a range into pieces: offset and length of each.
fn pieces(range: &WorkingSetRange) -> impl Iterator<Item = (u64, u64)> + use<> {
    let start = range.offset_bytes.0;
    let end = start.saturating_add(range.length_bytes.0);
    let step = PIECE.0;
    let next = move |offset: &u64| offset.checked_add(step).filter(|next| *next < end);
    let first = (start < end).then_some(start);
    std::iter::successors(first, next).map(move |offset| (offset, (end - offset).min(step)))
}

/// Whether the page cache seems to hold all of a piece.
fn is_there(file: &File, offset: u64, length: u64) -> bool {
    let last = offset + length - 1;
    (offset..=last).step_by(PROBE.0 as usize).chain([last]).all(|at| is_cached(file, at))
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
mod tests {
    use super::*;
    use pagewise_model::Nanos;

    const LENGTH: u64 = 300 << 10;

    fn range(offset: u64, length: u64) -> WorkingSetRange {
        WorkingSetRange {
            offset_bytes: Bytes(offset),
            length_bytes: Bytes(length),
            first_touch_ns: Nanos(0),
        }
    }

    /// A file, synced so that its pages can be dropped, and a set that names parts of it.
    fn made(dir: &Path) -> WorkingSet {
        let path = dir.join("data");
        std::fs::write(&path, vec![7; LENGTH as usize]).unwrap();
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        let recorded = WorkingSetFile {
            path: path.to_string_lossy().into_owned(),
            size_bytes: Bytes(LENGTH),
            modified_unix_ns: modified(&file).unwrap(),
            build_id: None,
            ranges: vec![range(0, 200 << 10), range(256 << 10, 44 << 10)],
        };
        let command = vec!["x".to_owned()];
        WorkingSet { working_set_schema: WORKING_SET_SCHEMA, command, files: vec![recorded] }
    }

    #[test]
    fn ranges_that_meet_are_read_as_one() {
        let ranges = [range(0, 10), range(10, 5), range(20, 1), range(21, 4)];
        assert_eq!(joined(&ranges), [range(0, 15), range(20, 5)]);
    }

    #[test]
    fn ranges_are_cut_into_pieces() {
        let all = |offset, length| pieces(&range(offset, length)).collect::<Vec<_>>();
        let step = PIECE.0;
        assert_eq!(all(10, 5), [(10, 5)]);
        assert_eq!(all(0, 2 * step), [(0, step), (step, step)]);
        assert_eq!(all(4096, step + 1), [(4096, step), (4096 + step, 1)]);
        assert!(all(9, 0).is_empty());
        assert_eq!(all(u64::MAX - 2, 9), [(u64::MAX - 2, 2)]);
    }

    #[test]
    fn what_was_dropped_is_read_and_what_is_there_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let set = made(dir.path());
        let plan = ReadAheadPlan::of(&set);
        assert!(plan.left_out().is_empty());
        let all = set.size();
        assert_eq!(plan.execute(), ReadAheadOutcome { read: Bytes(0), found: all });
        let file = File::open(&set.files[0].path).unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        let done = plan.execute();
        if done.read == Bytes(0) {
            println!("SKIP what_was_dropped_is_read: this file system keeps its pages");
        }
        // The probe of one piece may bring in the next one.
        assert_eq!(done.read + done.found, all);
        assert_eq!(plan.execute(), ReadAheadOutcome { read: Bytes(0), found: all });
    }

    #[test]
    fn a_file_that_has_changed_is_left_out_with_a_reason() {
        let dir = tempfile::tempdir().unwrap();
        let set = made(dir.path());
        let path = Path::new(&set.files[0].path);
        let why = |set: &WorkingSet| ReadAheadPlan::of(set).left_out().join("\n");
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
        assert!(why(&set).ends_with("data: it has changed since"), "{}", why(&set));
        file.set_len(LENGTH - 1).unwrap();
        assert!(why(&set).ends_with("its length has changed"), "{}", why(&set));
        let mut beyond = made(dir.path());
        beyond.files[0].ranges.push(range(LENGTH, u64::MAX));
        assert!(why(&beyond).ends_with("beyond its end"), "{}", why(&beyond));
        std::fs::remove_file(path).unwrap();
        assert!(why(&set).contains("does not exist"), "{}", why(&set));
    }

    #[test]
    fn a_program_written_anew_with_the_same_identifier_is_the_same() {
        let own = std::env::current_exe().unwrap();
        let file = File::open(&own).unwrap();
        let Some(id) = build_id(&file) else {
            println!("SKIP a_program_written_anew: this linker gives no build identifier");
            return;
        };
        assert!(id.len() >= 16 && id.bytes().all(|b| b.is_ascii_hexdigit()), "{id}");
        let recorded = |build_id: Option<String>| WorkingSetFile {
            path: own.to_string_lossy().into_owned(),
            size_bytes: Bytes(file.metadata().unwrap().len()),
            modified_unix_ns: 1,
            build_id,
            ranges: Vec::new(),
        };
        assert!(unchanged(&recorded(Some(id))).is_ok());
        assert!(unchanged(&recorded(Some("00".into()))).is_err());
        assert!(unchanged(&recorded(None)).is_err());
    }

    #[test]
    fn what_is_no_working_set_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("set");
        let said = || load(&path).unwrap_err();
        assert!(said().contains("cannot read"), "{}", said());
        std::fs::write(&path, b"{}").unwrap();
        assert!(said().contains("is not a working set"), "{}", said());
        let one = made(dir.path()).files[0].clone();
        let many = WorkingSet { files: vec![one; MOST_FILES + 1], ..made(dir.path()) };
        std::fs::write(&path, serde_json::to_vec(&many).unwrap()).unwrap();
        assert!(said().contains("it names 10001 files"), "{}", said());
        File::create(&path).unwrap().set_len(LARGEST.0 + 1).unwrap();
        assert!(said().contains("larger than 64.0 MiB"), "{}", said());
        let newer = WorkingSet { working_set_schema: 99, ..made(dir.path()) };
        std::fs::write(&path, serde_json::to_vec(&newer).unwrap()).unwrap();
        assert!(said().contains("newer than this pagewise"), "{}", said());
    }
}
