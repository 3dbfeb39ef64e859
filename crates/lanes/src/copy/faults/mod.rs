//! Refuses every call of every way at its first, second and n-th time with each errno, and shortens it. The
//! sink must hold the source's bytes exactly, or their beginning together with an error of the refused side.

mod calls;

use super::calls::TransferCall;
use super::route::CopyOptions;
use super::{CopyError, CopyJob, CopyOutcome, CopySide, FanOut};
use calls::{CALLS, CallFault, FAULTS, FailingCall, FaultedMode, FaultyCalls, LEND_AFTER, times};
use rustix::io::Errno;
use std::cell::Cell;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

const SIZE: usize = 700_001;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FaultedEnd {
    File,
    Pipe,
    Socket,
    Append,
}

fn content() -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    (0..SIZE)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .collect()
}

/// A source that gives `content`, and the thread that feeds it.
fn source(kind: FaultedEnd, content: &[u8]) -> (OwnedFd, Option<JoinHandle<()>>) {
    let feed = |mut to: Box<dyn Write + Send>| {
        let content = content.to_vec();
        std::thread::spawn(move || drop(to.write_all(&content)))
    };
    match kind {
        FaultedEnd::Pipe => {
            let (reader, writer) = std::io::pipe().unwrap();
            (reader.into(), Some(feed(Box::new(writer))))
        }
        FaultedEnd::Socket => {
            let (near, far) = UnixStream::pair().unwrap();
            (near.into(), Some(feed(Box::new(far))))
        }
        FaultedEnd::File | FaultedEnd::Append => {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(content).unwrap();
            file.rewind().unwrap();
            (file.into(), None)
        }
    }
}

/// Closes the sink and gives what arrived in it.
type Close = Box<dyn FnOnce(OwnedFd) -> Vec<u8>>;

/// A sink, and how to close it.
fn sink(kind: FaultedEnd) -> (OwnedFd, Close) {
    let collect = |mut from: Box<dyn Read + Send>| -> Close {
        let thread = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            from.read_to_end(&mut bytes).unwrap();
            bytes
        });
        Box::new(move |fd| {
            drop(fd);
            thread.join().unwrap()
        })
    };
    match kind {
        FaultedEnd::Pipe => {
            let (reader, writer) = std::io::pipe().unwrap();
            (writer.into(), collect(Box::new(reader)))
        }
        FaultedEnd::Socket => {
            let (near, far) = UnixStream::pair().unwrap();
            (near.into(), collect(Box::new(far)))
        }
        FaultedEnd::File | FaultedEnd::Append => {
            let file = tempfile::NamedTempFile::new().unwrap();
            let append = kind == FaultedEnd::Append;
            let open = File::options().write(true).append(append).open(file.path()).unwrap();
            (open.into(), Box::new(move |_fd| std::fs::read(file.path()).unwrap()))
        }
    }
}

/// One copy with a fault: its result, and the bytes that the sink got.
fn run(
    from: FaultedEnd,
    to: FaultedEnd,
    content: &[u8],
    faulty: &FaultyCalls,
) -> (Result<CopyOutcome, CopyError>, Vec<u8>) {
    let (input, feeder) = source(from, content);
    let (output, close) = sink(to);
    let mut copy = CopyJob::new(&input, &output);
    let is_live = matches!(faulty.mode, FaultedMode::Live | FaultedMode::Sides);
    copy.wanted = CopyOptions { live: is_live, sides: faulty.mode == FaultedMode::Sides };
    copy.grows_source = is_live;
    copy.leaves_cache = faulty.mode == FaultedMode::PastCache;
    copy.lend_after = (faulty.mode == FaultedMode::Lend).then_some(LEND_AFTER);
    let result = copy.run_on(faulty, |_| {});
    drop(input);
    let bytes = close(output);
    if let Some(feeder) = feeder {
        feeder.join().unwrap();
    }
    (result, bytes)
}

/// What must hold after a copy that met `faulty`.
fn judge(
    faulty: &FaultyCalls,
    result: Result<CopyOutcome, CopyError>,
    bytes: &[u8],
    content: &[u8],
) {
    match result {
        Ok(copied) => {
            assert_eq!(copied.bytes, content.len() as u64);
            assert!(bytes == content, "the bytes differ");
        }
        Err(error) => {
            let side = match (faulty.call, error.errno) {
                (FailingCall::Read, _) => CopySide::Source,
                (FailingCall::Write, _) => CopySide::Sink,
                (other, _) => panic!("a refused {other:?} must be got round: {error}"),
            };
            assert_eq!(error.side, side, "{error}");
            let faults = [CallFault::Errno(error.errno), CallFault::Lasting(error.errno)];
            assert!(faults.contains(&faulty.fault), "{error}");
            assert_eq!(error.moved, bytes.len() as u64);
            assert!(content.starts_with(bytes), "what arrived is not the beginning");
        }
    }
}

