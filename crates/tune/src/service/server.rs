//! One start of a server: a program below a separate supervisor, in a separate place.
//!
//! The supervisor lives in a thread until the server has ended. If this process is killed, the supervisor
//! ends the server. Nothing outlives the session.

use super::load::{LoadedServer, PAUSE};
use super::place::{ServerPlace, bound_log};
use super::reach::LoadReach;
use super::ready::ReadinessCheck;
use super::shell::run_shell;
use super::tree::ServerTree;
use crate::stop::SessionStop;
use pagewise_kernel::proc::tree;
use pagewise_kernel::{affinity, clock, pidfd};
use pagewise_model::Nanos;
use pagewise_model::plan::EnvMerge;
use pagewise_model::usage::ProgramEnd;
use pagewise_tracee::launch::{OutputSink, ProgramLaunch};
use pagewise_tracee::run::FinishedRun;
use pagewise_tracee::supervise::{RunSupervisor, SuperviseError};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

type Ending = (RunSupervisor, Result<FinishedRun, SuperviseError>);

/// How a server is started and ended.
#[derive(Debug, Clone)]
pub struct ServerLifecycle {
    /// When it is ready.
    pub ready: ReadinessCheck,
    /// How long that may take.
    pub ready_within: Nanos,
    /// Shell command that ends it; SIGTERM without one.
    pub stop: Option<String>,
    /// How long it may take to end.
    pub stop_within: Nanos,
}

/// A server that is to run, runs, or has ended.
#[derive(Debug)]
pub(super) struct ServerProcess {
    pub(super) place: ServerPlace,
    reach: LoadReach,
    /// Until the start.
    idle: Option<RunSupervisor>,
    supervisor: i32,
    /// The program itself.
    root: Option<OwnedFd>,
    kill: Arc<AtomicBool>,
    thread: Option<JoinHandle<Ending>>,
    socket: Option<UnixDatagram>,
    started: Nanos,
    /// From the start to readiness.
    ready_ns: Option<Nanos>,
}

impl ServerProcess {
    /// One to be started in `place` below `supervisor`.
    pub(super) fn new(place: ServerPlace, reach: LoadReach, supervisor: RunSupervisor) -> Self {
        Self {
            place,
            reach,
            supervisor: supervisor.pid(),
            idle: Some(supervisor),
            root: None,
            kill: Arc::new(AtomicBool::new(false)),
            thread: None,
            socket: None,
            started: Nanos(0),
            ready_ns: None,
        }
    }

    /// Starts `launch`, unless another process listens on its endpoints.
    pub(super) fn start(
        &mut self,
        launch: ProgramLaunch,
        ways: &ServerLifecycle,
    ) -> Result<(), SessionStop> {
        self.reach.refuse_taken()?;
        let place = &self.place;
        let mut launch = ProgramLaunch {
            argv: launch.argv.iter().map(|word| place.fill_word(word)).collect(),
            stdout: OutputSink::File(place.log.clone()),
            stderr: OutputSink::File(place.log.clone()),
            ..launch
        };
        if matches!(ways.ready, ReadinessCheck::Notify) {
            self.socket = Some(notify(place, &mut launch)?);
        }
        let (asked, log) = (Arc::clone(&self.kill), place.log.clone());
        self.started = clock::now();
        self.thread = self.idle.take().map(|mut supervisor| {
            std::thread::spawn(move || {
                let done = supervisor.run(&launch, &|| {
                    bound_log(&log);
                    asked.load(Ordering::Relaxed)
                });
                (supervisor, done)
            })
        });
        Ok(())
    }

    pub(super) fn ready_ns(&self) -> Nanos {
        self.ready_ns.unwrap_or_default()
    }

    /// Asks once whether it is ready.
    fn is_ready(&mut self, ways: &ServerLifecycle, stop: &AtomicBool) -> Result<bool, SessionStop> {
        if self.ready_ns.is_some() {
            return Ok(true);
        }
        self.find_root();
        if self.has_ended() {
            return Err(self.ended_early("before it was ready"));
        }
        self.reach()?;
        let is_met =
            ways.ready.is_met(&self.place, &|| self.reach().is_ok(), self.socket.as_ref(), stop);
        let since = Nanos(clock::now().0.saturating_sub(self.started.0));
        if is_met {
            self.ready_ns = Some(since);
        } else if since > ways.ready_within {
            return Err(SessionStop::Service(format!(
                "the server was not ready within {} (--ready-time){}",
                ways.ready_within,
                self.place.last_words()
            )));
        }
        Ok(is_met)
    }

