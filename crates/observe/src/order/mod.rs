//! What linkers work with, for the order of functions and variables.

mod code;
mod hooks;
mod nameless;
mod objects;
mod pages;
mod program;
mod record;
mod references;
mod start;
mod starts;
mod variables;

pub use code::ProgramCode;
pub use hooks::{HookError, SOURCE as HOOKS, read_hooks};
pub use objects::{ObjectError, read_objects};
pub use pages::{FirstTouches, functions_on};
pub use program::{GNU_LD, is_linked, read_frame, read_functions, read_linked};
pub use record::{ObjectSelection, is_named, record};
pub use start::{ResidentCode, StartError, resident_code};
pub use variables::{ImageTouch, read_variables, variables_on};
