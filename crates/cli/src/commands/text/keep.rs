//! `pagewise text keep`

use super::super::apply::unit_program;
use super::super::signals::stop_flag;
use super::{file::open, record};
use crate::args::TextKeepArgs;
use crate::failure::{CommandFailure, UNFIT};
use crate::terminal;
use pagewise_kernel::keep::CacheKeeper;
use pagewise_kernel::{clock, limits};
use pagewise_model::cache::CacheOutcome;
use pagewise_model::plan::{FileKind, HugeFile};
use pagewise_model::{Bytes, Nanos};
use pagewise_remedy::unit;
use pagewise_remedy::warmth::{self, WarmedFile};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Interval at which the end condition is checked.
const WAIT: Duration = Duration::from_millis(100);

/// Longest pause before a retry, in rounds.
const LONGEST_PAUSE: u32 = 63;

/// A file that is kept on huge pages.
struct KeptFile {
    file: HugeFile,
    /// Identity of the file that was filled: another file may take its name.
    identity: Option<(u64, u64)>,
    held: Option<LockedCache>,
    pause: RefillPause,
    /// The last report about it.
    reported: Option<String>,
}

/// The locked part of a file in the cache.
struct LockedCache {
    _keeper: CacheKeeper,
    /// Bytes on huge pages when it was filled.
    huge: Bytes,
    /// The file was filled as requested, and everything cached of it is held.
    is_whole: bool,
}

impl LockedCache {
    /// Holds the part on huge pages; `None` if there is none.
    fn from_warmed(file: &HugeFile, done: &WarmedFile) -> Option<Self> {
        if done.huge_bytes == Bytes(0) {
            return None;
        }
        let room = limits::experiment_memory().map_or(Bytes(0), |limit| limit.bytes);
        let mut keeper = CacheKeeper::new(room);
        let is_whole = keeper.hold(Path::new(&file.path)) && done.took_hold();
        Some(Self { _keeper: keeper, huge: done.huge_bytes, is_whole })
    }
}

/// Device and inode.
fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// When to retry an incomplete fill. A fill reads the whole file, so the pauses get longer.
#[derive(Debug, Default, PartialEq, Eq)]
struct RefillPause {
    /// Rounds left until the next try; `None` if nothing is missing.
    left: Option<u32>,
    last: u32,
}

impl RefillPause {
    fn after(&self, outcome: &CacheOutcome) -> Self {
        match outcome {
            CacheOutcome::Done | CacheOutcome::Already => Self::default(),
            // A refusal did no work: retry in the next round.
            CacheOutcome::Refused { .. } => Self { left: Some(0), last: 0 },
            CacheOutcome::Short { .. } | CacheOutcome::Worse { .. } => {
                let last = (self.last * 2 + 1).min(LONGEST_PAUSE);
                Self { left: Some(last), last }
            }
        }
    }

    /// Counts a round. Returns whether it is time to retry.
    fn is_over(&mut self) -> bool {
        let is_over = self.left == Some(0);
        self.left = self.left.map(|rounds| rounds.saturating_sub(1));
        is_over
    }
}

impl KeptFile {
    fn open(path: &Path) -> Result<Self, CommandFailure> {
        let opened = open(path)?;
        let file = std::path::absolute(&opened.path).ok();
        let file = file.and_then(|path| HugeFile::of(&path, FileKind::Code)).ok_or_else(|| {
            CommandFailure::usage(format!("{} cannot be part of a list of files", path.display()))
                .with_help("its path must be UTF-8, without comma and colon")
        })?;
        Ok(Self { file, identity: None, held: None, pause: RefillPause::default(), reported: None })
    }

    /// Moves the file to huge pages if needed, and holds it there. Reports work done and changes of the result.
    fn look(&mut self) {
        let now = identity(Path::new(&self.file.path));
        let is_as_held = match &self.held {
            Some(held) => warmth::huge_now(&self.file) >= held.huge,
            None => self.pause.left.is_some(),
        };
        if now == self.identity && is_as_held && !self.pause.is_over() {
            return;
        }
        // Release it first: mapped pages cannot be dropped.
        (self.held, self.identity) = (None, now);
        let done = warmth::warm(&self.file, record);
        self.pause = self.pause.after(&done.outcome);
        self.held = LockedCache::from_warmed(&self.file, &done);
        let reported = Some(done.report());
        if done.took_ns.is_some() || self.reported != reported {
            terminal::remark(&format!("{}: {}", self.file.path, done.report()));
            self.reported = reported;
        }
    }

    fn is_held(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.is_whole)
    }
}

/// Keeps code on huge pages until a signal or the end of the requested time, or prints a unit that does so.
pub(super) fn run(args: &TextKeepArgs) -> Result<ExitCode, CommandFailure> {
    let mut all: Vec<KeptFile> =
        args.files.iter().map(|path| KeptFile::open(path)).collect::<Result<_, _>>()?;
    if args.unit {
        return print_unit(&all);
    }
    let stop = stop_flag()?;
    let end = args.time.map(|time| clock::now() + time);
    let is_over = || stop.load(Ordering::Relaxed) || end.is_some_and(|end| clock::now() >= end);
    let mut next = Nanos(0);
    while !is_over() {
        if clock::now() >= next {
            all.iter_mut().for_each(KeptFile::look);
            next = clock::now() + args.every;
        }
        std::thread::sleep(WAIT);
    }
    let are_held = all.iter().all(KeptFile::is_held);
    Ok(ExitCode::from(if are_held { 0 } else { UNFIT }))
}

fn print_unit(all: &[KeptFile]) -> Result<ExitCode, CommandFailure> {
    let files: Vec<PathBuf> = all.iter().map(|kept| PathBuf::from(&kept.file.path)).collect();
    let lines = unit::keeping(&unit_program()?, &files).map_err(|why| {
        CommandFailure::usage(format!("cannot make a systemd unit: {why}"))
            .with_help("name the files by other paths")
    })?;
    terminal::print(&(lines.join("\n") + "\n"))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_falls_short_is_tried_less_and_less_often() {
        let short = CacheOutcome::Short { why: String::new() };
        let mut pause = RefillPause::default();
        let mut rounds = Vec::new();
        for _ in 0..8 {
            pause = pause.after(&short);
            rounds.push((0..).take_while(|_| !pause.is_over()).count());
        }
        assert_eq!(rounds, [1, 3, 7, 15, 31, 63, 63, 63]);
        let refused = CacheOutcome::Refused { why: String::new(), help: String::new() };
        assert!(pause.after(&refused).is_over());
        let mut done = pause.after(&CacheOutcome::Done);
        assert!(done == RefillPause::default() && !done.is_over());
        assert!(pause.after(&short).last == LONGEST_PAUSE);
    }
}
