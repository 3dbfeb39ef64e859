//! An error that one way met and the next may not meet again.
//!
//! When a call is refused, the next way goes on where it stopped, and what is really wrong comes up
//! there again. One kind of error does not: a socket tells once that its connection was reset
//! (`SO_ERROR` in socket(7)) and from then on gives its end, so that a copy that was cut off would
//! look whole. Such an error is kept until the next way has got a byte.

use super::calls::Transfer;
use super::{CopyError, Side};
use rustix::io::Errno;

/// An error that must not be lost when the next way meets the end at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Doubt {
    call: &'static str,
    errno: Errno,
    side: Side,
}

impl Doubt {
    /// What to remember of a refused call on the source alone: nothing where it only says that the
    /// call does not serve here.
    pub(super) fn of_source(call: Transfer, errno: Errno) -> Option<Self> {
        let is_refusal = matches!(
            errno,
            Errno::NOSYS
                | Errno::PERM
                | Errno::ACCESS
                | Errno::BADF
                | Errno::INVAL
                | Errno::OPNOTSUPP
                | Errno::XDEV
                | Errno::SPIPE
                | Errno::OVERFLOW
                | Errno::AGAIN
                | Errno::MFILE
                | Errno::NFILE
                | Errno::NOMEM
        );
        (!is_refusal).then_some(Self { call: call.name(), errno, side: Side::Source })
    }

    /// The same of a call on both sides, which does not say whose an error is: those that speak of
    /// space are the sink's.
    pub(super) fn of_either(call: Transfer, errno: Errno) -> Option<Self> {
        let side = match errno {
            Errno::NOSPC | Errno::DQUOT | Errno::FBIG => Side::Sink,
            _ => Side::Source,
        };
        Some(Self { side, ..Self::of_source(call, errno)? })
    }

    /// The error it is after all.
    pub(super) fn error(self, moved: u64) -> CopyError {
        let Self { call, errno, side } = self;
        CopyError { side, call, errno, moved }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_is_kept_and_a_refusal_is_not() {
        let reset =
            Doubt::of_source(Transfer::Splice, Errno::CONNRESET).map(|doubt| doubt.error(7));
        let (side, call, errno) = (Side::Source, "splice", Errno::CONNRESET);
        assert_eq!(reset, Some(CopyError { side, call, errno, moved: 7 }));
        assert_eq!(Doubt::of_either(Transfer::Sendfile, Errno::INVAL), None);
    }

    #[test]
    fn a_full_sink_is_the_sinks() {
        let full = Doubt::of_either(Transfer::FileRange, Errno::NOSPC).map(|doubt| doubt.error(0));
        assert_eq!(
            full.map(|error| (error.side, error.call)),
            Some((Side::Sink, "copy_file_range"))
        );
    }
}
