//! A child process that answers requests, so that a fatal error ends only the child.
//!
//! It is for loops over mapped files: a page that cannot be read back, or a file that is shortened, causes
//! `SIGBUS` in the process that touches the mapping. The child is a copy by `fork(2)`. Requests and answers
//! are one number each, through a socket pair. It ends when the [`ForkedWorker`] is dropped, and dies with the
//! thread that created it. Cost: one fork, then about 10 us per request besides its work. While it lives, the
//! first write to each shared page copies that page.

use crate::child::{fork, leave, reap};
use crate::error::SysError;
use crate::pidfd;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType};
use std::io;
use std::os::fd::OwnedFd;

const SUBJECT: &str = "a working child";

/// A child that answers requests; it ends on drop.
#[derive(Debug)]
pub struct ForkedWorker {
    pid: i32,
    /// Reports its end. The socket does not, while another child has a copy of the far end.
    process: OwnedFd,
    line: OwnedFd,
}

impl ForkedWorker {
    /// Starts a child that answers each request with `serve`. In a process with threads, `serve` may only
    /// make system calls, and must neither allocate nor lock.
    pub fn start(serve: impl FnMut(u64) -> Result<f64, Errno>) -> Result<Self, SysError> {
        let fail = |e| SysError::new("socketpair", SUBJECT, e);
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let pair = rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None);
        let (ours, theirs) = pair.map_err(fail)?;
        match fork()? {
            Some(pid) => match pidfd::open(pid) {
                Ok(process) => Ok(Self { pid, process, line: ours }),
                Err(error) => {
                    end(&ours, pid);
                    Err(error)
                }
            },
            None => {
                // Neither a return nor a panic may lead the child back into the caller's code.
                let _end = Leaving;
                drop(ours);
                answer_all(&theirs, serve);
                leave(0)
            }
        }
    }

    /// The answer to one request; an error if the child has died.
    pub fn ask(&self, request: u64) -> Result<f64, SysError> {
        let gone = || SysError::new("recv", SUBJECT, io::Error::other("it has ended"));
        // Suppresses the signal for a socket without a reader.
        let sent = rustix::net::send(&self.line, &request.to_ne_bytes(), SendFlags::NOSIGNAL);
        sent.map_err(|_| gone())?;
        self.wait();
        let mut bytes = [0; 16];
        let received =
            retry_on_intr(|| rustix::net::recv(&self.line, &mut bytes[..], RecvFlags::DONTWAIT));
        if !received.is_ok_and(|(len, _)| len == bytes.len()) {
            return Err(gone());
        }
        let word = |at: usize| std::array::from_fn(|i| bytes[at + i]);
        match i32::from_ne_bytes(word(0)[..4].try_into().unwrap_or_default()) {
            0 => Ok(f64::from_ne_bytes(word(8))),
            errno => Err(SysError::new("measure", SUBJECT, io::Error::from_raw_os_error(errno))),
        }
    }

    /// Waits for an answer or for the child's end.
    fn wait(&self) {
        let mut ready =
            [PollFd::new(&self.line, PollFlags::IN), PollFd::new(&self.process, PollFlags::IN)];
        // A failure shows in the next read, which does not wait.
        let _ready = retry_on_intr(|| poll(&mut ready, None));
    }
}

impl Drop for ForkedWorker {
    fn drop(&mut self) {
        end(&self.line, self.pid);
    }
}

/// Ends child `pid` by shutting down its socket, which works even if other processes have copies of it. Then
/// reaps the child.
fn end(line: &OwnedFd, pid: i32) {
    // It fails only if the child has ended. If ended children are not kept, there is nothing to reap.
    let _shut = rustix::net::shutdown(line, Shutdown::Both);
    let _reaped = reap(pid);
}

struct Leaving;

impl Drop for Leaving {
    fn drop(&mut self) {
        leave(1);
    }
}

fn answer_all(line: &OwnedFd, mut serve: impl FnMut(u64) -> Result<f64, Errno>) {
    let mut request = [0; 8];
    loop {
        let got = retry_on_intr(|| rustix::net::recv(line, &mut request[..], RecvFlags::empty()));
        if !got.is_ok_and(|(len, _)| len == request.len()) {
            return;
        }
        let mut bytes = [0; 16];
        match serve(u64::from_ne_bytes(request)) {
            Ok(value) => bytes[8..].copy_from_slice(&value.to_ne_bytes()),
            Err(errno) => bytes[..4].copy_from_slice(&errno.raw_os_error().to_ne_bytes()),
        }
        if rustix::net::send(line, &bytes, SendFlags::NOSIGNAL).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::{own_pid, stat};

    #[test]
    fn it_answers_until_it_is_dropped() {
        let mut sum = 0.0;
        let worker = ForkedWorker::start(|n| {
            sum += n as f64;
            if n == 7 { Err(Errno::NOENT) } else { Ok(sum) }
        });
        let worker = worker.unwrap();
        assert_eq!(worker.ask(1).unwrap(), 1.0);
        assert_eq!(worker.ask(2).unwrap(), 3.0);
        assert_eq!(worker.ask(7).unwrap_err().errno(), Some(libc::ENOENT));
        assert_eq!(worker.ask(0).unwrap(), 10.0, "an error does not end it");
        let pid = worker.pid;
        assert_eq!(stat::read(pid).unwrap().ppid, own_pid());
        drop(worker);
        assert!(stat::read(pid).unwrap_err().is_gone());
        assert_eq!(sum, 0.0, "the child works on its own copy");
    }

    #[test]
    fn two_end_in_any_order() {
        // The second child has copies of the first one's socket.
        let first = ForkedWorker::start(|n| Ok(n as f64)).unwrap();
        let second = ForkedWorker::start(|n| Ok(n as f64)).unwrap();
        assert_eq!(first.ask(1).unwrap(), 1.0);
        drop(first);
        assert_eq!(second.ask(2).unwrap(), 2.0);
    }

    #[test]
    fn its_death_is_an_error_of_the_request() {
        let worker = ForkedWorker::start(|_| leave(3)).unwrap();
        for _ in 0..2 {
            assert!(worker.ask(1).unwrap_err().to_string().ends_with("it has ended"));
        }
    }
}
