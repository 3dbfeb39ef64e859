//! `-R PID`: another meter changes what a running one shows and how fast it goes.
//!
//! A meter listens on a socket whose abstract name (unix(7)) holds its process id. So nothing is left in the
//! file system, and the name disappears with the process. The other meter sends its command line as words
//! that end in null bytes. The answer is an error text, or empty. Each side checks its peer (SO_PEERCRED): a
//! change is accepted only from the same user or root, an answer only from the intended process. Abstract
//! names are visible only within one network namespace.
//!
//! Overhead: a thread that sleeps in `accept(2)`, and four calls at the start. If listening fails, the meter
//! runs without it.

use super::control::MeterControl;
use super::options::change;
use crate::command_line::EarlyExit;
use crate::files;
use rustix::net::sockopt::socket_peercred;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Duration;

/// Longest accepted command line, in bytes.
const LONGEST: u64 = 1 << 16;

/// Longest time that either side waits for the other.
const PATIENCE: Duration = Duration::from_secs(5);

fn address(pid: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("pagewise-meter-{pid}"))
}

/// Listens for changes until the process ends.
pub(super) fn listen(control: Arc<MeterControl>) -> io::Result<()> {
    let listener = UnixListener::bind_addr(&address(std::process::id())?)?;
    let listener = UnixListener::from(OwnedFd::from(files::private(listener.as_fd())?));
    std::thread::Builder::new().name("remote".to_owned()).spawn(move || {
        for stream in listener.incoming().flatten() {
            // The sender may have gone before the answer.
            let _answered = answer(stream, &control);
        }
    })?;
    Ok(())
}

fn answer(mut stream: UnixStream, control: &MeterControl) -> io::Result<()> {
    let sender = socket_peercred(&stream)?.uid;
    if sender != rustix::process::geteuid() && !sender.is_root() {
        return stream.write_all(b"it belongs to another user");
    }
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = Vec::new();
    (&stream).take(LONGEST).read_to_end(&mut line)?;
    let words = line.split_inclusive(|byte| *byte == 0);
    let words =
        words.map(|word| OsString::from_vec(word.strip_suffix(&[0]).unwrap_or(word).into()));
    match change(&control.options(), words.collect()) {
        Ok(options) => control.set(options),
        Err(EarlyExit::Wrong(text)) => stream.write_all(text.as_bytes())?,
        Err(EarlyExit::Help | EarlyExit::Version) => stream.write_all(b"nothing to change")?,
    }
    Ok(())
}

/// Asks the meter with process id `pid` to continue with `arguments`. The error says why it does not.
pub(super) fn send(pid: u32, arguments: &[OsString]) -> Result<(), String> {
    let unreachable = |error: io::Error| match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            format!("process {pid} is not a meter, or cannot be reached")
        }
        _ => format!("process {pid} cannot be reached: {error}"),
    };
    let stream = address(pid).and_then(|address| UnixStream::connect_addr(&address));
    let stream = stream.map_err(unreachable)?;
    let peer = socket_peercred(&stream).map_err(|errno| unreachable(errno.into()))?;
    if u32::try_from(peer.pid.as_raw_pid()) != Ok(pid) {
        return Err(format!("process {pid} is not a meter, or cannot be reached"));
    }
    let said = ask(&stream, arguments).map_err(unreachable)?;
    if said.is_empty() { Ok(()) } else { Err(format!("process {pid}: {said}")) }
}

fn ask(mut stream: &UnixStream, arguments: &[OsString]) -> io::Result<String> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = Vec::new();
    for word in arguments {
        line.extend_from_slice(word.as_bytes());
        line.push(0);
    }
    stream.write_all(&line)?;
    stream.shutdown(Shutdown::Write)?;
    let mut said = Vec::new();
    stream.take(LONGEST).read_to_end(&mut said)?;
    Ok(String::from_utf8_lossy(&said).into_owned())
}

#[cfg(test)]
mod tests {
    use super::super::options::{MeterOptions, parse};
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn a_change_arrives_and_a_wrong_one_is_reported() {
        let options = parse(words("-L 1K -N name")).unwrap();
        let control = Arc::new(MeterControl::new(options.clone()));
        listen(Arc::clone(&control)).unwrap();
        let here = std::process::id();
        assert_eq!(send(here, &words("-L 3K")), Ok(()));
        assert!(control.is_new.load(std::sync::atomic::Ordering::Relaxed));
        assert_eq!(*control.options(), MeterOptions { rate_limit: Some(3072), ..options.clone() });
        let reported = send(here, &words("-l")).unwrap_err();
        assert!(reported.contains("can be changed"), "{reported}");
        let reported = send(here, &words("--no-such")).unwrap_err();
        assert!(reported.contains("unrecognized option '--no-such'"), "{reported}");
        assert_eq!(control.options().rate_limit, Some(3072));
    }

    #[test]
    fn a_process_that_is_no_meter_is_named() {
        assert!(send(1, &words("-L 3K")).unwrap_err().contains("process 1 is not a meter"));
    }
}
