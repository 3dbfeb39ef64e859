//! `pagewise text`

use clap::{Args, Subcommand};
use pagewise_model::text_system::Cleaner;
use pagewise_model::{Bytes, Nanos};
use std::ffi::OsString;
use std::path::PathBuf;

/// `pagewise text`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise text explain /usr/bin/node            what will be on huge pages
  pagewise text warm /usr/bin/node               bring its code there
  pagewise text keep /usr/bin/node &             and hold it there
  pagewise text fold --merge app -o app.huge     a copy with more of it there
  pagewise text collapse 1234                    code that runs already (root)
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
    /// Drop from the page cache what was brought on huge pages
    #[command(after_help = "\
Examples:
  pagewise text undo /usr/bin/node
  pagewise text undo --all

Recorded is what `text warm`, `text keep` and `run --with` have filled, in the
state directory of the account. What somebody maps cannot be dropped and stays
recorded. The next start reads the file again, in folios as they come.")]
    Undo(Undo),
    /// Bring code on huge pages and hold it there until interrupted
    #[command(after_help = "\
Examples:
  pagewise text keep /usr/bin/node &
  pagewise text keep --unit /usr/bin/node > pagewise-keep.service

The files are mapped, so that idle cache is not taken from them, and looked at
again: what has gone, or was replaced by a package, is filled anew. A file that
somebody maps in small pages is tried again each time.

Exit codes: 0 all of them were held at the end; 3 some were not.")]
    Keep(Keep),
    /// Make a copy of a program or library whose headers let more of it be on huge pages
    #[command(after_help = "\
Examples:
  pagewise text fold /usr/sbin/mariadbd -o /opt/huge/mariadbd
  pagewise text fold --merge /usr/sbin/mariadbd -o /opt/huge/mariadbd
  pagewise text fold --linker > huge.ld

FILE stays as it is. COPY has all of its bytes but some program headers, its
mode and its attributes, and appears whole or not at all. Segments are aligned
and their last huge pages filled where addresses and offsets allow. With --merge
text and read-only data are one segment: read-only data can be executed then.
Aligned, a position-independent image is easier to guess the place of. Programs
that are setuid or setgid are refused. Warm COPY afterwards.

Exit codes: 0 the copy is there, also where nothing was to be changed; 2 usage
or failure; 130 interrupted.")]
    Fold(Fold),
    /// Put code that a running process has generated on huge pages, from outside
    #[command(after_help = "\
Examples:
  pagewise text collapse $(pidof java)
  pagewise text collapse --later 5s 1234         and what of it has stayed
  pagewise text collapse --files 1234            its files too, where possible

Needs CAP_SYS_NICE, also for processes of one's own account. Slots that are
whole, touched and on small pages are tried; nothing runs in the process. What
compilers write again may be on small pages again: do it when it is warm.

Exit codes: 0 all that was tried is huge now, or was; 2 usage or failure;
3 not all of it, nothing large enough, or no right or memory to do it with.")]
    Collapse(Collapse),
    /// Code on huge pages for all programs: what the kernel has for it, and how it is set
    #[command(after_help = "\
Examples:
  pagewise text system                           what this kernel has
  pagewise text system --mode 3                  a kernel with hugetext
  pagewise text system --mode 3 /usr/bin/node 1234    any other
  pagewise text system --undo

Kernels with hugetext have one setting for all programs: mode and threshold are
set there, and recorded. Any other kernel does it to the programs (with their
libraries) and processes that are named, by `text warm` and `text collapse`;
mode 0 drops what was brought there. --clean removes huge pages of the whole
machine and of all programs, on any kernel, for good.

Exit codes: 0 as asked, or it was so before; 1 less is on huge pages than
before; 2 usage or failure; 3 refused, not all of it, or not by this kernel.")]
    System(System),
    /// Say of each 2 MiB of code, and of a process's memory, if it is on a huge page, or why not
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

