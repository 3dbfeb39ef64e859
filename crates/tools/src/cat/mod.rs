//! `pagewise cat`: GNU cat's options, messages and exit statuses, on the copy engine of `pagewise-lanes`. The
//! kernel copies files if it can. Everything else passes through this process in large blocks, and into a
//! pipe that is enlarged. Only styled output is processed byte by byte.

mod style;

use super::command_line::{EarlyExit, in_full};
use super::files::{self, PassThroughFile};
use super::message::{quoted, reason, tell};
use pagewise_kernel::start::restore_pipe_signal;
use pagewise_lanes::copy::{AlignedBuffer, BUFFER};
use pagewise_lanes::{CopyError, CopyJob, CopySide};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Seek};
use std::process::ExitCode;
use style::{CatFormatter, CatStyle};

/// What `--help` prints.
pub const HELP: &str = "\
Usage: pagewise cat [OPTION]... [FILE]...
Concatenate FILE(s) to standard output; without FILE, or when FILE is -, read
standard input.

  -A, --show-all           equivalent to -vET
  -b, --number-nonblank    number nonempty output lines, overrides -n
  -e                       equivalent to -vE
  -E, --show-ends          display $ at end of each line
  -n, --number             number all output lines
  -s, --squeeze-blank      suppress repeated empty output lines
  -t                       equivalent to -vT
  -T, --show-tabs          display TAB characters as ^I
  -u                       (ignored)
  -v, --show-nonprinting   use ^ and M- notation, except for LFD and TAB
      --live               pass pages on by reference: faster, but the reader
                           sees later changes to the file, or to memory that a
                           program passed to the pipe. Use it only if the data
                           does not change
      --no-cache           leave the page cache to other programs: drop what
                           this reads and writes, but nothing that was cached
      --help               display this help and exit
      --version            output version information and exit

Examples:
  pagewise cat f - g  the contents of f, then standard input, then g
  pagewise cat big.log | grep error
";

/// The long options, in GNU's order.
const LONG: [&str; 11] = [
    "number-nonblank",
    "number",
    "squeeze-blank",
    "show-nonprinting",
    "show-ends",
    "show-tabs",
    "show-all",
    "live",
    "no-cache",
    "help",
    "version",
];

/// The parsed command line.
#[derive(Debug, Default, PartialEq, Eq)]
struct CatOptions {
    style: CatStyle,
    live: bool,
    no_cache: bool,
    files: Vec<OsString>,
}

pub fn run(arguments: Vec<OsString>) -> ExitCode {
    restore_pipe_signal();
    match parse(arguments) {
        Ok(options) => concatenate(&options),
        Err(instead) => instead.serve("cat", HELP, 1),
    }
}

fn parse(arguments: Vec<OsString>) -> Result<CatOptions, EarlyExit> {
    use lexopt::prelude::{Long, Short, Value};
    let mut options = CatOptions::default();
    let mut parser = lexopt::Parser::from_args(arguments);
    while let Some(argument) = parser.next()? {
        let argument = in_full(argument, &LONG)?;
        let style = &mut options.style;
        match argument {
            Short('A') | Long("show-all") => {
                (style.nonprinting, style.ends, style.tabs) = (true, true, true);
            }
            Short('b') | Long("number-nonblank") => (style.number, style.nonblank) = (true, true),
            Short('e') => (style.nonprinting, style.ends) = (true, true),
            Short('E') | Long("show-ends") => style.ends = true,
            Short('n') | Long("number") => style.number = true,
            Short('s') | Long("squeeze-blank") => style.squeeze = true,
            Short('t') => (style.nonprinting, style.tabs) = (true, true),
            Short('T') | Long("show-tabs") => style.tabs = true,
            Short('u') => {}
            Short('v') | Long("show-nonprinting") => style.nonprinting = true,
            Long("live") => options.live = true,
            Long("no-cache") => options.no_cache = true,
            Long("help") => return Err(EarlyExit::Help),
            Long("version") => return Err(EarlyExit::Version),
            Value(file) => options.files.push(file),
            unknown => return Err(EarlyExit::unknown(&unknown)),
        }
    }
    options.files = files::or_standard_input(options.files);
    Ok(options)
}

