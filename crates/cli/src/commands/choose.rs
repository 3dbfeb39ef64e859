//! `pagewise choose`

use super::bench::file::{no_file, open, read_all};
use super::bench::{BenchControl, once_each};
use super::cache::looked;
use super::experiment::{identity, lock, report};
use super::signals::INTERRUPTED;
use crate::args::ChooseArgs;
use crate::failure::{CommandFailure, UNFIT};
use crate::terminal;
use pagewise_judge::bench::file::judge;
use pagewise_judge::choice::{
    CalibrationOccasion, MOST_OFF, calibrate, reasons, trial_error, waited_share,
};
use pagewise_kernel::clock;
use pagewise_kernel::lock::ExperimentLock;
use pagewise_lanes::choose::{CalibrationPlace, ChooseError, ExaminedFile, KeptPrices};
use pagewise_measure::bench::file::{
    CALIBRATED, FileOrigin, FilePlan, calibration_file, lies_huge,
};
use pagewise_measure::{BenchCost, PriceError};
use pagewise_model::Nanos;
use pagewise_model::bench::file::{FileBenchReport, ReadWay};
use pagewise_model::body::RunBody;
use pagewise_model::cache::FolioClass;
use pagewise_model::choice::{FileReadings, ReadChoice, ReadDemand, ReadTrial};
use pagewise_model::run::{RunKind, SavedRun};
use std::process::ExitCode;

/// Number of ways that are measured again, before and after all others.
const CHECKED: usize = 2;
/// If processes waited longer than this share of their CPU time, the prices are not saved.
const MOST_WAITED: f64 = 0.25;
/// Time limit for the prices; below, the largest share of them that it may cut off.
const LIMIT: Nanos = Nanos::secs(18);
const MOST_MISSED: f64 = 0.1;

/// Predicts, and recommends a way.
pub(super) fn run(args: &ChooseArgs) -> Result<ExitCode, CommandFailure> {
    let start = clock::now();
    let subject = ExaminedFile::open(&args.file).map_err(|error| failure(&error))?;
    let demand = demand(args);
    if let Some(why) = demand.objection(subject.size()) {
        return Err(failure(&ChooseError::Demand(why)));
    }
    if args.measure && subject.state().cached_share < 1.0 {
        return Err(CommandFailure::unfit(
            "--measure needs the whole file in the page cache, but not all of it is cached",
        )
        .with_help("read it first: cat FILE >/dev/null; or leave out --measure"));
    }
    let mut warnings = Vec::new();
    let kept = if args.calibrate { None } else { subject.place().kept() };
    let bench = if kept.is_none() || args.measure { Some(ChoiceBench::new(args)?) } else { None };
    let prices = match (kept, &bench) {
        (Some(kept), _) => kept,
        (None, Some(bench)) => bench.prices(subject.place(), &mut warnings)?,
        (None, None) => return Err(CommandFailure::usage("no prices were measured")),
    };
    if !subject.place().is_own {
        let directory = subject.place().directory.display();
        warnings.push(format!(
            "prices were measured in {directory}: you cannot write to the directory of this file"
        ));
    }
    let choice = subject.choose_by(&prices, &demand, &arms(args));
    let mut choice = choice.map_err(|error| failure(&error))?;
    let mut is_refused = false;
    if let Some(bench) = bench.as_ref().filter(|_| args.measure) {
        (choice.trials, choice.trial_error_share) = bench.trials(args, &choice)?;
        if let Some(off) = choice.trial_error_share.filter(|off| *off > MOST_OFF) {
            choice.trials.clear();
            is_refused = true;
            warnings.push(format!(
                "the machine is too busy to measure: cells measured at the start and the end are off by {:.0}%, so only predictions are shown",
                100.0 * off
            ));
        }
    }
    choice.reasons = reasons(&choice);
    let is_any = choice.best().is_some();
    let run = SavedRun { warnings, ..looked(RunKind::Choose, RunBody::Choice(choice), start) };
    let text = match args.json {
        true => run.to_json() + "\n",
        false => report(&run, args.verbose, &terminal::style()),
    };
    terminal::print(&text)?;
    args.page.write(|| pagewise_report::html(&run))?;
    Ok(ExitCode::from(if is_any && !is_refused { 0 } else { UNFIT }))
}

fn demand(args: &ChooseArgs) -> ReadDemand {
    ReadDemand {
        order: args.order.into(),
        block_bytes: args.block,
        passes: args.passes,
        threads: args.threads,
    }
}

