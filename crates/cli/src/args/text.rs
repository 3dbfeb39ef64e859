//! `pagewise text`

use clap::{Args, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

/// `pagewise text`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise text explain /usr/bin/node            what will be on huge pages
  pagewise text warm /usr/bin/node               bring its code there
  pagewise text explain 1234                     what a process has, and why
  pagewise text status                           all processes

Exit codes: 0 as asked, or it was so before; 1 less is on huge pages than
before; 2 usage or failure; 3 refused, or not all of it.")]
pub(crate) struct Text {
    #[command(subcommand)]
    pub(crate) verb: TextVerb,
}

/// What is to be done with code.
#[derive(Debug, Subcommand)]
pub(crate) enum TextVerb {
    /// Fill the page cache of programs anew so that their code starts on huge pages
    #[command(after_help = "\
Examples:
  pagewise text warm /usr/lib/gcc/x86_64-linux-gnu/12/cc1plus
  pagewise text warm --with-libraries /usr/bin/node

The files stay as they are, and need only be readable. What runs already keeps
its pages: start it again. A file that is running is refused.")]
    Warm(Warm),
    /// Say of each 2 MiB of code whether it is on a huge page, or why not
    #[command(after_help = "\
Examples:
  pagewise text explain /usr/sbin/mariadbd
  pagewise text explain $(pidof mariadbd)
  pagewise text explain ./1234                   a file named like a number")]
    Explain(Explain),
    /// Sums of code on huge pages: all processes, or one file by file
    #[command(after_help = "\
Examples:
  pagewise text status
  pagewise text status --json 1234")]
    Status(Status),
}

/// `pagewise text warm`
#[derive(Debug, Args)]
pub(crate) struct Warm {
    /// The libraries that they need too
    #[arg(long)]
    pub(crate) with_libraries: bool,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Programs and libraries: ELF files
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

/// `pagewise text explain`
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// Print as JSON, with each slot
    #[arg(long)]
    pub(crate) json: bool,
    /// An ELF file, or the number of a process
    #[arg(value_name = "FILE|PID")]
    pub(crate) subject: OsString,
}

/// `pagewise text status`
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Only this process, file by file
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) pid: Option<i32>,
}
