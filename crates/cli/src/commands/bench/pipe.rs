//! `pagewise bench pipe`

use super::rungs;
use super::session::{BenchControl, BenchStart, unfit};
use crate::args::{HelperRole, PipeBenchArgs};
use crate::commands::helper;
use crate::failure::CommandFailure;
use pagewise_judge::bench::pipe::PipeContext;
use pagewise_kernel::{doctor, page_size, topology};
use pagewise_measure::bench::pipe::{self, PipePlan};
use pagewise_measure::{BenchCost, BenchProgress, CalibrationOptions};
use pagewise_model::bench::pipe::{PipeBenchReport, PipeConsumption, PipePoint, ReferencePrices};
use pagewise_model::body::{BenchReport, RunBody};
use pagewise_model::look::CpuSamples;
use pagewise_model::price::SessionPrices;
use pagewise_model::{Fact, Nanos};
use pagewise_tracee::perf::CpuClockSampler;
use std::process::ExitCode;

/// Time of a repeat; below, in the short form.
const REPEAT: Nanos = Nanos::millis(150);
const QUICK_REPEAT: Nanos = Nanos::millis(40);
/// Time for the prices, which are measured before the ladder that they explain.
const PRICES: Nanos = Nanos::secs(2);

/// Measures the ladder, judges it, saves and shows it.
pub(super) fn run(args: &PipeBenchArgs) -> Result<ExitCode, CommandFailure> {
    if args.print {
        let printed = pipe::print_fizzbuzz(args.bytes);
        return printed.map(|()| ExitCode::SUCCESS).map_err(|error| {
            CommandFailure::usage(format!("cannot write the lines: {error}"))
                .with_help("write them to a pipe: `... --print | pagewise meter > /dev/null`")
        });
    }
    if args.explain {
        return explain(args);
    }
    let points = rungs::points(args)?;
    let start = BenchStart::new("pipe", &args.result)?;
    let plan = PipePlan {
        points,
        repeats: args.repeats.unwrap_or(if args.compare.is_some() { 12 } else { 6 }),
        bytes: args.bytes,
        repeat_ns: args.time.unwrap_or(if args.quick { QUICK_REPEAT } else { REPEAT }),
        seed: start.seed,
        sweep: args.sweep,
        compared: args.compare,
    };
    let cost = plan.cost().map_err(|error| CommandFailure::usage(error.to_string()))?;
    let mut session = start.begin()?;
    session.announce(&announcement(&plan, &cost, args.no_prices));
    if let Some(spoiler) = args.samples.then(doctor::pressure_accounting).flatten() {
        let text = format!("{} ({})", spoiler.what, spoiler.remedy);
        session.announce(&text);
        session.run.warnings.push(text);
    }
    let (control, run) = (&session.control, &mut session.run);
    let reference = if args.no_prices {
        ReferencePrices::missing("not requested")
    } else {
        run.prices = prices(control, &mut run.warnings);
        pipe::reference_prices()
    };
    let mut measured = measure(&plan, control)?;
    let mut taken = Vec::new();
    if args.samples {
        let repeat = &mut |one: &PipePlan| measure(one, control);
        taken = sample(&measured, &plan, repeat, &mut run.warnings)?;
    }
    conclude(&mut measured, run.prices.as_ref(), &reference, &taken);
    let any = measured.points.iter().any(|point| !point.samples.is_empty());
    run.body = Some(RunBody::Bench(BenchReport::Pipe(measured)));
    session.conclude(any)
}

/// Shows how a pipe works, with the price of each part.
fn explain(args: &PipeBenchArgs) -> Result<ExitCode, CommandFailure> {
    let start = BenchStart::new("pipe", &args.result)?;
    let mut session = start.begin()?;
    let (control, run) = (&session.control, &mut session.run);
    control.show("how a pipe works");
    let mut shown = match pipe::explain(control.seed, &|| control.is_stopped()) {
        Err(error) if !control.is_stopped() => return Err(unfit(error, "close other pipes")),
        Err(_) => return session.conclude(false),
        Ok(shown) => shown,
    };
    conclude(&mut shown, None, &pipe::reference_prices(), &[]);
    run.body = Some(RunBody::Bench(BenchReport::Pipe(shown)));
    session.conclude(true)
}

