//! The base page of the running kernel: 4, 16 or 64 KiB, found at run time in the auxiliary vector.

use pagewise_model::PageSize;
use std::sync::OnceLock;

/// The base page. No system call: the kernel passes `AT_PAGESZ` at exec.
#[must_use]
pub fn base() -> PageSize {
    let bytes = rustix::param::page_size() as u64;
    PageSize::new(bytes).unwrap_or(PageSize::BASE_4K)
}

/// The largest transparent huge page. If that is unknown, the span of one middle-level table entry: a page
/// full of 8-byte entries, each for one base page. Read once: it does not change while a kernel runs.
#[must_use]
pub fn huge() -> PageSize {
    static FOUND: OnceLock<PageSize> = OnceLock::new();
    *FOUND.get_or_init(|| crate::thp::huge_page_size().unwrap_or_else(|_| pmd_span(base())))
}

fn pmd_span(base: PageSize) -> PageSize {
    PageSize::new(base.bytes() / 8 * base.bytes()).unwrap_or(PageSize::PMD_2M)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::Bytes;

    #[test]
    fn spans_of_the_three_base_pages() {
        let span = |kib| pmd_span(PageSize::new(Bytes::kib(kib).0).unwrap()).bytes();
        assert_eq!(span(4), PageSize::PMD_2M.bytes());
        assert_eq!(span(16), Bytes::mib(32).0);
        assert_eq!(span(64), Bytes::mib(512).0);
    }

    #[test]
    fn base_divides_huge() {
        assert_eq!(huge().bytes() % base().bytes(), 0);
    }
}
