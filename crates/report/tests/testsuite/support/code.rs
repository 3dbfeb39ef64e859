//! Constructed page cache and code on huge pages.

use pagewise_model::body::RunBody;
use pagewise_model::cache::{
    CacheAction, CacheCounts, CacheOutcome, CacheReport, CacheSlot, CacheState, FileCacheReport,
    FileHolder, FileHolders, FolioShare, SlotMap,
};
use pagewise_model::collapse::{CollapseWay, CollapsedPart, CollapsedProcess, RefusedSlots};
use pagewise_model::fold::{
    FileRange, FoldChanges, FoldReport, FoldedSegment, LinkAdvice, SegmentTail, TailOutcome,
};
use pagewise_model::heap::{HeapArea, HeapStretch};
use pagewise_model::run::{RunKind, SavedRun};
use pagewise_model::text::{
    ElfLayout, HugeStanding, HugeTotals, ImagePlacement, LoadSegment, MappedFile, MethodReach,
    TextArea, TextAreaKind, TextCoverage, TextFile, TextMethod, TextPiece,
};
use pagewise_model::text_report::{ExplainedProcess, TextCount, TextReport, TextStatus};
use pagewise_model::text_system::{
    HugePageCleaner, HugetextChange, HugetextMode, HugetextSetting, HugetextState, KhugepagedPace,
    OfferedCleaner, TextSystem,
};
use pagewise_model::{Bytes, Fact, Nanos, PageSize};

pub(crate) fn state(slots: &[CacheSlot]) -> CacheState {
    let of = |slot: CacheSlot| slots.iter().filter(|s| **s == slot).count() as u64;
    let counts = CacheCounts {
        cached_bytes: Bytes::mib(2 * of(CacheSlot::Whole)),
        dirty_bytes: Bytes::kib(12),
        writeback_bytes: Bytes(0),
        evicted_bytes: Bytes::mib(3),
    };
    let folio = |size, total| FolioShare { folio_bytes: size, total_bytes: total };
    CacheState {
        cached_bytes: Fact::Known(Bytes::mib(2 * (of(CacheSlot::Whole) + of(CacheSlot::Huge)))),
        huge_bytes: Fact::Known(Bytes::mib(2 * of(CacheSlot::Huge))),
        slots: SlotMap(slots.to_vec()),
        counts: Fact::Known(counts),
        folios: Fact::Known(vec![
            folio(Bytes::kib(4), Bytes::mib(1)),
            folio(Bytes::mib(2), Bytes::mib(2 * of(CacheSlot::Huge))),
        ]),
    }
}

pub(crate) fn file(path: &str, slots: &[CacheSlot]) -> FileCacheReport {
    FileCacheReport {
        path: path.into(),
        size_bytes: Bytes::mib(2 * slots.len() as u64),
        file_system: "ext4".into(),
        before: state(slots),
        after: None,
        holders: None,
        outcome: None,
        took_ns: None,
    }
}

fn refused() -> FileCacheReport {
    let holder = |pid| FileHolder { pid, name: "server".into(), mapped_bytes: Bytes::mib(9) };
    FileCacheReport {
        outcome: Some(CacheOutcome::Refused {
            why: "it is mapped, in the folios that it has now, by server (7)".into(),
            help: "stop them first, and start them again afterwards".into(),
        }),
        holders: Some(FileHolders { seen: (7..14).map(holder).collect(), hidden_processes: 2 }),
        ..file("/usr/sbin/server", &[CacheSlot::Whole, CacheSlot::Part, CacheSlot::Absent])
    }
}

fn foreign() -> FileCacheReport {
    let mut file =
        file("/usr/bin/foreign", &[CacheSlot::Asked, CacheSlot::Huge, CacheSlot::Absent]);
    file.before.cached_bytes =
        Fact::missing("the kernel shows it only to accounts that own the file");
    file.before.counts = Fact::missing("`cachestat` failed");
    file.before.folios = Fact::missing("only root can see folio sizes");
    file
}

pub(crate) fn cached() -> CacheReport {
    let done = FileCacheReport {
        after: Some(state(&[CacheSlot::Huge; 200])),
        outcome: Some(CacheOutcome::Done),
        took_ns: Some(Nanos::millis(40)),
        ..file("/srv/model.bin", &[CacheSlot::Whole; 200])
    };
    let other = |outcome, path| FileCacheReport {
        after: Some(state(&[CacheSlot::Absent, CacheSlot::Huge])),
        outcome: Some(outcome),
        took_ns: Some(Nanos::millis(2)),
        ..file(path, &[CacheSlot::Huge, CacheSlot::Huge])
    };
    let why = || "no huge page was free while it was read back".to_owned();
    let already = FileCacheReport {
        outcome: Some(CacheOutcome::Already),
        ..file("/srv/already", &[CacheSlot::Huge])
    };
    CacheReport {
        verb: CacheAction::Huge,
        slot_bytes: PageSize::PMD_2M,
        files: vec![
            done,
            refused(),
            foreign(),
            other(CacheOutcome::Worse { why: why() }, "/srv/worse"),
            other(CacheOutcome::Short { why: why() }, "/srv/short"),
            already,
        ],
    }
}

