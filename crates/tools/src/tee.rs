//! `pagewise tee`: GNU tee's options, messages and exit statuses, on the fan-out of `pagewise-lanes`.

use super::command_line::{EarlyExit, NameCompletion, complete, in_full};
use super::files;
use super::message::{quoted, reason, tell};
use pagewise_kernel::start::restore_pipe_signal;
use pagewise_lanes::{CopyError, CopySide, FanOut};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::File;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What `--help` prints.
pub const HELP: &str = "\
Usage: pagewise tee [OPTION]... [FILE]...
Copy standard input to each FILE, and also to standard output.

  -a, --append              append to the given FILEs, do not overwrite
  -i, --ignore-interrupts   ignore interrupt signals
      --live                pass pages of a pipe on by reference: faster, but
                            the readers see later changes to memory that a
                            program passed to the pipe. Use it only if the data
                            does not change
      --no-cache            leave the page cache to other programs: drop what
                            this reads and writes, but nothing that was cached
  -p                        operate in a more appropriate MODE with pipes
      --output-error[=MODE] set behavior on write error, see MODE below
      --help                display this help and exit
      --version             output version information and exit

MODE determines behavior with write errors on the outputs:
  warn         diagnose errors writing to any output
  warn-nopipe  diagnose errors writing to any output not a pipe
  exit         exit on error writing to any output
  exit-nopipe  exit on error writing to any output not a pipe
The default MODE for -p is warn-nopipe. Without -p and --output-error, tee exits
at once on an error writing to a pipe, and diagnoses errors writing to others.

Outputs are served in turn; the slowest sets the pace.

Examples:
  make 2>&1 | pagewise tee build.log
  zcat big.gz | pagewise tee >(sha256sum >sum) >(wc -c >size) >/dev/null
";

/// The long options.
const LONG: [&str; 7] =
    ["append", "ignore-interrupts", "live", "no-cache", "output-error", "help", "version"];

/// How tee reacts to a write error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum TeeErrorMode {
    /// SIGPIPE ends tee; other errors are reported.
    #[default]
    Signal,
    Warn,
    WarnNopipe,
    Exit,
    ExitNopipe,
}

impl TeeErrorMode {
    fn named(name: &str) -> Option<Self> {
        let modes = [
            ("warn", Self::Warn),
            ("warn-nopipe", Self::WarnNopipe),
            ("exit", Self::Exit),
            ("exit-nopipe", Self::ExitNopipe),
        ];
        let NameCompletion::One(whole) = complete(name, &modes.map(|(mode, _)| mode)) else {
            return None;
        };
        modes.iter().find(|(mode, _)| *mode == whole).map(|(_, mode)| *mode)
    }

    /// A broken pipe is no error.
    fn is_without_pipes(self) -> bool {
        matches!(self, Self::WarnNopipe | Self::ExitNopipe)
    }

    fn tells(self, errno: Errno) -> bool {
        errno != Errno::PIPE || matches!(self, Self::Warn | Self::Exit)
    }

    fn ends(self, errno: Errno) -> bool {
        match self {
            Self::Exit => true,
            Self::ExitNopipe => errno != Errno::PIPE,
            Self::Signal | Self::Warn | Self::WarnNopipe => false,
        }
    }
}

/// The parsed command line.
#[derive(Debug, Default, PartialEq, Eq)]
struct TeeOptions {
    append: bool,
    ignore_interrupts: bool,
    live: bool,
    no_cache: bool,
    mode: TeeErrorMode,
    files: Vec<OsString>,
}

pub fn run(arguments: Vec<OsString>) -> ExitCode {
    match parse(arguments) {
        Ok(options) => {
            if options.mode == TeeErrorMode::Signal {
                restore_pipe_signal();
            }
            fan_out(&options)
        }
        Err(instead) => instead.serve("tee", HELP, 1),
    }
}

fn parse(arguments: Vec<OsString>) -> Result<TeeOptions, EarlyExit> {
    use lexopt::prelude::{Long, Short, Value};
    let mut options = TeeOptions::default();
    let mut parser = lexopt::Parser::from_args(arguments);
    while let Some(argument) = parser.next()? {
        let argument = in_full(argument, &LONG)?;
        match argument {
            Short('a') | Long("append") => options.append = true,
            Short('i') | Long("ignore-interrupts") => options.ignore_interrupts = true,
            Long("live") => options.live = true,
            Long("no-cache") => options.no_cache = true,
            Short('p') => options.mode = TeeErrorMode::WarnNopipe,
            Long("output-error") => {
                options.mode = match parser.optional_value() {
                    None => TeeErrorMode::WarnNopipe,
                    Some(name) => mode(&name)?,
                };
            }
            Long("help") => return Err(EarlyExit::Help),
            Long("version") => return Err(EarlyExit::Version),
            Value(file) => options.files.push(file),
            unknown => return Err(EarlyExit::unknown(&unknown)),
        }
    }
    Ok(options)
}

fn mode(name: &OsString) -> Result<TeeErrorMode, EarlyExit> {
    let known = "warn, warn-nopipe, exit, exit-nopipe";
    name.to_str().and_then(TeeErrorMode::named).ok_or_else(|| {
        let name = name.display();
        EarlyExit::Wrong(format!("invalid argument '{name}' for '--output-error' (one of {known})"))
    })
}

