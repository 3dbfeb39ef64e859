//! The command line of `meter`: pv's options, each kept or refused by name.
//!
//! Sizes take pv's suffixes: K, M, G, T are powers of 1024 (of 1000 with `-k`), rates are bytes a
//! second. Seconds may have a fraction.

use lexopt::prelude::{Long, Short, Value};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

/// Options of pv that are not offered, and what serves instead.
const REFUSED: [(&str, &str); 8] = [
    ("remote", "start it with the options it is to have"),
    ("query", "--json to a file gives the same figures"),
    ("direct-io", "it moves through pipes, which O_DIRECT does not speed up"),
    ("sparse", "cp --sparse=always makes sparse copies"),
    ("discard", "redirect to /dev/null"),
    ("store-and-forward", "use a temporary file"),
    ("error-skip-block", "--skip-errors skips by what can be read"),
    ("gauge", "--progress shows the rate where no size is known"),
];

/// Most bytes of a buffer (`-B`).
const LARGEST_BUFFER: usize = 1 << 30;

/// Most bytes that `-A` shows.
const MOST_SHOWN: usize = 1000;

/// Longest interval; a longer one would be beyond what a clock can add.
const LONGEST_INTERVAL: Duration = Duration::from_secs(1_000_000);

/// What is shown, in pv's order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) bytes: bool,
    pub(super) timer: bool,
    pub(super) rate: bool,
    pub(super) average: bool,
    pub(super) sides: bool,
    pub(super) bar: bool,
    pub(super) eta: bool,
    pub(super) finish: bool,
}

impl Shown {
    fn is_nothing(self) -> bool {
        self == Self::default()
    }

    /// What pv shows by default.
    fn usual() -> Self {
        Self { bytes: true, timer: true, rate: true, bar: true, eta: true, ..Self::default() }
    }
}

/// What is written to standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Form {
    /// A line that is drawn over itself.
    #[default]
    Line,
    /// Percentages or counts, a line each (`-n`).
    Numeric,
    /// JSON objects, a line each.
    Json,
    /// Nothing (`-q`).
    Quiet,
}

/// What a unit of progress is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Unit {
    #[default]
    Bytes,
    /// Shown as bits (`-8`).
    Bits,
    /// Lines (`-l`), or what ends in a null byte (`-l -0`).
    Lines,
}

/// A command line, understood.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Asked {
    pub(super) shown: Shown,
    pub(super) form: Form,
    pub(super) unit: Unit,
    pub(super) is_null_ended: bool,
    /// Suffixes are powers of 1000 (`-k`).
    pub(super) is_decimal: bool,
    /// Look of the line instead of `shown` (`-F`).
    pub(super) format: Option<String>,
    /// Bytes just written that the line shows (`-A`).
    pub(super) last_written: Option<usize>,
    pub(super) name: Option<String>,
    pub(super) interval: Duration,
    pub(super) delay: Duration,
    /// Waits for the first byte before the clock starts (`-W`).
    pub(super) waits: bool,
    /// Seconds that the current rate is taken over (`-m`).
    pub(super) window: Duration,
    pub(super) size: Option<u64>,
    /// Stops at the size (`-S`).
    pub(super) stops: bool,
    pub(super) rate_limit: Option<u64>,
    pub(super) buffer: Option<usize>,
    /// Never splices (`-C`).
    pub(super) copies: bool,
    pub(super) skips_errors: bool,
    pub(super) syncs: bool,
    pub(super) width: Option<u16>,
    /// Shows although standard error is no terminal (`-f`).
    pub(super) forces: bool,
    /// Block characters in the bar (`-u block`).
    pub(super) has_blocks: bool,
    pub(super) stats: bool,
    pub(super) output: Option<PathBuf>,
    pub(super) pid_file: Option<PathBuf>,
    /// Another process and its descriptor, to be watched (`-d`).
    pub(super) watched: Option<(u32, Option<u32>)>,
    pub(super) files: Vec<OsString>,
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            shown: Shown::default(),
            form: Form::default(),
            unit: Unit::default(),
            is_null_ended: false,
            is_decimal: false,
            format: None,
            last_written: None,
            name: None,
            interval: Duration::from_secs(1),
            delay: Duration::ZERO,
            waits: false,
            window: Duration::from_secs(30),
            size: None,
            stops: false,
            rate_limit: None,
            buffer: None,
            copies: false,
            skips_errors: false,
            syncs: false,
            width: None,
            forces: false,
            has_blocks: false,
            stats: false,
            output: None,
            pid_file: None,
            watched: None,
            files: Vec::new(),
        }
    }
}

