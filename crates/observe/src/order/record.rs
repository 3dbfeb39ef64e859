//! Records the functions that a program calls, in the order of their first calls.
//!
//! How calls are seen, and which are not, is said in `pagewise_tracee::first_calls`.

use super::starts::{FunctionStarts, names};
use pagewise_model::first_calls::{CallRecord, CallSource, CalledObject, FirstCall};
use pagewise_model::usage::ProgramEnd;
use pagewise_tracee::first_calls::{CodeFile, FirstCalls};
use pagewise_tracee::launch::ProgramLaunch;
use pagewise_tracee::passthrough;
use pagewise_tracee::recorder::RecordError;
use std::fs::File;
use std::path::Path;

/// The files whose functions are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectSelection {
    /// Also the libraries that the executable maps.
    pub libraries: bool,
    /// These files instead, by path or by name, whichever process of the tree maps them.
    pub only: Vec<String>,
}

impl ObjectSelection {
    fn want(&self, mapped: &CodeFile<'_>) -> bool {
        if self.only.is_empty() {
            return mapped.is_first && (mapped.is_executable || self.libraries);
        }
        self.only.iter().any(|wanted| is_named(wanted, mapped.path))
    }
}

/// Whether `wanted`, a path or a name, matches the file at `path`.
#[must_use]
pub fn is_named(wanted: &str, path: &Path) -> bool {
    let wanted = Path::new(wanted);
    let is_name = wanted.components().count() == 1;
    let same_name = is_name && path.file_name() == Some(wanted.as_os_str());
    same_name || std::fs::canonicalize(wanted).is_ok_and(|whole| whole == path)
}

/// A file that was watched.
#[derive(Debug)]
struct WatchedObject {
    file: File,
    starts: FunctionStarts,
}

/// Runs `launch` in the foreground process group and records the first calls of the functions of `wanted`.
/// Returns how it ended, and what it called.
///
/// # Errors
/// [`RecordError`] if the program has not run.
pub fn record(
    launch: &ProgramLaunch,
    wanted: &ObjectSelection,
) -> Result<(ProgramEnd, CallRecord), RecordError> {
    let mut watched = Vec::new();
    let mut find = |mapped: &CodeFile<'_>| {
        if !wanted.want(mapped) {
            return None;
        }
        let file = mapped.file.try_clone().ok()?;
        let starts = FunctionStarts::read(&file)?;
        let offsets = starts.offsets();
        watched.push(WatchedObject { file, starts });
        Some(offsets)
    };
    let recorded = passthrough::first_calls_through(launch, &mut find)?;
    let command = launch.argv.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let objects = objects(&recorded.calls, &watched);
    let record = CallRecord { command, source: CallSource::Calls, left_out: 0, objects };
    Ok((recorded.ended, record))
}

fn objects(seen: &FirstCalls, watched: &[WatchedObject]) -> Vec<CalledObject> {
    let object = |(at, (path, functions)): (usize, &(std::path::PathBuf, usize))| {
        let calls: Vec<_> = seen.calls.iter().filter(|call| call.object == at).collect();
        let WatchedObject { file, starts } = &watched[at];
        let addresses: Vec<u64> =
            calls.iter().map(|call| starts.address(call.offset).unwrap_or(call.offset)).collect();
        let names = names(file, &addresses);
        let named = names.into_iter().zip(addresses);
        let calls = calls.iter().zip(named).map(|(call, ((name, bytes), address))| FirstCall {
            name,
            address,
            bytes,
            at_ns: call.at_ns,
            pid: call.pid,
        });
        CalledObject {
            path: path.to_string_lossy().into_owned(),
            functions: *functions as u64,
            code: starts.code(),
            calls: calls.collect(),
        }
    };
    seen.objects.iter().enumerate().map(object).collect()
}
