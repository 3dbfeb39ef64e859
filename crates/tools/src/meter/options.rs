//! The command line of `meter`: each of pv's options is supported, or refused by name.
//!
//! Sizes take pv's suffixes: K, M, G and T are powers of 1024 (of 1000 with `-k`). Rates are bytes per
//! second. Seconds may have a fraction.

use super::value::{self, BarStyle};
use crate::command_line::{EarlyExit, in_full};
use crate::files;
use lexopt::prelude::{Long, Short, Value};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Options of pv that are not supported, with the alternative.
const REFUSED: [(&str, &str); 9] = [
    ("query", "use --json into a file for the same figures"),
    ("direct-io", "O_DIRECT does not speed up pipes; leave it out"),
    ("sparse", "use cp --sparse=always for sparse copies"),
    ("discard", "redirect to /dev/null"),
    ("store-and-forward", "use a temporary file"),
    ("error-skip-block", "use --skip-errors, which skips what cannot be read"),
    ("gauge", "use --rate for the same figure as a number"),
    ("extra-display", "use --json into a file for other displays"),
    ("monitor", "put one meter before the command and one after it"),
];

/// All long options.
const LONG: &str = "progress timer eta fineta rate average-rate bytes buffer-percent last-written \
    format name numeric json quiet bits si line-mode null interval average-rate-window wait \
    delay-start width height force cursor bar-style stats size stop-at-size rate-limit buffer-size \
    no-splice live no-cache skip-errors sync output watchfd remote pidfile help version query direct-io sparse \
    discard store-and-forward error-skip-block gauge extra-display monitor";

/// Largest buffer (`-B`), in bytes.
const LARGEST_BUFFER: usize = 1 << 30;

/// Most bytes that `-A` shows.
const MOST_SHOWN: usize = 1000;

/// The parts of the line, in pv's order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LineParts {
    pub(super) bytes: bool,
    pub(super) timer: bool,
    pub(super) rate: bool,
    pub(super) average: bool,
    pub(super) sides: bool,
    pub(super) bar: bool,
    pub(super) eta: bool,
    pub(super) finish: bool,
}

impl LineParts {
    fn is_nothing(self) -> bool {
        self == Self::default()
    }

    /// What pv shows by default.
    fn usual() -> Self {
        Self { bytes: true, timer: true, rate: true, bar: true, eta: true, ..Self::default() }
    }
}

/// The form of output on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum MeterForm {
    /// A line that overwrites itself.
    #[default]
    Line,
    /// Percentages or counts, a line each (`-n`).
    Numeric,
    /// JSON objects, a line each.
    Json,
    /// Nothing (`-q`).
    Quiet,
}

/// The unit of progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum ProgressUnit {
    #[default]
    Bytes,
    /// Shown as bits (`-8`).
    Bits,
    /// Lines (`-l`), or records that end in a null byte (`-l -0`).
    Lines,
}

/// The parsed command line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MeterOptions {
    pub(super) shown: LineParts,
    pub(super) form: MeterForm,
    pub(super) unit: ProgressUnit,
    pub(super) is_null_ended: bool,
    /// Suffixes are powers of 1000 (`-k`).
    pub(super) is_decimal: bool,
    /// Format of the line (`-F`), instead of `shown`.
    pub(super) format: Option<String>,
    /// Number of just written bytes that the line shows (`-A`).
    pub(super) last_written: Option<usize>,
    pub(super) name: Option<String>,
    pub(super) interval: Duration,
    pub(super) delay: Duration,
    /// Starts the clock at the first byte (`-W`).
    pub(super) waits: bool,
    /// Window of the average rate (`-m`).
    pub(super) window: Duration,
    pub(super) size: Option<u64>,
    /// Stops at the size (`-S`).
    pub(super) stops: bool,
    pub(super) rate_limit: Option<u64>,
    pub(super) buffer: Option<usize>,
    /// Never splices (`-C`).
    pub(super) copies: bool,
    /// Enlarges the source pipe.
    pub(super) live: bool,
    /// Leaves no page in the page cache that was not there before.
    pub(super) no_cache: bool,
    pub(super) skips_errors: bool,
    /// Reports only the first read error of each file (`-EE`).
    pub(super) tells_once: bool,
    pub(super) syncs: bool,
    pub(super) width: Option<u16>,
    /// Draws even if standard error is no terminal (`-f`).
    pub(super) forces: bool,
    pub(super) bar: BarStyle,
    /// Uses its own line beside other meters (`-c`).
    pub(super) has_place: bool,
    pub(super) stats: bool,
    pub(super) output: Option<PathBuf>,
    pub(super) pid_file: Option<PathBuf>,
    /// Process and descriptor to watch (`-d`); without a descriptor, the largest file.
    pub(super) watched: Option<(u32, Option<u32>)>,
    /// Process id of a running meter to send these options to (`-R`).
    pub(super) remote: Option<u32>,
    pub(super) files: Vec<OsString>,
}

