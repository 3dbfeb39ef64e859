use super::*;
use proptest::prelude::*;

fn map(pid: i32, start: u64, end: u64, is_executable: bool, path: &str) -> MapEvent {
    MapEvent {
        pid,
        start_address: start,
        size_bytes: Bytes(end - start),
        offset_bytes: Bytes(0),
        is_executable,
        is_shared: false,
        path: path.into(),
        file: None,
    }
}

fn spaces(maps: &[MapEvent]) -> AddressSpaces {
    let mut spaces = AddressSpaces::new(PageSize::BASE_4K, false);
    maps.iter().for_each(|map| spaces.map(map));
    spaces
}

fn found(spaces: &mut AddressSpaces, pid: i32, address: u64) -> (MappingKind, String, Option<u64>) {
    let target = spaces.find(pid, address, None);
    let path = spaces.places()[target.place as usize].path.clone();
    (target.kind, path, target.offset.map(|offset| offset.0))
}

#[test]
fn a_new_mapping_replaces_what_it_covers() {
    let mut spaces = spaces(&[
        map(1, 0x1000, 0x9000, false, "/a"),
        map(1, 0x3000, 0x5000, false, "/b"),
        map(1, 0x8000, 0xa000, false, "//anon"),
    ]);
    let file = |path: &str, offset| (MappingKind::File, path.to_owned(), Some(offset));
    assert_eq!(found(&mut spaces, 1, 0x2fff), file("/a", 0x1000));
    assert_eq!(found(&mut spaces, 1, 0x3001), file("/b", 0));
    assert_eq!(found(&mut spaces, 1, 0x5000), file("/a", 0x4000));
    assert_eq!(found(&mut spaces, 1, 0x8000).0, MappingKind::Anonymous);
    assert_eq!(found(&mut spaces, 1, 0xa000).0, MappingKind::Unknown);
    assert_eq!(found(&mut spaces, 2, 0x2000).0, MappingKind::Unknown);
}

#[test]
fn parts_of_an_image_are_data_and_so_is_its_zeroed_memory() {
    let mut spaces = spaces(&[
        map(1, 0x1000, 0x2000, false, "/bin/x"),
        map(1, 0x2000, 0x3000, true, "/bin/x"),
        map(1, 0x3000, 0x4000, false, "/bin/x"),
        map(1, 0x4000, 0x6000, false, "//anon"),
        map(1, 0x7000, 0x8000, false, "//anon"),
        map(1, 0x9000, 0xa000, true, "//anon"),
        map(1, 0xb000, 0xc000, false, "[heap]"),
        map(1, 0xd000, 0xe000, true, "[vdso]"),
    ]);
    let x = "/bin/x".to_owned();
    assert_eq!(found(&mut spaces, 1, 0x1000), (MappingKind::Data, x.clone(), Some(0)));
    assert_eq!(found(&mut spaces, 1, 0x2000).0, MappingKind::Code);
    assert_eq!(found(&mut spaces, 1, 0x4000), (MappingKind::Data, x, None));
    assert_eq!(found(&mut spaces, 1, 0x7000).0, MappingKind::Anonymous);
    assert_eq!(found(&mut spaces, 1, 0x9000).0, MappingKind::Code);
    assert_eq!(found(&mut spaces, 1, 0xb000).0, MappingKind::Heap);
    assert_eq!(found(&mut spaces, 1, 0xd000).0, MappingKind::Vdso);
}

#[test]
fn code_of_the_vdso_is_known_by_its_place_in_it() {
    let high = 0x7fff_0000_0000;
    let mut spaces = spaces(&[
        map(1, high, high + 0x2000, true, "[vdso]"),
        map(2, 0xd000, 0xe000, true, "[vdso]"),
    ]);
    let code = spaces.code(1, high + 0x1234);
    assert_eq!((spaces.path(code.path), code.offset), (VDSO, 0x1234));
    assert_eq!(spaces.code_at(1, high + 0x10), Some((VDSO, 0x10)));
    assert_eq!(found(&mut spaces, 1, high), (MappingKind::Vdso, String::new(), None));
    let other = spaces.code(2, 0xd234);
    assert_eq!((spaces.path(other.path), other.offset), ("", 0xd234), "that of 32-bit programs");
}

