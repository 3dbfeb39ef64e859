//! The sources of the table: descriptors with known content.

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{
    CWD, MemfdFlags, Mode, OFlags, SealFlags, SeekFrom, fcntl_add_seals, memfd_create, mkfifoat,
    open, seek,
};
use rustix::pipe::fcntl_setpipe_size;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use std::fs::File;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::LazyLock;
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes of a source unless its kind is small. The number is no multiple of any page, buffer or sector.
pub(crate) const SIZE: usize = 300_001;

/// How often a file for O_DIRECT repeats these bytes. It is above 2 MB, where the engine uses larger pieces.
pub(crate) const REPEATS: usize = 8;

/// Where the truncated file is cut: after the first buffer and before the end.
const CUT: u64 = 280_000;

/// What a source must give.
pub(crate) enum Content {
    /// Exactly these bytes.
    Known(Vec<u8>),
    /// The beginning of these bytes, at least `least` of them: the file is cut during the copy.
    Cut { all: Vec<u8>, least: u64 },
    /// This many bytes of unknown content.
    Random(u64),
}

/// A source that is ready to be copied.
pub(crate) struct Source {
    pub(crate) fd: OwnedFd,
    pub(crate) content: Content,
    /// How much to copy of a source that never ends.
    pub(crate) limit: Option<u64>,
    /// The offset at which a file is read first.
    pub(crate) start: Option<u64>,
    /// True if the capacity of its pipe must stay.
    pub(crate) keeps: bool,
    /// An action to take after the first bytes have been copied.
    pub(crate) meanwhile: Option<Box<dyn FnOnce() + Send>>,
    feeder: Option<JoinHandle<()>>,
    /// A descriptor that must stay open until the copy ends.
    held: Option<OwnedFd>,
}

impl Source {
    /// The source of this name. `None` if it cannot be made here.
    pub(crate) fn new(name: &str) -> Option<Self> {
        match name {
            "pipe" => Some(piped(None, Duration::ZERO)),
            "two_slots" => Some(piped(Some(2 * rustix::param::page_size()), Duration::ZERO)),
            "nonblock_pipe" => Some(piped(None, LATE).nonblocking()),
            "fifo" => Some(fifo()),
            "socket" => Some(socket(Duration::ZERO)),
            "nonblock_socket" => Some(socket(LATE).nonblocking()),
            "tcp" => Some(tcp()),
            "reset" => Some(reset()),
            "tty" => tty(),
            "null" => Some(device("/dev/null", Vec::new(), None)),
            "zero" | "full" => Some(device(&format!("/dev/{name}"), vec![0; SIZE], Some(SIZE))),
            "urandom" => {
                let content = Content::Random(SIZE as u64);
                Some(Self { content, ..device("/dev/urandom", Vec::new(), Some(SIZE)) })
            }
            "eventfd" => Some(event()),
            "proc" => special("/proc/version"),
            "sysfs" => special("/sys/devices/system/cpu/online"),
            "directory" => Some(plain(open("/", OFlags::RDONLY, Mode::empty()).unwrap(), vec![])),
            _ => file(name),
        }
    }

    fn nonblocking(self) -> Self {
        let flags = rustix::fs::fcntl_getfl(&self.fd).unwrap();
        rustix::fs::fcntl_setfl(&self.fd, flags | OFlags::NONBLOCK).unwrap();
        self
    }

    /// Closes it, waits for its feeder, and returns the content that it must give.
    pub(crate) fn end(self) -> Content {
        drop(self.fd);
        drop(self.held);
        if let Some(feeder) = self.feeder {
            feeder.join().unwrap();
        }
        self.content
    }
}

/// Delay of the feeder of an O_NONBLOCK end, so that the copy finds the end empty.
const LATE: Duration = Duration::from_millis(2);

/// Pseudo-random bytes, the same in every call.
pub(crate) fn content() -> Vec<u8> {
    static CONTENT: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let mut state = 0x9e37_79b9_u32;
        let next = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        (0..SIZE).map(next).collect()
    });
    CONTENT.clone()
}

fn plain(fd: OwnedFd, content: Vec<u8>) -> Source {
    Source {
        fd,
        content: Content::Known(content),
        limit: None,
        start: None,
        keeps: false,
        meanwhile: None,
        feeder: None,
        held: None,
    }
}

/// A source that another thread feeds. The copy may end before it has taken everything.
fn fed(fd: OwnedFd, late: Duration, to: impl FnOnce() -> OwnedFd + Send + 'static) -> Source {
    let feeder = std::thread::spawn(move || {
        let mut to = File::from(to());
        std::thread::sleep(late);
        drop(to.write_all(&content()));
    });
    Source { feeder: Some(feeder), ..plain(fd, content()) }
}

fn piped(capacity: Option<usize>, late: Duration) -> Source {
    let (reader, writer) = std::io::pipe().unwrap();
    if let Some(capacity) = capacity {
        fcntl_setpipe_size(&writer, capacity).unwrap();
    }
    Source { keeps: capacity.is_some(), ..fed(reader.into(), late, move || writer.into()) }
}