/// What to do instead.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Instead {
    Help,
    Version,
    Wrong(String),
}

impl From<lexopt::Error> for Instead {
    fn from(error: lexopt::Error) -> Self {
        Self::Wrong(error.to_string())
    }
}

/// Reads a command line.
pub(super) fn parse(arguments: Vec<OsString>) -> Result<Asked, Instead> {
    let mut asked = Asked::default();
    let mut size = None;
    let mut rate = None;
    let mut buffer = None;
    let mut parser = lexopt::Parser::from_args(arguments);
    while let Some(argument) = parser.next()? {
        if shows(&argument, &mut asked) || switches(&argument, &mut asked) {
            continue;
        }
        match argument {
            Short('s') | Long("size") => size = Some(parser.value()?),
            Short('L') | Long("rate-limit") => rate = Some(parser.value()?),
            Short('B') | Long("buffer-size") => buffer = Some(parser.value()?),
            Value(file) => asked.files.push(file),
            Long("help") | Short('h') => return Err(Instead::Help),
            Long("version") | Short('V') => return Err(Instead::Version),
            Short(letter) => takes_value(&short_name(letter)?, &mut parser, &mut asked)?,
            Long(name) => {
                let name = name.to_owned();
                takes_value(&name, &mut parser, &mut asked)?;
            }
        }
    }
    // `-k` may come after the sizes that it changes.
    asked.size = size.map(|text| size_of(&text, asked.is_decimal)).transpose()?;
    asked.rate_limit = rate.map(|text| count("rate", &text, asked.is_decimal)).transpose()?;
    let buffer = buffer.map(|text| count("buffer size", &text, asked.is_decimal)).transpose()?;
    asked.buffer = buffer.and_then(|n| usize::try_from(n).ok());
    finish(asked)
}

/// Checks what only the whole line tells, and sets what follows from it.
fn finish(mut asked: Asked) -> Result<Asked, Instead> {
    let wrong = |text: &str| Err(Instead::Wrong(text.to_owned()));
    if asked.rate_limit == Some(0) || asked.buffer == Some(0) {
        return wrong("a rate limit and a buffer size must be above 0");
    }
    if asked.buffer.is_some_and(|size| size > LARGEST_BUFFER) {
        return wrong("a buffer size is at most 1G");
    }
    if asked.last_written.is_some_and(|count| count > MOST_SHOWN) {
        return wrong("--last-written shows at most 1000 bytes");
    }
    if asked.stops && asked.unit == Unit::Lines {
        return wrong("--stop-at-size counts bytes and does not go with --line-mode");
    }
    if asked.stops && asked.size.is_none() {
        return wrong("--stop-at-size needs --size");
    }
    if asked.watched.is_some() && !asked.files.is_empty() {
        return wrong("--watchfd takes no files");
    }
    if asked.is_null_ended && asked.unit != Unit::Lines {
        return wrong("--null needs --line-mode");
    }
    if asked.shown.is_nothing() && asked.form != Form::Numeric {
        asked.shown = Shown::usual();
    }
    Ok(asked)
}

/// Options that add to what is shown.
fn shows(argument: &lexopt::Arg<'_>, asked: &mut Asked) -> bool {
    let shown = &mut asked.shown;
    match argument {
        Short('p') | Long("progress") => shown.bar = true,
        Short('t') | Long("timer") => shown.timer = true,
        Short('e') | Long("eta") => shown.eta = true,
        Short('I') | Long("fineta") => shown.finish = true,
        Short('r') | Long("rate") => shown.rate = true,
        Short('a') | Long("average-rate") => shown.average = true,
        Short('b') | Long("bytes") => shown.bytes = true,
        Short('T') | Long("buffer-percent") => shown.sides = true,
        _ => return false,
    }
    true
}

