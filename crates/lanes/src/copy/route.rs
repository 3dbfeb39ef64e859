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

use crate::end::{CopyEnd, DescriptorKind};

/// One way to move bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CopyRoute {
    /// `copy_file_range(2)`: between files, without passing user space; may share extents.
    FileRange,
    /// `splice(2)` between the two ends, one of which is a pipe.
    Splice,
    /// `splice(2)` into a pipe of our own and out of it.
    Broker,
    /// `sendfile(2)` from a file.
    Sendfile,
    /// `read(2)` into our pages and `vmsplice(2)` of these: a part of [`CopyRoute::ReadWrite`], for pipes only.
    Lend,
    /// `read(2)` and `write(2)`: works for everything and names the side of an error.
    ReadWrite,
}

/// The requested properties of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CopyOptions {
    /// By reference wherever that is faster.
    pub(super) live: bool,
    /// By calls of one side each.
    pub(super) sides: bool,
}

/// The ways to try, in order; the last is always [`CopyRoute::ReadWrite`]. Between files, `has_own_ranges` is
/// called for the sink: if its file system copies ranges page by page, larger pieces are faster.
pub(super) fn ways(
    from: CopyEnd,
    to: CopyEnd,
    wanted: CopyOptions,
    has_own_ranges: impl FnOnce() -> bool,
) -> &'static [CopyRoute] {
    match freely(from, to, wanted.live) {
        [CopyRoute::Splice | CopyRoute::Sendfile, ..] if wanted.sides => {
            &[CopyRoute::Broker, CopyRoute::ReadWrite]
        }
        [CopyRoute::FileRange, ..] if wanted.sides || !has_own_ranges() => &[CopyRoute::ReadWrite],
        ways => ways,
    }
}

fn freely(from: CopyEnd, to: CopyEnd, live: bool) -> &'static [CopyRoute] {
    use DescriptorKind::{Device, Null, Pipe, Regular, Socket};
    if to.append {
        return &[CopyRoute::ReadWrite];
    }
    match (from.kind, to.kind) {
        (Regular, Regular) => &[CopyRoute::FileRange, CopyRoute::ReadWrite],
        (Pipe, Null) => &[CopyRoute::Splice, CopyRoute::ReadWrite],
        (Regular | Device, Null) => &[CopyRoute::Broker, CopyRoute::ReadWrite],
        (Regular, Socket) if live => &[CopyRoute::Sendfile, CopyRoute::ReadWrite],
        (Regular | Device, Pipe) if live => &[CopyRoute::Broker, CopyRoute::ReadWrite],
        (Pipe, Pipe | Socket | Device) if live => &[CopyRoute::Splice, CopyRoute::ReadWrite],
        _ => &[CopyRoute::ReadWrite],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [DescriptorKind; 7] = [
        DescriptorKind::Pipe,
        DescriptorKind::Regular,
        DescriptorKind::Socket,
        DescriptorKind::Terminal,
        DescriptorKind::Null,
        DescriptorKind::Device,
        DescriptorKind::Other,
    ];
    const EXACT: CopyOptions = CopyOptions { live: false, sides: false };
    const LIVE: CopyOptions = CopyOptions { live: true, sides: false };
    const SIDES: CopyOptions = CopyOptions { live: true, sides: true };

    fn end(kind: DescriptorKind) -> CopyEnd {
        CopyEnd { kind, append: false }
    }

    fn pairs() -> impl Iterator<Item = (DescriptorKind, DescriptorKind)> {
        KINDS.into_iter().flat_map(|from| KINDS.map(|to| (from, to)))
    }

    #[test]
    fn every_pair_ends_in_read_and_write() {
        for (from, to) in pairs() {
            for wanted in [EXACT, LIVE, SIDES] {
                let ways = ways(end(from), end(to), wanted, || true);
                assert_eq!(ways.last(), Some(&CopyRoute::ReadWrite));
            }
        }
    }

    #[test]
    fn references_are_passed_on_only_when_asked() {
        for (from, to) in pairs() {
            let ways = ways(end(from), end(to), EXACT, || true);
            let exact = match (from, to) {
                (_, DescriptorKind::Null) => {
                    &[CopyRoute::Splice, CopyRoute::Broker, CopyRoute::ReadWrite][..]
                }
                (DescriptorKind::Regular, DescriptorKind::Regular) => {
                    &[CopyRoute::FileRange, CopyRoute::ReadWrite]
                }
                _ => &[CopyRoute::ReadWrite],
            };
            assert!(ways.iter().all(|way| exact.contains(way)), "{from:?} to {to:?}: {ways:?}");
        }
        for (from, to) in [
            (DescriptorKind::Regular, DescriptorKind::Pipe),
            (DescriptorKind::Regular, DescriptorKind::Socket),
            (DescriptorKind::Pipe, DescriptorKind::Pipe),
            (DescriptorKind::Pipe, DescriptorKind::Socket),
        ] {
            assert_ne!(ways(end(from), end(to), LIVE, || true), [CopyRoute::ReadWrite]);
        }
    }

    #[test]
    fn sides_are_distinguished_only_by_calls_of_one_side() {
        for (from, to) in pairs() {
            let ways = ways(end(from), end(to), SIDES, || true);
            assert!(ways.iter().all(|way| matches!(way, CopyRoute::Broker | CopyRoute::ReadWrite)));
        }
    }

    #[test]
    fn appending_terminals_and_sockets_are_never_spliced() {
        for kind in KINDS {
            let log = CopyEnd { kind: DescriptorKind::Regular, append: true };
            assert_eq!(ways(end(kind), log, LIVE, || true), [CopyRoute::ReadWrite]);
            for from in [DescriptorKind::Terminal, DescriptorKind::Socket] {
                assert_eq!(ways(end(from), end(kind), LIVE, || true), [CopyRoute::ReadWrite]);
            }
        }
    }

    #[test]
    fn only_between_files_it_matters_how_a_range_is_copied() {
        for (from, to) in pairs() {
            let ways = |own: bool| ways(end(from), end(to), LIVE, || own);
            if (from, to) == (DescriptorKind::Regular, DescriptorKind::Regular) {
                assert_eq!(ways(true), [CopyRoute::FileRange, CopyRoute::ReadWrite]);
                assert_eq!(ways(false), [CopyRoute::ReadWrite]);
            } else {
                assert_eq!(ways(true), ways(false));
            }
        }
    }
}
