//! The session of the main job: look, diagnose, choose, race, receipt.
//!
//! There is one [`session`], of a program that ends ([`session::run`]), of a server that is started for each pair
//! and of a process that runs already ([`service`]). It works over a [`world::World`] (or that of a service), the
//! few things that reach outside: run the program, read the clock, tell the user. [`live::Live`] is the real
//! world; tests have simulated ones, so every path of a session runs without a program, a clock or a kernel.
//! `pagewise ab` is the same engine with commands of the user's ([`ab`]).
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
pub mod world;

pub use request::Request;
pub use stop::{INPUT_HELP, Stop};
