//! Results of budgets: text, Markdown for a pull request, JUnit XML for build servers.

use crate::escape::escape;
use crate::markdown::inline;
use crate::markup::escape_markup;
use crate::number::{change, count, interval, percent};
use crate::page::ReportDocument;
use crate::shell::command_line;
use crate::style::TextTone;
use crate::table::{ColumnAlignment, ReportTable, TableCell};
use pagewise_model::check::{
    BudgetFigure, BudgetVerdict, BudgetedQuantity, CheckItem, ProgramCheck,
};
use std::collections::BTreeSet;

const fn tone(kept: BudgetVerdict) -> TextTone {
    match kept {
        BudgetVerdict::Passed => TextTone::Good,
        BudgetVerdict::Broken => TextTone::Bad,
        BudgetVerdict::CannotTell => TextTone::Plain,
    }
}

/// The command that shows what a budget was spent on.
const fn shown_by(what: BudgetedQuantity) -> &'static str {
    match what {
        BudgetedQuantity::Faults
        | BudgetedQuantity::MajorFaults
        | BudgetedQuantity::TouchedPages
        | BudgetedQuantity::FaultTime => "faults",
        BudgetedQuantity::Copied | BudgetedQuantity::Wakeups => "profile",
        BudgetedQuantity::Resident => "profile --memory",
        BudgetedQuantity::Time => "tune",
    }
}

fn found(item: &CheckItem) -> String {
    match item.found {
        None => "not known".to_owned(),
        Some(BudgetFigure::Count(n)) => count(n),
        Some(BudgetFigure::Bytes(bytes)) => bytes.to_string(),
        Some(BudgetFigure::Nanos(time)) => time.to_string(),
        Some(BudgetFigure::Ratio { ratio, low, high }) => {
            format!("{} ({})", change(ratio), interval(ratio, low, high))
        }
    }
}

fn most(item: &CheckItem) -> String {
    match item.most {
        BudgetFigure::Count(n) => count(n),
        BudgetFigure::Bytes(bytes) => bytes.to_string(),
        BudgetFigure::Nanos(time) => time.to_string(),
        BudgetFigure::Ratio { ratio, .. } => format!("{} more", percent(ratio - 1.0)),
    }
}

/// The word for the result of a whole check.
fn state(check: &ProgramCheck) -> (&'static str, TextTone) {
    match check.problem {
        Some(_) if !check.is_unfit && check.kept() != BudgetVerdict::Broken => {
            ("FAILED", TextTone::Bad)
        }
        _ => (check.kept().into_str(), tone(check.kept())),
    }
}

/// One check as a table of its budgets.
#[must_use]
pub fn check_page(check: &ProgramCheck) -> ReportDocument {
    let mut page = ReportDocument::default();
    let (word, tone) = state(check);
    page.item_tone(&check.name, &format!("{word}   {}", command_line(&check.command)), tone);
    if let Some(problem) = &check.problem {
        page.para(problem, 4, TextTone::Bad);
    }
    if check.items.is_empty() {
        return page;
    }
    let mut table = ReportTable::new(&[
        ("", ColumnAlignment::Text),
        ("found", ColumnAlignment::Right),
        ("at most", ColumnAlignment::Right),
        ("", ColumnAlignment::Left),
    ]);
    for item in &check.items {
        let word = item.kept.into_str();
        table.row(vec![
            item.what.into_str().into(),
            found(item).into(),
            most(item).into(),
            TableCell::new(word, self::tone(item.kept)),
        ]);
    }
    page.table(table);
    let broken = check.items.iter().filter(|item| item.kept == BudgetVerdict::Broken);
    let commands: BTreeSet<_> = broken.map(|item| shown_by(item.what)).collect();
    for command in commands {
        let line = format!("to see why: pagewise {command} -- {}", command_line(&check.command));
        page.para(&line, 2, TextTone::Faint);
    }
    page
}

