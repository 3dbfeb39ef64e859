//! `pagewise meter`: shows how much passes through a pipe, and how fast. It has pv's options and exit bits,
//! on the copy engine of `pagewise-lanes`.
//!
//! This thread moves the data; a second one draws the display. [`flow`] explains why this does not disturb
//! the pipeline. Beyond pv, it shows which side waits (`-T`), JSON lines, and with `--stats` the CPU time per
//! GiB and the share passed by reference.

mod allowance;
mod control;
mod cost;
mod cursor;
mod draw;
mod flow;
mod gauge;
mod options;
mod remote;
mod value;
mod watch;

use super::files;
use super::message::{reason, tell};
use control::MeterControl;
use cost::MeterCost;
use draw::{GLANCE, MeterDisplay, MeterFigures};
use flow::{IS_OUTPUT, MeterTally, NOT_MOVED, NOT_OPENED};
use options::{MeterForm, MeterOptions, ProgressUnit};
use pagewise_kernel::output_file::{self, OutputError};
use pagewise_kernel::part_file;
use pagewise_kernel::start::ignored;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Exit bit of pv: a request beside the transfer failed.
const NOT_DONE: u8 = 1;

/// Exit bit of pv: the command line is wrong.
const WRONG_USAGE: u8 = 64;

/// What `--help` prints.
pub const HELP: &str = "\
Usage: pagewise meter [OPTION]... [FILE]...
Copy FILE(s), or standard input, to standard output and show progress.

What to show (default: -b -t -r -p -e):
  -p, --progress           bar        -t, --timer         time since the start
  -e, --eta                time left  -I, --fineta        time of day at the end
  -r, --rate               rate now   -a, --average-rate  mean rate
  -b, --bytes              amount     -T, --buffer-percent
                                      share of the time spent on the source:
                                      {in 90%} means waiting for the producer
  -A, --last-written NUM   the last NUM bytes
  -F, --format FORMAT      %p %t %e %I %r %a %b %T %A %N or %{name}
  -N, --name NAME          a name before everything else
How to show it:
  -n, --numeric            numbers, one per line
      --json               JSON objects, one per line
  -q, --quiet              nothing         -8, --bits          bits
  -k, --si                 units of 1000   -l, --line-mode     lines
  -0, --null               lines end in a null byte (implies -l)
  -i, --interval SEC       time between updates (default 1, at least 0.1)
  -m, --average-rate-window SEC            window for -a and -e (default 30)
  -W, --wait               start the clock at the first byte
  -D, --delay-start SEC    show nothing before SEC
  -w, --width NUM          width of the line
  -f, --force              show even if standard error is not a terminal
  -c, --cursor             use a separate line for each meter of a pipeline
  -u, --bar-style STYLE    plain, block, granular, shaded
  -v, --stats              at the end, show spread of the rate, CPU time and
                           wake-ups per GiB, share by reference, waiting side
How to move data (as pv does, by reference; see below):
  -s, --size SIZE          expected size; @PATH: size of a file or directory
  -S, --stop-at-size       stop there      -L, --rate-limit RATE   (0: none)
  -B, --buffer-size BYTES  copy through a buffer of this size
  -C, --no-splice          copy: exact even if the writer or file changes data
      --live               also pass files to sockets by reference, and grow
                           the pipe that is read
      --no-cache           copy, and leave the page cache to other programs:
                           drop what this reads and writes, but nothing that
                           was cached
  -E, --skip-errors        write zeroes for unreadable data; -EE reports it
                           once per file
  -Y, --sync               write to disk after each write
  -o, --output FILE        write to FILE instead of standard output
Other options:
  -H, --height NUM         accepted, but has no effect
  -d, --watchfd PID[:FD]   show how far another process is in a file
  -R, --remote PID         give these options to the running meter PID
  -P, --pidfile FILE       hold the process id in FILE while running

These options of pv are refused, with a hint on what to use instead: -g -K -M -O
-Q -U -X -Z -x.

Like pv, meter passes pages of a file or pipe into a pipe by reference, and
pages of a pipe into a socket. If the data changes before the reader takes it,
the reader gets the changed data. That happens with a file that is written, or
with memory that a program passes to the pipe and reuses. Use -C if data may
change. Use --live only if it cannot.

