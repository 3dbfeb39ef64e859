//! `pagewise merge`, `pagewise fleet`

use clap::{ArgGroup, Args, Subcommand};
use pagewise_model::Nanos;
use std::path::PathBuf;

/// `pagewise merge`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise merge results/
  pagewise merge results/ --ndjson fleet.ndjson
  pagewise merge results/ --json | jq '.[].word'

Pools the sessions of many hosts, each a file of `tune --json`, into one answer
for each arm: keep, reject, differs by class (processor, kernel, huge pages), or
cannot tell. The sessions of one host are pooled first and count as one host.
Hosts are named by files called ARRAY.TASK.RESTART.HOST.json, as the scripts of
pagewise fleet write them; of a task that was started again, only the last start
counts. Any other file counts as a host of its own.

Exit codes: 0 done; 2 usage, or a file that is no saved run; 3 no arm has an
answer.")]
pub(crate) struct MergeArgs {
    /// Directories and files of saved runs
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Write one line of JSON for each session and arm to FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) ndjson: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `pagewise fleet`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise fleet script last --slurm --hosts 16 --results /shared/heap > job.sh
  pagewise fleet script last --ansible --results ./results > play.yml
  pagewise fleet script last --kubernetes --hosts 8 --image app:1 > job.yml
  pagewise merge /shared/heap
  pagewise fleet rank /shared/samples

pagewise has no daemon: existing engines run it on every host. docs/fleet.md
goes through all steps.")]
pub(crate) struct FleetArgs {
    #[command(subcommand)]
    pub(crate) verb: FleetCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FleetCommand {
    /// Print a script that measures the remedy of a run on many hosts
    Script(FleetScriptArgs),
    /// List the hosts on which remedies will probably save most, from samples of `top`
    Rank(FleetRankArgs),
}

/// `pagewise fleet rank`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise top --json >> /shared/samples/$(hostname).json   (on each host)
  pagewise fleet rank /shared/samples

Each file holds samples of one host, one or more. A gain is predicted where huge
pages for the heap fit. `busy` and `saves` are in CPUs.

Exit codes: 0 done; 2 usage, or a file that holds no samples; 3 nothing is
predicted on any host.")]
pub(crate) struct FleetRankArgs {
    /// Directories and files of `top --json`, named by host
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `pagewise fleet script`
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("engine").required(true).args(["slurm", "ansible", "kubernetes"]))]
pub(crate) struct FleetScriptArgs {
    /// The run: number from `pagewise history`, `last`, identifier or file [default: the newest]
    #[arg(value_name = "RUN")]
    pub(crate) run: Option<String>,
    /// Print a job array for Slurm
    #[arg(long)]
    pub(crate) slurm: bool,
    /// Print a playbook for Ansible
    #[arg(long)]
    pub(crate) ansible: bool,
    /// Print an indexed Job for Kubernetes
    #[arg(long, requires = "image")]
    pub(crate) kubernetes: bool,
    /// Number of hosts (not for Ansible, which has an inventory)
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) hosts: u32,
    /// Directory of the results
    #[arg(long, value_name = "DIR", default_value = "results")]
    pub(crate) results: String,
    /// Container image with pagewise and the program
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Option<String>,
    /// Volume claim for the results of the pods
    #[arg(long, value_name = "NAME", default_value = "pagewise-results")]
    pub(crate) claim: String,
    /// Time for each session [default: as for tune]
    #[arg(long, value_name = "TIME")]
    pub(crate) budget: Option<Nanos>,
}
