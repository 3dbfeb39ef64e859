//! The options in force, which another meter may change while this one runs ([`super::remote`]).
//!
//! The display reads them at each update. The thread that moves the data checks one flag after each step, and
//! reads them if it is set.

use super::options::MeterOptions;
use crate::message::tell;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

/// The options of this meter.
#[derive(Debug)]
pub(super) struct MeterControl {
    options: RwLock<Arc<MeterOptions>>,
    /// Whether they have changed since the data thread last read them.
    pub(super) is_new: AtomicBool,
    /// Whether the cursor is in a line that the display has drawn.
    pub(super) is_in_line: AtomicBool,
}

impl MeterControl {
    pub(super) fn new(options: MeterOptions) -> Self {
        let (is_new, is_in_line) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { options: RwLock::new(Arc::new(options)), is_new, is_in_line }
    }

    /// Prints a message. As pv does, first ends the line that the display has drawn.
    pub(super) fn tell(&self, text: &str) {
        if self.is_in_line.load(Relaxed) {
            let _left = io::stderr().write_all(b"\n");
        }
        tell("meter", text);
    }

    /// The options in force.
    pub(super) fn options(&self) -> Arc<MeterOptions> {
        Arc::clone(&self.options.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the options in force.
    pub(super) fn set(&self, options: MeterOptions) {
        *self.options.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(options);
        self.is_new.store(true, Relaxed);
    }
}
