//! The large files of a tree: files whose code it mapped, and files that it read and did not write, with
//! their page cache state after the tree has ended.
//!
//! Mapped code is found in `smaps` of each image before its memory is freed, the other files by their opens.
//! A file counts from the size of a huge page on. Afterwards each file is opened here to get its slots in a
//! fresh mapping, its layout if it has code, and the obstacles to refilling its cache (processes outside of
//! the tree that map it, a file system without large folios). Cost: 1 us a slot, and for each file a scan of
//! the mappings of all processes, some 30 us each.
//!
//! Not seen: files behind an inherited descriptor above standard input, those opened by io_uring, and names
//! that cannot appear in a list of files ([`HugeFile::of`]).

use crate::text::ElfFile;
use pagewise_kernel::cached_file::PageCacheFile;
use pagewise_kernel::file_view::is_placed_aligned;
use pagewise_kernel::page_size;
use pagewise_kernel::proc::smaps;
use pagewise_model::Bytes;
use pagewise_model::look::UsedFile;
use pagewise_model::plan::{FileKind, HugeFile};
use pagewise_tracee::mapped_file;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Files beyond these are not looked at, the largest first.
const MOST: usize = 64;

/// A file whose code is mapped, and the size of its largest mapping.
pub(super) type Mapped = (PathBuf, Bytes);

/// The files with code that the images of a tree mapped, with their largest mappings of it.
#[derive(Debug, Default)]
pub(super) struct TreeFiles {
    code: BTreeMap<PathBuf, Bytes>,
}

impl TreeFiles {
    pub(super) fn note_code(&mut self, code: &[Mapped]) {
        for (path, size) in code {
            let largest = self.code.entry(path.clone()).or_default();
            *largest = (*largest).max(*size);
        }
    }

    /// The final state of all of them, and of the files that were read.
    pub(super) fn finish(self, inputs: Vec<PathBuf>) -> Vec<UsedFile> {
        // A library is read by the loader, whatever the size of its code.
        let read = inputs.into_iter().filter(|path| !self.code.contains_key(path));
        let read: Vec<PathBuf> = read.collect();
        let huge = Bytes(page_size::huge().bytes());
        let large = self.code.into_iter().filter(|(_, largest)| *largest >= huge);
        let code = large.map(|(path, _)| (path, FileKind::Code));
        let all = code.chain(read.into_iter().map(|path| (path, FileKind::Input)));
        let size = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.len());
        let mut all: Vec<(PathBuf, FileKind)> = all.collect();
        all.sort_by_cached_key(|(path, _)| std::cmp::Reverse(size(path)));
        all.truncate(MOST);
        all.into_iter().filter_map(|(path, kind)| used(&path, kind)).collect()
    }
}

/// The files whose code a process maps, without those that have another path here.
pub(super) fn of_code(entries: &[smaps::SmapsEntry]) -> Vec<Mapped> {
    let mapped = entries.iter().map(|entry| &entry.mapping);
    let code = mapped.filter(|mapping| mapping.is_file() && mapping.perms.exec);
    let code = code.filter(|mapping| mapped_file::is_here(mapping));
    code.map(|mapping| (PathBuf::from(&mapping.path), mapping.size())).collect()
}

/// The facts about a file. `None` if it no longer exists or does not count.
fn used(path: &Path, kind: FileKind) -> Option<UsedFile> {
    let HugeFile { path: spelled, .. } = HugeFile::of(path, kind)?;
    let file =
        PageCacheFile::open(path).ok().filter(|f| f.size().0 >= page_size::huge().bytes())?;
    let layout = match kind {
        FileKind::Code => Some(ElfFile::read(file.file()).ok()?.layout),
        FileKind::Input => None,
    };
    let len = usize::try_from(file.size().0).ok()?;
    Some(UsedFile {
        path: spelled,
        kind,
        size_bytes: file.size(),
        slots: file.slots().ok()?,
        is_placed_aligned: layout.is_some() && is_placed_aligned(file.file(), len),
        layout,
        obstacle: obstacle(&file),
    })
}

/// Why its cache cannot be filled again.
fn obstacle(file: &PageCacheFile) -> Option<String> {
    let kind = file.file_system().ok()?;
    if kind.is_in_memory {
        return Some(format!("it lives only in memory ({})", kind.name));
    }
    if kind.has_no_large_folios {
        return Some(format!("{} caches files only in base pages", kind.name));
    }
    let holders = file.holders().ok()?.seen;
    let first = holders.first()?;
    let more = if holders.len() > 1 { " and others" } else { "" };
    Some(format!("{} ({}){more} maps it", first.name, first.pid))
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
mod tests {
    use super::*;
    use pagewise_kernel::proc::own_pid;

    #[test]
    fn a_large_file_that_was_read_is_reported_and_a_small_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let (large, small) = (dir.join("large"), dir.join("small"));
        std::fs::write(&large, vec![1; 3 * page_size::huge().bytes() as usize + 1]).unwrap();
        std::fs::write(&small, [1]).unwrap();
        let gone = dir.join("gone");
        let found = TreeFiles::default().finish(vec![large.clone(), small, gone]);
        let [one] = &found[..] else { panic!("{found:?}") };
        assert_eq!((Path::new(&one.path), one.kind), (large.as_path(), FileKind::Input));
        assert_eq!((one.slots.0.len(), one.layout.is_none()), (4, true));
        assert!(one.size_bytes > Bytes(0));
    }

    #[test]
    fn this_program_is_code_of_its_own() {
        let entries = smaps::read(own_pid()).unwrap();
        let own = std::env::current_exe().unwrap().canonicalize().unwrap();
        let mut files = TreeFiles::default();
        files.note_code(&of_code(&entries));
        let size = files.code[&own];
        assert!(files.finish(vec![own.clone()]).iter().all(|file| file.kind == FileKind::Code));
        if size < Bytes(page_size::huge().bytes()) {
            println!("SKIP this_program_is_code_of_its_own: it is smaller than a huge page");
            return;
        }
        let file = used(&own, FileKind::Code).unwrap();
        assert!(file.layout.is_some_and(|l| l.segments.iter().any(|s| s.is_executable)));
        // This process maps it and is left out of those that hold it. A test running in parallel may not be.
        let reported = file.obstacle.unwrap_or_default();
        assert!(!reported.contains(&own_pid().to_string()), "{reported}");
    }
}