/// A count of the checks by result.
#[must_use]
pub fn check_summary(all: &[ProgramCheck]) -> ReportDocument {
    let mut page = ReportDocument::default();
    let mut parts = Vec::new();
    for word in ["passed", "BROKEN", "FAILED", "cannot tell"] {
        let n = all.iter().filter(|check| state(check).0 == word).count();
        if n > 0 {
            parts.push(format!("{n} {}", word.to_lowercase()));
        }
    }
    let is_good = all.iter().all(|check| state(check).0 == "passed");
    let tone = if is_good { TextTone::Good } else { TextTone::Bad };
    page.para(&parts.join(", "), 0, tone);
    page
}

/// All checks as a table of GitHub's markdown.
#[must_use]
pub fn check_markdown(all: &[ProgramCheck]) -> String {
    let mut out = String::from("| check | budget | found | at most | |\n|---|---|---:|---:|---|\n");
    for check in all {
        let name = inline(&check.name);
        for item in &check.items {
            let word = match item.kept {
                BudgetVerdict::Broken => format!("**{}**", item.kept.into_str()),
                kept => kept.into_str().to_owned(),
            };
            out.push_str(&format!(
                "| {name} | {} | {} | {} | {word} |\n",
                item.what.into_str(),
                inline(&found(item)),
                inline(&most(item)),
            ));
        }
        if let Some(problem) = &check.problem {
            let word =
                if check.is_unfit { BudgetVerdict::CannotTell.into_str() } else { "**FAILED**" };
            out.push_str(&format!("| {name} | {} | | | {word} |\n", inline(problem)));
        }
    }
    out
}

/// All checks as JUnit XML: a suite for each, a case for each budget.
#[must_use]
pub fn check_junit(all: &[ProgramCheck]) -> String {
    let mut out = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"pagewise check\">\n",
    );
    for check in all {
        suite(check, &mut out);
    }
    out.push_str("</testsuites>\n");
    out
}

fn suite(check: &ProgramCheck, out: &mut String) {
    let of = |kept: BudgetVerdict| check.items.iter().filter(|item| item.kept == kept).count();
    let unfit = usize::from(check.is_unfit);
    let errors = usize::from(check.problem.is_some()) - unfit;
    let name = attribute(&check.name);
    out.push_str(&format!(
        "  <testsuite name=\"{name}\" tests=\"{}\" failures=\"{}\" errors=\"{errors}\" skipped=\"{}\" time=\"{:.3}\">\n",
        check.items.len() + errors + unfit,
        of(BudgetVerdict::Broken),
        of(BudgetVerdict::CannotTell) + unfit,
        check.took_ns.as_secs(),
    ));
    for item in &check.items {
        let case = format!("    <testcase classname=\"{name}\" name=\"{}\"", item.what.into_str());
        let text = attribute(&format!("{}, at most {}", found(item), most(item)));
        match item.kept {
            BudgetVerdict::Passed => out.push_str(&format!("{case}/>\n")),
            BudgetVerdict::Broken => {
                out.push_str(&format!("{case}><failure message=\"{text}\"/></testcase>\n"));
            }
            BudgetVerdict::CannotTell => {
                out.push_str(&format!(
                    "{case}><skipped message=\"cannot tell: {text}\"/></testcase>\n"
                ));
            }
        }
    }
    if let Some(problem) = &check.problem {
        let case = format!("    <testcase classname=\"{name}\" name=\"run\">");
        let text = attribute(problem);
        let result =
            if check.is_unfit { "skipped message=\"cannot tell: " } else { "error message=\"" };
        out.push_str(&format!("{case}<{result}{text}\"/></testcase>\n"));
    }
    out.push_str("  </testsuite>\n");
}