/// The ways to choose from.
fn arms(args: &ChooseArgs) -> Vec<ReadWay> {
    if args.arm.is_empty() {
        return ReadWay::ALL.to_vec();
    }
    once_each(args.arm.clone())
}

fn failure(error: &ChooseError) -> CommandFailure {
    CommandFailure::usage(error.to_string()).with_help(error.help())
}

/// The failure for something that cannot be planned here.
fn unplanned(error: &PriceError) -> CommandFailure {
    CommandFailure::usage(error.to_string())
}

/// Measures while it holds the lock, so that nothing else measures.
struct ChoiceBench {
    _lock: ExperimentLock,
    control: BenchControl,
    started_unix_ns: u64,
    quiet: bool,
}

impl ChoiceBench {
    fn new(args: &ChooseArgs) -> Result<Self, CommandFailure> {
        let (started_unix_ns, _) = identity(&[]);
        let seed = args.seed.unwrap_or(started_unix_ns);
        let (lock, control) = (lock(args.patience)?, BenchControl::new(seed, args.quiet)?);
        Ok(Self { _lock: lock, control, started_unix_ns, quiet: args.quiet })
    }

    fn announce(&self, text: &str) {
        if !self.quiet {
            terminal::complain(text);
        }
    }

    /// Fails if the user has stopped the measurement.
    fn check(&self) -> Result<(), CommandFailure> {
        if self.control.is_stopped() {
            self.control.finish();
            return Err(CommandFailure::usage("interrupted before the prices were known")
                .with_code(INTERRUPTED));
        }
        Ok(())
    }

    /// Measures the prices of a place and saves them.
    fn prices(
        &self,
        place: &CalibrationPlace,
        warnings: &mut Vec<String>,
    ) -> Result<KeptPrices, CommandFailure> {
        let began = clock::now();
        self.announce(&format!(
            "measuring the prices of reading on {}: under 20 s, once a week",
            place.key.file_system()
        ));
        let mut files = Vec::new();
        for folios in CALIBRATED {
            match self.files(place, folios, began + LIMIT) {
                Ok(read) => files.extend(read),
                // All others fall back to the first file: without it there are no prices.
                Err(error) if files.is_empty() => return Err(error),
                Err(error) => {
                    warnings.push(format!("no prices for files on {}: {error}", folios.into_str()));
                }
            }
            self.check()?;
        }
        self.control.finish();
        let took_ns = Nanos(clock::now().0.saturating_sub(began.0));
        let occasion =
            CalibrationOccasion { key: place.key.clone(), unix_ns: self.started_unix_ns, took_ns };
        let calibration = calibrate(&files, occasion)
            .ok_or_else(|| CommandFailure::unfit("no way to read a file could be measured"))?;
        let waited = files.iter().filter_map(|file| waited_share(&file.readings));
        let waited = waited.reduce(f64::max).unwrap_or(0.0);
        if waited > MOST_WAITED {
            warnings.push(format!(
                "the machine is too busy: the processes waited {waited:.1} times as long for a CPU as they had it; the prices may be off by as much and are not saved"
            ));
        } else if calibration.missed_share > MOST_MISSED {
            warnings.push(format!(
                "the machine is too busy: {:.0}% of the price measurements were not done in time; the prices are not saved",
                100.0 * calibration.missed_share
            ));
        } else if let Err(error) = place.keep(&calibration) {
            warnings.push(format!("the prices are not saved: {error}"));
        }
        Ok(KeptPrices { calibration, age: Nanos(0) })
    }

    /// The readings of one file; empty if the file system does not hold files on these folios.
    fn files(
        &self,
        place: &CalibrationPlace,
        folios: FolioClass,
        end: Nanos,
    ) -> Result<Vec<FileReadings>, CommandFailure> {
        let origin = calibration_file(&place.directory, folios).map_err(|error| no_file(&error))?;
        let plans = FilePlan::calibration(self.control.seed, folios, origin.size());
        let plans = plans.map_err(|error| unplanned(&error))?;
        let Some(content) = open(&self.control, origin)? else { return Ok(Vec::new()) };
        if folios == FolioClass::Huge && !lies_huge(&content) {
            return Ok(Vec::new());
        }
        let read = |plan: FilePlan| {
            let plan = plan.within(Nanos(end.0.saturating_sub(clock::now().0)));
            Ok(FileReadings { folios, readings: read_all(&self.control, &plan, &content)? })
        };
        plans.into_iter().map(read).collect()
    }

