//! Are the outputs of two runs the same?
//!
//! If the output of a run with a remedy equals that of one plain run, they are equal. Otherwise a second
//! plain run is made. Differences between the two plain runs exist without a remedy (a time stamp, a
//! temporary name, the order of threads) and cannot count against one: they are excluded, and a note names
//! them. Everything else must be equal. Streams are read once and kept as hashes: one of the whole, one for
//! each line, and one that does not depend on the order of lines.
//!
//! The policy of the race decides the consequence of a difference: the arm is rejected and not run again.
//!
//! Not seen: output that goes to a terminal, a socket, or a file that was not named.

use crate::files;
use crate::stop::SessionStop;
use crate::world::ProgramArm;
use pagewise_model::Bytes;
use pagewise_model::run::{OutputCheck, SessionOutcome};
use pagewise_model::usage::{ProgramEnd, ProgramUsage};
use sha2::{Digest as _, Sha256};
use std::io::{self, BufRead};
use std::path::Path;

/// Lines beyond this are covered by the hash of the whole only.
const MOST_LINES: usize = 4_000_000;

/// One stream as hashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamHashes {
    whole: [u8; 32],
    bytes: u64,
    lines: Option<Vec<u64>>,
}

/// Everything a run put out.
#[derive(Debug, Clone, PartialEq)]
pub struct CapturedOutput {
    /// What it used, and how it ended.
    pub usage: ProgramUsage,
    /// Streams by name: standard output, standard error, named files; why one is not there.
    pub streams: Vec<(String, Result<StreamHashes, String>)>,
    /// Last line of its standard error.
    pub said: String,
}

impl CapturedOutput {
    /// A run with its standard output and standard error in these files.
    pub(crate) fn of(usage: ProgramUsage, stdout: &Path, stderr: &Path) -> Self {
        let streams = vec![
            ("standard output".to_owned(), files::read(stdout)),
            ("standard error".to_owned(), files::read(stderr)),
        ];
        Self { usage, streams, said: files::last_line(stderr) }
    }

    /// Bytes that were kept.
    #[must_use]
    pub fn kept(&self) -> Bytes {
        Bytes(self.streams.iter().filter_map(|(_, s)| s.as_ref().ok()).map(|s| s.bytes).sum())
    }
}

/// Why plain runs give nothing to hold others against.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    /// One could not be made.
    #[error(transparent)]
    Run(#[from] SessionStop),
    /// The output of one was not kept whole.
    #[error("{0}")]
    NotKept(String),
    /// Two plain runs end differently.
    #[error("two plain runs end differently: {0} and {1}")]
    Endings(ProgramEnd, ProgramEnd),
    /// A stream that should be compared is there after neither.
    #[error("{name} {why}")]
    Missing {
        /// Which.
        name: String,
        /// Why.
        why: String,
    },
}

impl BaselineError {
    /// The consequence: if plain runs end differently, arms cannot be judged. A missing stream ends the
    /// session.
    ///
    /// # Errors
    /// The stop.
    pub(crate) fn outcome(self) -> Result<SessionOutcome, SessionStop> {
        match self {
            Self::Run(stop) => Err(stop),
            Self::Endings(..) | Self::NotKept(_) => {
                Ok(SessionOutcome::CannotTell { why: self.to_string() })
            }
            Self::Missing { .. } => Err(SessionStop::Output(self.to_string())),
        }
    }
}

impl StreamHashes {
    /// Reads a stream to its end.
    ///
    /// # Errors
    /// When reading fails.
    pub fn read(mut from: impl BufRead) -> io::Result<Self> {
        let mut whole = Sha256::new();
        let mut lines = Some(Vec::new());
        let mut bytes = 0;
        let mut line = Fnv::default();
        let mut open = false;
        loop {
            let chunk = from.fill_buf()?;
            if chunk.is_empty() {
                break;
            }
            whole.update(chunk);
            for &byte in chunk {
                line.add(byte);
                open = true;
                if byte == b'\n' {
                    close(&mut lines, &mut line);
                    open = false;
                }
            }
            let n = chunk.len();
            bytes += n as u64;
            from.consume(n);
        }
        if open {
            close(&mut lines, &mut line);
        }
        Ok(Self { whole: whole.finalize().into(), bytes, lines })
    }

    /// Order-free hash of the lines.
    fn bag(&self) -> Option<u64> {
        self.lines.as_ref().map(|all| all.iter().fold(0u64, |sum, l| sum.wrapping_add(mix(*l))))
    }
}

