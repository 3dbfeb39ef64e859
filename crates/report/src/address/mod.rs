//! One address through the page table, as terminal text: the levels, the page, its frame, its mapping,
//! and the pages around it. What is missing stands with its reason.

mod around;
mod levels;

use crate::number::{UNKNOWN, count, counted};
use crate::page::Document;
use crate::style::{Style, Tone};
use pagewise_model::address::{
    Address, AddressReport, Frame, Half, Mapping, Memory, PageView, Process, Residence, State,
    View, Within, describe_mapping_flag,
};
use pagewise_model::{Bytes, Fact, PageSize};

/// All addresses of a report.
#[must_use]
pub fn render(report: &AddressReport, style: &Style) -> String {
    let mut page = Document::default();
    for view in &report.addresses {
        page.section(view_section(report, view));
    }
    page.text(style)
}

fn view_section(report: &AddressReport, view: &View) -> Document {
    let mut page = Document::default();
    page.heading(&format!("{}: {}", view.address, in_short(view)));
    if let Some(process) = &report.process {
        page.single(&process_text(process), 2, Tone::Faint);
    }
    page.section(levels::section(report, view));
    if let Some(memory) = &view.memory {
        page.section(page_section(memory));
        page.section(mapping_section(view, memory));
        page.section(around::section(view.address, &report.layout, &memory.around));
    }
    page
}

fn process_text(process: &Process) -> String {
    format!("process {}: {}", process.pid, crate::shell::command_line(&process.command))
}

/// What there is, in a few words.
fn in_short(view: &View) -> String {
    let Some(memory) = &view.memory else {
        return match view.half {
            Half::User => "a user address",
            Half::Kernel => "a kernel address",
            Half::NotCanonical => "not canonical",
        }
        .to_owned();
    };
    let page = match &memory.page {
        Fact::Known(page) => page,
        Fact::Missing(_) if view.half == Half::Kernel => {
            return "a kernel address; processes cannot see what is there".to_owned();
        }
        Fact::Missing(_) => return "contents not known".to_owned(),
    };
    match (page.state, &memory.within) {
        (State::Present, _) => present_text(page),
        (State::Swapped, _) => "swapped out: the next touch fetches it".to_owned(),
        (State::Guard, _) => "a guard: any touch is fatal".to_owned(),
        (State::Absent, None) => "not mapped: any touch is fatal".to_owned(),
        (State::Absent, Some(within)) if within.mapping.permissions.starts_with("---") => {
            "reserved without permissions: any touch is fatal".to_owned()
        }
        (State::Absent, Some(_)) => "mapped, no page present: the next touch is a fault".to_owned(),
    }
}

fn present_text(page: &PageView) -> String {
    let what = if page.is_zero == Fact::Known(true) { "the zero page, " } else { "" };
    match &page.size_bytes {
        Fact::Known(size) => format!("present, {what}on a page of {size}"),
        Fact::Missing(_) => format!("present, {what}on a page whose size is not known"),
    }
}

fn page_section(memory: &Memory) -> Document {
    let mut page = Document::default();
    page.heading("page and frame");
    match &memory.page {
        Fact::Known(view) => page_items(view, &mut page),
        Fact::Missing(why) => page.item("page", &format!("{UNKNOWN}: {why}")),
    }
    match &memory.frame {
        Fact::Known(frame) => frame_items(frame, &mut page),
        Fact::Missing(why) => page.item("frame", &format!("{UNKNOWN}: {why}")),
    }
    page
}

fn page_items(view: &PageView, page: &mut Document) {
    if view.state == State::Present {
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

fn frame_items(frame: &Frame, page: &mut Document) {
    page.item("frame", &format!("{:#x}", frame.number));
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

fn mapping_section(view: &View, memory: &Memory) -> Document {
    let mut page = Document::default();
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

/// As `/proc/PID/maps` writes it.
fn range_text(mapping: &Mapping) -> String {
    let (start, end) = (mapping.start_address.0, mapping.end_address.0);
    format!("{start:08x}-{end:08x} {}", mapping.permissions)
}

fn path_text(mapping: &Mapping) -> &str {
    if mapping.path.is_empty() { "no file" } else { &mapping.path }
}

fn neighbour(mapping: &Mapping, gap: &str) -> String {
    format!("{}, {gap}, {}", range_text(mapping), path_text(mapping))
}

fn within_items(address: Address, within: &Within, page: &mut Document) {
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

fn residence_items(residence: &Residence, page: &mut Document) {
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
