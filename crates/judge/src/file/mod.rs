//! What readings say: which cells did the work they were asked for, what every way costs against read(),
//! where the time goes, what becomes of the published study's findings, and what the machine should do.
//!
//! The entry is [`judge`]; pure, so saved readings are judged again with the same result. A cell whose
//! ledger differs from its work is compared with nothing.
//!
//! Not seen: what a program does with its bytes beyond taking them.

mod account;
mod advice;
mod claims;
mod ledger;
mod prices;
mod ratios;

pub(crate) use ledger::refusals;

use pagewise_model::file::{Judgement, Readings};

/// All conclusions from `readings`.
#[must_use]
pub fn judge(readings: &Readings) -> Judgement {
    let refusals = refusals(readings);
    let ratios = ratios::ratios(readings, &refusals);
    let accounts = account::accounts(readings, &refusals);
    let found =
        claims::Found { readings, refusals: &refusals, ratios: &ratios, accounts: &accounts };
    let claims = claims::claims(&found);
    let advice = advice::advice(readings, &refusals);
    Judgement { refusals, ratios, accounts, claims, advice }
}

#[cfg(test)]
mod tests;
