//! `pagewise top`

use super::signals::stop_flag;
use crate::args;
use crate::failure::CommandFailure;
use crate::{store, terminal};
use pagewise_judge::top::{hint, next_step, promise};
use pagewise_kernel::{clock, thp};
use pagewise_model::Nanos;
use pagewise_model::prediction::PredictionOffsets;
use pagewise_model::top::TopSample;
use pagewise_observe::top::TopSampler;
use pagewise_remedy::{HEAP_HUGE, INJECT, TargetProgram, find};
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
    let mut sampler = TopSampler::start().map_err(|e| CommandFailure::usage(e.to_string()))?;
    let stop = stop_flag()?;
    let promises = GainPromises::new();
    let is_live = !args.once && !args.json && std::io::stdout().is_terminal();
    if !is_live {
        if !wait(args.interval, &stop) {
            return Ok(ExitCode::from(super::signals::INTERRUPTED));
        }
        return print(args, &sample(args, &mut sampler, &promises)?);
    }
    terminal::print(BEGIN)?;
    let shown = live(args, &mut sampler, &promises, &stop);
    terminal::print(END)?;
    shown.map(|()| ExitCode::SUCCESS)
}

fn live(
    args: &args::TopArgs,
    sampler: &mut TopSampler,
    promises: &GainPromises,
    stop: &AtomicBool,
) -> Result<(), CommandFailure> {
    terminal::print(&format!("{HOME}first sample in {} ...\n", args.interval))?;
    while wait(args.interval, stop) {
        let top = sample(args, sampler, promises)?;
        terminal::print(&format!("{HOME}{}", text(&top)))?;
    }
    Ok(())
}

fn sample(
    args: &args::TopArgs,
    sampler: &mut TopSampler,
    promises: &GainPromises,
) -> Result<TopSample, CommandFailure> {
    let mut top = sampler.look(args.rows).map_err(|e| CommandFailure::usage(e.to_string()))?;
    promises.add(&mut top);
    Ok(top)
}

/// What huge pages will probably gain the processes that are shown.
struct GainPromises {
    /// Whether a program must ask for huge pages, and may.
    is_by_advice: bool,
    offsets: PredictionOffsets,
}

impl GainPromises {
    fn new() -> Self {
        let is_by_advice = thp::enabled().is_ok_and(|mode| mode == "madvise");
        Self { is_by_advice, offsets: store::prediction_offsets() }
    }

    fn add(&self, top: &mut TopSample) {
        for row in top.rows.iter_mut().filter(|_| self.is_by_advice) {
            row.prediction = promise(row, &self.offsets).filter(|_| has_switch(row.pid));
        }
    }
}

/// Whether the allocator of process `pid` has a switch for huge pages.
fn has_switch(pid: i32) -> bool {
    let target = || TargetProgram::from_command(&[format!("/proc/{pid}/exe").into()]);
    let heap_huge = find(HEAP_HUGE);
    heap_huge.is_some_and(|remedy| remedy.parameter_for(&target) != INJECT)
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
