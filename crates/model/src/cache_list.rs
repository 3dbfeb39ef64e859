//! A saved page cache: the pages of files that it held, and the outcome of restoring them.
//!
//! Pages are counted from the beginning of their file. The saved form of a file's pages is a list of
//! alternating numbers: how many pages are skipped, then how many were cached. This is the shortest form in
//! JSON. Its ranges are in order, and none touches another.

use crate::bounded;
use crate::measured::Fact;
use crate::os_text;
use crate::schema::JsonSchema;
use crate::units::{Bytes, PageSize};
use serde::de::{DeserializeSeed, Error as _, SeqAccess, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ops::Range;
use std::path::PathBuf;

/// Version of the saved format.
pub const CACHE_LIST_SCHEMA: u32 = 1;

/// Content of the page cache for some files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CacheList {
    /// Version of this format.
    pub cache_list_schema: u32,
    /// Size of the pages that ranges count.
    pub page_bytes: PageSize,
    /// Files and directories that the user named.
    #[serde(with = "os_text::list")]
    #[schemars(with = "Vec<crate::schema::OsTextSchema>")]
    pub roots: Vec<PathBuf>,
    /// Files by path, without those of which nothing was cached.
    pub files: Vec<ListedFile>,
}

/// One file as it was when the list was saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListedFile {
    /// Absolute path of the file.
    #[serde(with = "os_text")]
    #[schemars(with = "crate::schema::OsTextSchema")]
    pub path: PathBuf,
    pub size_bytes: Bytes,
    /// Time of the last write to the file, in nanoseconds since 1970.
    pub modified_unix_ns: u64,
    pub inode: u64,
    /// Pages that were cached.
    pub pages: PageRanges,
}

/// Ranges of pages in order; none touches another. They are kept in their saved form, each number in as many
/// bytes as it needs (7 bits in one). So a list takes no more memory than its JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageRanges {
    packed: Vec<u8>,
    ranges: usize,
    pages: u64,
    end: u64,
}

/// An iterator over the ranges of a list.
#[derive(Debug, Clone)]
struct Unpacked<'a> {
    packed: &'a [u8],
    at: u64,
}

impl Unpacked<'_> {
    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let (byte, rest) = self.packed.split_first()?;
            self.packed = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        Some(number)
    }
}

impl Iterator for Unpacked<'_> {
    type Item = Range<u64>;

    fn next(&mut self) -> Option<Range<u64>> {
        let start = self.at + self.number()?;
        self.at = start + self.number()?;
        Some(start..self.at)
    }
}

impl PageRanges {
    /// A list of these ranges, which are in order. Ranges that touch become one.
    #[must_use]
    pub fn merged(ranges: impl IntoIterator<Item = Range<u64>>) -> Self {
        let mut all = Self::default();
        let mut last: Option<Range<u64>> = None;
        for range in ranges.into_iter().filter(|range| range.start < range.end) {
            match &mut last {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => all.extend(last.replace(range)),
            }
        }
        all.extend(last);
        all.packed.shrink_to_fit();
        all
    }

    fn extend(&mut self, range: Option<Range<u64>>) {
        if let Some(range) = range {
            self.push(&range);
        }
    }

    /// Adds a range that begins past the end.
    fn push(&mut self, range: &Range<u64>) {
        for mut number in [range.start - self.end, range.end - range.start] {
            while number > 0x7f {
                self.packed.push(number as u8 | 0x80);
                number >>= 7;
            }
            self.packed.push(number as u8);
        }
        self.ranges += 1;
        self.pages += range.end - range.start;
        self.end = range.end;
    }

    /// All ranges, in order.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> + Clone + '_ {
        Unpacked { packed: &self.packed, at: 0 }
    }

    /// Number of ranges.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.ranges
    }

    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ranges == 0
    }

    /// Number of pages in all ranges.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.pages
    }

    /// The page after the last range.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.end
    }

    /// The pages that are in both lists.
    #[must_use]
    pub fn shared_with(&self, other: &Self) -> Self {
        Self::merged(shared(self.ranges(), other.ranges()))
    }

    /// The pages that are not in `other`.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let starts = std::iter::once(0).chain(other.ranges().map(|range| range.end));
        let ends = other.ranges().map(|range| range.start).chain([u64::MAX]);
        let gaps = starts.zip(ends).map(|(start, end)| start..end);
        Self::merged(shared(self.ranges(), gaps))
    }
}

/// The ranges that two lists share, both in order.
fn shared(
    a: impl Iterator<Item = Range<u64>>,
    b: impl Iterator<Item = Range<u64>>,
) -> impl Iterator<Item = Range<u64>> {
    let (mut a, mut b) = (a.peekable(), b.peekable());
    std::iter::from_fn(move || {
        let (one, two) = (a.peek()?.clone(), b.peek()?.clone());
        if one.end < two.end {
            a.next();
        } else {
            b.next();
        }
        Some(one.start.max(two.start)..one.end.min(two.end))
    })
}

impl Serialize for PageRanges {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let mut list = out.serialize_seq(Some(2 * self.ranges))?;
        let mut at = 0;
        for range in self.ranges() {
            list.serialize_element(&(range.start - at))?;
            list.serialize_element(&(range.end - range.start))?;
            at = range.end;
        }
        list.end()
    }
}

/// The ranges so far, and how many pages are skipped before the next one, if that number was read.
#[derive(Default)]
struct Packing {
    all: PageRanges,
    skipped: Option<u64>,
}

