//! The session of the main job: look, diagnose, choose, race, receipt.
//!
//! There is one [`session`] for a program that ends ([`session::run`]), a server that is started for each
//! pair, and a process that already runs ([`service`]). It works on a [`world::ProgramWorld`] (or that of a
//! service), which contains everything that reaches outside: running the program, reading the clock,
//! informing the user. [`live::RealWorld`] is the real world. Tests have simulated ones, so every path of a
//! session runs without a program, a clock or a kernel. `pagewise ab` is the same engine with the user's
//! commands ([`ab`]).
#![forbid(unsafe_code)]

pub mod ab;
mod at_once;
pub mod choose;
pub mod conditions;
mod expectation;
pub(crate) mod experiment;
pub mod faults;
mod files;
mod folios;
pub mod live;
mod look;
pub mod output;
mod program;
pub mod race;
pub mod request;
pub mod scratch;
pub mod service;
pub mod session;
pub mod stop;
pub mod text;
pub mod text_load;
pub mod world;

pub use request::SessionRequest;
pub use stop::{INPUT_HELP, SessionStop};
