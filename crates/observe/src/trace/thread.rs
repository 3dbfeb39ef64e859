//! The state of one thread between two stops.

use super::effects::CallIntent;
use pagewise_tracee::untraced::ClearedFlags;

/// The action to take when a call returns.
#[derive(Debug)]
pub(super) enum PendingAction {
    Effect(Box<CallIntent>),
    Break,
    Close,
    /// It makes a thread, which was to be untraced.
    Untraced(ClearedFlags),
}

#[derive(Debug)]
pub(super) struct TracedThread {
    pub(super) pid: i32,
    pub(super) pending: Option<PendingAction>,
    /// The tracer has asked it to stop.
    pub(super) interrupted: bool,
    /// A single step may not have ended yet.
    pub(super) stepped: bool,
    /// Stopped by job control.
    pub(super) parked: bool,
}

impl TracedThread {
    /// One of process `pid` that has just appeared.
    pub(super) const fn new(pid: i32) -> Self {
        Self { pid, pending: None, interrupted: false, stepped: false, parked: false }
    }

    /// Nothing is being waited for that a step would disturb.
    pub(super) const fn may_be_stepped(&self) -> bool {
        !self.parked && !self.interrupted && self.pending.is_none()
    }
}
