//! Prints the prices of this machine as JSON. Arguments: the cache file (optional).

use pagewise_measure::{CalibrationOptions, calibrate};
use pagewise_model::Nanos;
use std::io::Write;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cache = std::env::args_os().nth(1).map(Into::into);
    let options = CalibrationOptions { budget_ns: Nanos::secs(2), cache, fresh: false };
    let prices = calibrate(&options, &|| false)?;
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &prices)?;
    writeln!(out)?;
    Ok(())
}