/// Options that take no value.
fn switches(argument: &lexopt::Arg<'_>, asked: &mut Asked) -> bool {
    match argument {
        Short('n') | Long("numeric") => asked.form = Form::Numeric,
        Long("json") => asked.form = Form::Json,
        Short('q') | Long("quiet") => asked.form = Form::Quiet,
        Short('8') | Long("bits") => asked.unit = Unit::Bits,
        Short('l') | Long("line-mode") => asked.unit = Unit::Lines,
        Short('0') | Long("null") => asked.is_null_ended = true,
        Short('k') | Long("si") => asked.is_decimal = true,
        Short('W') | Long("wait") => asked.waits = true,
        Short('f') | Long("force") => asked.forces = true,
        // Lines of several meters are kept apart by the terminal's own cursor (`-N` names them).
        Short('c') | Long("cursor") => {}
        Short('v') | Long("stats") => asked.stats = true,
        Short('C') | Long("no-splice") => asked.copies = true,
        Short('E') | Long("skip-errors") => asked.skips_errors = true,
        Short('S') | Long("stop-at-size") => asked.stops = true,
        Short('Y') | Long("sync") => asked.syncs = true,
        _ => return false,
    }
    true
}

/// The long name of a short option that takes a value or is refused.
fn short_name(letter: char) -> Result<String, Instead> {
    let names = [
        ('A', "last-written"),
        ('F', "format"),
        ('N', "name"),
        ('i', "interval"),
        ('D', "delay-start"),
        ('m', "average-rate-window"),
        ('w', "width"),
        ('H', "height"),
        ('u', "bar-style"),
        ('o', "output"),
        ('P', "pidfile"),
        ('d', "watchfd"),
        ('R', "remote"),
        ('Q', "query"),
        ('K', "direct-io"),
        ('O', "sparse"),
        ('X', "discard"),
        ('U', "store-and-forward"),
        ('Z', "error-skip-block"),
        ('g', "gauge"),
    ];
    let name = names.iter().find(|(short, _)| *short == letter).map(|(_, name)| (*name).to_owned());
    name.ok_or_else(|| Instead::Wrong(format!("invalid option -- '{letter}'")))
}

/// Options with a value, and those that are refused.
fn takes_value(name: &str, parser: &mut lexopt::Parser, asked: &mut Asked) -> Result<(), Instead> {
    if let Some((_, instead)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
        return Err(Instead::Wrong(format!("--{name} of pv is not offered: {instead}")));
    }
    let mut text = || parser.value();
    match name {
        "last-written" => asked.last_written = Some(number(name, &text()?)?),
        "format" => asked.format = Some(text()?.to_string_lossy().into_owned()),
        "name" => asked.name = Some(text()?.to_string_lossy().into_owned()),
        "interval" => asked.interval = interval(name, &text()?)?,
        "delay-start" => asked.delay = seconds(name, &text()?)?,
        "average-rate-window" => asked.window = seconds(name, &text()?)?,
        "width" => asked.width = Some(number(name, &text()?)?),
        // The height of the terminal plays no part in one line.
        "height" => drop(number::<u16>(name, &text()?)?),
        "bar-style" => asked.has_blocks = bar_style(&text()?)?,
        "output" => asked.output = Some(text()?.into()),
        "pidfile" => asked.pid_file = Some(text()?.into()),
        "watchfd" => asked.watched = Some(watched(&text()?)?),
        _ => return Err(Instead::Wrong(format!("unrecognized option '--{name}'"))),
    }
    Ok(())
}

fn bar_style(text: &OsStr) -> Result<bool, Instead> {
    match text.to_str() {
        Some("plain") => Ok(false),
        Some("block" | "granular" | "shaded") => Ok(true),
        _ => Err(unfit("bar style", text, "plain, block, granular, shaded")),
    }
}

fn unfit(what: &str, text: &OsStr, wanted: &str) -> Instead {
    Instead::Wrong(format!("'{}' is no {what} ({wanted})", text.display()))
}

fn number<T: std::str::FromStr>(what: &str, text: &OsStr) -> Result<T, Instead> {
    let parsed = text.to_str().and_then(|t| t.parse().ok());
    parsed.ok_or_else(|| unfit(what, text, "a whole number"))
}

fn seconds(what: &str, text: &OsStr) -> Result<Duration, Instead> {
    let value: Option<f64> = text.to_str().and_then(|t| t.parse().ok());
    let parsed = value.and_then(|v| Duration::try_from_secs_f64(v).ok());
    parsed.ok_or_else(|| unfit(what, text, "seconds"))
}

