//! Every newer call is refused, as a container's filter or another kernel would do. What is sent arrives
//! exactly, and the way is reported. A seccomp filter holds for the thread that installs it (`seccomp(2)`).

#![allow(
    unsafe_code,
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a filter is installed by hand; a test fails by panicking and says what it skipped"
)]

use pagewise_lanes::buffer::{BufferPages, Dropped, Frozen, FrozenStore, SendWay, acked};
use pagewise_lanes::probe::{ProbeAnswer, ProbeSink, ProbeSource, ask};
use rustix::io::Errno;
use std::io::{PipeReader, PipeWriter, Read};
use std::sync::{Mutex, PoisonError};

const ERRNOS: [Errno; 4] = [Errno::PERM, Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP];
const ADVICE: u32 = 2; // the argument of madvise(2) that says what
const COMMAND: u32 = 1; // the argument of fcntl(2) that says what

/// A call that the filter refuses, always or only with this value of an argument.
#[derive(Debug, Clone, Copy)]
struct Refused {
    call: libc::c_long,
    argument: Option<(u32, u32)>,
}

impl Refused {
    const fn every(call: libc::c_long) -> Self {
        Self { call, argument: None }
    }
}

const VMSPLICE: Refused = Refused::every(libc::SYS_vmsplice);
const SPLICE: Refused = Refused::every(libc::SYS_splice);
const MEMFD: Refused = Refused::every(libc::SYS_memfd_create);
const SEAL: Refused =
    Refused { call: libc::SYS_fcntl, argument: Some((COMMAND, libc::F_ADD_SEALS as u32)) };
const COLLAPSE: Refused =
    Refused { call: libc::SYS_madvise, argument: Some((ADVICE, libc::MADV_COLLAPSE as u32)) };
const CLONE: Refused = Refused::every(libc::SYS_clone);
const CLONE3: Refused = Refused::every(libc::SYS_clone3);
const INHERIT: Refused =
    Refused { call: libc::SYS_madvise, argument: Some((ADVICE, libc::MADV_DOFORK as u32)) };
const DONTNEED: Refused =
    Refused { call: libc::SYS_madvise, argument: Some((ADVICE, libc::MADV_DONTNEED as u32)) };

/// Refuses a call in this thread from now on. False if that is not possible.
fn install(refused: Refused, errno: Errno) -> bool {
    use libc::{BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, SECCOMP_RET_ALLOW};
    let load = |offset| statement(BPF_LD | BPF_W | BPF_ABS, offset);
    let is = |value, skip| jump(BPF_JMP | BPF_JEQ | BPF_K, value, skip);
    let (index, value) = refused.argument.unwrap_or((0, 0));
    let refuse = libc::SECCOMP_RET_ERRNO | errno.raw_os_error() as u32;
    let checks = usize::from(refused.argument.is_some());
    // Offsets of `nr` and of the low half of an argument in `struct seccomp_data`.
    let mut program = vec![load(0), is(refused.call as u32, 1 + 2 * checks as u8)];
    if checks == 1 {
        program.extend([load(16 + 8 * index), is(value, 1)]);
    }
    program.push(statement(BPF_RET | BPF_K, refuse));
    program.push(statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: takes no pointer.
    let no_new = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    let mode = libc::SECCOMP_SET_MODE_FILTER;
    // SAFETY: `filter` describes a program that lives until the call returns.
    let set = unsafe { libc::syscall(libc::SYS_seccomp, mode, 0, &raw const filter) };
    no_new == 0 && set == 0
}

fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// Continues if equal, and skips `skip` statements if not.
fn jump(code: u32, k: u32, skip: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: skip, k }
}

/// Runs `body` in a thread where `refused` fails, once for each errno. One at a time: while a child of another
/// test holds a copy of a mapping, a memfd cannot be sealed, and other memory is used.
fn under(refused: Refused, body: fn(Errno)) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for errno in ERRNOS {
        let thread = std::thread::spawn(move || {
            if install(refused, errno) {
                body(errno);
            } else {
                eprintln!("SKIP {refused:?}: no seccomp filter can be installed");
            }
        });
        thread.join().unwrap();
    }
}

const LEN: usize = 50_000;

fn content() -> Vec<u8> {
    (0..LEN).map(|at| ((at * 7) >> 2) as u8).collect()
}

fn pipe() -> (PipeReader, PipeWriter) {
    std::io::pipe().unwrap()
}

fn assert_arrives(mut reader: PipeReader, writer: PipeWriter, expected: &[u8]) {
    drop(writer);
    let mut got = Vec::new();
    reader.read_to_end(&mut got).unwrap();
    assert!(got == expected, "{} bytes arrived of {}", got.len(), expected.len());
}

