//! Which ways a copy may take, best first: a pure function of its two ends.
//!
//! The pages of a regular file are its page cache: a later write, truncation or punched hole would
//! change what a pipe or socket still holds, so a file is copied into those unless the caller asked
//! for `live`. What is in a pipe or socket already is passed on by reference: data that was written
//! there belongs to the kernel. Only a writer that put its own memory or a file there by reference
//! (vmsplice, splice) and changes it afterwards is seen to do so for longer than without us;
//! `copying` shields from that. Whether the kernel really allows a way is found by trying it.

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
    /// `read(2)` and `write(2)`: works for everything and names the side of an error.
    ReadWrite,
}

/// The ways to try, in order; the last is always [`Way::ReadWrite`]. With `sides`, only ways that
/// are calls of one side each. Between files `has_own_ranges` is asked of the sink: where its file system copies
/// ranges page by page, larger pieces are faster.
pub(crate) fn ways(
    from: End,
    to: End,
    live: bool,
    sides: bool,
    has_own_ranges: impl FnOnce() -> bool,
) -> &'static [Way] {
    match freely(from, to, live) {
        [Way::Splice | Way::Sendfile, ..] if sides => &[Way::Broker, Way::ReadWrite],
        [Way::FileRange, ..] if sides || !has_own_ranges() => &[Way::ReadWrite],
        ways => ways,
    }
}

fn freely(from: End, to: End, live: bool) -> &'static [Way] {
    use Kind::{Device, Pipe, Regular, Socket};
    if to.append {
        return &[Way::ReadWrite];
    }
    match (from.kind, to.kind) {
        (Regular, Regular) => &[Way::FileRange, Way::ReadWrite],
        (Regular, Pipe) if live => &[Way::Splice, Way::ReadWrite],
        (Regular, Socket) if live => &[Way::Sendfile, Way::ReadWrite],
        (Regular | Socket | Device, Device)
        | (Socket, Regular | Socket)
        // The copy into the file's pages would hold the lock of the source's pipe; its writer waits.
        | (Pipe, Regular) => &[Way::Broker, Way::ReadWrite],
        // The pages go back to where the writer takes its next ones from, or no byte is copied.
        (Pipe, Pipe | Socket | Device) | (Socket | Device, Pipe) => &[Way::Splice, Way::ReadWrite],
        _ => &[Way::ReadWrite],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [Kind; 6] =
        [Kind::Pipe, Kind::Regular, Kind::Socket, Kind::Terminal, Kind::Device, Kind::Other];

    fn end(kind: Kind) -> End {
        End { kind, append: false }
    }

    #[test]
    fn every_pair_ends_in_read_and_write() {
        for (from, to) in KINDS.iter().flat_map(|a| KINDS.map(|b| (*a, b))) {
            for live in [false, true] {
                assert_eq!(
                    ways(end(from), end(to), live, !live, || true).last(),
                    Some(&Way::ReadWrite)
                );
            }
        }
    }

    #[test]
    fn a_file_goes_by_reference_only_when_asked() {
        for to in [Kind::Pipe, Kind::Socket] {
            assert_eq!(ways(end(Kind::Regular), end(to), false, false, || true), [Way::ReadWrite]);
            assert_ne!(ways(end(Kind::Regular), end(to), true, false, || true), [Way::ReadWrite]);
        }
    }

    #[test]
    fn sides_are_told_apart_only_by_calls_of_one_side() {
        for (from, to) in KINDS.iter().flat_map(|a| KINDS.map(|b| (*a, b))) {
            let ways = ways(end(from), end(to), true, true, || true);
            assert!(ways.iter().all(|way| matches!(way, Way::Broker | Way::ReadWrite)));
        }
    }

    #[test]
    fn appending_and_terminals_are_never_spliced() {
        for kind in KINDS {
            assert_eq!(
                ways(end(kind), End { kind: Kind::Regular, append: true }, true, false, || true),
                [Way::ReadWrite]
            );
            assert_eq!(
                ways(end(Kind::Terminal), end(kind), true, false, || true),
                [Way::ReadWrite]
            );
        }
    }

    #[test]
    fn only_between_files_it_matters_how_a_range_is_copied() {
        for (from, to) in KINDS.iter().flat_map(|a| KINDS.map(|b| (*a, b))) {
            let ways = |own: bool| ways(end(from), end(to), true, false, || own);
            if (from, to) == (Kind::Regular, Kind::Regular) {
                assert_eq!(ways(true), [Way::FileRange, Way::ReadWrite]);
                assert_eq!(ways(false), [Way::ReadWrite]);
            } else {
                assert_eq!(ways(true), ways(false));
            }
        }
    }
}