/// Announces the measurement and its cost.
fn announcement(plan: &PipePlan, cost: &BenchCost, no_prices: bool) -> String {
    let prices = if no_prices { "" } else { "; prices first, some seconds" };
    format!(
        "{} points, {} repeats of each: {} pairs of processes, about {}, at most {}, in at most {} \
         of memory{prices}",
        plan.points.len(),
        plan.repeats,
        cost.samples,
        cost.about_ns,
        cost.cap_ns,
        cost.memory_bytes
    )
}

/// The prices that explain the ladder. If they fail, the ladder is measured without them.
fn prices(control: &BenchControl, warnings: &mut Vec<String>) -> Option<SessionPrices> {
    control.show("prices");
    match pagewise_measure::calibrate(&CalibrationOptions::cached(PRICES), &|| control.is_stopped())
    {
        Ok(prices) => Some(prices),
        Err(error) => {
            warnings.push(format!("no explanations, because the prices failed: {error}"));
            None
        }
    }
}

fn measure(plan: &PipePlan, control: &BenchControl) -> Result<PipeBenchReport, CommandFailure> {
    let launcher = helper::launcher(HelperRole::PipeEnd)?;
    let text = |p: &BenchProgress<'_, PipePoint>| {
        let (rung, consumption) = (&p.point.rung.name, p.point.consumption.into_str());
        format!("{} of {}: {rung}, {consumption}", p.done, p.total)
    };
    let measured = control.measure(text, |callbacks| pipe::run(plan, &launcher, callbacks));
    measured.map_err(|error| CommandFailure::usage(error.to_string()))
}

fn conclude(
    measured: &mut PipeBenchReport,
    prices: Option<&SessionPrices>,
    reference: &ReferencePrices,
    samples: &[(usize, CpuSamples)],
) {
    let l2_bytes = Fact::from(topology::second_level_cache(0));
    let known = PipeContext {
        prices,
        reference,
        base_page: page_size::base(),
        l2_bytes: &l2_bytes,
        samples,
    };
    measured.claims = pagewise_judge::bench::pipe::claims(measured, &l2_bytes);
    measured.judgement = Some(pagewise_judge::bench::pipe::judge(measured, &known));
}

/// Kernel samples over both processes of each rung by reference, by index of the point in `measured`. They
/// come from separate runs (`repeat` runs a plan), because observing a repeat changes its time. If sampling
/// is not allowed, a warning gives the reason.
///
/// They show the ends of the pipe, which are children of this process. Each rung runs one repeat, after the
/// small one that precedes it.
fn sample(
    measured: &PipeBenchReport,
    plan: &PipePlan,
    repeat: &mut dyn FnMut(&PipePlan) -> Result<PipeBenchReport, CommandFailure>,
    warnings: &mut Vec<String>,
) -> Result<Vec<(usize, CpuSamples)>, CommandFailure> {
    let mut taken = Vec::new();
    for (at, point) in measured.points.iter().enumerate() {
        if point.consumption != PipeConsumption::Untouched || point.samples.is_empty() {
            continue;
        }
        let points = vec![(point.rung.clone(), point.consumption)];
        let one = PipePlan { points, repeats: 1, compared: None, ..plan.clone() };
        let sampling = match CpuClockSampler::attach_to_children() {
            Fact::Known(sampling) => sampling,
            Fact::Missing(why) => {
                warnings.push(format!("no kernel samples: {why}"));
                return Ok(taken);
            }
        };
        repeat(&one)?;
        match sampling.finish() {
            Fact::Known(samples) if samples.kernel_total() > 0 => taken.push((at, samples)),
            Fact::Known(_) => {
                warnings.push(format!("{}: no kernel sample was taken", point.rung.name));
            }
            Fact::Missing(why) => warnings.push(format!("{}: {why}", point.rung.name)),
        }
    }
    Ok(taken)
}
