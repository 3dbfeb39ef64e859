//! The figures of a moment as text: a line for people; a number or a JSON object for programs.
//!
//! Pure functions; [`cost`](super::cost) decides which side the transfer waits for. Amounts have three digits
//! and a unit of 1024 (1000 with `-k`). Times are h:mm:ss, rates per second. Unknown values are shown as
//! `--`, never as 0.

use super::options::{LineParts, MeterForm, MeterOptions, ProgressUnit};
use super::value::BarStyle;
use std::time::Duration;

/// The known figures at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct MeterMoment {
    /// Bytes or lines so far.
    pub(super) done: u64,
    pub(super) elapsed: Duration,
    /// Units per second since the last moment.
    pub(super) rate: f64,
    /// Units per second over the window of `-m`.
    pub(super) average: f64,
    /// Share of the time spent on the source; `None` if not measured.
    pub(super) source_share: Option<f64>,
    pub(super) last_written: Vec<u8>,
    /// Local time of the day, in seconds since midnight.
    pub(super) clock: Option<u32>,
    /// Steps that the bar has moved if the size is unknown.
    pub(super) beat: usize,
}

/// The line, cut to `width` columns.
pub(super) fn line(options: &MeterOptions, moment: &MeterMoment, width: usize) -> String {
    let layout = options.format.clone().unwrap_or_else(|| layout(options));
    let parts = parts(&layout);
    let fixed: usize =
        parts.iter().map(|part| text(options, moment, part, None).chars().count()).sum();
    let room = width.saturating_sub(fixed);
    let whole: String = parts.iter().map(|part| text(options, moment, part, Some(room))).collect();
    whole.chars().take(width).collect()
}

/// The format that the display options stand for.
fn layout(options: &MeterOptions) -> String {
    let LineParts { bytes, timer, rate, average, sides, bar, eta, finish } = options.shown;
    let wanted = [
        (options.name.is_some(), "%N"),
        (bytes, "%b"),
        (sides, "%T"),
        (timer, "%t"),
        (rate, "[%r]"),
        (average, "[%a]"),
        (bar, "%p"),
        (eta && options.size.is_some(), "%e"),
        (finish && options.size.is_some(), "%I"),
        (options.last_written.is_some(), "%A"),
    ];
    let chosen: Vec<&str> = wanted.iter().filter(|(is, _)| *is).map(|(_, part)| *part).collect();
    chosen.join(" ")
}

/// Whether the output shows the time spent on either side.
pub(super) fn tells_sides(options: &MeterOptions) -> bool {
    let is_shown = match options.form {
        MeterForm::Quiet | MeterForm::Numeric => false,
        MeterForm::Json => true,
        MeterForm::Line => {
            let layout = options.format.clone().unwrap_or_else(|| layout(options));
            parts(&layout).contains(&FormatPart::Figure('T'))
        }
    };
    options.stats || is_shown
}

/// A piece of a format.
#[derive(Debug, PartialEq, Eq)]
enum FormatPart {
    Plain(String),
    Figure(char),
}

/// Named sequences of `-F`, with the letters they stand for.
const NAMED: [(&str, char); 11] = [
    ("progress", 'p'),
    ("timer", 't'),
    ("eta", 'e'),
    ("fineta", 'I'),
    ("rate", 'r'),
    ("average-rate", 'a'),
    ("bytes", 'b'),
    ("transferred", 'b'),
    ("buffer-percent", 'T'),
    ("last-written", 'A'),
    ("name", 'N'),
];

