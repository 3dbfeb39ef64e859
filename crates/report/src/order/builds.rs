//! Builds of one program beside each other: code, pages and faults of a start, its time, and larger pages.

use crate::experiment::{effect_cells, short_word};
use crate::number::{change, count, three_digits};
use crate::page::ReportDocument;
use crate::paragraph::Paragraph;
use crate::style::TextTone;
use crate::table::{ColumnAlignment, ReportTable, TableCell};
use pagewise_model::Fact;
use pagewise_model::builds::{BuildComparison, BuildSeen, NamedBuild};
use pagewise_model::fault::PageForecast;
use pagewise_model::measured::median;

/// Indentation of what stands under a row.
const UNDER: usize = 4;

/// The comparison as tables.
#[must_use]
pub fn builds_section(comparison: &BuildComparison) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.heading("one start of each build");
    page.table(starts(comparison));
    page.para(
        "Pages of the program's file that it touches; of them those with code. Faults: all, and those on that file, medians. Windows: of 64 KiB, which one fault maps.",
        0,
        TextTone::Faint,
    );
    let times = times(comparison);
    if !times.is_empty() {
        let quantity = comparison.quantity.noun();
        let first = comparison.builds.first().map_or("", |build| build.name.as_str());
        page.blank();
        page.heading(&format!("{quantity} of a start, compared with {first}"));
        page.table(times);
    }
    page.blank();
    page.heading("with other pages: faults on the file, and memory for it (predicted)");
    page.table(sizes(comparison));
    page.blank();
    comparison.notes.iter().for_each(|note| page.bullet(note, TextTone::Plain));
    page
}

fn starts(comparison: &BuildComparison) -> ReportTable {
    let right = ColumnAlignment::Right;
    let mut table = ReportTable::new(&[
        ("build", ColumnAlignment::Name),
        ("code", right),
        ("pages", right),
        ("", right),
        ("of code", right),
        ("faults", right),
        ("of file", right),
        ("windows", right),
    ]);
    let first = comparison.builds.first().and_then(|build| build.seen.known());
    let first = first.map_or(0, |seen| seen.touched.pages);
    for (at, NamedBuild { name, seen, .. }) in comparison.builds.iter().enumerate() {
        let mut row = vec![TableCell::from(name.clone())];
        let under = match seen {
            Fact::Missing(why) => Some(Paragraph::new(why.clone(), UNDER, TextTone::Warn)),
            Fact::Known(seen) => {
                row.extend(figures(seen, (at > 0).then_some(first)));
                let same = seen.same_as.as_ref();
                same.map(|other| {
                    Paragraph::new(format!("the same bytes as {other}"), UNDER, TextTone::Faint)
                })
            }
        };
        table.row_with(row, under.into_iter().collect());
    }
    table
}

/// The figures of a build; its pages against those of the `first`.
fn figures(seen: &BuildSeen, first: Option<u64>) -> Vec<TableCell> {
    let middle = |all: &[u64]| {
        let all: Vec<f64> = all.iter().map(|n| *n as f64).collect();
        median(&all).map_or_else(String::new, three_digits)
    };
    let touched = &seen.touched;
    let against = first.filter(|first| *first > 0);
    let against = against.map(|first| change(touched.pages as f64 / first as f64));
    vec![
        seen.code_bytes.to_string().into(),
        count(touched.pages).into(),
        against.unwrap_or_default().into(),
        count(touched.code_pages).into(),
        middle(&seen.faults).into(),
        middle(&seen.file_faults).into(),
        three_digits(touched.windows).into(),
    ]
}

fn times(comparison: &BuildComparison) -> ReportTable {
    let mut table = ReportTable::new(&[
        ("build", ColumnAlignment::Name),
        ("change", ColumnAlignment::Right),
        ("95%", ColumnAlignment::Right),
        ("verdict", ColumnAlignment::Text),
    ]);
    for NamedBuild { name, seen, .. } in &comparison.builds {
        let timed = seen.known().filter(|seen| seen.same_as.is_none());
        if let Some(verdict) = timed.and_then(|seen| seen.time.as_ref()) {
            let (word, tone) = short_word(verdict, comparison.quantity, true);
            let mut row = vec![TableCell::from(name.clone())];
            row.extend(effect_cells(verdict.effect.as_ref(), tone, "no runs"));
            row.push(TableCell::new(word, tone));
            table.row(row);
        }
    }
    table
}

fn sizes(comparison: &BuildComparison) -> ReportTable {
    let right = ColumnAlignment::Right;
    let mut table = ReportTable::new(&[
        ("build", ColumnAlignment::Name),
        ("4 KiB", right),
        ("", right),
        ("16 KiB", right),
        ("", right),
        ("64 KiB", right),
        ("", right),
        ("2 MiB", right),
        ("", right),
    ]);
    for NamedBuild { name, seen, .. } in &comparison.builds {
        let Some(seen) = seen.known().filter(|seen| seen.same_as.is_none()) else { continue };
        let of = |size: &PageForecast| -> [TableCell; 2] {
            [count(size.faults).into(), size.memory_bytes.to_string().into()]
        };
        let cells = seen.touched.sizes.iter().flat_map(of);
        table.row(std::iter::once(name.clone().into()).chain(cells).collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TerminalStyle;
    use pagewise_model::Bytes;
    use pagewise_model::builds::TouchedFile;

    fn build(name: &str, pages: u64, same_as: Option<&str>) -> NamedBuild {
        let size = |kib: u64| PageForecast {
            page_bytes: Bytes::kib(kib),
            faults: 7,
            memory_bytes: Bytes::kib(kib * pages),
            untouched_bytes: Bytes(0),
        };
        let seen = BuildSeen {
            linker: "GNU ld".into(),
            code_bytes: Bytes::kib(300),
            same_as: same_as.map(str::to_owned),
            touched: TouchedFile {
                pages,
                code_pages: pages / 2,
                windows: 3.25,
                sizes: [4, 16, 64, 2048].map(size).to_vec(),
            },
            faults: vec![120, 124],
            file_faults: vec![9],
            ..BuildSeen::default()
        };
        NamedBuild { name: name.into(), command: Vec::new(), seen: Fact::Known(seen) }
    }

    #[test]
    fn builds_stand_beside_the_first() {
        let failed = Fact::missing("not built: exit status: 1 ld: no such option");
        let comparison = BuildComparison {
            builds: vec![
                build("plain", 200, None),
                build("-Os", 150, None),
                build("separate-code", 200, Some("plain")),
                NamedBuild { name: "icf=all".into(), command: Vec::new(), seen: failed },
            ],
            notes: vec!["GNU ld cannot fold identical code".into()],
            ..BuildComparison::default()
        };
        let style = TerminalStyle { colour: false, width: 80, unicode: false };
        let text = builds_section(&comparison).text(&style);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let line = |start: &str| text.lines().find(|line| line.trim().starts_with(start)).unwrap();
        let words: Vec<&str> = line("-Os").split_whitespace().collect();
        let want = ["-Os", "300", "KiB", "150", "25%", "less", "75", "122", "9.00", "3.25"];
        assert_eq!(words, want);
        assert!(line("the same").contains("the same bytes as plain"), "{text}");
        assert!(line("not built").contains("no such option"), "{text}");
        let all = text.split("with other pages").nth(1).unwrap();
        assert!(
            all.contains(" 7 ") && all.contains("600 KiB") && !all.contains("separate"),
            "{text}"
        );
    }
}
