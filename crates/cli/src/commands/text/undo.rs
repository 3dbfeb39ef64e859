//! `pagewise text undo`

use super::super::cache::{self, exit_code, failure, until_failure};
use crate::args::TextUndoArgs;
use crate::failure::CommandFailure;
use crate::terminal;
use pagewise_kernel::cached_file::PageCacheFile;
use pagewise_kernel::clock;
use pagewise_model::cache::{CacheAction, CacheOutcome, FileCacheReport as Reported};
use pagewise_remedy::record::HugeFileRecord;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Drops files that were moved to huge pages from the page cache: those named, or all recorded ones.
pub(super) fn run(args: &TextUndoArgs) -> Result<ExitCode, CommandFailure> {
    let start = clock::now();
    let record = HugeFileRecord::own();
    let RecordedFiles { files, mut gone, closed } = if args.all {
        let record = record.as_ref().map_err(|why| unrecorded(why.clone()))?;
        RecordedFiles::from_paths(record.files().map_err(unrecorded)?)
    } else {
        RecordedFiles { files: cache::open_all(&args.files)?, ..RecordedFiles::default() }
    };
    if !files.is_empty() {
        terminal::complain(cache::EVICTED);
    }
    let drop = |file: PageCacheFile| {
        let path = std::path::absolute(file.path()).unwrap_or_default();
        let done = cache::one(CacheAction::Evict, file).map_err(|error| failure(&error))?;
        Ok((path, done))
    };
    let (done, failed) = until_failure(files, drop);
    gone.extend(
        done.iter().filter(|(_, reported)| is_dropped(reported)).map(|(path, _)| path.clone()),
    );
    let files: Vec<Reported> = done.into_iter().map(|(_, reported)| reported).collect();
    let exit = exit_code(files.iter());
    cache::tell(CacheAction::Evict, files, start, args.json)?;
    if let Ok(record) = record {
        record.forget(&gone).map_err(unrecorded)?;
    }
    failed.or(closed).map_or(Ok(exit), Err)
}

/// The files in a record.
#[derive(Default)]
struct RecordedFiles {
    files: Vec<PageCacheFile>,
    /// Names without anything left to drop.
    gone: BTreeSet<PathBuf>,
    /// Why the other files could not be opened; they stay recorded.
    closed: Option<CommandFailure>,
}

impl RecordedFiles {
    fn from_paths(paths: BTreeSet<PathBuf>) -> Self {
        let mut named = Self::default();
        let mut closed = Vec::new();
        for path in paths {
            match PageCacheFile::open(&path) {
                Ok(file) => named.files.push(file),
                Err(_) if is_nothing(&path) => {
                    named.gone.insert(path);
                }
                Err(error) => closed.push(error),
            }
        }
        named.closed = closed.first().map(|first| {
            let more = closed.len() - 1;
            let others = if more == 0 { String::new() } else { format!(", and {more} more") };
            CommandFailure::usage(format!("{first}{others}: not dropped"))
                .with_help("they stay listed: try again as an account that may read them")
        });
        named
    }
}

/// Whether the name no longer leads to a file with content.
fn is_nothing(path: &Path) -> bool {
    match std::fs::metadata(path) {
        Ok(found) => !found.is_file() || found.len() == 0,
        Err(error) => matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
    }
}

fn is_dropped(reported: &Reported) -> bool {
    matches!(reported.outcome, Some(CacheOutcome::Done | CacheOutcome::Already))
}

fn unrecorded(why: String) -> CommandFailure {
    CommandFailure::usage(why).with_help("name the files: pagewise text undo FILE...")
}
