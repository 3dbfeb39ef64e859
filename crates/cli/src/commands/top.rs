//! `pagewise top`

use super::signals::stop_flag;
use crate::args;
use crate::failure::CommandFailure;
use crate::terminal;
use pagewise_judge::top::{hint, next_step};
use pagewise_kernel::clock;
use pagewise_model::Nanos;
use pagewise_model::top::TopSample;
use pagewise_observe::top::TopSampler;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Interval at which the end condition is checked.
const WAIT: Duration = Duration::from_millis(50);
/// Enters the alternate screen; below, leaves it (xterm's control sequences).
const BEGIN: &str = "\x1b[?1049h";
const END: &str = "\x1b[?1049l";
/// Moves to the upper left corner and erases the screen.
const HOME: &str = "\x1b[H\x1b[J";

/// Samples processes once, or repeatedly on a terminal.
pub(super) fn run(args: &args::TopArgs) -> Result<ExitCode, CommandFailure> {
    let failed = |e: pagewise_kernel::SysError| CommandFailure::usage(e.to_string());
    let mut sampler = TopSampler::start().map_err(failed)?;
    let stop = stop_flag()?;
    let is_live = !args.once && !args.json && std::io::stdout().is_terminal();
    if !is_live {
        if !wait(args.interval, &stop) {
            return Ok(ExitCode::from(super::signals::INTERRUPTED));
        }
        let top = sampler.look(args.rows).map_err(failed)?;
        return print(args, &top);
    }
    terminal::print(BEGIN)?;
    let shown = live(args, &mut sampler, &stop);
    terminal::print(END)?;
    shown.map(|()| ExitCode::SUCCESS)
}

fn live(
    args: &args::TopArgs,
    sampler: &mut TopSampler,
    stop: &AtomicBool,
) -> Result<(), CommandFailure> {
    terminal::print(&format!("{HOME}first sample in {} ...\n", args.interval))?;
    while wait(args.interval, stop) {
        let top = sampler.look(args.rows).map_err(|e| CommandFailure::usage(e.to_string()))?;
        terminal::print(&format!("{HOME}{}", text(&top)))?;
    }
    Ok(())
}

fn text(top: &TopSample) -> String {
    let hints: Vec<Option<&'static str>> = top.rows.iter().map(hint).collect();
    pagewise_report::top_page(top, &hints, next_step()).text(&terminal::style())
}

fn print(args: &args::TopArgs, top: &TopSample) -> Result<ExitCode, CommandFailure> {
    if args.json {
        terminal::print_json(top)?;
    } else {
        terminal::print(&text(top))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits this long; returns false if the user has stopped it.
pub(super) fn wait(time: Nanos, stop: &AtomicBool) -> bool {
    let end = clock::now() + time;
    while clock::now() < end {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        std::thread::sleep(WAIT);
    }
    true
}
