//! Where the load goes: the ports and Unix sockets that commands name, and the owners of the sockets that
//! listen there.
//!
//! A server that cannot bind its port may stay alive while another program responds there. So nothing may
//! listen before the start. Before each run of the load the listeners must be sockets of the server's own
//! processes: the inode in `/proc/PID/net` is searched among `/proc/PID/fd`. This covers inherited sockets,
//! and servers that go into the background below their supervisor. If another program listens too, at another
//! address or by `SO_REUSEPORT`, it gets a part of the connections and counts as a stranger.
//!
//! There are three results: the server's, a stranger's, unknown. It is unknown in three cases: this account
//! may not read the descriptors of one of the server's processes; the service runs in a separate network
//! namespace; or no command names a port. Not seen: UDP, other machines, packet filters that redirect a port,
//! and ports that a load takes from a file.

use super::load::PAUSE;
use super::place::{ServerPlace, has_placeholder};
use super::ready::ReadinessCheck;
use super::tree::ServerTree;
use crate::stop::SessionStop;
use pagewise_kernel::proc::net::{self, ListenAddress, ListeningSocket};
use pagewise_kernel::proc::{own_pid, stat};
use std::fmt;
use std::path::PathBuf;

/// Looks until a listener counts as a stranger: its process may just have been started.
const LOOKS: u32 = 4;
/// Hosts whose ports are on this machine.
const LOCAL: [&str; 4] = ["localhost", "127.0.0.1", "[::1]", "0.0.0.0"];

/// Advice to the user about a stranger, and about a load whose port is unknown.
#[derive(Debug)]
struct ReachAdvice {
    stranger: &'static str,
    unnamed: &'static str,
}

const AT_START: ReachAdvice = ReachAdvice {
    stranger: "end that process, or write {port} in the commands: each start gets a free port",
    unnamed: "use {port}",
};
const WHILE_RUNNING: ReachAdvice = ReachAdvice {
    stranger: "use -p with the process that listens there, or change --load",
    unnamed: "name one in --load",
};

/// What a server listens on.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Endpoint {
    Port(u16),
    Socket(PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(port) => write!(f, "port {port}"),
            Self::Socket(path) => write!(f, "socket `{}`", path.display()),
        }
    }
}

impl Endpoint {
    fn is_of(&self, listener: &ListeningSocket) -> bool {
        match (self, &listener.address) {
            (Self::Port(port), ListenAddress::Tcp(at)) => at.port() == *port,
            (Self::Socket(path), ListenAddress::Unix(at)) => at == path,
            _ => false,
        }
    }
}

/// The owner of an endpoint.
#[derive(Debug, PartialEq)]
enum EndpointOwner {
    /// Nothing listens.
    Free,
    Ours,
    /// A stranger listens. If `shared`, the server does too.
    Stranger {
        who: String,
        shared: bool,
    },
    Unknown(String),
}

/// Where the load of one server goes.
#[derive(Debug)]
pub(super) struct LoadReach {
    /// The endpoints that must be the server's: those that readiness names, and the port of its place.
    own: Vec<Endpoint>,
    /// The endpoints that the load names. At least one must be the server's. It may name other services too,
    /// such as a database for figures.
    named: Vec<Endpoint>,
    advice: &'static ReachAdvice,
}

impl LoadReach {
    /// That of a server in `place`.
    pub(super) fn of(ready: &ReadinessCheck, load: &str, place: &ServerPlace) -> Self {
        let text = ready.to_string();
        let mut own = match ready {
            ReadinessCheck::Tcp(port) => {
                place.fill(port).parse().ok().map(Endpoint::Port).into_iter().collect()
            }
            ReadinessCheck::Http(url) => endpoints(&place.fill(url)),
            ReadinessCheck::Exec(_) | ReadinessCheck::Log(_) | ReadinessCheck::Notify => Vec::new(),
        };
        let placed = Endpoint::Port(place.port);
        if (has_placeholder(&text) || has_placeholder(load)) && !own.contains(&placed) {
            own.push(placed);
        }
        let mut named = endpoints(&place.fill(load));
        if let ReadinessCheck::Exec(command) = ready {
            named.extend(endpoints(&place.fill(command)));
        }
        named.retain(|one| !own.contains(one));
        Self { own, named, advice: &AT_START }
    }

