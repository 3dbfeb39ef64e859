//! The real world of a session: programs run below the supervising process, prices come from
//! `measure`, weather from /proc.

use crate::output::{Captured, Stream};
use crate::request::{Request, StdoutTo};
use crate::scratch::Scratch;
use crate::stop::Stop;
use crate::world::{Arm, Event, Timed, World};
use pagewise_kernel::keep::Keeper;
use pagewise_kernel::proc::{pressure, system_stat};
use pagewise_kernel::{clock, dirs, limits};
use pagewise_measure::{Options, PriceError};
use pagewise_model::look::Traced;
use pagewise_model::machine::Machine;
use pagewise_model::price::Prices;
use pagewise_model::{Bytes, Fact, Nanos};
use pagewise_tracee::launch::{Input, Launch, Observe, Sink};
use pagewise_tracee::run::Finished;
use pagewise_tracee::supervise::{SuperviseError, Supervisor};
use pagewise_trial::{Canary, WeatherMark};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Time for re-pricing at the start of a session.
const PRICING: Nanos = Nanos::secs(2);
/// How much of the end of standard error is looked at for what the program said.
const TAIL: u64 = 8_000;
/// Most files that are kept in the page cache.
const MOST_KEPT: usize = 256;
/// Longest line of it that is shown.
const SAID: usize = 160;

/// Told what happens.
pub type Listener<'a> = &'a mut dyn FnMut(&Event<'_>);

/// The real world.
pub struct Live<'a> {
    request: &'a Request,
    supervisor: Supervisor,
    scratch: Scratch,
    canary: pagewise_measure::Canary,
    keeper: Keeper,
    stop: Arc<AtomicBool>,
    listener: Listener<'a>,
}

impl std::fmt::Debug for Live<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("scratch", &self.scratch).finish_non_exhaustive()
    }
}

impl<'a> Live<'a> {
    /// Starts the supervising process (`exe args... FD`) and makes the scratch directory.
    ///
    /// # Errors
    /// When either fails.
    pub fn start(
        request: &'a Request,
        exe: &Path,
        args: &[&str],
        stop: Arc<AtomicBool>,
        listener: Listener<'a>,
    ) -> Result<Self, Stop> {
        let scratch = Scratch::create(&std::env::temp_dir())
            .map_err(|e| Stop::Broken(format!("cannot make a scratch directory: {e}")))?;
        let supervisor = Supervisor::start(exe, args).map_err(stopped)?;
        let canary = pagewise_measure::Canary::new();
        let room = limits::experiment_memory().map_or(Bytes(0), |room| room.bytes);
        let keeper = Keeper::new(room);
        Ok(Self { request, supervisor, scratch, canary, keeper, stop, listener })
    }

    fn launch(&self, arm: &Arm) -> Launch {
        Launch {
            settings: arm.settings.clone(),
            stdin: self.request.input.clone().map_or(Input::Null, Input::File),
            stdout: match self.request.stdout {
                StdoutTo::Null => Sink::Null,
                StdoutTo::Pipe => Sink::Pipe,
                StdoutTo::File => Sink::File(self.scratch.file("timed-stdout")),
            },
            memory_limit_bytes: limits::experiment_memory().ok().map(|room| room.bytes),
            ..Launch::experiment(arm.command.clone())
        }
    }

    fn run(&mut self, launch: &Launch) -> Result<Finished, Stop> {
        self.around(self.request.prepare.as_deref(), "--prepare")?;
        let stop = Arc::clone(&self.stop);
        let interrupted = move || stop.load(Ordering::Relaxed);
        let finished = self.supervisor.run(launch, &interrupted).map_err(stopped)?;
        self.around(self.request.cleanup.as_deref(), "--cleanup")?;
        if finished.over_memory {
            return Err(Stop::Broken(format!(
                "the program took more memory than this machine can spare ({})",
                launch.memory_limit_bytes.unwrap_or_default()
            )));
        }
        Ok(finished)
    }

    /// `--prepare` or `--cleanup`, outside of every clock.
    fn around(&mut self, command: Option<&str>, which: &'static str) -> Result<(), Stop> {
        let Some(command) = command else { return Ok(()) };
        let argv = ["sh", "-c", command].map(OsString::from).to_vec();
        let launch = Launch { stderr: Sink::Inherit, ..Launch::experiment(argv) };
        let stop = Arc::clone(&self.stop);
        let interrupted = move || stop.load(Ordering::Relaxed);
        let ended = self.supervisor.run(&launch, &interrupted).map_err(stopped)?.usage.ended;
        if ended.success() { Ok(()) } else { Err(Stop::Around { which, ended }) }
    }

    /// Keeps the program's files in the page cache until the session ends: its executables, its
    /// input, and every argument that names a file.
    fn keep_warm(&mut self, traced: &Traced) {
        let seen = traced.processes.iter().flat_map(|p| std::iter::once(&p.exe).chain(&p.args));
        let mut paths: BTreeSet<PathBuf> = seen.map(PathBuf::from).collect();
        paths.extend(self.request.command.iter().map(PathBuf::from));
        paths.extend(self.request.input.clone());
        for path in paths.iter().take(MOST_KEPT) {
            self.keeper.hold(path);
        }
    }