fn pieces(start: u64, standings: &[HugeStanding]) -> Vec<TextPiece> {
    let size = Bytes::mib(2);
    let piece = |(nth, standing): (usize, &HugeStanding)| TextPiece {
        address: start + nth as u64 * size.0,
        offset_bytes: Bytes(nth as u64 * size.0),
        length_bytes: size,
        standing: standing.clone(),
    };
    standings.iter().enumerate().map(piece).collect()
}

/// A text area with a piece of every kind.
pub(crate) fn areas() -> Vec<TextArea> {
    let all = [
        HugeStanding::Boundary,
        HugeStanding::Huge,
        HugeStanding::Huge,
        HugeStanding::SmallFolio,
        HugeStanding::NotCached,
        HugeStanding::NotTouched,
        HugeStanding::Incongruent { off_by_bytes: Bytes::kib(40) },
        HugeStanding::ByChance { one_in: 512 },
        HugeStanding::PrivateCopy { copied_bytes: Bytes::kib(8) },
        HugeStanding::PageTable,
        HugeStanding::Disabled,
        HugeStanding::FileSystem { name: "vfat".into() },
        HugeStanding::NotKnown { why: "the file cannot be opened by its name".into() },
    ];
    vec![
        TextArea {
            kind: TextAreaKind::ReadOnly,
            pieces: pieces(0x40_0000, &[HugeStanding::TooSmall]),
        },
        TextArea { kind: TextAreaKind::Text, pieces: pieces(0x60_0000, &all) },
    ]
}

pub(crate) fn explained() -> TextReport {
    let huge = |text, read_only| TextCoverage {
        text_bytes: Bytes::mib(text),
        read_only_bytes: Bytes::mib(read_only),
    };
    let segment = LoadSegment {
        offset_bytes: Bytes(0),
        address: 0x60_0000,
        file_bytes: Bytes::mib(26),
        align_bytes: Bytes::kib(4),
        is_writable: false,
        is_executable: true,
    };
    let reach = TextMethod::ALL.into_iter().zip([huge(4, 0), huge(24, 0), huge(26, 2)]);
    TextReport::ExplainFile {
        slot_bytes: PageSize::PMD_2M,
        file: Box::new(TextFile {
            cache: file(
                "/usr/bin/example",
                &[CacheSlot::Huge, CacheSlot::Whole, CacheSlot::Absent],
            ),
            layout: ElfLayout { placement: ImagePlacement::Program, segments: vec![segment] },
            size: huge(26, 2),
            areas: areas(),
            reach: reach.map(|(method, huge)| MethodReach { method, huge }).collect(),
        }),
    }
}

/// A copy with segments of every outcome.
pub(crate) fn folded() -> FoldReport {
    let TextReport::ExplainFile { file: original, .. } = explained() else { panic!("a file") };
    let mut copy = (*original).clone();
    copy.cache.path = "/srv/example copy".into();
    copy.reach.iter_mut().for_each(|reach| reach.huge.text_bytes = Bytes::mib(26));
    let segment = |address, mib, flags: &str, align| LoadSegment {
        offset_bytes: Bytes(address),
        address,
        file_bytes: Bytes::mib(mib),
        align_bytes: align,
        is_writable: flags.contains('w'),
        is_executable: flags.contains('x'),
    };
    let small = |address, mib, flags| segment(address, mib, flags, Bytes::kib(4));
    let folded = |header, before, after| FoldedSegment {
        header,
        before,
        after,
        off_by_bytes: Bytes::kib(if header == 6 { 4 } else { 0 }),
    };
    let whole = segment(0, 28, "x", Bytes::mib(2));
    let (off, data) = (small(0x200_1000, 3, "x"), small(0x300_0000, 1, "w"));
    let tail = |address, outcome| SegmentTail { address, tail_bytes: Bytes::kib(96), outcome };
    FoldReport {
        is_merged: true,
        changes: FoldChanges {
            segments: vec![
                folded(2, small(0, 1, ""), Some(whole)),
                folded(3, small(0x10_0000, 26, "x"), None),
                folded(4, small(0x1b0_0000, 1, ""), None),
                folded(6, off, Some(off)),
                folded(7, data, Some(data)),
            ],
            tails: vec![
                tail(0x1c0_0000, TailOutcome::Filled),
                tail(0x1e0_0000, TailOutcome::BelowThreshold),
                tail(0x220_0000, TailOutcome::Taken { by_address: 0x230_0000 }),
                tail(0x240_0000, TailOutcome::Payload { payload_bytes: Bytes(512) }),
            ],
            edited: [176, 232, 288].map(range_of_a_header).to_vec(),
            appended: Some(FileRange {
                offset_bytes: Bytes(0x1d0_0123),
                length_bytes: Bytes::kib(700),
            }),
            made_executable_bytes: Bytes::mib(2),
            base_bits_lost: 9,
        },
        original: *original,
        copy,
        attributes: vec!["user.origin".into()],
        notes: vec!["it belongs to this account, the original to user 0 and group 0".into()],
        link: LinkAdvice {
            gnu: "-Wl,-z,max-page-size=0x200000".into(),
            lld: "-Wl,-z,separate-loadable-segments".into(),
            script: "SECTIONS {}\n".into(),
        },
        took_ns: Nanos::millis(31),
    }
}