#[test]
fn stacks_are_known_by_the_stack_pointer() {
    let mut spaces = spaces(&[map(1, 0x10_0000, 0x90_0000, false, "//anon")]);
    let at = |stack| Some(OperandRegisters { stack, ..OperandRegisters::default() });
    let mut kind = |address, stack| spaces.find(1, address, at(stack)).kind;
    assert_eq!(kind(0x20_0000, 0x20_0100), MappingKind::Stack);
    assert_eq!(kind(0x20_0000, 0x60_0000), MappingKind::Anonymous);
    assert_eq!(kind(0x7fff_0000, 0x7ffe_0000), MappingKind::Stack);
    assert_eq!(kind(0x7fff_0000, 0x6fff_0000), MappingKind::Unknown);
}

#[test]
fn the_main_stack_grows_below_what_was_reported_of_it() {
    let top = 0x7fff_0000_0000;
    let reported = map(1, top - 0x2_1000, top, false, "[stack]");
    let mut spaces = spaces(&[reported, map(1, 0x1000, 0x2000, false, "/a")]);
    let mut kind = |address| spaces.find(1, address, None).kind;
    assert_eq!(kind(top - 0x3_0000), MappingKind::Stack);
    assert_eq!(kind(top - 0x2_1000 - NEAR_MAIN_STACK - 1), MappingKind::Unknown);
    assert_eq!((kind(top + 1), kind(0x3000)), (MappingKind::Unknown, MappingKind::Unknown));
}

#[test]
fn a_forked_process_has_its_parents_mappings_and_no_pages() {
    let mut spaces = spaces(&[map(1, 0x1000, 0x2000, false, "/a")]);
    assert_eq!(spaces.touch(1, 0x1000), PageHistory::New);
    assert_eq!(spaces.touch(1, 0x1fff), PageHistory::Touched);
    spaces.fork(2, 1);
    assert_eq!(spaces.touch(2, 0x1000), PageHistory::New);
    spaces.map(&map(2, 0x1000, 0x2000, false, "/b"));
    assert_eq!(found(&mut spaces, 1, 0x1000).1, "/a");
    assert_eq!(found(&mut spaces, 2, 0x1000).1, "/b");
    spaces.exec(2);
    assert_eq!(found(&mut spaces, 2, 0x1000).0, MappingKind::Unknown);
    assert_eq!(spaces.touch(2, 0x1000), PageHistory::New);
    assert_eq!((spaces.touched_pages(), spaces.processes_seen()), (3, 2));
}

#[test]
fn a_process_is_forgotten_with_its_last_thread() {
    let mut spaces = spaces(&[map(1, 0x1000, 0x2000, false, "/a")]);
    spaces.fork(1, 1);
    spaces.exit(1);
    assert_eq!(found(&mut spaces, 1, 0x1000).1, "/a");
    spaces.exit(1);
    assert_eq!(found(&mut spaces, 1, 0x1000).0, MappingKind::Unknown);
}

proptest! {
    /// Against one page number at a time.
    #[test]
    fn any_mappings_give_the_last_one_that_covers(
        maps in prop::collection::vec((0_u64..40, 1_u64..20), 1..30),
    ) {
        let mut spaces = AddressSpaces::new(PageSize::BASE_4K, false);
        let mut want = vec![None; 64];
        for (number, (start, pages)) in maps.iter().enumerate() {
            let path = format!("/{number}");
            spaces.map(&map(1, start * 4096, (start + pages) * 4096, false, &path));
            for (page, slot) in want.iter_mut().enumerate() {
                let page = page as u64;
                if (*start..start + pages).contains(&page) {
                    *slot = Some((path.clone(), (page - start) * 4096));
                }
            }
        }
        for (page, want) in want.into_iter().enumerate() {
            let (kind, path, offset) = found(&mut spaces, 1, page as u64 * 4096);
            match want {
                Some((name, at)) => prop_assert_eq!((path, offset), (name, Some(at))),
                None => prop_assert_eq!(kind, MappingKind::Unknown),
            }
        }
    }
}
