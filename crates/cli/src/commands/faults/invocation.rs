//! The request of `faults`, from the command line and the budget file.

use crate::args::FaultsArgs;
use crate::budget_file;
use crate::failure::CommandFailure;
use crate::terminal;
use pagewise_kernel::personality;
use pagewise_model::fault::FaultBudgets;
use std::ffi::OsString;
use std::path::Path;

/// A command and its budgets.
#[derive(Debug)]
pub(super) struct FaultInvocation {
    /// Empty if no command is given.
    pub(super) command: Vec<OsString>,
    pub(super) budgets: FaultBudgets,
}

impl FaultInvocation {
    /// The command line overrides the file.
    pub(super) fn from_args(args: &FaultsArgs) -> Result<Self, CommandFailure> {
        let typed = args.budgets();
        let named = match (&args.budget_file, &args.budget) {
            (None, None) => None,
            (file, name) => {
                let file = file.as_deref().unwrap_or(Path::new(budget_file::NAME));
                Some(budget_file::read(file, name.as_deref())?)
            }
        };
        let (mut command, mut budgets) = (args.command.clone(), typed);
        if let Some(named) = named {
            if !args.latency() && named.limits.faults.most_time_ns.is_some() {
                let text = format!("the budget {} has max-fault-time", named.name);
                return Err(CommandFailure::usage(text)
                    .with_help("leave out --exact and --no-latency to judge times"));
            }
            if command.is_empty() {
                command = named.command;
            }
            budgets = first(typed, named.limits.faults);
            if budgets == FaultBudgets::default() {
                let text =
                    format!("the budget {} limits no faults: it would always pass", named.name);
                return Err(CommandFailure::usage(text).with_help(budget_file::KEYS));
            }
        }
        Ok(Self { command, budgets })
    }
}

/// Each budget from `one`, or from `other` if `one` lacks it.
fn first(one: FaultBudgets, other: FaultBudgets) -> FaultBudgets {
    FaultBudgets {
        most_faults: one.most_faults.or(other.most_faults),
        most_major_faults: one.most_major_faults.or(other.most_major_faults),
        most_touched_pages: one.most_touched_pages.or(other.most_touched_pages),
        most_time_ns: one.most_time_ns.or(other.most_time_ns),
    }
}

/// Fixes the addresses of programs started from now on, if `invocation` requests it or `budgets` need it.
/// Returns whether addresses are fixed (docs/decisions/019-budgets-at-fixed-addresses.md).
pub(in super::super) fn settle_addresses(
    invocation: bool,
    budgets: &FaultBudgets,
) -> Result<bool, CommandFailure> {
    if !invocation && !budgets.move_with_addresses() {
        return Ok(personality::has_fixed_addresses());
    }
    match personality::fix_addresses() {
        Ok(()) => Ok(true),
        Err(error) if invocation => {
            Err(CommandFailure::unfit(format!("cannot turn off address randomisation: {error}"))
                .with_help("in a container its seccomp profile must allow personality(2)"))
        }
        Err(error) => {
            let what = "page and fault counts vary from run to run";
            terminal::remark(&format!("cannot turn off address randomisation, so {what}: {error}"));
            Ok(personality::has_fixed_addresses())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_comes_first() {
        let typed = FaultBudgets { most_faults: Some(1), ..FaultBudgets::default() };
        let file = FaultBudgets { most_faults: Some(9), most_major_faults: Some(0), ..typed };
        let both = first(typed, file);
        assert_eq!((both.most_faults, both.most_major_faults), (Some(1), Some(0)));
    }
}
