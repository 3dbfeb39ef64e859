//! A restored page cache for people: the share that is cached, and each incomplete file with the reason.

use crate::number::{count, counted, percent};
use crate::page::ReportDocument;
use crate::style::TextTone;
use pagewise_model::Bytes;
use pagewise_model::cache_list::{CacheRestore, RestoredFile};

/// Largest number of files that are named.
const NAMED: usize = 20;
/// Cells before the reason.
const INDENT: usize = 2;

/// All of it in one sentence.
pub(crate) fn headline(restore: &CacheRestore) -> String {
    let (listed, resident) = (restore.listed(), restore.resident());
    if listed == Bytes(0) {
        return "the list names no pages: there is nothing to restore".to_owned();
    }
    let share = percent(resident.0 as f64 / listed.0 as f64);
    let files = counted(restore.files.len() as u64, "file", "files");
    format!("{share} of the saved pages are in the page cache: {resident} of {listed} of {files}")
}

/// How it was restored, and what is missing.
#[must_use]
pub fn cache_restore_section(restore: &CacheRestore) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.para(&how(restore), 0, TextTone::Plain);
    if restore.interrupted {
        page.para("interrupted: the rest of the list was not read", 0, TextTone::Warn);
    } else if let Some(why) = &restore.ended_early {
        page.para(&format!("ended early: {why}"), 0, TextTone::Warn);
    }
    let missing: Vec<&RestoredFile> =
        restore.files.iter().filter(|file| file.resident_bytes < file.listed_bytes).collect();
    if missing.is_empty() {
        return page;
    }
    page.heading("not whole");
    for file in missing.iter().take(NAMED) {
        page.single(&file.path, INDENT, TextTone::Strong);
        page.para(&came_of_it(file), 2 * INDENT, TextTone::Plain);
    }
    let more = missing.len().saturating_sub(NAMED) as u64;
    if more > 0 {
        page.para(&format!("and {} more (--json lists all)", count(more)), INDENT, TextTone::Faint);
    }
    page
}

fn how(restore: &CacheRestore) -> String {
    let before = restore.files.iter().filter_map(|file| file.before_bytes.known());
    let before = before.fold(Bytes(0), |sum, bytes| sum + *bytes);
    let rate = restore.rate_bytes.map_or_else(String::new, |rate| format!(", at most {rate}/s"));
    let (read, limit) = (restore.read_bytes, restore.limit_bytes);
    format!("{before} were cached before; {read} were read{rate}, of {limit} allowed")
}

fn came_of_it(file: &RestoredFile) -> String {
    match &file.left_out {
        Some(why) => format!("left out: {why}"),
        None => format!("{} of {} are cached", file.resident_bytes, file.listed_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::TerminalStyle;
    use pagewise_model::Fact;

    fn file(path: &str, resident: u64, left_out: Option<&str>) -> RestoredFile {
        RestoredFile {
            path: path.to_owned(),
            listed_bytes: Bytes::mib(2),
            before_bytes: Fact::missing("not examined"),
            resident_bytes: Bytes::mib(resident),
            left_out: left_out.map(str::to_owned),
        }
    }

    fn restore(files: Vec<RestoredFile>) -> CacheRestore {
        CacheRestore {
            files,
            read_bytes: Bytes::mib(2),
            limit_bytes: Bytes::gib(1),
            rate_bytes: Some(Bytes::mib(100)),
            ended_early: None,
            interrupted: false,
        }
    }

    #[test]
    fn the_share_comes_first_and_what_is_missing_has_its_reason() {
        let changed = file("/b", 0, Some("it has been written since the list was saved"));
        let done = restore(vec![file("/a", 2, None), changed, file("/c", 1, None)]);
        let share = "50% of the saved pages are in the page cache: 3.0 MiB of 6.0 MiB of 3 files";
        assert_eq!(headline(&done), share);
        let style = TerminalStyle { colour: false, width: 80, unicode: false };
        let text = cache_restore_section(&done).text(&style);
        assert!(
            text.contains("2.0 MiB were read, at most 100 MiB/s, of 1.0 GiB allowed"),
            "{text}"
        );
        assert!(text.contains("left out: it has been written"), "{text}");
        assert!(text.contains("1.0 MiB of 2.0 MiB are cached") && !text.contains("/a"), "{text}");
    }

    #[test]
    fn an_empty_list_and_an_early_end_are_reported() {
        assert!(headline(&restore(Vec::new())).contains("nothing to restore"));
        let style = TerminalStyle { colour: false, width: 80, unicode: false };
        let mut many = restore((0..25).map(|n| file(&format!("/f{n}"), 0, None)).collect());
        many.ended_early = Some("the limit of 1.0 GiB was reached".to_owned());
        let text = cache_restore_section(&many).text(&style);
        assert!(text.contains("ended early: the limit") && text.contains("and 5 more"), "{text}");
        many.interrupted = true;
        assert!(cache_restore_section(&many).text(&style).contains("interrupted"));
    }
}
