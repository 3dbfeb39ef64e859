//! Work on other processes: start them, supervise their tree, stop and read their threads, inject calls, take
//! samples. What a traced run is recorded for belongs to `observe`.
//!
//! Only experiments and `run` use this crate; users of the libraries never do. Every program started here
//! dies with this process. Processes that were neither started here nor named by the user are never touched.

#![allow(
    unsafe_code,
    reason = "acting on other processes needs system calls no safe wrapper offers; one operation a block"
)]

mod borrowed_x86_64;
pub mod checkpoint;
mod child;
mod child_ends;
pub mod collapse;
mod descendants;
mod descriptors;
mod drain;
pub mod elf;
pub mod environment;
pub mod first_calls;
mod follow;
pub mod glibc;
mod holdings;
pub mod inject;
mod input;
pub mod jvm;
pub mod launch;
mod launch_error;
pub mod lending;
mod limits;
pub mod made_maps;
pub mod mapped_file;
mod memory;
pub mod memory_peak;
pub mod memory_use;
pub mod passthrough;
pub mod perf;
pub mod pipes;
pub mod placement;
mod program;
pub mod ptrace;
pub mod read_ahead;
pub mod recorder;
pub mod run;
mod run_delay;
pub mod seccomp;
mod signals;
mod stdio;
pub mod supervise;
pub mod target;
mod tool_links;
mod touch;
pub mod tree;
pub mod untraced;
pub mod vdso;
pub mod wait;
#[cfg(test)]
mod waiting;
pub mod watcher;
mod witness;