fn concatenate(options: &CatOptions) -> ExitCode {
    let output = match files::standard_output() {
        Ok(output) => output,
        Err(error) => {
            tell("cat", &format!("standard output: {}", reason(&error)));
            return ExitCode::FAILURE;
        }
    };
    let passed = all(options, &output);
    let closed = files::close_standard_output(Some(output));
    for error in [passed.as_ref().err(), closed.as_ref().err()].into_iter().flatten() {
        tell("cat", &format!("write error: {}", reason(error)));
    }
    if matches!(passed, Ok(true)) && closed.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Copies all files. Returns whether each could be read, or the error of the output.
fn all(options: &CatOptions, output: &File) -> io::Result<bool> {
    let mut styled = CatFormatter::new(options.style);
    let mut all_well = true;
    for file in &options.files {
        match one(file, options, &mut styled, output) {
            Ok(()) => {}
            Err(CatFailure::Source(error)) => {
                tell("cat", &format!("{}: {}", quoted(file), reason(&error)));
                all_well = false;
            }
            Err(CatFailure::Close(error)) => {
                tell("cat", &format!("closing standard input: {}", reason(&error)));
                all_well = false;
            }
            Err(CatFailure::Sink(error)) => return Err(error),
        }
    }
    let mut held = Vec::new();
    styled.finish(&mut held);
    let mut sink = PassThroughFile::new(output, options.no_cache);
    sink.write_all(&held)?;
    sink.finish()?;
    Ok(all_well)
}

/// The failure to copy a file, by side.
#[derive(Debug)]
enum CatFailure {
    Source(io::Error),
    /// Standard input could not be closed.
    Close(io::Error),
    Sink(io::Error),
}

impl From<CopyError> for CatFailure {
    fn from(error: CopyError) -> Self {
        match error.side {
            CopySide::Source => Self::Source(error.errno.into()),
            CopySide::Sink => Self::Sink(error.errno.into()),
        }
    }
}

fn one(
    name: &OsStr,
    options: &CatOptions,
    styled: &mut CatFormatter,
    output: &File,
) -> Result<(), CatFailure> {
    let input = files::open(name).map_err(CatFailure::Source)?;
    refuse_own_output(&input, output)?;
    if options.style.is_plain() {
        let copy = CopyJob::new(&input, output).lend();
        let copy = if options.live { copy.live().grow_source() } else { copy };
        let copy = if options.no_cache { copy.past_cache() } else { copy };
        copy.run()?;
    } else {
        let [mut source, mut sink] =
            [&input, output].map(|file| PassThroughFile::new(file, options.no_cache));
        style_all(&mut source, styled, &mut sink)?;
    }
    let failed = if name == files::STANDARD { CatFailure::Close } else { CatFailure::Source };
    files::close(input).map_err(failed)
}

/// Copies one file in the requested style.
fn style_all(
    input: &mut PassThroughFile<'_>,
    styled: &mut CatFormatter,
    output: &mut PassThroughFile<'_>,
) -> Result<(), CatFailure> {
    let source = |errno: Errno| CatFailure::Source(errno.into());
    let sink = |errno: Errno| CatFailure::Sink(errno.into());
    let (mut memory, mut out) = (AlignedBuffer::new(BUFFER), Vec::new());
    let chunk = memory.bytes();
    loop {
        match input.read(chunk).map_err(source)? {
            0 => break,
            n => styled.show(&chunk[..n], &mut out),
        }
        output.write_all(&out).map_err(sink)?;
        out.clear();
    }
    input.finish().map_err(source)?;
    output.finish().map_err(sink)
}

/// Refuses to copy a file into itself, which would fill the disk. Reading at or beyond the write position is
/// allowed: that copy ends.
fn refuse_own_output(mut input: &File, mut output: &File) -> Result<(), CatFailure> {
    let Ok(found) = input.metadata() else { return Ok(()) };
    if !files::is_output(&found, output) {
        return Ok(());
    }
    let is_appended = fcntl_getfl(output).is_ok_and(|flags| flags.contains(OFlags::APPEND));
    let read_at = input.stream_position().map_err(CatFailure::Source)?;
    let written_at = if is_appended {
        found.len()
    } else {
        output.stream_position().map_err(CatFailure::Sink)?
    };
    if read_at < found.len() && read_at < written_at {
        return Err(CatFailure::Source(io::Error::other("input file is output file")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<CatOptions, EarlyExit> {
        parse(words.iter().map(OsString::from).collect())
    }

    #[test]
    fn options_join_and_files_are_kept_in_order() {
        let options = parsed(&["-bE", "a", "-", "--squeeze-blank", "--", "-n"]).unwrap();
        assert!(options.style.number && options.style.nonblank && options.style.ends);
        assert!(options.style.squeeze && !options.style.tabs);
        assert_eq!(options.files, ["a", "-", "-n"]);
        assert_eq!(parsed(&["-A"]).unwrap().style, parsed(&["-vET"]).unwrap().style);
    }

    #[test]
    fn what_is_unknown_is_named() {
        let wrong = |text: &str| Err(EarlyExit::wrong(text));
        assert_eq!(parsed(&["-z"]), wrong("invalid option -- 'z'"));
        assert_eq!(parsed(&["--colour"]), wrong("unrecognized option '--colour'"));
    }
}
