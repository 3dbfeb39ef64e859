//! Saved runs: one JSON file each, in the user's state directory. A file is complete or absent. The next save
//! removes what a killed one left behind ([`part_file`]). The oldest runs are removed, except those with
//! applied receipts, which `recheck` needs. Each run keeps its [number](numbers).

mod numbers;

use crate::failure::CommandFailure;
use pagewise_kernel::dirs::{self, DirError};
use pagewise_kernel::file_view::{read_at_most, read_named};
use pagewise_kernel::output_file::{self, OutputError};
use pagewise_kernel::{SysError, part_file};
use pagewise_model::Bytes;
use pagewise_model::prediction::PredictionOffsets;
use pagewise_model::recheck::GainRecheck;
use pagewise_model::run::SavedRun;
use pagewise_remedy::apply::record;
use pagewise_report::number::counted;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

/// Most saved runs, not counting those with applied receipts. The oldest beyond it are removed.
const KEPT: usize = 500;

/// Most runs that may begin in the same millisecond with the same name.
const MOST_ALIKE: u32 = 1000;

/// Returned by a file system that can neither rename without replacing nor link.
const EINVAL: i32 = rustix::io::Errno::INVAL.raw_os_error();

/// Largest file that is read as a saved run. Real runs are far smaller.
const LARGEST: Bytes = Bytes::mib(256);

fn directory() -> Result<PathBuf, CommandFailure> {
    own_directory("runs")
}

/// The directory of this name in the state directory; created if missing.
fn own_directory(name: &str) -> Result<PathBuf, CommandFailure> {
    let own = dirs::state_dir().map_err(no_state)?.join(name);
    fs::create_dir_all(&own)
        .map_err(|e| CommandFailure::usage(format!("cannot make `{}`: {e}", own.display())))?;
    Ok(own)
}

fn no_state(error: DirError) -> CommandFailure {
    CommandFailure::usage(error.to_string()).with_help(error.help())
}

/// Saves `run` under its identifier, as a complete file or not at all. If another run has the identifier,
/// this one gets a number at its end.
pub(crate) fn save(run: &mut SavedRun) -> Result<(), CommandFailure> {
    let directory = directory()?;
    let saved = save_in(&directory, run);
    let names = names(&directory);
    let _its_own = numbered(&directory, &names);
    // If the records cannot be read, any run may have an applied receipt: remove none.
    if names.len() > KEPT
        && let Ok(applied) = record::all()
    {
        let applied = applied.into_iter().map(|one| one.change.run).collect();
        for name in too_old(names, &applied) {
            let _gone = fs::remove_file(in_file(&directory, &name));
        }
    }
    saved
}

fn save_in(directory: &Path, run: &mut SavedRun) -> Result<(), CommandFailure> {
    let id = run.id.clone();
    let mut made = Ok(());
    for n in 1..=MOST_ALIKE {
        if n > 1 {
            run.id = format!("{id}-{n}");
        }
        let path = in_file(directory, &run.id);
        made = create(&path, &run.to_json())
            .map_err(|e| (e.kind(), format!("cannot save `{}`: {e}", path.display())));
        if !matches!(made, Err((ErrorKind::AlreadyExists, _))) {
            break;
        }
    }
    made.map_err(|(_, why)| CommandFailure::usage(why))
}

/// Creates a new file. Some file systems cannot refuse a name that is taken. There the name itself, which
/// holds the process and the time, must be unique.
fn create(path: &Path, text: &str) -> std::io::Result<()> {
    let write =
        |replaces| part_file::write_whole(path, text.as_bytes(), part_file::PRIVATE, replaces);
    match write(false) {
        Err(error) if error.errno() == Some(EINVAL) && !path.exists() => write(true),
        written => written,
    }
    .map_err(cause)
}

fn cause(error: SysError) -> Error {
    error.source
}

/// Writes a result to the user's path ([`output_file`]). A new file gets the mode that the umask allows.
pub(crate) fn write_whole(path: &Path, text: &str) -> Result<(), CommandFailure> {
    write(path, text, part_file::by_umask())
}

/// As [`write_whole`], for a saved run. It holds file names and environment variables, so only the owner can
/// read a new file.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<(), CommandFailure> {
    write(path, text, part_file::PRIVATE)
}

