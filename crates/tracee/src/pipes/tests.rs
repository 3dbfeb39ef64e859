//! The bookkeeping alone, and growth of pipes that a program holds.

use super::*;

fn end(inode: u64) -> PipeEnd {
    PipeEnd { pid: 1, fd: 3, inode, reads: true, writes: false }
}

fn ledger(budget_mib: u64, foreign: &[u64]) -> PipeLedger {
    PipeLedger::new(Bytes::mib(1), Bytes::mib(budget_mib), foreign.iter().copied().collect())
}

const GROWN: PipeGrowth = PipeGrowth::Grown { from: Bytes::kib(64), to: Bytes::mib(1) };

fn inodes(pipes: &[Vec<PipeEnd>]) -> Vec<u64> {
    pipes.iter().map(|ends| ends[0].inode).collect()
}

#[test]
fn each_pipe_is_done_once_and_foreign_ones_never() {
    let mut ledger = ledger(16, &[7]);
    let open = ledger.open(&[end(5), end(5), end(7), end(6)]);
    assert_eq!((inodes(&open), open[0].len()), (vec![5, 6], 2));
    ledger.note(5, GROWN);
    ledger.note(6, PipeGrowth::LargeEnough);
    ledger.note(8, PipeGrowth::LeftAlone("x lends".into()));
    assert!(ledger.open(&[end(5), end(6), end(7), end(8)]).is_empty());
    assert_eq!((ledger.grown(), ledger.left_alone()["x lends"]), (1, 1));
}

#[test]
fn the_budget_holds_and_comes_back_when_a_pipe_is_gone() {
    let mut ledger = ledger(2, &[]);
    ledger.note(1, GROWN);
    assert!(ledger.has_room());
    ledger.note(2, GROWN);
    assert!(!ledger.has_room());
    ledger.note(3, PipeGrowth::NoBudget);
    assert_eq!(inodes(&ledger.open(&[end(1), end(2), end(3)])), [3]);
    assert_eq!(ledger.left_out(), 1);
    assert_eq!(inodes(&ledger.open(&[end(2), end(3)])), [3]);
    assert!(ledger.has_room());
    ledger.note(3, GROWN);
    assert_eq!(ledger.left_out(), 0, "there was room for it in the end");
    assert_eq!(ledger.most_held(), Bytes(2 * (1024 - 64) * 1024));
    ledger.note(4, PipeGrowth::NoBudget);
    assert!(ledger.open(&[]).is_empty());
    assert_eq!(ledger.left_out(), 1, "it ended without");
}

#[test]
fn refusals_are_told_apart() {
    let mut ledger = ledger(16, &[]);
    ledger.note(1, PipeGrowth::Later);
    assert_eq!(ledger.open(&[end(1)]).len(), 1);
    ledger.note(1, PipeGrowth::Refused(libc::EACCES));
    assert!(ledger.open(&[end(1)]).is_empty());
    assert!(!ledger.limit_reached());
    ledger.note(2, PipeGrowth::LimitReached);
    assert!(ledger.limit_reached());
    assert_eq!(ledger.refusals()[&libc::EACCES], 1);
    assert_eq!(ledger.refusals().len(), 1, "the limit is told by itself");
}

/// Outcome for a pipe with `content`, held by a program that lends nothing, whose ends `ends` modifies. Also
/// returns its capacity afterwards.
fn considered(
    content: u64,
    ends: impl Fn(PipeEnd, PipeEnd) -> Vec<PipeEnd>,
) -> (PipeGrowth, Bytes) {
    let (reader, writer) = pipe::pipe().unwrap();
    let inode = rustix::fs::fstat(&reader).unwrap().st_ino;
    let mut ledger = ledger(16, &[]);
    let mut holder = std::process::Command::new("sleep")
        .arg("60")
        .stdin(reader.try_clone().unwrap())
        .stdout(writer.try_clone().unwrap())
        .spawn()
        .unwrap();
    rustix::io::write(&writer, &vec![1; content as usize]).unwrap();
    let pid = holder.id() as i32;
    let of = |fd, writes: bool| PipeEnd { pid, fd, inode, reads: !writes, writes };
    let ends = ends(of(0, false), of(1, true));
    let tree = ProcessTree::below(pid);
    let mut growth = grow(&ends, &tree, &mut ledger);
    // Its files must be read first, and children of other tests briefly hold descriptors of this process.
    for _ in 0..50 {
        if matches!(growth, PipeGrowth::Later | PipeGrowth::Again) {
            std::thread::sleep(std::time::Duration::from_millis(1));
            growth = grow(&ends, &tree, &mut ledger);
        }
    }
    holder.kill().unwrap();
    holder.wait().unwrap();
    (growth, pipe::capacity(&writer).unwrap())
}

#[test]
fn a_pipe_grows_when_its_only_writer_has_filled_it() {
    let full = pipe::default_capacity();
    let both = |reader, writer| vec![reader, writer];
    assert_eq!(considered(full.0 / 2 - 1, both), (PipeGrowth::Later, full));
    let grown = PipeGrowth::Grown { from: full, to: Bytes::mib(1) };
    assert_eq!(considered(full.0, both), (grown, Bytes::mib(1)));
    let other = |reader, writer: PipeEnd| vec![reader, writer, PipeEnd { pid: 1, ..writer }];
    assert_eq!(considered(full.0, other), (PipeGrowth::Later, full));
    assert_eq!(considered(full.0, |reader, _| vec![reader]), (PipeGrowth::Later, full));
    let another = |_, writer: PipeEnd| vec![PipeEnd { inode: writer.inode + 1, ..writer }];
    assert_eq!(considered(full.0, another), (PipeGrowth::Later, full));
}

#[test]
fn a_pipe_of_another_size_is_left_alone() {
    let (_reader, writer) = pipe::pipe().unwrap();
    let page = pagewise_kernel::page_size::base().bytes();
    let mut ledger = ledger(16, &[]);
    let mut of = |capacity: u64| {
        pipe::set_capacity(&writer, Bytes(capacity)).unwrap();
        consider(&writer, end(1), &[], &ProcessTree::below(1), &mut ledger).unwrap()
    };
    assert!(matches!(of(2 * page), PipeGrowth::LeftAlone(_)), "a user over the limit");
    assert!(matches!(of(32 * page), PipeGrowth::LeftAlone(_)), "its own choice");
    assert_eq!(of(1 << 20), PipeGrowth::LargeEnough);
}

#[test]
fn a_borrowed_end_is_given_back() {
    use std::os::fd::AsRawFd;
    let (reader, writer) = pipe::pipe().unwrap();
    let inode = rustix::fs::fstat(&reader).unwrap().st_ino;
    let (pid, fd) = (proc::own_pid(), reader.as_raw_fd());
    let mine = PipeEnd { pid, fd, inode, reads: true, writes: false };
    assert!(borrow(PipeEnd { inode: inode + 1, ..mine }).unwrap().is_none());
    let again = reopen(mine).unwrap();
    assert_eq!(rustix::fs::fstat(&again).unwrap().st_ino, inode);
    drop((again, writer));
    assert_eq!(rustix::io::read(&reader, &mut [0_u8; 8]), Ok(0), "no writer was left open");
}
