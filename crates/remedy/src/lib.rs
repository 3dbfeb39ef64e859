//! The remedies: each is completely contained in one file.
//!
//! A remedy says in one sentence what it does, whether it fits the evidence, and how much it could give at
//! most (pure functions on facts). It says what exactly it would do ([`RemedyDose`], plain data), how the kernel
//! shows success after a run, what it costs, and which lines keep it. Work that must happen while the program
//! runs is a [`pagewise_tracee::watcher::RunWatcher`]. The supervising process builds it from the dose with
//! [`watch::build`]. Work that must happen before the start ([`warmth`]) is done by the process that starts
//! the program. The tested arm and the printed receipt use the same [`RemedyDose`].
#![forbid(unsafe_code)]

mod allocator;
pub mod apply;
mod arenas;
mod code;
pub mod collapse;
pub mod containers;
mod file_huge;
pub mod fold;
pub mod folio_switches;
mod heap_huge;
mod heap_mthp;
mod heap_small;
pub mod hugetext;
mod idle;
pub mod live;
mod malloc_keep;
mod pipe_grow;
mod pipe_tools;
mod place;
mod pool;
pub mod recache;
pub mod receipt;
pub mod record;
mod registry;
mod remedy;
pub mod reservation;
pub mod saved_cache;
mod systemd;
mod target;
mod text_huge;
mod trim;
pub mod unit;
pub mod warmth;
pub mod watch;
mod working_set;

pub use heap_huge::{INJECT, NAME as HEAP_HUGE};
pub use heap_mthp::NAME as HEAP_MTHP;
pub use idle::idle;
pub use pool::NAME as POOL;
pub use registry::{RemedyError, all, clash, derived, find, misfit, parse_list, unseen};
pub use remedy::{Remedy, RemedyEvidence, RemedyMechanism};
pub use target::TargetProgram;
pub use text_huge::code_files;
pub use warmth::TEXT_HUGE;
