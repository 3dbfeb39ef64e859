//! What first touches say: what each way to get memory is worth against its baseline, whether what is said
//! of the calls holds here, and what the machine should do.
//!
//! The entry is [`judge`]; pure, so saved touches are judged again with the same result. Mappings of one
//! repeat were made in the same round and are paired. Times are for each base page used.
//!
//! Not seen: what pages of another size are worth later, when the memory is used (`bench tlb` measures
//! that).

mod advice;
mod claims;
mod ratios;

use pagewise_model::first_touch::{FirstTouch, Judgement};

/// All conclusions from `touches`.
#[must_use]
pub fn judge(touches: &FirstTouch) -> Judgement {
    let ratios = ratios::ratios(touches);
    let claims = claims::claims(touches, &ratios);
    let advice = advice::advice(touches, &ratios);
    Judgement { ratios, claims, advice }
}

#[cfg(test)]
mod tests;
