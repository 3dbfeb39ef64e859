//! Records another program: what its processes are, map, share and do ([`trace`]), the code that its page
//! faults and samples came from ([`faults`], [`profile`]), what a running process has at an address
//! ([`address`]), which processes of the host pay for pages ([`top`]), how files and processes map their code
//! ([`text`]), what linkers work with ([`order`]), and profiles of other tools ([`import`]).
//!
//! The results are the facts of `pagewise_model::look`, plain data that can be saved. This crate judges
//! nothing. `tracee` stops threads and reads their memory. It also takes the samples and counters while the
//! supervisor runs a program. Overhead: see each module.
#![forbid(unsafe_code)]

pub mod address;
#[cfg(test)]
mod bounded;
pub mod faults;
pub mod import;
pub mod made_code;
pub mod memory;
pub mod order;
pub mod profile;
mod segments;
pub mod text;
pub mod top;
pub mod trace;