impl Default for MeterOptions {
    fn default() -> Self {
        Self {
            shown: LineParts::default(),
            form: MeterForm::default(),
            unit: ProgressUnit::default(),
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
            live: false,
            no_cache: false,
            skips_errors: false,
            tells_once: false,
            syncs: false,
            width: None,
            forces: false,
            bar: BarStyle::default(),
            has_place: false,
            stats: false,
            output: None,
            pid_file: None,
            watched: None,
            remote: None,
            files: Vec::new(),
        }
    }
}

/// Parses a command line.
pub(super) fn parse(arguments: Vec<OsString>) -> Result<MeterOptions, EarlyExit> {
    finish(read(MeterOptions::default(), arguments)?)
}

/// The options of a running meter after `-R` has sent these arguments. Options that they do not name stay
/// unchanged.
pub(super) fn change(
    current: &MeterOptions,
    arguments: Vec<OsString>,
) -> Result<MeterOptions, EarlyExit> {
    let start = MeterOptions { shown: LineParts::default(), format: None, ..current.clone() };
    let mut changed = read(start, arguments)?;
    if changed.shown.is_nothing() && changed.format.is_none() {
        (changed.shown, changed.format) = (current.shown, current.format.clone());
    }
    changed.remote = None;
    let fixed = MeterOptions {
        shown: current.shown,
        form: current.form,
        is_decimal: current.is_decimal,
        format: current.format.clone(),
        name: current.name.clone(),
        interval: current.interval,
        window: current.window,
        size: current.size,
        rate_limit: current.rate_limit,
        width: current.width,
        bar: current.bar,
        ..changed.clone()
    };
    if fixed != *current {
        return Err(EarlyExit::wrong(
            "only -p -t -e -I -r -a -b -T -F -n -q --json -k -N -i -m -w -u -s -L can be changed \
             while it runs",
        ));
    }
    finish(changed)
}

/// Applies the arguments to `options`.
fn read(mut options: MeterOptions, arguments: Vec<OsString>) -> Result<MeterOptions, EarlyExit> {
    let (mut size, mut rate, mut buffer) = (None, None, None);
    let mut parser = lexopt::Parser::from_args(arguments);
    let known: Vec<&'static str> = LONG.split_whitespace().collect();
    while let Some(argument) = parser.next()? {
        let argument = in_full(argument, &known)?;
        if shows(&argument, &mut options) || switches(&argument, &mut options) {
            continue;
        }
        match argument {
            Short('s') | Long("size") => size = Some(parser.value()?),
            Short('L') | Long("rate-limit") => rate = Some(parser.value()?),
            Short('B') | Long("buffer-size") => buffer = Some(parser.value()?),
            Value(file) => options.files.push(file),
            Long("help") | Short('h') => return Err(EarlyExit::Help),
            Long("version") | Short('V') => return Err(EarlyExit::Version),
            Short(letter) => takes_value(&short_name(letter)?, &mut parser, &mut options)?,
            Long(name) => {
                let name = name.to_owned();
                takes_value(&name, &mut parser, &mut options)?;
            }
        }
    }
    // `-k` may follow the sizes that it affects.
    if let Some(text) = size {
        // As in pv, a size of 0 means unknown.
        options.size = Some(value::size(&text, options.is_decimal)?).filter(|size| *size > 0);
    }
    if let Some(text) = rate {
        // A rate of 0 means no limit.
        let rate = value::count("rate", &text, options.is_decimal)?;
        options.rate_limit = Some(rate).filter(|rate| *rate > 0);
    }
    if let Some(text) = buffer {
        let size = value::count("buffer size", &text, options.is_decimal)?;
        options.buffer = Some(usize::try_from(size).unwrap_or(usize::MAX));
    }
    Ok(options)
}

