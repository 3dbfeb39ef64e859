//! The choice of a way to read a file, for people: the choice in a sentence, the file and the prices, every
//! way with the parts of its time, and the reasons.

use crate::number::{counted, percent, three_digits, whole_size};
use crate::page::ReportDocument;
use crate::style::TextTone;
use crate::table::{ColumnAlignment, ReportTable, TableCell};
use pagewise_model::Nanos;
use pagewise_model::choice::{FileState, ReadChoice, ReadDemand, ReadForecast};
use pagewise_model::measured::median;

/// The choice in one sentence.
pub(crate) fn headline(choice: &ReadChoice) -> String {
    let first = choice.reasons.first().map_or("nothing was chosen", String::as_str);
    first.trim_end_matches('.').to_owned()
}

/// File and prices, the ways, the reasons.
#[must_use]
pub fn choice_section(choice: &ReadChoice) -> ReportDocument {
    choice_lines(choice, choice.forecasts.len())
}

/// As [`choice_section`], with at most `most_ways` ways, the fastest.
pub(crate) fn choice_lines(choice: &ReadChoice, most_ways: usize) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.single(&choice.path, 0, TextTone::Strong);
    page.para(&lies(&choice.state), 2, TextTone::Plain);
    page.para(&wanted(&choice.demand), 2, TextTone::Plain);
    page.para(&prices(choice), 2, TextTone::Faint);
    page.section(ways(choice, most_ways));
    let mut why = ReportDocument::default();
    for sentence in choice.reasons.iter().skip(1) {
        why.bullet(sentence, TextTone::Plain);
    }
    page.section(why);
    page
}

/// The state of the file in the cache.
fn lies(state: &FileState) -> String {
    let size = state.size_bytes;
    let on = state.folios.iter().map(|part| match part.share {
        1.0 => format!("on {}", part.folios.into_str()),
        share => format!("{} on {}", percent(share), part.folios.into_str()),
    });
    let on = on.collect::<Vec<_>>().join(", ");
    let on = match &state.assumed {
        Some(why) => format!("{on} (assumed below huge pages: {why})"),
        None => on,
    };
    match state.cached_share {
        share if share >= 1.0 => format!("{size}, all of it cached, {on}"),
        share if share <= 0.0 => format!("{size}, nothing of it cached"),
        share => format!("{size}, {} of it cached, of that {on}", percent(share)),
    }
}

fn wanted(demand: &ReadDemand) -> String {
    format!(
        "read {} in blocks of {}, {}, by {}",
        match demand.order {
            pagewise_model::bench::tlb::AccessOrder::Sequential => "in order",
            pagewise_model::bench::tlb::AccessOrder::Random => "at random",
        },
        whole_size(demand.block_bytes),
        counted(u64::from(demand.passes), "pass", "passes"),
        counted(u64::from(demand.threads), "thread", "threads")
    )
}

fn prices(choice: &ReadChoice) -> String {
    let age = match choice.calibration_age_ns {
        Nanos(0) => "measured now".to_owned(),
        age => format!("{} old", long(age)),
    };
    format!(
        "prices of reading on {}, {age} ({} in {}); their own error is {}",
        choice.file_system,
        counted(u64::from(choice.calibration_processes), "process", "processes"),
        choice.calibration_took_ns,
        percent(choice.error_share)
    )
}

/// A long time in its largest unit.
fn long(time: Nanos) -> String {
    let secs = time.0 / 1_000_000_000;
    match secs {
        0..120 => counted(secs, "second", "seconds"),
        120..7200 => counted(secs / 60, "minute", "minutes"),
        7200..172_800 => counted(secs / 3600, "hour", "hours"),
        _ => counted(secs / 86_400, "day", "days"),
    }
}

/// The fastest ways, the best first, at most `most`.
fn ways(choice: &ReadChoice, most: usize) -> ReportDocument {
    let Some(best) = choice.best() else { return ReportDocument::default() };
    let (number, is_measured) = (ColumnAlignment::Decimal, !choice.trials.is_empty());
    let mut columns = vec![("way", ColumnAlignment::Left), ("ms", number)];
    if is_measured {
        columns.extend([("measured", number), ("off", ColumnAlignment::Right)]);
    } else {
        columns.push(("times", number));
    }
    columns.extend([("set up", number), ("first", number), ("blocks", number), ("bytes", number)]);
    let has_device = choice.forecasts.iter().any(|forecast| forecast.parts.device_ns > 0.0);
    if has_device {
        columns.push(("device", number));
    }
    columns.push(("close", number));
    let mut table = ReportTable::new(&columns);
    for forecast in choice.forecasts.iter().take(most) {
        let parts = &forecast.parts;
        let mut row = vec![TableCell::from(forecast.arm.into_str()), ms(forecast.total_ns)];
        if is_measured {
            row.extend(measured(choice, forecast));
        } else {
            let times = forecast.total_ns / best.total_ns.max(1.0);
            row.push(TableCell::new(format!("{times:.2}"), TextTone::Faint));
        }
        let blocks = parts.blocks_ns + parts.starts_ns;
        row.extend([ms(parts.set_up_ns), ms(parts.first_ns), ms(blocks), ms(parts.bytes_ns)]);
        if has_device {
            row.push(ms(parts.device_ns));
        }
        row.push(ms(parts.tear_down_ns));
        table.row(row);
    }
    let mut page = ReportDocument::default();
    page.heading("what each way should take, ms, from opening to closing");
    page.append(table);
    page
}

fn ms(ns: f64) -> TableCell {
    if ns > 0.0 { three_digits(ns / 1e6).into() } else { TableCell::new("-", TextTone::Faint) }
}

/// The measured time of a way, and the error of its forecast.
fn measured(choice: &ReadChoice, forecast: &ReadForecast) -> [TableCell; 2] {
    let trial = choice.trials.iter().find(|trial| trial.arm == forecast.arm);
    let times = trial.map_or(&[][..], |trial| trial.total_ns.as_slice());
    match median(&times.iter().map(|ns| ns.0 as f64).collect::<Vec<f64>>()) {
        Some(took) => {
            let off = forecast.total_ns / took - 1.0;
            [ms(took), TableCell::from(format!("{:+.0}%", 100.0 * off))]
        }
        None => [TableCell::new("-", TextTone::Faint), TableCell::from("")],
    }
}
