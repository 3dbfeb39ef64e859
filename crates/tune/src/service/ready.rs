//! When a server is ready: what `--ready` says, asked again and again until its time is up.

use super::place::ServerPlace;
use super::shell::run_shell;
use pagewise_model::Nanos;
use regex_lite::Regex;
use std::fmt;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(1);
/// How long one attempt by a command may take.
const EXEC: Nanos = Nanos::secs(5);
/// Bytes of an answer that are read.
const REST: u64 = 1 << 16;

/// What shows that a server is ready.
#[derive(Debug, Clone)]
pub enum ReadinessCheck {
    /// It accepts connections to this port of 127.0.0.1.
    Tcp(String),
    /// It answers this URL with a status below 400.
    Http(String),
    /// This shell command succeeds.
    Exec(String),
    /// Its output matches.
    Log(Regex),
    /// It sends `READY=1` to the socket in `NOTIFY_SOCKET` (sd_notify(3)).
    Notify,
}

impl fmt::Display for ReadinessCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(port) => write!(f, "tcp:{port}"),
            Self::Http(url) => write!(f, "http:{url}"),
            Self::Exec(command) => write!(f, "exec:{command}"),
            Self::Log(pattern) => write!(f, "log:{pattern}"),
            Self::Notify => f.write_str("notify"),
        }
    }
}

impl ReadinessCheck {
    /// Parses the user's text.
    ///
    /// # Errors
    /// A sentence that says what is accepted.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        match (kind, rest) {
            ("tcp", port) if !port.is_empty() => Ok(Self::Tcp(port.to_owned())),
            ("http", _) if host_and_path(text).is_some() => Ok(Self::Http(text.to_owned())),
            ("http", url) if host_and_path(url).is_some() => Ok(Self::Http(url.to_owned())),
            ("exec", command) if !command.is_empty() => Ok(Self::Exec(command.to_owned())),
            ("log", pattern) if !pattern.is_empty() => {
                Regex::new(pattern).map(Self::Log).map_err(|e| format!("`{text}`: {e}"))
            }
            ("notify", "") => Ok(Self::Notify),
            _ => Err(format!(
                "`{text}`: use tcp:PORT, http://127.0.0.1:PORT/PATH, exec:CMD, log:REGEX or notify"
            )),
        }
    }

    /// Checks once. Nothing is sent unless `is_own` says that the server's own socket listens.
    pub(super) fn is_met(
        &self,
        place: &ServerPlace,
        is_own: &dyn Fn() -> bool,
        socket: Option<&UnixDatagram>,
        stop: &AtomicBool,
    ) -> bool {
        match self {
            Self::Tcp(port) => {
                let port = place.fill(port).parse().ok();
                port.is_some_and(|port| connect(port).is_some())
            }
            Self::Http(url) => answers(&place.fill(url), is_own).unwrap_or(false),
            Self::Exec(command) => run_shell(&place.fill(command), EXEC, Some(stop)).is_ok(),
            Self::Log(pattern) => pattern.is_match(&place.log_text()),
            Self::Notify => socket.is_some_and(has_told),
        }
    }
}

fn connect(port: u16) -> Option<TcpStream> {
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    TcpStream::connect_timeout(&at, ATTEMPT).ok()
}

/// `127.0.0.1:8080` and `/path` of an `http:` URL; only the loopback interface counts.
fn host_and_path(url: &str) -> Option<(&str, &str)> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("//"))?;
    let at = rest.find('/').unwrap_or(rest.len());
    let (host, path) = rest.split_at(at);
    let local = ["127.0.0.1:", "localhost:"];
    let is_local = local.iter().any(|name| host.starts_with(name));
    is_local.then_some((host, if path.is_empty() { "/" } else { path }))
}

fn answers(url: &str, is_own: &dyn Fn() -> bool) -> Option<bool> {
    let (host, path) = host_and_path(url)?;
    let port = host.rsplit(':').next()?.parse().ok()?;
    // Connected first: what listens by now is what would answer.
    let mut stream = connect(port).filter(|_| is_own())?;
    stream.set_read_timeout(Some(ATTEMPT)).ok()?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut head = [0; 12];
    stream.read_exact(&mut head).ok()?;
    // A server may report an error, or end, when its answer is not read.
    let _rest = std::io::copy(&mut stream.take(REST), &mut std::io::sink());
    let status: u16 = std::str::from_utf8(head.get(9..12)?).ok()?.parse().ok()?;
    Some(head.starts_with(b"HTTP/1.") && status < 400)
}

fn has_told(socket: &UnixDatagram) -> bool {
    let mut text = [0; 1024];
    while let Ok(length) = socket.recv(&mut text) {
        let lines = text[..length].split(|byte| *byte == b'\n');
        if lines.into_iter().any(|line| line == b"READY=1") {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn forms_of_readiness() {
        let ok = ["tcp:{port}", "http://127.0.0.1:{port}/", "exec:true", "log:ready", "notify"];
        for text in ok {
            let read = ReadinessCheck::parse(text).unwrap().to_string();
            assert_eq!(ReadinessCheck::parse(&read).unwrap().to_string(), read, "{text}");
            assert!(read.contains(text), "{read}");
        }
        for text in ["", "tcp:", "http://example.org/", "log:(", "udp:1", "notify:x"] {
            let why = ReadinessCheck::parse(text).unwrap_err();
            assert!(why.contains(text), "{why}");
        }
    }

    #[test]
    fn an_answer_counts_by_its_status() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let url = format!("http://{}/health", listener.local_addr().unwrap());
        let serve = std::thread::spawn(move || {
            for status in ["200 OK", "503 Busy"] {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 512];
                let length = stream.read(&mut request).unwrap();
                assert!(request[..length].starts_with(b"GET /health "));
                write!(stream, "HTTP/1.1 {status}\r\n\r\n").unwrap();
                stream.write_all(&[b'a'; 1 << 12]).unwrap();
            }
        });
        let asked = || answers(&url, &|| true);
        assert_eq!((asked(), asked()), (Some(true), Some(false)));
        serve.join().unwrap();
        assert_eq!(asked(), None);
    }

    #[test]
    fn a_stranger_is_asked_nothing() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        assert_eq!(answers(&url, &|| false), None);
        let (mut stream, _) = listener.accept().unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "it ends without a byte");
    }

    #[test]
    fn a_command_decides_by_its_status() {
        let scratch = tempfile::tempdir().unwrap();
        let place = ServerPlace::new(scratch.path(), "server").unwrap();
        let is_met = |command: &str| {
            let ready = ReadinessCheck::Exec(command.to_owned());
            ready.is_met(&place, &|| true, None, &AtomicBool::new(false))
        };
        assert!(is_met("test -d {dir}") && !is_met("exit 3"));
    }
}
