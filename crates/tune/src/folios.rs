//! How the page cache holds the files that an arm brings into huge folios, run by run.
//!
//! That state belongs to the file and outlives the run that made it, so an arm without it would start with
//! the state that the previous arm left. Before each run, outside of its clock, the files of other arms are
//! therefore restored to their state after a plain start: dropped from the cache, and read by one untimed run
//! of the unchanged program. Reading them back in any other way would give folios of other sizes. The number
//! of huge slots after that is the reference for an arm's own count. It is zero for code that `exec` maps,
//! and positive if a program reads in order.
//!
//! The check and refill at each start is done twice for an arm: once outside of the clock, and once more for
//! its time, because a user of the remedy pays it at each start.
//!
//! Not seen: the sizes of smaller folios, which differ from one reading to the next.

use pagewise_kernel::cached_file::PageCacheFile;
use pagewise_kernel::clock;
use pagewise_kernel::keep::CacheKeeper;
use pagewise_model::Nanos;
use pagewise_model::cache::{CacheOutcome, CacheSlot};
use pagewise_model::plan::HugeFile;
use pagewise_remedy::recache::RecacheSubject;
use pagewise_remedy::warmth;
use std::collections::BTreeMap;
use std::path::Path;

/// Files in their state after a plain start, with their huge slots.
#[derive(Debug, Default)]
pub(crate) struct NaturalFolios {
    natural: BTreeMap<String, u64>,
}

impl NaturalFolios {
    /// Files were dropped, and arms may have changed them since.
    pub(crate) fn has_changed(&self) -> bool {
        !self.natural.is_empty()
    }

    /// Drops those of `files` that are not in their state after a plain start. Returns true if there were
    /// any.
    pub(crate) fn drop_changed(
        &mut self,
        files: &[String],
        keeper: &mut CacheKeeper,
    ) -> Result<bool, String> {
        let mut any = false;
        for path in files {
            let huge = huge_slots(path)?;
            if self.natural.get(path).is_some_and(|natural| huge <= *natural) {
                continue;
            }
            keeper.release(Path::new(path));
            evict(path)?;
            self.natural.remove(path);
            any = true;
        }
        Ok(any)
    }

    /// Records the state of `files` after a plain start, and keeps them in it.
    pub(crate) fn settle(
        &mut self,
        files: &[String],
        keeper: &mut CacheKeeper,
    ) -> Result<(), String> {
        for path in files {
            if !self.natural.contains_key(path) {
                self.natural.insert(path.clone(), huge_slots(path)?);
                keeper.hold(Path::new(path));
            }
        }
        Ok(())
    }

    /// Brings `files` into huge folios; the time that a start takes to find them there.
    pub(crate) fn warm(files: &[HugeFile], keeper: &mut CacheKeeper) -> Result<Nanos, String> {
        if files.is_empty() {
            return Ok(Nanos(0));
        }
        for file in files {
            let path = Path::new(&file.path);
            keeper.release(path);
            // Not recorded: the session drops the pages that it has filled.
            let done = warmth::warm(file, |_| ());
            keeper.hold(path);
            if !done.took_hold() {
                let why = done.lack().unwrap_or_else(|| "none of it is on huge pages".to_owned());
                return Err(format!("{}: {why}", file.path));
            }
        }
        let start = clock::now();
        let _told_before = warmth::before_start(files, false);
        Ok(Nanos(clock::now().0.saturating_sub(start.0)))
    }

    /// The slots of `files` that are huge now, beyond those after a plain start.
    pub(crate) fn readings<'a>(
        &self,
        files: impl IntoIterator<Item = &'a str>,
    ) -> Vec<(String, u64)> {
        let natural = |path: &str| self.natural.get(path).copied().unwrap_or_default();
        let reading = |path: &str| {
            // A file that no longer exists has none.
            let huge = huge_slots(path).unwrap_or_default();
            (path.to_owned(), huge.saturating_sub(natural(path)))
        };
        files.into_iter().map(reading).collect()
    }
}

/// Slots of a file in huge folios.
fn huge_slots(path: &str) -> Result<u64, String> {
    let slots = PageCacheFile::open(Path::new(path)).and_then(|file| file.slots());
    slots.map(|slots| slots.count(CacheSlot::Huge)).map_err(|error| error.to_string())
}