fn close(lines: &mut Option<Vec<u64>>, line: &mut Fnv) {
    if let Some(all) = lines {
        all.push(std::mem::take(line).0);
        if all.len() > MOST_LINES {
            *lines = None;
        }
    }
}

/// FNV-1a, sufficient to distinguish the lines of one program's output.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, byte: u8) {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
}

fn mix(x: u64) -> u64 {
    let y = (x ^ (x >> 31)).wrapping_mul(0x7fb5_d329_728e_a185);
    y ^ (y >> 27)
}

/// How one stream is compared with the plain runs.
#[derive(Debug, Clone, PartialEq, Eq)]
enum StreamRule {
    Exact(StreamHashes),
    Masked {
        lines: Vec<Option<u64>>,
    },
    /// The first lines of runs that were stopped at a checkpoint.
    Beginning {
        lines: Vec<Option<u64>>,
    },
    AnyOrder {
        bag: u64,
        lines: usize,
    },
    LeftOut(&'static str),
}

/// What plain runs have in common.
#[derive(Debug, Clone)]
pub struct OutputBaseline {
    ended: ProgramEnd,
    rules: Vec<(String, StreamRule)>,
    /// The only run so far.
    only: Option<Box<CapturedOutput>>,
}

impl OutputBaseline {
    /// From one plain run: what differs from it may differ by itself.
    ///
    /// # Errors
    /// [`BaselineError`].
    pub fn of_one(run: CapturedOutput) -> Result<Self, BaselineError> {
        let rules = Self::of(&run, &run)?;
        Ok(Self { only: Some(Box::new(run)), ..rules })
    }

    /// The run it was made from, if there is only one.
    pub(crate) fn only_run(&self) -> Option<&CapturedOutput> {
        self.only.as_deref()
    }

    /// From two plain runs.
    ///
    /// # Errors
    /// [`BaselineError`].
    pub fn of(first: &CapturedOutput, second: &CapturedOutput) -> Result<Self, BaselineError> {
        if first.usage.ended != second.usage.ended {
            return Err(BaselineError::Endings(first.usage.ended, second.usage.ended));
        }
        let is_part = first.usage.ended == ProgramEnd::Checkpoint;
        let compare = if is_part { compare_beginnings } else { compare };
        let pairs = first.streams.iter().zip(&second.streams);
        let rules = pairs
            .map(|((name, a), (_, b))| Ok((name.clone(), rule(name, a, b, compare)?)))
            .collect::<Result<_, BaselineError>>()?;
        Ok(Self { ended: first.usage.ended, rules, only: None })
    }

    /// What is excluded from the comparison, a sentence for each stream.
    #[must_use]
    pub fn exceptions(&self) -> Vec<String> {
        self.rules.iter().filter_map(|(name, rule)| exception(name, rule)).collect()
    }

