//! The pool of reserved huge pages and its users. The unit is a page of the pool's size.
//!
//! The kernel keeps two kinds of pages in it (Documentation/admin-guide/mm/hugetlbpage.rst). Pages that were
//! requested (`nr_hugepages`) stay until fewer are requested. *Surplus* pages leave with their last user. A
//! *reserved* page is still free, but promised to a mapping.

use crate::schema::JsonSchema;
use crate::units::{Bytes, PageSize};
use serde::{Deserialize, Serialize};

/// The pool of one page size at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HugePool {
    /// Size of a page of the pool.
    pub page_bytes: PageSize,
    /// Number of pages that were requested and exist, in use or not.
    pub pages: u64,
    /// Number of unused pages, including surplus ones.
    pub free_pages: u64,
    /// Number of free pages that are promised to mappings.
    pub reserved_pages: u64,
    /// Number of pages beyond those that were requested.
    pub surplus_pages: u64,
    /// Number of pages that may be added; 0 if nothing on the machine may be changed.
    pub addable_pages: u64,
}

impl HugePool {
    /// Number of pages that a new mapping can have.
    #[must_use]
    pub const fn available_pages(&self) -> u64 {
        self.free_pages.saturating_sub(self.reserved_pages)
    }

    /// Memory that a new mapping can have.
    #[must_use]
    pub const fn available(&self) -> Bytes {
        self.size(self.available_pages())
    }

    /// Size of this number of pages.
    #[must_use]
    pub const fn size(&self, pages: u64) -> Bytes {
        Bytes(pages.saturating_mul(self.page_bytes.bytes()))
    }
}

impl std::fmt::Display for HugePool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { pages, free_pages, reserved_pages, surplus_pages, .. } = self;
        write!(f, "{pages} pages, {free_pages} free")?;
        if *reserved_pages > 0 {
            write!(f, ", {reserved_pages} of them promised")?;
        }
        if *surplus_pages > 0 {
            write!(f, "; {surplus_pages} more until they are released")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(free_pages: u64, reserved_pages: u64, surplus_pages: u64) -> HugePool {
        let page_bytes = PageSize::PMD_2M;
        HugePool {
            page_bytes,
            pages: 9,
            free_pages,
            reserved_pages,
            surplus_pages,
            addable_pages: 0,
        }
    }

    #[test]
    fn what_is_promised_is_not_to_be_had() {
        assert_eq!(pool(5, 2, 0).available(), Bytes::mib(6));
        assert_eq!(pool(2, 5, 0).available_pages(), 0);
        assert_eq!(
            pool(5, 2, 1).to_string(),
            "9 pages, 5 free, 2 of them promised; 1 more until they are released"
        );
        assert_eq!(pool(9, 0, 0).to_string(), "9 pages, 9 free");
    }
}
