//! Fits prices of reading from short runs of every way, and writes the sentences that say why a way is
//! chosen. The choice itself follows from the prices in [`pagewise_model::choice`], so that `lanes` makes the
//! same choice.
//!
//! [`calibrate`] takes the readings of some files of known layout (the cells of `bench file`, each read
//! twice). Phase by phase, it fits prices that are never negative and have the smallest errors as shares (see
//! `least`). A second pass is a pass without faults; the extra time of the first belongs to the faults.
//! Set-up and tear-down are timed separately. Several threads are compared with what one would take, cold
//! cells with what they should take warm. Amounts are those of a forecast
//! (`pagewise_model::choice::amounts`), so a forecast is the inverse of the fit.
//!
//! Pure: the same readings give the same prices. Not seen: effects that the readings do not vary.

pub use fit::{CalibrationOccasion, calibrate};
use pagewise_model::Nanos;
use pagewise_model::bench::file::{CacheResidency, FileBenchReport, FilePoint, ReadWay};
use pagewise_model::choice::{ReadChoice, ReadForecast, TimeParts};
use pagewise_model::measured::median;

mod fit;
mod least;
#[cfg(test)]
mod tests;

/// A measured time that is off by more than this share says nothing about a way.
pub const MOST_OFF: f64 = 0.5;

/// How far times that were measured between two readings of the same cells may be off, as a share. It is the
/// larger of two values: the difference of the cells from start to end, and the share of time that their
/// processes waited for a CPU. `None` without such cells.
#[must_use]
pub fn trial_error(start: &FileBenchReport, end: &FileBenchReport) -> Option<f64> {
    let total = |point: &FilePoint| median(&point.series(|s| s.total_ns().0 as f64).values());
    let drift = start.points.iter().filter_map(|point| {
        let (before, after) = (total(point)?, total(end.find(&point.cell)?.1)?);
        Some((before / after).max(after / before) - 1.0)
    });
    let waited = [start, end].into_iter().filter_map(waited_share);
    drift.chain(waited).filter(|share| share.is_finite()).reduce(f64::max)
}

/// How much longer than its CPU time a process of one thread that reads cached bytes took, as a share, in the
/// median: other programs had its CPU. `None` without such processes.
#[must_use]
pub fn waited_share(readings: &FileBenchReport) -> Option<f64> {
    let busy = readings.points.iter().filter(|point| {
        let is_queue = matches!(point.cell.arm, ReadWay::Uring | ReadWay::UringFixed);
        point.cell.threads == 1 && point.cell.residency == CacheResidency::Warm && !is_queue
    });
    let shares = busy.flat_map(|point| &point.samples).filter_map(|sample| {
        let cpu = (sample.user_ns + sample.sys_ns).0;
        (cpu > 0).then(|| (sample.total_ns().0 as f64 / cpu as f64 - 1.0).max(0.0))
    });
    median(&shares.collect::<Vec<f64>>())
}

// Why a way is chosen, in plain sentences: the choice with its margin, what the time is spent on compared
// with the best way of the other kind, and the limits of the prediction.

/// Parts below this share of a time are not named.
const SMALL: f64 = 0.04;
/// Rivals that are named.
const NAMED: usize = 3;

/// The sentences. If there is nothing to choose from, one sentence says so.
#[must_use]
pub fn reasons(choice: &ReadChoice) -> Vec<String> {
    let Some(best) = choice.best() else {
        return vec!["No choice: none of the requested ways has prices here.".to_owned()];
    };
    let all =
        [Some(chosen(choice, best)), beside(choice, best), blurred(choice), measured(choice, best)];
    all.into_iter().flatten().collect()
}

fn time(ns: f64) -> Nanos {
    Nanos::from_f64(ns)
}

fn chosen(choice: &ReadChoice, best: &ReadForecast) -> String {
    let takes = format!("{} should take {}", capital(best.arm), time(best.total_ns));
    match (choice.forecasts.get(1), choice.margin_share()) {
        (Some(next), Some(margin)) => format!(
            "{takes}; the next best, {}, {:.0}% more ({}).",
            next.arm.name(),
            100.0 * margin,
            time(next.total_ns)
        ),
        _ => format!("{takes}; no other way was requested."),
    }
}

