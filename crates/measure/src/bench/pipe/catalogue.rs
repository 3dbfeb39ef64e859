//! The rungs of the ladder: the five of the published study (P1 to P5, with its settings), the two others of its
//! chart (P1 and P2 on huge pages), then the ways available to programs today, each next to the way it is
//! compared with.
//!
//! The study's rungs follow its rule for lent buffers: the pipe holds half a buffer. So once a whole buffer
//! has been passed, the other one has left the pipe. Our rungs use the largest pipe that an unprivileged user
//! may have by default, 1 MiB.

use pagewise_model::Bytes;
use pagewise_model::bench::pipe::{PipeRung, RungPages, RungReader, RungWait, RungWriter};

/// The buffer of the published study: the second-level cache of its machine.
pub const BUFFER: Bytes = Bytes::kib(256);
/// The largest pipe of an ordinary user.
const LARGE_PIPE: Bytes = Bytes::mib(1);
/// More than the second-level cache of today's cores.
const BEYOND_L2: Bytes = Bytes::mib(4);
const SWEEP_BUFFERS: [Bytes; 5] =
    [Bytes::kib(16), Bytes::kib(64), BUFFER, Bytes::mib(1), BEYOND_L2];
const SWEEP_PIPES: [Bytes; 3] = [Bytes::kib(64), BUFFER, LARGE_PIPE];

/// The pipe size that a writer's buffers need by the study's rule. `None` keeps the default.
#[must_use]
pub fn pipe_for(writer: RungWriter, buffer: Bytes) -> Option<Bytes> {
    match writer {
        RungWriter::Write | RungWriter::IoUring => None,
        RungWriter::Vmsplice => Some(Bytes(buffer.0 / 2)),
        RungWriter::SpliceFrozen
        | RungWriter::TeeSeed
        | RungWriter::GiveDropped
        | RungWriter::FizzBuzz => Some(LARGE_PIPE),
    }
}

/// The whole ladder, from the plain way upwards.
#[must_use]
pub fn ladder() -> Vec<PipeRung> {
    let mut rungs = published();
    rungs.extend(ours());
    rungs
}

/// The rungs of the published study.
fn published() -> Vec<PipeRung> {
    let half = Some(Bytes(BUFFER.0 / 2));
    let lent = |name, reader| PipeRung {
        pipe_bytes: half,
        ..PipeRung::plain(name, RungWriter::Vmsplice, reader)
    };
    let plain = |name| PipeRung::plain(name, RungWriter::Write, RungReader::Read);
    let huge = |rung| PipeRung { pages: RungPages::Huge, ..rung };
    vec![
        plain("P1"),
        lent("P2", RungReader::Read),
        lent("P3", RungReader::Splice),
        huge(lent("P4", RungReader::Splice)),
        PipeRung { wait: RungWait::Busy, ..huge(lent("P5", RungReader::Splice)) },
        huge(plain("P1-huge")),
        huge(lent("P2-huge", RungReader::Read)),
    ]
}

fn ours() -> Vec<PipeRung> {
    let of = |name: &str, writer, reader, wait| PipeRung {
        wait,
        pages: RungPages::Huge,
        pipe_bytes: Some(LARGE_PIPE),
        ..PipeRung::plain(name, writer, reader)
    };
    let copied = |name: &str, wait| PipeRung {
        pages: RungPages::Base,
        ..of(name, RungWriter::Write, RungReader::Read, wait)
    };
    let half = Some(Bytes(BUFFER.0 / 2));
    vec![
        PipeRung {
            buffer_bytes: BEYOND_L2,
            pipe_bytes: None,
            ..copied("P1-large", RungWait::Block)
        },
        copied("large-pipe", RungWait::Block),
        copied("large-pipe-adaptive", RungWait::Adaptive),
        PipeRung {
            pages: RungPages::Base,
            ..of("vmsplice-out", RungWriter::Write, RungReader::VmspliceOut, RungWait::Block)
        },
        PipeRung {
            pages: RungPages::Base,
            ..of("io-uring", RungWriter::IoUring, RungReader::IoUring, RungWait::Block)
        },
        PipeRung {
            pipe_bytes: half,
            ..of("P4-adaptive", RungWriter::Vmsplice, RungReader::Splice, RungWait::Adaptive)
        },
        PipeRung {
            pages: RungPages::HugeTlb,
            pipe_bytes: half,
            ..of("P5-reserved", RungWriter::Vmsplice, RungReader::Splice, RungWait::Busy)
        },
        PipeRung {
            buffer_bytes: Bytes(2 * LARGE_PIPE.0),
            ..of("P5-large", RungWriter::Vmsplice, RungReader::Splice, RungWait::Busy)
        },
        of("dropped", RungWriter::GiveDropped, RungReader::Splice, RungWait::Adaptive),
        of("seed", RungWriter::TeeSeed, RungReader::Splice, RungWait::Adaptive),
        of("frozen", RungWriter::SpliceFrozen, RungReader::Splice, RungWait::Block),
        of("frozen-adaptive", RungWriter::SpliceFrozen, RungReader::Splice, RungWait::Adaptive),
        of("frozen-busy", RungWriter::SpliceFrozen, RungReader::Splice, RungWait::Busy),
        PipeRung {
            buffer_bytes: LARGE_PIPE,
            ..of("fizzbuzz", RungWriter::FizzBuzz, RungReader::Meter, RungWait::Adaptive)
        },
    ]
}

/// `rungs` over a grid of buffer and pipe sizes. A lent buffer smaller than the pipe is measured too: with
/// references, no reader sees that it is reused too soon.
#[must_use]
pub fn sweep(rungs: &[PipeRung]) -> Vec<PipeRung> {
    let sizes = SWEEP_BUFFERS.into_iter().flat_map(|b| SWEEP_PIPES.map(|p| (b, p)));
    let sizes: Vec<_> = sizes.collect();
    let with = |rung: &PipeRung, (buffer, pipe): (Bytes, Bytes)| PipeRung {
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
    fn the_seven_settings_of_the_published_chart_are_there() {
        let (write, read) = (RungWriter::Write, RungReader::Read);
        let (vmsplice, splice) = (RungWriter::Vmsplice, RungReader::Splice);
        let (base, huge) = (RungPages::Base, RungPages::Huge);
        let (block, busy) = (RungWait::Block, RungWait::Busy);
        let wanted = [
            ("P1", write, read, base, block),
            ("P1-huge", write, read, huge, block),
            ("P2", vmsplice, read, base, block),
            ("P2-huge", vmsplice, read, huge, block),
            ("P3", vmsplice, splice, base, block),
            ("P4", vmsplice, splice, huge, block),
            ("P5", vmsplice, splice, huge, busy),
        ];
        let ladder = ladder();
        for (name, writer, reader, pages, wait) in wanted {
            let pipe_bytes = pipe_for(writer, BUFFER);
            let plain = PipeRung::plain(name, writer, reader);
            let rung = PipeRung { pages, wait, pipe_bytes, ..plain };
            assert!(ladder.contains(&rung), "{rung:?}");
        }
    }

    #[test]
    fn a_sweep_has_every_size_once() {
        let grid = sweep(&ladder()[..2]);
        let different: BTreeSet<String> = grid.iter().map(|rung| format!("{rung:?}")).collect();
        assert_eq!((grid.len(), different.len()), (30, 30));
    }
}