/// Checks combinations of options, and sets the values that follow from them.
fn finish(mut options: MeterOptions) -> Result<MeterOptions, EarlyExit> {
    let wrong = |text: &str| Err(EarlyExit::wrong(text));
    if options.buffer == Some(0) {
        return wrong("a buffer size must be above 0");
    }
    if options.buffer.is_some_and(|size| size > LARGEST_BUFFER) {
        return wrong("a buffer size is at most 1G");
    }
    if options.last_written.is_some_and(|count| count > MOST_SHOWN) {
        return wrong("--last-written shows at most 1000 bytes");
    }
    if options.format.is_some() && matches!(options.form, MeterForm::Numeric | MeterForm::Json) {
        return wrong("use --json instead of --format: it gives all figures by name");
    }
    if options.watched.is_some() && !options.files.is_empty() {
        return wrong("--watchfd takes no files");
    }
    let shows_bytes = options.last_written.is_some();
    if options.shown.is_nothing() && !shows_bytes && options.form != MeterForm::Numeric {
        options.shown = LineParts::usual();
    }
    if options.watched.is_none() {
        options.files = files::or_standard_input(options.files);
    }
    Ok(options)
}

/// Handles options that add a part to the line.
fn shows(argument: &lexopt::Arg<'_>, options: &mut MeterOptions) -> bool {
    let shown = &mut options.shown;
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

/// Handles options without a value.
fn switches(argument: &lexopt::Arg<'_>, options: &mut MeterOptions) -> bool {
    match argument {
        Short('n') | Long("numeric") => options.form = MeterForm::Numeric,
        Long("json") => options.form = MeterForm::Json,
        Short('q') | Long("quiet") => options.form = MeterForm::Quiet,
        Short('8') | Long("bits") => options.unit = ProgressUnit::Bits,
        Short('l') | Long("line-mode") => options.unit = ProgressUnit::Lines,
        Short('0') | Long("null") => {
            (options.is_null_ended, options.unit) = (true, ProgressUnit::Lines)
        }
        Short('k') | Long("si") => options.is_decimal = true,
        Short('W') | Long("wait") => options.waits = true,
        Short('f') | Long("force") => options.forces = true,
        Short('c') | Long("cursor") => options.has_place = true,
        Short('v') | Long("stats") => options.stats = true,
        Short('C') | Long("no-splice") => options.copies = true,
        Long("live") => options.live = true,
        Long("no-cache") => options.no_cache = true,
        Short('E') | Long("skip-errors") => {
            (options.tells_once, options.skips_errors) = (options.skips_errors, true);
        }
        Short('S') | Long("stop-at-size") => options.stops = true,
        Short('Y') | Long("sync") => options.syncs = true,
        _ => return false,
    }
    true
}

/// The long name of a short option that takes a value or is refused.
fn short_name(letter: char) -> Result<String, EarlyExit> {
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
        ('M', "monitor"),
        ('O', "sparse"),
        ('X', "discard"),
        ('U', "store-and-forward"),
        ('x', "extra-display"),
        ('Z', "error-skip-block"),
        ('g', "gauge"),
    ];
    let name = names.iter().find(|(short, _)| *short == letter).map(|(_, name)| (*name).to_owned());
    name.ok_or_else(|| EarlyExit::unknown(&Short(letter)))
}

