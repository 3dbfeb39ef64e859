//! What the user asked of a session: saved with it word for word, so that it can be continued, checked again, and
//! run on other hosts.

use crate::guard::Guard;
use crate::os_text::{self, OsTextSchema};
use crate::plan::Dose;
use crate::service::Mode;
use crate::trial::Quantity;
use crate::units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Everything that a session of `tune`, `ab` or `bench text -- COMMAND` was asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spec {
    /// The program and its arguments; of a service the server's.
    #[serde(with = "os_text::list")]
    #[schemars(with = "Vec<OsTextSchema>")]
    pub command: Vec<OsString>,
    /// The directory that it starts in.
    #[serde(with = "os_text")]
    #[schemars(with = "OsTextSchema")]
    pub directory: PathBuf,
    /// Where standard input comes from in each run.
    pub input: Input,
    /// Where standard output goes in timed runs.
    pub stdout: StdoutTo,
    /// Files that the program writes, compared between arms.
    #[serde(with = "os_text::list")]
    #[schemars(with = "Vec<OsTextSchema>")]
    pub outputs: Vec<PathBuf>,
    /// The user says that it may run again whatever it writes.
    pub rerun_safe: bool,
    /// Shell command before each run.
    pub prepare: Option<String>,
    /// Shell command after each run.
    pub cleanup: Option<String>,
    /// A failing program is accepted.
    pub ignore_failure: bool,
    /// Stop after the advice.
    pub advise: bool,
    /// Only these doses are tried, fitting or not.
    pub only: Option<Vec<Dose>>,
    /// Arms of the user's own.
    pub own_arms: Vec<OwnArm>,
    /// What decides.
    pub quantity: Quantity,
    /// What an arm may not pass, whatever it gains.
    pub guards: Vec<Guard>,
    /// One run at a time, also where runs at once would answer sooner.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_turn: bool,
    /// Time for the experiment; the default depends on the program.
    pub budget_ns: Option<Nanos>,
    /// Seed of the random orders.
    pub seed: u64,
    /// The load of a service, and how its server is started.
    pub service: Option<ServiceSpec>,
}

impl Spec {
    /// A session of `command` in this directory, with nothing asked beside it.
    #[must_use]
    pub const fn new(command: Vec<OsString>, directory: PathBuf, seed: u64) -> Self {
        Self {
            command,
            directory,
            input: Input::Null,
            stdout: StdoutTo::Pipe,
            outputs: Vec::new(),
            rerun_safe: false,
            prepare: None,
            cleanup: None,
            ignore_failure: false,
            advise: false,
            only: None,
            own_arms: Vec::new(),
            quantity: Quantity::Time,
            guards: Vec::new(),
            in_turn: false,
            budget_ns: None,
            seed,
            service: None,
        }
    }

    /// Whether another process can make the same runs.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        let server = self.service.as_ref().map(|service| &service.server);
        let runs_already = matches!(server, Some(ServerSpec::Running { .. }));
        !runs_already && self.directory.is_absolute() && self.input.elsewhere().is_some()
    }
}

/// An arm of the user's own: another command to set against the plain one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnArm {
    /// Its name.
    #[serde(deserialize_with = "crate::name::arm")]
    pub name: String,
    /// Its command.
    #[serde(with = "os_text::list")]
    #[schemars(with = "Vec<OsTextSchema>")]
    pub command: Vec<OsString>,
}

/// A service under a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceSpec {
    /// The command that starts it, as typed; or how a running one was started, as far as it shows.
    pub serve: String,
    pub server: ServerSpec,
    /// Shell command that loads it and ends.
    pub load: String,
    /// How long a run of the load may take.
    pub load_within_ns: Nanos,
    /// What reads the output of the load.
    pub metric: String,
    /// How long a server is warmed up at most.
    pub warm_up_ns: Nanos,
}

/// Where the servers come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServerSpec {
    /// They are started.
    Started {
        /// When one is ready, as typed.
        ready: String,
        /// How long that may take.
        ready_within_ns: Nanos,
        /// The command that ends one; SIGTERM without it.
        stop: Option<String>,
        /// How long its end may take.
        stop_within_ns: Nanos,
        /// How they are to be compared; none: what fits.
        mode: Option<Mode>,
    },
    /// One runs already.
    Running { pid: i32 },
}

/// Where standard output went in timed runs, the same for all arms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum StdoutTo {
    /// /dev/null, for which some programs do no work.
    Null,
    /// A pipe that is emptied at once.
    #[default]
    Pipe,
    /// A scratch file.
    File,
}

/// Where standard input comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// /dev/null.
    Null,
    /// A file, opened for each start.
    File(
        #[serde(with = "os_text")]
        #[schemars(with = "OsTextSchema")]
        PathBuf,
    ),
    /// The standard input of pagewise, opened again for each start.
    Again {
        /// The place in it.
        at: u64,
        /// A path to all of it, if it has one.
        #[serde(with = "os_text::optional")]
        #[schemars(with = "Option<OsTextSchema>")]
        path: Option<PathBuf>,
    },
    /// The stand-in for the standard input of pagewise, which can be read only once.
    Ended(Once),
    /// The standard input of pagewise itself.
    Inherit,
}

/// What can be read only once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Once {
    Pipe,
    /// A socket that carries a stream.
    Stream,
    /// A socket that carries datagrams.
    Datagrams,
    /// A socket that carries packets in order.
    Packets,
}

/// The standard input of this process as a path.
pub const OWN_INPUT: &str = "/proc/self/fd/0";

impl Once {
    /// What it is, in words.
    #[must_use]
    pub const fn what(self) -> &'static str {
        match self {
            Self::Pipe => "a pipe",
            Self::Stream | Self::Datagrams | Self::Packets => "a socket",
        }
    }
}

impl Input {
    /// A path by which a start of the user's own has the same input.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Again { path, .. } => path.as_deref(),
            Self::Null | Self::Ended(_) | Self::Inherit => None,
        }
    }

    /// A path by which this process can open the file.
    #[must_use]
    pub fn place(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Again { .. } => Some(Path::new(OWN_INPUT)),
            Self::Null | Self::Ended(_) | Self::Inherit => None,
        }
    }

    /// The same for another process; none where the input has no path.
    #[must_use]
    pub fn elsewhere(&self) -> Option<Self> {
        match self {
            Self::Null | Self::Ended(_) => Some(Self::Null),
            Self::File(_) | Self::Again { .. } | Self::Inherit => {
                Some(Self::File(self.path()?.to_owned()))
            }
        }
    }
}
