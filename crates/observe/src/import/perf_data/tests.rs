use super::*;
use proptest::prelude::*;
use std::io::{Seek, SeekFrom, Write};

/// Recorded by perf 6.1 on Linux 6.18 x86-64: see the note beside it.
const RECORDED: &[u8] = include_bytes!("../../../fixtures/perf.data");

fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    file
}

fn read(bytes: &[u8]) -> Result<ImportedProfile, String> {
    super::read(&file(bytes), Nanos(7))
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    body.resize(body.len().next_multiple_of(8), 0);
    let size = u16::try_from(HEADER_BYTES + body.len()).unwrap();
    [&kind.to_ne_bytes()[..], &misc.to_ne_bytes(), &size.to_ne_bytes(), &body].concat()
}

fn pair(first: i32, second: i32) -> u64 {
    u64::from(first.cast_unsigned()) | u64::from(second.cast_unsigned()) << 32
}

const SAMPLE_TYPE: u32 = b::PERF_SAMPLE_IP
    | b::PERF_SAMPLE_TID
    | b::PERF_SAMPLE_TIME
    | b::PERF_SAMPLE_PERIOD
    | b::PERF_SAMPLE_CALLCHAIN;

/// The attribute of a clock of CPUs.
fn attribute() -> Vec<u8> {
    let kind = u64::from(b::PERF_TYPE_SOFTWARE) | 64 << 32;
    let mut attr = words(&[kind, 0, 1_000_000, u64::from(SAMPLE_TYPE), 0, 1 << 18]);
    attr.resize(64, 0);
    attr
}

/// A file with these records, as perf writes it.
fn whole(records: &[Vec<u8>]) -> Vec<u8> {
    let (attr, data) = (attribute(), records.concat());
    let begin = 104 + attr.len() as u64 + 16;
    let entry = attr.len() as u64 + 16;
    let head = [u64::from_ne_bytes(*b"PERFILE2"), 104, entry, 104, entry, begin, data.len() as u64];
    let mut bytes = words(&head);
    bytes.resize(104, 0);
    [bytes, attr, words(&[0, 0]), data].concat()
}

/// The same as written to a pipe.
fn piped(records: &[Vec<u8>]) -> Vec<u8> {
    let head = words(&[u64::from_ne_bytes(*b"PERFILE2"), 16]);
    [head, record(64, 0, &[attribute(), words(&[1])].concat()), records.concat()].concat()
}

fn sample(pid: i32, at: u64, misc: u16, chain: &[u64]) -> Vec<u8> {
    let ip = chain.iter().copied().find(|entry| *entry < b::PERF_CONTEXT_MAX).unwrap_or(0);
    let head = [ip, pair(pid, pid), at, 250_000, chain.len() as u64];
    record(b::PERF_RECORD_SAMPLE, misc, &words(&[&head[..], chain].concat()))
}

fn trailed(kind: u32, misc: u16, body: &[u8], at: u64) -> Vec<u8> {
    let mut body = body.to_vec();
    body.resize(body.len().next_multiple_of(8), 0);
    record(kind, misc, &[body, words(&[pair(1, 1), at])].concat())
}

fn mapped(pid: i32, start: u64, path: &str, at: u64) -> Vec<u8> {
    let body = [words(&[pair(pid, pid), start, 0x1000, 0]), path.as_bytes().to_vec(), vec![0]];
    trailed(b::PERF_RECORD_MMAP, 0, &body.concat(), at)
}

fn named(pid: i32, name: &str, at: u64) -> Vec<u8> {
    let exec = b::PERF_RECORD_MISC_COMM_EXEC as u16;
    trailed(
        b::PERF_RECORD_COMM,
        exec,
        &[words(&[pair(pid, pid)]), name.as_bytes().to_vec(), vec![0]].concat(),
        at,
    )
}

const USER: u64 = b::PERF_CONTEXT_USER;
const KERNEL: u64 = b::PERF_CONTEXT_KERNEL;

/// A program that is mapped behind its samples in the file, forks, and is asked about by its child.
fn records() -> Vec<Vec<u8>> {
    vec![
        sample(5, 30, 2, &[USER, 0x1010, 0x1021, 0x99]),
        named(5, "cat", 10),
        mapped(5, 0x1000, "/none/cat", 20),
        trailed(b::PERF_RECORD_FORK, 0, &words(&[pair(6, 5), pair(6, 5), 40]), 40),
        sample(6, 50, 1, &[KERNEL, 0xffff_ffff_8100_0010, USER, 0x1010]),
        sample(0, 55, 1, &[KERNEL, 0xffff_ffff_8100_0010]),
        trailed(b::PERF_RECORD_LOST, 0, &words(&[0, 3]), 60),
        trailed(
            b::PERF_RECORD_KSYMBOL,
            0,
            &[words(&[0xffff_ffff_8100_0000, 0x100]), b"bpf_prog\0".to_vec()].concat(),
            1,
        ),
    ]
}

