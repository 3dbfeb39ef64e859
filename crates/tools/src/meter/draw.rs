//! The display: a thread that wakes at the interval, reads the figures and writes to standard
//! error. It never touches the data's descriptors.

use super::control::MeterControl;
use super::cost::MeterCost;
use super::cursor::TerminalLine;
use super::gauge::{self, MeterMoment};
use super::options::{MeterForm, MeterOptions, ProgressUnit};
use crate::message::{reason, tell};
use pagewise_kernel::proc::own_group;
use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// The known figures at one moment, for any way of moving the data.
#[derive(Debug, Clone, Default)]
pub(super) struct MeterFigures {
    /// Bytes or lines so far.
    pub(super) done: u64,
    /// Nanoseconds spent on either side.
    pub(super) source_ns: u64,
    pub(super) sink_ns: u64,
    pub(super) last_written: Vec<u8>,
    /// The cost of moving the data, if the output form shows it.
    pub(super) cost: Option<MeterCost>,
}

/// The state of a display.
#[derive(Debug)]
pub(super) struct MeterDisplay<'a> {
    control: &'a MeterControl,
    /// The options of this update.
    options: Arc<MeterOptions>,
    /// This meter's line beside those of other meters; `None` without `-c`.
    place: Option<TerminalLine>,
    start: Instant,
    /// Samples within the window of the average, oldest first.
    past: VecDeque<(Instant, u64)>,
    last: (Instant, u64),
    sides: (u64, u64),
    beat: usize,
    /// Bytes or lines done before the start.
    base: u64,
    rates: RateStatistics,
    /// Columns of the last line, which the next one must cover.
    drawn: usize,
}

/// Rates of all intervals, for `--stats`.
#[derive(Debug, Default)]
struct RateStatistics {
    count: u64,
    sum: f64,
    squares: f64,
    least: f64,
    most: f64,
}

impl RateStatistics {
    fn add(&mut self, rate: f64) {
        self.least = if self.count == 0 { rate } else { self.least.min(rate) };
        self.most = self.most.max(rate);
        self.count += 1;
        self.sum += rate;
        self.squares += rate * rate;
    }

    /// Mean and standard deviation.
    fn centre(&self) -> (f64, f64) {
        let count = self.count.max(1) as f64;
        let mean = self.sum / count;
        (mean, (self.squares / count - mean * mean).max(0.0).sqrt())
    }
}

/// A line beside other meters, if requested and if lines are drawn.
fn place(options: &MeterOptions) -> Option<TerminalLine> {
    let is_drawn =
        options.form == MeterForm::Line && (options.forces || std::io::stderr().is_terminal());
    if !options.has_place || !is_drawn {
        return None;
    }
    let reported = |error| tell("meter", &format!("--cursor: {}", reason(&error)));
    TerminalLine::take().map_err(reported).ok()
}

/// The width of the terminal; 80 columns if there is none.
fn width(options: &MeterOptions) -> usize {
    let of_terminal = rustix::termios::tcgetwinsize(std::io::stderr()).ok().map(|size| size.ws_col);
    let columns = options.width.or(of_terminal.filter(|columns| *columns > 0)).unwrap_or(80);
    usize::from(columns).max(1)
}

/// Whether this process may write to the terminal of standard error: in the background, the terminal belongs
/// to another process group.
fn is_in_front() -> bool {
    let error = std::io::stderr();
    if !error.is_terminal() {
        return false;
    }
    match rustix::termios::tcgetpgrp(error.as_fd()) {
        Ok(front) => front.as_raw_nonzero().get() == own_group(),
        Err(_) => true,
    }
}

impl<'a> MeterDisplay<'a> {
    pub(super) fn new(control: &'a MeterControl, start: Instant) -> Self {
        let options = control.options();
        Self {
            control,
            place: place(&options),
            options,
            start,
            past: VecDeque::from([(start, 0)]),
            last: (start, 0),
            sides: (0, 0),
            beat: 0,
            base: 0,
            rates: RateStatistics::default(),
            drawn: 0,
        }
    }