const fn range_of_a_header(offset: u64) -> FileRange {
    FileRange { offset_bytes: Bytes(offset), length_bytes: Bytes(56) }
}

pub(crate) fn fold_run(folded: FoldReport) -> SavedRun {
    text_run(TextReport::Fold { slot_bytes: PageSize::PMD_2M, folded: Box::new(folded) })
}

pub(crate) fn process() -> TextReport {
    let mapped = |path: &str, areas| MappedFile {
        path: path.into(),
        areas,
        after_warm: TextCoverage { text_bytes: Bytes::mib(24), read_only_bytes: Bytes(0) },
    };
    let small = vec![TextArea {
        kind: TextAreaKind::Text,
        pieces: pieces(0x7f00_0000_0000, &[HugeStanding::TooSmall]),
    }];
    TextReport::ExplainProcess {
        slot_bytes: PageSize::PMD_2M,
        process: ExplainedProcess {
            pid: 1234,
            name: "example".into(),
            is_disabled: true,
            files: vec![
                mapped("/usr/bin/example", areas()),
                mapped("/usr/lib/libsmall.so.1", small.clone()),
                mapped("/usr/lib/libsmaller.so.2", small),
            ],
            generated: generated(),
            heap: heap(),
        },
    }
}

/// Anonymous memory: a mapping for each reason, more mappings than are listed, and small ones.
fn heap() -> Vec<HeapArea> {
    use HugeStanding::{Boundary, Huge, NotAsked, NotTouched, PoolEmpty, Refused, TooSmall};
    let area = |nth: u64, name: &str, standings: &[HugeStanding]| {
        let stretch = |(at, standing): (u64, &HugeStanding)| HeapStretch {
            address: (nth << 32) + at * PageSize::PMD_2M.bytes(),
            length_bytes: Bytes::mib(2),
            standing: standing.clone(),
        };
        HeapArea {
            name: name.into(),
            slot_bytes: PageSize::PMD_2M,
            populated_bytes: Bytes::mib(20 - nth),
            stretches: (0..).zip(standings).map(stretch).collect(),
        }
    };
    let giant = PageSize::new(Bytes::mib(1024).0).unwrap();
    let stretch = |at: u64, standing| HeapStretch {
        address: (9 << 40) + at * giant.bytes(),
        length_bytes: Bytes(giant.bytes()),
        standing,
    };
    let pool = HeapArea {
        name: "/anon_hugepage (deleted)".into(),
        slot_bytes: giant,
        populated_bytes: Bytes(giant.bytes()),
        stretches: vec![stretch(0, Huge), stretch(1, PoolEmpty)],
    };
    let mut all = vec![
        area(1, "[heap]", &[Boundary, Huge, NotAsked, Huge, NotTouched, Boundary]),
        area(2, "", &[Refused, NotTouched]),
        area(3, "[stack]", &[TooSmall]),
        pool,
    ];
    all.extend((4..16).map(|nth| area(nth, "[anon: arena]", &[HugeStanding::NotOffered])));
    all
}

/// Code generated by a process: a mapping with a piece of every kind, and small ones.
pub(crate) fn generated() -> Vec<TextArea> {
    use HugeStanding::{Boundary, Huge, NotTouched, SmallPages, TooSmall};
    let area = |start, standings: &[HugeStanding]| TextArea {
        kind: TextAreaKind::Text,
        pieces: pieces(start, standings),
    };
    vec![
        area(0x7f10_0000_0000, &[SmallPages, Huge, Huge, NotTouched, Boundary]),
        area(0x7f20_0000_0000, &[TooSmall]),
        area(0x7f30_0000_0000, &[TooSmall]),
    ]
}

