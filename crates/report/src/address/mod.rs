//! One address through the page table, as terminal text: the levels, the page, its frame, its mapping, and
//! the pages around it. Missing facts are shown with their reason.

mod walk;

use crate::number::{UNKNOWN, count, counted};
use crate::page::ReportDocument;
use crate::style::{TerminalStyle, TextTone};
use pagewise_model::address::{
    AddressHalf, AddressLayout, AddressMemory, AddressReport, AddressView, ContainingMapping,
    ExaminedProcess, MappingResidence, MemoryMapping, PageFrame, PageState, PageView,
    SurroundingPages, VirtualAddress, describe_mapping_flag,
};
use pagewise_model::{Bytes, Fact, PageSize};

/// All addresses of a report.
#[must_use]
pub fn render(report: &AddressReport, style: &TerminalStyle) -> String {
    let mut page = ReportDocument::default();
    for view in &report.addresses {
        page.section(view_section(report, view));
    }
    page.text(style)
}

fn view_section(report: &AddressReport, view: &AddressView) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.heading(&format!("{}: {}", view.address, in_short(view)));
    if let Some(process) = &report.process {
        page.single(&process_text(process), 2, TextTone::Faint);
    }
    page.section(walk::section(report, view));
    if let Some(memory) = &view.memory {
        page.section(page_section(report.layout.base_page_bytes, memory));
        page.section(mapping_section(view, memory));
        page.section(around_section(view.address, &report.layout, &memory.around));
    }
    page
}

fn process_text(process: &ExaminedProcess) -> String {
    format!("process {}: {}", process.pid, crate::shell::command_line(&process.command))
}

/// The page's state in a few words.
fn in_short(view: &AddressView) -> String {
    let Some(memory) = &view.memory else {
        return match view.half {
            AddressHalf::User => "a user address",
            AddressHalf::Kernel => "a kernel address",
            AddressHalf::NotCanonical => "not canonical",
        }
        .to_owned();
    };
    let page = match &memory.page {
        Fact::Known(page) => page,
        Fact::Missing(_) if view.half == AddressHalf::Kernel => {
            return "a kernel address; processes cannot see what is there".to_owned();
        }
        Fact::Missing(_) => return "contents not known".to_owned(),
    };
    match (page.state, &memory.within) {
        (PageState::Present, _) => present_text(page),
        (PageState::Swapped, _) => "swapped out: the next touch fetches it".to_owned(),
        (PageState::Guard, _) => "a guard: any touch is fatal".to_owned(),
        (PageState::Absent, None) => "not mapped: any touch is fatal".to_owned(),
        (PageState::Absent, Some(within)) if within.mapping.permissions.starts_with("---") => {
            "reserved without permissions: any touch is fatal".to_owned()
        }
        (PageState::Absent, Some(_)) => {
            "mapped, no page present: the next touch is a fault".to_owned()
        }
    }
}

fn present_text(page: &PageView) -> String {
    let what = if page.is_zero == Fact::Known(true) { "the zero page, " } else { "" };
    match &page.size_bytes {
        Fact::Known(size) => format!("present, {what}on a page of {size}"),
        Fact::Missing(_) => format!("present, {what}on a page whose size is not known"),
    }
}

fn page_section(base: PageSize, memory: &AddressMemory) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.heading("page and frame");
    match &memory.page {
        Fact::Known(view) => page_items(view, &mut page),
        Fact::Missing(why) => page.item("page", &format!("{UNKNOWN}: {why}")),
    }
    match &memory.frame {
        Fact::Known(frame) => frame_items(base, frame, &mut page),
        Fact::Missing(why) => page.item("frame", &format!("{UNKNOWN}: {why}")),
    }
    page
}

fn page_items(view: &PageView, page: &mut ReportDocument) {
    if view.state == PageState::Present {
        let size = match &view.size_bytes {
            Fact::Known(size) => size.to_string(),
            Fact::Missing(why) => format!("{UNKNOWN}: {why}"),
        };
        page.item("size", &size);
        page.item("kind", &kind_text(view));
        page.item("offset", &format!("{:#x} bytes into the page", view.offset_bytes.0));
    }
    let mut marks = Vec::new();
    match &view.is_soft_dirty {
        Fact::Known(true) => marks.push("soft-dirty".to_owned()),
        Fact::Known(false) => marks.push("not soft-dirty".to_owned()),
        Fact::Missing(why) => marks.push(format!("soft-dirty {UNKNOWN}: {why}")),
    }
    if view.is_write_protected {
        marks.push("write-protected by a userfaultfd".to_owned());
    }
    page.item("marks", &marks.join("; "));
    match &view.swapped_to {
        Some(Fact::Known(slot)) => {
            let offset = count(slot.offset_pages);
            page.item("swapped to", &format!("swap space {}, page {offset}", slot.space));
        }
        Some(Fact::Missing(why)) => page.item("swapped to", &format!("{UNKNOWN}: {why}")),
        None => {}
    }
}

