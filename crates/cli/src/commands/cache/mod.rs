//! `pagewise cache`

mod saved;

use super::experiment::identity;
use super::signals::stop_flag;
use crate::args::{CacheArgs, CacheCommand as Verb, CacheFileArgs, CacheLockArgs};
use crate::failure::{CommandFailure, UNFIT};
use crate::terminal;
use pagewise_kernel::cached_file::PageCacheFile;
use pagewise_kernel::file_view::FileView;
use pagewise_kernel::{SysError, clock, file_system, limits, page_size};
use pagewise_model::body::RunBody;
use pagewise_model::cache::{
    self, CacheAction, CacheCounts, CacheOutcome, CacheReport, CacheState, SlotMap,
};
use pagewise_model::run::{RunKind, SavedRun};
use pagewise_model::{Bytes, Fact, Nanos};
use pagewise_remedy::recache::RecacheSubject;
use rustix::fs::{Mode, OFlags};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Once;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Exit code: less is on huge pages than before.
const WORSE: u8 = 1;
/// Interval at which a lock's end condition is checked.
const WAIT: Duration = Duration::from_millis(100);

/// Shows or changes the page cache of files.
pub(super) fn run(args: &CacheArgs) -> Result<ExitCode, CommandFailure> {
    match &args.verb {
        Verb::Show(what) => change(CacheAction::Show, what),
        Verb::Evict(what) => change(CacheAction::Evict, what),
        Verb::Huge(what) => change(CacheAction::Huge, what),
        Verb::Lock(what) => lock(what),
        Verb::Save(what) => saved::save(what),
        Verb::Restore(what) => saved::restore(what),
    }
}

fn change(verb: CacheAction, what: &CacheFileArgs) -> Result<ExitCode, CommandFailure> {
    let start = clock::now();
    let (mut files, mut missing) = (Vec::new(), Vec::new());
    for path in &what.files {
        match opened(path) {
            // The JSON list includes empty files.
            Ok(None) if verb == CacheAction::Show && what.json => files.push((path, None)),
            Ok(None) => {}
            Ok(file) => files.push((path, file)),
            // If a file cannot be opened, no file is changed.
            Err(error) if verb != CacheAction::Show => return Err(failure(&error)),
            Err(error) => missing.push(failure(&error)),
        }
    }
    if verb == CacheAction::Evict && !files.is_empty() {
        terminal::complain(EVICTED);
    }
    let change = |(path, file): (&PathBuf, Option<PageCacheFile>)| {
        let done = file.map_or_else(|| empty(path), |file| one(verb, file));
        done.map_err(|error| failure(&error))
    };
    let (files, failed) = until_failure(files, change);
    let exit = exit_code(files.iter());
    if what.json || !files.is_empty() {
        tell(verb, files, start, what.json)?;
    }
    let last = failed.or_else(|| missing.pop());
    for failure in missing {
        terminal::report(&failure);
    }
    last.map_or(Ok(exit), Err)
}

/// Prints the state of these files, or the result of the change.
pub(super) fn tell(
    verb: CacheAction,
    files: Vec<cache::FileCacheReport>,
    start: Nanos,
    json: bool,
) -> Result<(), CommandFailure> {
    let report = CacheReport { verb, slot_bytes: page_size::huge(), files };
    show(&looked(RunKind::Cache, RunBody::Cache(report), start), json)
}

/// Changes or inspects one file.
pub(super) fn one(
    verb: CacheAction,
    file: PageCacheFile,
) -> Result<cache::FileCacheReport, SysError> {
    let subject = RecacheSubject::look(file)?;
    match verb {
        CacheAction::Show | CacheAction::Lock => Ok(subject.shown()),
        CacheAction::Evict => subject.evict(),
        CacheAction::Huge => subject.make_huge(|_| warn_of_refilling()),
    }
}

/// Applies `one` to each of `all` until it fails. Returns the results so far in any case.
pub(super) fn until_failure<T, U>(
    all: Vec<T>,
    one: impl Fn(T) -> Result<U, CommandFailure>,
) -> (Vec<U>, Option<CommandFailure>) {
    let mut done = Vec::new();
    for each in all {
        match one(each) {
            Ok(each) => done.push(each),
            Err(failure) => return (done, Some(failure)),
        }
    }
    (done, None)
}

/// Warning before files are dropped.
pub(super) const EVICTED: &str = "dropped data must be read from disk again";

/// Warns before files are filled again; once per process.
pub(super) fn warn_of_refilling() {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| {
        terminal::complain(
            "the files are dropped from the cache and read again; their previous folios cannot be restored",
        );
    });
}

/// Opens a file. Reports an empty file and returns `None`: the page cache holds nothing of it.
fn opened(path: &Path) -> Result<Option<PageCacheFile>, SysError> {
    if std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == 0) {
        let name = pagewise_report::quote(&path.to_string_lossy());
        terminal::remark(&format!("{name} is empty: 0 of 0 pages are cached"));
        return Ok(None);
    }
    PageCacheFile::open(path).map(Some)
}

/// The state of an empty file.
fn empty(path: &Path) -> Result<cache::FileCacheReport, SysError> {
    let name = path.display().to_string();
    let place = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .map_err(|e| SysError::new("open", name.clone(), e))?;
    Ok(cache::FileCacheReport {
        file_system: file_system::look_up(&place, &name)?.name,
        path: name,
        size_bytes: Bytes(0),
        before: CacheState {
            cached_bytes: Fact::Known(Bytes(0)),
            huge_bytes: Fact::Known(Bytes(0)),
            slots: SlotMap(Vec::new()),
            counts: Fact::Known(CacheCounts::default()),
            folios: Fact::Known(Vec::new()),
        },
        after: None,
        holders: None,
        outcome: None,
        took_ns: None,
    })
}

