//! Records another program: what its processes are, map, share and do ([`trace`]), the code that its
//! page faults and samples came from ([`faults`], [`profile`]), what a running process has at an address
//! ([`address`]), which processes of the host pay for pages ([`top`]), how files and processes map their code ([`text`]), what linkers work with ([`order`]), and
//! profiles of other tools ([`import`]).
//!
//! What comes out are the facts of `pagewise_model::look`, plain data that can be saved; nothing is
//! judged here. How a thread is stopped and its memory read is `tracee`'s, and so are the samples
//! and counters that the supervisor takes while it runs a program. Overhead: each module's text.
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
