use super::*;
use pagewise_model::fold::TailOutcome;
use proptest::prelude::*;
use std::io::Read;

const HUGE: u64 = PageSize::PMD_2M.bytes();
const PAGE: u64 = PageSize::BASE_4K.bytes();
const ASKED: FoldOptions = FoldOptions {
    merge: false,
    fill_above: Bytes(PAGE),
    base: PageSize::BASE_4K,
    huge: PageSize::PMD_2M,
};
const MERGE: FoldOptions = FoldOptions { merge: true, ..ASKED };
const HEADER: usize = 64;
const ENTRY: usize = 56;

/// A loaded part: flags, offset, address, size in the file and in memory.
type Loaded = (u32, u64, u64, u64, u64);
const R: u32 = 4;
const RX: u32 = 5;
const RW: u32 = 6;

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// The headers of a file with these parts, and nothing else.
fn elf(kind: u16, loads: &[Loaded]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER + loads.len() * ENTRY];
    put(&mut bytes, 0, b"\x7fELF\x02\x01\x01");
    put(&mut bytes, 16, &kind.to_le_bytes());
    put(&mut bytes, 32, &(HEADER as u64).to_le_bytes());
    put(&mut bytes, 54, &(ENTRY as u16).to_le_bytes());
    put(&mut bytes, 56, &(loads.len() as u16).to_le_bytes());
    for (nth, (flags, offset, address, file, memory)) in loads.iter().enumerate() {
        let at = HEADER + nth * ENTRY;
        put(&mut bytes, at, &1_u32.to_le_bytes());
        put(&mut bytes, at + 4, &flags.to_le_bytes());
        for (nth, word) in [offset, address, address, file, memory, &PAGE].iter().enumerate() {
            put(&mut bytes, at + 8 + nth * 8, &word.to_le_bytes());
        }
    }
    bytes
}

const PROGRAM: u16 = 3;
const FIXED: u16 = 2;

/// End of the last part.
fn len_of(loads: &[Loaded]) -> u64 {
    loads.iter().map(|load| load.1 + load.3).max().unwrap_or_default()
}

fn planned(kind: u16, loads: &[Loaded], options: &FoldOptions) -> FoldPlan {
    plan(elf(kind, loads).as_slice(), len_of(loads), options).unwrap()
}

/// The headers of a database server as a distribution links it.
const SERVER: [Loaded; 4] = [
    (R, 0, 0, 0xc_ca60, 0xc_ca60),
    (RX, 0xc_d000, 0xc_d000, 0x52_99a9, 0x52_99a9),
    (R, 0x5f_7000, 0x5f_7000, 0x25_8e30, 0x25_8e30),
    (RW, 0x85_08b0, 0x85_08b0, 0x3_50da, 0x6_7050),
];

/// The parts of the copy, in the form of the input.
fn copied(kind: u16, loads: &[Loaded], plan: &FoldPlan) -> Vec<(Loaded, u64)> {
    let mut bytes = elf(kind, loads);
    plan.apply(0, &mut bytes);
    let image = ElfHeaders::read(bytes.as_slice(), plan.copy_len()).unwrap();
    let parts = image.parts().into_iter().map(|part| part.before);
    let form = |l: LoadHeader| ((l.flags.0, l.offset, l.address, l.file, l.memory), l.align);
    parts.map(form).collect()
}

