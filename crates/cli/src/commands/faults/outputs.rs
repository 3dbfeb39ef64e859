//! Processes the list of faults as it arrives: prints it, or collects a working set from it.

use super::report_run;
use crate::args::{FaultClock, FaultsArgs};
use crate::failure::CommandFailure;
use crate::{store, terminal};
use pagewise_judge::faults::working_set::FirstTouches;
use pagewise_kernel::tsc_x86_64::TscReading;
use pagewise_kernel::{clock, page_size};
use pagewise_model::fault::{FaultNames, PageFault, WorkingSetRange};
use pagewise_model::run::SavedRun;
use pagewise_observe::faults::working_set::identify;
use pagewise_report::faults::{FaultExport, FaultListForm};
use pagewise_report::quote;
use std::path::{Path, PathBuf};

/// The receivers of the list.
pub(super) struct FaultOutputs {
    printed: FaultPrinter,
    saved: Option<WorkingSetSaver>,
}

impl FaultOutputs {
    pub(super) fn new(args: &FaultsArgs) -> Self {
        let saved = args.save_working_set.as_ref().map(|to| WorkingSetSaver::new(to, args.exact));
        Self { printed: FaultPrinter::new(args), saved }
    }

    /// Takes a part of the list.
    pub(super) fn take(&mut self, names: &FaultNames, faults: &[PageFault]) {
        self.printed.take(names, faults);
        if let Some(saved) = &mut self.saved {
            saved.take(names, faults);
        }
    }

    /// Takes the ranges that were read from files.
    pub(super) fn take_reads(&mut self, reads: Vec<(String, Vec<WorkingSetRange>)>) {
        if let Some(saved) = &mut self.saved {
            saved.touches.take_reads(reads);
        }
    }

    /// Prints and saves the rest; reports failures.
    pub(super) fn finish(self, run: &SavedRun, args: &FaultsArgs) {
        let shown = self.printed.finish(run).and_then(|()| report_run(run, args));
        let saved = self.saved.map_or(Ok(()), |saved| saved.write(&run.command));
        for error in [shown, saved].into_iter().filter_map(Result::err) {
            terminal::report(&error);
        }
    }
}

/// Prints the list part by part; prints nothing if no list was requested.
struct FaultPrinter {
    list: Option<FaultExport>,
    /// The counter before the recording, if times are wanted in its cycles. The list begins after the recording.
    begun: Option<TscReading>,
    /// After the first failure, nothing more is printed.
    outcome: Result<(), CommandFailure>,
}

impl FaultPrinter {
    fn new(args: &FaultsArgs) -> Self {
        let export = |format: FaultListForm| FaultExport::new(format, args.latency());
        let begun = (args.clock == FaultClock::Tsc).then(TscReading::now);
        Self { list: args.list().map(export), begun, outcome: Ok(()) }
    }

    fn take(&mut self, names: &FaultNames, faults: &[PageFault]) {
        if let (Some(list), Some(begun)) = (&mut self.list, self.begun.take()) {
            list.count_cycles(begun.rate_until_now());
        }
        let text = self.list.as_mut().map_or_else(String::new, |list| list.take(names, faults));
        self.print(text.as_bytes());
    }

    fn finish(mut self, run: &SavedRun) -> Result<(), CommandFailure> {
        let rest = self.list.take().map_or_else(Vec::new, |list| list.finish(run));
        self.print(&rest);
        self.outcome
    }

    fn print(&mut self, part: &[u8]) {
        if self.outcome.is_ok() && !part.is_empty() {
            self.outcome = terminal::print_bytes(part);
        }
    }
}

/// Collects the touched pages for a working set.
struct WorkingSetSaver {
    to: PathBuf,
    touches: FirstTouches,
    /// Nanoseconds since 1970.
    began_unix_ns: u64,
}

impl WorkingSetSaver {
    /// For a recording, `exact` or not, that will be saved in `to`.
    fn new(to: &Path, exact: bool) -> Self {
        Self {
            to: to.to_owned(),
            touches: FirstTouches::new(page_size::base(), exact),
            began_unix_ns: clock::unix_now().0,
        }
    }

    /// Takes a part of the list of faults.
    fn take(&mut self, names: &FaultNames, faults: &[PageFault]) {
        self.touches.take(names, faults);
    }

    /// Writes the file and reports its content.
    fn write(self, command: &[String]) -> Result<(), CommandFailure> {
        let (set, left_out) = identify(command, self.touches.ranges(), self.began_unix_ns);
        for (path, why) in left_out {
            terminal::remark(&format!("left out of the working set: {path}: {why}"));
        }
        let text = serde_json::to_string(&set)
            .map_err(|e| CommandFailure::usage(format!("cannot write the working set: {e}")))?;
        store::write_whole(&self.to, &(text + "\n"))?;
        let (size, files) = (set.size(), set.files.len());
        let to = quote(&self.to.to_string_lossy());
        terminal::remark(&format!("working set: {size} of {files} files saved to {to}"));
        Ok(())
    }
}
