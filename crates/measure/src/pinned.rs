//! Work on one CPU, on a thread of its own, so that the caller keeps its affinity.

use crate::error::PriceError;
use pagewise_kernel::affinity;

/// What `work` gives on a thread that runs on `cpu` alone.
pub(crate) fn on_cpu<T: Send>(
    cpu: u32,
    work: impl FnOnce() -> Result<T, PriceError> + Send,
) -> Result<T, PriceError> {
    std::thread::scope(|scope| {
        let working = scope.spawn(move || {
            affinity::set(0, &[cpu])?;
            work()
        });
        working.join().map_err(|_| PriceError::ThreadLost)?
    })
}