    /// Holds a run with a remedy against the plain ones.
    #[must_use]
    pub fn check(&self, arm: &str, run: &CapturedOutput) -> OutputCheck {
        let mut notes = Vec::new();
        if run.usage.ended != self.ended {
            notes.push(format!("{} instead of {}", run.usage.ended, self.ended));
        }
        for ((name, rule), (_, stream)) in self.rules.iter().zip(&run.streams) {
            if let Some(what) = differs(rule, stream) {
                notes.push(format!("{name} {what}"));
            }
        }
        OutputCheck { arm: arm.to_owned(), equal: notes.is_empty(), notes }
    }
}

fn rule(
    name: &str,
    a: &Result<StreamHashes, String>,
    b: &Result<StreamHashes, String>,
    compare: fn(&StreamHashes, &StreamHashes) -> StreamRule,
) -> Result<StreamRule, BaselineError> {
    match (a, b) {
        (Ok(x), Ok(y)) => Ok(compare(x, y)),
        (Err(why), Err(_)) => {
            Err(BaselineError::Missing { name: name.to_owned(), why: why.clone() })
        }
        _ => Ok(StreamRule::LeftOut("exists after one plain run only")),
    }
}

fn compare(x: &StreamHashes, y: &StreamHashes) -> StreamRule {
    if x.whole == y.whole {
        return StreamRule::Exact(x.clone());
    }
    let (Some(left), Some(right)) = (&x.lines, &y.lines) else {
        return StreamRule::LeftOut(
            "is too long to compare by lines and differs between plain runs",
        );
    };
    if let (Some(bag), true) = (x.bag(), x.bag() == y.bag() && left.len() == right.len()) {
        return StreamRule::AnyOrder { bag, lines: left.len() };
    }
    if left.len() != right.len() {
        return StreamRule::LeftOut("has a different number of lines in each plain run");
    }
    StreamRule::Masked { lines: common(left, right) }
}

/// The same for runs that were stopped, each at another byte.
fn compare_beginnings(x: &StreamHashes, y: &StreamHashes) -> StreamRule {
    match (&x.lines, &y.lines) {
        (Some(left), Some(right)) => {
            StreamRule::Beginning { lines: common(whole_lines(left), whole_lines(right)) }
        }
        _ => StreamRule::LeftOut("is cut at the checkpoint and too long to compare by lines"),
    }
}

/// Those of equal lines.
fn common(left: &[u64], right: &[u64]) -> Vec<Option<u64>> {
    left.iter().zip(right).map(|(l, r)| (l == r).then_some(*l)).collect()
}

/// The lines before the last, which may be cut.
fn whole_lines(lines: &[u64]) -> &[u64] {
    &lines[..lines.len().saturating_sub(1)]
}

fn exception(name: &str, rule: &StreamRule) -> Option<String> {
    match rule {
        StreamRule::Exact(_) => None,
        StreamRule::AnyOrder { .. } => Some(format!(
            "{name}: the order of lines differs between plain runs; compared without order"
        )),
        StreamRule::Masked { lines } | StreamRule::Beginning { lines } => {
            let out = lines.iter().filter(|l| l.is_none()).count();
            (out > 0).then(|| {
                format!(
                    "{name}: {out} of {} lines differ between plain runs and are ignored",
                    lines.len()
                )
            })
        }
        StreamRule::LeftOut(why) => Some(format!("{name} {why}; not compared")),
    }
}

fn differs(rule: &StreamRule, run: &Result<StreamHashes, String>) -> Option<String> {
    match (rule, run) {
        (StreamRule::LeftOut(_), _) => None,
        (_, Err(why)) => Some(format!("{why}, unlike in plain runs")),
        (StreamRule::Exact(plain), Ok(stream)) => (plain.whole != stream.whole)
            .then(|| format!("differs ({} bytes, plain {})", stream.bytes, plain.bytes)),
        (StreamRule::AnyOrder { bag, lines }, Ok(stream)) => {
            let same = stream.bag() == Some(*bag)
                && stream.lines.as_ref().is_some_and(|l| l.len() == *lines);
            (!same).then(|| "differs, even without the order of lines".to_owned())
        }
        (StreamRule::Masked { lines }, Ok(stream)) => match &stream.lines {
            Some(run) if run.len() == lines.len() => {
                let bad = lines.iter().zip(run).position(|(p, r)| p.is_some_and(|p| p != *r))?;
                Some(format!("differs in line {}", bad + 1))
            }
            _ => Some("has a different number of lines".to_owned()),
        },
        (StreamRule::Beginning { lines }, Ok(stream)) => {
            let run = whole_lines(stream.lines.as_deref().unwrap_or_default());
            let bad = lines.iter().zip(run).position(|(p, r)| p.is_some_and(|p| p != *r))?;
            Some(format!("differs in line {}", bad + 1))
        }
    }
}

/// How outputs are dealt with.
#[derive(Debug)]
pub(crate) enum OutputPolicy {
    /// They may differ.
    Free,
    /// An arm that is likely to gain is compared with plain runs. These are made for the first such arm.
    Equal {
        /// What plain runs put out, once it is known.
        base: Option<OutputBaseline>,
        /// Comparisons made so far; more are added.
        checks: Vec<OutputCheck>,
    },
}

impl OutputPolicy {
    pub(crate) fn check_of(&self, arm: &str) -> Option<&OutputCheck> {
        match self {
            Self::Free => None,
            Self::Equal { checks, .. } => checks.iter().find(|check| check.arm == arm),
        }
    }

    pub(crate) fn add(&mut self, check: OutputCheck) {
        if let Self::Equal { checks, .. } = self {
            checks.push(check);
        }
    }

    /// Whether outputs are to be compared, and no plain run has put out any yet.
    pub(crate) const fn lack_base(&self) -> bool {
        matches!(self, Self::Equal { base: None, .. })
    }

    pub(crate) fn take_base(&mut self) -> Option<OutputBaseline> {
        match self {
            Self::Free => None,
            Self::Equal { base, .. } => base.take(),
        }
    }

