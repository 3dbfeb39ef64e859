//! Whether a saved session may be continued: its conditions are saved with it, and compared with the present.
//!
//! Not seen: files that the program opens without naming them in its arguments, and environment variables
//! other than those that a saved run lists.

use crate::request::SessionRequest;
use pagewise_model::conditions::FileMark;
use pagewise_model::look::TracedLook;
use pagewise_model::machine::Machine;
use pagewise_model::run::SavedRun;
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Paths that may be files of the program: its executables, its input and each argument.
pub(crate) fn paths(request: &SessionRequest, traced: Option<&TracedLook>) -> BTreeSet<PathBuf> {
    let processes = traced.into_iter().flat_map(|traced| &traced.processes);
    let seen = processes.flat_map(|p| std::iter::once(&p.exe).chain(&p.args));
    let mut paths: BTreeSet<PathBuf> = seen.map(PathBuf::from).collect();
    paths.extend(request.spec.command.iter().map(PathBuf::from));
    paths.extend(request.spec.input.place().map(Path::to_owned));
    paths
}

/// The files that the runs of a session depended on.
pub(crate) fn files(request: &SessionRequest, run: &SavedRun) -> Vec<FileMark> {
    let traced = run.look.as_ref().and_then(|look| look.traced.known());
    let mut paths = paths(request, traced);
    paths.insert(request.here.program.clone());
    let files: BTreeSet<PathBuf> =
        paths.iter().filter_map(|path| path.canonicalize().ok()).filter(|p| p.is_file()).collect();
    let started = i128::from(run.started_unix_ns);
    let files = files.iter().filter_map(|path| mark(path));
    files.filter(|mark| mark.modified_unix_ns < started).collect()
}

fn mark(path: &Path) -> Option<FileMark> {
    let there = std::fs::metadata(path).ok()?;
    Some(FileMark {
        path: path.to_str()?.to_owned(),
        bytes: there.size(),
        modified_unix_ns: i128::from(there.mtime()) * 1_000_000_000
            + i128::from(there.mtime_nsec()),
        device: there.dev(),
        inode: there.ino(),
    })
}

/// Why runs made now cannot be compared with those of a saved session, if so. `program` is the file that its
/// command starts now.
#[must_use]
pub fn changed(run: &SavedRun, now: &Machine, program: &Path) -> Option<String> {
    if let Some(then) = &run.machine {
        let texts =
            [("kernel", &then.kernel, &now.kernel), ("processor", &then.cpu_model, &now.cpu_model)];
        for (what, then, now) in texts {
            if then != now {
                return Some(format!("the {what} was {then} and is {now}"));
            }
        }
        if then.cpus != now.cpus {
            return Some("the CPUs that it may use have changed".to_owned());
        }
        if then.thp_enabled != now.thp_enabled {
            return Some("transparent_hugepage/enabled has changed".to_owned());
        }
        if then.uid != now.uid {
            return Some(format!("user {} ran it, and you are user {}", then.uid, now.uid));
        }
    }
    let program = program.canonicalize().ok();
    let is_known = |path: &PathBuf| run.files.iter().any(|f| Path::new(&f.path) == path);
    if !program.as_ref().is_some_and(is_known) {
        let shown = run.command.first().map_or("", String::as_str);
        return Some(format!("`{shown}` is a different file now"));
    }
    let other = run.files.iter().find(|was| mark(Path::new(&was.path)).as_ref() != Some(was));
    other.map(|file| format!("`{}` has changed", file.path))
}

#[cfg(test)]
mod tests;
