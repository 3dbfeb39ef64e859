//! What linkers work with, for the order of functions and variables.

mod objects;
mod program;
mod record;
mod references;
mod start;
mod starts;

pub use objects::{ObjectError, read_objects};
pub use program::{is_linked, read_frame, read_functions};
pub use record::{Objects, record};
pub use start::{Resident, StartError, resident_code};
