//! The order of functions and variables, for people and for linkers.

mod builds;
mod check;
mod close;
mod forecast;
mod forms;
mod how;
mod map;
mod record;

pub use builds::builds_section;
pub use check::{check_map, check_page, check_section};
pub use close::{close_section, match_section};
pub use forecast::{forecast_map, forecast_page, forecast_section};
pub use forms::{Linker, PlacedName, order_file};
pub use how::{hooks_section, how_section, link_options};
pub use record::{call_list, call_map, call_page, call_section};