fn capital(arm: ReadWay) -> String {
    let name = arm.name();
    match name.strip_prefix("a ") {
        Some(rest) => format!("A {rest}"),
        None => name.to_owned(),
    }
}

/// The chosen way compared with the best of the other kind, calls or mappings.
fn beside(choice: &ReadChoice, best: &ReadForecast) -> Option<String> {
    let other = choice.forecasts.iter().find(|f| f.arm.is_mapped() != best.arm.is_mapped())?;
    Some(format!(
        "Its time: {}; with {}: {}.",
        spent(&best.parts),
        other.arm.name(),
        spent(&other.parts)
    ))
}

/// The parts of a time, largest first.
fn spent(parts: &TimeParts) -> String {
    let mut named = [
        (parts.set_up_ns, "to open and map"),
        (parts.first_ns, "to touch pages first"),
        (parts.blocks_ns, "for blocks"),
        (parts.bytes_ns, "for bytes"),
        (parts.starts_ns, "to start threads"),
        (parts.tear_down_ns, "to unmap and close"),
        (parts.device_ns, "for uncached data"),
    ];
    named.sort_by(|a, b| b.0.total_cmp(&a.0));
    let total = parts.total_ns();
    let large = named.iter().filter(|(ns, _)| *ns > SMALL * total);
    let texts: Vec<String> = large.map(|(ns, what)| format!("{} {what}", time(*ns))).collect();
    texts.join(", ")
}

/// The ways that the prediction cannot separate from the best.
fn blurred(choice: &ReadChoice) -> Option<String> {
    let rivals: Vec<&str> = choice.rivals().map(|rival| rival.arm.name()).collect();
    let (first, rest) = rivals.split_first()?;
    let named = rest.iter().take(NAMED - 1);
    let mut names = named.fold((*first).to_owned(), |text, name| format!("{text}; {name}"));
    if rivals.len() > NAMED {
        names += &format!("; and {} more", rivals.len() - NAMED);
    }
    Some(format!(
        "No clear winner: {names} may be as fast, within the prediction's error of {:.0}%.",
        100.0 * choice.error_share
    ))
}

/// How the choice and the forecasts held once every way was measured.
fn measured(choice: &ReadChoice, best: &ReadForecast) -> Option<String> {
    let took = |arm: ReadWay| {
        let trial = choice.trials.iter().find(|trial| trial.arm == arm)?;
        median(&trial.total_ns.iter().map(|ns| ns.0 as f64).collect::<Vec<f64>>())
    };
    let all = choice.forecasts.iter().filter_map(|forecast| Some((forecast, took(forecast.arm)?)));
    let all: Vec<(&ReadForecast, f64)> = all.collect();
    let (fastest, least) = all.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let off = median(
        &all.iter()
            .map(|(forecast, took)| (forecast.total_ns / took - 1.0).abs())
            .collect::<Vec<f64>>(),
    )?;
    let own = took(best.arm)?;
    let noise = choice.trial_error_share.unwrap_or(0.0);
    let place = if fastest.arm != best.arm && own / least - 1.0 <= noise {
        format!("Measured, it took {}, the fastest as far as one can tell", time(own))
    } else if fastest.arm == best.arm {
        format!("Measured, it took {}, and nothing was faster", time(own))
    } else {
        let more = 100.0 * (own / least - 1.0);
        let name = fastest.arm.name();
        format!("Measured, it took {}, {more:.0}% more than the fastest, {name}", time(own))
    };
    let noise = choice.trial_error_share.map_or_else(String::new, |share| {
        format!(" By cells measured twice, measured times may be off by {:.0}%.", 100.0 * share)
    });
    Some(format!(
        "{place}; the median error of the forecasts for {} ways is {:.0}%.{noise}",
        all.len(),
        100.0 * off
    ))
}
