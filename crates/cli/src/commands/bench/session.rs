//! What all benches share, from the start to the result, whatever they measure.
//!
//! The command line is checked before the machine's lock is taken, so that bad input never waits. From then
//! on, signals stop the measurement and not this program: the results so far are saved and shown.

use crate::args::BenchOutputArgs;
use crate::commands::experiment::{environment, identity, keep, lock, report};
use crate::commands::progress::ProgressDisplay;
use crate::commands::signals::{INTERRUPTED, stop_flag};
use crate::failure::{CommandFailure, UNFIT};
use crate::{store, terminal};
use pagewise_judge::stats::Rng;
use pagewise_kernel::lock::ExperimentLock;
use pagewise_kernel::{clock, machine};
use pagewise_measure::{BenchCallbacks, BenchCost, BenchProgress, PriceError};
use pagewise_model::Nanos;
use pagewise_model::run::{RunKind, SavedRun, SessionOutcome};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A bench before it takes the lock.
pub(super) struct BenchStart<'a> {
    out: &'a BenchOutputArgs,
    at: Nanos,
    started_unix_ns: u64,
    id: String,
    /// Seed of all random orders.
    pub(super) seed: u64,
}

/// Controls a measurement: order, progress, interrupt.
pub(in crate::commands) struct BenchControl {
    /// Seed of all random orders.
    pub(in crate::commands) seed: u64,
    display: ProgressDisplay,
    stop: Arc<AtomicBool>,
}

/// A bench that holds the lock, so that nothing else measures on this machine.
pub(super) struct BenchSession<'a> {
    out: &'a BenchOutputArgs,
    at: Nanos,
    _lock: ExperimentLock,
    pub(super) control: BenchControl,
    /// The run with its command line and machine, without results yet.
    pub(super) run: SavedRun,
}

impl<'a> BenchStart<'a> {
    /// Starts the bench called `name`.
    pub(super) fn new(name: &str, out: &'a BenchOutputArgs) -> Result<Self, CommandFailure> {
        let at = clock::now();
        let (started_unix_ns, id) = identity(&[name.into()]);
        check_chart(out.chart.as_deref())?;
        out.files.check()?;
        let seed = out.seed.unwrap_or(started_unix_ns);
        Ok(Self { out, at, started_unix_ns, id, seed })
    }

    /// Takes the lock.
    pub(super) fn begin(self) -> Result<BenchSession<'a>, CommandFailure> {
        let Self { out, at, started_unix_ns, id, seed } = self;
        let lock = lock(out.patience())?;
        let control = BenchControl::new(seed, out.quiet)?;
        let words: Vec<OsString> = std::env::args_os().skip(1).collect();
        let mut run = pagewise_tune::request::run_of(RunKind::Bench, id, started_unix_ns, &words);
        run.environment = environment();
        run.machine = Some(machine::machine());
        Ok(BenchSession { out, at, _lock: lock, control, run })
    }
}

impl BenchControl {
    /// From now on, signals stop the measurement.
    pub(in crate::commands) fn new(seed: u64, quiet: bool) -> Result<Self, CommandFailure> {
        Ok(Self { seed, display: ProgressDisplay::new(quiet), stop: stop_flag()? })
    }

    /// Removes the progress display.
    pub(in crate::commands) fn finish(&self) {
        self.display.finish();
    }

    /// Shows the current step.
    pub(in crate::commands) fn show(&self, message: &str) {
        self.display.show(message);
    }

    /// Whether the user has stopped the measurement.
    pub(in crate::commands) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The flag that signals set.
    pub(super) fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Runs `work`, which reports its progress before each sample, formatted by `text`.
    pub(in crate::commands) fn measure<P, T>(
        &self,
        text: impl Fn(&BenchProgress<'_, P>) -> String,
        work: impl FnOnce(BenchCallbacks<'_, P>) -> T,
    ) -> T {
        let mut rng = Rng::new(self.seed);
        work(BenchCallbacks {
            shuffle: &mut |order| rng.shuffle(order),
            stop: &|| self.is_stopped(),
            show: &mut |progress| self.show(&text(progress)),
        })
    }
}

impl BenchSession<'_> {
    /// Prints what is about to be measured, unless `--quiet` is given.
    pub(super) fn announce(&self, text: &str) {
        if !self.out.quiet {
            terminal::complain(text);
        }
    }

    /// Saves and shows the run; `any` says whether anything was measured.
    pub(super) fn conclude(self, any: bool) -> Result<ExitCode, CommandFailure> {
        let Self { out, at, control, mut run, .. } = self;
        control.finish();
        if control.is_stopped() {
            run.outcome = Some(SessionOutcome::Interrupted);
        }
        run.took_ns = Nanos(clock::now().0.saturating_sub(at.0));
        keep(&mut run);
        show(&run, out)?;
        Ok(ExitCode::from(match (&run.outcome, any) {
            (Some(_), _) => INTERRUPTED,
            (None, true) => 0,
            (None, false) => UNFIT,
        }))
    }
}

/// The failure for something that a bench cannot measure here.
pub(super) fn unfit(error: PriceError, help: &str) -> CommandFailure {
    match error {
        PriceError::Unavailable(why) => CommandFailure::unfit(why).with_help(help),
        other => CommandFailure::usage(other.to_string()),
    }
}

/// Announces a measurement in fresh mappings and its cost.
pub(super) fn mappings(cost: &BenchCost, repeats: u32) -> String {
    format!(
        "{} points, {repeats} fresh mappings of each: {} mappings, about {}, at most {}, in at most \
         {} of memory",
        cost.points, cost.samples, cost.about_ns, cost.cap_ns, cost.memory_bytes
    )
}

/// Refuses chart files whose extension is not supported.
fn check_chart(file: Option<&Path>) -> Result<(), CommandFailure> {
    match file.map(|file| (file, extension(file))) {
        None | Some((_, "svg" | "html")) => Ok(()),
        Some((file, _)) => Err(CommandFailure::usage(format!(
            "--chart `{}`: unknown chart format",
            file.display()
        ))
        .with_help("use a name that ends in .svg or .html")),
    }
}

fn extension(file: &Path) -> &str {
    file.extension().and_then(|end| end.to_str()).unwrap_or_default()
}

/// Prints the result, then writes the requested files.
fn show(run: &SavedRun, out: &BenchOutputArgs) -> Result<(), CommandFailure> {
    let text =
        if out.json { run.to_json() + "\n" } else { report(run, out.verbose, &terminal::style()) };
    terminal::print(&text)?;
    // The result is printed first: a failed write does not lose it.
    out.files.write(run)?;
    if let Some(file) = &out.csv {
        store::write_whole(file, &pagewise_report::csv(run))?;
    }
    if let Some(file) = &out.chart
        && let Some(drawn) = draw(run, file)
    {
        store::write_whole(file, &drawn)?;
    }
    Ok(())
}

/// The chart of a run, or a page with everything, by the file's extension.
fn draw(run: &SavedRun, file: &Path) -> Option<String> {
    if extension(file) == "html" {
        Some(pagewise_report::html(run))
    } else {
        pagewise_report::svg(run)
    }
}
