//! The measurements of a bench in all their forms, and the checks common to all kinds.

use super::{
    HOSTILE, PLAIN, assert_harmless, assert_needs_nothing_from_outside, assert_rows_are_whole,
    check, without_own_script,
};
use pagewise_model::run::SavedRun;
use pagewise_report::escape::cells;
use pagewise_report::{headline, html, render_whole};

/// The forms of one kind of bench, and the run that holds their data.
pub(crate) struct Forms {
    pub(crate) run: SavedRun,
    pub(crate) section: String,
    pub(crate) csv: String,
    pub(crate) svg: String,
}

impl Forms {
    pub(crate) fn page(&self) -> String {
        html(&self.run)
    }

    /// The report matches the reviewed one, and the section is part of it.
    pub(crate) fn check_text(&self, name: &str) {
        let text = render_whole(&self.run, &PLAIN);
        check(name, &text);
        assert!(text.contains(&self.section), "{text}");
    }

    /// The CSV has whole rows, the same as those of the run.
    pub(crate) fn assert_csv(&self) {
        assert_rows_are_whole(&self.csv);
        assert_eq!(pagewise_report::csv(&self.run), self.csv);
    }

    pub(crate) fn check_csv(&self, name: &str) {
        check(name, &self.csv);
        self.assert_csv();
    }

    pub(crate) fn check_page(&self, name: &str) {
        let page = self.page();
        check(name, &page);
        assert_needs_nothing_from_outside(&page);
    }

    pub(crate) fn assert_tells(&self, parts: &[&str]) {
        for part in parts {
            assert!(self.section.contains(part), "{part} in\n{}", self.section);
        }
    }

    /// The advice stands last.
    pub(crate) fn assert_ends_with_advice(&self) {
        let end: Vec<&str> = self.section.lines().rev().take(3).collect();
        assert_eq!(
            end,
            [
                "  - The rest: not measured.",
                "  - Do that in 5.0 ns.",
                "  - Do this: 10% less (9..11%)."
            ]
        );
    }

    /// Asserts that the report of a run without any facts says only `sentence`.
    pub(crate) fn assert_says_only(&self, sentence: &str) {
        assert_eq!(headline(&self.run), sentence);
        assert!(self.svg.contains("</svg>") && self.page().contains("</html>"));
    }

    /// Asserts that hostile text stays text: measurements full of [`HOSTILE`], with a hostile caption.
    pub(crate) fn assert_text_of_others_is_text(&mut self) {
        self.run.command = vec![HOSTILE.into()];
        let page = self.page();
        for text in [&self.section, &self.csv, &self.svg, &page] {
            assert_harmless(text);
        }
        for text in [&self.svg, &without_own_script(&page)] {
            assert!(!text.contains("<script") && !text.contains("\" onload"), "{text}");
        }
    }
}

/// A picture whose coordinates are numbers, and lines within the width.
pub(crate) fn assert_whole(picture: &str, text: &str, width: usize) {
    assert!(!picture.contains("NaN") && !picture.contains("inf\""), "{picture}");
    assert!(text.lines().all(|line| cells(line) <= width.min(160)), "{text}");
}
