//! An ELF file with its page cache: how much of its code is on huge pages.

use super::super::cache::failure;
use super::sizes;
use crate::failure::CommandFailure;
use pagewise_judge::text as judged;
use pagewise_kernel::cached_file::PageCacheFile;
use pagewise_kernel::file_view::is_placed_aligned;
use pagewise_model::Fact;
use pagewise_model::cache;
use pagewise_model::text::{CacheSeen, ElfLayout, TextFile};
use pagewise_observe::text::ElfFile;
use pagewise_remedy::recache::RecacheSubject;
use pagewise_tracee::launch::ProgramLaunch;
use std::path::{Path, PathBuf};

/// An opened file that loaders can map.
pub(super) struct OpenedElf {
    pub(super) path: PathBuf,
    pub(super) elf: ElfFile,
    pub(super) file: PageCacheFile,
}

/// Opens an ELF file. A bare name that is no file here is looked up in PATH.
pub(super) fn open(named: &Path) -> Result<OpenedElf, CommandFailure> {
    let in_path = || ProgramLaunch::experiment(vec![named.into()]).file().ok();
    let is_bare = named.parent().is_some_and(|parent| parent.as_os_str().is_empty());
    let found = if is_bare && !named.exists() { in_path() } else { None };
    let path = found.as_deref().unwrap_or(named);
    let file = PageCacheFile::open(path).map_err(|error| failure(&error))?;
    let elf = ElfFile::read(file.file()).map_err(|error| {
        CommandFailure::usage(format!("{}: {error}", path.display()))
            .with_help("name a program or a library; for a script, name its interpreter")
    })?;
    Ok(OpenedElf { path: path.to_owned(), elf, file })
}

/// How much of its code is on huge pages in a program that starts now, with nothing changed.
pub(super) fn looked_at(opened: OpenedElf) -> Result<TextFile, CommandFailure> {
    let (placed, file) = FilePlacement::from_opened(opened)?;
    let cache = RecacheSubject::look(file).map_err(|error| failure(&error))?.shown();
    Ok(placed.explain(cache))
}

/// How a file is mapped; must be determined before the file is handed over.
pub(super) struct FilePlacement {
    layout: ElfLayout,
    is_placed_aligned: bool,
    base_pages_alone: Option<String>,
}

impl FilePlacement {
    /// The placement of this file, and the file.
    pub(super) fn from_opened(opened: OpenedElf) -> Result<(Self, PageCacheFile), CommandFailure> {
        let OpenedElf { elf, file, .. } = opened;
        let kind = file.file_system().map_err(|error| failure(&error))?;
        let len = usize::try_from(file.size().0).unwrap_or(usize::MAX);
        let placed = Self {
            layout: elf.layout,
            is_placed_aligned: is_placed_aligned(file.file(), len),
            base_pages_alone: kind.base_pages_alone(),
        };
        Ok((placed, file))
    }

    /// Explains the pages of its code, from the current state of the cache.
    pub(super) fn explain(self, cache: cache::FileCacheReport) -> TextFile {
        let (layout, aligned) = (self.layout, self.is_placed_aligned);
        let slots = Fact::Known(cache.now().slots.clone());
        let seen = CacheSeen { slots, base_pages_alone: self.base_pages_alone };
        let areas = judged::explain_file(&layout, aligned, &seen, &sizes());
        let reach = judged::reach(&layout, aligned, &sizes());
        TextFile { cache, layout, size: judged::size(&areas), areas, reach }
    }
}
