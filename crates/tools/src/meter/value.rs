//! Values of `meter`'s options: numbers with pv's suffixes, seconds, processes, names.

use crate::command_line::EarlyExit;
use crate::message::reason;
use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

/// Longest interval; a longer one could overflow the clock.
const LONGEST_INTERVAL: Duration = Duration::from_secs(1_000_000);

/// The characters of the bar (`-u`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum BarStyle {
    #[default]
    Plain,
    /// Full blocks.
    Block,
    /// Blocks in steps of an eighth of a column.
    Granular,
    /// Full blocks, a shade for a partial column, a light shade for the rest.
    Shaded,
}

pub(super) fn bar(text: &OsStr) -> Result<BarStyle, EarlyExit> {
    match text.to_str() {
        Some("plain") => Ok(BarStyle::Plain),
        Some("block") => Ok(BarStyle::Block),
        Some("granular") => Ok(BarStyle::Granular),
        Some("shaded") => Ok(BarStyle::Shaded),
        _ => Err(unfit("bar style", text, "plain, block, granular, shaded")),
    }
}

fn unfit(what: &str, text: &OsStr, wanted: &str) -> EarlyExit {
    EarlyExit::Wrong(format!("'{}' is not a valid {what} ({wanted})", text.display()))
}

pub(super) fn number<T: std::str::FromStr>(what: &str, text: &OsStr) -> Result<T, EarlyExit> {
    let parsed = text.to_str().and_then(|t| t.parse().ok());
    parsed.ok_or_else(|| unfit(what, text, "a whole number"))
}

pub(super) fn seconds(what: &str, text: &OsStr) -> Result<Duration, EarlyExit> {
    let value: Option<f64> = text.to_str().and_then(|t| t.parse().ok());
    let parsed = value.and_then(|v| Duration::try_from_secs_f64(v).ok());
    parsed.ok_or_else(|| unfit(what, text, "seconds"))
}

/// An interval, clamped to at least a tenth of a second, as in pv, and at most [`LONGEST_INTERVAL`].
pub(super) fn interval(what: &str, text: &OsStr) -> Result<Duration, EarlyExit> {
    Ok(seconds(what, text)?.clamp(Duration::from_millis(100), LONGEST_INTERVAL))
}

/// Parses PID or PID:FD.
pub(super) fn watched(text: &OsStr) -> Result<(u32, Option<u32>), EarlyExit> {
    let parts = text.to_str().map(|t| t.split_once(':').map_or((t, None), |(p, f)| (p, Some(f))));
    let parsed = parts.and_then(|(pid, fd)| {
        let fd = fd.map(str::parse).transpose().ok()?;
        Some((pid.parse().ok()?, fd))
    });
    parsed.ok_or_else(|| unfit("process", text, "PID or PID:FD"))
}

/// A size in bytes. `@PATH` stands for the size of a file, or of all regular files below a directory.
pub(super) fn size(text: &OsStr, is_decimal: bool) -> Result<u64, EarlyExit> {
    match text.to_str().and_then(|t| t.strip_prefix('@')) {
        None => count("size", text, is_decimal),
        Some(path) => {
            let size = std::fs::metadata(path).and_then(|found| match found.is_dir() {
                true => size_below(Path::new(path)),
                false => Ok(found.len()),
            });
            size.map_err(|error| EarlyExit::Wrong(format!("{path}: {}", reason(&error))))
        }
    }
}

fn size_below(directory: &Path) -> std::io::Result<u64> {
    let mut size = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let found = entry.metadata()?;
        if found.is_dir() {
            size += size_below(&entry.path())?;
        } else if found.is_file() {
            size += found.len();
        }
    }
    Ok(size)
}

/// A number with one of pv's suffixes.
pub(super) fn count(what: &str, text: &OsStr, is_decimal: bool) -> Result<u64, EarlyExit> {
    let wrong = || unfit(what, text, "a number, and K, M, G or T");
    let text = text.to_str().ok_or_else(wrong)?.trim_end_matches(['B', 'i', 'b']);
    let (digits, power) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 1),
        Some((at, 'm' | 'M')) => (&text[..at], 2),
        Some((at, 'g' | 'G')) => (&text[..at], 3),
        Some((at, 't' | 'T')) => (&text[..at], 4),
        _ => (text, 0),
    };
    let value: f64 = digits.parse().map_err(|_| wrong())?;
    let base: f64 = if is_decimal { 1000.0 } else { 1024.0 };
    let bytes = value * base.powi(power);
    let is_count = bytes.is_finite() && (0.0..u64::MAX as f64).contains(&bytes);
    if is_count { Ok(bytes as u64) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_is_refused() {
        for bad in ["x", "", "-1", "1Q", "1e400"] {
            let Err(EarlyExit::Wrong(text)) = size(bad.as_ref(), false) else { panic!("{bad}") };
            assert!(text.contains("is not a valid size"), "{text}");
        }
        assert_eq!(interval("interval", "1e19".as_ref()), Ok(LONGEST_INTERVAL));
        assert_eq!(interval("interval", "0".as_ref()), Ok(Duration::from_millis(100)));
    }

    #[test]
    fn a_directory_is_as_large_as_its_files() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join("below")).unwrap();
        std::fs::write(place.path().join("a"), [0; 10]).unwrap();
        std::fs::write(place.path().join("below/b"), [0; 5]).unwrap();
        let text = format!("@{}", place.path().display());
        assert_eq!(size(text.as_ref(), false), Ok(15));
        assert!(size("@/nothing/there".as_ref(), false).is_err());
    }

    #[test]
    fn a_process_may_come_with_a_descriptor() {
        assert_eq!(watched("12:3".as_ref()), Ok((12, Some(3))));
        assert_eq!(watched("12".as_ref()), Ok((12, None)));
        assert!(watched("x:3".as_ref()).is_err());
    }
}
