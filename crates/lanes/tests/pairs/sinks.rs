//! The sinks of the table: each has a descriptor, and a way to get the bytes that arrived.

use super::sources::{REPEATS, content, reset};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{
    CWD, MemfdFlags, Mode, OFlags, SealFlags, SeekFrom, fcntl_add_seals, memfd_create, mkfifoat,
    open, seek,
};
use rustix::io::Errno;
use rustix::pipe::fcntl_setpipe_size;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use std::fs::File;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Closes a sink and returns the bytes that arrived; `None` if they cannot be known.
type Close = Box<dyn FnOnce(OwnedFd) -> Option<Vec<u8>> + Send>;

/// A sink that is ready for writing.
pub(crate) struct Sink {
    pub(crate) fd: OwnedFd,
    /// True if the capacity of its pipe must stay.
    pub(crate) keeps: bool,
    close: Close,
}

impl Sink {
    /// The sink of this name. `None` if it cannot be made here.
    pub(crate) fn new(name: &str) -> Option<Self> {
        match name {
            "pipe" => Some(piped(None, Duration::ZERO)),
            "two_slots" => Some(piped(Some(2 * rustix::param::page_size()), Duration::ZERO)),
            "nonblock_pipe" => Some(piped(None, LATE).nonblocking()),
            "fifo" => Some(fifo()),
            "socket" => Some(socket(Duration::ZERO)),
            "nonblock_socket" => Some(socket(LATE).nonblocking()),
            "tcp" => Some(tcp()),
            "tty" => tty(),
            "null" | "zero" => Some(device(&format!("/dev/{name}"), None)),
            "full" => Some(device("/dev/full", Some(Vec::new()))),
            "eventfd" => Some(event()),
            "closed_pipe" => Some(closed(std::io::pipe().unwrap().1.into())),
            "closed_socket" => Some(closed(UnixStream::pair().unwrap().1.into())),
            "reset_tcp" => Some(closed(reset().fd)),
            "directory" => Some(closed(open("/", OFlags::RDONLY, Mode::empty()).unwrap())),
            "memfd" => Some(memory(SealFlags::empty())),
            "sealed" => Some(memory(SealFlags::WRITE | SealFlags::SEAL)),
            _ => file(name),
        }
    }

    fn nonblocking(self) -> Self {
        let flags = rustix::fs::fcntl_getfl(&self.fd).unwrap();
        rustix::fs::fcntl_setfl(&self.fd, flags | OFlags::NONBLOCK).unwrap();
        self
    }

    /// Closes it and returns what arrived.
    pub(crate) fn end(self) -> Option<Vec<u8>> {
        (self.close)(self.fd)
    }
}

/// Delay of the reader of an O_NONBLOCK end, so that the copy finds the end full.
const LATE: Duration = Duration::from_millis(2);

fn plain(fd: OwnedFd, close: Close) -> Sink {
    Sink { fd, keeps: false, close }
}

/// Reads everything up to the end. A terminal that no process has open any more returns EIO. The kernel may
/// return it once while bytes still wait (drivers/tty/n_tty.c), so the end is the second in a row.
fn read_all(from: OwnedFd) -> Vec<u8> {
    let (mut all, mut buffer, mut is_ending) = (Vec::new(), vec![0; 65_536], false);
    loop {
        match rustix::io::read(&from, &mut buffer) {
            Ok(0) => return all,
            Ok(n) => {
                all.extend_from_slice(&buffer[..n]);
                is_ending = false;
            }
            Err(Errno::IO) if is_ending => return all,
            Err(Errno::IO) => is_ending = true,
            Err(Errno::INTR) => {}
            Err(other) => panic!("read: {other}"),
        }
    }
}

/// A sink that another thread reads to its end.
fn collected(fd: OwnedFd, late: Duration, from: OwnedFd) -> Sink {
    let collector = std::thread::spawn(move || {
        std::thread::sleep(late);
        read_all(from)
    });
    let close: Close = Box::new(move |fd| {
        drop(fd);
        Some(collector.join().unwrap())
    });
    plain(fd, close)
}

fn piped(capacity: Option<usize>, late: Duration) -> Sink {
    let (reader, writer) = std::io::pipe().unwrap();
    if let Some(capacity) = capacity {
        fcntl_setpipe_size(&writer, capacity).unwrap();
    }
    Sink { keeps: capacity.is_some(), ..collected(writer.into(), late, reader.into()) }
}

