//! How code is mapped: the program headers of ELF files, the libraries that they need, and the mappings
//! of running processes with what of them is on huge pages.
//!
//! Files are read, never run: no loader is started to find libraries. Cost: some 10 us a file, and for
//! a process 30 us and 10 ns for each page of its text.

mod heap;
mod layout;
mod libraries;
mod process;

pub use heap::{ProcessHeap, look_heap};
pub use layout::{ElfError, ElfFile, MOST_DYNAMIC, MOST_SEGMENTS};
pub use libraries::{NeededLibraries, of_programs};
pub use process::{FileSeen, ProcessCode, count_text, look};
