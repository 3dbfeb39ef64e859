//! `pagewise text`

use clap::{Args, Subcommand};
use pagewise_model::text_system::HugePageCleaner;
use pagewise_model::{Bytes, Nanos};
use std::ffi::OsString;
use std::path::PathBuf;

/// `pagewise text`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise text explain /usr/bin/node            what can be on huge pages
  pagewise text warm /usr/bin/node               put its code there
  pagewise text keep /usr/bin/node &             keep it there
  pagewise text fold --merge app -o app.huge     a copy with more code there
  pagewise text collapse 1234                    code that runs already (root)
  pagewise text explain 1234                     what a process has, and why
  pagewise text status                           all processes

Exit codes: 0 done, or nothing to do; 1 less is on huge pages than before;
2 usage or failure; 3 refused, or done in part.")]
pub(crate) struct TextArgs {
    #[command(subcommand)]
    pub(crate) verb: TextCommand,
}

/// Actions on code.
#[derive(Debug, Subcommand)]
pub(crate) enum TextCommand {
    /// Read programs into the page cache again so that their code starts on huge pages
    #[command(after_help = "\
Examples:
  pagewise text warm /usr/lib/gcc/x86_64-linux-gnu/12/cc1plus
  pagewise text warm --with-libraries /usr/bin/node

The files do not change and need only be readable. A file that a process maps is
refused: end its processes first, and start them again afterwards.")]
    Warm(TextWarmArgs),
    /// Drop files that pagewise put on huge pages from the page cache
    #[command(after_help = "\
Examples:
  pagewise text undo /usr/bin/node
  pagewise text undo --all

Your state directory lists the files that `text warm`, `text keep` and
`run --with` have filled. Files that a process maps cannot be dropped and stay
listed. The next start reads a dropped file again, in ordinary folios.")]
    Undo(TextUndoArgs),
    /// Put code on huge pages and keep it there until interrupted
    #[command(after_help = "\
Examples:
  pagewise text keep /usr/bin/node &
  pagewise text keep --unit /usr/bin/node > pagewise-keep.service

pagewise maps the files, so that the system does not reclaim their cache. It
checks them regularly and reads a file again if its huge pages are gone or a
package replaced it. It retries a file that a process maps in small pages.

Exit codes: 0 all files were held at the end; 3 some were not.")]
    Keep(TextKeepArgs),
    /// Copy a program or library, with headers that allow more of it on huge pages
    #[command(after_help = "\
Examples:
  pagewise text fold /usr/sbin/mariadbd -o /opt/huge/mariadbd
  pagewise text fold --merge /usr/sbin/mariadbd -o /opt/huge/mariadbd
  pagewise text fold --linker > huge.ld

FILE does not change. COPY has the same bytes except some program headers, the
same mode and attributes, and appears whole or not at all. Segments are aligned
and their last huge pages filled where addresses and offsets allow. --merge
makes text and read-only data one segment; read-only data is then executable.
Alignment weakens the address randomisation of position-independent images.
Setuid and setgid programs are refused. Run `text warm COPY` afterwards.

Exit codes: 0 the copy is there, even if nothing needed a change; 2 usage or
failure; 130 interrupted.")]
    Fold(TextFoldArgs),
    /// Put the code of a running process on huge pages, from outside
    #[command(after_help = "\
Examples:
  pagewise text collapse $(pidof java)
  pagewise text collapse --later 5s 1234         check again after 5 s
  pagewise text collapse --reread 1234           on kernels that do not collapse files
  pagewise text collapse --undo 1234             back on small pages

pagewise tries 2 MiB slots that are whole, touched and on small pages: of
generated code and of the text of files. The kernel collapses them in place,
which needs CAP_SYS_NICE even for your own processes. Most kernels refuse files
on disk. --reread reads the text of those again, in huge folios. Meanwhile the
running threads stand still, some ms per slot, and one of them makes a madvise
call. That needs only the right to debug the process. Files that other processes
map, and slots with pages of the process's own (breakpoints), stay as they are.
Code that a compiler writes again may return to small pages: collapse after
warm-up.

Exit codes: 0 every slot tried is on a huge page, or with --undo off it; 2 usage
or failure; 3 done in part, nothing large enough, or not enough rights or
memory.")]
    Collapse(TextCollapseArgs),
    /// Show and change the kernel's setting for code on huge pages, for all programs
    #[command(after_help = "\
Examples:
  pagewise text system                           what this kernel has
  pagewise text system --mode 3                  a kernel with hugetext
  pagewise text system --mode 3 /usr/bin/node 1234    any other kernel
  pagewise text system --undo

Kernels with hugetext have one setting for all programs. pagewise sets its mode
and threshold and records the change. On any other kernel, name programs (their
libraries are included) and processes: `text warm` and `text collapse` do the
same for them, and mode 0 drops what they put there. --clean removes the huge
pages of the whole machine and all programs, on any kernel. It cannot be undone.

Exit codes: 0 done, or nothing to do; 1 less is on huge pages than before;
2 usage or failure; 3 refused, done in part, or not supported by this kernel.")]
    System(TextSystemArgs),
    /// Show which 2 MiB pieces of code and memory are on huge pages, and why others are not
    #[command(after_help = "\
Examples:
  pagewise text explain /usr/sbin/mariadbd
  pagewise text explain $(pidof mariadbd)
  pagewise text explain ./1234                   a file named like a number")]
    Explain(TextExplainArgs),
    /// Sum up code on huge pages: all processes, or one process file by file
    #[command(after_help = "\
Examples:
  pagewise text status
  pagewise text status --json 1234")]
    Status(TextStatusArgs),
}

