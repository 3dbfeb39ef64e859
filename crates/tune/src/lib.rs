//! The session of the main job: look, diagnose, choose, race, receipt.
//!
//! [`session::Session`] is a state machine over [`world::World`], the few things that reach
//! outside: run the program, read the clock, tell the user. [`live::Live`] is the real world;
//! tests replay a recorded one, so every path of a session runs without a program, a clock or a
//! kernel. `pagewise ab` is the same engine with commands of the user's ([`ab`]).
#![forbid(unsafe_code)]

pub mod ab;
pub mod choose;
pub mod conditions;
mod expectation;
pub mod experiment;
pub mod faults;
mod files;
mod folios;
pub mod live;
mod look;
pub mod output;
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
