//! What the figures of each bench show. [`pipe`] judges `bench pipe`, [`text`] judges `bench text`.

mod best;
#[cfg(test)]
mod fairness;
pub mod file;
pub mod fork;
mod larger;
pub mod memory;
pub mod pin;
pub mod pipe;
pub mod text;
pub mod text_load;
pub mod tlb;
