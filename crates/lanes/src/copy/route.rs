//! Which ways a copy may take, best first: a pure function of its two ends.
//!
//! What is passed on by reference can change on its way. The pages of a regular file are its page
//! cache: a later write, truncation or punched hole shows in them. The pages in a pipe or socket may
//! be memory that its writer passed by reference (vmsplice, splice): a writer that waits until they have left that
//! pipe writes them over next. Only a copy that ends before the pages leave the source is exact
//! whatever happens there, and that is `read`. `live` gives this up for speed.
//!
//! Into /dev/null references are safe, because no reader gets the bytes: they are dropped. Between files
//! `copy_file_range` is a copy, or shares extents that the next write to either file separates.
//!
//! Splicing a pipe straight into a file would be exact too: the file system copies while the slots
//! are still taken (iter_file_splice_write in fs/splice.c). It is left out because it holds the
//! pipe's lock for that long and takes twice as long as `read` and `write` (decision 30). A socket as
//! a source is only read: an error that a splice has met there is not returned a second time.
//!
//! Whether the kernel really allows a way is found by trying it.

use crate::end::{End, Kind};

/// One way to move bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    /// `copy_file_range(2)`: between files, without passing user space; may share extents.
    FileRange,
    /// `splice(2)` between the two ends, one of which is a pipe.
    Splice,
    /// `splice(2)` into a pipe of our own and out of it.
    Broker,
    /// `sendfile(2)` from a file.
    Sendfile,
    /// `read(2)` into our pages and `vmsplice(2)` of these: a part of [`Way::ReadWrite`], for pipes only.
    Lend,
    /// `read(2)` and `write(2)`: works for everything and names the side of an error.
    ReadWrite,
}

/// The requested properties of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    /// By reference wherever that is faster.
    pub(super) live: bool,
    /// By calls of one side each.
    pub(super) sides: bool,
}

/// The ways to try, in order; the last is always [`Way::ReadWrite`]. Between files, `has_own_ranges` is
/// called for the sink: if its file system copies ranges page by page, larger pieces are faster.
pub(super) fn ways(
    from: End,
    to: End,
    wanted: Wanted,
    has_own_ranges: impl FnOnce() -> bool,
) -> &'static [Way] {
    match freely(from, to, wanted.live) {
        [Way::Splice | Way::Sendfile, ..] if wanted.sides => &[Way::Broker, Way::ReadWrite],
        [Way::FileRange, ..] if wanted.sides || !has_own_ranges() => &[Way::ReadWrite],
        ways => ways,
    }
}

fn freely(from: End, to: End, live: bool) -> &'static [Way] {
    use Kind::{Device, Null, Pipe, Regular, Socket};
    if to.append {
        return &[Way::ReadWrite];
    }
    match (from.kind, to.kind) {
        (Regular, Regular) => &[Way::FileRange, Way::ReadWrite],
        (Pipe, Null) => &[Way::Splice, Way::ReadWrite],
        (Regular | Device, Null) => &[Way::Broker, Way::ReadWrite],
        (Regular, Socket) if live => &[Way::Sendfile, Way::ReadWrite],
        (Regular | Device, Pipe) if live => &[Way::Broker, Way::ReadWrite],
        (Pipe, Pipe | Socket | Device) if live => &[Way::Splice, Way::ReadWrite],
        _ => &[Way::ReadWrite],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [Kind; 7] = [
        Kind::Pipe,
        Kind::Regular,
        Kind::Socket,
        Kind::Terminal,
        Kind::Null,
        Kind::Device,
        Kind::Other,
    ];
    const EXACT: Wanted = Wanted { live: false, sides: false };
    const LIVE: Wanted = Wanted { live: true, sides: false };
    const SIDES: Wanted = Wanted { live: true, sides: true };

    fn end(kind: Kind) -> End {
        End { kind, append: false }
    }

    fn pairs() -> impl Iterator<Item = (Kind, Kind)> {
        KINDS.into_iter().flat_map(|from| KINDS.map(|to| (from, to)))
    }

    #[test]
    fn every_pair_ends_in_read_and_write() {
        for (from, to) in pairs() {
            for wanted in [EXACT, LIVE, SIDES] {
                let ways = ways(end(from), end(to), wanted, || true);
                assert_eq!(ways.last(), Some(&Way::ReadWrite));
            }
        }
    }

    #[test]
    fn references_are_passed_on_only_when_asked() {
        for (from, to) in pairs() {
            let ways = ways(end(from), end(to), EXACT, || true);
            let exact = match (from, to) {
                (_, Kind::Null) => &[Way::Splice, Way::Broker, Way::ReadWrite][..],
                (Kind::Regular, Kind::Regular) => &[Way::FileRange, Way::ReadWrite],
                _ => &[Way::ReadWrite],
            };
            assert!(ways.iter().all(|way| exact.contains(way)), "{from:?} to {to:?}: {ways:?}");
        }
        for (from, to) in [
            (Kind::Regular, Kind::Pipe),
            (Kind::Regular, Kind::Socket),
            (Kind::Pipe, Kind::Pipe),
            (Kind::Pipe, Kind::Socket),
        ] {
            assert_ne!(ways(end(from), end(to), LIVE, || true), [Way::ReadWrite]);
        }
    }

    #[test]
    fn sides_are_distinguished_only_by_calls_of_one_side() {
        for (from, to) in pairs() {
            let ways = ways(end(from), end(to), SIDES, || true);
            assert!(ways.iter().all(|way| matches!(way, Way::Broker | Way::ReadWrite)));
        }
    }

    #[test]
    fn appending_terminals_and_sockets_are_never_spliced() {
        for kind in KINDS {
            let log = End { kind: Kind::Regular, append: true };
            assert_eq!(ways(end(kind), log, LIVE, || true), [Way::ReadWrite]);
            for from in [Kind::Terminal, Kind::Socket] {
                assert_eq!(ways(end(from), end(kind), LIVE, || true), [Way::ReadWrite]);
            }
        }
    }

    #[test]
    fn only_between_files_it_matters_how_a_range_is_copied() {
        for (from, to) in pairs() {
            let ways = |own: bool| ways(end(from), end(to), LIVE, || own);
            if (from, to) == (Kind::Regular, Kind::Regular) {
                assert_eq!(ways(true), [Way::FileRange, Way::ReadWrite]);
                assert_eq!(ways(false), [Way::ReadWrite]);
            } else {
                assert_eq!(ways(true), ways(false));
            }
        }
    }
}