/// Handles options with a value, and refuses the unsupported ones.
fn takes_value(
    name: &str,
    parser: &mut lexopt::Parser,
    options: &mut MeterOptions,
) -> Result<(), EarlyExit> {
    if let Some((_, instead)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
        return Err(EarlyExit::Wrong(format!("--{name} of pv is not offered: {instead}")));
    }
    let mut text = || parser.value();
    match name {
        "last-written" => options.last_written = Some(value::number(name, &text()?)?),
        "format" => options.format = Some(text()?.to_string_lossy().into_owned()),
        "name" => options.name = Some(text()?.to_string_lossy().into_owned()),
        "interval" => options.interval = value::interval(name, &text()?)?,
        "delay-start" => options.delay = value::seconds(name, &text()?)?,
        "average-rate-window" => options.window = value::seconds(name, &text()?)?,
        "width" => options.width = Some(value::number(name, &text()?)?),
        // Lines are drawn in place, whatever the terminal's height.
        "height" => drop(value::number::<u16>(name, &text()?)?),
        "bar-style" => options.bar = value::bar(&text()?)?,
        "output" => options.output = Some(text()?.into()),
        "pidfile" => options.pid_file = Some(text()?.into()),
        "watchfd" => options.watched = Some(value::watched(&text()?)?),
        "remote" => options.remote = Some(value::number("process", &text()?)?),
        unknown => return Err(EarlyExit::unknown(&Long(unknown))),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<MeterOptions, EarlyExit> {
        parse(words.iter().map(OsString::from).collect())
    }

    fn wrong(words: &[&str]) -> String {
        match parsed(words) {
            Err(EarlyExit::Wrong(text)) => text,
            other => panic!("{words:?} gave {other:?}"),
        }
    }

    #[test]
    fn without_options_the_usual_is_shown() {
        assert_eq!(parsed(&[]).unwrap().shown, LineParts::usual());
        let only = parsed(&["-b"]).unwrap().shown;
        assert!(only.bytes && !only.bar && !only.timer);
        assert_eq!(parsed(&["-n"]).unwrap().shown, LineParts::default());
        assert_eq!(parsed(&["-A", "9"]).unwrap().shown, LineParts::default());
        assert_eq!(parsed(&["--by"]).unwrap().shown, only);
    }

    #[test]
    fn sizes_take_suffixes_whatever_the_order() {
        assert_eq!(parsed(&["-s", "10M"]).unwrap().size, Some(10 << 20));
        assert_eq!(parsed(&["-s", "1.5K", "-k"]).unwrap().size, Some(1500));
        assert_eq!(parsed(&["-L2g"]).unwrap().rate_limit, Some(2 << 30));
        assert_eq!(parsed(&["--size=4KiB"]).unwrap().size, Some(4096));
    }

    #[test]
    fn what_belongs_together_is_checked() {
        assert_eq!(parsed(&["-S", "-H", "24"]).unwrap().size, None);
        assert!(wrong(&["-B", "100T"]).contains("at most 1G"));
        assert!(wrong(&["-A", "70000"]).contains("at most"));
        assert!(wrong(&["-B", "0"]).contains("above 0"));
        assert!(wrong(&["-n", "-F", "%b"]).contains("--json"));
        assert_eq!(parsed(&["-0"]).unwrap().unit, ProgressUnit::Lines);
        assert_eq!(parsed(&["-L", "0"]).unwrap().rate_limit, None);
        assert!(wrong(&["-d", "1", "file"]).contains("no files"));
    }

    #[test]
    fn refused_options_are_named_with_what_serves() {
        for (name, instead) in REFUSED {
            let text = wrong(&[&format!("--{name}")]);
            assert!(text.contains(name) && text.contains(instead), "{text}");
        }
        assert!(wrong(&["-X"]).contains("--discard"));
        assert_eq!(wrong(&["-z"]), "invalid option -- 'z'");
        assert_eq!(wrong(&["--colour"]), "unrecognized option '--colour'");
    }

    #[test]
    fn a_running_meter_keeps_what_is_not_named() {
        let current = parsed(&["-tb", "-L", "1K", "-N", "x", "-S", "-s", "1M", "file"]).unwrap();
        let changed = |words: &[&str]| change(&current, words.iter().map(OsString::from).collect());
        let faster = changed(&["-R", "1", "-L", "2K"]).unwrap();
        assert_eq!(faster, MeterOptions { rate_limit: Some(2048), ..current.clone() });
        let shown = changed(&["-R1", "-p", "-L0"]).unwrap();
        assert!(shown.shown.bar && !shown.shown.timer && shown.rate_limit.is_none());
        assert_eq!(changed(&["-n"]).unwrap().form, MeterForm::Numeric);
        for fixed in [&["-l"][..], &["-C"], &["-W"], &["other"], &["-d", "1"], &["-o", "f"]] {
            let reported = changed(fixed);
            assert!(
                matches!(&reported, Err(EarlyExit::Wrong(text)) if text.contains("-L")),
                "{reported:?}"
            );
        }
    }
}
