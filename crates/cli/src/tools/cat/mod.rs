//! `pagewise cat`: GNU cat's options, messages and exit statuses, over the copy engine of
//! `pagewise-lanes`: pipes are spliced, files are copied by the kernel or through a grown pipe, and
//! only styled output passes byte by byte.

mod style;

use super::message::{complete, misused, print, quoted, reason, tell, version};
use pagewise_kernel::start::{restore_pipe_signal, was_closed};
use pagewise_lanes::{Copy, CopyError, Side};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::process::ExitCode;
use style::{Style, Styled};

const HELP: &str = "\
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
      --live               hand files to a pipe by reference: faster, and what
                           the reader gets changes when the file does
      --help               display this help and exit
      --version            output version information and exit

Examples:
  pagewise cat f - g  the contents of f, then standard input, then g
  pagewise cat big.log | grep error
";

/// The long options.
const LONG: [&str; 9] = [
    "show-all",
    "number-nonblank",
    "show-ends",
    "number",
    "squeeze-blank",
    "show-tabs",
    "show-nonprinting",
    "help",
    "version",
];

/// What the command line asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    style: Style,
    live: bool,
    files: Vec<OsString>,
}

/// What to do instead of copying.
#[derive(Debug, PartialEq, Eq)]
enum Instead {
    Help,
    Version,
    Wrong(String),
}

/// Runs the tool.
pub(crate) fn run(arguments: Vec<OsString>) -> ExitCode {
    restore_pipe_signal();
    match parse(arguments) {
        Ok(asked) => concatenate(&asked),
        Err(Instead::Help) => print("cat", HELP),
        Err(Instead::Version) => print("cat", &version("cat")),
        Err(Instead::Wrong(what)) => misused("cat", &what),
    }
}

fn parse(arguments: Vec<OsString>) -> Result<Asked, Instead> {
    use lexopt::prelude::{Long, Short, Value};
    let mut asked = Asked::default();
    let mut parser = lexopt::Parser::from_args(arguments);
    let wrong = |error: lexopt::Error| Instead::Wrong(error.to_string());
    while let Some(argument) = parser.next().map_err(wrong)? {
        let argument = match argument {
            Long(name) => Long(complete(name, &LONG).unwrap_or(name)),
            other => other,
        };
        let style = &mut asked.style;
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
            Long("live") => asked.live = true,
            Long("help") => return Err(Instead::Help),
            Long("version") => return Err(Instead::Version),
            Value(file) => asked.files.push(file),
            Short(letter) => {
                return Err(Instead::Wrong(format!("invalid option -- '{letter}'")));
            }
            Long(name) => {
                return Err(Instead::Wrong(format!("unrecognized option '--{name}'")));
            }
        }
    }
    Ok(asked)
}

fn concatenate(asked: &Asked) -> ExitCode {
    if was_closed(1) {
        tell("cat", "standard output: Bad file descriptor");
        return ExitCode::FAILURE;
    }
    let standard_input = [OsString::from("-")];
    let files = if asked.files.is_empty() { &standard_input[..] } else { &asked.files };
    let mut styled = Styled::new(asked.style);
    let mut all_well = true;
    for file in files {
        match one(file, asked, &mut styled) {
            Ok(()) => {}
            Err(Failed::Source(error)) => {
                tell("cat", &format!("{}: {}", quoted(file), reason(&error)));
                all_well = false;
            }
            Err(Failed::Sink(error)) => return end_by_sink(&error),
        }
    }
    let mut held = Vec::new();
    styled.finish(&mut held);
    if let Err(error) = write_all(&held) {
        return end_by_sink(&error);
    }
    if all_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A file that could not be passed on, by side.
#[derive(Debug)]
enum Failed {
    Source(io::Error),
    Sink(io::Error),
}

impl From<CopyError> for Failed {
    fn from(error: CopyError) -> Self {
        match error.side {
            Side::Source => Self::Source(error.errno.into()),
            Side::Sink => Self::Sink(error.errno.into()),
        }
    }
}

fn one(name: &OsStr, asked: &Asked, styled: &mut Styled) -> Result<(), Failed> {
    if name == "-" {
        if was_closed(0) {
            return Err(Failed::Source(Errno::BADF.into()));
        }
        let input = io::stdin();
        return pass(
            &File::from(input.as_fd().try_clone_to_owned().map_err(Failed::Source)?),
            asked,
            styled,
        );
    }
    pass(&File::open(name).map_err(Failed::Source)?, asked, styled)
}

fn pass(input: &File, asked: &Asked, styled: &mut Styled) -> Result<(), Failed> {
    refuse_own_output(input)?;
    if asked.style.is_plain() {
        let output = io::stdout();
        let copy = Copy::new(input, &output);
        let copy = if asked.live { copy.live() } else { copy };
        return Ok(copy.run().map(drop)?);
    }
    let (mut chunk, mut out) = (vec![0; pagewise_lanes::copy::BUFFER], Vec::new());
    let mut input = input;
    loop {
        match input.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(n) => styled.show(&chunk[..n], &mut out),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Failed::Source(error)),
        }
        write_all(&out).map_err(Failed::Sink)?;
        out.clear();
    }
}

/// A file that is appended to itself would fill the disk.
fn refuse_own_output(input: &File) -> Result<(), Failed> {
    let Ok(output) = io::stdout().as_fd().try_clone_to_owned().map(File::from) else {
        return Ok(());
    };
    let (Ok(from), Ok(to)) = (input.metadata(), output.metadata()) else { return Ok(()) };
    let is_same = from.dev() == to.dev() && from.ino() == to.ino();
    let is_file = to.is_file() && !to.file_type().is_fifo();
    if is_same
        && is_file
        && io::Seek::stream_position(&mut &*input).map_err(Failed::Source)? < from.len()
    {
        return Err(Failed::Source(io::Error::other("input file is output file")));
    }
    Ok(())
}

/// Writes past the line buffer of the standard library.
fn write_all(bytes: &[u8]) -> io::Result<()> {
    let output = io::stdout();
    let mut left = bytes;
    while !left.is_empty() {
        match rustix::io::write(&output, left) {
            Ok(n) => left = &left[n..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

fn end_by_sink(error: &io::Error) -> ExitCode {
    tell("cat", &format!("write error: {}", reason(error)));
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Asked, Instead> {
        parse(words.iter().map(OsString::from).collect())
    }

    #[test]
    fn options_join_and_files_are_kept_in_order() {
        let asked = parsed(&["-bE", "a", "-", "--squeeze-blank", "--", "-n"]).unwrap();
        assert!(asked.style.number && asked.style.nonblank && asked.style.ends);
        assert!(asked.style.squeeze && !asked.style.tabs);
        assert_eq!(asked.files, ["a", "-", "-n"]);
        assert_eq!(parsed(&["-A"]).unwrap().style, parsed(&["-vET"]).unwrap().style);
    }

    #[test]
    fn what_is_unknown_is_named() {
        assert_eq!(parsed(&["-z"]), Err(Instead::Wrong("invalid option -- 'z'".to_owned())));
        let long = Instead::Wrong("unrecognized option '--colour'".to_owned());
        assert_eq!(parsed(&["--colour"]), Err(long));
    }
}
