//! Judgements of recorded measurements.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod activity;
mod ladder;
mod profile;
mod replay;
