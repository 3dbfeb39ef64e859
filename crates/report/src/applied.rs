//! A receipt written to a file: before and after the change, and after its undo.

use crate::number::{counted, date};
use crate::page::ReportDocument;
use crate::receipt::exact_lines;
use crate::style::TextTone;
use crate::table::{ColumnAlignment, ReportTable};
use pagewise_model::applied::{AppliedChange, FileChange};

/// The change as it would be made.
#[must_use]
pub fn change_page(change: &FileChange, checked: &str) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.heading(&format!("{} of run {}", change.arm, change.run));
    page.single(&change.file, 2, TextTone::Plain);
    for line in change.content.lines() {
        page.exact(line);
    }
    page.para(checked, 2, TextTone::Plain);
    for warning in &change.warnings {
        page.para(warning, 2, TextTone::Warn);
    }
    page
}

/// What was written, and how to make it take effect.
#[must_use]
pub fn applied_page(applied: &AppliedChange) -> ReportDocument {
    let mut page = ReportDocument::default();
    let replaced = applied.before.as_ref().map_or(String::new(), |before| {
        format!(" (it replaced {})", counted(before.content.len() as u64, "byte", "bytes"))
    });
    page.para(&format!("written as change {}{replaced}", applied.number), 0, TextTone::Good);
    exact_lines(&mut page, "to make it take effect", &applied.change.next);
    page.heading("to go back");
    page.exact(&format!("pagewise apply --undo {}", applied.number));
    page
}

/// What was undone; `what` says what happened to the file.
#[must_use]
pub fn undone_page(applied: &AppliedChange, what: &str) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.para(&format!("{what} {}", applied.change.file), 0, TextTone::Plain);
    exact_lines(&mut page, "to make it take effect", &applied.change.next_after_undo);
    page
}

/// The changes in effect.
#[must_use]
pub fn applied_list(all: &[AppliedChange]) -> ReportDocument {
    let mut page = ReportDocument::default();
    if all.is_empty() {
        page.para("no changes in effect", 0, TextTone::Plain);
        return page;
    }
    let mut table = ReportTable::new(&[
        ("change", ColumnAlignment::Right),
        ("written (UTC)", ColumnAlignment::Left),
        ("remedy", ColumnAlignment::Text),
        ("file", ColumnAlignment::Name),
    ]);
    for applied in all {
        table.row(vec![
            applied.number.to_string().into(),
            date(applied.at_unix_ns).into(),
            applied.change.arm.clone().into(),
            applied.change.file.clone().into(),
        ]);
    }
    page.table(table);
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::TerminalStyle;
    use pagewise_model::applied::PreviousFile;

    fn applied(before: Option<PreviousFile>) -> AppliedChange {
        let next = vec!["systemctl daemon-reload".to_owned()];
        let change = FileChange {
            run: "20261126-1".into(),
            arm: "place=one".into(),
            file: "/etc/systemd/system/x.service.d/50-pagewise.conf".into(),
            content: "[Service]\nCPUAffinity=1\n".into(),
            mode: 0o644,
            next_after_undo: next.clone(),
            warnings: Vec::new(),
            next,
        };
        AppliedChange { number: 3, at_unix_ns: 0, change, before, directories: Vec::new() }
    }

    fn text(page: &ReportDocument) -> String {
        page.text(&TerminalStyle { colour: false, width: 80, unicode: false })
    }

    #[test]
    fn the_change_is_shown_as_it_will_be() {
        let shown = text(&change_page(&applied(None).change, "accepted by sh -n"));
        for line in ["x.service.d/50-pagewise.conf", "CPUAffinity=1", "accepted by sh -n"] {
            assert!(shown.contains(line), "{shown}");
        }
    }

    #[test]
    fn what_was_written_says_how_to_go_back() {
        let before = PreviousFile { content: vec![b'x'; 5], mode: 0o644, group: None };
        let shown = text(&applied_page(&applied(Some(before))));
        for line in ["change 3 (it replaced 5 bytes)", "daemon-reload", "apply --undo 3"] {
            assert!(shown.contains(line), "{shown}");
        }
    }

    #[test]
    fn the_list_names_each_change() {
        assert_eq!(text(&applied_list(&[])), "no changes in effect\n");
        let shown = text(&applied_list(&[applied(None)]));
        assert!(shown.contains("place=one") && shown.contains("50-pagewise.conf"), "{shown}");
    }
}
