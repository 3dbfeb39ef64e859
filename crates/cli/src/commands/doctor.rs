//! `pagewise doctor`

use super::experiment::identity;
use crate::args::Doctor;
use crate::failure::Failure;
use crate::terminal;
use pagewise_kernel::{clock, dirs};
use pagewise_measure::Options;
use pagewise_model::Nanos;
use pagewise_model::run::{Run, RunKind};
use std::process::ExitCode;

/// Says what this machine allows and what spoils measurements.
pub(super) fn run(args: &Doctor) -> Result<ExitCode, Failure> {
    let start = clock::now();
    let (started, _) = identity(&[]);
    // Without an identifier: the findings are of this moment and not kept.
    let mut run = Run::new(RunKind::Doctor, String::new(), started, Vec::new());
    let checkup = pagewise_kernel::doctor::checkup();
    run.machine = Some(checkup.machine.clone());
    run.checkup = Some(checkup);
    if args.prices {
        let cache = dirs::cache_dir().ok().map(|dir| dir.join("prices.json"));
        let options = Options { budget_ns: Nanos::secs(2), cache, fresh: true };
        let prices = pagewise_measure::calibrate(&options, &|| false);
        run.prices = Some(prices.map_err(|e| Failure::usage(e.to_string()))?);
    }
    run.took_ns = Nanos(clock::now().0.saturating_sub(start.0));
    let text = if args.json {
        run.to_json() + "\n"
    } else {
        pagewise_report::render(&run, &terminal::style())
    };
    terminal::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
