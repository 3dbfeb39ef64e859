//! The options in force, which another meter may change while this one runs ([`super::remote`]).
//!
//! The display takes them again at each update. What moves the data looks at one flag after each
//! step and takes them when it is set.

use super::asked::Asked;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

/// The options of this meter.
#[derive(Debug)]
pub(super) struct Control {
    asked: RwLock<Arc<Asked>>,
    /// Whether they have changed since the mover of the data last took them.
    pub(super) is_new: AtomicBool,
}

impl Control {
    pub(super) fn new(asked: Asked) -> Self {
        Self { asked: RwLock::new(Arc::new(asked)), is_new: AtomicBool::new(false) }
    }

    /// The options in force.
    pub(super) fn asked(&self) -> Arc<Asked> {
        Arc::clone(&self.asked.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts others in force.
    pub(super) fn set(&self, asked: Asked) {
        *self.asked.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(asked);
        self.is_new.store(true, Relaxed);
    }
}
