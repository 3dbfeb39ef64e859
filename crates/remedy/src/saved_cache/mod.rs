//! Saves the page cache of files as a list of pages, and restores it later: after a restart of a service or
//! of the machine.
//!
//! Saving only reads and changes nothing. Restoring reads exactly the missing pages, within its bounds. The
//! content of a list is not trusted: it is limited in size, must match the files as they are, and may name
//! only regular files.

mod restore;
mod save;

pub use restore::{RestoreBounds, restore};
pub use save::{SavedCache, files_of, save};

use pagewise_kernel::cached_file::PageCacheFile;
use pagewise_kernel::file_view::read_named;
use pagewise_kernel::page_size;
use pagewise_model::Bytes;
use pagewise_model::cache_list::{CacheList, PageRanges};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Maximum size of a list; this is enough for some ten million ranges.
const LARGEST: Bytes = Bytes::mib(64);

/// Loads the list that is saved at `path`.
///
/// # Errors
/// A sentence that says what is wrong with it.
pub fn load(path: &Path) -> Result<CacheList, String> {
    let shown = path.display();
    let text = read_named(path, LARGEST)
        .map_err(|error| format!("cannot read `{shown}`: {}", error.source))?;
    CacheList::from_json(&text, page_size::base()).map_err(|why| format!("`{shown}`: {why}"))
}

fn inode(file: &PageCacheFile) -> Option<u64> {
    file.file().metadata().ok().map(|found| found.ino())
}

/// Bytes of memory for these pages.
fn bytes(pages: &PageRanges) -> Bytes {
    Bytes(pages.count().saturating_mul(page_size::base().bytes()))
}
