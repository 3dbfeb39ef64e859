//! Every kind of source with every kind of sink. `pairs/table.tsv` says how each pair must end: all bytes
//! arrive, or their beginning and the expected error of the expected side. Each pair is copied in every mode of
//! the engine and must end within a minute. Afterwards the test checks the flags of both ends and the offset in
//! the source.
//!
//! The table's cells: `=` means that all arrives, `<ERRNO` an error of the source, and `>ERRNO` an error of the
//! sink. `|` separates permitted results, because the file system (O_DIRECT) or the way decides.

#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used, reason = "a test program")]

#[path = "pairs/sinks.rs"]
mod sinks;
#[path = "pairs/sources.rs"]
mod sources;

use pagewise_lanes::{CopyError, CopyJob, CopyOutcome, CopySide};
use rustix::fs::{OFlags, SeekFrom, fcntl_getfl, seek};
use rustix::io::Errno;
use sinks::Sink;
use sources::{Content, Source};
use std::collections::BTreeSet;
use std::sync::mpsc::channel;
use std::time::Duration;

const TABLE: &str = include_str!("pairs/table.tsv");

/// A pair that takes longer counts as hung.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Plain,
    Live,
    Sides,
}

/// One pair of the table.
#[derive(Debug, Clone)]
struct Pair {
    source: &'static str,
    sink: &'static str,
    expected: Vec<&'static str>,
}

fn pairs() -> Vec<Pair> {
    let mut lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    let sinks: Vec<_> = lines.next().unwrap().split('\t').skip(1).collect();
    let mut pairs = Vec::new();
    for line in lines {
        let mut cells = line.split('\t');
        let source = cells.next().unwrap();
        let cells: Vec<_> = cells.collect();
        assert_eq!(cells.len(), sinks.len(), "{source}");
        for (sink, cell) in sinks.iter().zip(cells) {
            pairs.push(Pair { source, sink, expected: cell.split('|').collect() });
        }
    }
    pairs
}

/// The result of a copy, in the words of the table.
fn word(result: Result<CopyOutcome, CopyError>) -> String {
    let Err(error) = result else { return "=".to_owned() };
    let side = match error.side {
        CopySide::Source => '<',
        CopySide::Sink => '>',
    };
    let name = match error.errno {
        Errno::BADF => "EBADF",
        Errno::CONNRESET => "ECONNRESET",
        Errno::INVAL => "EINVAL",
        Errno::ISDIR => "EISDIR",
        Errno::NOSPC => "ENOSPC",
        Errno::PERM => "EPERM",
        Errno::PIPE => "EPIPE",
        other => return format!("{side}{other:?}"),
    };
    format!("{side}{name}")
}

/// The flags that a copy must leave as they are.
fn flags(source: &Source, sink: &Sink) -> (OFlags, OFlags) {
    (fcntl_getfl(&source.fd).unwrap(), fcntl_getfl(&sink.fd).unwrap())
}

/// Copies one pair and checks everything about it.
fn check(pair: &Pair, mode: Mode, mut source: Source, sink: Sink) {
    let subject = format!("{} to {} ({mode:?})", pair.source, pair.sink);
    let before = flags(&source, &sink);
    let mut copy = CopyJob::new(&source.fd, &sink.fd);
    if let Some(limit) = source.limit {
        copy = copy.limit(limit);
    }
    if source.keeps || sink.keeps {
        copy = copy.keep_capacity();
    }
    copy = match mode {
        Mode::Plain => copy,
        Mode::Live => copy.live().grow_source(),
        Mode::Sides => copy.live().tell_sides(),
    };
    let mut meanwhile = source.meanwhile.take();
    let result = copy.run_watched(|_| {
        if let Some(act) = meanwhile.take() {
            act();
        }
    });
    assert!(pair.expected.contains(&&*word(result)), "{subject}: {result:?}");
    assert_eq!(flags(&source, &sink), before, "{subject}: flags");
    let moved = result.map_or_else(|error| error.moved, |copied| copied.bytes);
    if let (Some(start), Ok(_)) = (source.start, result) {
        let at = seek(&source.fd, SeekFrom::Current(0)).unwrap();
        assert_eq!(at, start + moved, "{subject}: the place in the source");
    }
    let content = source.end();
    let arrived = sink.end();
    if let Some(arrived) = &arrived {
        assert_eq!(arrived.len() as u64, moved, "{subject}: bytes arrived and told");
    }
    match content {
        Content::Known(all) => {
            assert!(moved <= all.len() as u64, "{subject}: {moved} of {}", all.len());
            assert!(arrived.is_none_or(|bytes| all.starts_with(&bytes)), "{subject}: bytes");
            assert!(result.is_err() || moved == all.len() as u64, "{subject}: {moved}");
        }
        Content::Cut { all, least } => {
            assert!(arrived.is_none_or(|bytes| all.starts_with(&bytes)), "{subject}: bytes");
            assert!(result.is_err() || moved >= least, "{subject}: {moved}");
        }
        Content::Random(size) => {
            assert!(result.is_err() || moved == size, "{subject}: {moved}");
            let values = |bytes: &[u8]| bytes.iter().take(10_000).collect::<BTreeSet<_>>().len();
            let is_random = arrived.is_none_or(|b| b.len() < 10_000 || values(&b) > 200);
            assert!(is_random, "{subject}: few values");
        }
    }
}

/// Runs the table in one mode.
fn run(mode: Mode) {
    let mut skipped = BTreeSet::new();
    let pairs = pairs();
    assert!(pairs.len() >= 200);
    for pair in pairs {
        let (Some(source), Some(sink)) = (Source::new(pair.source), Sink::new(pair.sink)) else {
            skipped.insert((pair.source, pair.sink));
            continue;
        };
        if mode != Mode::Plain && matches!(source.content, Content::Cut { .. }) {
            // The reader then gets something other than the source's content: see tests/live.rs.
            continue;
        }
        let (done, is_done) = channel::<()>();
        let subject = format!("{} to {} ({mode:?})", pair.source, pair.sink);
        let copy = std::thread::spawn(move || {
            check(&pair, mode, source, sink);
            drop(done);
        });
        let waited = is_done.recv_timeout(PATIENCE);
        assert_ne!(waited, Err(std::sync::mpsc::RecvTimeoutError::Timeout), "{subject}: hangs");
        assert!(copy.join().is_ok(), "{subject}: see above");
    }
    for (source, sink) in skipped {
        println!("SKIP {source} to {sink}: one of them cannot be made here");
    }
}

#[test]
fn every_pair_is_exact() {
    run(Mode::Plain);
}

#[test]
fn every_pair_is_exact_by_reference() {
    run(Mode::Live);
}

#[test]
fn every_pair_is_exact_with_the_time_of_each_side() {
    run(Mode::Sides);
}