    pub(crate) fn set_base(&mut self, plain: OutputBaseline) {
        if let Self::Equal { base, .. } = self {
            *base = Some(plain);
        }
    }

    /// Why an arm is rejected by a comparison made before, if it is.
    pub(crate) fn bars(&self, arm: &ProgramArm) -> Option<String> {
        self.check_of(&arm.name).and_then(rejection)
    }
}

/// Why an arm with this check is rejected, if it is.
pub(crate) fn rejection(check: &OutputCheck) -> Option<String> {
    (!check.equal)
        .then(|| format!("its output differs from the reference: {}", check.notes.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::constructed;

    fn run(out: &str) -> CapturedOutput {
        let stream = StreamHashes::read(out.as_bytes()).unwrap();
        CapturedOutput {
            usage: constructed::usage(),
            streams: vec![("standard output".to_owned(), Ok(stream))],
            said: String::new(),
        }
    }

    fn verdict(a: &str, b: &str, c: &str) -> OutputCheck {
        OutputBaseline::of(&run(a), &run(b)).unwrap().check("x", &run(c))
    }

    #[test]
    fn equal_outputs_are_compared_exactly() {
        assert!(verdict("a\nb\n", "a\nb\n", "a\nb\n").equal);
        assert!(!verdict("a\nb\n", "a\nb\n", "a\nb").equal);
        assert!(!verdict("a\n", "a\n", "a\na\n").equal);
    }

    #[test]
    fn lines_that_change_by_themselves_are_left_out() {
        assert!(verdict("t=1\nsum 5\n", "t=2\nsum 5\n", "t=3\nsum 5\n").equal);
        let bad = verdict("t=1\nsum 5\n", "t=2\nsum 5\n", "t=3\nsum 6\n");
        assert_eq!(bad.notes, ["standard output differs in line 2"]);
    }

    #[test]
    fn order_that_changes_by_itself_is_ignored_but_lines_are_not() {
        assert!(verdict("a\nb\nc\n", "b\na\nc\n", "c\nb\na\n").equal);
        assert!(!verdict("a\nb\nc\n", "b\na\nc\n", "c\nb\nx\n").equal);
    }

    #[test]
    fn of_runs_that_were_stopped_the_whole_lines_before_are_compared() {
        let stopped = |out: &str| {
            let run = run(out);
            let usage = ProgramUsage { ended: ProgramEnd::Checkpoint, ..run.usage };
            CapturedOutput { usage, ..run }
        };
        let base = OutputBaseline::of_one(stopped("a\nb\nc\nd")).unwrap();
        assert_eq!(base.exceptions(), [""; 0]);
        for equal in ["a\nb\nc\nd\ne\n", "a\nb\nX", ""] {
            assert!(base.check("x", &stopped(equal)).equal, "{equal:?}");
        }
        let other = base.check("x", &stopped("a\nX\nc\n"));
        assert_eq!(other.notes, ["standard output differs in line 2"]);
        assert!(!base.check("x", &run("a\nb\nc\nd")).equal, "it ended by itself");
    }

    #[test]
    fn endings_are_compared_first() {
        let mut other = run("a");
        other.usage.ended = ProgramEnd::Exited(1);
        assert!(OutputBaseline::of(&run("a"), &other).is_err());
        let base = OutputBaseline::of(&run("a"), &run("a")).unwrap();
        assert!(!base.check("x", &other).equal);
    }

    #[test]
    fn what_is_missing_is_never_equal() {
        let with_file = |file: Result<&str, &str>| {
            let file = file.map(|text| StreamHashes::read(text.as_bytes()).unwrap());
            let mut all = run("a");
            all.streams.push(("file `x`".to_owned(), file.map_err(str::to_owned)));
            all
        };
        let absent = with_file(Err("is not there"));
        let missing = OutputBaseline::of(&absent, &absent).unwrap_err();
        assert_eq!(missing.to_string(), "file `x` is not there");
        let there = with_file(Ok("data"));
        let base = OutputBaseline::of(&there, &there).unwrap();
        assert!(base.check("x", &there).equal);
        let notes = base.check("x", &absent).notes;
        assert_eq!(notes, ["file `x` is not there, unlike in plain runs"]);
        let once = OutputBaseline::of(&there, &absent).unwrap();
        assert_eq!(once.exceptions(), ["file `x` exists after one plain run only; not compared"]);
    }
}
