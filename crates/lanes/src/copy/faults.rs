//! Refuses every call of every way at its first, second and n-th time with each errno, and shortens it. The
//! sink must hold the source's bytes exactly, or their beginning together with an error of the refused side.

use super::calls::{Calls, Kernel, Transfer};
use super::lending::Lending;
use super::route::Wanted;
use super::{Copied, Copy, CopyError, Fan, Side};
use rustix::event::PollFlags;
use rustix::io::Errno;
use std::cell::Cell;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

const SIZE: usize = 700_001;

/// Which call is made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Read,
    Write,
    Transfer(Transfer),
    Pipe,
    Grow,
    Lend,
}

const CALLS: [Call; 9] = [
    Call::Read,
    Call::Write,
    Call::Transfer(Transfer::Splice),
    Call::Transfer(Transfer::Tee),
    Call::Transfer(Transfer::Sendfile),
    Call::Transfer(Transfer::FileRange),
    Call::Pipe,
    Call::Grow,
    Call::Lend,
];

/// Which of a copy's calls fail: the first, the second, and a later one. A copy grows at most three pipes:
/// the source's, the sink's and its own.
fn times(call: Call) -> [u32; 3] {
    if call == Call::Grow { [1, 2, 3] } else { [1, 2, 5] }
}

/// What happens instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Errno(Errno),
    /// The same from then on.
    Lasting(Errno),
    /// The same in every `nth` call.
    Every(Errno),
    /// Only this many bytes are asked for, from then on.
    Short(usize),
}

const FAULTS: [Fault; 11] = [
    Fault::Errno(Errno::NOSYS),
    Fault::Errno(Errno::PERM),
    Fault::Errno(Errno::INVAL),
    Fault::Errno(Errno::OPNOTSUPP),
    Fault::Errno(Errno::IO),
    Fault::Errno(Errno::NOSPC),
    Fault::Errno(Errno::INTR),
    Fault::Errno(Errno::AGAIN),
    Fault::Errno(Errno::MFILE),
    Fault::Short(1_000),
    Fault::Short(65_537),
];

/// The mode of the copy. Each uses different ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Plain,
    Live,
    Sides,
    /// Leaves nothing in the page cache, without the kernel's help.
    PastCache,
    /// Pages are lent to pipes after [`LEND_AFTER`] bytes.
    Lend,
}

/// Few enough that the most part of `SIZE` is lent.
const LEND_AFTER: u64 = 100_000;

/// The kernel, except that the `nth` call of one kind fails.
#[derive(Debug)]
struct Faulty {
    call: Call,
    nth: u32,
    fault: Fault,
    mode: Mode,
    seen: Cell<u32>,
}

impl Faulty {
    fn size(&self, call: Call, most: usize) -> Result<usize, Errno> {
        if call != self.call {
            return Ok(most);
        }
        self.seen.set(self.seen.get() + 1);
        assert!(self.seen.get() < 10_000, "an endless copy");
        match self.fault {
            Fault::Errno(errno) if self.seen.get() == self.nth => Err(errno),
            Fault::Lasting(errno) if self.seen.get() >= self.nth => Err(errno),
            Fault::Every(errno) if self.seen.get().is_multiple_of(self.nth) => Err(errno),
            Fault::Short(most_then) if self.seen.get() >= self.nth => Ok(most.min(most_then)),
            _ => Ok(most),
        }
    }
}

impl Calls for Faulty {
    fn read(&self, from: BorrowedFd<'_>, into: &mut [u8]) -> Result<usize, Errno> {
        let most = self.size(Call::Read, into.len())?;
        Kernel.read(from, &mut into[..most])
    }

    fn write(&self, to: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
        Kernel.write(to, &bytes[..self.size(Call::Write, bytes.len())?])
    }

    fn transfer(
        &self,
        how: Transfer,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        most: usize,
    ) -> Result<usize, Errno> {
        // A non-blocking splice counts as a splice.
        let call = if how == Transfer::SpliceNow { Transfer::Splice } else { how };
        Kernel.transfer(how, from, to, self.size(Call::Transfer(call), most)?)
    }

    fn lend(&self, from: &mut Lending, to: BorrowedFd<'_>, len: usize) -> Result<usize, Errno> {
        Kernel.lend(from, to, self.size(Call::Lend, len)?)
    }

    fn pipe(&self) -> Result<(OwnedFd, OwnedFd), Errno> {
        self.size(Call::Pipe, 0)?;
        Kernel.pipe()
    }

    fn grow(&self, pipe: BorrowedFd<'_>, size: usize) -> Result<usize, Errno> {
        self.size(Call::Grow, 0)?;
        Kernel.grow(pipe, size)
    }

