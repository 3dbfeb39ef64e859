//! Progress of a session on standard error.

use crate::terminal;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pagewise_judge::race::provable_gain;
use pagewise_tune::world::SessionEvent;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Shortest interval between two drawings of the race.
const GLANCE: Duration = Duration::from_millis(250);

/// Progress on standard error, when that is a terminal.
pub(super) struct ProgressDisplay {
    bar: ProgressBar,
    announce: bool,
    /// When the race was last shown.
    shown: Instant,
}

impl ProgressDisplay {
    pub(super) fn new(quiet: bool) -> Self {
        let draw = !quiet && std::io::stderr().is_terminal();
        let target =
            if draw { ProgressDrawTarget::stderr_with_hz(4) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            bar.set_style(style);
        }
        Self { bar, announce: !quiet, shown: Instant::now() }
    }

    pub(super) fn tell(&mut self, event: &SessionEvent<'_>) {
        match event {
            SessionEvent::Stage(stage) => self.show(stage),
            SessionEvent::Chosen(run) => {
                self.say(&pagewise_report::fitting_line(run));
                if let Some(line) = pagewise_report::budget_line(run, provable_gain) {
                    self.say(&line);
                }
            }
            // Computing the intervals takes time, so it is done only to draw them.
            SessionEvent::Progress(_) if self.bar.is_hidden() || self.shown.elapsed() < GLANCE => {}
            SessionEvent::Progress(progress) => {
                self.shown = Instant::now();
                self.show(&pagewise_report::race_lines(
                    progress.runs,
                    progress.left_ns,
                    progress.arm,
                    &(progress.standings)(),
                    &terminal::error_style(),
                ));
            }
        }
    }

    pub(super) fn show(&self, message: &str) {
        self.bar.set_message(message.to_owned());
        // Drawn by this thread: another one would wake up while the program runs.
        self.bar.tick();
    }

    fn say(&self, text: &str) {
        if self.announce {
            self.bar.suspend(|| terminal::remark(text));
        }
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
