//! Code on huge pages for the whole system, for people: the kernel's features, what was changed, and how to
//! take each step of hugetext's documentation on this kernel.

use crate::code::collapse_section;
use crate::code::{machine, warmed};
use crate::number::counted;
use crate::page::ReportDocument;
use crate::style::TextTone;
use pagewise_model::text::TextFile;
use pagewise_model::text_system::{
    HugePageCleaner, HugetextSetting, HugetextState, KhugepagedPace, TextSystem,
};
use pagewise_model::{Bytes, Fact, PageSize};

/// The system in one sentence.
pub(crate) fn headline(system: &TextSystem) -> String {
    match (&system.hugetext, system.cleaned) {
        (_, Some(HugePageCleaner::Caches)) => "the page cache was dropped".to_owned(),
        (_, Some(HugePageCleaner::Split)) => {
            "every huge page that can be split was split".to_owned()
        }
        (Some(hugetext), None) => format!("hugetext is in {}", mode(hugetext)),
        (None, None) if system.is_changed() => acted(system),
        (None, None) => {
            "no hugetext in this kernel: put code on huge pages by file and process".to_owned()
        }
    }
}

fn acted(system: &TextSystem) -> String {
    let huge = |file: &&TextFile| file.huge().text_bytes > Bytes(0);
    let files = counted(system.files.iter().filter(huge).count() as u64, "file", "files");
    let huge = system.processes.iter().filter(|process| process.huge() > Bytes(0)).count();
    let processes = counted(huge as u64, "process", "processes");
    format!("code on huge pages: {files} at new starts, {processes} now")
}

fn mode(hugetext: &HugetextState) -> String {
    match &hugetext.mode {
        Fact::Known(mode) => format!("mode {}: {}", mode.number(), mode.into_str()),
        Fact::Missing(why) => format!("unknown mode: {why}"),
    }
}

/// The system as lines.
pub(crate) fn system_section(system: &TextSystem, slot: PageSize) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.append(changes(system));
    for file in &system.files {
        page.section(warmed(file));
    }
    for process in &system.processes {
        let mut part = ReportDocument::default();
        part.single(&crate::code::collapse_headline(process), 0, TextTone::Strong);
        part.append(collapse_section(process, slot));
        page.section(part);
    }
    if !system.is_changed() || system.hugetext.is_some() {
        page.section(kernel(system));
    }
    match &system.after {
        None => {
            page.section(steps(system));
            page.section(machine("the whole machine", &system.before));
        }
        Some(after) => {
            page.section(machine("the whole machine before", &system.before));
            page.section(machine("the whole machine afterwards", after));
        }
    }
    page
}

/// What was changed, and its other effects.
fn changes(system: &TextSystem) -> ReportDocument {
    let mut page = ReportDocument::default();
    for change in &system.changes {
        let text = format!(
            "{}: {} before, {} now",
            change.setting.into_str(),
            change.before,
            change.after
        );
        page.para(&text, 0, TextTone::Plain);
    }
    if system.changes.iter().any(|change| change.setting == HugetextSetting::Mode) {
        let text = "khugepaged works gradually: pagewise text status shows its progress; pages that were huge before stay huge until --clean";
        page.para(text, 0, TextTone::Faint);
    }
    for note in &system.notes {
        page.para(note, 0, TextTone::Warn);
    }
    page
}

fn kernel(system: &TextSystem) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.heading("what this kernel has");
    match &system.hugetext {
        None => {
            page.item("hugetext", "no: no hugetext_enabled beside transparent_hugepage/enabled")
        }
        Some(hugetext) => {
            page.item("hugetext", &mode(hugetext));
            page.item("padding", &padding(&hugetext.pad_threshold_bytes));
        }
    }
    let boot = match system.boot_mode {
        Some(mode) => format!("hugetext={} on the kernel's command line", mode.number()),
        None => "no hugetext= on the kernel's command line".to_owned(),
    };
    page.item("at boot", &boot);
    let collapses = match &system.collapses_files {
        Fact::Known(true) => "text of files too (READ_ONLY_THP_FOR_FS)".to_owned(),
        Fact::Known(false) => "memory without a file; no text of files".to_owned(),
        Fact::Missing(why) => format!("not known: {why}"),
    };
    page.item("collapse", &collapses);
    page.item("khugepaged", &pace(&system.pace));
    for offered in &system.cleaners {
        let may = match &offered.may_write {
            Fact::Known(true) => "may be used".to_owned(),
            Fact::Known(false) => "not by this account".to_owned(),
            Fact::Missing(why) => why.clone(),
        };
        page.item(offered.cleaner.into_str(), &format!("{}: {may}", offered.cleaner.path()));
    }
    page
}

fn padding(threshold: &Fact<Bytes>) -> String {
    match threshold {
        Fact::Known(Bytes(0)) => "off (hugetext_pad_threshold)".to_owned(),
        Fact::Known(bytes) => format!("last slots that hold more than {bytes} are filled"),
        Fact::Missing(why) => format!("not known: {why}"),
    }
}

fn pace(pace: &Fact<KhugepagedPace>) -> String {
    match pace {
        Fact::Known(KhugepagedPace { round_bytes, sleep_ns }) => {
            format!("scans {round_bytes} of all memory, then sleeps {sleep_ns}")
        }
        Fact::Missing(why) => format!("not known: {why}"),
    }
}

/// The steps of the feature's documentation, adapted to this kernel.
fn steps(system: &TextSystem) -> ReportDocument {
    let has_setting = system.hugetext.is_some();
    let mut page = ReportDocument::default();
    page.heading("the steps of hugetext, on this kernel");
    for (step, with, without) in STEPS {
        page.item(step, if has_setting { with } else { without });
    }
    page
}

/// Each step, how to take it with hugetext, and how without.
const STEPS: [(&str, &str, &str); 8] = [
    (
        "mode 1, 2, 3",
        "pagewise text system --mode 3 (1 programs and libraries, 2 generated code, 3 both)",
        "pagewise text system --mode 1 FILE..., --mode 2 PID..., --mode 3 FILE|PID...",
    ),
    ("check", "pagewise text status", "pagewise text status"),
    (
        "off",
        "pagewise text system --mode 0; existing huge pages stay",
        "pagewise text system --mode 0 drops the files that were filled",
    ),
    (
        "at boot",
        "hugetext=3 on the kernel's command line: grubby --update-kernel=ALL --args=hugetext=3",
        "pagewise text keep --unit FILE... prints a systemd service",
    ),
    (
        "padding",
        "pagewise text system --pad-threshold 4K; 0 is off",
        "pagewise text fold --pad-tail 4K FILE -o COPY",
    ),
    (
        "alignment",
        "pagewise text fold --linker prints the options and a script",
        "pagewise text fold --linker, or of a built program pagewise text fold FILE -o COPY",
    ),
    (
        "one file",
        "pagewise cache show, evict or lock FILE",
        "pagewise cache show, evict or lock FILE",
    ),
    (
        "clean up",
        "pagewise text system --clean caches or --clean split, cannot be undone",
        "pagewise text system --clean caches or --clean split, cannot be undone",
    ),
];