fn fifo() -> Sink {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("fifo");
    mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
    let both = open(&path, OFlags::RDWR, Mode::empty()).unwrap();
    let reader = open(&path, OFlags::RDONLY, Mode::empty()).unwrap();
    let writer = open(&path, OFlags::WRONLY, Mode::empty()).unwrap();
    drop(both);
    collected(writer, Duration::ZERO, reader)
}

fn socket(late: Duration) -> Sink {
    let (near, far) = UnixStream::pair().unwrap();
    collected(near.into(), late, far.into())
}

fn tcp() -> Sink {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let far = listener.accept().unwrap().0;
    far.shutdown(Shutdown::Write).unwrap();
    collected(near.into(), Duration::ZERO, far.into())
}

/// A terminal that changes no output byte.
fn tty() -> Option<Sink> {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).ok()?;
    grantpt(&controller).unwrap();
    unlockpt(&controller).unwrap();
    let user = ioctl_tiocgptpeer(&controller, OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    let mut settings = tcgetattr(&user).unwrap();
    settings.make_raw();
    tcsetattr(&user, OptionalActions::Now, &settings).unwrap();
    Some(collected(user, Duration::ZERO, controller))
}

fn device(path: &str, keeps: Option<Vec<u8>>) -> Sink {
    plain(open(path, OFlags::WRONLY, Mode::empty()).unwrap(), Box::new(move |_| keeps))
}

/// A sink that can receive nothing.
fn closed(fd: OwnedFd) -> Sink {
    plain(fd, Box::new(|_| Some(Vec::new())))
}

/// An eventfd: 8 bytes or nothing.
fn event() -> Sink {
    let close: Close = Box::new(|fd| {
        let mut bytes = [0; 8];
        match rustix::io::read(&fd, &mut bytes) {
            Ok(n) => Some(bytes[..n].to_vec()),
            Err(Errno::AGAIN) => Some(Vec::new()),
            Err(other) => panic!("read: {other}"),
        }
    });
    plain(eventfd(0, EventfdFlags::NONBLOCK).unwrap(), close)
}

/// All bytes of an open file.
fn bytes_of(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn memory(seals: SealFlags) -> Sink {
    let fd = memfd_create("sink", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    if !seals.is_empty() {
        fcntl_add_seals(&fd, seals).unwrap();
    }
    plain(fd, Box::new(|fd| Some(bytes_of(&File::from(fd)))))
}

/// A regular file. Its name says which kind.
fn file(name: &str) -> Option<Sink> {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("sink");
    std::fs::write(&path, b"").unwrap();
    let look = File::open(&path).unwrap();
    let opened = |flags| open(&path, flags, Mode::empty());
    let whole: Close = Box::new(move |_| Some(bytes_of(&look)));
    Some(match name {
        "file" => plain(opened(OFlags::WRONLY).unwrap(), whole),
        "direct" => plain(opened(OFlags::WRONLY | OFlags::DIRECT).ok()?, whole),
        "read_only" => plain(opened(OFlags::RDONLY).unwrap(), whole),
        "append" => append(&path),
        "overwritten" => overwritten(&path),
        other => panic!("{other} is no sink"),
    })
}

/// A file that is written at its end, whatever its offset is.
fn append(path: &Path) -> Sink {
    const HEAD: &[u8] = b"what was there before\n";
    std::fs::write(path, HEAD).unwrap();
    let look = File::open(path).unwrap();
    let close: Close = Box::new(move |_| {
        let bytes = bytes_of(&look);
        assert!(bytes.starts_with(HEAD));
        Some(bytes[HEAD.len()..].to_vec())
    });
    plain(open(path, OFlags::WRONLY | OFlags::APPEND, Mode::empty()).unwrap(), close)
}

/// A larger file, written from its fifth byte on. The bytes around must not change.
fn overwritten(path: &Path) -> Sink {
    let before = content().repeat(REPEATS + 1);
    std::fs::write(path, &before).unwrap();
    let look = File::open(path).unwrap();
    let fd = open(path, OFlags::WRONLY, Mode::empty()).unwrap();
    seek(&fd, SeekFrom::Start(5)).unwrap();
    let close: Close = Box::new(move |fd| {
        let bytes = bytes_of(&look);
        let end = seek(&fd, SeekFrom::Current(0)).unwrap() as usize;
        assert!(bytes[..5] == before[..5] && bytes[end..] == before[end..], "bytes around");
        Some(bytes[5..end].to_vec())
    });
    plain(fd, close)
}
