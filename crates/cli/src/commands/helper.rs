//! The hidden command that runs this program as one of its helper processes, and its arguments.
//!
//! The recording process passes ring data to the analysis, and passes it code on request. `touch` only
//! touches base pages for the first time: it shows how much recording adds to a fault.

use crate::args::{HelperArgs, HelperRole};
use crate::commands::profile::memory;
use crate::failure::CommandFailure;
use pagewise_judge::faults::{CodePlace, CodeSource, FaultAnalysis, FindCode, KERNEL, StackWalk};
use pagewise_kernel::{clock, page_size};
use pagewise_measure::bench::file::HelperLauncher;
use pagewise_measure::bench::{file, pipe};
use pagewise_measure::{PriceError, touch_pages};
use pagewise_model::fault::event::{FaultEvent, FaultEventPayload, FrameRegisters};
use pagewise_model::fault::{
    FaultRecordingOptions, InstructionOrigin, MadeFunction, MemorySites, RecordingEnd,
    RecordingScope, ResidentPages,
};
use pagewise_observe::faults::CodeImages;
use pagewise_observe::trace::look;
use pagewise_remedy::{live, watch};
use pagewise_tracee::mapped_file::MappedFiles;
use pagewise_tracee::recorder::{self, FaultSink, RecordingConclusion};
use pagewise_tracee::supervise::{self, TraceFunctions};
use pagewise_tune::faults::RecordingCommands;
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// How many times `touch` touches its pages: the host may have to back them the first time.
const ROUNDS: u32 = 3;

/// The arguments that start this program as a helper; the number of a socket follows.
pub(super) const fn words(part: HelperRole) -> [&'static str; 2] {
    ["__helper", part.into_str()]
}

/// Path of this program's file.
pub(super) fn own_exe() -> Result<std::path::PathBuf, CommandFailure> {
    std::env::current_exe()
        .map_err(|e| CommandFailure::usage(format!("cannot find this program: {e}")))
}

/// Starts this program as a helper that measures.
pub(super) fn launcher(part: HelperRole) -> Result<HelperLauncher, CommandFailure> {
    Ok(HelperLauncher { exe: own_exe()?, args: words(part).map(OsString::from).to_vec() })
}

/// The commands with which this program, `exe`, times faults.
pub(super) fn timing(exe: &Path) -> RecordingCommands {
    let command = |part| -> Vec<OsString> {
        std::iter::once(exe.into()).chain(words(part).map(OsString::from)).collect()
    };
    RecordingCommands { recorder: command(HelperRole::Record), probe: command(HelperRole::Touch) }
}

/// Serves until the parent is gone or has received everything.
pub(super) fn run(args: &HelperArgs) -> Result<ExitCode, CommandFailure> {
    match serve(args.part, args.fd.unwrap_or(-1)) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(CommandFailure::usage(error.to_string())),
    }
}

fn serve(part: HelperRole, fd: i32) -> Result<(), PriceError> {
    match part {
        HelperRole::Supervise => {
            supervise::serve(
                fd,
                &watch::build,
                TraceFunctions { trace: &look, account: &memory::account_of },
            )?;
        }
        HelperRole::Record => recorder::serve(fd, &analysed)?,
        HelperRole::PipeEnd => pipe::serve_end(fd)?,
        HelperRole::FileReader => file::serve_reader(fd)?,
        HelperRole::Touch => touch_pages(ROUNDS)?,
        HelperRole::Switch => live::serve(fd)?,
    }
    Ok(())
}

struct AnalysisSink {
    analysis: FaultAnalysis,
    code: AnalysisCode,
    maps: Option<AskedMaps>,
}

/// The code maps that interpreters were asked to write.
struct AskedMaps {
    /// Processes that may have written a map.
    pids: HashSet<i32>,
    /// When the recording began, in seconds since 1970.
    since: i64,
}

struct AnalysisCode(CodeImages);

impl CodeSource for AnalysisCode {
    fn bytes(&mut self, place: &CodePlace<'_>) -> Vec<u8> {
        self.0.bytes(place.path, place.offset, place.pid, place.address)
    }
    fn function(&mut self, path: &str, offset: u64) -> Option<String> {
        if path == KERNEL { self.0.kernel_function(offset) } else { self.0.function(path, offset) }
    }
    fn origins(&mut self, path: &str, offsets: &[u64]) -> Vec<InstructionOrigin> {
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
    ) -> StackWalk {
        let (addresses, end) = self.0.walk(pid, registers, bytes, code);
        StackWalk { addresses, end }
    }
}

impl FaultSink for AnalysisSink {
    fn take(&mut self, events: &mut Vec<FaultEvent>) {
        for mut event in events.drain(..) {
            if let FaultEventPayload::Map(map) = &mut event.what {
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
    fn conclude(mut self: Box<Self>, ending: &RecordingEnd) -> RecordingConclusion {
        let (mut report, names, faults) = self.analysis.conclude(ending, &mut self.code);
        let unnamed = self.code.0.unnamed();
        let made = self.code.0.made();
        report.interpreters = made.interpreters();
        report.unnamed_files = unnamed;
        if let Some(maps) = self.maps {
            made.remove_files(&maps.pids, maps.since);
        }
        RecordingConclusion { report, names, faults }
    }
}

/// Analyses the recording.
fn analysed(wanted: FaultRecordingOptions, sees: RecordingScope) -> Box<dyn FaultSink> {
    let analysis = FaultAnalysis::new(page_size::base(), wanted, sees);
    let since = i64::try_from(clock::unix_now().0 / 1_000_000_000).unwrap_or(i64::MAX);
    let maps = wanted.made_maps.then(|| AskedMaps { pids: HashSet::new(), since });
    Box::new(AnalysisSink {
        analysis,
        code: AnalysisCode(CodeImages::new(MappedFiles::default(), wanted.debug_files)),
        maps,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::args::{Cli, CliCommand};
    use clap::{Parser, ValueEnum};

    #[test]
    fn the_words_of_a_part_make_it() {
        for part in HelperRole::value_variants() {
            let typed = [vec!["pagewise"], words(*part).to_vec(), vec!["7"]].concat();
            let CliCommand::Helper(helper) = Cli::try_parse_from(typed).unwrap().command else {
                panic!("{part:?} is no helper");
            };
            assert_eq!((helper.part, helper.fd), (*part, Some(7)));
        }
    }
}
