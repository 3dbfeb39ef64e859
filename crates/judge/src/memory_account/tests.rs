use super::*;
use pagewise_model::PageSize;
use pagewise_model::memory_account::{PYTHON_OBJECTS, ResidentMemory};
use proptest::prelude::*;

const PAGE: u64 = PageSize::BASE_4K.bytes();

fn resident(pages: u64) -> ResidentMemory {
    let bytes = Bytes(pages * PAGE);
    ResidentMemory {
        rss_bytes: bytes,
        pss_bytes: bytes,
        anonymous_bytes: bytes,
        ..ResidentMemory::default()
    }
}

fn mapping(path: &str, pages: u64) -> MappingMemorySeen {
    MappingMemorySeen {
        start: 1 << 20,
        end: (1 << 20) + pages * PAGE,
        is_writable: true,
        is_executable: false,
        is_shared: false,
        is_file: path.starts_with('/'),
        path: path.to_owned(),
        resident: resident(pages),
        cells: vec![100; 4],
        claims: Vec::new(),
    }
}

fn process(mappings: Vec<MappingMemorySeen>) -> ProcessMemorySeen {
    ProcessMemorySeen {
        pid: 7,
        parent: 1,
        name: "prog".to_owned(),
        threads: 3,
        is_forked: false,
        page_table_bytes: Some(Bytes(3 * PAGE)),
        mappings,
        owner: None,
        huge: Fact::Known(HugeSeen::default()),
        unread: None,
    }
}

fn facts(processes: Vec<ProcessMemorySeen>) -> MemoryAccountFacts {
    MemoryAccountFacts {
        processes,
        unseen_processes: 0,
        moment: AccountMoment::Running,
        watched: None,
        used_within_ns: None,
        kernel_stack_bytes: Bytes::kib(16),
    }
}

fn claim(pages: u64, mark: OwnerMark) -> OwnerClaim {
    OwnerClaim { start: 0, end: pages * PAGE, resident_bytes: Bytes(pages * PAGE), mark }
}

fn pages_of(account: &MemoryAccount, kind: MemoryKind) -> u64 {
    account.pss_of(|part| part.kind == kind).0 / PAGE
}

fn blocks(live: u64, freed: u64) -> MallocBlocks {
    MallocBlocks {
        live_bytes: Bytes(live * PAGE),
        freed_bytes: Bytes(freed * PAGE),
        whole_pages_bytes: Bytes(freed * PAGE),
        top_bytes: Bytes(PAGE),
        ..MallocBlocks::default()
    }
}

#[test]
fn kinds_by_names() {
    let library =
        MappingMemorySeen { is_writable: false, is_executable: true, ..mapping("/x.so", 8) };
    let library = MappingMemorySeen {
        resident: ResidentMemory { anonymous_bytes: Bytes(0), ..resident(8) },
        ..library
    };
    let mut data = mapping("/x.so", 4);
    data.resident.anonymous_bytes = Bytes(3 * PAGE);
    let code = MappingMemorySeen { is_executable: true, ..mapping("", 2) };
    let all = [
        library,
        data,
        code,
        mapping("[stack]", 5),
        mapping("[vdso]", 1),
        mapping("", 6),
        mapping("[anon: Go: heap]", 9),
        mapping("/dev/shm/x", 11),
        mapping("[heap]", 10),
    ];
    let account = account(&facts(vec![process(all.to_vec())]));
    let expected = [
        (MemoryKind::Code, 8),
        (MemoryKind::Data, 3),
        (MemoryKind::File, 1),
        (MemoryKind::Generated, 2),
        (MemoryKind::Stack, 5),
        (MemoryKind::Kernel, 1),
        (MemoryKind::NotNamed, 6),
        (MemoryKind::Labelled, 9),
        (MemoryKind::Shared, 11),
        (MemoryKind::Arena, 10),
    ];
    for (kind, pages) in expected {
        assert_eq!(pages_of(&account, kind), pages, "{kind:?}");
    }
    assert_eq!(account.pss(), Bytes(56 * PAGE));
    assert!((account.named_share() - 50.0 / 56.0).abs() < 1e-9);
    assert_eq!(account.processes[0].beside.kernel_stack_bytes, Bytes::kib(48));
    let map = &account.processes[0].map;
    assert_eq!((map.len(), map[0].name.as_str(), map[0].cells.len()), (9, "/dev/shm/x", 4));
}

#[test]
fn a_heap_is_live_and_freed_and_what_is_left_is_not_named() {
    let mut heap = mapping("", 100);
    let arena = |blocks| OwnerMark::Heap { arena: Some(64), blocks: Fact::Known(blocks) };
    heap.claims = vec![claim(60, arena(blocks(40, 20))), claim(10, OwnerMark::LargeBlock)];
    let mut main = mapping("[heap]", 30);
    main.claims =
        vec![claim(30, OwnerMark::Heap { arena: None, blocks: Fact::Known(blocks(25, 5)) })];
    let account = account(&facts(vec![process(vec![heap, main])]));
    let of = |kind| pages_of(&account, kind);
    assert_eq!(
        (of(MemoryKind::Live), of(MemoryKind::Freed), of(MemoryKind::NotNamed)),
        (75, 25, 30)
    );
    let malloc = account.processes[0].malloc.as_ref().unwrap();
    assert_eq!((malloc.arenas, malloc.freed_elsewhere_bytes), (2, Bytes(20 * PAGE)));
    let back =
        |name: &str| account.give_backs.iter().find(|one| one.remedy == name).map(|one| one.bytes);
    for remedy in ["arenas", "trim", "allocator"] {
        assert_eq!(back(remedy), Some(Bytes(25 * PAGE)), "{remedy}");
    }
    assert_eq!(back("heap-small"), None);
}

