//! `pagewise apply`

use clap::{ArgGroup, Args};
use std::path::PathBuf;

/// `pagewise apply`
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("task").multiple(false))]
#[command(after_help = "\
Examples:
  pagewise apply last --systemd redis-server     a drop-in of the unit (root)
  pagewise apply --systemd sync --user           a drop-in of your own unit
  pagewise apply 3 --wrapper ~/bin               a script in the program's place
  pagewise apply --env-file app.env              EnvironmentFile=, --env-file
  pagewise apply --compose tuned.yaml --name db  an override file of Compose
  pagewise apply --kubernetes patch.yaml --name db
  pagewise apply --list
  pagewise apply --undo                          the newest change
  pagewise apply --undo 2

pagewise shows the change and writes it after you confirm it. It first checks
drop-ins (systemd-analyze verify) and wrappers (sh -n). Then run the commands
that it prints. Only a proven gain is applied; see --likely.

Exit codes: 0 done, or nothing to do; 2 usage, refused or failed.")]
pub(crate) struct ApplyArgs {
    /// The run: number from `pagewise history`, `last`, identifier or file [default: the newest]
    #[arg(conflicts_with_all = ["list", "undo"])]
    pub(crate) run: Option<String>,
    /// Write a drop-in of this systemd service
    #[arg(long, value_name = "UNIT", group = "task")]
    pub(crate) systemd: Option<String>,
    /// Use the units of your account, not those of the machine
    #[arg(long, requires = "systemd")]
    pub(crate) user: bool,
    /// Write a script with the program's name into DIR
    #[arg(long, value_name = "DIR", group = "task")]
    pub(crate) wrapper: Option<PathBuf>,
    /// Write environment variables to FILE as lines NAME=value
    #[arg(long, value_name = "FILE", group = "task")]
    pub(crate) env_file: Option<PathBuf>,
    /// Write an override for Compose to FILE
    #[arg(long, value_name = "FILE", group = "task", requires = "name")]
    pub(crate) compose: Option<PathBuf>,
    /// Write a patch for kubectl to FILE
    #[arg(long, value_name = "FILE", group = "task", requires = "name")]
    pub(crate) kubernetes: Option<PathBuf>,
    /// The service in the Compose file, or the container in the pod
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Also apply a likely gain, not only a proven one
    #[arg(long)]
    pub(crate) likely: bool,
    /// Overwrite an existing file; --undo restores it
    #[arg(long)]
    pub(crate) replace: bool,
    /// Show the change and write nothing
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
    /// Write without asking
    #[arg(long, short, conflicts_with = "dry_run")]
    pub(crate) yes: bool,
    /// Print as JSON; never asks
    #[arg(long)]
    pub(crate) json: bool,
    /// List the changes in effect
    #[arg(long, group = "task")]
    pub(crate) list: bool,
    /// Undo change N of --list [default: the newest]
    #[arg(long, value_name = "N", num_args = 0..=1, group = "task")]
    pub(crate) undo: Option<Option<u32>>,
    /// Undo even if the file was edited since; those edits are lost
    #[arg(long, requires = "undo")]
    pub(crate) force: bool,
}
