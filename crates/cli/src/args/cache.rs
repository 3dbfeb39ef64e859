//! `pagewise cache`

use clap::{Args, Subcommand};
use pagewise_model::Nanos;
use std::path::PathBuf;

/// `pagewise cache`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise cache show /usr/bin/*                 what is cached, on which pages
  pagewise cache evict big.db                    drop it, with proof
  pagewise cache huge data.bin                   hold it in 2 MiB folios
  pagewise cache lock --for 1h data.bin          keep it there for an hour

Data that is not on disk yet is never dropped. All processes share the page
cache: dropped data must be read from disk again.

Exit codes: 0 done, or nothing to do; 1 less is on huge pages than before;
2 usage or failure; 3 refused, or done in part.")]
pub(crate) struct Cache {
    #[command(subcommand)]
    pub(crate) verb: CacheVerb,
}

/// What is to be done with the page cache of files.
#[derive(Debug, Subcommand)]
pub(crate) enum CacheVerb {
    /// Show what is cached, on which pages, and (root) in which folio sizes
    #[command(after_help = "\
Examples:
  pagewise cache show /usr/lib/x86_64-linux-gnu/libc.so.6
  pagewise cache show --json *.db > cached.json")]
    Show(CachedFiles),
    /// Drop files from the page cache, unless a process maps them
    #[command(after_help = "\
Examples:
  pagewise cache evict big.db && time ./report big.db       a cold start

Files with data that is not on disk yet are refused: run sync FILE first.")]
    Evict(CachedFiles),
    /// Drop files and read them back in huge folios
    #[command(after_help = "\
Examples:
  pagewise cache huge model.bin
  pagewise cache huge /usr/lib/gcc/x86_64-linux-gnu/12/cc1plus

Every process that maps the file afterwards, at congruent addresses, has it on
huge pages, without any setting. The system may reclaim idle cache; use
pagewise cache lock to keep it.")]
    Huge(CachedFiles),
    /// Read files and lock them in memory until interrupted
    #[command(after_help = "\
Examples:
  pagewise cache lock index.bin &
  pagewise cache lock --for 30m index.bin

The limit on locked memory of this account applies (ulimit -l).")]
    Lock(LockedFiles),
}

/// Files whose page cache is looked at or changed.
#[derive(Debug, Args)]
pub(crate) struct CachedFiles {
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Regular files that are not empty
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

/// Files that are locked in memory.
#[derive(Debug, Args)]
pub(crate) struct LockedFiles {
    /// Stop after TIME, such as 90s, 30m or 1h
    #[arg(long = "for", value_name = "TIME")]
    pub(crate) time: Option<Nanos>,
    #[command(flatten)]
    pub(crate) what: CachedFiles,
}
