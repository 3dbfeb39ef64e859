//! What the figures of each bench say, by the name of its command: `bench pipe` is [`pipe`], `bench text` is
//! [`code`].

mod best;
pub mod code;
#[cfg(test)]
mod fairness;
pub mod file;
pub mod fork;
mod larger;
pub mod memory;
pub mod pin;
pub mod pipe;
pub mod tlb;