    /// Excludes what was done before: rates start from here.
    pub(super) fn start_from(&mut self, done: u64) {
        self.base = done;
        self.last.1 = done;
        self.past = VecDeque::from([(self.start, done)]);
    }

    /// Restarts the clock, as with `-W`.
    pub(super) fn restart(&mut self, start: Instant) {
        (self.start, self.last) = (start, (start, 0));
        self.past = VecDeque::from([(start, 0)]);
    }

    /// Draws the current figures.
    pub(super) fn draw(&mut self, figures: &MeterFigures) {
        self.options = self.control.options();
        let moment = self.moment(figures, Instant::now());
        if moment.elapsed >= self.options.delay {
            self.write(&moment, figures, false);
        }
    }

    /// Draws the last figures and ends the line.
    pub(super) fn finish(&mut self, figures: &MeterFigures) {
        self.options = self.control.options();
        let mut moment = self.moment(figures, Instant::now());
        let seconds = moment.elapsed.as_secs_f64();
        if seconds > 0.0 {
            // At the end, the rate of the line is the mean of the transfer.
            let mean = moment.done.saturating_sub(self.base) as f64 / seconds;
            (moment.rate, moment.average) = (mean, mean);
        }
        if moment.elapsed >= self.options.delay {
            self.write(&moment, figures, true);
        }
        // On failure, the next meter cleans up: it sees that this process has ended.
        let _left = self.place.take().map(TerminalLine::leave);
    }

    fn moment(&mut self, figures: &MeterFigures, now: Instant) -> MeterMoment {
        let since_last = now.duration_since(self.last.0).as_secs_f64();
        let rate = figures.done.saturating_sub(self.last.1) as f64 / since_last.max(1e-9);
        // A short last interval says little about the rate.
        if since_last >= self.options.interval.as_secs_f64() / 2.0 || self.rates.count == 0 {
            self.rates.add(rate);
        }
        self.last = (now, figures.done);
        self.past.push_back((now, figures.done));
        while self.past.len() > 2 && now.duration_since(self.past[1].0) >= self.options.window {
            self.past.pop_front();
        }
        let (then, before) = self.past[0];
        let window = now.duration_since(then).as_secs_f64().max(1e-9);
        let source = figures.source_ns.saturating_sub(self.sides.0) as f64;
        let sink = figures.sink_ns.saturating_sub(self.sides.1) as f64;
        self.sides = (figures.source_ns, figures.sink_ns);
        self.beat += 1;
        MeterMoment {
            done: figures.done,
            elapsed: now.duration_since(self.start),
            rate,
            average: figures.done.saturating_sub(before) as f64 / window,
            source_share: (source + sink > 0.0).then(|| source / (source + sink)),
            last_written: figures.last_written.clone(),
            clock: self
                .options
                .shown
                .finish
                .then(pagewise_kernel::clock::local_time_of_day)
                .flatten(),
            beat: self.beat,
        }
    }

    fn write(&mut self, moment: &MeterMoment, figures: &MeterFigures, is_last: bool) {
        let options = &self.options;
        let text = match options.form {
            MeterForm::Quiet => return,
            MeterForm::Numeric => format!("{}\n", numeric(options, moment)),
            MeterForm::Json => format!("{}\n", json(options, moment, figures.cost, is_last)),
            MeterForm::Line if !options.forces && !is_in_front() => return,
            MeterForm::Line => {
                let end = if is_last { "\n" } else { "" };
                let line = gauge::line(options, moment, width(options));
                if let Some(place) = &self.place {
                    let _shown = place.draw(&line, &mut std::io::stderr());
                    return;
                }
                // As in pv: the cursor moves back to the line start, and a shorter line is padded to cover
                // the last one. The terminal may have become narrower meanwhile.
                let before = std::mem::replace(&mut self.drawn, line.chars().count());
                let before = before.min(width(options));
                self.control.is_in_line.store(!is_last, Relaxed);
                format!("{line:before$}\r{end}")
            }
        };
        // A failed display is no reason to stop the data.
        let _shown = std::io::stderr().write_all(text.as_bytes());
    }

