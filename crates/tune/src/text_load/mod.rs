//! `bench text --clients` and `--jobs`: throughput with code on huge pages and on base pages, at loads of several
//! sizes.
//!
//! Both arms run copies of the program's file ([`copies`]), so both are there at the same time, each with its pages.
//! A round starts a server of each, and loads them at every size in random order. Both arms of a pair are loaded at
//! once, so what slows the machine slows both, or one right after the other with all CPUs. Rounds are repeated until
//! the budget is over: two starts of one server differ for their whole life, so only further rounds narrow an interval.
//!
//! Not seen: code in libraries, which both arms share as it is; programs that a script starts.

mod copies;
mod jobs;
mod neighbour;

use crate::live::Listener;
use crate::race::SessionClock;
use crate::request::SessionRequest;
use crate::service::{LoadedServers, ServiceRequest};
use crate::stop::SessionStop;
use crate::world::ProgramWorld;
use copies::TextCopies;
use jobs::CopiesOfProgram;
use neighbour::BusyNeighbour;
use pagewise_judge::bench::text_load::judge;
use pagewise_judge::stats::Rng;
use pagewise_model::bench::text_load::{
    TextLoadKind, TextLoadPair, TextLoadPoint, TextLoadReport, TextLoadWindow,
};
use pagewise_model::{Bytes, Nanos};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Off and on, by their place among the arms.
const ARMS: [usize; 2] = [0, 1];
/// Pairs at a size in a round at least and at most; even, since servers at once swap halves.
const PAIRS: (u32, u32) = (2, 8);
/// Rounds that the budget shall have room for.
const ROUNDS: u64 = 12;

/// What is to be measured.
#[derive(Debug, Clone)]
pub struct TextLoadRequest {
    /// Sizes of the load, each once.
    pub sizes: Vec<u32>,
    /// Measure every size also beside a busy neighbour.
    pub disturb: bool,
    /// CPUs that an arm and its load have.
    pub cpus: u32,
    /// Load both arms at once. Servers have half of the CPUs each, and jobs share all.
    pub at_once: bool,
    pub budget: Nanos,
    pub seed: u64,
}

/// Both arms of a program under load.
pub(crate) trait LoadedProgram: SessionClock {
    /// Begins a round. After an error, too, [`end`](Self::end) follows.
    ///
    /// # Errors
    /// When an arm cannot be started.
    fn begin(&mut self) -> Result<(), SessionStop>;
    /// A load of this size on each of these arms at the same time; the figures in their order.
    ///
    /// # Errors
    /// When a load fails or shows no rate.
    fn load(&mut self, arms: &[usize], size: u32) -> Result<Vec<TextLoadWindow>, SessionStop>;
    fn end(&mut self);
    fn tell(&mut self, text: &str);
}

/// Loads servers with numbers of clients. Returns notes besides the result.
///
/// # Errors
/// When nothing could be measured.
pub fn load_servers(
    request: &ServiceRequest,
    asked: &TextLoadRequest,
    (exe, words): (PathBuf, &[&str]),
    stop: &Arc<AtomicBool>,
    listener: Listener<'_>,
) -> Result<(TextLoadReport, Vec<String>), SessionStop> {
    let copies = TextCopies::make(&request.base, stop)?;
    let stop = Arc::clone(stop);
    let mut servers =
        LoadedServers::new(request, asked, copies.arms(), (exe, words), stop, listener)?;
    let load = measured(asked, TextLoadKind::Clients, &copies, &mut servers)?;
    Ok((load, servers.take_notes()))
}

/// Runs numbers of copies of a program at the same time. Returns notes besides the result.
///
/// # Errors
/// When nothing could be measured.
pub fn load_jobs(
    request: &SessionRequest,
    asked: &TextLoadRequest,
    stop: &AtomicBool,
    world: &mut dyn ProgramWorld,
) -> Result<(TextLoadReport, Vec<String>), SessionStop> {
    let copies = TextCopies::make(request, stop)?;
    let (mut jobs, notes) = CopiesOfProgram::new(request, copies.arms(), world)?;
    Ok((measured(asked, TextLoadKind::Jobs, &copies, &mut jobs)?, notes))
}

