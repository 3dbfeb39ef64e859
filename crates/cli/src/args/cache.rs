//! `pagewise cache`

use clap::{Args, Subcommand};
use pagewise_model::{Bytes, Nanos};
use std::path::PathBuf;

/// `pagewise cache`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise cache show /usr/bin/*                 what is cached, on which pages
  pagewise cache evict big.db                    drop it, with proof
  pagewise cache huge data.bin                   hold it in 2 MiB folios
  pagewise cache lock --for 1h data.bin          keep it there for an hour
  pagewise cache save -o db.pages /var/lib/db    save what is cached of it
  pagewise cache restore db.pages                and read that in again

Data that is not on disk yet is never dropped. All processes share the page
cache: dropped data must be read from disk again.

Exit codes: 0 done, or nothing to do; 1 less is on huge pages than before, or a
save or restore was incomplete; 2 usage or failure; 3 refused, or done in part;
130 interrupted.")]
pub(crate) struct CacheArgs {
    #[command(subcommand)]
    pub(crate) verb: CacheCommand,
}

/// Actions on the page cache of files.
#[derive(Debug, Subcommand)]
pub(crate) enum CacheCommand {
    /// Show what is cached, on which pages, and (root) in which folio sizes
    #[command(after_help = "\
Examples:
  pagewise cache show /usr/lib/x86_64-linux-gnu/libc.so.6
  pagewise cache show --json *.db > cached.json")]
    Show(CacheFileArgs),
    /// Drop files from the page cache, unless a process maps them
    #[command(after_help = "\
Examples:
  pagewise cache evict big.db && time ./report big.db       a cold start

Files with data that is not on disk yet are refused: run sync FILE first.")]
    Evict(CacheFileArgs),
    /// Drop files and read them back in huge folios
    #[command(after_help = "\
Examples:
  pagewise cache huge model.bin
  pagewise cache huge /usr/lib/gcc/x86_64-linux-gnu/12/cc1plus

Every process that maps the file afterwards, at congruent addresses, has it on
huge pages, without any setting. The system may reclaim idle cache; use
pagewise cache lock to keep it.")]
    Huge(CacheFileArgs),
    /// Read files and lock them in memory until interrupted
    #[command(after_help = "\
Examples:
  pagewise cache lock index.bin &
  pagewise cache lock --for 30m index.bin

The limit on locked memory of this account applies (ulimit -l).")]
    Lock(CacheLockArgs),
    /// Save which pages of files are in the page cache, for restore
    #[command(after_help = "\
Examples:
  pagewise cache save -o db.pages /var/lib/mysql    directories, all their files
  pagewise cache save -o app.pages -p 1234          what a process maps or has open
  pagewise cache save --again db.pages              the same files once more

Nothing is changed. Links inside directories are not followed, and other file
systems are not entered. For files of other accounts the kernel shows less: a
group of 16 pages counts as not cached if its first page is not.

Exit codes: 0 saved; 1 saved, but files were left out (they are named); 2 usage
or failure; 130 interrupted.")]
    Save(CacheSaveArgs),
    /// Read saved pages back into the page cache, after a restart
    #[command(after_help = "\
Examples:
  pagewise cache restore db.pages
  pagewise cache restore --rate 200M --limit 8G db.pages
  pagewise cache restore --unit db.pages            lines for a systemd service

Only missing pages are read, in the order of the files, and no others. Files
that have changed since are left out and named. It ends early if other processes
wait for memory.

Exit codes: 0 all saved pages are cached; 1 some are not; 2 usage or failure;
130 interrupted.")]
    Restore(CacheRestoreArgs),
}

/// Whose pages are saved, and where.
#[derive(Debug, Args)]
pub(crate) struct CacheSaveArgs {
    /// Write the list to FILE instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Save the files that process PID and its descendants map or have open
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) pid: Option<i32>,
    /// Save the same paths as list FILE, and replace FILE
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "pid"])]
    pub(crate) again: Option<PathBuf>,
    /// Files and directories
    #[arg(
        value_name = "PATH",
        required_unless_present_any = ["pid", "again"],
        conflicts_with_all = ["pid", "again"]
    )]
    pub(crate) paths: Vec<PathBuf>,
}

/// The list that is restored, and how.
#[derive(Debug, Args)]
pub(crate) struct CacheRestoreArgs {
    /// Read at most SIZE per second
    #[arg(long, value_name = "SIZE", value_parser = parse_rate)]
    pub(crate) rate: Option<Bytes>,
    /// Read at most SIZE in all [default: half of the available memory]
    #[arg(long, value_name = "SIZE")]
    pub(crate) limit: Option<Bytes>,
    /// Print systemd lines that restore at the start and save at the end of a service; read nothing
    #[arg(long, conflicts_with_all = ["rate", "limit", "json"])]
    pub(crate) unit: bool,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// A list made by pagewise cache save
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

fn parse_rate(text: &str) -> Result<Bytes, String> {
    match text.parse::<Bytes>().map_err(|e| e.to_string())? {
        Bytes(0) => Err("a rate of 0 reads nothing".to_owned()),
        rate => Ok(rate),
    }
}

/// Files whose page cache is looked at or changed.
#[derive(Debug, Args)]
pub(crate) struct CacheFileArgs {
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Regular files that are not empty
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

/// Files that are locked in memory.
#[derive(Debug, Args)]
pub(crate) struct CacheLockArgs {
    /// Stop after TIME, such as 90s, 30m or 1h
    #[arg(long = "for", value_name = "TIME")]
    pub(crate) time: Option<Nanos>,
    #[command(flatten)]
    pub(crate) what: CacheFileArgs,
}
