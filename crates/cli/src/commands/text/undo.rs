//! `pagewise text undo`

use super::super::cache::{self, exit_code, failure, until_failure};
use crate::args::Undo;
use crate::failure::Failure;
use crate::terminal;
use pagewise_kernel::cached_file::CachedFile;
use pagewise_kernel::clock;
use pagewise_model::cache::{CacheOutcome, CacheVerb, CachedFile as Told};
use pagewise_remedy::record::Record;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

/// Drops files from the page cache that were brought on huge pages: those named, or all that are recorded.
pub(super) fn run(args: &Undo) -> Result<ExitCode, Failure> {
    let start = clock::now();
    let record = Record::own();
    let mut gone = BTreeSet::new();
    let files = if args.all {
        let record = record.as_ref().map_err(|why| unrecorded(why.clone()))?;
        let paths = record.files().map_err(unrecorded)?;
        let (there, missing) = paths.into_iter().partition::<Vec<PathBuf>, _>(|p| p.is_file());
        gone.extend(missing);
        cache::open_all(&there)?
    } else {
        cache::open_all(&args.files)?
    };
    cache::cannot_be_undone(CacheVerb::Evict).into_iter().for_each(terminal::complain);
    let drop = |file: CachedFile| {
        let path = std::path::absolute(file.path()).unwrap_or_default();
        let done = cache::one(CacheVerb::Evict, file).map_err(|error| failure(&error))?;
        Ok((path, done))
    };
    let (done, failed) = until_failure(files, drop);
    gone.extend(done.iter().filter(|(_, told)| is_dropped(told)).map(|(path, _)| path.clone()));
    let files: Vec<Told> = done.into_iter().map(|(_, told)| told).collect();
    let exit = exit_code(files.iter());
    cache::tell(CacheVerb::Evict, files, start, args.json)?;
    if let Ok(record) = record {
        record.forget(&gone).map_err(unrecorded)?;
    }
    failed.map_or(Ok(exit), Err)
}

fn is_dropped(told: &Told) -> bool {
    matches!(told.outcome, Some(CacheOutcome::Done | CacheOutcome::Already))
}

fn unrecorded(why: String) -> Failure {
    Failure::usage(why).with_help("name the files: pagewise text undo FILE...")
}
