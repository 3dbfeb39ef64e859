//! Where runs are kept: one JSON file each, in the state directory of the user.

use crate::failure::Failure;
use pagewise_model::run::Run;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Saved runs beyond this many are removed, oldest first.
const KEPT: usize = 500;

fn directory() -> Result<PathBuf, Failure> {
    let state = pagewise_kernel::limits::state_dir().map_err(|e| {
        Failure::usage(e.to_string()).with_help("set XDG_STATE_HOME to a directory of yours")
    })?;
    let runs = state.join("runs");
    fs::create_dir_all(&runs)
        .map_err(|e| Failure::usage(format!("cannot make `{}`: {e}", runs.display())))?;
    Ok(runs)
}

/// Saves `run` under its identifier; the whole file or nothing.
pub(crate) fn save(run: &Run) -> Result<PathBuf, Failure> {
    let directory = directory()?;
    let path = directory.join(format!("{}.json", run.id));
    write_whole(&path, &run.to_json())?;
    forget_oldest(&directory);
    Ok(path)
}

/// Writes a file so that it is there whole or not at all.
pub(crate) fn write_whole(path: &Path, text: &str) -> Result<(), Failure> {
    let part = path.with_extension("part");
    let written = fs::File::create(&part)
        .and_then(|mut f| f.write_all(text.as_bytes()).and_then(|()| f.sync_all()))
        .and_then(|()| fs::rename(&part, path));
    written.map_err(|e| {
        let _gone = fs::remove_file(&part);
        Failure::usage(format!("cannot save `{}`: {e}", path.display()))
    })
}

fn forget_oldest(directory: &Path) {
    let mut names = names(directory);
    if names.len() > KEPT {
        names.sort();
        for name in &names[..names.len() - KEPT] {
            let _gone = fs::remove_file(directory.join(format!("{name}.json")));
        }
    }
}

fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.strip_suffix(".json").map(str::to_owned))
        .collect()
}

fn read(path: &Path) -> Result<Run, Failure> {
    let text = fs::read(path)
        .map_err(|e| Failure::usage(format!("cannot read `{}`: {e}", path.display())))?;
    Run::from_json(&text).map_err(|e| Failure::usage(format!("`{}`: {e}", path.display())))
}

/// A run by identifier or file name; the newest one without either.
pub(crate) fn load(which: Option<&str>) -> Result<Run, Failure> {
    let directory = directory()?;
    let Some(which) = which else {
        let newest = names(&directory).into_iter().max().ok_or_else(|| {
            Failure::usage("no saved runs yet").with_help("pagewise tune -- CMD makes one")
        })?;
        return read(&directory.join(format!("{newest}.json")));
    };
    let known = directory.join(format!("{which}.json"));
    if !which.contains('/') && known.exists() {
        return read(&known);
    }
    if Path::new(which).exists() {
        return read(Path::new(which));
    }
    Err(Failure::usage(format!("no saved run and no file `{which}`"))
        .with_help("pagewise history lists the saved runs"))
}

/// All readable saved runs, oldest first.
pub(crate) fn all() -> Result<Vec<Run>, Failure> {
    let directory = directory()?;
    let mut names = names(&directory);
    names.sort();
    Ok(names.iter().filter_map(|n| read(&directory.join(format!("{n}.json"))).ok()).collect())
}
