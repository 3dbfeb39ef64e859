//! The user's request for a session. It is saved word for word, so that the session can be continued, checked
//! again, and run on other hosts.

use crate::guard::ArmGuard;
use crate::os_text;
use crate::plan::RemedyDose;
use crate::schema::JsonSchema;
use crate::service::ServiceMode;
use crate::trial::ComparedQuantity;
use crate::units::Nanos;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The whole request for a session of `tune`, `ab` or `bench text -- COMMAND`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionSpec {
    /// The program and its arguments; for a service, those of the server.
    #[serde(with = "os_text::list")]
    #[schemars(with = "Vec<crate::schema::OsTextSchema>")]
    pub command: Vec<OsString>,
    /// Directory in which the program starts.
    #[serde(with = "os_text")]
    #[schemars(with = "crate::schema::OsTextSchema")]
    pub directory: PathBuf,
    /// Source of standard input in each run.
    pub input: StdinSource,
    /// Destination of standard output in timed runs.
    pub stdout: StdoutTarget,
    /// Files that the program writes, compared between arms.
    #[serde(with = "os_text::list")]
    #[schemars(with = "Vec<crate::schema::OsTextSchema>")]
    pub outputs: Vec<PathBuf>,
    /// True if the user declares that the program may run again, whatever it writes.
    pub rerun_safe: bool,
    /// Shell command to run before each run.
    pub prepare: Option<String>,
    /// Shell command to run after each run.
    pub cleanup: Option<String>,
    /// True if a failing program is accepted.
    pub ignore_failure: bool,
    /// True to stop after the advice.
    pub advise: bool,
    /// Doses to try exclusively, whether they fit or not.
    pub only: Option<Vec<RemedyDose>>,
    /// Arms that the user added.
    pub own_arms: Vec<OwnArm>,
    /// The quantity that decides.
    pub quantity: ComparedQuantity,
    /// Bounds that an arm must keep, whatever it gains.
    pub guards: Vec<ArmGuard>,
    /// True to make one run at a time, even if runs at the same time would answer sooner.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_turn: bool,
    /// Time for the experiment; the default depends on the program.
    pub budget_ns: Option<Nanos>,
    /// Seed of the random orders.
    pub seed: u64,
    /// The load of a service, and how its server is started.
    pub service: Option<ServiceSpec>,
}

impl SessionSpec {
    /// A session of `command` in this directory, without options.
    #[must_use]
    pub const fn new(command: Vec<OsString>, directory: PathBuf, seed: u64) -> Self {
        Self {
            command,
            directory,
            input: StdinSource::Null,
            stdout: StdoutTarget::Pipe,
            outputs: Vec::new(),
            rerun_safe: false,
            prepare: None,
            cleanup: None,
            ignore_failure: false,
            advise: false,
            only: None,
            own_arms: Vec::new(),
            quantity: ComparedQuantity::Time,
            guards: Vec::new(),
            in_turn: false,
            budget_ns: None,
            seed,
            service: None,
        }
    }

    /// True if another process can make the same runs.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        let server = self.service.as_ref().map(|service| &service.server);
        let runs_already = matches!(server, Some(ServerSpec::Running { .. }));
        !runs_already && self.directory.is_absolute() && self.input.elsewhere().is_some()
    }
}

/// An arm of the user: a command to compare with the plain one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnArm {
    /// Name of the arm.
    #[serde(deserialize_with = "crate::name::arm")]
    pub name: String,
    /// Command of the arm.
    #[serde(with = "os_text::list")]
    #[schemars(with = "Vec<crate::schema::OsTextSchema>")]
    pub command: Vec<OsString>,
}

/// A service with its load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceSpec {
    /// Command that starts the server, as typed; for a running server, how it was started, as far as it
    /// shows.
    pub serve: String,
    pub server: ServerSpec,
    /// Shell command that loads the server and ends.
    pub load: String,
    /// Most time for a run of the load.
    pub load_within_ns: Nanos,
    /// The reader of the load's output.
    pub metric: String,
    /// Most time to warm up a server.
    pub warm_up_ns: Nanos,
}

/// Source of the servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServerSpec {
    /// pagewise starts them.
    Started {
        /// Condition under which a server is ready, as typed.
        ready: String,
        /// Most time for a server to become ready.
        ready_within_ns: Nanos,
        /// Command that ends a server; SIGTERM without it.
        stop: Option<String>,
        /// Most time for a server to end.
        stop_within_ns: Nanos,
        /// Mode of comparison; none for the mode that fits.
        mode: Option<ServiceMode>,
    },
    /// One server runs already.
    Running { pid: i32 },
}

/// Destination of standard output in timed runs, the same for all arms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum StdoutTarget {
    /// /dev/null, for which some programs do no work.
    Null,
    /// A pipe that is read at once.
    #[default]
    Pipe,
    /// A file in a scratch directory.
    File,
}

/// Source of standard input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StdinSource {
    /// /dev/null.
    Null,
    /// A file, opened for each start.
    File(
        #[serde(with = "os_text")]
        #[schemars(with = "crate::schema::OsTextSchema")]
        PathBuf,
    ),
    /// The standard input of pagewise, opened again for each start.
    Again {
        /// Position in the file.
        at: u64,
        /// Path of the whole file, if it has one.
        #[serde(with = "os_text::optional")]
        #[schemars(with = "Option<crate::schema::OsTextSchema>")]
        path: Option<PathBuf>,
    },
    /// A stand-in: the standard input of pagewise can be read only once.
    Ended(OneTimeInput),
    /// The standard input of pagewise itself.
    Inherit,
}

/// Kinds of input that can be read only once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OneTimeInput {
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

impl OneTimeInput {
    /// Description in words.
    #[must_use]
    pub const fn what(self) -> &'static str {
        match self {
            Self::Pipe => "a pipe",
            Self::Stream | Self::Datagrams | Self::Packets => "a socket",
        }
    }
}

impl StdinSource {
    /// A path by which the user's own start has the same input.
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

    /// The same input for another process; none if it has no path.
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