fn fan_out(options: &TeeOptions) -> ExitCode {
    if options.ignore_interrupts {
        let heard = Arc::new(AtomicBool::new(false));
        if let Err(error) = signal_hook::flag::register(signal_hook::consts::SIGINT, heard) {
            tell("tee", &format!("interrupts are not ignored: {}", reason(&error)));
        }
    }
    let mut all_well = true;
    let mut outputs = Vec::new();
    // The first output is standard output.
    match files::standard_output().or_else(|_closed| files::closed_output()) {
        Ok(output) => outputs.push((output, "'standard output'".to_owned())),
        Err(error) => {
            tell("tee", &format!("'standard output': {}", reason(&error)));
            return ExitCode::FAILURE;
        }
    }
    for name in &options.files {
        let mut opening = File::options();
        opening.create(true).append(options.append).write(true).truncate(!options.append);
        match opening.open(name) {
            Ok(file) => outputs.push((file, quoted(name))),
            Err(error) => {
                tell("tee", &format!("{}: {}", quoted(name), reason(&error)));
                all_well = false;
                if matches!(options.mode, TeeErrorMode::Exit | TeeErrorMode::ExitNopipe) {
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    let mut failed = vec![false; outputs.len()];
    all_well &= pass(options, &outputs, &mut failed);
    all_well &= close(outputs, &failed);
    if all_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Closes all outputs, standard output last. Returns whether none failed now; earlier failures were reported.
fn close(outputs: Vec<(File, String)>, failed: &[bool]) -> bool {
    let mut all_well = true;
    let mut outputs = outputs.into_iter().zip(failed);
    let standard = outputs.next().map(|((file, _), _)| file);
    for ((file, name), has_failed) in outputs {
        if let Err(error) = files::close(file)
            && !has_failed
        {
            tell("tee", &format!("{name}: {}", reason(&error)));
            all_well = false;
        }
    }
    if let Err(error) = files::close_standard_output(standard) {
        tell("tee", &format!("write error: {}", reason(&error)));
        all_well = false;
    }
    all_well
}

/// Copies all input to the outputs, which have names, and marks those that failed. Returns whether no error
/// occurred that counts.
fn pass(options: &TeeOptions, outputs: &[(File, String)], failed: &mut [bool]) -> bool {
    let mode = options.mode;
    let input = match files::open("-".as_ref()) {
        Ok(input) => input,
        Err(error) => {
            tell("tee", &format!("read error: {}", reason(&error)));
            return false;
        }
    };
    let sinks: Vec<&File> = outputs.iter().map(|(file, _)| file).collect();
    let mut all_well = true;
    let fan = FanOut::new(&input, &sinks);
    let fan = if options.live { fan.live() } else { fan };
    let fan = if options.no_cache { fan.past_cache() } else { fan };
    // As GNU's from 9.2 on: stops waiting for input once no output is left.
    let fan = if mode.is_without_pipes() { fan.watch_sinks() } else { fan };
    let result = fan.run(|sink, error: CopyError| {
        failed[sink] = true;
        if mode.tells(error.errno) {
            tell("tee", &format!("{}: {}", outputs[sink].1, reason(&error.errno.into())));
            all_well = false;
        }
        !mode.ends(error.errno)
    });
    if let Err(error) = result
        && error.side == CopySide::Source
    {
        tell("tee", &format!("read error: {}", reason(&error.errno.into())));
        return false;
    }
    all_well && result.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<TeeOptions, EarlyExit> {
        parse(words.iter().map(OsString::from).collect())
    }

    #[test]
    fn modes_are_named_whole_or_shortened() {
        assert_eq!(parsed(&["-p"]).unwrap().mode, TeeErrorMode::WarnNopipe);
        assert_eq!(parsed(&["--output-error"]).unwrap().mode, TeeErrorMode::WarnNopipe);
        assert_eq!(parsed(&["--output-error=exit"]).unwrap().mode, TeeErrorMode::Exit);
        assert_eq!(parsed(&["--output-error=exit-n"]).unwrap().mode, TeeErrorMode::ExitNopipe);
        assert!(matches!(parsed(&["--output-error=never"]), Err(EarlyExit::Wrong(_))));
        assert!(matches!(parsed(&["--output-error="]), Err(EarlyExit::Wrong(_))));
    }

    #[test]
    fn files_and_flags_mix() {
        let options = parsed(&["-ai", "one", "-", "--", "-two"]).unwrap();
        assert!(options.append && options.ignore_interrupts);
        assert_eq!(options.files, ["one", "-", "-two"]);
    }

    #[test]
    fn a_closed_pipe_counts_only_where_the_mode_says() {
        assert!(
            !TeeErrorMode::WarnNopipe.tells(Errno::PIPE)
                && TeeErrorMode::WarnNopipe.tells(Errno::NOSPC)
        );
        assert!(
            TeeErrorMode::Exit.ends(Errno::PIPE) && !TeeErrorMode::ExitNopipe.ends(Errno::PIPE)
        );
        assert!(
            TeeErrorMode::ExitNopipe.ends(Errno::NOSPC) && !TeeErrorMode::Warn.ends(Errno::NOSPC)
        );
    }
}
