//! The hidden command that makes this program the recording process of `faults`: it gives what the
//! rings tell to the analysis, and the analysis the code it asks for.

use crate::args::Supervise;
use crate::failure::Failure;
use pagewise_judge::faults::{Analysis, CodePlace, FindCode, Image, KERNEL, Options, Walk};
use pagewise_model::fault::event::{Event, FrameRegisters};
use pagewise_model::fault::{Ending, SourceLine};
use pagewise_observe::faults::Images;
use pagewise_tracee::recorder::{self, Conclusion, Sees, Sink, Wanted};
use std::process::ExitCode;

struct Analysed {
    analysis: Analysis,
    code: Code,
}

struct Code(Images);

impl Image for Code {
    fn bytes(&mut self, place: &CodePlace<'_>) -> Vec<u8> {
        self.0.bytes(place.path, place.offset, place.pid, place.address)
    }
    fn function(&mut self, path: &str, offset: u64) -> Option<String> {
        if path == KERNEL { self.0.kernel_function(offset) } else { self.0.function(path, offset) }
    }
    fn lines(&mut self, path: &str, offsets: &[u64]) -> Vec<Option<SourceLine>> {
        self.0.lines(path, offsets)
    }
    fn walk(&mut self, registers: &FrameRegisters, bytes: &[u8], code: FindCode<'_>) -> Walk {
        let (addresses, end) = self.0.walk(registers, bytes, code);
        Walk { addresses, end }
    }
}

impl Sink for Analysed {
    fn take(&mut self, events: &mut Vec<Event>) {
        for event in events.drain(..) {
            self.analysis.take(event, &mut self.code);
        }
    }
    fn conclude(mut self: Box<Self>, ending: &Ending) -> Conclusion {
        let (report, names, faults) = self.analysis.conclude(ending, &mut self.code);
        Conclusion { report, names, faults }
    }
}

/// Serves the front until it has all it asked for or is gone.
pub(super) fn run(args: &Supervise) -> ExitCode {
    let page = pagewise_kernel::page_size::base();
    let make = |wanted: Wanted, sees: Sees| -> Box<dyn Sink> {
        let options = Options {
            page,
            list: wanted.list,
            sees_kernel: sees.kernel,
            has_ends: sees.all_ends,
            has_error_codes: sees.error_codes,
            from_start: sees.from_start,
            stacks: wanted.stacks,
            names: wanted.names,
            is_exact: wanted.exact,
            calls: wanted.calls,
        };
        Box::new(Analysed {
            analysis: Analysis::new(options),
            code: Code(Images::new(wanted.debug_files)),
        })
    };
    match recorder::serve(args.fd, &make) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => Failure::usage(error.to_string()).tell(),
    }
}