/// The result, also of a session that ends early.
fn measured(
    asked: &TextLoadRequest,
    kind: TextLoadKind,
    copies: &TextCopies,
    program: &mut dyn LoadedProgram,
) -> Result<TextLoadReport, SessionStop> {
    let mut load = empty(asked, kind, copies.program());
    let end = rounds(asked, program, &mut load);
    let [off, on] = copies.text();
    (load.text_bytes, load.off_huge_bytes, load.on_huge_bytes) =
        (on.text_bytes, off.huge_bytes, on.huge_bytes);
    match end {
        Err(stop) if load.points.iter().all(|point| point.pairs.is_empty()) => return Err(stop),
        Err(stop) => load.ended_early = Some(stop.to_string()),
        Ok(()) => {}
    }
    load.judgement = Some(judge(&load));
    Ok(load)
}

fn empty(asked: &TextLoadRequest, kind: TextLoadKind, program: String) -> TextLoadReport {
    let point =
        |disturbed| move |size: &u32| TextLoadPoint { size: *size, disturbed, pairs: Vec::new() };
    let disturbed = asked.sizes.iter().filter(|_| asked.disturb).map(point(true));
    TextLoadReport {
        seed: asked.seed,
        kind,
        program,
        cpus: asked.cpus,
        at_once: asked.at_once,
        text_bytes: Bytes(0),
        off_huge_bytes: Bytes(0),
        on_huge_bytes: Bytes(0),
        rounds_ns: Nanos(0),
        points: asked.sizes.iter().map(point(false)).chain(disturbed).collect(),
        ended_early: None,
        judgement: None,
    }
}

/// Rounds until another one does not fit the budget; at least one.
fn rounds(
    asked: &TextLoadRequest,
    program: &mut dyn LoadedProgram,
    load: &mut TextLoadReport,
) -> Result<(), SessionStop> {
    let mut rng = Rng::new(asked.seed);
    let since = program.now();
    let after = |from: Nanos, to: Nanos| Nanos(to.0.saturating_sub(from.0));
    let mut pairs = PAIRS.0;
    for round in 0.. {
        let begun = program.now();
        let left = Nanos(asked.budget.0.saturating_sub(after(since, begun).0));
        program.tell(&format!("round {}: starting; {left} left", round + 1));
        let mut ready = begun;
        let done = program.begin().and_then(|()| {
            ready = program.now();
            sizes(asked, (round, pairs), program, load, &mut rng)
        });
        let loaded = after(ready, program.now());
        program.end();
        let took = after(begun, program.now());
        load.rounds_ns = after(since, program.now());
        done?;
        if load.rounds_ns + took > asked.budget {
            break;
        }
        let around = took.0.saturating_sub(loaded.0);
        let room = (asked.budget.0 / ROUNDS).saturating_sub(around);
        let pair = (loaded.0 / u64::from(pairs)).max(1);
        let fitting = u32::try_from(room / pair).unwrap_or(PAIRS.1) / 2 * 2;
        pairs = fitting.clamp(PAIRS.0, PAIRS.1);
    }
    Ok(())
}

/// One round: pairs at each size, the sizes in random order.
fn sizes(
    asked: &TextLoadRequest,
    (round, pairs): (u32, u32),
    program: &mut dyn LoadedProgram,
    load: &mut TextLoadReport,
    rng: &mut Rng,
) -> Result<(), SessionStop> {
    let mut order: Vec<usize> = (0..load.points.len()).collect();
    rng.shuffle(&mut order);
    for at in order {
        let (size, disturbed) = (load.points[at].size, load.points[at].disturbed);
        let _neighbour = disturbed.then(|| BusyNeighbour::start(asked.cpus));
        let beside = if disturbed { ", beside a busy neighbour" } else { "" };
        program.tell(&format!("round {}: {size} {}{beside}", round + 1, load.kind.into_str()));
        for pair in 0..pairs {
            // At once, the first arm has the first half of the CPUs.
            let on_first = if asked.at_once { pair % 2 == 1 } else { rng.below(2) == 1 };
            let [off, on] = both(program, size, (asked.at_once, on_first))?;
            load.points[at].pairs.push(TextLoadPair { round, off, on });
        }
    }
    Ok(())
}

/// A load on off and on, at once or in turn.
fn both(
    program: &mut dyn LoadedProgram,
    size: u32,
    (at_once, on_first): (bool, bool),
) -> Result<[TextLoadWindow; 2], SessionStop> {
    let mut order = ARMS;
    if on_first {
        order.reverse();
    }
    let mut seen = Vec::new();
    for arms in order.chunks(if at_once { 2 } else { 1 }) {
        seen.extend(program.load(arms, size)?);
    }
    if on_first {
        seen.reverse();
    }
    let missing = |_| SessionStop::Broken("a run of the load is missing".to_owned());
    seen.try_into().map_err(missing)
}

#[cfg(test)]
mod tests;
