//! `pagewise.toml`: budgets by name, with the command that each is for.
//!
//! ```toml
//! [check.startup]
//! command = ["./app", "--version"]
//! max-faults = 2000
//! max-major = 0
//! max-touched-pages = 900
//! max-fault-time = "250ms"
//! max-copied = "64K"
//! max-wakeups = 20
//! max-resident = "40M"
//! baseline = ["./app-1.0", "--version"]
//! max-slower = "5%"
//! ```
//!
//! `[faults.NAME]` is the older name of the same table. Every key may be left out. `faults --budget` judges
//! what it records, `check` judges everything. The file is read only on request (`--budget`, `--budgets`): a
//! recording must not fail because a file happens to lie in the working directory.

use crate::args::Percent;
use crate::failure::CommandFailure;
use pagewise_kernel::file_view::read_named;
use pagewise_model::check::CheckLimits;
use pagewise_model::fault::FaultBudgets;
use pagewise_model::{Bytes, Nanos};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Largest budget file that is read: parsed, it takes about 50 times its length in memory.
const LARGEST: Bytes = Bytes::kib(256);

/// Help text: names the command that shows all keys.
pub(crate) const KEYS: &str = "pagewise check --help shows an example with every key";

/// Default file, looked up in the working directory.
pub(crate) const NAME: &str = "pagewise.toml";

