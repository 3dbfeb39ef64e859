//! Errors of sockets. A reset connection gives its error to one call only. A socket with a timeout returns
//! EAGAIN although it blocks. Both reach the caller with their side.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test program")]

use pagewise_lanes::{CopyError, CopyJob, CopyOutcome, CopySide, FanOut};
use rustix::io::Errno;
use std::io::{PipeReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;
use std::time::Duration;

/// A pipe that holds a few bytes, then its end.
fn fed() -> PipeReader {
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(&[1; 1_000]).unwrap();
    reader
}

/// A connection that the peer has reset.
fn reset() -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let far = listener.accept().unwrap().0;
    rustix::net::sockopt::set_socket_linger(&far, Some(Duration::ZERO)).unwrap();
    near
}

#[test]
fn a_reset_connection_is_an_error_by_every_way() {
    let ways: [fn(CopyJob<'_>) -> CopyJob<'_>; 3] =
        [|copy| copy, |copy| copy.live(), |copy| copy.live().tell_sides()];
    for (index, with) in ways.into_iter().enumerate() {
        let error = with(CopyJob::new(&fed(), &reset())).run().unwrap_err();
        let found = (error.side, error.errno, error.moved);
        assert_eq!(found, (CopySide::Sink, Errno::CONNRESET, 0), "way {index}");
    }
}

#[test]
fn a_reset_connection_of_a_fan_out_is_reported() {
    for live in [false, true] {
        let (from, sinks) = (fed(), [reset()]);
        let fan = FanOut::new(&from, &sinks);
        let fan = if live { fan.live() } else { fan };
        let mut failed = Vec::new();
        let result = fan.run(|sink, error| {
            failed.push((sink, error.errno));
            true
        });
        assert_eq!((result, failed), (Ok(1_000), vec![(0, Errno::CONNRESET)]));
    }
}

/// The result of a copy while the other end of `idle` does nothing. After some seconds that end is closed.
fn ended(
    idle: UnixStream,
    copy: impl FnOnce() -> Result<CopyOutcome, CopyError>,
) -> Result<CopyOutcome, CopyError> {
    let (done, is_done) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _waited = is_done.recv_timeout(Duration::from_secs(5));
            drop(idle);
        });
        let result = copy();
        drop(done);
        result
    })
}

#[test]
fn a_timeout_of_a_socket_is_an_error_of_its_side() {
    let soon = Some(Duration::from_millis(10));
    let null = std::fs::File::options().write(true).open("/dev/null").unwrap();
    let zero = std::fs::File::open("/dev/zero").unwrap();

    let (from, idle) = UnixStream::pair().unwrap();
    from.set_read_timeout(soon).unwrap();
    let error = ended(idle, || CopyJob::new(&from, &null).run()).unwrap_err();
    assert_eq!((error.side, error.call, error.errno), (CopySide::Source, "read", Errno::AGAIN));

    let (to, idle) = UnixStream::pair().unwrap();
    to.set_write_timeout(soon).unwrap();
    let error = ended(idle, || CopyJob::new(&zero, &to).run()).unwrap_err();
    assert_eq!((error.side, error.call, error.errno), (CopySide::Sink, "write", Errno::AGAIN));
}