    /// What `--stats` prints at the end.
    pub(super) fn statistics(&self) -> String {
        let (mean, deviation) = self.rates.centre();
        let text = |value: f64| gauge::amount(value, &self.options).trim_start().to_owned();
        format!(
            "rate min/avg/max/mdev = {}/{}/{}/{} per second\n",
            text(self.rates.least),
            text(mean),
            text(self.rates.most),
            text(deviation)
        )
    }
}

/// The line of `-n`: the figures requested by `-t`, `-b` and `-r`, else the percentage, or the count if the
/// size is unknown.
fn numeric(options: &MeterOptions, moment: &MeterMoment) -> String {
    let shown = options.shown;
    let mut figures = Vec::new();
    if shown.timer {
        figures.push(format!("{:.4}", moment.elapsed.as_secs_f64()));
    }
    if shown.bytes {
        let factor = if options.unit == ProgressUnit::Bits { 8 } else { 1 };
        figures.push((moment.done * factor).to_string());
    }
    if shown.rate {
        let factor = if options.unit == ProgressUnit::Bits { 8.0 } else { 1.0 };
        figures.push(format!("{:.4}", moment.rate * factor));
    }
    if !shown.bytes && !shown.rate {
        figures.push(gauge::percent(options, moment).unwrap_or(moment.done).to_string());
    }
    figures.join(" ")
}

/// One JSON object; keys end in their unit.
fn json(
    options: &MeterOptions,
    moment: &MeterMoment,
    cost: Option<MeterCost>,
    is_last: bool,
) -> String {
    let per = if options.unit == ProgressUnit::Lines { "lines" } else { "bytes" };
    let mut object = serde_json::json!({
        "elapsed_s": moment.elapsed.as_secs_f64(),
        per: moment.done,
        format!("{per}_per_s"): moment.rate,
        format!("average_{per}_per_s"): moment.average,
        "source_share": moment.source_share,
        "percent": gauge::percent(options, moment),
        "last": is_last,
    });
    if let Some(members) = object.as_object_mut() {
        if let Some(name) = &options.name {
            members.insert("name".to_owned(), name.clone().into());
        }
        if let Some(cost) = cost {
            members.insert("waits_for".to_owned(), cost.waits_for().into());
            members.insert("cpu_s_per_gib".to_owned(), cost.cpu_s_per_gib().into());
            members.insert("wakeups_per_gib".to_owned(), cost.wakeups_per_gib().into());
            members.insert("by_reference_share".to_owned(), cost.by_reference_share().into());
        }
    }
    object.to_string()
}

/// How long the display sleeps before it looks again for the first byte.
pub(super) const GLANCE: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_their_spread() {
        let mut rates = RateStatistics::default();
        [1.0, 3.0].iter().for_each(|rate| rates.add(*rate));
        assert_eq!((rates.least, rates.most), (1.0, 3.0));
        assert_eq!(rates.centre(), (2.0, 1.0));
    }

    #[test]
    fn numbers_are_what_was_asked_for() {
        let options = MeterOptions { size: Some(400), ..MeterOptions::default() };
        let moment = MeterMoment {
            done: 100,
            rate: 50.0,
            elapsed: Duration::from_secs(2),
            ..MeterMoment::default()
        };
        assert_eq!(numeric(&options, &moment), "25");
        assert_eq!(numeric(&MeterOptions::default(), &moment), "100");
        let mut options = options;
        (options.shown.bytes, options.shown.timer) = (true, true);
        assert_eq!(numeric(&options, &moment), "2.0000 100");
    }

    #[test]
    fn json_names_its_units() {
        let options = MeterOptions { name: Some("a\"b".to_owned()), ..MeterOptions::default() };
        let cost = MeterCost { bytes: 1 << 30, cpu_s: 0.5, ..MeterCost::default() };
        let text =
            json(&options, &MeterMoment { done: 7, ..MeterMoment::default() }, Some(cost), true);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&value["cpu_s_per_gib"], &value["by_reference_share"]),
            (&0.5.into(), &0.0.into())
        );
        assert_eq!(value["wakeups_per_gib"], serde_json::Value::Null);
        assert_eq!(value["bytes"], 7);
        assert_eq!(value["name"], "a\"b");
        assert_eq!(value["percent"], serde_json::Value::Null);
    }
}
