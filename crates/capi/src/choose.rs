//! The choice of a way to read a file.

use crate::copy::{put, text};
use crate::error::{Failure, answer};
use pagewise_lanes::choose::{AccessOrder, Bytes, ChooseError, ExaminedFile, ReadDemand, ReadWay};
use rustix::io::Errno;
use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;

/// For `order`: from the first block to the last.
pub const PAGEWISE_SEQUENTIAL: u32 = 0;

/// For `order`: each block once, in random order.
pub const PAGEWISE_RANDOM: u32 = 1;

/// The fastest way to read a file.
#[repr(C)]
#[derive(Debug, Clone)]
pub struct Choice {
    /// Name of the way, as in `pagewise choose`: "read", "pread", "map", "map-populate" and so on.
    pub way: [c_char; 24],
    /// Predicted wall time from opening to closing, in nanoseconds.
    pub time_ns: f64,
}

/// Predicts the fastest way to read a file on this machine, as it is cached now. The prices are those that
/// `pagewise choose --calibrate` saved. The program reads `block` bytes at once (a multiple of 512, at most 1
/// MiB), makes `passes` passes through the file, and uses `threads` threads.
///
/// Returns 0 or a negative errno: -ENODATA if no prices are saved, -EINVAL if no way can read so.
/// `pagewise_error_message` then gives advice.
///
/// # Safety
///
/// `path` is a string that ends with a zero byte. `choice` is NULL or points to memory for the result.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagewise_choose(
    path: *const c_char,
    order: u32,
    block: u64,
    passes: u32,
    threads: u32,
    choice: *mut Choice,
) -> c_int {
    answer(|| {
        if path.is_null() {
            return Err(Failure::argument("pagewise_choose: no path"));
        }
        // SAFETY: by the contract of this function.
        let path = unsafe { CStr::from_ptr(path) };
        let order = match order {
            PAGEWISE_SEQUENTIAL => AccessOrder::Sequential,
            PAGEWISE_RANDOM => AccessOrder::Random,
            _ => return Err(Failure::argument("pagewise_choose: unknown order")),
        };
        let demand = ReadDemand { order, block_bytes: Bytes(block), passes, threads };
        let found = choose(OsStr::from_bytes(path.to_bytes()), &demand)?;
        // SAFETY: by the contract of this function.
        unsafe { put(choice, found) };
        Ok(())
    })
}

fn choose(path: &OsStr, demand: &ReadDemand) -> Result<Choice, Failure> {
    let choice = ExaminedFile::open(path.as_ref())
        .and_then(|file| file.choose(demand, ReadWay::ALL))
        .map_err(|error| refusal(&error))?;
    let best =
        choice.best().ok_or_else(|| Failure::argument("no way has prices for this demand"))?;
    Ok(Choice { way: text(best.arm.into_str()), time_ns: best.total_ns })
}

fn refusal(error: &ChooseError) -> Failure {
    let errno = match error {
        ChooseError::Sys(error) => Errno::from_io_error(&error.source).unwrap_or(Errno::IO),
        ChooseError::NoPlace(_) => Errno::NOENT,
        ChooseError::Demand(_) => Errno::INVAL,
        ChooseError::NotCalibrated { .. } => Errno::NODATA,
    };
    Failure::new(errno, format!("{error}; help: {}", error.help()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_has_room_for_its_name() {
        assert!(ReadWay::ALL.iter().copied().all(|arm| arm.into_str().len() < 24));
    }

    #[test]
    fn what_is_missing_is_named() {
        let nothing = choose(
            OsStr::new("/nothing/here"),
            &ReadDemand {
                order: AccessOrder::Sequential,
                block_bytes: Bytes(512),
                passes: 1,
                threads: 1,
            },
        );
        assert!(nothing.is_err());
    }
}
