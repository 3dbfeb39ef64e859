//! How much of a file's code starts on huge pages: what its layout makes possible, what its page cache holds,
//! and which files a program maps code of.

use pagewise_judge::text::{self, PageSizePair};
use pagewise_kernel::cached_file::PageCacheFile;
use pagewise_kernel::file_view::is_placed_aligned;
use pagewise_kernel::page_size;
use pagewise_model::cache::SlotMap;
use pagewise_model::text::{
    CacheSeen, ElfLayout, HugeStanding, TextArea, TextAreaKind, TextMethod, TextPiece,
};
use pagewise_model::{Bytes, Fact};
use pagewise_observe::text::{ElfFile, of_programs};
use std::path::{Path, PathBuf};

/// How the code of a file is mapped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CodePlacement<'a> {
    pub(crate) layout: &'a ElfLayout,
    pub(crate) is_placed_aligned: bool,
    pub(crate) sizes: PageSizePair,
}

impl<'a> CodePlacement<'a> {
    /// Of an open file on this machine.
    pub(crate) fn from_file(file: &PageCacheFile, layout: &'a ElfLayout) -> Self {
        let len = usize::try_from(file.size().0).unwrap_or(usize::MAX);
        let is_placed_aligned = is_placed_aligned(file.file(), len);
        Self { layout, is_placed_aligned, sizes: sizes() }
    }

    /// Text bytes on huge pages once the cache holds the whole file in huge folios.
    pub(crate) fn reach(&self) -> Bytes {
        self.reach_by(TextMethod::Warm)
    }

    /// Text bytes on huge pages in a folded copy with merged segments.
    pub(crate) fn folded_reach(&self) -> Bytes {
        self.reach_by(TextMethod::Merged)
    }

    fn reach_by(&self, method: TextMethod) -> Bytes {
        let all = text::reach(self.layout, self.is_placed_aligned, &self.sizes);
        let asked = all.iter().find(|reach| reach.method == method);
        asked.map_or(Bytes(0), |reach| reach.huge.text_bytes)
    }

    /// Text bytes on huge pages with the current cache.
    pub(crate) fn huge(&self, slots: &SlotMap) -> Bytes {
        self.text(slots).iter().fold(Bytes(0), |sum, area| sum + area.huge())
    }

    /// Size of its text.
    pub(crate) fn size(&self) -> Bytes {
        self.text(&SlotMap::default()).iter().fold(Bytes(0), |sum, area| sum + area.size())
    }

    fn text(&self, slots: &SlotMap) -> Vec<TextArea> {
        let cache = CacheSeen { slots: Fact::Known(slots.clone()), base_pages_alone: None };
        let all = text::explain_file(self.layout, self.is_placed_aligned, &cache, &self.sizes);
        all.into_iter().filter(|area| area.kind == TextAreaKind::Text).collect()
    }

    /// Why its layout keeps all of its text on small pages.
    pub(crate) fn why_small(&self) -> String {
        let areas = self.text(&SlotMap::default());
        let pieces = areas.iter().flat_map(|area| &area.pieces);
        match pieces.max_by_key(|piece| piece.length_bytes) {
            None => "it has no text".to_owned(),
            Some(TextPiece { standing: HugeStanding::TooSmall, .. }) => {
                format!("its text is smaller than a huge page of {}", self.sizes.huge)
            }
            Some(TextPiece { standing: HugeStanding::ByChance { one_in }, .. }) => format!(
                "it is placed at random: its text is on huge pages in one of {one_in} starts (in all starts of a copy made by pagewise text fold)"
            ),
            Some(TextPiece { standing: HugeStanding::Incongruent { off_by_bytes }, .. }) => {
                format!("in the file, its text lies {off_by_bytes} away from huge page boundaries")
            }
            Some(_) => "its text holds no whole huge page between boundaries".to_owned(),
        }
    }
}

