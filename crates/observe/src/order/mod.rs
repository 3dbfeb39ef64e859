//! What linkers work with, for the order of functions and variables.

mod code;
mod objects;
mod pages;
mod program;
mod record;
mod references;
mod start;
mod starts;

pub use code::Code;
pub use objects::{ObjectError, read_objects};
pub use pages::{FirstTouches, functions_on};
pub use program::{is_linked, read_frame, read_functions};
pub use record::{Objects, is_named, record};
pub use start::{Resident, StartError, resident_code};
