//! The folio of a frame, by the marks that its frames carry: the first one is a head, all others are
//! tails, and a frame with neither is a folio by itself.

use pagewise_model::address::{FlagWindow, Folio};
use pagewise_model::{Bytes, Fact, PageSize};

/// The folio that frame `number` is in, if all of it lies in `window`. A folio that ends where the window
/// ends counts as whole: folios lie at multiples of their size, and so do windows.
pub(super) fn folio(window: &FlagWindow, number: u64, base: PageSize) -> Fact<Folio> {
    let beyond = || Fact::missing("the folio begins before the frames that were read");
    let inside = number.checked_sub(window.first).and_then(|nth| usize::try_from(nth).ok());
    let Some((own, nth)) = inside.and_then(|nth| Some((window.flags.get(nth)?, nth))) else {
        return beyond();
    };
    if !own.is_head() && !own.is_tail() {
        return Fact::Known(Folio {
            first_frame: number,
            frames: 1,
            size_bytes: Bytes(base.bytes()),
        });
    }
    let Some(head) = window.flags[..=nth].iter().rposition(|flags| flags.is_head()) else {
        return beyond();
    };
    let tails = window.flags[head + 1..].iter().take_while(|flags| flags.is_tail()).count();
    if head + tails < nth {
        return Fact::missing("its frames changed while they were read");
    }
    let frames = tails as u64 + 1;
    Fact::Known(Folio {
        first_frame: window.first + head as u64,
        frames,
        size_bytes: Bytes(frames.saturating_mul(base.bytes())),
    })
}
