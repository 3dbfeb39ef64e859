//! Services under load: what their load generators report.

pub mod load;
