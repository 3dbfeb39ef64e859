//! `pagewise text keep`

use super::super::experiment::{own_exe, stop_flag};
use super::{file::open, record};
use crate::args::Keep;
use crate::failure::{Failure, UNFIT};
use crate::terminal;
use pagewise_kernel::keep::Keeper;
use pagewise_kernel::{clock, limits};
use pagewise_model::cache::CacheOutcome;
use pagewise_model::plan::{FileKind, HugeFile};
use pagewise_model::{Bytes, Nanos};
use pagewise_remedy::{unit, warmth};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often the end is looked for.
const WAIT: Duration = Duration::from_millis(100);

/// One file that is kept.
struct Kept {
    file: HugeFile,
    /// Holds what the cache has of it.
    keeper: Option<Keeper>,
    /// On huge pages since it was last filled; absent where that was refused.
    huge: Option<Bytes>,
    /// What was last told of it.
    told: Option<String>,
}

impl Kept {
    fn of(path: &Path) -> Result<Self, Failure> {
        let opened = open(path)?;
        let file = std::path::absolute(&opened.path).ok();
        let file = file.and_then(|path| HugeFile::of(&path, FileKind::Code)).ok_or_else(|| {
            Failure::usage(format!("{} cannot stand in a list of files", path.display()))
                .with_help("no comma, no colon and UTF-8 alone in its path")
        })?;
        Ok(Self { file, keeper: None, huge: None, told: None })
    }

    /// Brings the file on huge pages where it is not, and holds it there. Told is what was done, and what
    /// has changed.
    fn look(&mut self) {
        if self.huge.is_some_and(|huge| warmth::huge_now(&self.file) >= huge) {
            return;
        }
        // What is mapped cannot be dropped, and a file that was replaced is another.
        self.keeper = None;
        let done = warmth::warm(&self.file, record);
        let is_refused = matches!(done.outcome, CacheOutcome::Refused { .. });
        self.huge = (!is_refused).then_some(done.huge_bytes);
        if done.took_hold() {
            let room = limits::experiment_memory().map_or(Bytes(0), |limit| limit.bytes);
            let mut keeper = Keeper::new(room);
            keeper.hold(Path::new(&self.file.path));
            self.keeper = Some(keeper);
        }
        let told = Some(done.told());
        if done.took_ns.is_some() || self.told != told {
            terminal::remark(&format!("{}: {}", self.file.path, done.told()));
            self.told = told;
        }
    }
}

/// Keeps code on huge pages until a signal or the end of the time, or prints the unit that does.
pub(super) fn run(args: &Keep) -> Result<ExitCode, Failure> {
    let mut all: Vec<Kept> =
        args.files.iter().map(|path| Kept::of(path)).collect::<Result<_, _>>()?;
    if args.unit {
        return print_unit(&all);
    }
    let stop = stop_flag()?;
    let end = args.time.map(|time| clock::now() + time);
    let is_over = || stop.load(Ordering::Relaxed) || end.is_some_and(|end| clock::now() >= end);
    let mut next = Nanos(0);
    while !is_over() {
        if clock::now() >= next {
            all.iter_mut().for_each(Kept::look);
            next = clock::now() + args.every;
        }
        std::thread::sleep(WAIT);
    }
    let are_held = all.iter().all(|kept| kept.keeper.is_some());
    Ok(ExitCode::from(if are_held { 0 } else { UNFIT }))
}

fn print_unit(all: &[Kept]) -> Result<ExitCode, Failure> {
    let files: Vec<PathBuf> = all.iter().map(|kept| PathBuf::from(&kept.file.path)).collect();
    let lines = unit::keeping(&own_exe()?, &files).map_err(|why| {
        Failure::usage(format!("no unit: {why}")).with_help("name the files by other paths")
    })?;
    terminal::print(&(lines.join("\n") + "\n"))?;
    Ok(ExitCode::SUCCESS)
}