    fn wait(&self, fd: BorrowedFd<'_>, ready: PollFlags) -> Result<(), Errno> {
        Kernel.wait(fd, ready)
    }

    /// A single EAGAIN comes from a descriptor that is ready by now, whatever its flags are.
    fn can_wait(&self, fd: BorrowedFd<'_>) -> bool {
        self.fault == Fault::Errno(Errno::AGAIN) || Kernel.can_wait(fd)
    }

    /// So that its call is made, and fails, whatever file system the test's directory is on.
    fn has_own_ranges(&self, _file: BorrowedFd<'_>) -> bool {
        true
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
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
fn source(kind: Kind, content: &[u8]) -> (OwnedFd, Option<JoinHandle<()>>) {
    let feed = |mut to: Box<dyn Write + Send>| {
        let content = content.to_vec();
        std::thread::spawn(move || drop(to.write_all(&content)))
    };
    match kind {
        Kind::Pipe => {
            let (reader, writer) = std::io::pipe().unwrap();
            (reader.into(), Some(feed(Box::new(writer))))
        }
        Kind::Socket => {
            let (near, far) = UnixStream::pair().unwrap();
            (near.into(), Some(feed(Box::new(far))))
        }
        Kind::File | Kind::Append => {
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
fn sink(kind: Kind) -> (OwnedFd, Close) {
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
        Kind::Pipe => {
            let (reader, writer) = std::io::pipe().unwrap();
            (writer.into(), collect(Box::new(reader)))
        }
        Kind::Socket => {
            let (near, far) = UnixStream::pair().unwrap();
            (near.into(), collect(Box::new(far)))
        }
        Kind::File | Kind::Append => {
            let file = tempfile::NamedTempFile::new().unwrap();
            let append = kind == Kind::Append;
            let open = File::options().write(true).append(append).open(file.path()).unwrap();
            (open.into(), Box::new(move |_fd| std::fs::read(file.path()).unwrap()))
        }
    }
}

/// One copy with a fault: its result, and the bytes that the sink got.
fn run(
    from: Kind,
    to: Kind,
    content: &[u8],
    faulty: &Faulty,
) -> (Result<Copied, CopyError>, Vec<u8>) {
    let (input, feeder) = source(from, content);
    let (output, close) = sink(to);
    let mut copy = Copy::new(&input, &output);
    let is_live = matches!(faulty.mode, Mode::Live | Mode::Sides);
    copy.wanted = Wanted { live: is_live, sides: faulty.mode == Mode::Sides };
    copy.grows_source = is_live;
    copy.leaves_cache = faulty.mode == Mode::PastCache;
    copy.lend_after = (faulty.mode == Mode::Lend).then_some(LEND_AFTER);
    let result = copy.run_on(faulty, |_| {});
    drop(input);
    let bytes = close(output);
    if let Some(feeder) = feeder {
        feeder.join().unwrap();
    }
    (result, bytes)
}

/// What must hold after a copy that met `faulty`.
fn judge(faulty: &Faulty, result: Result<Copied, CopyError>, bytes: &[u8], content: &[u8]) {
    match result {
        Ok(copied) => {
            assert_eq!(copied.bytes, content.len() as u64);
            assert!(bytes == content, "the bytes differ");
        }
        Err(error) => {
            let side = match (faulty.call, error.errno) {
                (Call::Read, _) => Side::Source,
                (Call::Write, _) => Side::Sink,
                (other, _) => panic!("a refused {other:?} must be got round: {error}"),
            };
            assert_eq!(error.side, side, "{error}");
            let faults = [Fault::Errno(error.errno), Fault::Lasting(error.errno)];
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
    for from in [Kind::File, Kind::Pipe, Kind::Socket] {
        for to in [Kind::File, Kind::Pipe, Kind::Socket, Kind::Append] {
            for (call, nth) in CALLS.iter().flat_map(|c| times(*c).map(|n| (*c, n))) {
                for fault in FAULTS {
                    for mode in [Mode::Plain, Mode::Live, Mode::Sides, Mode::Lend] {
                        let faulty = Faulty { call, nth, fault, mode, seen: Cell::new(0) };
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
fn run_interrupted(from: Kind, to: Kind, content: &[u8], faulty: &Faulty) -> (u32, Vec<u8>) {
    let (input, feeder) = source(from, content);
    let (output, close) = sink(to);
    let mut copy = Copy::new(&input, &output);
    let is_live = matches!(faulty.mode, Mode::Live | Mode::Sides);
    copy.wanted = Wanted { live: is_live, sides: faulty.mode == Mode::Sides };
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
    for from in [Kind::File, Kind::Pipe, Kind::Socket] {
        for to in [Kind::File, Kind::Pipe, Kind::Socket, Kind::Append] {
            for (call, nth) in CALLS.iter().flat_map(|call| [2, 3].map(|nth| (*call, nth))) {
                for mode in [Mode::Plain, Mode::Live, Mode::Sides] {
                    let fault = Fault::Every(Errno::INTR);
                    let faulty = Faulty { call, nth, fault, mode, seen: Cell::new(0) };
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
    for from in [Kind::File, Kind::Pipe] {
        for to in [Kind::File, Kind::Pipe, Kind::Append] {
            for (call, nth) in
                [Call::Read, Call::Write].into_iter().flat_map(|c| times(c).map(|n| (c, n)))
            {
                for fault in FAULTS {
                    let (mode, seen) = (Mode::PastCache, Cell::new(0));
                    let faulty = Faulty { call, nth, fault, mode, seen };
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
    for to in [Kind::File, Kind::Pipe, Kind::Socket] {
        for call in [Call::Read, Call::Write] {
            let fault = Fault::Lasting(Errno::AGAIN);
            let faulty = Faulty { call, nth: 2, fault, mode: Mode::Plain, seen: Cell::new(0) };
            let (result, bytes) = run(Kind::Pipe, to, &content, &faulty);
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
    let splice = Call::Transfer(Transfer::Splice);
    for errno in ONCE {
        let faulty = |call, mode| {
            let fault = Fault::Errno(errno);
            Faulty { call, nth: 2, fault, mode, seen: Cell::new(0) }
        };
        for (from, call, mode) in [
            (Kind::Pipe, splice, Mode::Live),
            (Kind::Pipe, splice, Mode::Sides),
            (Kind::File, Call::Transfer(Transfer::Sendfile), Mode::Live),
        ] {
            let (result, bytes) = run(from, Kind::Socket, &content, &faulty(call, mode));
            let error = result.unwrap_err();
            let moved = bytes.len() as u64;
            assert_eq!((error.side, error.errno, error.moved), (Side::Sink, errno, moved));
        }
        // A file on a network, which the first call reads, gives it again, by the call that names the side.
        let first = Faulty { nth: 1, ..faulty(splice, Mode::Live) };
        let (result, bytes) = run(Kind::File, Kind::Pipe, &content, &first);
        assert!(result.is_ok() && bytes == content, "{errno}: {result:?}");
        let sinks = [Kind::Socket, Kind::Pipe];
        let (result, errors, got) =
            fan_out(Kind::Pipe, &sinks, &content, &faulty(splice, Mode::Live));
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
fn fan_out(from: Kind, to: &[Kind], content: &[u8], faulty: &Faulty) -> Fanned {
    let (input, feeder) = source(from, content);
    let (outputs, close): (Vec<_>, Vec<_>) = to.iter().map(|kind| sink(*kind)).unzip();
    let mut errors = Vec::new();
    let fan = Fan::new(&input, &outputs);
    let fan = if faulty.mode == Mode::Live { fan.live() } else { fan };
    let fan = if faulty.mode == Mode::PastCache { fan.past_cache() } else { fan };
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
    let sinks = [Kind::Pipe, Kind::File, Kind::Socket, Kind::Append, Kind::Pipe];
    for from in [Kind::File, Kind::Pipe, Kind::Socket] {
        for (call, nth) in CALLS.iter().flat_map(|c| [1, 2, 7].map(|n| (*c, n))) {
            for (fault, mode) in FAULTS
                .iter()
                .flat_map(|f| [(*f, Mode::Plain), (*f, Mode::Live), (*f, Mode::PastCache)])
            {
                let faulty = Faulty { call, nth, fault, mode, seen: Cell::new(0) };
                let (result, errors, got) = fan_out(from, &sinks, &content, &faulty);
                let failed = |sink: usize| errors.iter().find(|(index, _)| *index == sink);
                for (sink, bytes) in got.iter().enumerate() {
                    let outcome = match failed(sink) {
                        Some((_, error)) => Err(*error),
                        None => result.map(|bytes| Copied { bytes, way: super::Way::Splice }),
                    };
                    match (outcome, result) {
                        (Err(error), Err(source)) if error == source => {
                            assert_eq!(error.side, Side::Source, "{error}");
                            assert!(content.starts_with(bytes));
                        }
                        _ => judge(&faulty, outcome, bytes, &content),
                    }
                }
            }
        }
    }
}
