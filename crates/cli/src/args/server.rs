//! Options on a server and the load on it, for every command that starts one.

use crate::failure::CommandFailure;
use clap::Args;
use pagewise_judge::service::load::LoadMetric;
use pagewise_model::Nanos;
use pagewise_model::service::ServiceMode;
use pagewise_model::spec::{ServerSpec, ServiceSpec};

/// How a server starts and ends, and the load on it.
#[derive(Debug, Args)]
pub(crate) struct ServerLoadArgs {
    /// When the server is ready: tcp:PORT, http://127.0.0.1:PORT/PATH, exec:CMD, log:REGEX or notify
    #[arg(long, value_name = "WHEN", requires = "serve")]
    pub(crate) ready: Option<String>,
    /// Shell command that sends a fixed number of requests and ends; best within 1 to 3 s
    #[arg(long, value_name = "CMD", requires = "service")]
    pub(crate) load: Option<String>,
    /// Format of the load's report: pgbench, sysbench, redis-benchmark, memtier, wrk, wrk2, ab, hey, k6, oha,
    /// fio, regex:PATTERN or json:PATH [default: by the name of the load's program]
    #[arg(long, value_name = "NAME", requires = "service")]
    pub(crate) metric: Option<String>,
    /// Shell command that ends the server [default: SIGTERM]
    #[arg(long, value_name = "CMD", requires = "serve")]
    pub(crate) stop: Option<String>,
    /// Time for the server to become ready
    #[arg(long, value_name = "TIME", requires = "serve", default_value = "30s")]
    pub(crate) ready_time: Nanos,
    /// Time for the server to end before it is killed
    #[arg(long, value_name = "TIME", requires = "serve", default_value = "10s")]
    pub(crate) stop_time: Nanos,
    /// Time for one run of the load
    #[arg(long, value_name = "TIME", requires = "service", default_value = "60s")]
    pub(crate) load_time: Nanos,
    /// Longest time to warm a server up; it ends when the cost of a request has settled
    #[arg(long, value_name = "TIME", requires = "service", default_value = "20s")]
    pub(crate) warmup: Nanos,
}

impl ServerLoadArgs {
    /// The source of servers that are started.
    pub(crate) fn started(&self, mode: Option<ServiceMode>) -> ServerSpec {
        ServerSpec::Started {
            ready: self.ready.clone().unwrap_or_default(),
            ready_within_ns: self.ready_time,
            stop: self.stop.clone(),
            stop_within_ns: self.stop_time,
            mode,
        }
    }

    /// A server with its load.
    pub(crate) fn service(
        &self,
        serve: String,
        server: ServerSpec,
    ) -> Result<ServiceSpec, CommandFailure> {
        let load = self.load.clone().unwrap_or_default();
        Ok(ServiceSpec {
            serve,
            server,
            metric: self.metric(&load)?.to_string(),
            load,
            load_within_ns: self.load_time,
            warm_up_ns: self.warmup,
        })
    }

    /// The parser of the load generator's output.
    fn metric(&self, load: &str) -> Result<LoadMetric, CommandFailure> {
        if let Some(name) = &self.metric {
            return name.parse().map_err(|why| CommandFailure::usage(format!("--metric: {why}")));
        }
        LoadMetric::guess(load).ok_or_else(|| {
            CommandFailure::usage("cannot tell how the load reports its requests").with_help(
                "name it, for example: --metric wrk, or --metric 'regex:([0-9]+) requests'",
            )
        })
    }
}
