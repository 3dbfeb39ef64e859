//! The hidden command that runs this program as one of its helper processes, and its arguments.
//!
//! The recording process passes ring data to the analysis, and passes it code on request. `touch` only
//! touches base pages for the first time: it shows how much recording adds to a fault.

use crate::args::{Helper, Part};
use crate::commands::profile::memory;
use crate::failure::Failure;
use pagewise_judge::faults::{Analysis, CodePlace, FindCode, Image, KERNEL, Walk};
use pagewise_kernel::{clock, page_size};
use pagewise_measure::bench::file::Launcher;
use pagewise_measure::bench::{file, pipe};
use pagewise_measure::{PriceError, touch_pages};
use pagewise_model::fault::event::{Event, FrameRegisters, What};
use pagewise_model::fault::{
    Ending, MadeFunction, MemorySites, Origin, ResidentPages, Sees, Wanted,
};
use pagewise_observe::faults::Images;
use pagewise_observe::trace::look;
use pagewise_remedy::{live, watch};
use pagewise_tracee::mapped_file::MappedFiles;
use pagewise_tracee::recorder::{self, Conclusion, Sink};
use pagewise_tracee::supervise::{self, Looks};
use pagewise_tune::faults::Commands;
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// How many times `touch` touches its pages: the host may have to back them the first time.
const ROUNDS: u32 = 3;

/// The arguments that start this program as a helper; the number of a socket follows.
pub(super) const fn words(part: Part) -> [&'static str; 2] {
    ["__helper", part.into_str()]
}

/// Path of this program's file.
pub(super) fn own_exe() -> Result<std::path::PathBuf, Failure> {
    std::env::current_exe().map_err(|e| Failure::usage(format!("cannot find this program: {e}")))
}

/// Starts this program as a helper that measures.
pub(super) fn launcher(part: Part) -> Result<Launcher, Failure> {
    Ok(Launcher { exe: own_exe()?, args: words(part).map(OsString::from).to_vec() })
}

/// The commands with which this program, `exe`, times faults.
pub(super) fn timing(exe: &Path) -> Commands {
    let command = |part| -> Vec<OsString> {
        std::iter::once(exe.into()).chain(words(part).map(OsString::from)).collect()
    };
    Commands { recorder: command(Part::Record), probe: command(Part::Touch) }
}

/// Serves until the parent is gone or has received everything.
pub(super) fn run(args: &Helper) -> Result<ExitCode, Failure> {
    match serve(args.part, args.fd.unwrap_or(-1)) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(Failure::usage(error.to_string())),
    }
}

fn serve(part: Part, fd: i32) -> Result<(), PriceError> {
    match part {
        Part::Supervise => {
            supervise::serve(
                fd,
                &watch::build,
                Looks { trace: &look, account: &memory::account_of },
            )?;
        }
        Part::Record => recorder::serve(fd, &analysed)?,
        Part::PipeEnd => pipe::serve_end(fd)?,
        Part::FileReader => file::serve_reader(fd)?,
        Part::Touch => touch_pages(ROUNDS)?,
        Part::Switch => live::serve(fd)?,
    }
    Ok(())
}

struct Analysed {
    analysis: Analysis,
    code: Code,
    maps: Option<AskedMaps>,
}

/// The code maps that interpreters were asked to write.
struct AskedMaps {
    /// Processes that may have written a map.
    pids: HashSet<i32>,
    /// When the recording began, in seconds since 1970.
    since: i64,
}

struct Code(Images);

impl Image for Code {
    fn bytes(&mut self, place: &CodePlace<'_>) -> Vec<u8> {
        self.0.bytes(place.path, place.offset, place.pid, place.address)
    }
    fn function(&mut self, path: &str, offset: u64) -> Option<String> {
        if path == KERNEL { self.0.kernel_function(offset) } else { self.0.function(path, offset) }
    }
    fn origins(&mut self, path: &str, offsets: &[u64]) -> Vec<Origin> {
        self.0.origins(path, offsets)
    }
    fn made_function(&mut self, pid: i32, address: u64) -> Option<MadeFunction> {
        self.0.made().function(pid, address)
    }
    fn walk(
        &mut self,
        pid: i32,
        registers: &FrameRegisters,
        bytes: &[u8],
        code: FindCode<'_>,
    ) -> Walk {
        let (addresses, end) = self.0.walk(pid, registers, bytes, code);
        Walk { addresses, end }
    }
}

impl Sink for Analysed {
    fn take(&mut self, events: &mut Vec<Event>) {
        for mut event in events.drain(..) {
            if let What::Map(map) = &mut event.what {
                self.code.0.made().see(map);
                if map.is_executable {
                    map.path = self.code.0.files().meet(map).to_string();
                }
                if let Some(maps) = &mut self.maps {
                    maps.pids.insert(map.pid);
                }
            }
            self.analysis.take(event, &mut self.code);
        }
    }
    fn hold(&mut self, resident: &[ResidentPages]) {
        self.analysis.hold(resident);
    }
    fn memory_sites(mut self: Box<Self>) -> MemorySites {
        let sites = self.analysis.memory_sites(&mut self.code);
        if let Some(maps) = self.maps {
            self.code.0.made().remove_files(&maps.pids, maps.since);
        }
        sites
    }
    fn conclude(mut self: Box<Self>, ending: &Ending) -> Conclusion {
        let (mut report, names, faults) = self.analysis.conclude(ending, &mut self.code);
        let unnamed = self.code.0.unnamed();
        let made = self.code.0.made();
        report.interpreters = made.interpreters();
        report.unnamed_files = unnamed;
        if let Some(maps) = self.maps {
            made.remove_files(&maps.pids, maps.since);
        }
        Conclusion { report, names, faults }
    }
}

/// Analyses the recording.
fn analysed(wanted: Wanted, sees: Sees) -> Box<dyn Sink> {
    let analysis = Analysis::new(page_size::base(), wanted, sees);
    let since = i64::try_from(clock::unix_now().0 / 1_000_000_000).unwrap_or(i64::MAX);
    let maps = wanted.made_maps.then(|| AskedMaps { pids: HashSet::new(), since });
    Box::new(Analysed {
        analysis,
        code: Code(Images::new(MappedFiles::default(), wanted.debug_files)),
        maps,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::{Parser, ValueEnum};

    #[test]
    fn the_words_of_a_part_make_it() {
        for part in Part::value_variants() {
            let typed = [vec!["pagewise"], words(*part).to_vec(), vec!["7"]].concat();
            let Command::Helper(helper) = Cli::try_parse_from(typed).unwrap().command else {
                panic!("{part:?} is no helper");
            };
            assert_eq!((helper.part, helper.fd), (*part, Some(7)));
        }
    }
}