    /// That of a service that runs already.
    pub(super) fn of_running(load: &str) -> Self {
        Self { own: Vec::new(), named: endpoints(load), advice: &WHILE_RUNNING }
    }

    /// Refuses a start while another process listens on the server's endpoints.
    pub(super) fn refuse_taken(&self) -> Result<(), SessionStop> {
        let taken = |one: &Endpoint| {
            let found = listeners(&[]).into_iter().find(|listener| one.is_of(listener))?;
            Some(format!("{one} is in use before the server starts: {}", who(&found)))
        };
        let of_load = || {
            let all: Vec<String> = self.named.iter().map_while(taken).collect();
            let is_all = self.own.is_empty() && all.len() == self.named.len();
            all.into_iter().next().filter(|_| is_all)
        };
        match self.own.iter().find_map(taken).or_else(of_load) {
            Some(why) => Err(SessionStop::Elsewhere { why, help: self.advice.stranger }),
            None => Ok(()),
        }
    }

    /// Refuses a load that would reach another program than the processes of `tree`. What could not be seen, if
    /// anything.
    pub(super) fn check(&self, tree: ServerTree) -> Result<Option<String>, SessionStop> {
        let states = |all: &[Endpoint]| -> Vec<(Endpoint, EndpointOwner)> {
            all.iter().map(|one| (one.clone(), state(one, tree))).collect()
        };
        let (own, named) = (states(&self.own), states(&self.named));
        let reaches_ours = named.iter().chain(&own).any(|(_, state)| *state == EndpointOwner::Ours);
        let is_wrong = |state: &EndpointOwner, must: bool| match state {
            EndpointOwner::Stranger { shared, .. } => must || *shared || !reaches_ours,
            _ => false,
        };
        let wrong = own.iter().find(|(_, state)| is_wrong(state, true));
        let wrong = wrong.or_else(|| named.iter().find(|(_, state)| is_wrong(state, false)));
        if let Some((one, EndpointOwner::Stranger { who, shared })) = wrong {
            let beside = if *shared { "beside the server" } else { "and the server does not" };
            let why = format!("the load would reach another program at {one}: {who}, {beside}");
            return Err(SessionStop::Elsewhere { why, help: self.advice.stranger });
        }
        if reaches_ours {
            return Ok(None);
        }
        let unknown = own.iter().chain(&named).find_map(|(one, state)| match state {
            EndpointOwner::Unknown(why) => Some(format!("{one}: {why}")),
            _ => None,
        });
        let unseen = || match own.iter().chain(&named).next() {
            Some((one, _)) => format!("nothing listens at {one}"),
            None => format!("no command names a port or a socket: {}", self.advice.unnamed),
        };
        let why = unknown.unwrap_or_else(unseen);
        Ok(Some(format!("whether the load reaches this server was not checked ({why})")))
    }
}

/// The owner of `one`. Checked several times before it counts as a stranger's.
fn state(one: &Endpoint, tree: ServerTree) -> EndpointOwner {
    let mut seen = look(one, tree);
    for _ in 1..LOOKS {
        if !matches!(seen, EndpointOwner::Stranger { .. }) {
            break;
        }
        std::thread::sleep(PAUSE);
        seen = look(one, tree);
    }
    seen
}