#[test]
fn a_refused_or_short_call_loses_nothing() {
    let content = content();
    let (mut cases, mut met) = (0, 0);
    for from in [FaultedEnd::File, FaultedEnd::Pipe, FaultedEnd::Socket] {
        for to in [FaultedEnd::File, FaultedEnd::Pipe, FaultedEnd::Socket, FaultedEnd::Append] {
            for (call, nth) in CALLS.iter().flat_map(|c| times(*c).map(|n| (*c, n))) {
                for fault in FAULTS {
                    for mode in [
                        FaultedMode::Plain,
                        FaultedMode::Live,
                        FaultedMode::Sides,
                        FaultedMode::Lend,
                    ] {
                        let faulty = FaultyCalls { call, nth, fault, mode, seen: Cell::new(0) };
                        let (result, bytes) = run(from, to, &content, &faulty);
                        met += u32::from(faulty.seen.get() >= nth);
                        cases += 1;
                        judge(&faulty, result, &bytes, &content);
                    }
                }
            }
        }
    }
    assert_eq!(cases, 3 * 4 * 9 * 3 * 11 * 4);
    assert!(met > cases / 9, "only {met} of {cases} faults were met");
}

/// One copy that signals interrupt, run until it ends: how often it was interrupted, and the bytes that the
/// sink got.
fn run_interrupted(
    from: FaultedEnd,
    to: FaultedEnd,
    content: &[u8],
    faulty: &FaultyCalls,
) -> (u32, Vec<u8>) {
    let (input, feeder) = source(from, content);
    let (output, close) = sink(to);
    let mut copy = CopyJob::new(&input, &output);
    let is_live = matches!(faulty.mode, FaultedMode::Live | FaultedMode::Sides);
    copy.wanted = CopyOptions { live: is_live, sides: faulty.mode == FaultedMode::Sides };
    let mut engine = copy.engine(faulty, |_| {}).unwrap();
    engine.outlet.interrupts = true;
    let mut times = 0;
    let copied = loop {
        match engine.run() {
            Err(error) if error.is_interrupted() => times += 1,
            ended => break ended.unwrap(),
        }
    };
    assert_eq!(copied.bytes, content.len() as u64);
    drop(engine);
    drop(input);
    let bytes = close(output);
    if let Some(feeder) = feeder {
        feeder.join().unwrap();
    }
    (times, bytes)
}

#[test]
fn an_interrupted_copy_goes_on_where_it_stopped() {
    let content = content();
    let mut times = 0;
    for from in [FaultedEnd::File, FaultedEnd::Pipe, FaultedEnd::Socket] {
        for to in [FaultedEnd::File, FaultedEnd::Pipe, FaultedEnd::Socket, FaultedEnd::Append] {
            for (call, nth) in CALLS.iter().flat_map(|call| [2, 3].map(|nth| (*call, nth))) {
                for mode in [FaultedMode::Plain, FaultedMode::Live, FaultedMode::Sides] {
                    let fault = CallFault::Every(Errno::INTR);
                    let faulty = FaultyCalls { call, nth, fault, mode, seen: Cell::new(0) };
                    let (interrupted, bytes) = run_interrupted(from, to, &content, &faulty);
                    assert!(bytes == content, "{from:?} to {to:?}: {faulty:?}");
                    times += interrupted;
                }
            }
        }
    }
    assert!(times > 100, "interrupted {times} times only");
}

#[test]
fn past_the_cache_a_refused_or_short_call_loses_nothing() {
    let content = content();
    for from in [FaultedEnd::File, FaultedEnd::Pipe] {
        for to in [FaultedEnd::File, FaultedEnd::Pipe, FaultedEnd::Append] {
            for (call, nth) in [FailingCall::Read, FailingCall::Write]
                .into_iter()
                .flat_map(|c| times(c).map(|n| (c, n)))
            {
                for fault in FAULTS {
                    let (mode, seen) = (FaultedMode::PastCache, Cell::new(0));
                    let faulty = FaultyCalls { call, nth, fault, mode, seen };
                    let (result, bytes) = run(from, to, &content, &faulty);
                    judge(&faulty, result, &bytes, &content);
                }
            }
        }
    }
}

#[test]
fn eagain_of_what_blocks_is_an_error_of_its_side() {
    let content = content();
    for to in [FaultedEnd::File, FaultedEnd::Pipe, FaultedEnd::Socket] {
        for call in [FailingCall::Read, FailingCall::Write] {
            let fault = CallFault::Lasting(Errno::AGAIN);
            let faulty =
                FaultyCalls { call, nth: 2, fault, mode: FaultedMode::Plain, seen: Cell::new(0) };
            let (result, bytes) = run(FaultedEnd::Pipe, to, &content, &faulty);
            assert_eq!(result.map_err(|error| error.errno), Err(Errno::AGAIN));
            judge(&faulty, result, &bytes, &content);
        }
    }
}

