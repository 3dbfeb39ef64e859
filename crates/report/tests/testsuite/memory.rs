//! Accounts of memory as terminal text and as pages: a constructed one against a reviewed text in
//! `tests/golden`, and hostile ones. `UPDATE_GOLDEN` writes the text again.

use crate::support::{
    HOSTILE, PLAIN, assert_harmless, assert_needs_nothing_from_outside, check, compare_two, proven,
    read_report,
};
use pagewise_model::address::VirtualAddress;
use pagewise_model::fault::{FaultSite, MemorySite, MemorySites, MemoryStack, SourceLine};
use pagewise_model::memory_account::{
    AccountMoment, KernelMemory, MallocAccount, MemoryAccount, MemoryKind, MemoryPart,
    MemorySaving, OwnerEvidence, PeakWatch, ProcessAccount, ResidencyStrip, UnderusedHugePages,
};
use pagewise_model::run::{RunKind, SavedRun};
use pagewise_model::usage::MemoryUse;
use pagewise_model::{Bytes, Fact, Nanos};
use pagewise_report::{csv, headline, html, markdown, memory_section, render, render_whole};

fn part(kind: MemoryKind, name: &str, evidence: OwnerEvidence, mebibytes: u64) -> MemoryPart {
    let bytes = Bytes::mib(mebibytes);
    MemoryPart {
        kind,
        name: name.to_owned(),
        evidence,
        pss_bytes: bytes,
        rss_bytes: bytes,
        referenced_bytes: bytes,
        swapped_bytes: Bytes(0),
        huge_bytes: Bytes(0),
    }
}

fn process(pid: i32, name: &str, parts: Vec<MemoryPart>) -> ProcessAccount {
    let all = parts.iter().fold(Bytes(0), |sum, part| sum + part.pss_bytes);
    ProcessAccount {
        pid,
        name: name.to_owned(),
        threads: 9,
        pss_bytes: all,
        rss_bytes: all,
        swapped_bytes: Bytes(0),
        parts,
        beside: KernelMemory {
            page_table_bytes: Some(Bytes::mib(1)),
            kernel_stack_bytes: Bytes::kib(144),
        },
        map: vec![ResidencyStrip {
            start_address: VirtualAddress(0x7f00_0000_0000),
            size_bytes: Bytes::mib(64),
            name: "[heap]".to_owned(),
            resident_bytes: Bytes::mib(32),
            referenced_bytes: Bytes::mib(16),
            cells: vec![0, 10, 50, 80, 100],
        }],
        malloc: None,
        half_used: Fact::missing("no right"),
        copied_bytes: None,
        unread: None,
    }
}

fn account() -> MemoryAccount {
    let parts = vec![
        part(MemoryKind::Live, "main arena", OwnerEvidence::Mark, 100),
        part(MemoryKind::Freed, "other arenas", OwnerEvidence::Mark, 60),
        part(MemoryKind::Live, "large blocks of malloc", OwnerEvidence::Mark, 20),
        part(MemoryKind::Code, "/usr/lib/libbig.so.1", OwnerEvidence::Name, 8),
        part(MemoryKind::Mapped, "/usr/bin/server", OwnerEvidence::Caller, 6),
        part(MemoryKind::NotNamed, "", OwnerEvidence::Nothing, 4),
    ];
    let malloc = MallocAccount {
        arenas: 9,
        live_bytes: Bytes::mib(100),
        freed_bytes: Bytes::mib(60),
        freed_elsewhere_bytes: Bytes::mib(60),
        whole_pages_bytes: Bytes::mib(48),
        top_bytes: Bytes::mib(8),
        large_bytes: Bytes::mib(2),
        live_blocks: 123_456,
        freed_blocks: 9_000,
        not_walked: vec!["the chain of its blocks does not reach its end".to_owned()],
    };
    let half = UnderusedHugePages {
        huge_bytes: Bytes::mib(512),
        read_bytes: Bytes::mib(256),
        zero_bytes: Bytes::mib(30),
    };
    let server = ProcessAccount {
        malloc: Some(malloc),
        half_used: Fact::Known(half),
        ..process(41, "server", parts)
    };
    let child = ProcessAccount {
        copied_bytes: Some(Bytes::mib(1)),
        unread: Some("process_vm_readv: not permitted".to_owned()),
        ..process(42, "helper", vec![part(MemoryKind::Arena, "heap", OwnerEvidence::Name, 2)])
    };
    let back = |remedy: &str, mebibytes, why: &str| MemorySaving {
        remedy: remedy.to_owned(),
        bytes: Bytes::mib(mebibytes),
        why: why.to_owned(),
    };
    MemoryAccount {
        moment: AccountMoment::Release { pid: 41, since_start_ns: Nanos::millis(1200) },
        watched: Some(PeakWatch {
            looks: 12,
            accounts: 3,
            peak_rss_bytes: Bytes::mib(220),
            cpu_ns: Nanos::millis(90),
        }),
        used_within_ns: None,
        processes: vec![server, child],
        unseen_processes: 1,
        give_backs: vec![
            back("arenas", 60, "freed blocks elsewhere"),
            back("trim", 10, "whole pages"),
        ],
        sites: Some(Fact::Known(sites())),
    }
}