/// How frozen bytes are sent, from either store.
fn frozen() -> [(FrozenStore, SendWay); 2] {
    let content = content();
    let fill = |space: &mut [u8]| space.copy_from_slice(&content);
    let both = [Frozen::build(LEN, fill), Frozen::build_private(LEN, fill)];
    both.map(|frozen| {
        let frozen = frozen.unwrap();
        let (reader, writer) = pipe();
        let sent = frozen.send(&writer, 3..LEN).unwrap();
        assert_arrives(reader, writer, &content[3..]);
        (frozen.store(), sent)
    })
}

/// How dropped bytes are sent, from regions of either kind. Every round has its own region.
fn dropped() -> SendWay {
    let both =
        [Dropped::new, Dropped::returning].map(|make| drop_rounds(make(20_000, BufferPages::Base)));
    assert_eq!(both[0], both[1]);
    both[0]
}

fn drop_rounds(region: Result<Dropped, Errno>) -> SendWay {
    let mut region = region.unwrap();
    let (reader, writer) = pipe();
    let mut last = SendWay::ByReference;
    for round in 0..4 {
        region.space(10_000).unwrap()[..10_000].fill(round);
        last = region.give(&writer, 10_000).unwrap();
    }
    region.renew().unwrap();
    region.as_mut_slice().fill(0xff);
    let expected: Vec<u8> = (0..4).flat_map(|round| [round; 10_000]).collect();
    assert_arrives(reader, writer, &expected);
    last
}

#[test]
fn without_vmsplice_memory_is_copied() {
    under(VMSPLICE, |errno| {
        assert_eq!(
            frozen(),
            [(FrozenStore::Sealed, SendWay::ByReference), (FrozenStore::Private, SendWay::Copied)]
        );
        assert_eq!(dropped(), SendWay::Copied);
        assert_eq!(ask(ProbeSource::Private, ProbeSink::Pipe), ProbeAnswer::Refused(errno));
        assert_eq!(ask(ProbeSource::Shared, ProbeSink::Socket), ProbeAnswer::Refused(errno));
    });
}

#[test]
fn without_a_child_content_is_moved() {
    // The program asks only once what the kernel does after a fork. It asks here, where the call is allowed.
    assert_eq!(dropped(), SendWay::ByReference);
    for refused in [CLONE, CLONE3, INHERIT] {
        under(refused, |_| assert_eq!(dropped(), SendWay::ByReference));
    }
}

#[test]
fn without_vmsplice_a_ring_is_copied() {
    under(VMSPLICE, |_| {
        let (mut writer, mut reader) = acked::ring(2, 4096, BufferPages::Base).unwrap();
        for round in 0..6_u8 {
            let mut space = writer.space().unwrap();
            space.fill(round);
            assert_eq!(space.send(3_000).unwrap(), SendWay::Copied);
        }
        drop(writer);
        let mut got = Vec::new();
        reader.read_to_end(&mut got).unwrap();
        assert!(got == (0..6_u8).flat_map(|round| [round; 3_000]).collect::<Vec<_>>());
    });
}

#[test]
fn without_splice_a_sealed_file_is_copied() {
    under(SPLICE, |errno| {
        assert_eq!(
            frozen(),
            [(FrozenStore::Sealed, SendWay::Copied), (FrozenStore::Private, SendWay::ByReference)]
        );
        assert_eq!(dropped(), SendWay::ByReference);
        assert_eq!(ask(ProbeSource::Memfd, ProbeSink::Pipe), ProbeAnswer::Refused(errno));
    });
}

#[test]
fn without_memfd_or_seals_private_memory_serves() {
    for refused in [MEMFD, SEAL] {
        under(refused, |_| {
            assert_eq!(frozen(), [(FrozenStore::Private, SendWay::ByReference); 2]);
            assert_eq!(dropped(), SendWay::ByReference);
        });
    }
    under(MEMFD, |errno| {
        assert_eq!(ask(ProbeSource::Memfd, ProbeSink::Pipe), ProbeAnswer::Refused(errno));
        assert_eq!(acked::ring(2, 4096, BufferPages::Base).unwrap_err(), errno);
    });
}

#[test]
fn without_collapse_pages_stay_small_and_bytes_exact() {
    under(COLLAPSE, |_| {
        let frozen = Frozen::build(4 << 20, |space| space[5] = 1).unwrap();
        if frozen.store() == FrozenStore::Sealed {
            assert!(frozen.page_size().is_ok());
        }
        assert_eq!((frozen.as_bytes()[5], frozen.as_bytes()[4_000_000]), (1, 0));
    });
}

#[test]
fn without_dontneed_pages_are_mapped_anew() {
    under(DONTNEED, |_| assert_eq!(dropped(), SendWay::ByReference));
}
