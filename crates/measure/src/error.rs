//! Why a price could not be had.

use pagewise_kernel::SysError;

/// Why a price, or the whole calibration, could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum PriceError {
    /// A system call refused.
    #[error(transparent)]
    Sys(#[from] SysError),
    /// A repeat gave nothing that can be a price, or there were none.
    #[error("{price} gave no usable repeat")]
    NoRepeat {
        /// Name of the price.
        price: &'static str,
    },
    /// The machine, kernel or account does not offer what this price measures.
    #[error("{0}")]
    Unavailable(String),
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// The measuring thread died.
    #[error("the calibration thread ended before its result")]
    ThreadLost,
}

impl PriceError {
    /// A maker of `Sys` errors, for `map_err`.
    pub(crate) fn sys<E: Into<std::io::Error>>(
        call: &'static str,
        subject: impl Into<String>,
    ) -> impl FnOnce(E) -> Self {
        let subject = subject.into();
        move |source| Self::Sys(SysError::new(call, subject, source))
    }
}
