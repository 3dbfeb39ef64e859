//! Two servers, with their code on base pages and on huge pages, that live at the same time and are loaded in turn
//! with all CPUs, or at once with half of the CPUs each.

use super::super::{LoadShape, ServiceRequest};
use super::{RealServerWorld, RunningServer};
use crate::live::Listener;
use crate::race::SessionClock;
use crate::stop::SessionStop;
use crate::text_load::{LoadedProgram, TextLoadRequest};
use crate::world::{ProgramArm, SessionEvent};
use pagewise_judge::stats::Rng;
use pagewise_model::Nanos;
use pagewise_model::bench::text_load::TextLoadWindow;
use pagewise_model::service::{ServiceMode, ServiceWindow};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The placeholder for the number of clients.
const CLIENTS: &str = "{clients}";

/// Both servers.
pub(crate) struct LoadedServers<'a> {
    stage: RealServerWorld<'a>,
    /// Off and on.
    arms: [ProgramArm; 2],
    /// In the order of their starts.
    acts: Vec<RunningServer>,
    /// On was started first.
    is_on_first: bool,
    load: String,
    largest: u32,
    shape: LoadShape,
    rng: Rng,
}

impl<'a> LoadedServers<'a> {
    pub(crate) fn new(
        request: &'a ServiceRequest,
        asked: &TextLoadRequest,
        arms: [ProgramArm; 2],
        (exe, words): (PathBuf, &[&str]),
        stop: Arc<AtomicBool>,
        listener: Listener<'a>,
    ) -> Result<Self, SessionStop> {
        let mut stage = RealServerWorld::new(request, exe, words, stop, listener)?;
        if !asked.at_once {
            stage.halves = None;
        } else if stage.halves.is_none() {
            return Err(SessionStop::Service("there is one CPU: add --in-turn".to_owned()));
        }
        Ok(Self {
            stage,
            arms,
            acts: Vec::new(),
            is_on_first: false,
            load: request.terms.load.clone(),
            largest: asked.sizes.iter().copied().max().unwrap_or(1),
            shape: LoadShape { mode: ServiceMode::Duet, windows: 0, slot: 0 },
            rng: Rng::new(asked.seed),
        })
    }

    pub(crate) fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.stage.notes)
    }

    fn load_by(&mut self, clients: u32) {
        self.stage.terms.load = self.load.replace(CLIENTS, &clients.to_string());
    }
}

/// The figures of a run of the load.
fn figures(window: &ServiceWindow) -> Result<TextLoadWindow, SessionStop> {
    let (requests, failed) = (window.load.requests, window.load.errors.unwrap_or(0.0));
    if failed > 0.0 {
        return Err(SessionStop::Service(format!(
            "{failed:.0} of {requests:.0} requests failed: fix the load first"
        )));
    }
    let rate = window.rate().filter(|rate| *rate > 0.0 && requests > 0.0);
    let rate_per_second = rate.ok_or_else(|| {
        SessionStop::Service(
            "a run of the load made no request, or its output has no rate (--metric)".to_owned(),
        )
    })?;
    Ok(TextLoadWindow { rate_per_second, cpu_ns: window.cpu_ns.0 as f64 / requests })
}

impl SessionClock for LoadedServers<'_> {
    fn now(&self) -> Nanos {
        self.stage.now()
    }

    fn interrupted(&self) -> bool {
        self.stage.interrupted()
    }
}

impl LoadedProgram for LoadedServers<'_> {
    fn begin(&mut self) -> Result<(), SessionStop> {
        self.load_by(self.largest);
        self.is_on_first = self.rng.below(2) == 1;
        self.shape.slot = self.rng.below(2) as u32;
        let [off, on] = &self.arms;
        let arms = if self.is_on_first { [on, off] } else { [off, on] };
        let started = self.stage.start_all(&arms, &mut self.acts);
        let warm = started.and_then(|()| self.stage.warm_up(&mut self.acts, &[0, 1], &self.shape));
        warm.map_err(|(_, stop)| stop)
    }

    fn load(&mut self, arms: &[usize], size: u32) -> Result<Vec<TextLoadWindow>, SessionStop> {
        self.load_by(size);
        let place = |arm: &usize| if self.is_on_first { 1 - arm } else { *arm };
        let whom: Vec<usize> = arms.iter().map(place).collect();
        let seen = self.stage.window(&mut self.acts, &whom, &self.shape, 0, None);
        seen.map_err(|(_, stop)| stop)?.iter().map(figures).collect()
    }

    fn end(&mut self) {
        for act in std::mem::take(&mut self.acts) {
            self.stage.end(act);
        }
    }

    fn tell(&mut self, text: &str) {
        (self.stage.listener)(&SessionEvent::Stage(text));
    }
}
