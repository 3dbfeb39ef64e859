//! Address randomisation of the program that is recorded: without it where budgets count faults or
//! pages, and where that is asked for (docs/decisions/019-budgets-at-fixed-addresses.md).

use crate::failure::Failure;
use crate::terminal;
use pagewise_kernel::personality;
use pagewise_model::fault::Budgets;

/// Fixes the addresses of what is started from here on where that is `asked` for or `budgets` need it;
/// tells whether they are fixed.
pub(super) fn settle(asked: bool, budgets: &Budgets) -> Result<bool, Failure> {
    if !asked && !budgets.move_with_addresses() {
        return Ok(personality::has_fixed_addresses());
    }
    match personality::fix_addresses() {
        Ok(()) => Ok(true),
        Err(error) if asked => Err(Failure::unfit(format!("addresses cannot be fixed: {error}"))
            .with_help("in a container its seccomp profile must allow personality(2)")),
        Err(error) => {
            let what = "pages and faults move by some from run to run";
            terminal::remark(&format!("addresses stay random, {what}: {error}"));
            Ok(personality::has_fixed_addresses())
        }
    }
}