/// Recorded runs if the file gives no number.
const USUAL_RUNS: u32 = 3;
/// Time of a comparison with a baseline if the file gives none.
const USUAL_TIME: Nanos = Nanos::secs(120);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BudgetFile {
    #[serde(default)]
    check: BTreeMap<String, BudgetEntry>,
    #[serde(default)]
    faults: BTreeMap<String, BudgetEntry>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct BudgetEntry {
    #[serde(default)]
    command: Vec<String>,
    input: Option<PathBuf>,
    runs: Option<NonZeroU32>,
    #[serde(default)]
    exit_status: i32,
    max_faults: Option<u64>,
    max_major: Option<u64>,
    max_touched_pages: Option<u64>,
    #[serde(default, deserialize_with = "parsed")]
    max_fault_time: Option<Nanos>,
    #[serde(default, deserialize_with = "parsed")]
    max_copied: Option<Bytes>,
    max_wakeups: Option<u64>,
    #[serde(default, deserialize_with = "parsed")]
    max_resident: Option<Bytes>,
    #[serde(default)]
    baseline: Vec<String>,
    #[serde(default, deserialize_with = "parsed")]
    max_slower: Option<Percent>,
    #[serde(default, deserialize_with = "parsed")]
    time_budget: Option<Nanos>,
}

/// Budgets under one name in the file.
#[derive(Debug, PartialEq)]
pub(crate) struct NamedBudget {
    pub(crate) name: String,
    /// The command to check; empty if the command line supplies it.
    pub(crate) command: Vec<OsString>,
    /// Standard input of the command.
    pub(crate) input: Option<PathBuf>,
    /// Number of recorded runs; their medians are judged.
    pub(crate) runs: u32,
    /// The exit status that the command must have.
    pub(crate) exit_status: i32,
    /// The limits.
    pub(crate) limits: CheckLimits,
    /// The command that the time is compared with.
    pub(crate) baseline: Option<BudgetBaseline>,
}

impl NamedBudget {
    /// Whether there is no limit and no baseline, so that nothing can break.
    pub(crate) fn is_empty(&self) -> bool {
        self.limits == CheckLimits::default() && self.baseline.is_none()
    }
}

/// A command that the checked one must not be much slower than.
#[derive(Debug, PartialEq)]
pub(crate) struct BudgetBaseline {
    pub(crate) command: Vec<OsString>,
    /// Largest slowdown, as a share.
    pub(crate) limit: f64,
    /// Time for the comparison.
    pub(crate) budget: Nanos,
}

fn parsed<'a, D: Deserializer<'a>, T: FromStr>(from: D) -> Result<Option<T>, D::Error>
where
    T::Err: std::fmt::Display,
{
    let text = String::deserialize(from)?;
    text.parse().map(Some).map_err(D::Error::custom)
}

/// All budgets of the file at `path`, by name.
///
/// # Errors
/// One line that names the file, the line and the key.
pub(crate) fn read_all(path: &Path) -> Result<Vec<NamedBudget>, CommandFailure> {
    let shown = path.display();
    let cannot = |why: String| {
        CommandFailure::usage(format!("cannot read budgets `{shown}`: {why}"))
            .with_help(format!("write {NAME} here, or name a file; {KEYS}"))
    };
    let text = read_named(path, LARGEST).map_err(|error| cannot(error.source.to_string()))?;
    let text = String::from_utf8(text).map_err(|_| cannot("it is not UTF-8".to_owned()))?;
    let wrong = |why| CommandFailure::usage(format!("`{shown}` {why}")).with_help(KEYS);
    let all = parse(&text).map_err(wrong)?;
    all.into_iter().map(|(name, entry)| named(name, entry).map_err(wrong)).collect()
}

/// The budgets called `name` in the file at `path`. Without a name, the file must hold exactly one table.
///
/// # Errors
/// One line that names the file, the line and the key.
pub(crate) fn read(path: &Path, name: Option<&str>) -> Result<NamedBudget, CommandFailure> {
    let shown = path.display();
    let all = read_all(path)?;
    let known = all.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(", ");
    let names = if known.is_empty() { "none".to_owned() } else { known };
    let found = match name {
        Some(name) => all.into_iter().find(|one| one.name == name),
        None if all.len() == 1 => all.into_iter().next(),
        None => None,
    };
    found.ok_or_else(|| match name {
        Some(name) => CommandFailure::usage(format!("`{shown}` has no budgets [check.{name}]"))
            .with_help(format!("it has: {names}")),
        None => CommandFailure::usage(format!("`{shown}` does not hold exactly one budget table"))
            .with_help(format!("choose one with --budget NAME: {names}")),
    })
}

fn named(name: String, entry: BudgetEntry) -> Result<NamedBudget, String> {
    let faults = FaultBudgets {
        most_faults: entry.max_faults,
        most_major_faults: entry.max_major,
        most_touched_pages: entry.max_touched_pages,
        most_time_ns: entry.max_fault_time,
    };
    let limits = CheckLimits {
        faults,
        most_copied: entry.max_copied,
        most_wakeups: entry.max_wakeups,
        most_resident: entry.max_resident,
    };
    let words = |words: Vec<String>| words.into_iter().map(OsString::from).collect();
    let baseline = match (entry.baseline.is_empty(), entry.max_slower) {
        (true, None) => None,
        (false, Some(limit)) => Some(BudgetBaseline {
            command: words(entry.baseline),
            limit: limit.0,
            budget: entry.time_budget.unwrap_or(USUAL_TIME),
        }),
        (true, Some(_)) => return Err(format!("[check.{name}]: max-slower needs a baseline")),
        (false, None) => return Err(format!("[check.{name}]: baseline needs max-slower")),
    };
    let runs = entry.runs.map_or(USUAL_RUNS, NonZeroU32::get);
    let (command, input, exit_status) = (words(entry.command), entry.input, entry.exit_status);
    Ok(NamedBudget { name, command, input, runs, exit_status, limits, baseline })
}

/// The entries of `text`, or the error with its position.
fn parse(text: &str) -> Result<BTreeMap<String, BudgetEntry>, String> {
    let mut file: BudgetFile = toml::from_str(text).map_err(|error| {
        let message = error.message().replace('\n', " ");
        let Some(span) = error.span() else { return format!("cannot be understood: {message}") };
        let before = text.get(..span.start).unwrap_or(text);
        let number = before.matches('\n').count();
        let line = text.lines().nth(number).unwrap_or_default();
        match line.split_once('=') {
            Some((key, _)) => format!("line {}: {}: {message}", number + 1, key.trim()),
            None => format!("line {}: {message}", number + 1),
        }
    })?;
    if let Some(twice) = file.faults.keys().find(|name| file.check.contains_key(*name)) {
        return Err(format!("has both [check.{twice}] and [faults.{twice}]"));
    }
    file.check.append(&mut file.faults);
    Ok(file.check)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# budgets\n[faults.startup]\ncommand = [\"./app\", \"--version\"]\n\
                        max-faults = 2000\nmax-major = 0\nmax-touched-pages = 900\n\
                        max-fault-time = \"250ms\"\n\n[faults.help]\n";

    fn read_text(text: &str, name: Option<&str>) -> Result<NamedBudget, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let shown = file.path().display().to_string();
        read(file.path(), name).map_err(|failure| failure.to_string().replace(&shown, "FILE"))
    }

    #[test]
    fn every_key_is_read() {
        let read = read_text(GOOD, Some("startup")).unwrap();
        assert_eq!(read.command, ["./app", "--version"]);
        let want = FaultBudgets {
            most_faults: Some(2000),
            most_major_faults: Some(0),
            most_touched_pages: Some(900),
            most_time_ns: Some(Nanos::millis(250)),
        };
        assert_eq!(read.limits.faults, want);
        let bare = read_text(GOOD, Some("help")).unwrap();
        assert_eq!((bare.command.len(), bare.limits), (0, CheckLimits::default()));
        let whole = "[check.all]\ncommand = [\"a\"]\ninput = \"in\"\nruns = 5\nexit-status = 1\n\
                     max-copied = \"64K\"\nmax-wakeups = 20\nmax-resident = \"40M\"\n\
                     baseline = [\"b\"]\nmax-slower = \"5%\"\ntime-budget = \"30s\"\n";
        let read = read_text(whole, None).unwrap();
        let limits = &read.limits;
        assert_eq!(limits.most_copied, Some(Bytes::kib(64)));
        assert_eq!(limits.most_resident, Some(Bytes::mib(40)));
        assert_eq!((limits.most_wakeups, read.runs, read.exit_status), (Some(20), 5, 1));
        let baseline =
            BudgetBaseline { command: vec!["b".into()], limit: 0.05, budget: Nanos::secs(30) };
        assert_eq!(read.baseline, Some(baseline));
    }

    #[test]
    fn a_name_may_be_left_out_where_there_is_one() {
        assert_eq!(read_text("[faults.a]\nmax-major = 1\n", None).unwrap().name, "a");
        let said = |text, name| read_text(text, name).unwrap_err();
        assert!(said(GOOD, None).contains("exactly one budget table"));
        assert_eq!(said(GOOD, Some("x")), "`FILE` has no budgets [check.x]");
        assert!(said("\n", None).contains("exactly one budget table"));
        assert!(said("", None).ends_with("the file is empty"));
    }

    #[test]
    fn bad_input_is_one_line_that_names_the_key() {
        for (text, line, key) in [
            ("[faults.a]\nmax-fault = 1\n", 2, "max-fault"),
            ("[faults.a]\n\nmax-faults = \"many\"\n", 3, "max-faults"),
            ("[faults.a]\nmax-major = -1\n", 2, "max-major"),
            ("[faults.a]\nmax-fault-time = \"soon\"\n", 2, "max-fault-time"),
            ("[faults.a]\nmax-fault-time = 3\n", 2, "max-fault-time"),
            ("[faults.a]\ncommand = \"ls\"\n", 2, "command"),
            ("[budgets]\n", 1, "budgets"),
            ("[faults.a]\nmax-major = \n", 2, "max-major"),
            ("[faults.a]\nmax-major = 1\nmax-major = 2\n", 3, "max-major"),
            ("[check.a]\nruns = 0\n", 2, "runs"),
            ("[check.a]\nmax-slower = \"much\"\n", 2, "max-slower"),
        ] {
            let said = read_text(text, Some("a")).unwrap_err();
            assert!(said.starts_with(&format!("`FILE` line {line}: ")), "{text}: {said}");
            assert!(said.contains(key) && !said.contains('\n'), "{text}: {said}");
        }
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let said = |text| read_text(text, None).unwrap_err();
        assert!(said("[check.a]\nmax-slower = \"5%\"\n").contains("needs a baseline"));
        assert!(said("[check.a]\nbaseline = [\"b\"]\n").contains("needs max-slower"));
        assert!(said("[check.a]\n[faults.a]\n").contains("has both [check.a] and [faults.a]"));
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let said = read(Path::new("/nonexistent/pagewise.toml"), None).unwrap_err().to_string();
        assert!(said.contains("/nonexistent/pagewise.toml"), "{said}");
    }
}