pub(crate) fn collapsed() -> CollapsedProcess {
    let refused = |why: &str, slots| RefusedSlots { why: why.into(), slots };
    let part = |path: Option<&str>, areas, refused: Vec<RefusedSlots>| CollapsedPart {
        path: path.map(str::to_owned),
        huge_before_bytes: Bytes(0),
        tried_slots: 3,
        refused,
        areas,
        grown_bytes: Bytes::kib(64),
        later_huge_bytes: Some(Bytes::mib(2)),
    };
    let idle =
        CollapsedPart { tried_slots: 0, ..part(Some("/usr/lib/libidle.so"), vec![], vec![]) };
    CollapsedProcess {
        pid: 1234,
        name: "example".into(),
        is_disabled: false,
        way: CollapseWay::Reread,
        parts: vec![
            part(None, generated(), vec![refused("no huge page was free", 1)]),
            part(Some("/usr/bin/example"), areas(), vec![refused("this kernel collapses none", 3)]),
            idle,
        ],
        took_ns: Nanos::millis(2),
        longest_stop_ns: Some(Nanos::millis(1)),
        later_ns: Some(Nanos::secs(5)),
    }
}

pub(crate) fn collapse_run(process: CollapsedProcess) -> SavedRun {
    text_run(TextReport::Collapse { slot_bytes: PageSize::PMD_2M, process })
}

fn totals(file_huge: u64) -> HugeTotals {
    HugeTotals { file_huge_bytes: Some(Bytes::mib(file_huge)), ..HugeTotals::default() }
}

/// A kernel that supports only huge folios.
pub(crate) fn plain_system() -> TextSystem {
    let offered = |cleaner, may_write| OfferedCleaner { cleaner, may_write };
    TextSystem {
        hugetext: None,
        boot_mode: None,
        collapses_files: Fact::Known(false),
        pace: Fact::Known(KhugepagedPace {
            round_bytes: Bytes::mib(16),
            sleep_ns: Nanos::secs(10),
        }),
        cleaners: vec![
            offered(HugePageCleaner::Caches, Fact::Known(true)),
            offered(HugePageCleaner::Split, Fact::missing("debugfs is not mounted")),
        ],
        changes: Vec::new(),
        cleaned: None,
        files: Vec::new(),
        processes: Vec::new(),
        notes: Vec::new(),
        before: totals(16),
        after: None,
    }
}

/// A kernel with hugetext, with unchanged settings or with both changed.
pub(crate) fn hugetext_system(is_changed: bool) -> TextSystem {
    let mode = if is_changed { HugetextMode::Both } else { HugetextMode::Files };
    let threshold = Bytes::kib(if is_changed { 4 } else { 0 });
    let change = |setting, before, after| HugetextChange { setting, before, after };
    let changes = [
        change(HugetextSetting::Mode, 1, 3),
        change(HugetextSetting::PadThreshold, 0, threshold.0),
    ];
    TextSystem {
        hugetext: Some(HugetextState {
            mode: Fact::Known(mode),
            pad_threshold_bytes: Fact::Known(threshold),
        }),
        boot_mode: Some(HugetextMode::Files),
        collapses_files: Fact::Known(true),
        changes: if is_changed { changes.to_vec() } else { Vec::new() },
        after: is_changed.then(|| totals(18)),
        ..plain_system()
    }
}

pub(crate) fn system_run(system: TextSystem) -> SavedRun {
    text_run(TextReport::System { slot_bytes: PageSize::PMD_2M, system: Box::new(system) })
}

pub(crate) fn status(pid: Option<i32>) -> TextReport {
    let count = |nth: u64| TextCount {
        name: format!("program-{nth}"),
        pid: 100 + nth as i32,
        text_bytes: Bytes::mib(30),
        resident_bytes: Bytes::mib(20),
        file_pmd_bytes: Bytes::mib(if nth < 2 { 18 } else { 0 }),
        shmem_pmd_bytes: Bytes(0),
        anon_huge_bytes: Bytes::mib(if nth == 0 { 2 } else { 0 }),
    };
    TextReport::Status(TextStatus {
        pid,
        counts: (0..23).map(count).collect(),
        other_file_pmd_bytes: Bytes::mib(2),
        hidden_processes: 3,
        totals: HugeTotals {
            file_huge_bytes: Some(Bytes::mib(128)),
            file_pmd_bytes: Some(Bytes::mib(36)),
            shmem_huge_bytes: Some(Bytes(0)),
            shmem_pmd_bytes: None,
            anon_huge_bytes: Some(Bytes::mib(64)),
        },
    })
}

pub(crate) fn text_run(report: TextReport) -> SavedRun {
    let mut run =
        SavedRun::new(RunKind::Text, String::new(), 1_700_000_000_000_000_000, Vec::new());
    run.body = Some(RunBody::Text(report));
    run
}

pub(crate) fn cache_run(report: CacheReport) -> SavedRun {
    let mut run =
        SavedRun::new(RunKind::Cache, String::new(), 1_700_000_000_000_000_000, Vec::new());
    run.body = Some(RunBody::Cache(report));
    run
}
