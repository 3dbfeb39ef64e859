//! Rendered reports of constructed and recorded runs.

#![allow(clippy::unwrap_used, reason = "constructed facts hold what is unwrapped")]

mod address;
mod brief;
mod choice;
mod code;
mod collapse;
mod faults;
mod file;
mod first_touch;
mod golden;
mod hostile;
mod jump;
mod ladder;
mod memory;
mod pin;
mod profile;
mod saved;
mod support;
mod text_load;
mod text_trial;
mod walk;
