//! Readings against a known truth. Every way reads the same bytes, and the counts match the work. States of the
//! cache are proven. A file that is shortened ends its reader and nothing else.
//!
//! The test runs itself as the processes that read, with one argument.
#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used, reason = "a test program")]

use pagewise_kernel::page_size;
use pagewise_measure::BenchCallbacks;
use pagewise_measure::bench::file::{
    FileBenchRequest, FileOrigin, FilePlan, HelperLauncher, run, serve_reader,
};
use pagewise_model::bench::file::{
    BenchmarkFlaw, CacheResidency, FileBenchPart, FileBenchReport, FilePoint, ReadWay,
};
use pagewise_model::bench::tlb::AccessOrder;
use pagewise_model::{Bytes, Fact};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const READER: &str = "--reader";
const SIZE: Bytes = Bytes::mib(8);

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.get(1).is_some_and(|arg| arg == READER) {
        serve_reader(args[2].parse().unwrap()).unwrap();
        return;
    }
    let filter = args.iter().skip(1).find(|arg| !arg.starts_with('-')).map_or("", String::as_str);
    let tests: [(&str, fn()); 11] = [
        ("every_way_reads_the_same", every_way_reads_the_same),
        ("written_blocks_are_in_the_file", written_blocks_are_in_the_file),
        ("faults_are_those_of_the_pages", faults_are_those_of_the_pages),
        ("cold_is_proven", cold_is_proven),
        ("passes_are_timed_apart", passes_are_timed_apart),
        ("fresh_memory_is_faulted_in", fresh_memory_is_faulted_in),
        ("threads_share_the_blocks", threads_share_the_blocks),
        ("errors_of_the_study_show_in_the_ledger", errors_of_the_study_show_in_the_ledger),
        ("a_shortened_file_ends_its_reader_alone", a_shortened_file_ends_its_reader_alone),
        ("a_file_of_others_is_read", a_file_of_others_is_read),
        ("an_interrupt_ends_it", an_interrupt_ends_it),
    ];
    let mut ran = 0;
    for (name, test) in tests.into_iter().filter(|(name, _)| name.contains(filter)) {
        test();
        println!("test {name} ... ok");
        ran += 1;
    }
    assert!(ran > 0 || !filter.is_empty(), "no test was selected");
}

/// One warm process of every way over blocks of 16 KiB.
fn request() -> FileBenchRequest {
    FileBenchRequest {
        parts: vec![FileBenchPart::Blocks],
        blocks: vec![Bytes::kib(16)],
        residencies: vec![CacheResidency::Warm],
        repeats: 1,
        ..FileBenchRequest::usual(3)
    }
}

fn read_from(
    origin: FileOrigin,
    asked: FileBenchRequest,
    stop: &(dyn Fn() -> bool + Sync),
) -> FileBenchReport {
    let plan = FilePlan::new(asked, origin.size(), true).unwrap();
    let content = origin.open(&|| false).unwrap();
    let launcher =
        HelperLauncher { exe: std::env::current_exe().unwrap(), args: vec![READER.into()] };
    let callbacks =
        BenchCallbacks { shuffle: &mut |order| order.reverse(), stop, show: &mut |_| {} };
    run(&plan, &content, &launcher, callbacks).unwrap()
}

fn read(asked: FileBenchRequest) -> FileBenchReport {
    let origin = FileOrigin::own(&std::env::temp_dir(), Some(SIZE), SIZE).unwrap();
    read_from(origin, asked, &|| false)
}

/// The only sample of a point did the requested work.
fn is_exact(readings: &FileBenchReport, point: &FilePoint) {
    assert_eq!(point.refused, None, "{:?}", point.cell);
    let [sample] = point.samples.as_slice() else { panic!("{point:?}") };
    assert_eq!(readings.asked(&point.cell), Some(sample.ledger), "{:?}", point.cell);
    assert_eq!(sample.pass_ns.len(), point.cell.passes as usize);
    assert!(sample.set_up_ns.0 > 0 && sample.use_ns().0 > 0 && sample.tear_down_ns.0 > 0);
    let pages = point.cell.span_bytes.pages(page_size::base());
    assert!(sample.proof.file_pages >= pages, "{sample:?}");
}

/// The reason why a way is missing that not every kernel has.
fn missing(point: &FilePoint) -> Option<&str> {
    let refused = point.refused.as_deref()?;
    ["io_uring_setup", "RWF_DONTCACHE"].iter().any(|call| refused.contains(call)).then_some(refused)
}

