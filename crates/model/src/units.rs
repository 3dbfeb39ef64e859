//! Units of size and time. This is the only file that spells out page sizes as numbers.

use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

/// A size in bytes. Shown with binary prefixes (KiB, MiB, GiB).
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    /// `n` KiB.
    #[must_use]
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }
    /// `n` MiB.
    #[must_use]
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }
    /// `n` GiB.
    #[must_use]
    pub const fn gib(n: u64) -> Self {
        Self(n << 30)
    }
    /// Number of pages of size `page` that hold this size (rounded up).
    #[must_use]
    pub const fn pages(self, page: PageSize) -> u64 {
        self.0.div_ceil(page.bytes())
    }
}

impl std::ops::Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl std::ops::AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const STEPS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
        let mut value = self.0 as f64;
        let mut step = 0;
        while value >= 1024.0 && step + 1 < STEPS.len() {
            value /= 1024.0;
            step += 1;
        }
        if step == 0 {
            write!(f, "{} B", self.0)
        } else if value >= 100.0 {
            write!(f, "{value:.0} {}", STEPS[step])
        } else {
            write!(f, "{value:.1} {}", STEPS[step])
        }
    }
}

impl std::str::FromStr for Bytes {
    type Err = UnitError;
    /// Accepts `65536`, `64K`, `64KiB`, `1M`, `1MiB`, `2G`, `2GiB` (always powers of 1024).
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let bad = || UnitError { text: text.to_owned(), want: "a size such as 65536, 64K or 1M" };
        let text_trimmed = text.trim();
        let digits = text_trimmed.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let number: u64 = digits.parse().map_err(|_| bad())?;
        let shift = match text_trimmed[digits.len()..].to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kib" => 10,
            "m" | "mib" => 20,
            "g" | "gib" => 30,
            _ => return Err(bad()),
        };
        number.checked_mul(1 << shift).map(Self).ok_or_else(bad)
    }
}

/// A span of time in nanoseconds. Signed differences are plain `f64` nanoseconds.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// `n` milliseconds.
    #[must_use]
    pub const fn millis(n: u64) -> Self {
        Self(n * 1_000_000)
    }
    /// `n` seconds.
    #[must_use]
    pub const fn secs(n: u64) -> Self {
        Self(n * 1_000_000_000)
    }
    /// Rounds a non-negative number of nanoseconds. A negative or non-finite number becomes 0.
    #[must_use]
    pub fn from_f64(ns: f64) -> Self {
        if ns.is_finite() && ns > 0.0 { Self(ns.round() as u64) } else { Self(0) }
    }
    /// This span in seconds.
    #[must_use]
    pub fn as_secs(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// The span as the standard library's duration.
    #[must_use]
    pub const fn duration(self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.0)
    }
}

impl From<std::time::Duration> for Nanos {
    fn from(d: std::time::Duration) -> Self {
        Self(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl std::ops::Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl std::ops::AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0 as f64;
        match self.0 {
            0..1_000 => write!(f, "{} ns", self.0),
            // A value that rounds to 1000.0 of a unit is 1 of the next.
            1_000..999_950 => write!(f, "{:.1} us", ns / 1e3),
            999_950..999_950_000 => write!(f, "{:.1} ms", ns / 1e6),
            999_950_000..100_000_000_000 => write!(f, "{:.2} s", ns / 1e9),
            _ => write!(f, "{:.0} s", ns / 1e9),
        }
    }
}

impl std::str::FromStr for Nanos {
    type Err = UnitError;
    /// Accepts `90`, `90s`, `1.5s`, `250ms`, `2m`, `1h` (a bare number is seconds).
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let bad = || UnitError { text: text.to_owned(), want: "a time such as 60s, 250ms or 2m" };
        let t = text.trim();
        let digits = t.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let number: f64 = digits.parse().map_err(|_| bad())?;
        let scale = match &t[digits.len()..] {
            "" | "s" => 1e9,
            "ms" => 1e6,
            "us" => 1e3,
            "ns" => 1.0,
            "m" | "min" => 60e9,
            "h" => 3600e9,
            _ => return Err(bad()),
        };
        let ns = number * scale;
        if ns.is_finite() && (0.0..9e18).contains(&ns) {
            Ok(Self::from_f64(ns))
        } else {
            Err(bad())
        }
    }
}

