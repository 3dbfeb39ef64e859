//! The thin safe layer over `ptrace(2)`: requests on one thread, decoded stops, and the memory of
//! another process.
//!
//! A tracer that has seized a thread must wait for its end: an unreaped zombie blocks its whole program. Two
//! rules ensure that. A single thread of a program is held only through `inject::HeldThread`. A tree that is traced
//! from its first exec is served by a dedicated thread until nothing is left to wait for
//! ([`request::wait_stops`]); then that thread ends.
//!
//! Only `PTRACE_SEIZE` is used, never `PTRACE_ATTACH`: it sends no SIGSTOP, so nothing is left behind when
//! the tracer dies. All requests must come from the thread that seized. A stop costs 5 to 20 us, most of it
//! for the switch between two processes.

mod memory;
#[cfg(target_arch = "x86_64")]
mod regs_x86_64;
pub mod request;
pub mod stop;

pub use memory::{read_memory, read_u64, write_memory};
#[cfg(target_arch = "x86_64")]
pub use regs_x86_64::{Regs, cleared, fs_base, gs_base};
pub use stop::PtraceStop;
