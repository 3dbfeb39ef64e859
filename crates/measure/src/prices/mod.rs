//! What each price has inside the clock, and what it does not see. One file for each subject.

pub(crate) mod chase;
pub(crate) mod file;
pub(crate) mod host;
pub(crate) mod memory;
pub(crate) mod pipe_copy;
pub(crate) mod process;
