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

Nothing that is not on disk yet is dropped. The page cache is everybody's: what
was dropped comes back only by being read again.

Exit codes: 0 as asked, or it was so before; 1 less is on huge pages than
before; 2 usage or failure; 3 refused, or not all of it.")]
pub(crate) struct Cache {
    #[command(subcommand)]
    pub(crate) verb: CacheVerb,
}

/// What is to be done with the page cache of files.
#[derive(Debug, Subcommand)]
pub(crate) enum CacheVerb {
    /// Show what is cached, on which pages, in folios of which sizes (root)
    #[command(after_help = "\
Examples:
  pagewise cache show /usr/lib/x86_64-linux-gnu/libc.so.6
  pagewise cache show --json *.db > cached.json")]
    Show(CachedFiles),
    /// Drop files from the page cache, where nobody maps them
    #[command(after_help = "\
Examples:
  pagewise cache evict big.db && time ./report big.db       a cold start

A file of which something is not on disk yet is refused: sync FILE first.")]
    Evict(CachedFiles),
    /// Drop files and read them back in huge folios
    #[command(after_help = "\
Examples:
  pagewise cache huge model.bin
  pagewise cache huge /usr/lib/gcc/x86_64-linux-gnu/12/cc1plus

What maps a file afterwards, at congruent addresses, has it on huge pages, of
every process, without any setting. Idle cache may be taken by the system:
pagewise cache lock keeps it.")]
    Huge(CachedFiles),
    /// Read files and lock them in memory until interrupted
    #[command(after_help = "\
Examples:
  pagewise cache lock index.bin &
  pagewise cache lock --for 30m index.bin

Within the limit of locked memory of this account (ulimit -l).")]
    Lock(LockedFiles),
}

/// Files whose page cache is looked at or changed.
#[derive(Debug, Args)]
pub(crate) struct CachedFiles {
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Regular files, not empty
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

/// Files that are locked in memory.
#[derive(Debug, Args)]
pub(crate) struct LockedFiles {
    /// End by itself after TIME, such as 90s, 30m or 1h
    #[arg(long = "for", value_name = "TIME")]
    pub(crate) time: Option<Nanos>,
    #[command(flatten)]
    pub(crate) what: CachedFiles,
}
