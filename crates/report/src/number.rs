//! Formats every number that people read.
//!
//! Shares are 0..1 and shown as percent. Ratios are arm / control; below 1 is faster. A gain is always
//! "less", a loss "more". A value that is not finite is "not known", never 0.

use pagewise_model::measured::{Fact, Measured};
use pagewise_model::trial::is_open;
use pagewise_model::units::Bytes;

/// Shown in place of an unknown number.
pub(crate) const UNKNOWN: &str = "not known";

/// Larger percentages are shown as "over": they are measurement errors, not facts.
const MOST_PERCENT: f64 = 99_999.0;

/// Number of decimals of a percentage.
fn decimals(percent: f64) -> usize {
    usize::from(percent.abs() < 9.95)
}

/// A share (0..1) as a bound: `at most 48%`, `less than 0.1%`.
#[must_use]
pub fn at_most(share: f64) -> String {
    let percent = percent(share);
    percent
        .strip_prefix('<')
        .map_or_else(|| format!("at most {percent}"), |bound| format!("less than {bound}"))
}

/// A share (0..1) as percent: `48%`, `4.1%`, `<0.1%`.
#[must_use]
pub fn percent(share: f64) -> String {
    // An empty float sum is -0: make it 0.
    let value = share * 100.0 + 0.0;
    if !value.is_finite() {
        UNKNOWN.to_owned()
    } else if value.abs() > MOST_PERCENT {
        format!("over {}{MOST_PERCENT:.0}%", if value < 0.0 { "-" } else { "" })
    } else if value != 0.0 && value.abs() < 0.05 {
        "<0.1%".to_owned()
    } else {
        format!("{value:.*}%", decimals(value))
    }
}

/// A ratio as a change: `48% less`, `20% more`, `no change`.
#[must_use]
pub fn change(ratio: f64) -> String {
    if !ratio.is_finite() {
        return UNKNOWN.to_owned();
    }
    let gain = 1.0 - ratio;
    if gain.abs() < 0.0005 {
        return "no change".to_owned();
    }
    format!("{} {}", percent(gain.abs()), if gain > 0.0 { "less" } else { "more" })
}

/// The interval of a ratio, in percent and in the direction in which [`change`] shows the estimate. A minus
/// sign is the opposite direction: `46..50%`, `-1.0..1.8%`.
#[must_use]
pub fn interval(ratio: f64, low: f64, high: f64) -> String {
    if is_open(low, high) {
        return "open".to_owned();
    }
    if !(ratio.is_finite() && low.is_finite() && high.is_finite()) {
        return UNKNOWN.to_owned();
    }
    let (from, to) = if ratio <= 1.0 { (1.0 - high, 1.0 - low) } else { (low - 1.0, high - 1.0) };
    let (from, to) = (clamp(from * 100.0), clamp(to * 100.0));
    let places = decimals(from).max(decimals(to));
    format!("{}..{}%", unsigned_zero(from, places), unsigned_zero(to, places))
}

fn clamp(percent: f64) -> f64 {
    percent.clamp(-MOST_PERCENT, MOST_PERCENT)
}

/// `value` with `places` decimals, without a sign if it rounds to zero.
fn unsigned_zero(value: f64, places: usize) -> String {
    let shown = format!("{value:.places$}");
    match shown.strip_prefix('-') {
        Some(rest) if rest.chars().all(|c| c == '0' || c == '.') => rest.to_owned(),
        _ => shown,
    }
}

/// A ratio below 1 as a speed: `1.94 times as fast`.
#[must_use]
pub fn times_as_fast(ratio: f64) -> String {
    if !ratio.is_finite() || ratio <= 0.0 {
        return UNKNOWN.to_owned();
    }
    match 1.0 / ratio {
        times if times > MOST_PERCENT => format!("over {MOST_PERCENT:.0} times as fast"),
        times if times < 9.995 => format!("{times:.2} times as fast"),
        times => format!("{times:.1} times as fast"),
    }
}

/// A difference of sizes with its sign: `+12.0 MiB`.
#[must_use]
pub fn signed_bytes(change: i64) -> String {
    let sign = match change {
        0 => "",
        1.. => "+",
        _ => "-",
    };
    format!("{sign}{}", Bytes(change.unsigned_abs()))
}

/// A size in its largest whole unit, for buffers and pipes: `64 KiB`.
#[must_use]
pub fn whole_size(size: Bytes) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let whole = units.iter().find(|(shift, _)| size.0 > 0 && size.0.is_multiple_of(1 << shift));
    whole.map_or_else(|| size.to_string(), |(shift, unit)| format!("{} {unit}", size.0 >> shift))
}