#[test]
fn a_sample_is_named_by_what_held_at_its_time() {
    for bytes in [whole(&records()), piped(&records())] {
        let all = read(&bytes).unwrap();
        let of =
            |process: &str| all.samples.stacks.iter().find(|s| &*s.process == process).unwrap();
        assert_eq!((all.samples.stacks.len(), all.samples.lost), (1 + 1, 3), "{all:?}");
        let place = |frame: &pagewise_model::profile::UserFrame| {
            (frame.path.to_string(), frame.offset_bytes.0)
        };
        let (parent, path) = (of("cat"), "/none/cat".to_owned());
        assert!(all.samples.stacks.iter().all(|stack| &*stack.process == "cat"), "{all:?}");
        let in_user = all.samples.stacks.iter().find(|stack| stack.kernel.is_empty()).unwrap();
        let frames: Vec<_> = in_user.user.iter().map(|frame| place(frame)).collect();
        assert_eq!(frames, [(path.clone(), 0x10), (path.clone(), 0x20)]);
        let in_kernel = all.samples.stacks.iter().find(|stack| !stack.kernel.is_empty()).unwrap();
        assert_eq!((&*in_kernel.kernel[0], place(&in_kernel.user[0])), ("bpf_prog", (path, 0x10)));
        assert_eq!(
            (all.samples.period_ns, all.has_period, parent.count),
            (Nanos(250_000), true, 1)
        );
        assert!(
            all.notes.iter().any(|note| note.contains("1 samples of idle CPUs")),
            "{:?}",
            all.notes
        );
        assert!(all.notes.iter().any(|note| note.contains("1 of 1 files")), "{:?}", all.notes);
    }
}

#[test]
fn what_cannot_be_read_is_said_in_one_line() {
    let compressed = whole(&[record(81, 0, &[1, 2, 3])]);
    let good = whole(&records());
    let no_size = {
        let mut bytes = good.clone();
        bytes[48..56].fill(0);
        bytes
    };
    let endless = whole(&[vec![0; 8]]);
    let pipe = piped(&records());
    for (bytes, want) in [
        (&compressed[..], "compressed"),
        (&good[..good.len() - 1], "cut off"),
        (&good[..50], "cut off"),
        (&no_size, "did not come to its end"),
        (&endless, "has no length"),
        (&pipe[..pipe.len() - 1], "cut off within the record"),
        (&pipe[..16], "no samples"),
        (&words(&[u64::from_ne_bytes(*b"2ELIFREP"), 0]), "byte order"),
        (b"PERFILE2", "cut off"),
    ] {
        let why = read(bytes).unwrap_err();
        assert!(why.contains(want) && !why.contains('\n'), "{why}, not {want}");
    }
}

/// Each section lies within the file, but together they are longer.
#[test]
fn sections_are_together_no_longer_than_the_file() {
    let good = whole(&records());
    let entry = [attribute(), words(&[0, good.len() as u64 / 2])].concat();
    let mut bytes = good.clone();
    bytes.extend(entry.repeat(100));
    bytes[24..32].copy_from_slice(&(good.len() as u64).to_ne_bytes());
    bytes[32..40].copy_from_slice(&(entry.len() as u64 * 100).to_ne_bytes());
    let why = read(&bytes).unwrap_err();
    assert!(why.contains("list of event numbers overlaps"), "{why}");
}

/// Each child copies its parent's mappings together with its first own one.
#[test]
fn mappings_that_are_copied_count() {
    let mut records: Vec<Vec<u8>> = (0..3000).map(|n| mapped(1, n << 12, "/none", n + 1)).collect();
    records.push(sample(1, 3001, 2, &[USER, 0x1010]));
    let good = read(&whole(&records)).map(|all| all.samples.stacks.len());
    assert_eq!(good, Ok(1));
    for pid in 2_i32..200 {
        let at = 4000 + 2 * u64::from(pid.cast_unsigned());
        let fork = words(&[pair(pid, 1), pair(pid, 1), at]);
        records.push(trailed(b::PERF_RECORD_FORK, 0, &fork, at));
        records.push(mapped(pid, 7 << 40, "/none", at + 1));
    }
    let why = read(&whole(&records)).unwrap_err();
    assert!(why.contains("more than 2 times its length"), "{why}");
}

#[test]
fn a_file_of_perf_is_read() {
    let all = read(RECORDED).unwrap();
    let of = |name: &str| -> u64 {
        let stacks = all.samples.stacks.iter().filter(|stack| &*stack.process == name);
        stacks.map(|stack| stack.count).sum()
    };
    // What perf script prints of it.
    assert_eq!((of("sh"), of("wc"), of("head")), (8, 16, 34), "{all:#?}");
    assert_eq!((all.samples.period_ns, all.has_period), (Nanos(1_001_001), true));
    let leaves = all.samples.stacks.iter().filter_map(|stack| stack.user.first());
    assert!(leaves.map(|frame| &*frame.path).any(|path| path == "/usr/bin/dash"));
    let in_kernel = all.samples.stacks.iter().filter(|stack| !stack.kernel.is_empty());
    assert!(in_kernel.map(|stack| stack.count).sum::<u64>() > 30);
}

#[test]
fn a_damaged_file_gives_some_answer() {
    // Without its build identifiers no other file is read for the names of functions.
    let mut nameless = RECORDED.to_vec();
    nameless[72..104].fill(0);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..2_000 {
        let mut bytes = nameless.clone();
        for _ in 0..4 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let at = (state >> 8) as usize % bytes.len();
            bytes[at] = state as u8;
        }
        bytes.truncate(bytes.len() - (state >> 40) as usize % 64);
        let _any = read(&bytes);
    }
}

proptest! {
    #[test]
    fn no_records_make_it_panic(
        kinds in prop::collection::vec((0_u32..90, 0_u16..4, prop::collection::vec(any::<u8>(), 0..96)), 0..20),
        is_piped in any::<bool>(),
    ) {
        let records: Vec<Vec<u8>> = kinds.iter().map(|(kind, misc, body)| record(*kind, *misc, body)).collect();
        let _any = read(&if is_piped { piped(&records) } else { whole(&records) });
    }
}