impl Packing {
    fn take(&mut self, number: u64) -> Result<(), &'static str> {
        let Some(skipped) = self.skipped.take() else {
            self.skipped = Some(number);
            return Ok(());
        };
        if number == 0 || (skipped == 0 && !self.all.is_empty()) {
            return Err("a page count of 0");
        }
        let start = self.all.end.checked_add(skipped);
        let end = start.and_then(|start| start.checked_add(number));
        let range = start.zip(end).map(|(start, end)| start..end);
        self.all.push(&range.ok_or("page counts beyond any file")?);
        Ok(())
    }
}

/// Takes one number. The result takes no memory, so the bound on memory does not count it.
impl<'de> DeserializeSeed<'de> for &mut Packing {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        self.take(u64::deserialize(from)?).map_err(D::Error::custom)
    }
}

impl<'de> Visitor<'de> for Packing {
    type Value = PageRanges;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of page counts")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut from: A) -> Result<PageRanges, A::Error> {
        while from.next_element_seed(&mut self)?.is_some() {}
        if self.skipped.is_some() {
            return Err(A::Error::custom("an odd number of page counts"));
        }
        self.all.packed.shrink_to_fit();
        Ok(self.all)
    }
}

impl<'de> Deserialize<'de> for PageRanges {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_seq(Packing::default())
    }
}

impl CacheList {
    /// Reads a saved list for a machine with pages of size `page`.
    ///
    /// # Errors
    /// A phrase that says why the text is not such a list, or cannot be used.
    pub fn from_json(text: &[u8], page: PageSize) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct CacheListHead {
            cache_list_schema: u32,
        }
        let no_list = |e: serde_json::Error| format!("not a list of `pagewise cache save`: {e}");
        let head: CacheListHead = serde_json::from_slice(text).map_err(no_list)?;
        let found = head.cache_list_schema;
        if found > CACHE_LIST_SCHEMA {
            return Err(format!(
                "saved by a newer pagewise (form {found}, this one reads up to {CACHE_LIST_SCHEMA})"
            ));
        }
        let list: Self = bounded::from_json(text).map_err(no_list)?;
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
            let path = file.path.display();
            if !file.path.has_root() {
                return Err(format!("the path `{path}` does not begin with a slash"));
            }
            if file.pages.end() > file.size_bytes.pages(page) {
                return Err(format!("pages beyond the end of `{path}`"));
            }
        }
        Ok(())
    }

    /// Number of pages that the list names.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.files.iter().map(|file| file.pages.count()).fold(0, u64::saturating_add)
    }
}

/// Outcome of the restore for one file of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RestoredFile {
    pub path: String,
    /// Bytes of the file to restore.
    pub listed_bytes: Bytes,
    /// Of these bytes, those that were cached before.
    pub before_bytes: Fact<Bytes>,
    /// Of these bytes, those that are cached now.
    pub resident_bytes: Bytes,
    /// Why some of the file was left out.
    pub left_out: Option<String>,
}

/// Actions of `pagewise cache restore`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CacheRestore {
    pub files: Vec<RestoredFile>,
    /// Bytes requested from the devices.
    pub read_bytes: Bytes,
    /// Most bytes that could be read.
    pub limit_bytes: Bytes,
    /// Most bytes read per second; absent without a limit.
    pub rate_bytes: Option<Bytes>,
    /// Why it ended before the end of the list.
    pub ended_early: Option<String>,
    /// True if a signal ended it.
    pub interrupted: bool,
}

impl CacheRestore {
    /// Bytes that the list names.
    #[must_use]
    pub fn listed(&self) -> Bytes {
        self.files.iter().fold(Bytes(0), |sum, file| sum + file.listed_bytes)
    }

    /// Bytes of these that are cached now.
    #[must_use]
    pub fn resident(&self) -> Bytes {
        self.files.iter().fold(Bytes(0), |sum, file| sum + file.resident_bytes)
    }

    /// True if the whole list is cached now.
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

    fn all(pages: &PageRanges) -> Vec<Range<u64>> {
        pages.ranges().collect()
    }

    #[test]
    fn a_list_takes_no_more_memory_than_its_text() {
        let alternating = PageRanges::merged((0..9000).map(|n| 2 * n..2 * n + 1));
        let text = serde_json::to_string(&alternating).unwrap();
        let far = ranges(&[0..1, (1 << 40)..(1 << 40) + 200, u64::MAX - 1..u64::MAX]);
        let read: PageRanges = bounded::from_json(text.as_bytes()).unwrap();
        assert_eq!((&read, read.packed.capacity() * 2 < text.len() + 9), (&alternating, true));
        assert_eq!(all(&far), [0..1, (1 << 40)..(1 << 40) + 200, u64::MAX - 1..u64::MAX]);
        assert_eq!(far.count(), 202);
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
        assert_eq!(all(&pages), [0..3, 7..9]);
        assert_eq!(pages.len(), 2);
        assert_eq!((pages.count(), pages.end()), (5, 9));
        let text = serde_json::to_string(&pages).unwrap();
        assert_eq!(text, "[0,3,4,2]");
        assert_eq!(serde_json::from_str::<PageRanges>(&text).unwrap(), pages);
    }

    #[test]
    fn what_two_share_and_what_one_has_for_itself() {
        let (a, b) = (ranges(&[0..4, 6..10, 20..21]), ranges(&[2..7, 8..9, 30..40]));
        assert_eq!(all(&a.shared_with(&b)), [2..4, 6..7, 8..9]);
        assert_eq!(all(&a.without(&b)), [0..2, 7..8, 9..10, 20..21]);
        assert_eq!(a.without(&PageRanges::default()), a);
        assert_eq!(a.without(&a), PageRanges::default());
    }

    #[test]
    fn a_list_comes_back_from_its_saved_form() {
        let read = CacheList::from_json(list("[2,3,4,1]").as_bytes(), PAGE).unwrap();
        assert_eq!(all(&read.files[0].pages), [2..5, 9..10]);
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