fn every_way_reads_the_same() {
    let blocks = vec![Bytes(512), Bytes::kib(16), Bytes::kib(24), Bytes::mib(1)];
    let readings = read(FileBenchRequest { blocks, summed: true, ..request() });
    assert_eq!(readings.points.len(), 4 * (15 + 14));
    for point in &readings.points {
        if let Some(why) = missing(point) {
            println!("SKIP every_way_reads_the_same: {why}");
            continue;
        }
        is_exact(&readings, point);
        let (cell, sample) = (&point.cell, &point.samples[0]);
        let calls = match (cell.arm, cell.order) {
            (ReadWay::Read, AccessOrder::Sequential) => 1 + cell.blocks(),
            (ReadWay::Read, AccessOrder::Random) => 2 * cell.blocks(),
            (ReadWay::Pread, _) => cell.blocks(),
            (ReadWay::MapPieces | ReadWay::PlacePieces, _) => {
                cell.span_bytes.0.div_ceil(Bytes::mib(2).0)
            }
            (arm, _) if arm.is_mapped() => 0,
            _ => continue,
        };
        assert_eq!(sample.calls, calls, "{cell:?}");
        assert_eq!(sample.major_faults, 0, "{cell:?}");
        assert_eq!(sample.proof.after_pages, sample.proof.file_pages, "{cell:?}");
    }
}

fn written_blocks_are_in_the_file() {
    let blocks = vec![Bytes(512), Bytes::kib(16)];
    let readings = read(FileBenchRequest { blocks, repeats: 2, ..request() }.writing());
    assert_eq!(readings.points.len(), 2 * 2 * 4);
    for point in &readings.points {
        let cell = &point.cell;
        assert_eq!((point.samples.len(), &point.refused), (2, &None), "{cell:?}");
        for sample in &point.samples {
            assert_eq!(Some(sample.ledger), readings.asked(cell), "{cell:?}");
            let calls = match (cell.arm, cell.order) {
                (ReadWay::Map, _) => 0,
                (_, AccessOrder::Sequential) => 1 + cell.blocks(),
                (_, AccessOrder::Random) => 2 * cell.blocks(),
            };
            assert_eq!((sample.calls, sample.major_faults), (calls, 0), "{cell:?}");
        }
    }
}

/// A file written page by page, so that its folios are single pages.
fn paged(dir: &Path, size: Bytes) -> FileOrigin {
    let path = dir.join("paged");
    let mut file = File::create(&path).unwrap();
    let page = vec![5; page_size::base().bytes() as usize];
    for _ in 0..size.pages(page_size::base()) {
        file.write_all(&page).unwrap();
    }
    FileOrigin::given(&path, Bytes(1)).unwrap()
}

fn faults_are_those_of_the_pages() {
    let dir = tempfile::tempdir().unwrap();
    let arms = vec![ReadWay::Pread, ReadWay::Map, ReadWay::Place, ReadWay::PlacePopulate];
    let readings =
        read_from(paged(dir.path(), SIZE), FileBenchRequest { arms, ..request() }, &|| false);
    let faults = |arm: ReadWay| {
        let of = readings.points.iter().filter(|point| point.cell.arm == arm);
        of.map(|point| point.samples[0].minor_faults).max().unwrap()
    };
    // The kernel maps at most 64 KiB around a fault on single pages, and at least the page itself.
    let (least, most) = (SIZE.0 / Bytes::kib(64).0, SIZE.pages(page_size::base()) + 64);
    for arm in [ReadWay::Map, ReadWay::Place] {
        assert!((least..=most).contains(&faults(arm)), "{arm:?}: {}", faults(arm));
    }
    assert!(faults(ReadWay::Pread) < 64, "calls fault on nothing: {}", faults(ReadWay::Pread));
}

fn cold_is_proven() {
    let residencies = vec![CacheResidency::Cold];
    let arms = vec![
        ReadWay::Pread,
        ReadWay::Direct,
        ReadWay::Uring,
        ReadWay::Map,
        ReadWay::MapRandom,
        ReadWay::Place,
    ];
    let cold_bytes = Bytes::mib(2);
    let readings = read(FileBenchRequest { residencies, arms, cold_bytes, ..request() });
    for point in &readings.points {
        let is_none = |why: &&str| why.contains("pages stay") || why.contains("`pread`");
        let none = point.refused.as_deref().filter(is_none).or_else(|| missing(point));
        if let Some(why) = none {
            println!("SKIP cold_is_proven: {why}");
            continue;
        }
        is_exact(&readings, point);
        let (cell, sample) = (&point.cell, &point.samples[0]);
        assert_eq!((cell.span_bytes, sample.proof.before_pages), (cold_bytes, 0), "{cell:?}");
        let least =
            if cell.arm == ReadWay::Direct { 0 } else { cold_bytes.pages(page_size::base()) };
        assert!(sample.proof.after_pages >= least, "{cell:?}");
        match &sample.device_bytes {
            Fact::Known(fetched) => assert!(*fetched >= cold_bytes, "{cell:?}: {fetched}"),
            Fact::Missing(why) => println!("SKIP bytes of the device: {why}"),
        }
        assert_eq!(cell.arm.is_mapped(), sample.major_faults > 0, "{cell:?}: {sample:?}");
    }
}