/// The files whose code a program maps at its start: its own, and libraries whose text gets on huge pages by
/// warming.
pub(crate) fn of_program(program: &Path) -> Vec<PathBuf> {
    let elf = PageCacheFile::open(program).ok().and_then(|file| ElfFile::read(file.file()).ok());
    let libraries = elf.map_or_else(Vec::new, |elf| of_programs([(program, &elf)]).found);
    let reaches = |path: &PathBuf| {
        let Ok(file) = PageCacheFile::open(path) else { return false };
        let large = file.size() >= Bytes(page_size::huge().bytes());
        large
            && ElfFile::read(file.file())
                .is_ok_and(|elf| CodePlacement::from_file(&file, &elf.layout).reach().0 > 0)
    };
    let whole = libraries.into_iter().map(|path| path.canonicalize().unwrap_or(path));
    std::iter::once(program.to_owned()).chain(whole.filter(reaches)).collect()
}

/// The sizes of this machine.
pub(crate) fn sizes() -> PageSizePair {
    PageSizePair { base: page_size::base(), huge: page_size::huge() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::PageSize;
    use pagewise_model::cache::CacheSlot;
    use pagewise_model::text::{ImagePlacement, LoadSegment};

    const SLOT: u64 = 2 << 20;

    /// A layout with `slots` slots of text at this address and offset.
    fn layout(placement: ImagePlacement, address: u64, offset: u64, slots: u64) -> ElfLayout {
        let segment = LoadSegment {
            offset_bytes: Bytes(offset),
            address,
            file_bytes: Bytes(slots * SLOT),
            align_bytes: Bytes(4096),
            is_writable: false,
            is_executable: true,
        };
        ElfLayout { placement, segments: vec![segment] }
    }

    fn code(layout: &ElfLayout) -> CodePlacement<'_> {
        let sizes = PageSizePair { base: PageSize::BASE_4K, huge: PageSize::PMD_2M };
        CodePlacement { layout, is_placed_aligned: true, sizes }
    }

    #[test]
    fn what_is_reached_is_what_is_huge_once_the_cache_is() {
        let fixed = layout(ImagePlacement::Fixed, 4 * SLOT, 0, 3);
        let code = code(&fixed);
        assert_eq!((code.reach(), code.size()), (Bytes(3 * SLOT), Bytes(3 * SLOT)));
        let half = SlotMap(vec![CacheSlot::Huge, CacheSlot::Whole, CacheSlot::Absent]);
        assert_eq!(code.huge(&half), Bytes(SLOT));
        assert_eq!(code.huge(&SlotMap(vec![CacheSlot::Huge; 3])), code.reach());
        assert_eq!(code.huge(&SlotMap::default()), Bytes(0));
    }

    #[test]
    fn a_layout_that_reaches_nothing_says_why() {
        let why = |layout: &ElfLayout| {
            assert_eq!(code(layout).reach(), Bytes(0));
            code(layout).why_small()
        };
        assert!(why(&layout(ImagePlacement::Program, 0, 0, 3)).contains("one of 512 starts"));
        assert!(
            why(&layout(ImagePlacement::Fixed, 4 * SLOT + 4096, 0, 3)).contains("4.0 KiB away")
        );
        assert!(why(&layout(ImagePlacement::Fixed, SLOT, 0, 0)).contains("no text"));
        let mut small = layout(ImagePlacement::Fixed, SLOT, 0, 1);
        small.segments[0].file_bytes = Bytes(4096);
        assert!(why(&small).contains("smaller than a huge page"));
        let between = layout(ImagePlacement::Fixed, SLOT + 4096, 4096, 1);
        assert!(why(&between).contains("no whole huge page"), "{}", why(&between));
    }

    #[test]
    fn a_program_is_the_first_of_its_files() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(of_program(&own)[0], own);
        let none = Path::new("/nonexistent/program");
        assert_eq!(of_program(none), [none]);
    }
}
