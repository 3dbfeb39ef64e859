//! The rungs of the ladder: the five of the published study (P1 to P5, with its settings), then the ways
//! available to programs today, each next to the way it is compared with.
//!
//! The study's rungs follow its rule for lent buffers: the pipe holds half a buffer. So once a whole buffer
//! has been passed, the other one has left the pipe. Our rungs use the largest pipe that an unprivileged user
//! may have by default, 1 MiB.

use pagewise_model::Bytes;
use pagewise_model::bench::pipe::{Pages, Reader, Rung, Wait, Writer};

/// The buffer of the published study: the second-level cache of its machine.
pub const BUFFER: Bytes = Bytes::kib(256);
/// The largest pipe of an ordinary user.
const LARGE_PIPE: Bytes = Bytes::mib(1);
const SWEEP_BUFFERS: [Bytes; 4] = [Bytes::kib(16), Bytes::kib(64), BUFFER, Bytes::mib(1)];
const SWEEP_PIPES: [Bytes; 3] = [Bytes::kib(64), BUFFER, LARGE_PIPE];

/// The pipe size that a writer's buffers need by the study's rule. `None` keeps the default.
#[must_use]
pub fn pipe_for(writer: Writer, buffer: Bytes) -> Option<Bytes> {
    match writer {
        Writer::Write | Writer::IoUring => None,
        Writer::Vmsplice => Some(Bytes(buffer.0 / 2)),
        Writer::SpliceFrozen | Writer::TeeSeed | Writer::GiveDropped => Some(LARGE_PIPE),
    }
}

/// The whole ladder, from the plain way upwards.
#[must_use]
pub fn ladder() -> Vec<Rung> {
    let mut rungs = published();
    rungs.extend(ours());
    rungs
}

/// The rungs of the published study.
fn published() -> Vec<Rung> {
    let half = Some(Bytes(BUFFER.0 / 2));
    let lent =
        |name, reader| Rung { pipe_bytes: half, ..Rung::plain(name, Writer::Vmsplice, reader) };
    let huge = Rung { pages: Pages::Huge, ..lent("P4", Reader::Splice) };
    vec![
        Rung::plain("P1", Writer::Write, Reader::Read),
        lent("P2", Reader::Read),
        lent("P3", Reader::Splice),
        huge.clone(),
        Rung { name: "P5".to_owned(), wait: Wait::Busy, ..huge },
    ]
}

fn ours() -> Vec<Rung> {
    let of = |name: &str, writer, reader, wait| Rung {
        wait,
        pages: Pages::Huge,
        pipe_bytes: Some(LARGE_PIPE),
        ..Rung::plain(name, writer, reader)
    };
    let copied = |name: &str, wait| Rung {
        pages: Pages::Base,
        ..of(name, Writer::Write, Reader::Read, wait)
    };
    let half = Some(Bytes(BUFFER.0 / 2));
    vec![
        copied("large-pipe", Wait::Block),
        copied("large-pipe-adaptive", Wait::Adaptive),
        Rung {
            pages: Pages::Base,
            ..of("vmsplice-out", Writer::Write, Reader::VmspliceOut, Wait::Block)
        },
        Rung {
            pages: Pages::Base,
            ..of("io-uring", Writer::IoUring, Reader::IoUring, Wait::Block)
        },
        Rung {
            pipe_bytes: half,
            ..of("P4-adaptive", Writer::Vmsplice, Reader::Splice, Wait::Adaptive)
        },
        Rung {
            pages: Pages::HugeTlb,
            pipe_bytes: half,
            ..of("P5-reserved", Writer::Vmsplice, Reader::Splice, Wait::Busy)
        },
        Rung {
            buffer_bytes: Bytes(2 * LARGE_PIPE.0),
            ..of("P5-large", Writer::Vmsplice, Reader::Splice, Wait::Busy)
        },
        of("dropped", Writer::GiveDropped, Reader::Splice, Wait::Adaptive),
        of("seed", Writer::TeeSeed, Reader::Splice, Wait::Adaptive),
        of("frozen", Writer::SpliceFrozen, Reader::Splice, Wait::Block),
        of("frozen-adaptive", Writer::SpliceFrozen, Reader::Splice, Wait::Adaptive),
        of("frozen-busy", Writer::SpliceFrozen, Reader::Splice, Wait::Busy),
    ]
}

/// `rungs` over a grid of buffer and pipe sizes. A lent buffer smaller than the pipe is measured too: with
/// references, no reader sees that it is reused too soon.
#[must_use]
pub fn sweep(rungs: &[Rung]) -> Vec<Rung> {
    let sizes = SWEEP_BUFFERS.into_iter().flat_map(|b| SWEEP_PIPES.map(|p| (b, p)));
    let sizes: Vec<_> = sizes.collect();
    let with = |rung: &Rung, (buffer, pipe): (Bytes, Bytes)| Rung {
        buffer_bytes: buffer,
        pipe_bytes: Some(pipe),
        ..rung.clone()
    };
    rungs.iter().flat_map(|rung| sizes.iter().map(move |size| with(rung, *size))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_distinguished() {
        let names: BTreeSet<String> = ladder().into_iter().map(|rung| rung.name).collect();
        assert_eq!(names.len(), ladder().len());
    }

    #[test]
    fn lent_buffers_keep_the_rule_of_the_study() {
        for rung in ladder().iter().filter(|rung| !rung.is_safe()) {
            assert_eq!(rung.pipe_bytes, pipe_for(rung.writer, rung.buffer_bytes), "{rung:?}");
        }
    }

    #[test]
    fn a_sweep_has_every_size_once() {
        let grid = sweep(&ladder()[..2]);
        let different: BTreeSet<String> = grid.iter().map(|rung| format!("{rung:?}")).collect();
        assert_eq!((grid.len(), different.len()), (24, 24));
    }
}