/// Errors that a connection returns once. Then it is closed.
const ONCE: [Errno; 7] = [
    Errno::CONNRESET,
    Errno::CONNREFUSED,
    Errno::CONNABORTED,
    Errno::TIMEDOUT,
    Errno::HOSTUNREACH,
    Errno::NETUNREACH,
    Errno::NETDOWN,
];

#[test]
fn the_error_of_a_connection_is_not_got_round() {
    let content = content();
    let splice = FailingCall::Transfer(TransferCall::Splice);
    for errno in ONCE {
        let faulty = |call, mode| {
            let fault = CallFault::Errno(errno);
            FaultyCalls { call, nth: 2, fault, mode, seen: Cell::new(0) }
        };
        for (from, call, mode) in [
            (FaultedEnd::Pipe, splice, FaultedMode::Live),
            (FaultedEnd::Pipe, splice, FaultedMode::Sides),
            (FaultedEnd::File, FailingCall::Transfer(TransferCall::Sendfile), FaultedMode::Live),
        ] {
            let (result, bytes) = run(from, FaultedEnd::Socket, &content, &faulty(call, mode));
            let error = result.unwrap_err();
            let moved = bytes.len() as u64;
            assert_eq!((error.side, error.errno, error.moved), (CopySide::Sink, errno, moved));
        }
        // A file on a network, which the first call reads, gives it again, by the call that names the side.
        let first = FaultyCalls { nth: 1, ..faulty(splice, FaultedMode::Live) };
        let (result, bytes) = run(FaultedEnd::File, FaultedEnd::Pipe, &content, &first);
        assert!(result.is_ok() && bytes == content, "{errno}: {result:?}");
        let sinks = [FaultedEnd::Socket, FaultedEnd::Pipe];
        let (result, errors, got) =
            fan_out(FaultedEnd::Pipe, &sinks, &content, &faulty(splice, FaultedMode::Live));
        assert_eq!(
            errors.iter().map(|(sink, e)| (*sink, e.errno)).collect::<Vec<_>>(),
            [(0, errno)]
        );
        assert!(result == Ok(SIZE as u64) && got[1] == content);
    }
}

/// The result of a fan-out, the errors of its sinks, what each sink got.
type Fanned = (Result<u64, CopyError>, Vec<(usize, CopyError)>, Vec<Vec<u8>>);

/// One fan-out with a fault: its result, the errors of sinks, and the bytes that each sink got.
fn fan_out(from: FaultedEnd, to: &[FaultedEnd], content: &[u8], faulty: &FaultyCalls) -> Fanned {
    let (input, feeder) = source(from, content);
    let (outputs, close): (Vec<_>, Vec<_>) = to.iter().map(|kind| sink(*kind)).unzip();
    let mut errors = Vec::new();
    let fan = FanOut::new(&input, &outputs);
    let fan = if faulty.mode == FaultedMode::Live { fan.live() } else { fan };
    let fan = if faulty.mode == FaultedMode::PastCache { fan.past_cache() } else { fan };
    let result = fan.run_on(faulty, |sink, error| {
        errors.push((sink, error));
        true
    });
    drop(input);
    let got = close.into_iter().zip(outputs).map(|(close, fd)| close(fd)).collect();
    if let Some(feeder) = feeder {
        feeder.join().unwrap();
    }
    (result, errors, got)
}

#[test]
fn a_fan_out_gives_every_sink_the_same() {
    let content = content();
    let sinks = [
        FaultedEnd::Pipe,
        FaultedEnd::File,
        FaultedEnd::Socket,
        FaultedEnd::Append,
        FaultedEnd::Pipe,
    ];
    for from in [FaultedEnd::File, FaultedEnd::Pipe, FaultedEnd::Socket] {
        for (call, nth) in CALLS.iter().flat_map(|c| [1, 2, 7].map(|n| (*c, n))) {
            for (fault, mode) in FAULTS.iter().flat_map(|f| {
                [(*f, FaultedMode::Plain), (*f, FaultedMode::Live), (*f, FaultedMode::PastCache)]
            }) {
                let faulty = FaultyCalls { call, nth, fault, mode, seen: Cell::new(0) };
                let (result, errors, got) = fan_out(from, &sinks, &content, &faulty);
                let failed = |sink: usize| errors.iter().find(|(index, _)| *index == sink);
                for (sink, bytes) in got.iter().enumerate() {
                    let outcome = match failed(sink) {
                        Some((_, error)) => Err(*error),
                        None => {
                            result.map(|bytes| CopyOutcome { bytes, way: super::CopyRoute::Splice })
                        }
                    };
                    match (outcome, result) {
                        (Err(error), Err(source)) if error == source => {
                            assert_eq!(error.side, CopySide::Source, "{error}");
                            assert!(content.starts_with(bytes));
                        }
                        _ => judge(&faulty, outcome, bytes, &content),
                    }
                }
            }
        }
    }
}
