//! The thin safe layer over `ptrace(2)`: requests on one thread, decoded stops, the memory of
//! another process, and [`Stopped`], the token that must be held to touch a thread's registers.
//!
//! Only `PTRACE_SEIZE` is used, never `PTRACE_ATTACH`: it sends no SIGSTOP, so that nothing is
//! left behind when the tracer dies. All requests must come from the thread that seized. A stop
//! costs 5 to 20 us, most of it the switch between two processes.

mod memory;
#[cfg(target_arch = "x86_64")]
mod regs_x86_64;
pub mod request;
pub mod stop;
mod stopped;

pub use memory::{read_memory, read_u64, write_memory};
#[cfg(target_arch = "x86_64")]
pub use regs_x86_64::{Regs, cleared, fs_base, gs_base};
pub use stop::Stop;
pub use stopped::{Halt, Stopped, collect};
