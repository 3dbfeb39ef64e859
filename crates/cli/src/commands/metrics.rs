//! `pagewise export-metrics`

use super::apply;
use super::signals::{INTERRUPTED, stop_flag};
use super::top::wait;
use crate::args::MetricsArgs;
use crate::failure::CommandFailure;
use crate::{store, terminal};
use pagewise_kernel::{SysError, clock};
use pagewise_model::Nanos;
use pagewise_observe::top::TopSampler;
use pagewise_remedy::apply::record;
use std::process::ExitCode;

/// Time between the two readings of a sample.
const INTERVAL: Nanos = Nanos::secs(1);

/// Samples the host once.
pub(super) fn run(args: &MetricsArgs) -> Result<ExitCode, CommandFailure> {
    let failed = |e: SysError| CommandFailure::usage(e.to_string());
    let applied = record::all().map_err(apply::failure)?;
    let rechecks = store::rechecks()?;
    let mut sampler = TopSampler::start().map_err(failed)?;
    if !wait(INTERVAL, &*stop_flag()?) {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    let top = sampler.look(args.rows).map_err(failed)?;
    let now = clock::unix_now().0 / Nanos::secs(1).0;
    let text = pagewise_report::metrics(&top, &applied, &rechecks, now);
    match &args.output {
        Some(file) => store::write_public(file, &text)?,
        None => terminal::print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}
