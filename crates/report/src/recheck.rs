//! Proven gains, measured again.

use crate::number::{change, interval};
use crate::page::ReportDocument;
use crate::shell::command_line;
use crate::style::TextTone;
use pagewise_model::recheck::{ArmGain, GainRecheck, GainStanding};

const fn word(standing: GainStanding) -> (&'static str, TextTone) {
    match standing {
        GainStanding::Holds => ("holds", TextTone::Good),
        GainStanding::Vanished => ("VANISHED", TextTone::Bad),
        GainStanding::CannotTell => ("cannot tell", TextTone::Warn),
    }
}

fn text(gain: Option<ArmGain>) -> String {
    gain.map_or_else(
        || "not known".to_owned(),
        |gain| format!("{} ({})", change(gain.ratio), interval(gain.ratio, gain.low, gain.high)),
    )
}

/// One gain, as proven and as measured now.
#[must_use]
pub fn recheck_page(one: &GainRecheck) -> ReportDocument {
    let mut page = ReportDocument::default();
    let (word, tone) = word(one.standing);
    page.para(&format!("{word}: {}", one.arm), 0, tone);
    if !one.command.is_empty() {
        page.single(&command_line(&one.command), 2, TextTone::Plain);
    }
    page.item("  then", &format!("{}, run {}", text(one.then), one.run));
    match (&one.problem, &one.new_run) {
        (Some(problem), _) => page.item("  now", problem),
        (None, Some(run)) => page.item("  now", &format!("{}, run {run}", text(one.now))),
        (None, None) => page.item("  now", &text(one.now)),
    }
    if let Some(change) = &one.change {
        page.item("  since then", change);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::TerminalStyle;

    #[test]
    fn a_gain_that_vanished_names_what_has_changed() {
        let gain = |ratio| Some(ArmGain { ratio, low: ratio - 0.02, high: ratio + 0.02 });
        let one = GainRecheck {
            at_unix_ns: 0,
            run: "1-2-app".into(),
            command: vec!["app".into(), "x y".into()],
            arm: "heap-huge".into(),
            then: gain(0.85),
            now: gain(1.0),
            standing: GainStanding::Vanished,
            change: Some("the kernel was 6.1 and is 6.18".into()),
            new_run: Some("3-4-app".into()),
            problem: None,
        };
        let style = TerminalStyle { colour: false, width: 80, unicode: false };
        let shown = recheck_page(&one).text(&style);
        for part in ["VANISHED: heap-huge", "15% less", "no change", "run 3-4-app", "6.18"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        let problem = Some("its directory is gone".to_owned());
        let shown = recheck_page(&GainRecheck { problem, ..one.clone() }).text(&style);
        assert!(shown.contains("its directory is gone"), "{shown}");
        // The command of a removed run is unknown.
        let shown = recheck_page(&GainRecheck { command: Vec::new(), ..one }).text(&style);
        assert!(shown.starts_with("VANISHED: heap-huge\n    then"), "{shown}");
    }
}
