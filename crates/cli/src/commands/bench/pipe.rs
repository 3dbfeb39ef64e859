//! `pagewise bench pipe`

use super::sitting::{Conduct, Start};
use super::{rungs, samples};
use crate::args::{BenchPipe, Part};
use crate::commands::helper;
use crate::failure::Failure;
use pagewise_judge::ladder::Known;
use pagewise_kernel::{page_size, topology};
use pagewise_measure::ladder::{self, Cost, Plan};
use pagewise_measure::{Options, Progress};
use pagewise_model::ladder::{Ladder, Point, ReferencePrices};
use pagewise_model::look::Samples;
use pagewise_model::price::Prices;
use pagewise_model::{Fact, Nanos};
use std::process::ExitCode;

/// Time of a repeat, and in the short form.
const REPEAT: Nanos = Nanos::millis(150);
const QUICK_REPEAT: Nanos = Nanos::millis(40);
/// Time for the prices, which come before the ladder that they explain.
const PRICES: Nanos = Nanos::secs(2);

/// Measures the ladder, judges it, keeps and shows it.
pub(super) fn run(args: &BenchPipe) -> Result<ExitCode, Failure> {
    let points = rungs::points(args)?;
    let start = Start::new("pipe", &args.result)?;
    let plan = Plan {
        points,
        repeats: args.repeats.unwrap_or(if args.quick { 6 } else { 5 }),
        bytes: args.bytes,
        repeat_ns: args.time.unwrap_or(if args.quick { QUICK_REPEAT } else { REPEAT }),
        seed: start.seed,
        sweep: args.sweep,
    };
    let cost = plan.cost().map_err(|error| Failure::usage(error.to_string()))?;
    let mut sitting = start.sit()?;
    sitting.announce(&announcement(&plan, &cost, args.no_prices));
    let (conduct, run) = (&sitting.conduct, &mut sitting.run);
    let reference = if args.no_prices {
        ReferencePrices::missing("not asked for")
    } else {
        run.prices = prices(conduct, &mut run.warnings);
        ladder::reference_prices()
    };
    let mut measured = measure(&plan, conduct)?;
    let mut taken = Vec::new();
    if args.samples {
        let repeat = &mut |one: &Plan| measure(one, conduct);
        taken = samples::take(&measured, &plan, repeat, &mut run.warnings)?;
    }
    conclude(&mut measured, run.prices.as_ref(), &reference, &taken);
    let any = measured.points.iter().any(|point| !point.samples.is_empty());
    run.ladder = Some(measured);
    sitting.conclude(any)
}

/// What will be done, before it is.
fn announcement(plan: &Plan, cost: &Cost, no_prices: bool) -> String {
    let prices = if no_prices { "" } else { "; prices first, some seconds" };
    format!(
        "{} points, {} repeats of each: {} pairs of processes, about {}, at most {}, in at most {} \
         of memory{prices}",
        plan.points.len(),
        plan.repeats,
        cost.pairs,
        cost.about_ns,
        cost.cap_ns,
        cost.memory_bytes
    )
}

/// The prices that explain the ladder. It is measured without them where they cannot be had.
fn prices(conduct: &Conduct, warnings: &mut Vec<String>) -> Option<Prices> {
    conduct.show("prices");
    match pagewise_measure::calibrate(&Options::cached(PRICES), &|| conduct.is_stopped()) {
        Ok(prices) => Some(prices),
        Err(error) => {
            warnings.push(format!("without prices nothing is explained: {error}"));
            None
        }
    }
}

fn measure(plan: &Plan, conduct: &Conduct) -> Result<Ladder, Failure> {
    let launcher = helper::launcher(Part::PipeEnd)?;
    let text = |p: &Progress<'_, Point>| {
        let (rung, consumption) = (&p.point.rung.name, p.point.consumption.label());
        format!("{} of {}: {rung}, {consumption}", p.done, p.total)
    };
    let measured = conduct.measure(text, |company| ladder::run(plan, &launcher, company));
    measured.map_err(|error| Failure::usage(error.to_string()))
}

fn conclude(
    measured: &mut Ladder,
    prices: Option<&Prices>,
    reference: &ReferencePrices,
    samples: &[(usize, Samples)],
) {
    let l2_bytes = Fact::from(topology::second_level_cache(0));
    let known =
        Known { prices, reference, base_page: page_size::base(), l2_bytes: &l2_bytes, samples };
    measured.claims = pagewise_judge::ladder::claims(measured);
    measured.judgement = Some(pagewise_judge::ladder::judge(measured, &known));
}