/// Foreign text for an attribute; control characters, which XML forbids, are spelled out.
fn attribute(text: &str) -> String {
    escape_markup(&escape(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::TerminalStyle;
    use pagewise_model::{Bytes, Nanos};

    fn checks() -> [ProgramCheck; 2] {
        let item = |what, most, found, kept| CheckItem { what, most, found: Some(found), kept };
        let ratio = |ratio, low, high| BudgetFigure::Ratio { ratio, low, high };
        let first = ProgramCheck {
            name: "start <up>".into(),
            command: vec!["./app".into(), "--version".into()],
            items: vec![
                item(
                    BudgetedQuantity::Faults,
                    BudgetFigure::Count(2000),
                    BudgetFigure::Count(1812),
                    BudgetVerdict::Passed,
                ),
                item(
                    BudgetedQuantity::Resident,
                    BudgetFigure::Bytes(Bytes::mib(40)),
                    BudgetFigure::Bytes(Bytes::mib(48)),
                    BudgetVerdict::Broken,
                ),
                item(
                    BudgetedQuantity::Time,
                    ratio(1.05, 1.05, 1.05),
                    ratio(1.04, 1.01, 1.07),
                    BudgetVerdict::CannotTell,
                ),
            ],
            took_ns: Nanos::millis(1500),
            problem: None,
            is_unfit: false,
        };
        let problem = Some("ended with exit status 1, not exit status 0".to_owned());
        let second =
            ProgramCheck { name: "other".into(), items: Vec::new(), problem, ..first.clone() };
        [first, second]
    }

    fn text(page: &ReportDocument) -> String {
        page.text(&TerminalStyle { colour: false, width: 80, unicode: false })
    }

    #[test]
    fn each_budget_has_its_line() {
        let shown = text(&check_page(&checks()[0]));
        for part in ["start <up>", "BROKEN", "./app --version", "1,812", "48.0 MiB", "5.0% more"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        let shown = text(&check_page(&checks()[1]));
        assert!(shown.contains("FAILED") && shown.contains("ended with exit status 1"), "{shown}");
        assert_eq!(text(&check_summary(&checks())), "1 broken, 1 failed\n");
    }

    #[test]
    fn build_servers_get_cases_failures_and_errors() {
        let xml = check_junit(&checks());
        for part in [
            "<testsuite name=\"start &lt;up&gt;\" tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\" time=\"1.500\">",
            "name=\"page faults\"/>",
            "name=\"resident memory\"><failure message=\"48.0 MiB, at most 40.0 MiB\"/>",
            "<skipped message=\"cannot tell: 4.0% more",
            "<error message=\"ended with exit status 1",
        ] {
            assert!(xml.contains(part), "{part}: {xml}");
        }
    }

    #[test]
    fn what_this_environment_does_not_answer_is_no_failure() {
        let [broken, failed] = checks();
        let unfit = ProgramCheck { is_unfit: true, ..failed };
        assert_eq!(unfit.kept(), BudgetVerdict::CannotTell);
        assert!(text(&check_page(&unfit)).contains("cannot tell ./app --version"));
        let xml = check_junit(std::slice::from_ref(&unfit));
        assert!(xml.contains("tests=\"1\" failures=\"0\" errors=\"0\" skipped=\"1\""), "{xml}");
        assert!(xml.contains("<skipped message=\"cannot tell: ended with"), "{xml}");
        let rows = check_markdown(std::slice::from_ref(&unfit));
        assert!(rows.ends_with("| | | cannot tell |\n"), "{rows}");
        // A budget that is broken stays broken.
        assert_eq!(ProgramCheck { is_unfit: true, ..broken }.kept(), BudgetVerdict::Broken);
        assert_eq!(text(&check_summary(&[unfit])), "1 cannot tell\n");
    }

    #[test]
    fn markdown_has_a_row_for_each_budget() {
        let rows = check_markdown(&checks());
        assert_eq!(rows.lines().count(), 2 + 3 + 1, "{rows}");
        assert!(
            rows.contains(
                "| start &lt;up&gt; | resident memory | 48.0 MiB | 40.0 MiB | **BROKEN** |"
            )
        );
    }
}