fn passes_are_timed_apart() {
    let readings =
        read(FileBenchRequest { parts: vec![FileBenchPart::Passes], passes: 3, ..request() });
    assert_eq!(readings.points.len(), 4);
    readings.points.iter().for_each(|point| is_exact(&readings, point));
    assert!(readings.points.iter().all(|point| point.samples[0].pass_ns.len() == 3));
}

fn fresh_memory_is_faulted_in() {
    let readings = read(FileBenchRequest { parts: vec![FileBenchPart::Buffers], ..request() });
    assert_eq!(readings.points.len(), 16);
    let pages = SIZE.pages(page_size::base());
    for point in &readings.points {
        is_exact(&readings, point);
        let (cell, faults) = (&point.cell, point.samples[0].minor_faults);
        if cell.fresh {
            assert!(faults >= pages, "{cell:?}: {faults} of {pages}");
        } else if cell.arm == ReadWay::Read {
            assert!(faults < 64, "{cell:?}: {faults}");
        }
    }
}

fn threads_share_the_blocks() {
    let readings = read(FileBenchRequest {
        parts: vec![FileBenchPart::Threads],
        threads: vec![1, 3],
        ..request()
    });
    assert_eq!(readings.points.len(), 8);
    readings.points.iter().for_each(|point| is_exact(&readings, point));
}

fn errors_of_the_study_show_in_the_ledger() {
    let arms = vec![ReadWay::Read, ReadWay::Map, ReadWay::MapPopulate];
    let readings = read(FileBenchRequest { arms, slips: BenchmarkFlaw::ALL.to_vec(), ..request() });
    for point in &readings.points {
        let found = point.samples[0].ledger;
        let asked = readings.asked(&point.cell).unwrap();
        let (is_random, is_mapped) =
            (point.cell.order == AccessOrder::Random, point.cell.arm.is_mapped());
        assert_eq!(found == asked, !is_random && !is_mapped, "{:?}", point.cell);
        assert_eq!(found.bytes.0, if is_mapped { asked.bytes.0 / 2 } else { asked.bytes.0 });
        if is_random && !is_mapped {
            let share = found.distinct_blocks as f64 / asked.distinct_blocks as f64;
            assert!((0.55..0.71).contains(&share), "{share}");
        }
        let early = if point.cell.arm == ReadWay::MapPopulate { SIZE } else { Bytes(0) };
        assert_eq!(found.mapped_before_bytes, early, "{:?}", point.cell);
    }
}

fn a_shortened_file_ends_its_reader_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shortened");
    for (arm, word) in [(ReadWay::Place, "SIGBUS"), (ReadWay::Read, "shortened meanwhile")] {
        std::fs::write(&path, vec![1; SIZE.0 as usize]).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        let origin = FileOrigin::given(&path, Bytes::kib(16)).unwrap();
        // Takes minutes unless it is ended.
        let asked = FileBenchRequest {
            parts: vec![FileBenchPart::Passes],
            arms: vec![arm],
            passes: 1_000_000,
            ..request()
        };
        let shortening = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(500));
            file.set_len(Bytes::mib(1).0)
        });
        let readings = read_from(origin, asked, &|| false);
        shortening.join().unwrap().unwrap();
        let why = readings.points[0].refused.as_deref().unwrap();
        assert!(why.contains(word), "{arm:?}: {why}");
        assert!(readings.points[0].samples.is_empty());
    }
}

fn a_file_of_others_is_read() {
    let own = std::env::current_exe().unwrap();
    let origin = FileOrigin::given(&own, Bytes::kib(16)).unwrap();
    let arms = vec![ReadWay::Read, ReadWay::PlacePopulate];
    let readings = read_from(origin, FileBenchRequest { arms, ..request() }, &|| false);
    readings.points.iter().for_each(|point| is_exact(&readings, point));
    assert_eq!(readings.source.path.as_deref(), own.to_str());
    let pages = readings.source.size_bytes.pages(page_size::base());
    assert_eq!(readings.points[0].samples[0].proof.file_pages, pages);
}

fn an_interrupt_ends_it() {
    let asked_for = AtomicU32::new(0);
    let stop = || asked_for.fetch_add(1, Ordering::Relaxed) >= 40;
    let origin = FileOrigin::own(&std::env::temp_dir(), Some(SIZE), SIZE).unwrap();
    let readings = read_from(origin, FileBenchRequest { repeats: 9, ..request() }, &stop);
    let taken = readings.points.iter().filter(|p| !p.samples.is_empty()).count();
    assert!(taken > 0 && taken < readings.points.len(), "{taken}");
    let reasons: Vec<&str> = readings.points.iter().filter_map(|p| p.refused.as_deref()).collect();
    assert!(!reasons.is_empty() && reasons.iter().all(|why| *why == "interrupted"), "{reasons:?}");
}