/// Drops all of a file from the cache. Dirty pages are written to disk first, so that a file that was just
/// made does not end the experiment.
fn evict(path: &str) -> Result<(), String> {
    let file = PageCacheFile::open(Path::new(path));
    if let Ok(file) = &file {
        // If this fails, the file is checked anyway, and refused with the reason.
        let _unwritten = file.file().sync_data();
    }
    let done = file
        .and_then(RecacheSubject::look)
        .and_then(RecacheSubject::evict)
        .map_err(|e| e.to_string())?;
    match done.outcome {
        None | Some(CacheOutcome::Done | CacheOutcome::Already) => Ok(()),
        Some(
            CacheOutcome::Refused { why, .. }
            | CacheOutcome::Short { why }
            | CacheOutcome::Worse { why },
        ) => Err(format!("{path} cannot be dropped from the page cache: {why}")),
    }
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
mod tests {
    use super::*;
    use pagewise_kernel::page_size;
    use pagewise_model::Bytes;
    use pagewise_model::plan::FileKind;
    use std::io::Write;

    /// A file of two slots and a page, written page by page and brought to disk.
    fn written(dir: &Path) -> HugeFile {
        let path = dir.canonicalize().unwrap().join("file");
        let mut file = std::fs::File::create(&path).unwrap();
        let page = vec![7; page_size::base().bytes() as usize];
        for _ in 0..=2 * page_size::huge().bytes() / page.len() as u64 {
            file.write_all(&page).unwrap();
        }
        file.sync_all().unwrap();
        HugeFile::of(&path, FileKind::Input).unwrap()
    }

    #[test]
    fn each_arm_finds_its_files_as_it_needs_them() {
        let place = std::env::temp_dir().join(format!("pagewise-folios-{}", std::process::id()));
        std::fs::create_dir_all(&place).unwrap();
        let file = written(&place);
        let done = turns(&file);
        std::fs::remove_dir_all(&place).unwrap();
        if let Err(why) = done {
            println!("SKIP each_arm_finds_its_files_as_it_needs_them: {why}");
        }
    }

    /// Plain, huge, plain. An error if no huge folio is available here.
    fn turns(file: &HugeFile) -> Result<(), String> {
        let (mut folios, mut keeper) = (NaturalFolios::default(), CacheKeeper::new(Bytes::mib(64)));
        let paths = [file.path.clone()];
        let reading =
            |folios: &NaturalFolios| folios.readings(paths.iter().map(String::as_str))[0].1;
        let read = || std::fs::read(&file.path).unwrap();
        assert!(folios.drop_changed(&paths, &mut keeper)?, "how it lies is not known at first");
        read();
        folios.settle(&paths, &mut keeper).unwrap();
        let natural = huge_slots(&file.path)?;
        assert_eq!((reading(&folios), folios.drop_changed(&paths, &mut keeper)), (0, Ok(false)));
        NaturalFolios::warm(std::slice::from_ref(file), &mut keeper)?;
        assert_eq!(reading(&folios), 2_u64.saturating_sub(natural));
        // What we hold ourselves does not stand in the way.
        let changed = folios.drop_changed(&paths, &mut keeper).unwrap();
        assert_eq!(changed, natural < 2);
        read();
        folios.settle(&paths, &mut keeper).unwrap();
        assert_eq!(reading(&folios), 0);
        Ok(())
    }

    #[test]
    fn a_file_that_was_just_written_can_be_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fresh");
        std::fs::write(&path, vec![7; page_size::huge().bytes() as usize]).unwrap();
        if let Err(why) = evict(path.to_str().unwrap()) {
            assert!(why.contains("lives only in memory"), "{why}");
            println!("SKIP a_file_that_was_just_written_can_be_dropped: {why}");
        }
    }

    #[test]
    fn what_cannot_be_had_is_the_arms_failure() {
        let mut keeper = CacheKeeper::new(Bytes(0));
        let none = HugeFile { path: "/nonexistent/file".into(), kind: FileKind::Input };
        let why = NaturalFolios::warm(&[none], &mut keeper).unwrap_err();
        assert!(why.starts_with("/nonexistent/file: "), "{why}");
        assert_eq!(NaturalFolios::warm(&[], &mut keeper), Ok(Nanos(0)));
    }
}
