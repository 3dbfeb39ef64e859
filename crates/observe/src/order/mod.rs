//! What linkers work with, for the order of functions and variables.

mod objects;
mod references;

pub use objects::{ObjectError, read_objects};