    fn find_root(&mut self) {
        if self.root.is_none() {
            let children = tree::children(self.supervisor).unwrap_or_default();
            self.root = children.first().and_then(|pid| pidfd::open(*pid).ok());
        }
    }

    /// Lets every thread of it run on these CPUs only. New threads inherit that.
    pub(super) fn pin(&self, cpus: &[u32]) {
        for pid in self.tree().pids() {
            for tid in tree::threads(pid).unwrap_or_default() {
                // A thread that has ended meanwhile needs no CPU.
                let _done = affinity::set(tid, cpus);
            }
        }
    }

    /// Ends it with the user's command, then by force. Returns its supervisor, and notes for the user. Its
    /// place remains.
    pub(super) fn stop(&mut self, ways: &ServerLifecycle) -> (Option<RunSupervisor>, Vec<String>) {
        if self.idle.is_some() {
            return (self.idle.take(), Vec::new());
        }
        let mut notes = Vec::new();
        self.find_root();
        if !self.has_ended() {
            self.ask_to_end(ways, &mut notes);
        }
        let supervisor = self.thread.take().and_then(|thread| thread.join().ok()).map(|end| end.0);
        if self.place.is_port_taken() {
            notes.push(format!("port {} is still in use after its server ended", self.place.port));
        }
        (supervisor, notes)
    }

    fn ask_to_end(&mut self, ways: &ServerLifecycle, notes: &mut Vec<String>) {
        let deadline = clock::now() + ways.stop_within;
        let asked = match &ways.stop {
            Some(command) => run_shell(&self.place.fill(command), ways.stop_within, None)
                .map_err(|error| error.to_string()),
            None => self.root.as_ref().map_or(Ok(()), |root| {
                pidfd::send_signal(root, rustix::process::Signal::TERM.as_raw())
                    .map_err(|error| error.to_string())
            }),
        };
        if let Err(why) = asked {
            notes.push(format!("--stop failed: {why}"));
        }
        if !self.ends_within(Nanos(deadline.0.saturating_sub(clock::now().0))) {
            notes.push(format!(
                "a server did not end within {} of being asked to and was killed (--stop, --stop-time)",
                ways.stop_within
            ));
            self.kill.store(true, Ordering::Relaxed);
        }
    }
}

impl LoadedServer for ServerProcess {
    fn tree(&self) -> ServerTree {
        ServerTree::Below(self.supervisor)
    }

    fn reach(&self) -> Result<Option<String>, SessionStop> {
        self.reach.check(self.tree())
    }

    fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn ended_early(&mut self, when: &str) -> SessionStop {
        let words = self.place.last_words();
        let Some((_, done)) = self.thread.take().and_then(|thread| thread.join().ok()) else {
            return SessionStop::Broken("the thread of a server is gone".to_owned());
        };
        match done {
            Err(SuperviseError::Launch(error)) => SessionStop::Launch(error),
            Err(error) => SessionStop::Broken(error.to_string()),
            Ok(done) if done.over_memory => SessionStop::Service(format!(
                "the server exceeded the available memory {when}; configure it to use less"
            )),
            Ok(done) if done.usage.ended == ProgramEnd::Exited(0) && done.leftovers_killed > 0 => {
                SessionStop::Service(
                    "the server went into the background: start it in the foreground (no daemonize)"
                        .to_owned(),
                )
            }
            Ok(done) => {
                SessionStop::Service(format!("the server ended {when} ({}){words}", done.usage.ended))
            }
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.kill.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

/// Polls servers in turn until all are ready. An error contains the position of the failed server.
pub(super) fn await_ready(
    servers: &mut [&mut ServerProcess],
    ways: &ServerLifecycle,
    stop: &AtomicBool,
) -> Result<(), (usize, SessionStop)> {
    loop {
        let mut are_ready = true;
        for (at, server) in servers.iter_mut().enumerate() {
            if stop.load(Ordering::Relaxed) {
                return Err((at, SessionStop::Interrupted));
            }
            are_ready &= server.is_ready(ways, stop).map_err(|stop| (at, stop))?;
        }
        if are_ready {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
    }
}

fn notify(place: &ServerPlace, launch: &mut ProgramLaunch) -> Result<UnixDatagram, SessionStop> {
    let path = place.dir.join("notify");
    let failed = |e| SessionStop::Broken(format!("cannot make the socket for notify: {e}"));
    let socket = UnixDatagram::bind(&path).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    launch.settings.env.push(EnvMerge {
        name: "NOTIFY_SOCKET".to_owned(),
        separator: None,
        entries: vec![path.to_string_lossy().into_owned()],
    });
    Ok(socket)
}