fn kind_text(view: &PageView) -> String {
    if view.is_zero == Fact::Known(true) {
        return "the kernel's zero page: only read so far".to_owned();
    }
    let whose = match view.is_of_file_or_shared {
        true => "of a file or of shared memory",
        false => "anonymous, or a private copy",
    };
    let others = match view.is_exclusive {
        true => "mapped only by this process",
        false => "not exclusively this process's",
    };
    format!("{whose}; {others}")
}

fn frame_items(base: PageSize, frame: &PageFrame, page: &mut ReportDocument) {
    page.item("frame", &format!("{:#x}", frame.number));
    let (physical, offset) = (frame.physical_address, frame.physical_address % base.bytes());
    page.item(
        "physical",
        &format!("address {physical:#x} = frame {:#x} x {base} + {offset:#x}", frame.number),
    );
    let count_text = match &frame.map_count {
        Fact::Known(n) => format!("by {}", counted(*n, "page table entry", "page table entries")),
        Fact::Missing(why) => format!("{UNKNOWN}: {why}"),
    };
    page.item("mapped", &count_text);
    let flags = match &frame.flags {
        Fact::Known(flags) if flags.is_empty() => "none".to_owned(),
        Fact::Known(flags) => flags.join(", "),
        Fact::Missing(why) => format!("{UNKNOWN}: {why}"),
    };
    page.item("flags", &flags);
    let folio = match &frame.folio {
        Fact::Known(folio) if folio.frames == 1 => "only this frame".to_owned(),
        Fact::Known(folio) => format!(
            "{}, {} from {:#x} on; this is number {}",
            folio.size_bytes,
            counted(folio.frames, "frame", "frames"),
            folio.first_frame,
            count(frame.number.saturating_sub(folio.first_frame))
        ),
        Fact::Missing(why) => format!("{UNKNOWN}: {why}"),
    };
    page.item("folio", &folio);
}

fn mapping_section(view: &AddressView, memory: &AddressMemory) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.heading("mapping");
    match &memory.within {
        Some(within) => within_items(view.address, within, &mut page),
        None => page.item("this", "none"),
    }
    let gap = |from: u64, to: u64| match to.saturating_sub(from) {
        0 => "adjacent".to_owned(),
        gap => format!("{} apart", Bytes(gap)),
    };
    let (start, end) = match &memory.within {
        Some(within) => (within.mapping.start_address.0, within.mapping.end_address.0),
        None => (view.address.0, view.address.0),
    };
    match &memory.before {
        Some(before) => {
            page.item("before", &neighbour(before, &gap(before.end_address.0, start)));
        }
        None => page.item("before", "none"),
    }
    match &memory.after {
        Some(after) => page.item("after", &neighbour(after, &gap(end, after.start_address.0))),
        None => page.item("after", "none"),
    }
    page
}

/// A range in the format of `/proc/PID/maps`.
fn range_text(mapping: &MemoryMapping) -> String {
    let (start, end) = (mapping.start_address.0, mapping.end_address.0);
    format!("{start:08x}-{end:08x} {}", mapping.permissions)
}

fn path_text(mapping: &MemoryMapping) -> &str {
    if mapping.path.is_empty() { "no file" } else { &mapping.path }
}

fn neighbour(mapping: &MemoryMapping, gap: &str) -> String {
    format!("{}, {gap}, {}", range_text(mapping), path_text(mapping))
}

fn within_items(address: VirtualAddress, within: &ContainingMapping, page: &mut ReportDocument) {
    let mapping = &within.mapping;
    page.item("this", &format!("{}, {}", range_text(mapping), mapping.size()));
    page.item("of", path_text(mapping));
    let inside = address.0.saturating_sub(mapping.start_address.0);
    let position = match within.position_bytes {
        Some(position) => format!("{:#x} bytes into the file", position.0),
        None => format!("{inside:#x} bytes into the mapping"),
    };
    page.item("position", &position);
    match &within.residence {
        Fact::Known(residence) => residence_items(residence, page),
        Fact::Missing(why) => page.item("resident", &format!("{UNKNOWN}: {why}")),
    }
}

fn residence_items(residence: &MappingResidence, page: &mut ReportDocument) {
    let size = |size: Option<PageSize>| size.map_or_else(|| UNKNOWN.to_owned(), |s| s.to_string());
    page.item(
        "pages",
        &format!(
            "KernelPageSize {}, MMUPageSize {}",
            size(residence.kernel_page_bytes),
            size(residence.mmu_page_bytes)
        ),
    );
    let resident = residence.resident_bytes + residence.pool_bytes;
    page.item(
        "resident",
        &format!(
            "{resident} and {} in swap; AnonHugePages {}, FilePmdMapped {}, ShmemPmdMapped {}, \
             hugetlb {}",
            residence.swapped_bytes,
            residence.anon_huge_bytes,
            residence.file_pmd_mapped_bytes,
            residence.shmem_pmd_mapped_bytes,
            residence.pool_bytes
        ),
    );
    let words = |flag: &String| match describe_mapping_flag(flag) {
        Some(words) => format!("{flag} {words}"),
        None => flag.clone(),
    };
    let flags: Vec<String> = residence.flags.iter().map(words).collect();
    page.item("flags", &flags.join(", "));
}