Exit status: 0, or the sum of 1 (-R, -P or signal handling failed), 2 (a file
could not be opened), 4 (an input is the output), 8 (no file could be opened at
all), 16 (moving data failed), 32 (ended by a signal), 64 (wrong usage).

Examples:
  pagewise meter big.tar | tar x
  zcat big.gz | pagewise meter -T -N unpacked | sort > sorted
  pagewise meter -cN in f | gzip | pagewise meter -cN out > f.gz
  pagewise meter -P pid big.tar | ssh host tar x
  pagewise meter -R \"$(cat pid)\" -L 50M
";

pub fn run(arguments: Vec<OsString>) -> ExitCode {
    match options::parse(arguments.clone()) {
        Ok(MeterOptions { remote: Some(pid), .. }) => control_other(pid, &arguments),
        Ok(options) => measure(&options),
        Err(instead) => instead.serve("meter", HELP, WRONG_USAGE),
    }
}

/// Sends these options to another meter.
fn control_other(pid: u32, arguments: &[OsString]) -> ExitCode {
    match remote::send(pid, arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            tell("meter", &why);
            ExitCode::from(NOT_DONE)
        }
    }
}

fn measure(options: &MeterOptions) -> ExitCode {
    let mut bits = 0;
    let own = format!("{}\n", std::process::id());
    // At the end, only a file written by this process is removed.
    let mut pid_file = options.pid_file.clone();
    if let Some(path) = &options.pid_file
        && let Err(error) = output_file::write(path, own.as_bytes(), part_file::PUBLIC)
    {
        pid_file = None;
        let why = match &error {
            OutputError::Sys(error) => reason(&error.source),
            other => other.to_string(),
        };
        tell("meter", &format!("{}: {why}", path.display()));
        bits |= NOT_DONE;
    }
    if let Err(error) = end_on_signals(pid_file.clone()) {
        tell("meter", &format!("signals: {}", reason(&error)));
        bits |= NOT_DONE;
    }
    bits |= match options.watched {
        Some(watched) if watch::run(options, watched) => 0,
        Some(_) => NOT_OPENED,
        None => transfer(options),
    };
    remove(pid_file.as_deref());
    ExitCode::from(bits)
}

/// Removes the file with this process's id.
fn remove(pid_file: Option<&Path>) {
    if let Some(path) = pid_file {
        // The file or its directory is already gone: nothing is left to do.
        let _removed = std::fs::remove_file(path);
    }
}

/// On a termination signal, ends the line and the process with pv's exit bit. Signals that were ignored at
/// the start (nohup) stay ignored.
fn end_on_signals(pid_file: Option<PathBuf>) -> io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let is_heard = |signal: &i32| ignored() & (1 << (signal - 1)) == 0;
    let wanted = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(is_heard);
    let (heard_of, handlers) = UnixStream::pair()?;
    let mut heard_of = files::private(heard_of.as_fd())?;
    for signal in wanted {
        signal_hook::low_level::pipe::register(signal, files::private(handlers.as_fd())?)?;
    }
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        if heard_of.read_exact(&mut [0]).is_ok() {
            // The line stays. The data thread is blocked in a call that no flag would end.
            let _ended = io::stderr().write_all(b"\n");
            remove(pid_file.as_deref());
            #[expect(clippy::exit, reason = "the transfer blocks in the kernel")]
            std::process::exit(i32::from(flow::SIGNALLED));
        }
    })?;
    Ok(())
}

/// The output; reports its error and returns it as an exit bit. A file is truncated only after no input is
/// found to be that file.
fn output(options: &MeterOptions) -> Result<File, u8> {
    let not_opened = |name: &str, error: &io::Error| {
        tell("meter", &format!("{name}: {}", reason(error)));
        NOT_OPENED
    };
    let Some(path) = &options.output else {
        return files::standard_output().map_err(|error| not_opened("standard output", &error));
    };
    let name = path.to_string_lossy();
    let opened = File::options().write(true).create(true).truncate(false).open(path);
    let output = opened.map_err(|error| not_opened(&name, &error))?;
    let refusal = |file: &OsString| flow::refusal(file, files::metadata(file), &output);
    if let Some(why) = options.files.iter().find_map(refusal) {
        tell("meter", &why);
        return Err(IS_OUTPUT);
    }
    match output.set_len(0) {
        Err(error) if output.metadata().is_ok_and(|found| found.is_file()) => {
            Err(not_opened(&name, &error))
        }
        // A pipe or device cannot be truncated, and has no old content.
        _ => Ok(output),
    }
}

