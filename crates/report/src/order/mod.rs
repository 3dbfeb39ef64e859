//! The order of functions and variables, for people and for linkers.

mod close;
mod forecast;
mod forms;
mod how;

pub use close::{close_section, match_section};
pub use forecast::forecast_section;
pub use forms::{Linker, Placed, order_file};
pub use how::how_section;