fn parts(layout: &str) -> Vec<FormatPart> {
    let mut parts = Vec::new();
    let mut plain = String::new();
    let mut rest = layout;
    while let Some(at) = rest.find('%') {
        plain.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let name = rest.strip_prefix('{').and_then(|r| r.split_once('}'));
        let named = name.and_then(|(name, after)| {
            NAMED.iter().find(|(known, _)| *known == name).map(|(_, letter)| (*letter, after))
        });
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let letter = rest[digits..].chars().next();
        match (named, letter) {
            (Some((figure, after)), _) => {
                parts.push(FormatPart::Plain(std::mem::take(&mut plain)));
                parts.push(FormatPart::Figure(figure));
                rest = after;
            }
            (None, Some('%')) => {
                plain.push('%');
                rest = &rest[digits + 1..];
            }
            (None, Some(figure @ ('p' | 't' | 'e' | 'I' | 'r' | 'a' | 'b' | 'T' | 'A' | 'N'))) => {
                parts.push(FormatPart::Plain(std::mem::take(&mut plain)));
                parts.push(FormatPart::Figure(figure));
                rest = &rest[digits + 1..];
            }
            _ => plain.push('%'),
        }
    }
    plain.push_str(rest);
    parts.push(FormatPart::Plain(plain));
    parts
}

/// The text of a part. The bar takes the `room` that the others leave; without `room` it is empty.
fn text(
    options: &MeterOptions,
    moment: &MeterMoment,
    part: &FormatPart,
    room: Option<usize>,
) -> String {
    let rate = |rate: f64| format!("{}/s", amount(rate, options));
    match part {
        FormatPart::Plain(text) => text.clone(),
        FormatPart::Figure('b') => amount(moment.done as f64, options),
        FormatPart::Figure('t') => clock(moment.elapsed.as_secs()),
        FormatPart::Figure('r') => rate(moment.rate),
        FormatPart::Figure('a') => rate(moment.average),
        FormatPart::Figure('p') => room.map_or_else(String::new, |room| bar(options, moment, room)),
        FormatPart::Figure('e') => {
            format!("ETA {}", left(options, moment).map_or("--".to_owned(), clock))
        }
        FormatPart::Figure('I') => format!("FIN {}", finish(options, moment)),
        FormatPart::Figure('T') => match moment.source_share {
            Some(share) => format!("{{in {:.0}%}}", share * 100.0),
            None => "{in --}".to_owned(),
        },
        FormatPart::Figure('A') => {
            readable(&moment.last_written, options.last_written.unwrap_or(16))
        }
        FormatPart::Figure('N') => {
            options.name.as_deref().map_or(String::new(), |name| format!("{:>9}:", printable(name)))
        }
        FormatPart::Figure(_) => String::new(),
    }
}

/// Three digits, or four before the next unit, as pv writes them: four columns and the unit wide.
pub(super) fn amount(value: f64, options: &MeterOptions) -> String {
    let (value, unit) = match options.unit {
        ProgressUnit::Bytes => (value, "B"),
        ProgressUnit::Bits => (value * 8.0, "b"),
        ProgressUnit::Lines => (value, ""),
    };
    let is_decimal = options.is_decimal || options.unit == ProgressUnit::Lines;
    let base = if is_decimal { 1000.0 } else { 1024.0 };
    let mut scaled = value;
    let mut prefix = 0;
    while scaled >= base && prefix < 6 {
        scaled /= base;
        prefix += 1;
    }
    let prefix = match is_decimal {
        true => [" ", "k", "M", "G", "T", "P", "E"][prefix],
        // As wide as the other units, so that the line keeps its length.
        false => ["  ", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][prefix],
    };
    let number = match scaled {
        small if small < 9.995 => format!("{small:.2}"),
        middle if middle < 99.9 => format!("{middle:.1}"),
        large => format!("{:4}", large as u64),
    };
    format!("{number}{prefix}{unit}")
}

/// Hours, minutes and seconds, after the days if there are any.
fn clock(seconds: u64) -> String {
    let (days, hours) = (seconds / 86_400, seconds / 3600 % 24);
    let rest = format!("{:02}:{:02}", seconds / 60 % 60, seconds % 60);
    if days > 0 { format!("{days}:{hours:02}:{rest}") } else { format!("{hours}:{rest}") }
}

/// Share of the size that is done; `None` if the size is unknown.
fn share(options: &MeterOptions, moment: &MeterMoment) -> Option<f64> {
    options.size.filter(|size| *size > 0).map(|size| moment.done as f64 / size as f64)
}

/// Percent of the size, for `-n`; `None` if the size is unknown.
pub(super) fn percent(options: &MeterOptions, moment: &MeterMoment) -> Option<u64> {
    share(options, moment).map(|share| (share * 100.0) as u64)
}

