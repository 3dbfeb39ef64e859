//! Predicted gains in words, and how well they did.

use crate::experiment::short_arm;
use crate::number::{UNKNOWN, change, counted, interval, percent};
use crate::page::ReportDocument;
use crate::shell::command_line;
use crate::style::{TerminalStyle, TextTone};
use crate::table::{ColumnAlignment, ReportTable};
use pagewise_model::measured::median;
use pagewise_model::prediction::{GainPrediction, PredictionOffsets, PredictionOutcome};

/// The interval of a gain, in the direction of the gain.
fn range(gain: f64, low: f64, high: f64) -> String {
    interval(1.0 - gain, 1.0 - high, 1.0 - low)
}

/// `21% less time (15..28%)`, in the form of measured gains. A guess from few programs says so.
fn prediction_phrase(prediction: &GainPrediction) -> String {
    let GainPrediction { gain_share, low_share, high_share, programs, .. } = *prediction;
    let change = match change(1.0 - gain_share) {
        none if none == "no change" => "about the same time".to_owned(),
        some => format!("{some} time"),
    };
    let range = range(gain_share, low_share, high_share);
    let doubt = match programs {
        0 => ", a guess".to_owned(),
        few if prediction.is_guess() => {
            format!(", a guess from {}", counted(few.into(), "program", "programs"))
        }
        _ => String::new(),
    };
    format!("{change} ({range}{doubt})")
}

/// True if the predicted interval holds only gains, or only losses.
fn has_direction(prediction: &GainPrediction) -> bool {
    prediction.low_share > 0.0 || prediction.high_share < 0.0
}

/// What an arm will probably gain, as the end of a sentence.
pub(crate) fn likeliest(prediction: &GainPrediction) -> String {
    let word = if has_direction(prediction) { "will probably" } else { "might" };
    format!("; {} {word} take {}", short_arm(&prediction.arm), prediction_phrase(prediction))
}

/// `probably 21% less time (15..28%)`, for a row.
pub(crate) fn probable(prediction: &GainPrediction) -> String {
    let word = if has_direction(prediction) { "probably" } else { "perhaps" };
    format!("{word} {}", prediction_phrase(prediction))
}

/// `predicted 3..9%`, as the end of a sentence about an arm that is still open.
pub(crate) fn predicted_range(prediction: &GainPrediction) -> String {
    let GainPrediction { gain_share, low_share, high_share, .. } = *prediction;
    let direction = if gain_share >= 0.0 { "less" } else { "more" };
    format!("predicted {} {direction}", range(gain_share, low_share, high_share))
}

/// Predictions beside what races found, with a line on how many were right.
#[must_use]
pub fn prediction_table(outcomes: &[PredictionOutcome], style: &TerminalStyle) -> String {
    if outcomes.is_empty() {
        return "no session has measured an arm that it had predicted\n".to_owned();
    }
    let mut table = ReportTable::new(&[
        ("predicted", ColumnAlignment::Text),
        ("found (95%)", ColumnAlignment::Text),
        ("in", ColumnAlignment::Left),
        ("arm", ColumnAlignment::Text),
        ("command", ColumnAlignment::Text),
    ]);
    for one in outcomes {
        let GainPrediction { gain_share, low_share, high_share, .. } = one.prediction;
        let shown = |gain: f64, low: f64, high: f64| {
            format!("{} ({})", change(1.0 - gain), range(gain, low, high))
        };
        table.row(vec![
            shown(gain_share, low_share, high_share).into(),
            shown(one.found_share, one.found_low_share, one.found_high_share).into(),
            (if one.is_hit { "yes" } else { "no" }).into(),
            one.prediction.arm.as_str().into(),
            command_line(&one.command).into(),
        ]);
    }
    format!("{}\n{}\n", table.render(style), hits(outcomes))
}

fn hits(outcomes: &[PredictionOutcome]) -> String {
    let hits = outcomes.iter().filter(|one| one.is_hit).count();
    let misses: Vec<f64> =
        outcomes.iter().map(|one| (one.found_share - one.prediction.gain_share).abs()).collect();
    format!(
        "{hits} of {} gains lie in the predicted interval (8 of 10 should); median error {}",
        outcomes.len(),
        median(&misses).map_or_else(|| UNKNOWN.to_owned(), |share| percent(share) + " of the time")
    )
}

