//! Queries to the Linux kernel: about this process, about others through `/proc`, and about the machine. One
//! file per kernel interface.
//!
//! Everything here reports facts in the types of `pagewise-model` and prints nothing. Calls fail with
//! [`SysError`], which names the call and its subject. Newer calls are tried, never guessed from a version
//! number. Nothing in this crate changes another process; `tracee` does that.

#![allow(
    unsafe_code,
    reason = "this crate is where the product talks to the kernel; one operation a block"
)]

pub mod affinity;
pub mod attributes;
pub mod cached_file;
pub mod cached_pages;
pub mod cachestat;
mod child;
pub mod clock;
pub mod closing;
pub mod code_region;
pub mod cpuid;
pub mod dirs;
pub mod doctor;
pub mod error;
pub mod file_system;
pub mod file_view;
pub mod gup_test;
pub mod helper;
pub mod hugetext;
pub mod hugetlb;
mod ioctl;
pub mod kallsyms;
pub mod keep;
pub mod limits;
pub mod link;
pub mod linker_cache;
pub mod lock;
pub mod machine;
pub mod memory_group;
pub mod message_queue;
pub mod mount_namespace;
pub mod opens;
pub mod output_file;
pub mod own_usage;
pub mod page_cache;
pub mod page_frames;
pub mod page_probe;
pub mod page_size;
pub mod page_table;
pub mod pagemap;
pub mod part_file;
pub mod perf;
pub mod personality;
pub mod pidfd;
pub mod pipe;
pub mod privilege;
pub mod proc;
pub mod region;
pub mod scheduling;
pub mod start;
pub mod state_file;
pub mod thp;
pub mod title;
pub mod tlb;
pub mod tool_program;
pub mod topology;
pub mod trusted_path;
pub mod tsc_x86_64;
pub mod userfault;
pub mod worker;

pub use error::SysError;