#[test]
fn a_bound_is_one_of_all_memory_or_none() {
    let heap = |blocks| {
        let mut main = mapping("[heap]", 30);
        main.claims = vec![claim(30, OwnerMark::Heap { arena: None, blocks })];
        main
    };
    let live = MallocBlocks { live_blocks: 100, ..blocks(30, 0) };
    let known = account(&facts(vec![process(vec![heap(Fact::Known(live))])]));
    let bytes = |account, remedy| at_most(account, remedy).map(|most| most.bytes);
    assert_eq!(bytes(&known, "arenas"), Some(Bytes(0)), "one arena");
    assert_eq!(bytes(&known, "trim"), Some(Bytes(0)));
    assert_eq!(bytes(&known, "allocator"), Some(Bytes(100 * 24)));
    assert_eq!(bytes(&known, "heap-huge"), None);

    let mut python = mapping("", 8);
    let pools = OwnerMark::Runtime { name: PYTHON_OBJECTS, live_bytes: Some(Bytes(5 * PAGE)) };
    python.claims = vec![claim(8, pools)];
    let pools = account(&facts(vec![process(vec![python])]));
    assert_eq!(bytes(&pools, "allocator"), Some(Bytes(8 * PAGE)));

    let unwalked = process(vec![heap(Fact::missing("it changes"))]);
    let partly = account(&facts(vec![process(vec![heap(Fact::Known(live))]), unwalked]));
    assert_eq!(bytes(&partly, "trim"), None);
    assert_eq!(bytes(&partly, "heap-small"), Some(Bytes(0)));
    let unseen = MemoryAccountFacts { unseen_processes: 1, ..facts(vec![process(vec![])]) };
    assert_eq!(bytes(&account(&unseen), "heap-small"), None);
}

#[test]
fn a_heap_that_was_not_walked_is_an_arena() {
    let mut heap = mapping("[heap]", 30);
    heap.claims =
        vec![claim(30, OwnerMark::Heap { arena: None, blocks: Fact::missing("no right") })];
    let account = account(&facts(vec![process(vec![heap])]));
    assert_eq!(pages_of(&account, MemoryKind::Arena), 30);
    assert_eq!(account.processes[0].malloc.as_ref().unwrap().not_walked, ["no right"]);
    assert!(account.give_backs.is_empty());
}

#[test]
fn shared_pages_count_in_parts() {
    let mut heap = mapping("", 100);
    heap.resident.pss_bytes = Bytes(50 * PAGE);
    heap.claims = vec![claim(80, OwnerMark::ThreadStack)];
    let account = account(&facts(vec![process(vec![heap])]));
    assert_eq!(
        (pages_of(&account, MemoryKind::Stack), pages_of(&account, MemoryKind::NotNamed)),
        (40, 10)
    );
}

#[test]
fn zeros_are_extended_to_huge_pages_that_were_not_read() {
    let seen =
        HugeSeen { bytes: Bytes::mib(8), read_bytes: Bytes::mib(4), zero_bytes: Bytes::mib(3) };
    let half = ProcessMemorySeen { huge: Fact::Known(seen), ..process(vec![mapping("", 2048)]) };
    let account = account(&facts(vec![half]));
    assert_eq!(account.give_backs[0].bytes, Bytes::mib(6));
    assert_eq!(account.give_backs[0].remedy, "heap-small");
}

#[test]
fn copies_after_a_fork_are_bounded() {
    let mut own = mapping("", 10);
    own.resident.private_dirty_bytes = Bytes(4 * PAGE);
    let parent = process(vec![mapping("", 10)]);
    let child = ProcessMemorySeen { pid: 8, parent: 7, is_forked: true, ..process(vec![own]) };
    let started = ProcessMemorySeen { is_forked: false, pid: 9, ..child.clone() };
    let account = account(&facts(vec![parent, child, started]));
    let copied = |pid| account.processes.iter().find(|one| one.pid == pid).unwrap().copied_bytes;
    assert_eq!((copied(7), copied(8), copied(9)), (None, Some(Bytes(4 * PAGE)), None));
}

#[test]
fn memory_of_another_allocator_is_named_by_exclusion() {
    let owned =
        ProcessMemorySeen { owner: Some("jemalloc".to_owned()), ..process(vec![mapping("", 9)]) };
    let account = account(&facts(vec![owned]));
    let part = &account.processes[0].parts[0];
    assert_eq!((part.kind, part.evidence), (MemoryKind::Arena, OwnerEvidence::Exclusion));
}

proptest! {
    #[test]
    fn the_account_closes(
        rss in 0_u64..1 << 40,
        pss in 0_u64..1 << 40,
        claims in prop::collection::vec((0_u64..1 << 38, 0_u64..1 << 38), 0..6),
        path in "(/x|\\[heap\\]||\\[vdso\\])",
    ) {
        let mut seen = mapping(&path, 1);
        seen.resident = ResidentMemory { rss_bytes: Bytes(rss), pss_bytes: Bytes(pss.min(rss)), ..resident(0) };
        let heap = |(resident, freed): &(u64, u64)| OwnerClaim {
            start: 0,
            end: 0,
            resident_bytes: Bytes(*resident),
            mark: OwnerMark::Heap {
                arena: None,
                blocks: Fact::Known(MallocBlocks { freed_bytes: Bytes(*freed), ..MallocBlocks::default() }),
            },
        };
        seen.claims = claims.iter().map(heap).collect();
        let account = account(&facts(vec![process(vec![seen])]));
        prop_assert_eq!(account.pss_of(|_| true), Bytes(pss.min(rss)));
        let rss_of_parts: u64 = account.parts().map(|part| part.rss_bytes.0).sum();
        prop_assert_eq!(rss_of_parts, rss);
    }
}
