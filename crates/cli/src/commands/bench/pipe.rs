//! `pagewise bench pipe`

use super::{result, rungs, samples};
use crate::args::BenchPipe;
use crate::commands::experiment::{Display, identity, lock, own_exe, stop_flag};
use crate::failure::Failure;
use crate::terminal;
use pagewise_judge::ladder::Known;
use pagewise_judge::stats::Rng;
use pagewise_kernel::{clock, dirs, page_size, topology};
use pagewise_measure::Options;
use pagewise_measure::ladder::{self, Company, Cost, Launcher, Plan};
use pagewise_model::ladder::{Ladder, ReferencePrices};
use pagewise_model::look::Samples;
use pagewise_model::price::Prices;
use pagewise_model::run::Outcome;
use pagewise_model::{Fact, Nanos};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// The words that make this program an end of a pipe.
const PIPE_END: &str = "__pipe-end";
/// Time for the prices, which come before the ladder that they explain.
const PRICES: Nanos = Nanos::secs(2);

/// Measures the ladder, judges it, keeps and shows it.
pub(super) fn run(args: &BenchPipe) -> Result<ExitCode, Failure> {
    let start = clock::now();
    let (started, id) = identity(&["pipe".into()]);
    let points = rungs::points(args)?;
    let out = &args.result;
    result::check_chart(out.chart.as_deref())?;
    let plan = Plan {
        points,
        repeats: args.repeats,
        bytes: args.bytes,
        repeat_ns: args.time,
        seed: out.seed.unwrap_or(started),
        sweep: args.sweep,
    };
    let cost = plan.cost().map_err(|error| Failure::usage(error.to_string()))?;
    let _lock = lock()?;
    let stop = stop_flag()?;
    if !out.quiet {
        terminal::complain(&announcement(&plan, &cost, args.no_prices));
    }
    let display = Display::new(out.quiet);
    let mut run = result::begun(id, started);
    let reference = if args.no_prices {
        ReferencePrices::missing("not asked for")
    } else {
        run.prices = prices(&display, &stop, &mut run.warnings);
        ladder::reference_prices()
    };
    let mut measured = measure(&plan, &display, &stop)?;
    let mut taken = Vec::new();
    if args.samples {
        let repeat = &mut |one: &Plan| measure(one, &display, &stop);
        taken = samples::take(&measured, &plan, repeat, &mut run.warnings)?;
    }
    display.finish();
    if stop.load(Ordering::Relaxed) {
        run.outcome = Some(Outcome::Interrupted);
    }
    conclude(&mut measured, run.prices.as_ref(), &reference, &taken);
    let any = measured.points.iter().any(|point| !point.samples.is_empty());
    run.ladder = Some(measured);
    result::conclude(run, start, any, out)
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
fn prices(display: &Display, stop: &AtomicBool, warnings: &mut Vec<String>) -> Option<Prices> {
    display.show("prices");
    let cache = dirs::cache_dir().ok().map(|dir| dir.join("prices.json"));
    let options = Options { budget_ns: PRICES, cache, fresh: false };
    match pagewise_measure::calibrate(&options, &|| stop.load(Ordering::Relaxed)) {
        Ok(prices) => Some(prices),
        Err(error) => {
            warnings.push(format!("without prices nothing is explained: {error}"));
            None
        }
    }
}

fn measure(plan: &Plan, display: &Display, stop: &AtomicBool) -> Result<Ladder, Failure> {
    let launcher = Launcher { exe: own_exe()?, args: vec![PIPE_END.into()] };
    let mut rng = Rng::new(plan.seed);
    let company = Company {
        launcher: &launcher,
        shuffle: &mut |order| rng.shuffle(order),
        stop: &|| stop.load(Ordering::Relaxed),
        tell: &mut |p| {
            display.show(&format!(
                "{} of {}: {}, {}",
                p.done,
                p.total,
                p.rung,
                p.consumption.label()
            ));
        },
    };
    ladder::run(plan, company).map_err(|error| Failure::usage(error.to_string()))
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
