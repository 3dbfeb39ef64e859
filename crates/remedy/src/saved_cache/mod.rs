//! The page cache of files, saved as a list of pages and brought back later: after a restart of a service,
//! or of the machine.
//!
//! Saving looks and changes nothing; restoring reads exactly the pages that are missing, and never more
//! than it may. What a list says is not trusted: it is bounded, has to fit the files as they are, and names
//! regular files only.

mod restore;
mod save;

pub use restore::{Bounds, restore};
pub use save::{Found, files_of, save};

use pagewise_kernel::cached_file::CachedFile;
use pagewise_kernel::file_view::read_named;
use pagewise_kernel::page_size;
use pagewise_model::Bytes;
use pagewise_model::cache_list::{CacheList, PageRanges};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// No list is larger: it would name some ten million ranges.
const LARGEST: Bytes = Bytes::mib(64);

/// The list that is saved at `path`.
///
/// # Errors
/// A sentence that says what is wrong with it.
pub fn load(path: &Path) -> Result<CacheList, String> {
    let shown = path.display();
    let text = read_named(path, LARGEST)
        .map_err(|error| format!("cannot read `{shown}`: {}", error.source))?;
    CacheList::from_json(&text, page_size::base()).map_err(|why| format!("`{shown}`: {why}"))
}

fn inode(file: &CachedFile) -> Option<u64> {
    file.file().metadata().ok().map(|found| found.ino())
}

/// How much memory these pages take.
fn bytes(pages: &PageRanges) -> Bytes {
    Bytes(pages.count().saturating_mul(page_size::base().bytes()))
}