/// As [`write_whole`]; everyone can read a new file.
pub(crate) fn write_public(path: &Path, text: &str) -> Result<(), CommandFailure> {
    write(path, text, part_file::PUBLIC)
}

fn write(path: &Path, text: &str, mode: u32) -> Result<(), CommandFailure> {
    output_file::write(path, text.as_bytes(), mode).map_err(|error| {
        let why = match &error {
            OutputError::Sys(error) => error.source.to_string(),
            other => other.to_string(),
        };
        let failure = CommandFailure::usage(format!("cannot save `{}`: {why}", path.display()));
        match error.help() {
            Some(help) => failure.with_help(help),
            None => failure,
        }
    })
}

/// Writes the page of run `id` for a browser, replacing the previous one. Returns its file.
pub(crate) fn save_page(id: &str, page: &str) -> Result<PathBuf, CommandFailure> {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let name: String = id.chars().map(plain).collect();
    let path = own_directory("pages")?.join(format!("run-{name}.html"));
    write_private(&path, page)?;
    Ok(path)
}

/// Saves the result of a recheck, replacing the previous one of the same run.
pub(crate) fn save_recheck(one: &GainRecheck) -> Result<(), CommandFailure> {
    let path = own_directory("rechecked")?.join(format!("{}.json", one.run));
    let failed =
        |e: String| CommandFailure::usage(format!("cannot save `{}`: {e}", path.display()));
    let text = serde_json::to_vec(one).map_err(|e| failed(e.to_string()))?;
    write_state(&path, &text).map_err(|e| failed(e.to_string()))
}

/// The saved results of rechecks. Skips files that cannot be read. Writes nothing.
pub(crate) fn rechecks() -> Result<Vec<GainRecheck>, CommandFailure> {
    let Some(state) = dirs::find_state_dir().map_err(no_state)? else { return Ok(Vec::new()) };
    let directory = state.join("rechecked");
    let texts = names(&directory).into_iter().map(|name| directory.join(format!("{name}.json")));
    let read = |path: PathBuf| serde_json::from_slice(&read_at_most(&path, LARGEST).ok()?).ok();
    Ok(texts.filter_map(read).collect())
}

/// Name of the file of the corrections of predicted gains.
const OFFSETS: &str = "predictions.json";

/// The saved corrections of predicted gains; none if they cannot be read. Writes nothing.
pub(crate) fn prediction_offsets() -> PredictionOffsets {
    let read = || {
        let path = dirs::find_state_dir().ok()??.join(OFFSETS);
        serde_json::from_slice(&read_at_most(&path, LARGEST).ok()?).ok()
    };
    read().unwrap_or_default()
}

/// Replaces the saved corrections of predicted gains, or removes them.
pub(crate) fn save_prediction_offsets(
    offsets: Option<&PredictionOffsets>,
) -> Result<(), CommandFailure> {
    let path = dirs::state_dir().map_err(no_state)?.join(OFFSETS);
    let done = match offsets {
        Some(offsets) => serde_json::to_vec(offsets)
            .map_err(Error::other)
            .and_then(|text| write_state(&path, &text)),
        None => match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        },
    };
    done.map_err(|e| CommandFailure::usage(format!("cannot save `{}`: {e}", path.display())))
}

fn write_state(path: &Path, text: &[u8]) -> std::io::Result<()> {
    part_file::write_whole(path, text, part_file::PRIVATE, true).map_err(cause)
}

/// The oldest of these runs (oldest first) that no applied receipt needs.
fn too_old(mut names: Vec<String>, applied: &BTreeSet<String>) -> Vec<String> {
    names.retain(|name| !applied.contains(name));
    names.truncate(names.len().saturating_sub(KEPT));
    names
}

/// Names of the saved runs, oldest first.
fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.strip_suffix(".json").map(str::to_owned))
        .collect();
    names.sort();
    names
}

/// The saved run in a file.
pub(crate) fn read(path: &Path) -> Result<SavedRun, CommandFailure> {
    let fail =
        |why: String| CommandFailure::usage(format!("cannot read `{}`: {why}", path.display()));
    let text = read_named(path, LARGEST).map_err(|e| fail(e.source.to_string()))?;
    SavedRun::from_json(&text)
        .map_err(|e| CommandFailure::usage(format!("`{}`: {e}", path.display())))
}