#[test]
fn neighbours_become_one_part_and_what_is_written_stays() {
    let plan = planned(PROGRAM, &SERVER, &MERGE);
    let all = (RX, 0, 0, 0x84_fe30, 0x84_fe30);
    assert_eq!(copied(PROGRAM, &SERVER, &plan), [(all, HUGE), (SERVER[3], PAGE)]);
    let changes = &plan.changes;
    assert_eq!((changes.base_bits_lost, changes.appended), (9, None));
    assert_eq!(changes.made_executable_bytes, Bytes(0xc_ca60 + 0x25_8e30));
    let edited: Vec<u64> = changes.edited.iter().map(|range| range.offset_bytes.0).collect();
    assert_eq!(edited, [64, 120, 176], "the first three headers");
    let joined: Vec<bool> = changes.segments.iter().map(|s| s.after.is_none()).collect();
    assert_eq!(joined, [false, true, true, false]);
    let taken = TailOutcome::Taken { by_address: 0x85_08b0 };
    assert_eq!((changes.tails[0].address, changes.tails[0].outcome), (4 * HUGE, taken));
    assert_eq!(changes.tails[0].tail_bytes, Bytes(0x5_0000), "up to the page of the next");
}

#[test]
fn alignment_alone_changes_what_is_read_only() {
    let plan = planned(PROGRAM, &SERVER, &ASKED);
    let aligns: Vec<u64> = copied(PROGRAM, &SERVER, &plan).iter().map(|part| part.1).collect();
    assert_eq!(aligns, [HUGE, HUGE, HUGE, PAGE]);
    assert_eq!(plan.changes.made_executable_bytes, Bytes(0));
    let fixed = planned(FIXED, &SERVER, &ASKED);
    assert!(fixed.changes.are_none(), "a base that is given needs no alignment");
    assert_eq!(planned(FIXED, &SERVER, &MERGE).changes.base_bits_lost, 0);
}

#[test]
fn what_wins_no_slot_is_left_alone() {
    let small: [Loaded; 3] = [
        (R, 0, 0, 0x1290, 0x1290),
        (RX, 0x2000, 0x2000, 0x3d59, 0x3d59),
        (RW, 0x7d70, 0x8d70, 0x470, 0x608),
    ];
    assert!(planned(PROGRAM, &small, &MERGE).changes.are_none());
    // lld moves each part by a page in memory only, so no part is congruent with its predecessor.
    let moved: [Loaded; 3] = [
        (R, 0, 0, 0x4b20, 0x4b20),
        (RX, 0x4b20, 0x5b20, 3 * HUGE, 3 * HUGE),
        (RW, 0x60_4b20, 0x60_6b20, PAGE, PAGE),
    ];
    let plan = planned(PROGRAM, &moved, &MERGE);
    assert!(plan.changes.are_none());
    assert_eq!(plan.changes.segments[1].off_by_bytes, Bytes(PAGE));
}

/// Linked with 2 MiB alignment: text and data are in separate slots, and the file ends inside the slot of the
/// text.
const LINKED: [Loaded; 2] =
    [(RX, 0, 0, HUGE + 0x3000, HUGE + 0x3000), (RW, HUGE + 0x3000, 2 * HUGE + 0x3000, 16, 16)];

#[test]
fn a_last_slot_is_filled_with_what_follows_and_with_zeros() {
    let plan = planned(PROGRAM, &LINKED, &ASKED);
    let filled = (RX, 0, 0, 2 * HUGE, 2 * HUGE);
    assert_eq!(copied(PROGRAM, &LINKED, &plan)[0].0, filled);
    let len = len_of(&LINKED);
    assert_eq!(plan.changes.appended, Some(range(len, 2 * HUGE - len)));
    assert_eq!(plan.changes.tails[0].outcome, TailOutcome::Filled);
    let off = FoldOptions { fill_above: Bytes(0), ..ASKED };
    let plan = planned(PROGRAM, &LINKED, &off);
    assert!(plan.changes.tails.is_empty() && plan.changes.appended.is_none());
    let high = FoldOptions { fill_above: Bytes(0x3000), ..ASKED };
    let plan = planned(PROGRAM, &LINKED, &high);
    assert_eq!(plan.changes.tails[0].outcome, TailOutcome::BelowThreshold);
}

