//! A saved page cache: which pages of which files it held, and what came of bringing them back.
//!
//! Pages are counted from the beginning of their file. Saved, the pages of a file are a list of numbers
//! that alternate: so many pages are skipped, so many were cached. That is the shortest form in JSON,
//! its ranges are in order, and none touches another.

use crate::measured::Fact;
use crate::units::{Bytes, PageSize};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Error as _;
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::ops::Range;

/// Version of the saved form.
pub const CACHE_LIST_SCHEMA: u32 = 1;

/// What the page cache held of some files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CacheList {
    /// Version of this form.
    pub cache_list_schema: u32,
    /// The page in which ranges are counted.
    pub page_bytes: PageSize,
    /// The files and directories that were asked for.
    pub roots: Vec<String>,
    /// By path; those of which nothing was cached are left out.
    pub files: Vec<ListedFile>,
}

/// One file of it, as it was when it was saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListedFile {
    /// From the root directory on.
    pub path: String,
    pub size_bytes: Bytes,
    /// When it was last written, since 1970.
    pub modified_unix_ns: u64,
    pub inode: u64,
    /// Those that were cached.
    pub pages: PageRanges,
}

/// Ranges of pages in order; none touches another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageRanges(Vec<Range<u64>>);

impl PageRanges {
    /// These ranges, which are in order; those that touch become one.
    #[must_use]
    pub fn merged(ranges: impl IntoIterator<Item = Range<u64>>) -> Self {
        let mut all: Vec<Range<u64>> = Vec::new();
        for range in ranges.into_iter().filter(|range| range.start < range.end) {
            match all.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => all.push(range),
            }
        }
        Self(all)
    }

    #[must_use]
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.0
    }

    /// How many pages are in them.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().map(|range| range.end - range.start).sum()
    }

    /// The page after the last.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.0.last().map_or(0, |range| range.end)
    }

    /// The pages that are in both.
    #[must_use]
    pub fn shared_with(&self, other: &Self) -> Self {
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut both = Vec::new();
        while let (Some(one), Some(two)) = (a.peek(), b.peek()) {
            let ends_first = one.end < two.end;
            both.push(one.start.max(two.start)..one.end.min(two.end));
            if ends_first {
                a.next()
            } else {
                b.next()
            };
        }
        Self::merged(both)
    }

    /// The pages that are not in `other`.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let starts = std::iter::once(0).chain(other.0.iter().map(|range| range.end));
        let ends = other.0.iter().map(|range| range.start).chain([u64::MAX]);
        let gaps = starts.zip(ends).map(|(start, end)| start..end);
        self.shared_with(&Self::merged(gaps))
    }
}

impl JsonSchema for PageRanges {
    fn schema_name() -> Cow<'static, str> {
        Vec::<u64>::schema_name()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Vec::<u64>::json_schema(generator)
    }
    fn inline_schema() -> bool {
        true
    }
}

impl Serialize for PageRanges {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let mut list = out.serialize_seq(Some(2 * self.0.len()))?;
        let mut at = 0;
        for range in &self.0 {
            list.serialize_element(&(range.start - at))?;
            list.serialize_element(&(range.end - range.start))?;
            at = range.end;
        }
        list.end()
    }
}

impl<'de> Deserialize<'de> for PageRanges {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let numbers = Vec::<u64>::deserialize(from)?;
        let (pairs, rest) = numbers.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(D::Error::custom("an odd number of page counts"));
        }
        let mut ranges: Vec<Range<u64>> = Vec::with_capacity(pairs.len());
        let mut at = 0_u64;
        for &[skipped, cached] in pairs {
            if cached == 0 || (skipped == 0 && !ranges.is_empty()) {
                return Err(D::Error::custom("a page count of 0"));
            }
            let start = at.checked_add(skipped);
            let end = start.and_then(|start| start.checked_add(cached));
            let (Some(start), Some(end)) = (start, end) else {
                return Err(D::Error::custom("page counts beyond any file"));
            };
            ranges.push(start..end);
            at = end;
        }
        Ok(Self(ranges))
    }
}

impl CacheList {
    /// Reads a saved list that is for a machine with pages of size `page`.
    ///
    /// # Errors
    /// A phrase that says why it is none, or cannot be used.
    pub fn from_json(text: &[u8], page: PageSize) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Head {
            cache_list_schema: u32,
        }
        let no_list = |e: serde_json::Error| format!("not a list of `pagewise cache save`: {e}");
        let head: Head = serde_json::from_slice(text).map_err(no_list)?;
        let found = head.cache_list_schema;
        if found > CACHE_LIST_SCHEMA {
            return Err(format!(
                "saved by a newer pagewise (form {found}, this one reads up to {CACHE_LIST_SCHEMA})"
            ));
        }
        let list: Self = serde_json::from_slice(text).map_err(no_list)?;
        list.check(page)?;
        Ok(list)
    }

    fn check(&self, page: PageSize) -> Result<(), String> {
        if self.page_bytes != page {
            let saved = self.page_bytes;
            return Err(format!(
                "saved with pages of {saved}, but those of this machine are {page}"
            ));
        }
        for file in &self.files {
            let path = &file.path;
            if !path.starts_with('/') {
                return Err(format!("the path `{path}` does not begin with a slash"));
            }
            if file.pages.end() > file.size_bytes.pages(page) {
                return Err(format!("pages beyond the end of `{path}`"));
            }
        }
        Ok(())
    }

    /// How many pages it names.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.files.iter().map(|file| file.pages.count()).fold(0, u64::saturating_add)
    }
}