/// The names that have numbers; the first is run 1.
fn numbered(directory: &Path, names: &[String]) -> Vec<String> {
    numbers::lines(&directory.with_file_name("numbers"), names)
}

/// The saved run with this number, or the newest without one.
fn chosen(number: Option<usize>) -> Result<SavedRun, CommandFailure> {
    let directory = directory()?;
    let names = names(&directory);
    let Some(newest) = names.last() else {
        let failure = CommandFailure::usage("no saved runs yet");
        return Err(failure.with_help("pagewise tune -- CMD makes one"));
    };
    let fail = |why: &str| {
        CommandFailure::usage(why).with_help("pagewise history --all lists the saved runs")
    };
    let Some(number) = number else { return read(&in_file(&directory, newest)) };
    let given = numbered(&directory, &names);
    match number.checked_sub(1).and_then(|at| given.get(at)) {
        Some(name) if names.contains(name) => read(&in_file(&directory, name)),
        Some(_) => Err(fail(&format!("saved run {number} was removed"))),
        None => Err(fail(&format!("no saved run {number}"))),
    }
}

fn in_file(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.json"))
}

/// A run by its number, `last`, its identifier or its file; `None` means the newest.
pub(crate) fn load(which: Option<&str>) -> Result<SavedRun, CommandFailure> {
    let Some(which) = which.filter(|which| *which != "last") else { return chosen(None) };
    let directory = directory();
    if let Ok(directory) = &directory
        && !which.contains('/')
        && let known = in_file(directory, which)
        && known.exists()
    {
        return read(&known);
    }
    if let Ok(number) = which.parse() {
        return chosen(Some(number));
    }
    if Path::new(which).exists() {
        return read(Path::new(which));
    }
    directory?;
    Err(CommandFailure::usage(format!("no saved run and no file `{which}`"))
        .with_help("pagewise history lists the saved runs"))
}

/// All readable saved runs with their numbers, oldest first. The others are reported in one line. A run
/// without a number has 0.
pub(crate) fn all() -> Result<Vec<(usize, SavedRun)>, CommandFailure> {
    let directory = directory()?;
    let names = names(&directory);
    let found = names.len();
    let given = numbered(&directory, &names);
    let number = |name: &String| given.iter().position(|one| one == name).map_or(0, |at| at + 1);
    let runs: Vec<(usize, SavedRun)> = names
        .iter()
        .filter_map(|name| Some((number(name), read(&in_file(&directory, name)).ok()?)))
        .collect();
    if runs.len() < found {
        let unread = counted((found - runs.len()) as u64, "saved run", "saved runs");
        let help = format!("pagewise show ID explains why; they are in {}", directory.display());
        let failure = CommandFailure::usage(format!("{unread} cannot be read")).with_help(help);
        crate::terminal::report(&failure);
    }
    Ok(runs)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use pagewise_model::run::RunKind;

    #[test]
    fn runs_of_one_moment_are_all_kept() {
        let directory = tempfile::tempdir().unwrap();
        let save = |warning: u64| {
            let mut run = SavedRun::new(RunKind::Profile, "1-true".to_owned(), warning, Vec::new());
            save_in(directory.path(), &mut run).unwrap();
            run.id
        };
        let (mut ids, mut started) = (Vec::new(), Vec::new());
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..8)
                .map(|w| scope.spawn(move || (0..8).map(|n| save(8 * w + n)).collect::<Vec<_>>()))
                .collect();
            ids.extend(workers.into_iter().flat_map(|worker| worker.join().unwrap()));
        });
        for id in &ids {
            let run = read(&directory.path().join(format!("{id}.json"))).unwrap();
            assert_eq!(&run.id, id);
            started.push(run.started_unix_ns);
        }
        started.sort_unstable();
        assert_eq!(started, (0..64).collect::<Vec<_>>());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 64);
    }

    #[test]
    fn the_oldest_run_goes_unless_its_receipt_is_applied() {
        let names: Vec<String> = (0..=KEPT + 1).map(|n| format!("{n:04}")).collect();
        let applied = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(too_old(names.clone(), &applied(&[])), ["0000", "0001"]);
        assert_eq!(too_old(names.clone(), &applied(&["0000", "gone"])), ["0001"]);
        assert!(too_old(names, &applied(&["0000", "0500"])).is_empty());
    }
}