#[test]
fn a_file_with_something_appended_does_not_grow() {
    let bytes = elf(PROGRAM, &LINKED);
    let plan = plan(bytes.as_slice(), len_of(&LINKED) + 7, &ASKED).unwrap();
    let left = TailOutcome::Payload { payload_bytes: Bytes(7) };
    assert_eq!((plan.changes.tails[0].outcome, plan.changes.appended), (left, None));
}

const fn not_mapped(error: ElfError) -> FoldPlanError {
    FoldPlanError::Elf(error)
}

fn refused(bytes: &[u8], len: u64) -> FoldPlanError {
    plan(bytes, len, &MERGE).unwrap_err()
}

#[test]
fn what_cannot_be_folded_is_distinguished() {
    let good = elf(PROGRAM, &SERVER);
    let len = len_of(&SERVER);
    let with = |at: usize, value: &[u8]| {
        let mut bytes = good.clone();
        put(&mut bytes, at, value);
        refused(&bytes, len)
    };
    assert_eq!(refused(b"#!/bin/sh\n", 10), not_mapped(ElfError::NotElf));
    assert_eq!(refused(&[], 0), not_mapped(ElfError::NotElf));
    assert_eq!(with(4, &[1]), FoldPlanError::Narrow);
    assert_eq!(with(5, &[2]), FoldPlanError::BigEndian);
    assert_eq!(with(16, &[1]), not_mapped(ElfError::NotLoaded));
    assert_eq!(refused(&good, len - 1), not_mapped(ElfError::Truncated));
    assert_eq!(refused(&good[..100], len), not_mapped(ElfError::Truncated));
    let unmappable =
        |error: FoldPlanError| matches!(error, FoldPlanError::Elf(ElfError::Unmappable(_)));
    assert!(unmappable(with(56, &[0])), "no headers");
    assert!(unmappable(with(HEADER + ENTRY + 16, &0_u64.to_le_bytes())), "out of order");
    assert!(unmappable(with(HEADER + ENTRY + 16, &[8])), "differ within the page");
    assert!(unmappable(with(HEADER + ENTRY + 40, &[0; 8])), "larger in the file");
    assert!(unmappable(with(HEADER + ENTRY + 17, &[0xc0])), "overlap");
    let highest = u64::MAX - 0xfff;
    assert!(unmappable(with(HEADER + 3 * ENTRY + 40, &highest.to_le_bytes())), "no end");
    let dynamic: Vec<u8> = [22_u64, 0, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut relocated = good.clone();
    put(&mut relocated, HEADER + 3 * ENTRY, &2_u32.to_le_bytes());
    put(&mut relocated, HEADER + 3 * ENTRY + 8, &(good.len() as u64).to_le_bytes());
    put(&mut relocated, HEADER + 3 * ENTRY + 32, &(dynamic.len() as u64).to_le_bytes());
    relocated.extend(dynamic);
    assert_eq!(refused(&relocated, len), FoldPlanError::TextRelocations);
}

/// Parts as linkers create them, with a chance of every possible error.
fn loads() -> impl Strategy<Value = Vec<Loaded>> {
    let part = (0..600_u64, 1..5 * HUGE, 0..4_usize, 0..3_u64, 0..2_u64);
    prop::collection::vec(part, 1..7).prop_map(|parts| {
        let (mut offset, mut address) = (0, 0);
        let place = |(gap, file, flags, shift, bss): (u64, u64, usize, u64, u64)| {
            offset += gap * PAGE;
            address += (gap + shift) * PAGE;
            let flags = [R, RX, RX, RW][flags];
            let load = (flags, offset, address, file, file + bss * HUGE);
            address = (address + load.4).next_multiple_of(PAGE);
            offset = (offset + file).next_multiple_of(PAGE);
            load
        };
        parts.into_iter().map(place).collect()
    })
}

proptest! {
    #[test]
    fn every_address_keeps_its_bytes_and_a_second_time_changes_nothing(
        loads in loads(), merge: bool, fixed: bool, fill in 0..HUGE, payload in 0..3_u64,
    ) {
        let options = FoldOptions { merge, fill_above: Bytes(fill), ..ASKED };
        let kind = if fixed { FIXED } else { PROGRAM };
        let bytes = elf(kind, &loads);
        let len = len_of(&loads) + payload;
        let plan = plan(bytes.as_slice(), len, &options).unwrap();
        let parts = copied(kind, &loads, &plan);
        for load in &loads {
            let holds = |part: &&(Loaded, u64)| {
                let (_, _, address, _, memory) = part.0;
                (address..address + memory).contains(&load.2)
            };
            let (part, align) = *parts.iter().find(holds).expect("each part is in one of the copy");
            prop_assert!(part.2 + part.4 >= load.2 + load.4);
            prop_assert_eq!(part.2.wrapping_sub(part.1), load.2.wrapping_sub(load.1));
            prop_assert_eq!(part.0 & load.0, load.0, "no right is lost");
            prop_assert!(load.0 != RW || part == *load, "what is written stays as it is");
            prop_assert_eq!((part.2 - part.1) % align, 0, "older loaders ask for that");
        }
        for pair in parts.windows(2) {
            prop_assert!(pair[0].0.2 + pair[0].0.4 <= pair[1].0.2);
        }
        prop_assert!(parts.iter().all(|part| part.0.1 + part.0.3 <= plan.copy_len()));
        let mut copy = bytes;
        plan.apply(0, &mut copy);
        let again = super::plan(copy.as_slice(), plan.copy_len(), &options).unwrap();
        prop_assert!(again.changes.are_none(), "{:?}", again.changes);
    }

    #[test]
    fn edits_are_the_same_in_pieces_of_any_size(size in 1..400_usize) {
        let plan = planned(PROGRAM, &SERVER, &MERGE);
        let (mut whole, mut pieces) = (elf(PROGRAM, &SERVER), elf(PROGRAM, &SERVER));
        plan.apply(0, &mut whole);
        for (nth, piece) in pieces.chunks_mut(size).enumerate() {
            plan.apply((nth * size) as u64, piece);
        }
        prop_assert_eq!(whole, pieces);
    }

    #[test]
    fn hostile_headers_are_taken(
        words in prop::collection::vec(any::<u64>(), 0..80), len: u64, merge: bool, fill: u64, kind in 1..4_u16,
    ) {
        let options = FoldOptions { merge, fill_above: Bytes(fill), ..ASKED };
        let random: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let _any = plan(random.as_slice(), len, &options);
        let mut bytes = elf(kind, &SERVER);
        for pair in words.chunks_exact(2) {
            let at = pair[0] as usize % (bytes.len() - 8);
            put(&mut bytes, at, &pair[1].to_le_bytes());
            let _any = plan(bytes.as_slice(), len, &options);
        }
    }

    #[test]
    fn damaged_headers_of_a_real_program_are_taken(
        damage in prop::collection::vec((0..1024_usize, any::<u8>()), 1..6), merge: bool,
    ) {
        let program = std::fs::File::open("/proc/self/exe").unwrap();
        let len = program.metadata().unwrap().len();
        let mut bytes = Vec::new();
        program.take(16 * PAGE).read_to_end(&mut bytes).unwrap();
        for (at, value) in damage {
            bytes[at] = value;
        }
        let options = FoldOptions { merge, ..ASKED };
        if let Ok(plan) = plan(bytes.as_slice(), len, &options) {
            let mut copy = bytes.clone();
            plan.apply(0, &mut copy);
            for edit in &plan.edits {
                let range = edit.offset as usize..edit.offset as usize + edit.bytes.len();
                prop_assert_eq!(&copy[range.clone()], &edit.bytes[..]);
                copy[range.clone()].copy_from_slice(&bytes[range]);
            }
            prop_assert_eq!(copy, bytes, "nothing else has changed");
        }
    }
}