fn transfer(options: &MeterOptions) -> u8 {
    let output = match output(options) {
        Ok(output) => output,
        Err(bit) => return bit,
    };
    let options =
        MeterOptions { size: options.size.or_else(|| size_of_files(options)), ..options.clone() };
    let control = Arc::new(MeterControl::new(options));
    // If listening fails, there is no one to notify: `-R` reports it on the other side.
    let _listens = remote::listen(Arc::clone(&control));
    let (tally, start) = (MeterTally::default(), Instant::now());
    let mut display = MeterDisplay::new(&control, start);
    let mut bits = std::thread::scope(|scope| {
        let shown = scope.spawn(|| show(&control, &tally, &mut display));
        let bits = flow::run(&control, &output, &tally);
        shown.thread().unpark();
        if shown.join().is_err() { bits | NOT_DONE } else { bits }
    });
    if let Err(error) = close(output, control.options().output.is_some()) {
        tell("meter", &format!("write error: {}", reason(&error)));
        bits |= NOT_MOVED;
    }
    if control.options().stats {
        let cost = MeterCost::now(&tally).summary(start.elapsed());
        // A failed summary is no failure of the transfer.
        let _sent = io::stderr().write_all((display.statistics() + &cost).as_bytes());
    }
    bits
}

/// Closes the output: a file opened here, or standard output.
fn close(output: File, is_own: bool) -> io::Result<()> {
    if is_own { files::close(output) } else { files::close_standard_output(Some(output)) }
}

/// Total size of all inputs; `None` unless each is a file with a size.
fn size_of_files(options: &MeterOptions) -> Option<u64> {
    if options.unit == ProgressUnit::Lines {
        return None;
    }
    let size = |name: &OsString| {
        let found = files::metadata(name).ok().filter(|found| found.is_file() && found.len() > 0);
        found.map(|found| found.len())
    };
    options.files.iter().map(size).sum()
}

fn figures(options: &MeterOptions, tally: &MeterTally) -> MeterFigures {
    let done = if options.unit == ProgressUnit::Lines { &tally.lines } else { &tally.bytes };
    MeterFigures {
        done: done.load(Relaxed),
        source_ns: tally.source_ns.load(Relaxed),
        sink_ns: tally.sink_ns.load(Relaxed),
        last_written: tally.last_written.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        cost: (options.form == MeterForm::Json).then(|| MeterCost::now(tally)),
    }
}

/// The display's thread.
fn show(control: &MeterControl, tally: &MeterTally, display: &mut MeterDisplay<'_>) {
    if control.options().waits {
        while tally.first.get().is_none() && !tally.is_over.load(Relaxed) {
            std::thread::park_timeout(GLANCE);
        }
        display.restart(tally.first.get().copied().unwrap_or_else(Instant::now));
    }
    let mut last = Instant::now();
    while !tally.is_over.load(Relaxed) {
        let (options, now) = (control.options(), Instant::now());
        let next = last + options.interval;
        if now >= next {
            display.draw(&figures(&options, tally));
            // After a pause (Ctrl-Z), missed updates are skipped.
            last = next.max(now.checked_sub(options.interval).unwrap_or(now));
        }
        // Meanwhile another meter may set a shorter interval.
        let pause = (last + options.interval).saturating_duration_since(now);
        std::thread::park_timeout(pause.min(Duration::from_secs(1)));
    }
    display.finish(&figures(&control.options(), tally));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_files_add_up_or_are_not_known() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name).into_os_string();
        std::fs::write(path("a"), [0; 10]).unwrap();
        std::fs::write(path("b"), [0; 5]).unwrap();
        let options =
            |files: &[OsString]| MeterOptions { files: files.to_vec(), ..MeterOptions::default() };
        assert_eq!(size_of_files(&options(&[path("a"), path("b")])), Some(15));
        assert_eq!(size_of_files(&options(&[path("a"), "/proc/self/stat".into()])), None);
        assert_eq!(size_of_files(&options(&[path("a"), path("none")])), None);
    }
}
