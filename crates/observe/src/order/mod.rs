//! What linkers work with, for the order of functions and variables.

mod objects;
mod program;
mod references;
mod start;

pub use objects::{ObjectError, read_objects};
pub use program::{is_linked, read_frame, read_functions};
pub use start::{Resident, StartError, resident_code};
