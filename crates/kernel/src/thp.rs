//! Transparent huge pages: the machine's settings under `/sys/kernel/mm/transparent_hugepage`.
//!
//! A setting is shown as a list with the chosen word in brackets. Sizes other than the largest
//! (multi-size THP, Linux 6.8) have a directory each, `hugepages-<n>kB`. See
//! `Documentation/admin-guide/mm/transhuge.rst`. Reading costs about 10 us per file.

use crate::error::SysError;
use crate::proc::{read_bytes, read_number, read_text};
use pagewise_model::machine::SmallFolios;
use pagewise_model::{Bytes, PageSize};
use std::path::{Path, PathBuf};

const DIR: &str = "/sys/kernel/mm/transparent_hugepage";

/// The word in brackets, or the whole text without brackets.
#[must_use]
pub fn chosen(text: &str) -> Option<&str> {
    match text.split_once('[') {
        Some((_, rest)) => rest.split_once(']').map(|(word, _)| word),
        None => Some(text.trim()).filter(|t| !t.is_empty()),
    }
}

fn setting(file: &str) -> Result<String, SysError> {
    let path = format!("{DIR}/{file}");
    let text = read_text(&path)?;
    chosen(&text).map(str::to_owned).ok_or_else(|| SysError::malformed("read", path))
}

/// `enabled`: `always`, `madvise` or `never`.
pub fn enabled() -> Result<String, SysError> {
    setting("enabled")
}

/// The word for anonymous memory on the largest huge page: that of its size (`hugepages-<n>kB/enabled`, Linux
/// 6.8) unless it is `inherit`, otherwise [`enabled`].
pub fn enabled_largest() -> Result<String, SysError> {
    let largest = huge_page_size()?;
    let own = setting(&format!("hugepages-{}kB/enabled", largest.bytes() >> 10));
    match own {
        Ok(word) if word != "inherit" => Ok(word),
        _ => enabled(),
    }
}

/// `defrag`: behaviour of a fault when no huge page is free.
pub fn defrag() -> Result<String, SysError> {
    setting("defrag")
}

/// `shmem_enabled`: huge pages for shared memory.
pub fn shmem_enabled() -> Result<String, SysError> {
    setting("shmem_enabled")
}

/// `hpage_pmd_size`: the size of the largest transparent huge page.
pub fn huge_page_size() -> Result<PageSize, SysError> {
    let path = format!("{DIR}/hpage_pmd_size");
    let malformed = || SysError::malformed("read", path.clone());
    let bytes = u64::try_from(read_number(&path)?).map_err(|_| malformed())?;
    PageSize::new(bytes).ok_or_else(malformed)
}

/// One size of transparent huge pages and whether it is offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThpSizeControl {
    pub size: PageSize,
    /// `always`, `madvise`, `inherit` or `never` for anonymous memory; `None` if not offered.
    pub enabled: Option<String>,
    /// The word for shared memory; `None` if not offered.
    pub shmem_enabled: Option<String>,
}

/// The file below `root` that says which memory may use folios of this size.
fn control(root: &Path, size: PageSize) -> PathBuf {
    root.join(format!("hugepages-{}kB/enabled", size.bytes() >> 10))
}

/// The directory of the settings.
#[must_use]
pub fn root() -> &'static Path {
    Path::new(DIR)
}

/// Which anonymous memory may use folios of this size (`always`, `inherit`, `madvise`, `never`), according to
/// the settings below `root`.
pub fn word(root: &Path, size: PageSize) -> Result<String, SysError> {
    let path = control(root, size).display().to_string();
    let text = read_text(&path)?;
    chosen(&text).map(str::to_owned).ok_or_else(|| SysError::malformed("read", path))
}

/// Sets this word for the whole machine.
pub fn set_word(root: &Path, size: PageSize, word: &str) -> Result<(), SysError> {
    let path = control(root, size);
    std::fs::write(&path, word).map_err(|e| SysError::new("write", path.display().to_string(), e))
}

/// Number of folios of this size allocated by faults on anonymous memory so far, on the whole machine.
pub fn folio_faults(size: PageSize) -> Result<u64, SysError> {
    let count =
        read_number(format!("{DIR}/hugepages-{}kB/stats/anon_fault_alloc", size.bytes() >> 10))?;
    Ok(u64::try_from(count).unwrap_or_default())
}

/// Which memory may use small folios and the largest ones now.
pub fn small_folios() -> Result<SmallFolios, SysError> {
    let (small, largest) = (SmallFolios::SIZE, huge_page_size()?);
    let words = (word(root(), small)?, word(root(), largest)?);
    Ok(SmallFolios { small: words.0, largest: words.1, may_change: false })
}

/// Every size that this kernel supports, smallest first; empty before multi-size THP.
pub fn sizes() -> Result<Vec<ThpSizeControl>, SysError> {
    let control = |(size, dir): (PageSize, PathBuf)| {
        let word = |file: &str| {
            let text = read_bytes(dir.join(file)).ok()?;
            chosen(&String::from_utf8_lossy(&text)).map(str::to_owned)
        };
        ThpSizeControl { size, enabled: word("enabled"), shmem_enabled: word("shmem_enabled") }
    };
    Ok(sized_directories(DIR)?.into_iter().map(control).collect())
}

/// The directories `hugepages-<n>kB` in `dir` with their page sizes, smallest first.
pub(crate) fn sized_directories(dir: &str) -> Result<Vec<(PageSize, PathBuf)>, SysError> {
    let fail = |e| SysError::new("read_dir", dir, e);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let size = entry.file_name().to_str().and_then(size_of_directory);
        found.extend(size.map(|size| (size, entry.path())));
    }
    found.sort_unstable();
    Ok(found)
}

/// Parses the page size in a directory name `hugepages-<n>kB`.
fn size_of_directory(name: &str) -> Option<PageSize> {
    let kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
    PageSize::new(Bytes(kib.checked_mul(1024)?).0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bracketed_word() {
        assert_eq!(chosen("always [madvise] never"), Some("madvise"));
        assert_eq!(chosen("always inherit madvise [never]\n"), Some("never"));
        assert_eq!(chosen("1\n"), Some("1"));
        assert_eq!(chosen("broken [word"), None);
        assert_eq!(chosen(""), None);
    }

    #[test]
    fn directories() {
        assert_eq!(size_of_directory("hugepages-2048kB"), Some(PageSize::PMD_2M));
        assert_eq!(size_of_directory("hugepages-3kB"), None);
        assert_eq!(size_of_directory("hugepages-99999999999999999kB"), None);
        assert_eq!(size_of_directory("khugepaged"), None);
    }
}