/// Opens all files that have content, so that nothing is changed if one cannot be opened.
pub(super) fn open_all(paths: &[PathBuf]) -> Result<Vec<PageCacheFile>, CommandFailure> {
    let opened: Result<Vec<_>, _> = paths.iter().map(|path| opened(path)).collect();
    let files: Vec<_> = opened.map_err(|error| failure(&error))?.into_iter().flatten().collect();
    if files.is_empty() && !paths.is_empty() {
        return Err(CommandFailure::usage("all of these files are empty")
            .with_help("name a file with content"));
    }
    Ok(files)
}

/// A run for a current observation, which is not saved, with its content.
pub(super) fn looked(kind: RunKind, body: RunBody, start: Nanos) -> SavedRun {
    let (started, _) = identity(&[]);
    let mut run = SavedRun::new(kind, String::new(), started, Vec::new());
    run.took_ns = Nanos(clock::now().0.saturating_sub(start.0));
    run.body = Some(body);
    run
}

/// Prints a run as JSON or as text.
pub(super) fn show(run: &SavedRun, json: bool) -> Result<(), CommandFailure> {
    let for_people = || pagewise_report::render(run, &terminal::style());
    terminal::print(&if json { run.to_json() + "\n" } else { for_people() })
}

/// The exit code for the outcomes of these files.
pub(super) fn exit_code<'a>(files: impl Iterator<Item = &'a cache::FileCacheReport>) -> ExitCode {
    ExitCode::from(worst_of(files))
}

/// As [`exit_code`], as a number.
pub(super) fn worst_of<'a>(files: impl Iterator<Item = &'a cache::FileCacheReport>) -> u8 {
    files.map(|file| code(file.outcome.as_ref())).fold(0, worst)
}

/// The exit code for an outcome.
const fn code(outcome: Option<&CacheOutcome>) -> u8 {
    match outcome {
        None | Some(CacheOutcome::Done | CacheOutcome::Already) => 0,
        Some(CacheOutcome::Worse { .. }) => WORSE,
        Some(CacheOutcome::Refused { .. } | CacheOutcome::Short { .. }) => UNFIT,
    }
}

/// The more important of two exit codes: something became worse, or was not done.
pub(super) const fn worst(a: u8, b: u8) -> u8 {
    match (a, b) {
        (WORSE, _) | (_, WORSE) => WORSE,
        (0, other) | (other, _) => other,
    }
}

pub(super) fn failure(error: &SysError) -> CommandFailure {
    let help = match error.source.kind() {
        std::io::ErrorKind::NotFound => "check the name; ls shows the existing files",
        std::io::ErrorKind::Other => "name a regular file with content",
        std::io::ErrorKind::PermissionDenied => "run as an account that may read it",
        _ => "pagewise doctor shows what this machine and account allow",
    };
    CommandFailure::usage(error.to_string()).with_help(help)
}

/// Locks files in memory until a signal or the end of the requested time.
fn lock(asked: &CacheLockArgs) -> Result<ExitCode, CommandFailure> {
    let start = clock::now();
    let files = open_all(&asked.what.files)?;
    let total = files.iter().fold(Bytes(0), |sum, file| sum + file.size());
    let limit = limits::own_memory().map_err(|error| failure(&error))?;
    if let Some(why) = limit.exceeded("these files take", total) {
        return Err(CommandFailure::unfit(why).with_help("lock less, or free memory first"));
    }
    let stop = stop_flag()?;
    let locked: Vec<FileView> = files.iter().map(locked).collect::<Result<_, _>>()?;
    let mut shown = Vec::new();
    for file in files {
        let mut file = one(CacheAction::Lock, file).map_err(|error| failure(&error))?;
        file.outcome = Some(CacheOutcome::Done);
        shown.push(file);
    }
    tell(CacheAction::Lock, shown, start, asked.what.json)?;
    let end = asked.time.map(|time| clock::now() + time);
    terminal::remark(&match asked.time {
        Some(time) => format!("locked for {time}; Ctrl-C ends it"),
        None => "locked; Ctrl-C ends it".to_owned(),
    });
    while !stop.load(Ordering::Relaxed) && end.is_none_or(|end| clock::now() < end) {
        std::thread::sleep(WAIT);
    }
    drop(locked);
    Ok(ExitCode::SUCCESS)
}

fn locked(file: &PageCacheFile) -> Result<FileView, CommandFailure> {
    let view = file.view().map_err(|error| failure(&error))?;
    view.lock().map_err(|error| {
        let name = file.path().display();
        CommandFailure::unfit(format!("{name}: {error}"))
            .with_help("ulimit -l shows how much this account may lock; root may lock more")
    })?;
    Ok(view)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_became_worse_is_reported_first() {
        let short = CacheOutcome::Short { why: String::new() };
        let worse = CacheOutcome::Worse { why: String::new() };
        let of = |all: &[&CacheOutcome]| all.iter().map(|o| code(Some(o))).fold(0, worst);
        assert_eq!(of(&[&CacheOutcome::Done, &CacheOutcome::Already]), 0);
        assert_eq!(of(&[&CacheOutcome::Done, &short]), UNFIT);
        assert_eq!(of(&[&short, &worse, &short]), WORSE);
        assert_eq!(code(None), 0);
    }
}