/// `pagewise text undo`
#[derive(Debug, Args)]
pub(crate) struct Undo {
    /// All files that this account has brought on huge pages
    #[arg(long, conflicts_with = "files")]
    pub(crate) all: bool,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Regular files
    #[arg(required_unless_present = "all", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

/// `pagewise text keep`
#[derive(Debug, Args)]
pub(crate) struct Keep {
    /// Print the systemd unit that does it from boot on, and keep nothing
    #[arg(long)]
    pub(crate) unit: bool,
    /// End by itself after TIME, such as 90s, 30m or 1h
    #[arg(long = "for", value_name = "TIME", conflicts_with = "unit")]
    pub(crate) time: Option<Nanos>,
    /// Look again after TIME
    #[arg(long, value_name = "TIME", default_value = "60s", conflicts_with = "unit")]
    pub(crate) every: Nanos,
    /// Programs and libraries: ELF files
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

/// `pagewise text fold`
#[derive(Debug, Args)]
pub(crate) struct Fold {
    /// Map text and read-only data as one, which makes read-only data executable
    #[arg(long)]
    pub(crate) merge: bool,
    /// Let a segment fill its last huge page if more than SIZE is in it, with zeros appended where
    /// FILE ends before that; 0 never
    #[arg(long, value_name = "SIZE", default_value = "4K")]
    pub(crate) pad_tail: Bytes,
    /// Replace COPY if it is there
    #[arg(long)]
    pub(crate) force: bool,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print how a linker does the same, as a script with its options, and make no copy
    #[arg(long, conflicts_with_all = ["file", "output", "force", "json", "pad_tail"])]
    pub(crate) linker: bool,
    /// A program or a library: an ELF file
    #[arg(required_unless_present = "linker")]
    pub(crate) file: Option<PathBuf>,
    /// Where the copy goes
    #[arg(long, short, value_name = "COPY", required_unless_present = "linker")]
    pub(crate) output: Option<PathBuf>,
}

/// `pagewise text collapse`
#[derive(Debug, Args)]
pub(crate) struct Collapse {
    /// The text of its files too, where the kernel collapses it (READ_ONLY_THP_FOR_FS)
    #[arg(long)]
    pub(crate) files: bool,
    /// Look again after TIME, such as 5s, and say what has stayed
    #[arg(long, value_name = "TIME")]
    pub(crate) later: Option<Nanos>,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The process
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) pid: i32,
}

/// `pagewise text system`
#[derive(Debug, Args)]
pub(crate) struct System {
    /// Which code: 0 none, 1 programs and libraries, 2 generated code, 3 both
    #[arg(long, value_name = "MODE", value_parser = clap::value_parser!(u64).range(0..=3))]
    pub(crate) mode: Option<u64>,
    /// Fill the last slot of a mapping if more than SIZE is in it, such as 4096; 0 never
    #[arg(long, value_name = "SIZE")]
    pub(crate) pad_threshold: Option<Bytes>,
    /// Put back what the settings were before the first change since the boot
    #[arg(long, conflicts_with_all = ["mode", "pad_threshold", "clean"])]
    pub(crate) undo: bool,
    /// Drop the page cache (caches), or split every huge page (split), of the whole machine
    #[arg(long, value_name = "WHAT", value_parser = cleaner,
          conflicts_with_all = ["mode", "pad_threshold"])]
    pub(crate) clean: Option<Cleaner>,
    /// Do what cannot be undone
    #[arg(long, requires = "clean")]
    pub(crate) yes: bool,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// On other kernels: programs, and numbers of processes
    #[arg(value_name = "FILE|PID", requires = "mode")]
    pub(crate) subjects: Vec<OsString>,
}

fn cleaner(text: &str) -> Result<Cleaner, String> {
    let found = Cleaner::ALL.into_iter().find(|cleaner| cleaner.name() == text);
    found.ok_or_else(|| "caches or split".to_owned())
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
