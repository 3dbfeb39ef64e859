//! Sessions of constructed worlds.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod fits;
mod session;
mod support;
mod text;