// The pages under the same table entry one level above base pages, a character for each.

/// Columns before each line.
const INDENT: usize = 2;
/// Largest number of lines; with more pages, a character stands for several.
const MOST_LINES: usize = 16;

fn around_section(
    address: VirtualAddress,
    layout: &AddressLayout,
    around: &Fact<SurroundingPages>,
) -> ReportDocument {
    let mut page = ReportDocument::default();
    let span = layout.huge_page().map_or_else(String::new, |span| format!(" in the same {span}"));
    page.heading(&format!("pages around it{span}"));
    let around = match around {
        Fact::Known(around) => around,
        Fact::Missing(why) => {
            page.para(why, INDENT, TextTone::Plain);
            return page;
        }
    };
    page.para(&counts(around), INDENT, TextTone::Plain);
    let base = layout.base_page_bytes.bytes();
    let own = address.0.saturating_sub(around.start_address.0) / base;
    let own = usize::try_from(own).unwrap_or(usize::MAX);
    let cells: Vec<char> = around.pages.chars().collect();
    if cells.iter().any(|cell| Some(cell) != cells.first()) {
        let start = around.start_address;
        page.fitted(move |style| lines(start, base, &cells, own, style));
    }
    page
}

fn counts(around: &SurroundingPages) -> String {
    let named = [
        (around.present_pages, "present"),
        (around.swapped_pages, "swapped"),
        (around.guard_pages, "guards"),
        (around.absent_pages, "absent"),
        (around.unmapped_pages, "in no mapping"),
    ];
    let text = |(n, name): &(u64, &str)| match *name {
        "present" if around.huge_pages > 0 => {
            format!("{} present ({} of them mapped huge)", count(*n), count(around.huge_pages))
        }
        _ => format!("{} {name}", count(*n)),
    };
    let some = |(n, _): &&(u64, &str)| *n > 0;
    named.iter().filter(some).map(text).collect::<Vec<_>>().join(", ")
}

/// The pages by lines, with a mark under the page of the address.
fn lines(
    start: VirtualAddress,
    base: u64,
    cells: &[char],
    own: usize,
    style: &TerminalStyle,
) -> ReportDocument {
    let mut page = ReportDocument::default();
    let digits = format!("{:012x}", start.0).len();
    let room = style.columns().saturating_sub(INDENT + digits + 1).max(1);
    // A power of two, so that lines begin at round addresses.
    let width = 1usize << room.ilog2();
    let each = cells.len().div_ceil(width * MOST_LINES).max(1);
    let pieces: Vec<char> = cells.chunks(each).map(together).collect();
    for (nth, line) in pieces.chunks(width).enumerate() {
        let first = nth * width;
        let mark = (own / each).checked_sub(first).filter(|at| *at < line.len());
        // Pages without a mapping are counted above and need no line.
        if mark.is_none() && line.iter().all(|cell| *cell == '-') {
            continue;
        }
        let address = start.0.saturating_add((first * each) as u64 * base);
        let text: String = line.iter().collect();
        page.single(&format!("{address:012x} {text}"), INDENT, TextTone::Plain);
        if let Some(at) = mark {
            let lead = " ".repeat(digits + 1 + at);
            page.single(&format!("{lead}^"), INDENT, TextTone::Strong);
        }
    }
    let unit = if each > 1 { format!("; each stands for {each} pages") } else { String::new() };
    page.para(&format!("{}{unit}", legend(cells)), INDENT, TextTone::Faint);
    page
}

/// One character for several pages: theirs if all are equal, `+` if any is present, else `~`.
fn together(cells: &[char]) -> char {
    let first = cells.first().copied().unwrap_or('-');
    if cells.iter().all(|cell| *cell == first) {
        return first;
    }
    if cells.iter().any(|cell| "Hz#".contains(*cell)) { '+' } else { '~' }
}

/// The meaning of the characters that occur.
fn legend(cells: &[char]) -> String {
    let known = [
        ('H', "mapped huge"),
        ('#', "present"),
        ('z', "zero page"),
        ('s', "swapped"),
        ('g', "guard"),
        ('.', "absent"),
        ('-', "in no mapping"),
    ];
    let used = known.iter().filter(|(cell, _)| cells.contains(cell));
    used.map(|(cell, words)| format!("{cell} {words}")).collect::<Vec<_>>().join("  ")
}
