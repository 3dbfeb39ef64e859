//! Copies standard input to standard output by the engine, and says on request how.
//!
//! Usage: `copy [--live] [--grow-source] [--sides] [--keep] [--verbose] [BYTES]`; with BYTES no more
//! than that many.

#![allow(clippy::print_stderr, reason = "a program for the command line")]

use pagewise_lanes::CopyJob;
use std::process::ExitCode;

fn main() -> ExitCode {
    let (input, output) = (std::io::stdin(), std::io::stdout());
    let mut copy = CopyJob::new(&input, &output);
    let mut is_verbose = false;
    for argument in std::env::args().skip(1) {
        copy = match (&*argument, argument.parse()) {
            ("--live", _) => copy.live(),
            ("--grow-source", _) => copy.grow_source(),
            ("--sides", _) => copy.tell_sides(),
            ("--keep", _) => copy.keep_capacity(),
            ("--verbose", _) => {
                is_verbose = true;
                copy
            }
            (_, Ok(bytes)) => copy.limit(bytes),
            (_, Err(_)) => {
                eprintln!("copy: {argument} is no option and no number of bytes");
                return ExitCode::from(2);
            }
        };
    }
    let mut steps = 0_u64;
    match copy.run_watched(|_| steps += 1) {
        Ok(copied) => {
            if is_verbose {
                eprintln!("{} bytes by {:?} in {steps} steps", copied.bytes, copied.way);
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("copy: {error}");
            ExitCode::FAILURE
        }
    }
}