fn look(one: &Endpoint, tree: ServerTree) -> EndpointOwner {
    let pids = tree.pids();
    let found = listeners(&pids).into_iter().filter(|listener| one.is_of(listener));
    let found: Vec<ListeningSocket> = found.collect();
    // After the listeners: the sockets of a process that was started meanwhile are looked at too.
    let (mut sockets, mut hidden) = (Vec::new(), None);
    for pid in tree.pids() {
        match net::sockets(pid) {
            Ok(own) => sockets.extend(own),
            Err(error) if error.is_gone() => {}
            Err(_) => hidden = Some(pid),
        }
    }
    let (ours, others): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|listener| sockets.contains(&listener.inode));
    match (others.first(), hidden) {
        (None, _) if ours.is_empty() => EndpointOwner::Free,
        (None, _) => EndpointOwner::Ours,
        (Some(_), _) if tree.is_apart() => {
            EndpointOwner::Unknown("the service has a network namespace of its own".to_owned())
        }
        (Some(other), Some(pid)) if net::holder(other.inode).is_none() => EndpointOwner::Unknown(
            format!("this account cannot read the descriptors of {}", process(pid)),
        ),
        (Some(other), _) => EndpointOwner::Stranger { who: who(other), shared: !ours.is_empty() },
    }
}

/// What listens in our network namespace, and in those of these processes.
fn listeners(pids: &[i32]) -> Vec<ListeningSocket> {
    let mut spaces = vec![net::namespace(own_pid()).ok()];
    let mut all = net::listeners(own_pid()).unwrap_or_default();
    for &pid in pids {
        let space = net::namespace(pid).ok();
        if space.is_some() && !spaces.contains(&space) {
            spaces.push(space);
            all.extend(net::listeners(pid).unwrap_or_default());
        }
    }
    all
}

/// Who listens where.
fn who(listener: &ListeningSocket) -> String {
    let at = match &listener.address {
        ListenAddress::Tcp(at) => at.to_string(),
        ListenAddress::Unix(path) => format!("`{}`", path.display()),
    };
    match net::holder(listener.inode) {
        Some(pid) => format!("{} listens at {at}", process(pid)),
        None => format!("a process that this account cannot see listens at {at}"),
    }
}

fn process(pid: i32) -> String {
    let name = stat::read(pid).map(|stat| stat.comm).unwrap_or_default();
    format!("process {pid} ({name})")
}

/// The local ports and the sockets that a command names: `HOST:PORT`, `-p PORT`, `--port PORT`, `--any-port=PORT`,
/// and paths of sockets.
fn endpoints(command: &str) -> Vec<Endpoint> {
    let mut found: Vec<Endpoint> = Vec::new();
    let ends = |c: char| c.is_whitespace() || "'\"`;|&()<>,".contains(c);
    let mut is_port_next = false;
    for word in command.split(ends).filter(|word| !word.is_empty()) {
        let pair = word.split_once('=').filter(|(name, _)| !name.contains(':'));
        let (name, value) = pair.unwrap_or((word, word));
        let is_port = std::mem::take(&mut is_port_next) || value != word && name.ends_with("port");
        is_port_next = word == "-p" || word.starts_with("--") && word.ends_with("port");
        let port = if is_port { value.parse().ok() } else { port_of(value) };
        found.extend(port.map(Endpoint::Port));
        let path = value.strip_prefix("unix:").unwrap_or(value);
        let is_socket = |path: &str| {
            use std::os::unix::fs::FileTypeExt;
            std::fs::metadata(path).is_ok_and(|found| found.file_type().is_socket())
        };
        if path.starts_with('/') && is_socket(path) {
            found.push(Endpoint::Socket(path.into()));
        }
    }
    found
}