/// A rate or another figure with three digits: `1.01`, `12.3`, `209`.
#[must_use]
pub fn three_digits(value: f64) -> String {
    match value.abs() {
        v if !v.is_finite() => UNKNOWN.to_owned(),
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// From the smallest repeat to the largest: `1.01-1.25`; empty if they are equal.
#[must_use]
pub(crate) fn range_text(measured: &Measured) -> String {
    if measured.max > measured.min {
        format!("{}-{}", three_digits(measured.min), three_digits(measured.max))
    } else {
        String::new()
    }
}

/// A ratio with its interval, if known: `0.86 (0.84-0.88)`.
pub(crate) fn ratio_text(ratio: f64, interval: &Fact<(f64, f64)>) -> String {
    match interval {
        Fact::Known((low, high)) => format!("{ratio:.2} ({low:.2}-{high:.2})"),
        Fact::Missing(_) => format!("{ratio:.2}"),
    }
}

/// A share that is a whole number of percent: `2%`.
#[must_use]
pub(crate) fn whole_percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

/// A count in groups of three digits: `262,144`.
#[must_use]
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count with its noun: `1 block`, `9 blocks`.
#[must_use]
pub fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

/// A share (0..1) as a bar of `width` cells; anything above 0 shows at least one.
#[must_use]
pub fn bar(share: f64, width: usize, unicode: bool) -> String {
    let (full, empty) = if unicode { ("█", "·") } else { ("#", ".") };
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let mut filled = (share * width as f64).round() as usize;
    if share > 0.0 {
        filled = filled.max(1);
    }
    let filled = filled.min(width);
    full.repeat(filled) + &empty.repeat(width - filled)
}

/// A time as date and time of day in UTC: `2026-01-31 23:59`.
#[must_use]
pub fn date(unix_ns: u64) -> String {
    let minutes = unix_ns / 60_000_000_000;
    let (year, month, day) = civil(minutes / 1440);
    let minute = minutes % 1440;
    format!("{year}-{month:02}-{day:02} {:02}:{:02}", minute / 60, minute % 60)
}

/// Year, month and day of a day number since 1970. Uses eras of 400 years that start in March, so that the
/// leap day ends a year.
const fn civil(days: u64) -> (u64, u64, u64) {
    const DAYS_IN_ERA: u64 = 146_097;
    let shifted = days + 719_468;
    let era = shifted / DAYS_IN_ERA;
    let day_of_era = shifted % DAYS_IN_ERA;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400;
    (if month <= 2 { year + 1 } else { year }, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percents() {
        assert_eq!(percent(0.484), "48%");
        assert_eq!(percent(0.041), "4.1%");
        assert_eq!(percent(0.0996), "10%");
        assert_eq!(percent(0.0001), "<0.1%");
        assert_eq!((percent(0.0), percent(-0.0)), ("0.0%".into(), "0.0%".into()));
        assert_eq!(percent(f64::NAN), UNKNOWN);
        assert_eq!(percent(1e300), "over 99999%");
    }

    #[test]
    fn changes_and_intervals() {
        assert_eq!(change(0.52), "48% less");
        assert_eq!(change(1.2), "20% more");
        assert_eq!(change(0.9999), "no change");
        assert_eq!(change(f64::INFINITY), UNKNOWN);
        assert_eq!(interval(0.52, 0.50, 0.54), "46..50%");
        assert_eq!(interval(1.2, 1.18, 1.22), "18..22%");
        assert_eq!(interval(0.996, 0.982, 1.01), "-1.0..1.8%");
        assert_eq!(interval(0.99, 0.98, 1.000_01), "0.0..2.0%");
        assert_eq!(interval(0.99, f64::NAN, 1.0), UNKNOWN);
    }

    #[test]
    fn speeds() {
        assert_eq!(times_as_fast(0.515), "1.94 times as fast");
        assert_eq!(times_as_fast(0.04), "25.0 times as fast");
        assert_eq!(times_as_fast(0.0), UNKNOWN);
    }

    #[test]
    fn sizes_counts_and_probabilities() {
        assert_eq!(signed_bytes(12 << 20), "+12.0 MiB");
        assert_eq!(signed_bytes(-2048), "-2.0 KiB");
        assert_eq!(signed_bytes(i64::MIN), "-8388608 TiB");
        assert_eq!(signed_bytes(0), "0 B");
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(262_144), "262,144");
        assert_eq!(counted(1, "block", "blocks"), "1 block");
    }

    #[test]
    fn bars() {
        assert_eq!(bar(0.5, 4, true), "██··");
        assert_eq!(bar(0.001, 4, false), "#...");
        assert_eq!(bar(0.0, 4, false), "....");
        assert_eq!(bar(9.0, 4, false), "####");
        assert_eq!(bar(f64::NAN, 4, false), "....");
    }

    #[test]
    fn dates() {
        assert_eq!(date(0), "1970-01-01 00:00");
        assert_eq!(date(951_782_400_000_000_000), "2000-02-29 00:00");
        assert_eq!(date(1_767_225_599_000_000_000), "2025-12-31 23:59");
        assert_eq!(date(u64::MAX), "2554-07-21 23:34");
    }
}