    /// Measures every forecast way on the file itself, in its current state. Also returns the error of these times.
    fn trials(
        &self,
        args: &ChooseArgs,
        choice: &ReadChoice,
    ) -> Result<(Vec<ReadTrial>, Option<f64>), CommandFailure> {
        let origin = FileOrigin::given(&args.file, args.block).map_err(|error| no_file(&error))?;
        let arms: Vec<ReadWay> = choice.forecasts.iter().map(|forecast| forecast.arm).collect();
        let (seed, size) = (self.control.seed, origin.size());
        let plan = |arms: &[ReadWay]| {
            let plan = FilePlan::situation(seed, arms, &choice.demand, size, args.repeats);
            plan.map_err(|error| unplanned(&error))
        };
        let (plan, check) = (plan(&arms)?, plan(&arms[..arms.len().min(CHECKED)])?);
        self.announce(&announcement(&plan.cost(), &check.cost()));
        let Some(content) = open(&self.control, origin)? else { return Ok((Vec::new(), None)) };
        let start = read_all(&self.control, &check, &content)?;
        let readings = read_all(&self.control, &plan, &content)?;
        let end = read_all(&self.control, &check, &content)?;
        self.check()?;
        self.control.finish();
        Ok((trials(&readings), trial_error(&start, &end)))
    }
}

/// Announces the cost of the ways, and of the cells that are read before and after them.
fn announcement(ways: &BenchCost, check: &BenchCost) -> String {
    format!(
        "{} ways, {} fresh processes, about {}, at most {}",
        ways.points,
        ways.samples + 2 * check.samples,
        ways.about_ns + check.about_ns + check.about_ns,
        ways.cap_ns + check.cap_ns + check.cap_ns
    )
}

/// The times of the ways that did the requested work, and reasons why others have none.
fn trials(readings: &FileBenchReport) -> Vec<ReadTrial> {
    let judgement = judge(readings);
    let trial = |(at, point): (usize, &pagewise_model::bench::file::FilePoint)| match judgement
        .refusal(at)
    {
        Some(why) => {
            ReadTrial { arm: point.cell.arm, total_ns: Vec::new(), refused: Some(why.to_owned()) }
        }
        None => ReadTrial {
            arm: point.cell.arm,
            total_ns: point.samples.iter().map(|sample| sample.total_ns()).collect(),
            refused: point.refused.clone(),
        },
    };
    readings.points.iter().enumerate().map(trial).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::args::{Cli, CliCommand};
    use clap::Parser;
    use pagewise_model::Bytes;
    use pagewise_model::bench::tlb::AccessOrder;

    fn parse(words: &[&str]) -> ChooseArgs {
        let line = ["pagewise", "choose", "file"].iter().chain(words);
        let CliCommand::Choose(args) = Cli::try_parse_from(line).unwrap().command else {
            panic!("not choose")
        };
        args
    }

    #[test]
    fn both_readings_of_the_check_are_announced() {
        let cost = |points, ms| BenchCost {
            points,
            samples: 10 * points,
            about_ns: Nanos::millis(ms),
            cap_ns: Nanos::millis(3 * ms),
            memory_bytes: Bytes(0),
        };
        let text = announcement(&cost(20, 2000), &cost(3, 500));
        assert_eq!(text, "20 ways, 260 fresh processes, about 3.00 s, at most 9.00 s");
    }

    #[test]
    fn words_become_a_demand() {
        let plain = parse(&[]);
        let usual = demand(&plain);
        assert_eq!((usual.order, usual.block_bytes), (AccessOrder::Sequential, Bytes::kib(64)));
        assert_eq!((usual.passes, usual.threads, arms(&plain).len()), (1, 1, ReadWay::ALL.len()));
        let some = parse(&[
            "--order=seq",
            "--block=512",
            "--passes=9",
            "--threads=3",
            "--arm=mmap,read,mmap",
            "--measure",
            "--repeats=2",
        ]);
        let wanted = demand(&some);
        assert_eq!((wanted.block_bytes, wanted.passes, wanted.threads), (Bytes(512), 9, 3));
        assert_eq!(
            (wanted.order, arms(&some)),
            (AccessOrder::Sequential, vec![ReadWay::Read, ReadWay::Map])
        );
        assert_eq!(demand(&parse(&["--order", "random"])).order, AccessOrder::Random);
    }
}
