//! `pagewise.toml`: budgets of page faults by name, with the command that each is for.
//!
//! ```toml
//! [faults.startup]
//! command = ["./app", "--version"]
//! max-faults = 2000
//! max-major = 0
//! max-touched-pages = 900
//! max-fault-time = "250ms"
//! ```
//!
//! Every key may be left out. The file is read where it is asked for (`--budget`, `--budgets`) and
//! never by itself: a recording in some directory must not fail by a file that happens to lie there.

use crate::failure::Failure;
use pagewise_model::Nanos;
use pagewise_model::fault::Budgets;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

/// Where it is looked for when no other file is named: in the working directory.
pub(crate) const NAME: &str = "pagewise.toml";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    faults: BTreeMap<String, Entry>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Entry {
    #[serde(default)]
    command: Vec<String>,
    max_faults: Option<u64>,
    max_major: Option<u64>,
    max_touched_pages: Option<u64>,
    #[serde(default, deserialize_with = "time")]
    max_fault_time: Option<Nanos>,
}

/// Budgets that the file holds under one name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) name: String,
    /// What it is for; empty where that is left to the command line.
    pub(crate) command: Vec<OsString>,
    /// What is allowed.
    pub(crate) budgets: Budgets,
}

fn time<'a, D: Deserializer<'a>>(from: D) -> Result<Option<Nanos>, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map(Some).map_err(D::Error::custom)
}

/// The budgets called `name` in the file at `path`; without a name the only ones there.
///
/// # Errors
/// One line that names file, line and key.
pub(crate) fn read(path: &Path, name: Option<&str>) -> Result<Named, Failure> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|e| {
        Failure::usage(format!("cannot read budgets `{shown}`: {e}"))
            .with_help(format!("--budget reads {NAME} here, --budgets FILE another file"))
    })?;
    let all = parse(&text).map_err(|why| Failure::usage(format!("`{shown}` {why}")))?;
    let known = all.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    let names = || if known.is_empty() { "none".to_owned() } else { known.clone() };
    let found = match name {
        Some(name) => all.into_iter().find(|(key, _)| key == name),
        None if all.len() == 1 => all.into_iter().next(),
        None => None,
    };
    let (name, entry) = found.ok_or_else(|| match name {
        Some(name) => Failure::usage(format!("`{shown}` has no budgets [faults.{name}]"))
            .with_help(format!("it has: {}", names())),
        None => Failure::usage(format!("`{shown}` does not hold exactly one budget table"))
            .with_help(format!("choose one with --budget NAME: {}", names())),
    })?;
    Ok(named(name, entry))
}

fn named(name: String, entry: Entry) -> Named {
    let budgets = Budgets {
        most_faults: entry.max_faults,
        most_major_faults: entry.max_major,
        most_touched_pages: entry.max_touched_pages,
        most_time_ns: entry.max_fault_time,
    };
    let command = entry.command.into_iter().map(OsString::from).collect();
    Named { name, command, budgets }
}

/// The entries of `text`, or what is wrong with it and where.
fn parse(text: &str) -> Result<BTreeMap<String, Entry>, String> {
    let file: File = toml::from_str(text).map_err(|error| {
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
    Ok(file.faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# budgets\n[faults.startup]\ncommand = [\"./app\", \"--version\"]\n\
                        max-faults = 2000\nmax-major = 0\nmax-touched-pages = 900\n\
                        max-fault-time = \"250ms\"\n\n[faults.help]\n";

    fn read_text(text: &str, name: Option<&str>) -> Result<Named, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let shown = file.path().display().to_string();
        read(file.path(), name).map_err(|failure| failure.to_string().replace(&shown, "FILE"))
    }

    #[test]
    fn every_key_is_read() {
        let read = read_text(GOOD, Some("startup")).unwrap();
        assert_eq!(read.command, ["./app", "--version"]);
        let want = Budgets {
            most_faults: Some(2000),
            most_major_faults: Some(0),
            most_touched_pages: Some(900),
            most_time_ns: Some(Nanos::millis(250)),
        };
        assert_eq!(read.budgets, want);
        let bare = read_text(GOOD, Some("help")).unwrap();
        assert_eq!((bare.command.len(), bare.budgets), (0, Budgets::default()));
    }

    #[test]
    fn a_name_may_be_left_out_where_there_is_one() {
        assert_eq!(read_text("[faults.a]\nmax-major = 1\n", None).unwrap().name, "a");
        let said = |text, name| read_text(text, name).unwrap_err();
        assert!(said(GOOD, None).contains("exactly one budget table"));
        assert_eq!(said(GOOD, Some("x")), "`FILE` has no budgets [faults.x]");
        assert!(said("", None).contains("exactly one budget table"));
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
        ] {
            let said = read_text(text, Some("a")).unwrap_err();
            assert!(said.starts_with(&format!("`FILE` line {line}: ")), "{text}: {said}");
            assert!(said.contains(key) && !said.contains('\n'), "{text}: {said}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let said = read(Path::new("/nonexistent/pagewise.toml"), None).unwrap_err().to_string();
        assert!(said.contains("/nonexistent/pagewise.toml"), "{said}");
    }
}