/// The port of `HOST:PORT` or `URL://HOST:PORT/...` on this machine.
fn port_of(word: &str) -> Option<u16> {
    let rest = word.split_once("://").map_or(word, |(_, rest)| rest);
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    let rest = LOCAL.iter().find_map(|host| rest.strip_prefix(host)?.strip_prefix(':'))?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;
    use std::time::{Duration, Instant};

    #[test]
    fn commands_name_ports_and_sockets() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let _open = UnixListener::bind(&path).unwrap();
        let ports = |text: &str| {
            let port = |one: Endpoint| match one {
                Endpoint::Port(port) => Some(port),
                Endpoint::Socket(_) => None,
            };
            endpoints(text).into_iter().filter_map(port).collect::<Vec<_>>()
        };
        for (text, port) in [
            ("wrk -t1 http://127.0.0.1:8080/a?b=1", 8080),
            ("redis-benchmark -n 100000 -p 6390 -P 16", 6390),
            ("sysbench --mysql-port=3307 run", 3307),
            ("psql 'host=localhost port=5433'", 5433),
            ("x --port 81", 81),
            ("curl redis://user:word@localhost:6379", 6379),
            ("hey http://[::1]:9000", 9000),
        ] {
            assert_eq!(ports(text), [port], "{text}");
        }
        let none =
            "redis-benchmark -n 100000 -c 22 -d 256; curl http://example.org:80/ -p file; f 1:22";
        assert_eq!(ports(none), [0u16; 0]);
        let named = format!("redis-benchmark -s {} -n 5", path.display());
        assert_eq!(endpoints(&named), [Endpoint::Socket(path)]);
    }

    /// What `check` says once a listener that was dropped is closed: a child that another test forks holds it until
    /// it has executed its program.
    fn closed<T>(check: impl Fn() -> Result<T, SessionStop>) -> Result<T, SessionStop> {
        let given_up = Instant::now() + Duration::from_secs(10);
        loop {
            match check() {
                Err(_) if Instant::now() < given_up => {
                    std::thread::sleep(Duration::from_millis(10))
                }
                other => return other,
            }
        }
    }

    fn of_load(load: &str) -> LoadReach {
        LoadReach::of_running(load)
    }

    #[test]
    fn a_listener_is_ours_a_strangers_or_nobodys() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let stranger = child.id().cast_signed();
        let reach = of_load(&format!("load -p {port}"));
        assert_eq!(reach.check(ServerTree::From(own_pid())).unwrap(), None);
        let why = reach.check(ServerTree::From(stranger)).unwrap_err().to_string();
        assert!(why.contains(&format!("port {port}")), "{why}");
        assert!(why.contains("listens at 127.0.0.1:") && why.contains("process "), "{why}");
        let taken = reach.refuse_taken().unwrap_err().to_string();
        assert!(taken.contains("in use before the server starts: process "), "{taken}");
        drop(listener);
        closed(|| reach.refuse_taken()).unwrap();
        let free = reach.check(ServerTree::From(stranger)).unwrap().unwrap();
        assert!(free.contains("nothing listens at port"), "{free}");
        child.kill().unwrap();
        child.wait().unwrap();
        let none = of_load("load").check(ServerTree::From(own_pid())).unwrap().unwrap();
        assert!(none.contains("no command names a port"), "{none}");
    }

    #[test]
    fn a_socket_that_was_handed_over_is_ours_and_one_beside_it_a_strangers() {
        let own = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = own.local_addr().unwrap().port();
        let own = std::os::fd::OwnedFd::from(own);
        let mut sleep = std::process::Command::new("sleep");
        let mut child = sleep.arg("60").stdin(own).spawn().unwrap();
        drop(sleep);
        let tree = ServerTree::From(child.id().cast_signed());
        let reach = of_load(&format!("load http://localhost:{port}/"));
        assert_eq!(reach.check(tree).unwrap(), None);
        let beside = TcpListener::bind(("127.0.0.2", port)).unwrap();
        let why = reach.check(tree).unwrap_err().to_string();
        assert!(why.contains("127.0.0.2") && why.ends_with("beside the server"), "{why}");
        drop(beside);
        assert_eq!(closed(|| reach.check(tree)).unwrap(), None);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn another_service_may_be_named_beside_ours() {
        let [own, other] = [0, 0].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
        let port = |one: &TcpListener| one.local_addr().unwrap().port();
        let load = format!("k6 --out influxdb=http://localhost:{} -p {}", port(&other), port(&own));
        let (mut reach, both) = (of_load(&load), of_load(&load));
        assert_eq!(both.named.len(), 2);
        // Readiness names one of them: that has to be free, the other need not be.
        reach.own = vec![reach.named.pop().unwrap()];
        assert!(reach.refuse_taken().is_err());
        drop(own);
        reach.refuse_taken().unwrap();
        both.refuse_taken().unwrap();
    }
}