/// Seconds left at the rate over the window of `-m`.
fn left(options: &MeterOptions, moment: &MeterMoment) -> Option<u64> {
    let size = options.size?;
    let rate = moment.average;
    let seconds = size.saturating_sub(moment.done) as f64 / rate;
    (rate > 0.0 && seconds < 1e9).then_some(seconds.ceil() as u64)
}

fn finish(options: &MeterOptions, moment: &MeterMoment) -> String {
    match (left(options, moment), moment.clock) {
        (Some(left), Some(now)) => {
            let then = (u64::from(now) + left) % 86_400;
            format!("{:02}:{:02}:{:02}", then / 3600, then / 60 % 60, then % 60)
        }
        _ => "--".to_owned(),
    }
}

fn bar(options: &MeterOptions, moment: &MeterMoment, room: usize) -> String {
    match share(options, moment) {
        Some(share) => {
            let tail = format!(" {:2}%", (share * 100.0) as u64);
            let inner = room.saturating_sub(tail.len() + 2);
            let body = body(options.bar, share.min(1.0) * inner as f64, inner);
            format!("[{body}]{tail}")
        }
        None => {
            let inner = room.saturating_sub(2);
            if inner < 3 {
                return String::new();
            }
            let turn = 2 * (inner - 3).max(1);
            let at = (moment.beat % turn).min(turn - moment.beat % turn).min(inner - 3);
            format!("[{}<=>{}]", " ".repeat(at), " ".repeat(inner - 3 - at))
        }
    }
}

/// A bar with `done` of `inner` columns filled, in the requested style.
fn body(style: BarStyle, done: f64, inner: usize) -> String {
    let filled = (done as usize).min(inner);
    if style == BarStyle::Plain {
        let head = filled.max(1).min(inner);
        let shown = "=".repeat(head.saturating_sub(1)) + if head > 0 { ">" } else { "" };
        return format!("{shown:inner$}");
    }
    let parts = match style {
        BarStyle::Plain | BarStyle::Block => "",
        BarStyle::Granular => "▏▎▍▌▋▊▉",
        BarStyle::Shaded => "▒▓",
    };
    let (full, rest) = match style {
        BarStyle::Shaded => ("█", "░"),
        BarStyle::Plain | BarStyle::Block | BarStyle::Granular => ("█", " "),
    };
    let steps = parts.chars().count() + 1;
    let part = ((done - filled as f64) * steps as f64) as usize;
    let edge = match part.checked_sub(1) {
        _ if filled == inner => String::new(),
        part => part.and_then(|part| parts.chars().nth(part)).map_or(rest.into(), String::from),
    };
    let blank = inner - filled - edge.chars().count();
    format!("{}{edge}{}", full.repeat(filled), rest.repeat(blank))
}