/// The rate of a time-stamp counter: the cycles that it counts in a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TscRate {
    pub cycles: u64,
    pub time: Nanos,
}

impl TscRate {
    /// Cycles in `time` at this rate, rounded.
    #[must_use]
    pub fn cycles_in(self, time: Nanos) -> u64 {
        let per = u128::from(self.time.0).max(1);
        let cycles = (u128::from(time.0) * u128::from(self.cycles) + per / 2) / per;
        u64::try_from(cycles).unwrap_or(u64::MAX)
    }
}

/// The size of a page, always a power of two.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct PageSize(u64);

impl PageSize {
    /// The base page of x86-64, and the most common one of aarch64.
    pub const BASE_4K: Self = Self(4096);
    /// Another base page of aarch64.
    pub const BASE_16K: Self = Self(16 << 10);
    /// The base page of ppc64, and the third one of aarch64.
    pub const BASE_64K: Self = Self(64 << 10);
    /// A page mapped by one page-middle-directory entry with 4 KiB base pages.
    pub const PMD_2M: Self = Self(2 << 20);

    /// A page size of `bytes`, if that is a power of two.
    #[must_use]
    pub const fn new(bytes: u64) -> Option<Self> {
        if bytes.is_power_of_two() { Some(Self(bytes)) } else { None }
    }
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }
    /// The whole pages of this size in a range of addresses; none if none fits.
    #[must_use]
    pub fn whole_within(self, range: Range<u64>) -> Option<Range<u64>> {
        let start = range.start.checked_next_multiple_of(self.0)?;
        let end = range.end / self.0 * self.0;
        (start < end).then_some(start..end)
    }
}

impl fmt::Display for PageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n >= 1 << 30 => write!(f, "{} GiB", n >> 30),
            n if n >= 1 << 20 => write!(f, "{} MiB", n >> 20),
            n => write!(f, "{} KiB", n >> 10),
        }
    }
}

/// A text that is not a number with its unit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {want}")]
pub struct UnitError {
    text: String,
    want: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_parse_and_print() {
        assert_eq!("64K".parse(), Ok(Bytes::kib(64)));
        assert_eq!("1MiB".parse(), Ok(Bytes::mib(1)));
        assert!("1X".parse::<Bytes>().is_err());
        assert!("99999999999G".parse::<Bytes>().is_err());
        assert_eq!(Bytes::mib(1536).to_string(), "1.5 GiB");
        assert_eq!(Bytes(12).to_string(), "12 B");
    }

    #[test]
    fn no_time_is_a_thousand_of_its_unit() {
        let shown = [999_949, 999_999, 999_949_999, 999_999_999].map(|ns| Nanos(ns).to_string());
        assert_eq!(shown, ["999.9 us", "1.0 ms", "999.9 ms", "1.00 s"]);
    }

    #[test]
    fn cycles_by_a_rate() {
        // 2.45 GHz, measured over 2 s.
        let rate = TscRate { cycles: 4_900_000_000, time: Nanos::secs(2) };
        assert_eq!([0, 1, 2, 1000].map(|ns| rate.cycles_in(Nanos(ns))), [0, 2, 5, 2450]);
        let ten_years = Nanos::secs(315_360_000);
        assert_eq!(rate.cycles_in(ten_years), 772_632_000_000_000_000);
        let nothing = TscRate { cycles: 7, time: Nanos(0) };
        assert_eq!(nothing.cycles_in(Nanos(0)), 0);
    }

    #[test]
    fn times_parse_and_print() {
        assert_eq!("60".parse(), Ok(Nanos::secs(60)));
        assert_eq!("250ms".parse(), Ok(Nanos::millis(250)));
        assert!("-1s".parse::<Nanos>().is_err());
        assert!("1e300h".parse::<Nanos>().is_err());
        assert_eq!(Nanos(1_500).to_string(), "1.5 us");
        assert_eq!(Nanos::secs(2).to_string(), "2.00 s");
    }
}
