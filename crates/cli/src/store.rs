//! Where runs are kept: one JSON file each, in the state directory of the user.

use crate::failure::Failure;
use pagewise_kernel::dirs;
use pagewise_model::run::Run;
use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Saved runs beyond this many are removed, oldest first.
const KEPT: usize = 500;

/// Largest file that is read as a saved run: no run comes near it.
const LARGEST: u64 = 256 << 20;

fn directory() -> Result<PathBuf, Failure> {
    let state = dirs::state_dir().map_err(|e| Failure::usage(e.to_string()).with_help(e.help()))?;
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

/// Writes a file so that it is there whole or not at all. What is no regular file (a pipe, a
/// device) and our own output are written to as they are.
pub(crate) fn write_whole(path: &Path, text: &str) -> Result<(), Failure> {
    let written = match fs::metadata(path) {
        Ok(there) if is_open_as(&there, std::io::stdout()) => {
            std::io::stdout().lock().write_all(text.as_bytes())
        }
        Ok(there) if is_open_as(&there, std::io::stderr()) => {
            std::io::stderr().lock().write_all(text.as_bytes())
        }
        Ok(there) if there.is_file() => {
            // A link stays one: its target is replaced.
            fs::canonicalize(path)
                .and_then(|target| replace(&target, text, Some(there.permissions())))
        }
        Ok(_) => OpenOptions::new()
            .write(true)
            .open(path)
            .and_then(|mut file| file.write_all(text.as_bytes())),
        Err(_) => replace(path, text, None),
    };
    written.map_err(|e| Failure::usage(format!("cannot save `{}`: {e}", path.display())))
}

fn is_open_as(there: &fs::Metadata, stream: impl AsFd) -> bool {
    rustix::fs::fstat(stream).is_ok_and(|s| (s.st_dev, s.st_ino) == (there.dev(), there.ino()))
}

/// Writes beside `path`, for the owner alone, and renames. The new name is never an existing one
/// and no link is followed: `O_EXCL`, see open(2).
fn replace(path: &Path, text: &str, mode: Option<fs::Permissions>) -> std::io::Result<()> {
    let stamp = pagewise_kernel::clock::now().0;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let part = path.with_file_name(format!(".{name}.{}-{stamp}.part", std::process::id()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| mode.map_or(Ok(()), |mode| file.set_permissions(mode)))
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&part, path));
    if written.is_err() {
        let _gone = fs::remove_file(&part);
    }
    written
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
    let fail = |why: String| Failure::usage(format!("cannot read `{}`: {why}", path.display()));
    let mut text = Vec::new();
    let file = fs::File::open(path).map_err(|e| fail(e.to_string()))?;
    file.take(LARGEST + 1).read_to_end(&mut text).map_err(|e| fail(e.to_string()))?;
    if text.len() as u64 > LARGEST {
        return Err(fail("larger than any saved run".to_owned()));
    }
    Run::from_json(&text).map_err(|e| Failure::usage(format!("`{}`: {e}", path.display())))
}

/// A run by identifier or file name; the newest one without either.
pub(crate) fn load(which: Option<&str>) -> Result<Run, Failure> {
    let directory = directory();
    let Some(which) = which else {
        let directory = directory?;
        let newest = names(&directory).into_iter().max().ok_or_else(|| {
            Failure::usage("no saved runs yet").with_help("pagewise tune -- CMD makes one")
        })?;
        return read(&directory.join(format!("{newest}.json")));
    };
    if let Ok(directory) = &directory
        && !which.contains('/')
        && let known = directory.join(format!("{which}.json"))
        && known.exists()
    {
        return read(&known);
    }
    if Path::new(which).exists() {
        return read(Path::new(which));
    }
    directory?;
    Err(Failure::usage(format!("no saved run and no file `{which}`"))
        .with_help("pagewise history lists the saved runs"))
}

/// All saved runs that can be read, oldest first; the others are told as one line.
pub(crate) fn all() -> Result<Vec<Run>, Failure> {
    let directory = directory()?;
    let mut names = names(&directory);
    names.sort();
    let found = names.len();
    let runs: Vec<Run> =
        names.iter().filter_map(|n| read(&directory.join(format!("{n}.json"))).ok()).collect();
    if runs.len() < found {
        Failure::usage(format!("{} saved run(s) cannot be read", found - runs.len()))
            .with_help(format!("pagewise show ID says why; they lie in {}", directory.display()))
            .tell();
    }
    Ok(runs)
}
