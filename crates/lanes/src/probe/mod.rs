//! Tests on this kernel whether data that was moved by reference still shares pages with its source.
//!
//! For each source and sink: write A, move it, overwrite the source with B, read the sink. A means that the
//! kernel copied, B that both share the page. No kernel version is checked. A kernel whose vmsplice copies, a
//! filter that refuses the call with EPERM, EINVAL, ENOSYS or EOPNOTSUPP, or a sandbox with its own calls:
//! each gives its real answer. Needs no privilege, touches one page per question, reads nothing but its own
//! data and never waits. Overhead: 20 to 100 us a question, under 5 ms for all. [`truths`] tests once in a
//! process.
//!
//! A sealed memfd cannot be overwritten for the test. [`ProbeSource::Memfd`] is its twin without the seal, which
//! goes the same way through the kernel. Not seen: calls that copy some sizes and share others (one base page
//! is moved), and filters installed later.

pub(crate) mod cached;
mod trial;

use crate::buffer::region::BufferPages;
use rustix::io::Errno;
use std::sync::OnceLock;

/// Where the data comes from, and the call that moves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProbeSource {
    /// Private anonymous memory, by `vmsplice(2)`.
    Private,
    /// Memory shared with a memfd, by `vmsplice(2)`.
    Shared,
    /// A memfd, by `splice(2)`.
    Memfd,
    /// A regular file, by `splice(2)`.
    File,
    /// A regular file, by `sendfile(2)`.
    Sendfile,
    /// A page of a memfd that is in a pipe, by `tee(2)`.
    Tee,
    /// The same, by `splice(2)` from that pipe to another.
    Pipe,
}

/// Where the data is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProbeSink {
    /// A pipe.
    Pipe,
    /// A stream socket of the family AF_UNIX.
    Socket,
    /// A regular file.
    File,
}

/// The result of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProbeAnswer {
    /// A later change of the source shows at the sink.
    Shared,
    /// The sink has its own copy.
    Copied,
    /// The kernel does not allow the call, or something the question needs.
    Refused(Errno),
}

/// One question and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProbeTruth {
    /// Where the data was.
    pub source: ProbeSource,
    /// Where it was read.
    pub sink: ProbeSink,
    /// The result.
    pub answer: ProbeAnswer,
}

impl ProbeSource {
    /// All sources.
    pub const ALL: [Self; 7] = [
        Self::Private,
        Self::Shared,
        Self::Memfd,
        Self::File,
        Self::Sendfile,
        Self::Tee,
        Self::Pipe,
    ];
}

impl ProbeSink {
    /// All sinks.
    pub const ALL: [Self; 3] = [Self::Pipe, Self::Socket, Self::File];
}

impl std::fmt::Display for ProbeSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Private => "memory (vmsplice)",
            Self::Shared => "shared memory (vmsplice)",
            Self::Memfd => "memfd (splice)",
            Self::File => "file (splice)",
            Self::Sendfile => "file (sendfile)",
            Self::Tee => "pipe (tee)",
            Self::Pipe => "pipe (splice)",
        })
    }
}

impl std::fmt::Display for ProbeSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Pipe => "pipe",
            Self::Socket => "Unix socket",
            Self::File => "file",
        })
    }
}

impl std::fmt::Display for ProbeAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Shared => f.write_str("shared"),
            Self::Copied => f.write_str("copied"),
            Self::Refused(errno) => write!(f, "refused ({errno})"),
        }
    }
}

/// Asks one question now.
///
/// # Examples
///
/// ```
/// use pagewise_lanes::probe::{ProbeAnswer, ProbeSink, ProbeSource, ask};
/// // Files are written by copying, whatever the source.
/// assert_ne!(ask(ProbeSource::Memfd, ProbeSink::File), ProbeAnswer::Shared);
/// ```
#[must_use]
pub fn ask(source: ProbeSource, sink: ProbeSink) -> ProbeAnswer {
    match trial::shares(source, sink, BufferPages::Base.size()) {
        Ok(true) => ProbeAnswer::Shared,
        Ok(false) => ProbeAnswer::Copied,
        Err(errno) => ProbeAnswer::Refused(errno),
    }
}

/// All questions, each source with each sink, answered at the first call in this process.
///
/// # Examples
///
/// ```
/// use pagewise_lanes::probe::truths;
/// for truth in truths() {
///     println!("{} into a {}: {}", truth.source, truth.sink, truth.answer);
/// }
/// ```
#[must_use]
pub fn truths() -> &'static [ProbeTruth] {
    static TRUTHS: OnceLock<Vec<ProbeTruth>> = OnceLock::new();
    TRUTHS.get_or_init(|| {
        let sinks = |source| {
            ProbeSink::ALL.map(|sink| ProbeTruth { source, sink, answer: ask(source, sink) })
        };
        ProbeSource::ALL.into_iter().flat_map(sinks).collect()
    })
}

/// Whether `vmsplice(2)` of private memory into a pipe makes a copy; asked once in a process.
pub(crate) fn vmsplice_copies() -> bool {
    static COPIES: OnceLock<bool> = OnceLock::new();
    *COPIES.get_or_init(|| ask(ProbeSource::Private, ProbeSink::Pipe) == ProbeAnswer::Copied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_question_has_its_answer() {
        let truths = truths();
        assert_eq!(truths.len(), ProbeSource::ALL.len() * ProbeSink::ALL.len());
        for source in ProbeSource::ALL {
            for sink in ProbeSink::ALL {
                assert_eq!(
                    truths.iter().filter(|t| t.source == source && t.sink == sink).count(),
                    1
                );
            }
        }
    }

    #[test]
    fn answers_repeat() {
        for truth in truths() {
            assert_eq!(ask(truth.source, truth.sink), truth.answer, "{truth:?}");
        }
    }

    #[test]
    fn a_file_never_shares_the_page_of_what_was_written_to_it() {
        for truth in truths().iter().filter(|truth| truth.sink == ProbeSink::File) {
            assert_ne!(truth.answer, ProbeAnswer::Shared, "{truth:?}");
        }
    }
}
