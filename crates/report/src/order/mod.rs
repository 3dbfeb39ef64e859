//! The order of functions and variables, for people and for linkers.

mod close;

pub use close::close_section;