    fn streams(&self, stdout: &Path, stderr: &Path) -> Vec<(String, Option<Stream>)> {
        let read = |path: &Path| {
            File::open(path)
                .ok()
                .and_then(|f| Stream::read(BufReader::with_capacity(1 << 20, f)).ok())
        };
        let mut all = vec![
            ("standard output".to_owned(), read(stdout)),
            ("standard error".to_owned(), read(stderr)),
        ];
        for path in &self.request.outputs {
            all.push((format!("file {}", path.display()), read(path)));
        }
        all
    }
}

fn stopped(error: SuperviseError) -> Stop {
    match error {
        SuperviseError::Launch(error) => Stop::Launch(error),
        SuperviseError::Interrupted => Stop::Interrupted,
        other => Stop::Broken(other.to_string()),
    }
}

/// Last line that is not empty of a file.
fn last_line(path: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let len = file.metadata()?.len();
        file.seek(SeekFrom::Start(len.saturating_sub(TAIL)))?;
        let mut bytes = Vec::new();
        file.take(TAIL).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().rev().map(str::trim).find(|l| !l.is_empty()).unwrap_or_default();
    line.chars().take(SAID).collect()
}

impl World for Live<'_> {
    fn machine(&mut self) -> Machine {
        pagewise_kernel::machine::machine()
    }

    fn prices(&mut self) -> Result<Prices, Stop> {
        let cache = dirs::cache_dir().ok().map(|dir| dir.join("prices.json"));
        let options = Options { budget_ns: PRICING, cache, fresh: false };
        let stop = Arc::clone(&self.stop);
        let priced = pagewise_measure::calibrate(&options, &|| stop.load(Ordering::Relaxed));
        priced.map_err(|error| match error {
            PriceError::Interrupted => Stop::Interrupted,
            other => Stop::Broken(other.to_string()),
        })
    }

    fn traced(&mut self) -> Result<(Fact<Traced>, String), Stop> {
        let stderr = self.scratch.file("look-stderr");
        let plain = crate::choose::plain(self.request);
        let launch = Launch { stderr: Sink::File(stderr.clone()), ..self.launch(&plain) };
        self.around(self.request.prepare.as_deref(), "--prepare")?;
        let stop = Arc::clone(&self.stop);
        let interrupted = move || stop.load(Ordering::Relaxed);
        let scratch = [self.scratch.path().to_owned()];
        let traced = match self.supervisor.traced(&launch, &scratch, &interrupted) {
            Ok(traced) => {
                self.keep_warm(&traced);
                Fact::Known(traced)
            }
            Err(SuperviseError::Trace(why)) => Fact::Missing(why),
            Err(other) => return Err(stopped(other)),
        };
        self.around(self.request.cleanup.as_deref(), "--cleanup")?;
        Ok((traced, last_line(&stderr)))
    }

    fn timed(&mut self, arm: &Arm, observed: bool) -> Result<Timed, Stop> {
        let observe = Observe { samples: observed, walks: observed };
        let launch = Launch { observe, ..self.launch(arm) };
        let done = self.run(&launch)?;
        Ok(Timed {
            watched: done.watches.into_iter().map(|w| (w.watch, w.counter)).collect(),
            huge_faults: done.huge_faults,
            cpus_at_end: done.cpus_at_end,
            supervisor_ns: done.supervisor_ns,
            samples: done.samples,
            walks: done.walks,
            usage: done.usage,
        })
    }

    fn captured(&mut self, arm: &Arm) -> Result<Captured, Stop> {
        let stdout = self.scratch.file("stdout");
        let stderr = self.scratch.file("stderr");
        let launch = Launch {
            stdout: Sink::File(stdout.clone()),
            stderr: Sink::File(stderr.clone()),
            ..self.launch(arm)
        };
        let ended = self.run(&launch)?.usage.ended;
        Ok(Captured { ended, streams: self.streams(&stdout, &stderr) })
    }

    fn condition(&mut self, bytes: Bytes) {
        let stop = Arc::clone(&self.stop);
        let interrupted = move || stop.load(Ordering::Relaxed);
        let room = limits::experiment_memory().map_or(Bytes(0), |room| room.bytes);
        // A machine that cannot give the memory leaves the block as it is; the host's share of
        // each run is measured all the same.
        let _unconditioned = self.supervisor.condition(bytes.min(room), &interrupted);
    }

    fn canary(&mut self) -> Canary {
        Canary {
            register_ns: pagewise_measure::register_canary(),
            memory_ns: self.canary.memory_canary(),
        }
    }

    fn weather(&mut self) -> WeatherMark {
        let stall = |resource| pressure::read(resource).ok().map(|p| p.some.total_ns);
        WeatherMark {
            steal_ns: system_stat::steal().unwrap_or_default(),
            cpu_stall_ns: stall(pressure::Resource::Cpu),
            memory_stall_ns: stall(pressure::Resource::Memory),
        }
    }

    fn now(&self) -> Nanos {
        clock::now()
    }

    fn interrupted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn tell(&mut self, event: &Event<'_>) {
        (self.listener)(event);
    }
}
