//! One file for each price: what is inside the clock, and what it does not see.

pub(crate) mod anon;
pub(crate) mod chase;
pub(crate) mod cow;
pub(crate) mod file_fault;
pub(crate) mod file_read;
pub(crate) mod host;
pub(crate) mod huge;
pub(crate) mod map_unmap;
pub(crate) mod pipe_copy;
pub(crate) mod scratch;
pub(crate) mod spawn;
pub(crate) mod syscall;
pub(crate) mod transfers;
pub(crate) mod wakeup;
pub(crate) mod zero;