fn fifo() -> Source {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("fifo");
    mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
    let feeder = {
        let path = path.clone();
        std::thread::spawn(move || {
            let mut to = open(&path, OFlags::WRONLY, Mode::empty()).map(File::from).unwrap();
            drop(to.write_all(&content()));
        })
    };
    let fd = open(&path, OFlags::RDONLY, Mode::empty()).unwrap();
    Source { feeder: Some(feeder), ..plain(fd, content()) }
}

fn socket(late: Duration) -> Source {
    let (near, far) = UnixStream::pair().unwrap();
    fed(near.into(), late, move || far.into())
}

fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near, listener.accept().unwrap().0)
}

fn tcp() -> Source {
    let (near, far) = connection();
    fed(near.into(), Duration::ZERO, move || far.into())
}

/// A connection that is reset after some bytes.
pub(crate) fn reset() -> Source {
    let (near, mut far) = connection();
    let sent = &content()[..10_000];
    far.write_all(sent).unwrap();
    rustix::net::sockopt::set_socket_linger(&far, Some(Duration::ZERO)).unwrap();
    plain(near.into(), sent.to_vec())
}

/// A terminal on which lines were typed, then end-of-file once.
fn tty() -> Option<Source> {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).ok()?;
    grantpt(&controller).unwrap();
    unlockpt(&controller).unwrap();
    let user = ioctl_tiocgptpeer(&controller, OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    let mut settings = tcgetattr(&user).unwrap();
    settings.local_modes -= LocalModes::ECHO;
    tcsetattr(&user, OptionalActions::Now, &settings).unwrap();
    let text: String = (0..100).map(|line| format!("line {line} of what was typed\n")).collect();
    rustix::io::write(&controller, text.as_bytes()).unwrap();
    rustix::io::write(&controller, b"\x04").unwrap();
    Some(Source { held: Some(controller), ..plain(user, text.into_bytes()) })
}

fn device(path: &str, content: Vec<u8>, limit: Option<usize>) -> Source {
    let fd = open(path, OFlags::RDONLY, Mode::empty()).unwrap();
    Source { limit: limit.map(|limit| limit as u64), ..plain(fd, content) }
}

fn event() -> Source {
    let fd = eventfd(7, EventfdFlags::empty()).unwrap();
    Source { limit: Some(8), ..plain(fd, 7_u64.to_ne_bytes().to_vec()) }
}

/// A file whose size differs from `fstat`.
fn special(path: &str) -> Option<Source> {
    let content = std::fs::read(path).ok()?;
    Some(plain(open(path, OFlags::RDONLY, Mode::empty()).ok()?, content))
}

/// A regular file. Its name says which kind.
fn file(name: &str) -> Option<Source> {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("source");
    let bytes = match name {
        "empty" => Vec::new(),
        "direct" => content().repeat(REPEATS),
        _ => content(),
    };
    std::fs::write(&path, &bytes).unwrap();
    let opened = |flags| open(&path, flags, Mode::empty());
    let from_start = |fd| Source { start: Some(0), ..plain(fd, bytes.clone()) };
    Some(match name {
        "file" | "empty" => from_start(opened(OFlags::RDONLY).unwrap()),
        "append" => from_start(opened(OFlags::RDWR | OFlags::APPEND).unwrap()),
        "direct" => from_start(opened(OFlags::RDONLY | OFlags::DIRECT).ok()?),
        "write_only" => plain(opened(OFlags::WRONLY).unwrap(), bytes),
        "offset" => {
            let fd = opened(OFlags::RDONLY).unwrap();
            let start = seek(&fd, SeekFrom::Start(1_000)).unwrap();
            Source { start: Some(start), ..plain(fd, bytes[1_000..].to_vec()) }
        }
        "memfd" | "sealed" => from_start(memory(&bytes, name == "sealed")),
        "growing" => growing(from_start(opened(OFlags::RDONLY).unwrap()), &path),
        "truncated" => truncated(from_start(opened(OFlags::RDONLY).unwrap()), &path),
        other => panic!("{other} is no source"),
    })
}

fn memory(bytes: &[u8], is_sealed: bool) -> OwnedFd {
    let fd = memfd_create("source", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    let file = File::from(fd);
    file.write_all_at(bytes, 0).unwrap();
    let fd = OwnedFd::from(file);
    if is_sealed {
        let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
        fcntl_add_seals(&fd, seals).unwrap();
    }
    fd
}

/// The file gets more bytes after the first were copied. They belong to the content too.
fn growing(source: Source, path: &Path) -> Source {
    let mut to = File::options().append(true).open(path).unwrap();
    let more = b"what came later".repeat(1_000);
    let content = Content::Known([content(), more.clone()].concat());
    let meanwhile = Box::new(move || to.write_all(&more).unwrap());
    Source { content, meanwhile: Some(meanwhile), ..source }
}

/// The file is truncated after the first bytes were copied. How much was taken by then depends on the way.
fn truncated(source: Source, path: &Path) -> Source {
    let to = File::options().write(true).open(path).unwrap();
    let content = Content::Cut { all: content(), least: CUT };
    Source { content, meanwhile: Some(Box::new(move || to.set_len(CUT).unwrap())), ..source }
}
