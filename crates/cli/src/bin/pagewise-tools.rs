//! `pagewise-tools`: only the tools for pipelines. It starts faster than `pagewise`, so links lead to it
//! (docs/decisions/062).
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    pagewise_tools::serve(std::env::args_os().collect(), pagewise_kernel::start::file)
}