/// Between a tenth of a second, as pv has it, and what a clock can add.
fn interval(what: &str, text: &OsStr) -> Result<Duration, Instead> {
    Ok(seconds(what, text)?.clamp(Duration::from_millis(100), LONGEST_INTERVAL))
}

/// PID or PID:FD.
fn watched(text: &OsStr) -> Result<(u32, Option<u32>), Instead> {
    let parts = text.to_str().map(|t| t.split_once(':').map_or((t, None), |(p, f)| (p, Some(f))));
    let parsed = parts.and_then(|(pid, fd)| {
        let fd = fd.map(str::parse).transpose().ok()?;
        Some((pid.parse().ok()?, fd))
    });
    parsed.ok_or_else(|| unfit("process", text, "PID or PID:FD"))
}

/// A size in bytes, or `@FILE` for the size of a file.
fn size_of(text: &OsStr, is_decimal: bool) -> Result<u64, Instead> {
    match text.to_str().and_then(|t| t.strip_prefix('@')) {
        None => count("size", text, is_decimal),
        Some(path) => match std::fs::metadata(path) {
            Ok(found) => Ok(found.len()),
            Err(error) => Err(Instead::Wrong(format!("{path}: {}", super::reason(&error)))),
        },
    }
}

/// A number with a suffix of pv's.
fn count(what: &str, text: &OsStr, is_decimal: bool) -> Result<u64, Instead> {
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

    fn parsed(words: &[&str]) -> Result<Asked, Instead> {
        parse(words.iter().map(OsString::from).collect())
    }

    fn wrong(words: &[&str]) -> String {
        match parsed(words) {
            Err(Instead::Wrong(text)) => text,
            other => panic!("{words:?} gave {other:?}"),
        }
    }

    #[test]
    fn without_options_the_usual_is_shown() {
        assert_eq!(parsed(&[]).unwrap().shown, Shown::usual());
        let only = parsed(&["-b"]).unwrap().shown;
        assert!(only.bytes && !only.bar && !only.timer);
        assert_eq!(parsed(&["-n"]).unwrap().shown, Shown::default());
    }

    #[test]
    fn sizes_take_suffixes_whatever_the_order() {
        assert_eq!(parsed(&["-s", "10M"]).unwrap().size, Some(10 << 20));
        assert_eq!(parsed(&["-s", "1.5K", "-k"]).unwrap().size, Some(1500));
        assert_eq!(parsed(&["-L2g"]).unwrap().rate_limit, Some(2 << 30));
        assert_eq!(parsed(&["--size=4KiB"]).unwrap().size, Some(4096));
        for bad in ["x", "", "-1", "1Q", "1e400"] {
            assert!(wrong(&["-s", bad]).contains("is no size"), "{bad}");
        }
    }

    #[test]
    fn what_belongs_together_is_checked() {
        assert!(wrong(&["-S"]).contains("--size"));
        assert!(wrong(&["-S", "-l", "-s", "9"]).contains("counts bytes"));
        assert!(wrong(&["-B", "100T"]).contains("at most 1G"));
        assert!(wrong(&["-A", "70000"]).contains("at most"));
        assert_eq!(parsed(&["-i", "1e19"]).unwrap().interval, LONGEST_INTERVAL);
        assert!(wrong(&["-0"]).contains("--line-mode"));
        assert!(wrong(&["-L", "0"]).contains("above 0"));
        assert!(wrong(&["-d", "1", "file"]).contains("no files"));
    }

    #[test]
    fn refused_options_are_named_with_what_serves() {
        for (name, instead) in REFUSED {
            let text = wrong(&[&format!("--{name}")]);
            assert!(text.contains(name) && text.contains(instead), "{text}");
        }
        assert!(wrong(&["-R", "1"]).contains("--remote"));
        assert_eq!(wrong(&["-z"]), "invalid option -- 'z'");
        assert_eq!(wrong(&["--colour"]), "unrecognized option '--colour'");
    }

    #[test]
    fn a_process_may_come_with_a_descriptor() {
        assert_eq!(parsed(&["-d", "12:3"]).unwrap().watched, Some((12, Some(3))));
        assert_eq!(parsed(&["-d", "12"]).unwrap().watched, Some((12, None)));
        assert!(wrong(&["-d", "x:3"]).contains("PID:FD"));
    }
}