/// `pagewise text warm`
#[derive(Debug, Args)]
pub(crate) struct TextWarmArgs {
    /// Include the libraries that the files need
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
pub(crate) struct TextUndoArgs {
    /// Drop all files that this account has put on huge pages
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
pub(crate) struct TextKeepArgs {
    /// Print a systemd unit that does this at every boot, and keep nothing now
    #[arg(long)]
    pub(crate) unit: bool,
    /// Stop after TIME, such as 90s, 30m or 1h
    #[arg(long = "for", value_name = "TIME", conflicts_with = "unit")]
    pub(crate) time: Option<Nanos>,
    /// Check the files every TIME
    #[arg(long, value_name = "TIME", default_value = "60s", conflicts_with = "unit")]
    pub(crate) every: Nanos,
    /// Programs and libraries: ELF files
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

/// `pagewise text fold`
#[derive(Debug, Args)]
pub(crate) struct TextFoldArgs {
    /// Map text and read-only data as one segment, which makes read-only data executable
    #[arg(long)]
    pub(crate) merge: bool,
    /// Fill the last huge page of a segment if it holds more than SIZE, with zeros if FILE ends
    /// earlier; 0 never
    #[arg(long, value_name = "SIZE", default_value = "4K")]
    pub(crate) pad_tail: Bytes,
    /// Replace COPY if it exists
    #[arg(long)]
    pub(crate) force: bool,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print a linker script and options for the same layout, and make no copy
    #[arg(long, conflicts_with_all = ["file", "output", "force", "json", "pad_tail"])]
    pub(crate) linker: bool,
    /// A program or a library: an ELF file
    #[arg(required_unless_present = "linker")]
    pub(crate) file: Option<PathBuf>,
    /// Write the copy here
    #[arg(long, short, value_name = "COPY", required_unless_present = "linker")]
    pub(crate) output: Option<PathBuf>,
}

/// `pagewise text collapse`
#[derive(Debug, Args)]
pub(crate) struct TextCollapseArgs {
    /// Read the text of its files again, in huge folios, while its threads stand still
    #[arg(long)]
    pub(crate) reread: bool,
    /// Split the huge pages of its text
    #[arg(long, conflicts_with_all = ["reread", "later"])]
    pub(crate) undo: bool,
    /// Check again after TIME, such as 5s, and report what is still on huge pages
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
pub(crate) struct TextSystemArgs {
    /// Which code: 0 none, 1 programs and libraries, 2 generated code, 3 both
    #[arg(long, value_name = "MODE", value_parser = clap::value_parser!(u64).range(0..=3))]
    pub(crate) mode: Option<u64>,
    /// Fill the last slot of a mapping if it holds more than SIZE, such as 4096; 0 never
    #[arg(long, value_name = "SIZE")]
    pub(crate) pad_threshold: Option<Bytes>,
    /// Restore the settings from before the first change since boot
    #[arg(long, conflicts_with_all = ["mode", "pad_threshold", "clean"])]
    pub(crate) undo: bool,
    /// Drop the whole page cache (caches), or split every huge page of the machine (split)
    #[arg(long, value_name = "WHAT", value_parser = cleaner,
          conflicts_with_all = ["mode", "pad_threshold"])]
    pub(crate) clean: Option<HugePageCleaner>,
    /// Confirm --clean, which cannot be undone
    #[arg(long, requires = "clean")]
    pub(crate) yes: bool,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// On kernels without hugetext: programs, and numbers of processes
    #[arg(value_name = "FILE|PID", requires = "mode")]
    pub(crate) subjects: Vec<OsString>,
}

fn cleaner(text: &str) -> Result<HugePageCleaner, String> {
    text.parse().map_err(|_| "use caches or split".to_owned())
}

/// `pagewise text explain`
#[derive(Debug, Args)]
pub(crate) struct TextExplainArgs {
    /// Print as JSON, including each slot
    #[arg(long)]
    pub(crate) json: bool,
    /// An ELF file, or the number of a process
    #[arg(value_name = "FILE|PID")]
    pub(crate) subject: OsString,
}

/// `pagewise text status`
#[derive(Debug, Args)]
pub(crate) struct TextStatusArgs {
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Only this process, file by file
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) pid: Option<i32>,
}
