//! What linkers work with, for the order of functions and variables.

mod objects;
mod program;
mod references;

pub use objects::{ObjectError, read_objects};
pub use program::{is_linked, read_functions};