/// A name, with control characters replaced by question marks.
fn printable(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// The last bytes, with dots for non-printing ones.
fn readable(bytes: &[u8], count: usize) -> String {
    let shown = bytes[bytes.len().saturating_sub(count)..].iter();
    let text: String =
        shown.map(|b| if (32..127).contains(b) { *b as char } else { '.' }).collect();
    format!("{text:count$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(done: u64, seconds: u64) -> MeterMoment {
        let rate = done as f64 / seconds.max(1) as f64;
        let elapsed = Duration::from_secs(seconds);
        MeterMoment { done, elapsed, rate, average: rate, ..MeterMoment::default() }
    }

    fn usual(size: Option<u64>) -> MeterOptions {
        let shown = LineParts {
            bytes: true,
            timer: true,
            rate: true,
            bar: true,
            eta: true,
            ..LineParts::default()
        };
        MeterOptions { shown, size, ..MeterOptions::default() }
    }

    #[test]
    fn the_line_fills_the_width_and_no_more() {
        for width in [20, 40, 80, 200] {
            for size in [None, Some(200 << 20), Some(0)] {
                let text = line(&usual(size), &moment(100 << 20, 2), width);
                assert!(text.chars().count() <= width, "{text}");
            }
        }
        let text = line(&usual(Some(200 << 20)), &moment(100 << 20, 2), 60);
        assert_eq!(text, " 100MiB 0:00:02 [50.0MiB/s] [======>       ] 50% ETA 0:00:02");
    }

    #[test]
    fn amounts_have_three_digits() {
        let options = MeterOptions::default();
        for (bytes, text) in [
            (0.0, "0.00  B"),
            (99.0, "99.0  B"),
            (1023.0, "1023  B"),
            (1024.0, "1.00KiB"),
            (10.0 * 1024.0, "10.0KiB"),
            (1024.0 * 1024.0 * 999.0, " 999MiB"),
            (1024.0 * 1024.0 * 1023.9, "1023MiB"),
        ] {
            assert_eq!(amount(bytes, &options), text);
        }
        let lines = MeterOptions { unit: ProgressUnit::Lines, ..MeterOptions::default() };
        assert_eq!(amount(2_500_000.0, &lines), "2.50M");
        let bits =
            MeterOptions { unit: ProgressUnit::Bits, is_decimal: true, ..MeterOptions::default() };
        assert_eq!(amount(1_000.0, &bits), "8.00kb");
    }

    #[test]
    fn the_time_of_each_side_is_taken_where_it_is_reported() {
        let with = |form, format: Option<&str>, stats| {
            let format = format.map(str::to_owned);
            tells_sides(&MeterOptions { form, format, stats, ..MeterOptions::default() })
        };
        assert!(with(MeterForm::Json, None, false) && with(MeterForm::Quiet, None, true));
        assert!(with(MeterForm::Line, Some("%b %T"), false));
        assert!(with(MeterForm::Line, Some("%{buffer-percent}"), false));
        assert!(!with(MeterForm::Line, None, false) && !with(MeterForm::Line, Some("%b"), false));
        assert!(!with(MeterForm::Quiet, Some("%T"), false));
    }

    #[test]
    fn formats_take_letters_and_names() {
        let options = MeterOptions {
            format: Some("%N|%{bytes}|%5A|100%%|%q|%{nothing}".to_owned()),
            name: Some("i\u{1b}n".to_owned()),
            last_written: Some(5),
            ..MeterOptions::default()
        };
        let now = MeterMoment { last_written: b"ab\ncdefg".to_vec(), ..moment(2048, 1) };
        assert_eq!(line(&options, &now, 80), "      i?n:|2.00KiB|cdefg|100%|%q|%{nothing}");
    }

    #[test]
    fn what_is_not_known_is_not_a_number() {
        let options = usual(Some(1 << 30));
        assert!(line(&options, &moment(0, 3), 80).contains("ETA --"));
        let sides = MeterOptions { format: Some("%T".to_owned()), ..MeterOptions::default() };
        assert_eq!(line(&sides, &moment(1, 1), 80), "{in --}");
    }

    #[test]
    fn bars_show_parts_of_a_column() {
        assert_eq!(body(BarStyle::Plain, 3.0, 4), "==> ");
        assert_eq!(body(BarStyle::Plain, 4.0, 4), "===>");
        assert_eq!(body(BarStyle::Block, 2.9, 4), "██  ");
        assert_eq!(body(BarStyle::Granular, 2.5, 4), "██▌ ");
        assert_eq!(body(BarStyle::Granular, 2.1, 4), "██  ");
        assert_eq!(body(BarStyle::Shaded, 2.7, 4), "██▓░");
        for style in [BarStyle::Plain, BarStyle::Block, BarStyle::Granular, BarStyle::Shaded] {
            for done in 0..=100 {
                assert_eq!(body(style, f64::from(done) / 10.0, 10).chars().count(), 10);
            }
        }
    }

    #[test]
    fn days_are_shown() {
        assert_eq!(clock(59), "0:00:59");
        assert_eq!(clock(90_061), "1:01:01:01");
    }

    #[test]
    fn the_beat_goes_to_and_fro_within_the_bar() {
        let options = usual(None);
        for beat in 0..500 {
            let now = MeterMoment { beat, ..moment(1, 1) };
            let text = line(&options, &now, 60);
            assert_eq!(text.chars().count(), 60);
            assert!(text.contains("<=>"));
        }
    }
}