/// The offsets of this machine, from `races` compared arms.
#[must_use]
pub fn offsets_page(offsets: &PredictionOffsets, races: usize) -> ReportDocument {
    let mut page = ReportDocument::default();
    let races = counted(races as u64, "predicted arm", "predicted arms");
    if offsets.is_empty() {
        let text = format!(
            "{races} measured on this machine: an offset needs 3 programs of one remedy. Predictions stay as they are."
        );
        page.para(&text, 0, TextTone::Plain);
        return page;
    }
    page.para(&format!("calibrated by {races} measured on this machine"), 0, TextTone::Strong);
    for (model, offset) in offsets {
        let more = if offset.gain_share < 0.0 { "less" } else { "more" };
        let text = format!(
            "{} {more} gain than predicted ({})",
            percent(offset.gain_share.abs()),
            counted(offset.programs.into(), "program", "programs")
        );
        page.item(model, &text);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::prediction::PredictionOffset;

    fn prediction(gain_share: f64, programs: u32) -> GainPrediction {
        GainPrediction {
            arm: "heap-huge=glibc".into(),
            gain_share,
            low_share: gain_share - 0.03,
            high_share: gain_share + 0.03,
            offset_share: 0.0,
            programs,
        }
    }

    #[test]
    fn predictions_read_like_measured_gains() {
        let phrase = |gain, programs| prediction_phrase(&prediction(gain, programs));
        assert_eq!(phrase(0.21, 40), "21% less time (18..24%)");
        assert_eq!(phrase(-0.02, 40), "2.0% more time (-1.0..5.0%)");
        assert_eq!(phrase(0.0, 40), "about the same time (-3.0..3.0%)");
        assert_eq!(phrase(0.21, 1), "21% less time (18..24%, a guess from 1 program)");
        assert!(probable(&prediction(0.05, 40)).starts_with("probably 5.0% less"));
        assert!(probable(&prediction(0.02, 40)).starts_with("perhaps 2.0% less"));
        assert!(
            likeliest(&prediction(-0.05, 40))
                .starts_with("; heap-huge=glibc will probably take 5.0% more")
        );
        assert!(
            likeliest(&prediction(0.0, 40))
                .starts_with("; heap-huge=glibc might take about the same time")
        );
        assert_eq!(predicted_range(&prediction(0.05, 40)), "predicted 2.0..8.0% less");
        assert_eq!(predicted_range(&prediction(-0.05, 40)), "predicted 2.0..8.0% more");
    }

    #[test]
    fn the_table_counts_what_was_right() {
        let outcome = |found_share: f64, is_hit| PredictionOutcome {
            run: "1".into(),
            command: vec!["sort".into(), "big file".into()],
            prediction: prediction(0.1, 40),
            found_share,
            found_low_share: found_share - 0.01,
            found_high_share: found_share + 0.01,
            is_hit,
        };
        let style = TerminalStyle::default();
        let text = prediction_table(&[outcome(0.11, true), outcome(0.3, false)], &style);
        assert!(text.contains("10% less (7.0..13.0%)"), "{text}");
        assert!(text.contains("sort 'big file'"), "{text}");
        assert!(text.contains("1 of 2 gains lie in the predicted interval"), "{text}");
        assert!(text.contains("median error 10% of the time"), "{text}");
        assert!(prediction_table(&[], &style).starts_with("no session has measured"));
    }

    #[test]
    fn offsets_say_their_direction() {
        let offset = PredictionOffset { gain_share: -0.012, programs: 4 };
        let offsets = PredictionOffsets::from([("heap-huge".to_owned(), offset)]);
        let text = offsets_page(&offsets, 9).text(&TerminalStyle::default());
        assert!(text.contains("1.2% less gain than predicted (4 programs)"), "{text}");
        let none = offsets_page(&PredictionOffsets::new(), 2).text(&TerminalStyle::default());
        assert!(none.contains("3 programs"), "{none}");
    }
}