/// Six sites. A report shows five of them.
fn sites() -> MemorySites {
    let site = |function: &str, line, mebibytes| MemorySite {
        site: FaultSite {
            function: Some(function.to_owned()),
            path: "/usr/bin/server".to_owned(),
            offset_bytes: Bytes(64),
            source: Some(SourceLine { file: "/src/server.c".to_owned(), line }),
            ..FaultSite::default()
        },
        bytes: Bytes::mib(mebibytes),
    };
    let stack = |frames: &[&str], mebibytes| MemoryStack {
        frames: frames.iter().map(|&frame| frame.to_owned()).collect(),
        bytes: Bytes::mib(mebibytes),
    };
    MemorySites {
        seen_bytes: Bytes::mib(190),
        unseen_bytes: Bytes::mib(10),
        lost_records: 3,
        lost_stacks: 2,
        sites: vec![
            site("fill", 10, 100),
            site("fill", 12, 40),
            site("load", 30, 20),
            site("main", 99, 15),
            site("index", 7, 10),
            site("tail", 8, 5),
        ],
        stacks: vec![stack(&["main", "fill"], 140), stack(&["main", "load"], 50)],
    }
}

fn run(account: MemoryAccount) -> SavedRun {
    let mut run = SavedRun::new(RunKind::Profile, "r".into(), 0, vec!["server".into()]);
    run.memory = Some(account);
    run
}

#[test]
fn an_account_as_text() {
    let run = run(account());
    let text = render_whole(&run, &PLAIN);
    check("memory.txt", &text);
    check("brief-memory.txt", &read_report(&run, &PLAIN));
    assert!(headline(&run).contains("98% of it by name"), "{}", headline(&run));
    assert!(text.contains(&memory_section(&account()).text(&PLAIN)));
}

#[test]
fn a_page_has_all_parts_and_pages() {
    let page = html(&run(account()));
    assert_needs_nothing_from_outside(&page);
    assert!(page.contains("Memory by who first touched it") && page.contains("fill: 74%, 140 MiB"));
    assert!(page.contains("tail (server) server.c:8"), "the page has all sites");
    assert!(page.contains("/usr/lib/libbig.so.1") && page.contains("·░▒▓█"), "{page}");
}

#[test]
fn other_tools_get_tables() {
    let list = csv(&run(account()));
    assert_eq!(list.lines().count(), 1 + 7);
    assert!(
        list.contains("41,server,live,main arena,mark,104857600,104857600,104857600,0,0\n"),
        "{list}"
    );
    assert!(markdown(&run(account())).contains("| freed, kept | 60.0 MiB | 30% |"));
}

#[test]
fn use_within_a_time_is_shown() {
    let used = MemoryAccount { used_within_ns: Some(Nanos::secs(5)), ..account() };
    let text = memory_section(&used).text(&PLAIN);
    assert!(
        text.contains("within 5.00 s the program used 200 MiB of 200 MiB resident; 0 B"),
        "{text}"
    );
}

#[test]
fn two_accounts_are_compared_by_kind() {
    let text = compare_two(&run(account()), &run(account()), None).text(&PLAIN);
    let line = text.lines().find(|line| line.contains("freed, kept")).unwrap();
    assert_eq!(line.matches("60.0 MiB").count(), 2, "{text}");
    let lines = text.lines().filter(|line| line.trim_start().starts_with("live"));
    assert_eq!(lines.count(), 1, "{text}");
}

#[test]
fn names_of_others_do_no_harm() {
    let mut hostile = account();
    for process in &mut hostile.processes {
        process.name.push_str(HOSTILE);
        process.map[0].name.push_str(HOSTILE);
        process.parts.iter_mut().for_each(|part| part.name.push_str(HOSTILE));
    }
    let mut found = sites();
    found.sites[0].site.function = Some(HOSTILE.to_owned());
    found.stacks[0].frames.push(HOSTILE.to_owned());
    hostile.sites = Some(Fact::Known(found));
    assert_harmless(&render(&run(hostile.clone()), &PLAIN));
    assert_needs_nothing_from_outside(&html(&run(hostile)));
}

#[test]
fn a_session_with_sampled_memory_draws_it_over_time() {
    let mut session = proven();
    assert!(!html(&session).contains("Memory over time"));
    let experiment = session.experiment.as_mut().unwrap();
    for point in experiment.blocks.iter_mut().flat_map(|block| &mut block.points) {
        point.usage.memory = Some(MemoryUse {
            mean_pss_bytes: Bytes::mib(150),
            peak_pss_bytes: Bytes::mib(200),
            page_table_bytes: Bytes::mib(1),
            huge_bytes: Bytes(0),
            samples: 9,
            over_time_bytes: vec![Bytes::mib(100), Bytes::mib(200)],
        });
    }
    let page = html(&session);
    assert_needs_nothing_from_outside(&page);
    assert!(
        page.contains("plain, 250.0 ms: 100 MiB") && page.contains("heap-huge, 390.0 ms: 200 MiB"),
        "{page}"
    );
}