/// What became of one file of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RestoredFile {
    pub path: String,
    /// How much of it was to be brought back.
    pub listed_bytes: Bytes,
    /// Of that, what was cached before.
    pub before_bytes: Fact<Bytes>,
    /// Of that, what is cached now.
    pub resident_bytes: Bytes,
    /// Why not all was tried.
    pub left_out: Option<String>,
}

/// What `pagewise cache restore` did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CacheRestore {
    pub files: Vec<RestoredFile>,
    /// How much was asked of the devices.
    pub read_bytes: Bytes,
    /// The most that could be read.
    pub limit_bytes: Bytes,
    /// The most in a second; absent without a limit.
    pub rate_bytes: Option<Bytes>,
    /// Why it ended before the end of the list.
    pub ended_early: Option<String>,
    /// Whether a signal ended it.
    pub interrupted: bool,
}

impl CacheRestore {
    /// How much the list names.
    #[must_use]
    pub fn listed(&self) -> Bytes {
        self.files.iter().fold(Bytes(0), |sum, file| sum + file.listed_bytes)
    }

    /// How much of that is cached now.
    #[must_use]
    pub fn resident(&self) -> Bytes {
        self.files.iter().fold(Bytes(0), |sum, file| sum + file.resident_bytes)
    }

    /// Whether all of the list is cached now.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.resident() >= self.listed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: PageSize = PageSize::BASE_4K;

    fn ranges(all: &[Range<u64>]) -> PageRanges {
        PageRanges::merged(all.iter().cloned())
    }

    fn list(pages: &str) -> String {
        format!(
            "{{\"cache_list_schema\":1,\"page_bytes\":{},\"roots\":[],\"files\":[{{\"path\":\"/f\",\
             \"size_bytes\":{},\"modified_unix_ns\":1,\"inode\":2,\"pages\":{pages}}}]}}",
            PAGE.bytes(),
            10 * PAGE.bytes() - 1,
        )
    }

    fn refusal(text: &str) -> String {
        CacheList::from_json(text.as_bytes(), PAGE).unwrap_err()
    }

    #[test]
    fn touching_ranges_become_one_and_are_saved_as_what_is_skipped_and_taken() {
        let pages = ranges(&[0..2, 2..3, 5..5, 7..9]);
        assert_eq!(pages.ranges(), [0..3, 7..9]);
        assert_eq!((pages.count(), pages.end()), (5, 9));
        let text = serde_json::to_string(&pages).unwrap();
        assert_eq!(text, "[0,3,4,2]");
        assert_eq!(serde_json::from_str::<PageRanges>(&text).unwrap(), pages);
    }

    #[test]
    fn what_two_share_and_what_one_has_for_itself() {
        let (a, b) = (ranges(&[0..4, 6..10, 20..21]), ranges(&[2..7, 8..9, 30..40]));
        assert_eq!(a.shared_with(&b).ranges(), [2..4, 6..7, 8..9]);
        assert_eq!(a.without(&b).ranges(), [0..2, 7..8, 9..10, 20..21]);
        assert_eq!(a.without(&PageRanges::default()), a);
        assert_eq!(a.without(&a), PageRanges::default());
    }

    #[test]
    fn a_list_comes_back_from_its_saved_form() {
        let read = CacheList::from_json(list("[2,3,4,1]").as_bytes(), PAGE).unwrap();
        assert_eq!(read.files[0].pages.ranges(), [2..5, 9..10]);
        assert_eq!(read.pages(), 4);
        assert_eq!(serde_json::to_string(&read).unwrap(), list("[2,3,4,1]"));
    }

    #[test]
    fn what_is_no_list_of_this_machine_is_refused_with_the_reason() {
        assert!(refusal(&list("[2,9]")).contains("beyond the end of `/f`"));
        assert!(refusal(&list("[2,3,4]")).contains("odd number"));
        assert!(refusal(&list("[2,3,0,1]")).contains("page count of 0"));
        assert!(refusal(&list("[2,0]")).contains("page count of 0"));
        assert!(refusal(&list("[1,18446744073709551615]")).contains("beyond any file"));
        assert!(refusal(&list("[-1,3]")).contains("not a list"));
        assert!(refusal("{\"schema\":4}").contains("not a list of `pagewise cache save`"));
        assert!(refusal(&list("[0,1]").replace("\"/f\"", "\"f\"")).contains("slash"));
        let newer = list("[0,1]").replace("schema\":1", "schema\":2");
        assert!(refusal(&newer).contains("form 2, this one reads up to 1"));
        let other = CacheList::from_json(list("[0,1]").as_bytes(), PageSize::BASE_64K);
        assert!(other.unwrap_err().contains("saved with pages of 4 KiB"));
    }
}
