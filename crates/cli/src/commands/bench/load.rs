//! `pagewise bench text --clients` and `--jobs`: throughput of a server, or of copies of a program, with code on base
//! pages and on huge pages.

use super::once_each;
use super::session::{BenchSession, BenchStart};
use crate::args::{HelperRole, LoadSize, TextBenchArgs};
use crate::commands::tune::serve::words;
use crate::commands::{experiment, helper};
use crate::failure::CommandFailure;
use pagewise_kernel::affinity;
use pagewise_model::Nanos;
use pagewise_model::bench::text_load::TextLoadReport;
use pagewise_model::body::{BenchReport, RunBody};
use pagewise_tracee::launch::StdinSource;
use pagewise_tune::SessionStop;
use pagewise_tune::live::RealWorld;
use pagewise_tune::service::ServiceRequest;
use pagewise_tune::text_load::{TextLoadRequest, load_jobs, load_servers};
use pagewise_tune::world::SessionEvent;
use std::process::ExitCode;

/// Default time for the whole session.
const BUDGET: Nanos = Nanos::secs(300);
/// Most copies of a program at once; each has a supervising process.
const MOST_JOBS: u32 = 256;

/// Measures a server by numbers of clients.
pub(super) fn clients(args: &TextBenchArgs, serve: &str) -> Result<ExitCode, CommandFailure> {
    let terms = &args.load.server;
    if !terms.load.as_ref().is_some_and(|load| load.contains("{clients}")) {
        return Err(CommandFailure::usage("--load does not contain {clients}").with_help(
            "write it where the load takes its number of clients, such as -c {clients}",
        ));
    }
    let mut base = experiment::request_of(&args.experiment(), words(serve)?, StdinSource::Null)?;
    base.spec.service = Some(terms.service(serve.to_owned(), terms.started(None))?);
    let request = ServiceRequest::new(base).map_err(CommandFailure::usage)?;
    let start = BenchStart::new("text", &args.result)?;
    let asked = asked(args, &args.load.clients, start.seed)?;
    let session = begin(start, &asked, "clients")?;
    let starter = (helper::own_exe()?, &helper::words(HelperRole::Supervise)[..]);
    let stop = session.control.stop();
    let mut listener = |event: &SessionEvent<'_>| show(&session, event);
    let done = load_servers(&request, &asked, starter, &stop, &mut listener);
    conclude(session, done)
}

/// Measures numbers of copies of a program.
pub(super) fn jobs(args: &TextBenchArgs) -> Result<ExitCode, CommandFailure> {
    let request = experiment::request(&args.experiment(), args.command.clone(), true)?;
    let start = BenchStart::new("text", &args.result)?;
    let asked = asked(args, &args.load.jobs, start.seed)?;
    if let Some(many) = asked.sizes.iter().find(|size| **size > MOST_JOBS) {
        let text = format!("--jobs {many}: at most {MOST_JOBS} copies run at once");
        return Err(CommandFailure::usage(text));
    }
    let session = begin(start, &asked, "jobs")?;
    let stop = session.control.stop();
    let mut listener = |event: &SessionEvent<'_>| show(&session, event);
    let exe = helper::own_exe()?;
    let (recording, words) = (helper::timing(&exe), helper::words(HelperRole::Supervise));
    let world = RealWorld::start(&request, &exe, &words, recording, stop.clone(), &mut listener);
    let done = world.and_then(|mut world| load_jobs(&request, &asked, &stop, &mut world));
    conclude(session, done)
}

fn asked(
    args: &TextBenchArgs,
    sizes: &[LoadSize],
    seed: u64,
) -> Result<TextLoadRequest, CommandFailure> {
    let all = affinity::get(0).map_err(|error| CommandFailure::usage(error.to_string()))?;
    let all = u32::try_from(all.len()).unwrap_or(u32::MAX);
    let at_once = !args.load.in_turn && all > 1;
    let cpus = if at_once { all / 2 } else { all };
    let sizes = once_each(sizes.iter().map(|size| size.number(cpus)).collect());
    let (disturb, budget) = (args.load.disturb, args.load.budget.unwrap_or(BUDGET));
    Ok(TextLoadRequest { sizes, disturb, cpus, at_once, budget, seed })
}

fn begin<'a>(
    start: BenchStart<'a>,
    asked: &TextLoadRequest,
    what: &str,
) -> Result<BenchSession<'a>, CommandFailure> {
    let session = start.begin()?;
    let sizes: Vec<String> = asked.sizes.iter().map(u32::to_string).collect();
    let beside = if asked.disturb { ", also beside a busy neighbour" } else { "" };
    let (sizes, budget) = (sizes.join(", "), asked.budget);
    let how = if asked.at_once { "off and on at once" } else { "off and on in turn" };
    session.announce(&format!("{what}: {sizes}, {how}{beside}, for {budget}"));
    Ok(session)
}

fn show(session: &BenchSession<'_>, event: &SessionEvent<'_>) {
    if let SessionEvent::Stage(text) = event {
        session.control.show(text);
    }
}

fn conclude(
    mut session: BenchSession<'_>,
    done: Result<(TextLoadReport, Vec<String>), SessionStop>,
) -> Result<ExitCode, CommandFailure> {
    let (load, notes) = done.map_err(|stop| experiment::failure(&stop))?;
    session.run.warnings = notes;
    session.run.warnings.extend(load.ended_early.as_ref().map(|why| format!("ended early: {why}")));
    session.run.body = Some(RunBody::Bench(BenchReport::TextLoad(load)));
    session.conclude(true)
}
