//! Which remedies fit which program. The facts decide, and each refusal gives the reason.

use crate::support::{Fake, request, spec};
use pagewise_judge::diagnosis::diagnose;
use pagewise_model::cache::{CacheSlot, SlotMap};
use pagewise_model::code_tlb::{CodeMissCounts, CountedEvent};
use pagewise_model::constructed;
use pagewise_model::look::{
    Allocator, LookFindings, PipeCall, PipeSeen, TracedLook, TracedProcess, UsedFile, WalkCounts,
};
use pagewise_model::plan::{FileKind, RemedyCandidate};
use pagewise_model::pool::HugePool;
use pagewise_model::text::{ElfLayout, ImagePlacement, LoadSegment};
use pagewise_model::trial::ComparedQuantity;
use pagewise_model::{Bytes, Fact, Nanos};
use pagewise_remedy::RemedyEvidence;
use pagewise_tune::choose;
use pagewise_tune::world::{
    ProgramArm, ProgramWorld, RunTiming, SessionSurroundings as _, TracedLookPlan,
};

/// The candidates for the program of numbers, changed by `change`.
fn candidates(change: impl Fn(&mut TracedLook, &mut LookFindings)) -> Vec<RemedyCandidate> {
    on_machine("madvise", change)
}

fn on_machine(
    thp: &str,
    change: impl Fn(&mut TracedLook, &mut LookFindings),
) -> Vec<RemedyCandidate> {
    in_world(Fake::default(), thp, change)
}

/// The candidates with this pool of huge pages.
fn with_pool(
    pool: HugePool,
    change: impl Fn(&mut TracedLook, &mut LookFindings),
) -> Vec<RemedyCandidate> {
    in_world(Fake { pool, ..Fake::default() }, "madvise", change)
}

fn in_world(
    world: Fake,
    thp: &str,
    change: impl Fn(&mut TracedLook, &mut LookFindings),
) -> Vec<RemedyCandidate> {
    judged(world, thp, false, change)
}

/// The candidates of a program whose standard error is a log or not.
fn judged(
    mut world: Fake,
    thp: &str,
    has_log: bool,
    change: impl Fn(&mut TracedLook, &mut LookFindings),
) -> Vec<RemedyCandidate> {
    let plain = ProgramArm::plain(&request(spec()));
    let runs =
        (0..2).map(|_| world.timed(&plain, &RunTiming::default()).unwrap().done.usage).collect();
    assert_eq!(world.timed_runs("plain"), 2);
    let (Fact::Known(mut traced), _) =
        world.traced(&ProgramArm::unchanged("plain", &[]), TracedLookPlan::default()).unwrap()
    else {
        panic!("no look")
    };
    let missing = || "not here".to_owned();
    let mut look = LookFindings {
        runs,
        traced: Fact::Missing(missing()),
        samples: Fact::Missing(missing()),
        user: Fact::Missing(missing()),
        walks: Fact::Missing(missing()),
        code_misses: Fact::Missing(missing()),
        faults: Fact::Missing(missing()),
    };
    change(&mut traced, &mut look);
    look.traced = Fact::Known(traced);
    let (prices, mut machine) = (world.prices().unwrap(), world.machine());
    machine.thp_enabled = Fact::Known(thp.to_owned());
    let diagnosis = diagnose(&look, &prices, &machine);
    let pool = world.pool();
    let (look, diagnosis) = (&look, &diagnosis);
    let (machine, prices, pool) = (&machine, &prices, &pool);
    let memory = None;
    let evidence = RemedyEvidence { look, diagnosis, machine, prices, pool, memory, has_log };
    choose::candidates(&evidence, ComparedQuantity::Time)
}

fn specs(candidates: &[RemedyCandidate], remedy: &str) -> Vec<String> {
    let one = candidates.iter().find(|c| c.remedy == remedy).expect("every remedy is asked");
    assert_eq!(one.fits(), one.ceiling_share > 0.0 && !one.doses.is_empty(), "{one:?}");
    one.doses.iter().map(pagewise_model::plan::RemedyDose::spec).collect()
}

fn why(candidates: &[RemedyCandidate], remedy: &str) -> String {
    candidates.iter().find(|c| c.remedy == remedy).expect("every remedy is asked").why.clone()
}

fn busy_pipe(traced: &mut TracedLook, look: &mut LookFindings) {
    traced.most_processes = 2;
    traced.pipes = vec![PipeSeen {
        inode: 7,
        capacity_bytes: Bytes::kib(64),
        writers: vec![10],
        readers: vec![11],
        inherited: false,
    }];
    for run in &mut look.runs {
        run.voluntary_switches = 30_000;
        run.read_bytes = Some(Bytes::gib(1));
        run.written_bytes = Some(Bytes::gib(1));
        run.sys_ns = Nanos::millis(400);
    }
}

#[test]
fn page_tables_that_forks_copy_add_to_what_huge_pages_could_give() {
    let ceiling = |forks: u64| {
        let all = candidates(|t, _| {
            let process = &mut t.processes[0];
            (process.forks, process.forked_bytes) = (forks, Bytes(process.anon_bytes.0 * forks));
        });
        all.iter().find(|one| one.remedy == "heap-huge").unwrap().ceiling_share
    };
    assert!(ceiling(20) > ceiling(0), "{} {}", ceiling(20), ceiling(0));
}

#[test]
fn a_heap_is_treated_by_its_allocator() {
    let plain = candidates(|_, _| {});
    assert_eq!(specs(&plain, "heap-huge"), ["heap-huge=glibc"]);
    let go = candidates(|t, _| {
        t.processes[0].allocator = Allocator::Go;
        t.processes[0].churn.large_mmap_calls = 3;
    });
    assert_eq!(specs(&go, "heap-huge"), ["heap-huge=inject"]);
    let old_glibc = candidates(|t, _| {
        t.processes[0].glibc_huge_tunable = Some(false);
        t.processes[0].churn.large_mmap_calls = 3;
    });
    assert_eq!(specs(&old_glibc, "heap-huge"), ["heap-huge=inject"]);
    let off = candidates(|t, _| t.processes[0].huge_pages_off = true);
    assert!(specs(&off, "heap-huge").is_empty());
    assert!(why(&off, "heap-huge").contains("for itself"), "{}", why(&off, "heap-huge"));
    let steps = candidates(|t, _| t.processes[0].allocator = Allocator::Musl);
    assert!(specs(&steps, "heap-huge").is_empty());
    assert!(why(&steps, "heap-huge").contains("grows in steps"), "{}", why(&steps, "heap-huge"));
}

#[test]
fn a_java_heap_gets_the_option_where_the_output_stays_the_same() {
    let java = |exe: &'static str, has_log: bool| {
        judged(Fake::default(), "madvise", has_log, move |t, _| {
            t.processes[0].allocator = Allocator::Hotspot;
            t.processes[0].exe = exe.to_owned();
            t.processes[0].churn.large_mmap_calls = 3;
        })
    };
    assert_eq!(specs(&java("/opt/jdk/bin/java", false), "heap-huge"), ["heap-huge=java"]);
    assert_eq!(specs(&java("/opt/jdk/bin/javac", false), "heap-huge"), ["heap-huge=inject"]);
    assert_eq!(specs(&java("/opt/jdk/bin/javac", true), "heap-huge"), ["heap-huge=java"]);
}

#[test]
fn a_heap_goes_to_the_pool_where_that_holds_it() {
    let as_it_is = |_: &mut TracedLook, _: &mut LookFindings| {};
    // 100,000 pages of 4 KiB are 196 of 2 MiB. One more holds the remainder, and an eighth is spare.
    assert_eq!(specs(&with_pool(constructed::pool(222), as_it_is), "pool"), ["pool=444M"]);
    let small = with_pool(constructed::pool(221), as_it_is);
    assert!(specs(&small, "pool").is_empty());
    assert!(why(&small, "pool").contains("use --system as root"), "{}", why(&small, "pool"));
    let addable = HugePool { addable_pages: 1, ..constructed::pool(221) };
    assert_eq!(specs(&with_pool(addable, as_it_is), "pool"), ["pool=444M"]);
    let forked = with_pool(constructed::pool(222), |t, _| {
        let copy = t.processes[0].clone();
        t.processes.push(TracedProcess { pid: 11, ..copy });
    });
    assert!(specs(&forked, "pool").is_empty(), "each copy may write all of its heap");
    for unfit in [Allocator::Go, Allocator::Jemalloc, Allocator::Unknown] {
        let other = with_pool(constructed::pool(999), |t, _| t.processes[0].allocator = unfit);
        assert!(specs(&other, "pool").is_empty(), "{unfit}");
    }
    let old = with_pool(constructed::pool(999), |t, _| {
        t.processes[0].glibc_huge_tunable = Some(false);
    });
    assert!(why(&old, "pool").contains("glibc 2.35"), "{}", why(&old, "pool"));
}

#[test]
fn huge_pages_that_are_on_or_off_for_all_leave_nothing_to_do() {
    assert!(why(&on_machine("always", |_, _| {}), "heap-huge").contains("already on"));
    assert!(why(&on_machine("never", |_, _| {}), "heap-huge").contains("are off"));
}

#[test]
fn heap_small_needs_memory_on_huge_pages() {
    assert!(specs(&candidates(|_, _| {}), "heap-small").is_empty());
    let huge = candidates(|t, _| t.processes[0].anon_huge_bytes = Bytes::mib(300));
    assert_eq!(specs(&huge, "heap-small"), ["heap-small"]);
}

#[test]
fn churn_is_what_was_faulted_in_again() {
    let untouched = candidates(|t, _| t.processes[0].churn.munmap_bytes = Bytes::gib(50));
    assert!(specs(&untouched, "malloc-keep").is_empty(), "address space costs nothing");
    let churn = candidates(|t, _| {
        let process = &mut t.processes[0];
        process.churn.munmap_bytes = Bytes::gib(1);
        process.churn.munmap_calls = 400;
        process.peak_rss_bytes = Bytes::mib(40);
        process.anon_bytes = Bytes::mib(1);
    });
    assert_eq!(specs(&churn, "malloc-keep"), ["malloc-keep=64M"]);
    assert!(why(&churn, "malloc-keep").contains("faulted in again"));
}

#[test]
fn pipes_of_the_program_are_grown_and_others_are_not() {
    let busy = candidates(busy_pipe);
    assert_eq!(specs(&busy, "pipe-grow"), ["pipe-grow=256K", "pipe-grow=1024K"]);
    assert_eq!(specs(&busy, "place"), ["place=one", "place=apart"]);
    let inherited = candidates(|t, l| {
        busy_pipe(t, l);
        t.pipes[0].inherited = true;
    });
    assert!(specs(&inherited, "pipe-grow").is_empty());
    assert_eq!(specs(&inherited, "place"), ["place=one"]);
    let large = candidates(|t, l| {
        busy_pipe(t, l);
        t.pipes[0].capacity_bytes = Bytes::kib(256);
    });
    assert!(why(&large, "pipe-grow").contains("default size"));
}

#[test]
fn pipes_whose_size_the_program_counts_on_keep_it() {
    for (call, reason) in [
        (PipeCall::Lends, "vmsplice"),
        (PipeCall::AsksCapacity, "sets the size"),
        (PipeCall::SetsCapacity, "sets the size"),
    ] {
        let counting = candidates(|t, l| {
            busy_pipe(t, l);
            t.pipe_calls.insert(call);
        });
        assert!(specs(&counting, "pipe-grow").is_empty(), "{call:?}");
        assert!(why(&counting, "pipe-grow").contains(reason), "{}", why(&counting, "pipe-grow"));
        assert_eq!(specs(&counting, "place"), ["place=one", "place=apart"]);
    }
}

/// A pipeline from the program of numbers to a tool, started as `word` from the file `exe`.
fn piped_into(word: &str, exe: &str, moved: Option<Bytes>) -> Vec<RemedyCandidate> {
    candidates(|t, l| {
        busy_pipe(t, l);
        let tool = TracedProcess {
            pid: 11,
            exe: exe.to_owned(),
            args: vec![word.to_owned(), "-".to_owned()],
            moved_bytes: moved,
            ..t.processes[0].clone()
        };
        t.processes.push(tool);
    })
}

#[test]
fn tools_found_through_path_are_replaced() {
    let moved = Some(Bytes::gib(1));
    for exe in ["/usr/bin/cat", "/bin/cat", "/usr/bin/coreutils", "/x-coreutils-9.5/bin/cat"] {
        assert_eq!(
            specs(&piped_into("cat", exe, moved), "pipe-tools"),
            ["pipe-tools=cat"],
            "{exe}"
        );
    }
    let tee = piped_into("tee", "/usr/bin/tee", None);
    assert_eq!(specs(&tee, "pipe-tools"), ["pipe-tools=tee"]);
}

#[test]
fn a_tool_that_ours_would_not_stand_in_for_is_named() {
    let moved = Some(Bytes::gib(1));
    for (word, exe, told) in [
        ("/usr/bin/cat", "/usr/bin/cat", "starts /usr/bin/cat by its path"),
        ("cat", "/bin/busybox", "its cat is /bin/busybox, not the one of coreutils"),
        ("cat", "/opt/bin/cat", "its cat is /opt/bin/cat"),
        ("tee", "/opt/pagewise", "its tee is pagewise's already"),
        ("pv", "/usr/bin/pv", "pv is not replaced"),
        ("scat", "/usr/bin/scat", "it starts no cat or tee"),
    ] {
        let seen = piped_into(word, exe, moved);
        assert!(specs(&seen, "pipe-tools").is_empty(), "{word} {exe}");
        let why = why(&seen, "pipe-tools");
        assert!(why.contains(told), "{why}");
    }
    let little = piped_into("cat", "/usr/bin/cat", Some(Bytes::mib(15)));
    assert_eq!(why(&little, "pipe-tools"), "only 15.0 MiB go through its cat");
}

#[test]
fn tools_can_save_their_own_copies_and_the_wakeups_at_their_pipes() {
    let ceiling = |moved, pid| {
        let all = candidates(|t, l| {
            busy_pipe(t, l);
            let tool = TracedProcess {
                pid,
                exe: "/bin/tee".to_owned(),
                args: vec!["tee".to_owned()],
                moved_bytes: moved,
                ..t.processes[0].clone()
            };
            t.processes.push(tool);
        });
        all.iter().find(|c| c.remedy == "pipe-tools").unwrap().ceiling_share
    };
    let (all, half) = (Some(Bytes::gib(2)), Some(Bytes::gib(1)));
    assert_eq!(ceiling(all, 11), ceiling(None, 11), "what is not known counts as all");
    let (copies, wakeups) =
        (2.0 * (ceiling(all, 12) - ceiling(half, 12)), ceiling(all, 11) - ceiling(all, 12));
    assert!((copies - ceiling(all, 12)).abs() < 1e-9, "{copies}");
    assert!(copies > 0.0 && wakeups > 0.0, "{copies} {wakeups}");
}

#[test]
fn a_remedy_that_cannot_pay_is_refused_with_its_ceiling() {
    let idle = candidates(|_, look| {
        let none = WalkCounts { cycles: 1000, data_walk_cycles: 0, code_walk_cycles: 0 };
        look.walks = Fact::Known(none);
        for run in &mut look.runs {
            run.user_ns = Nanos::secs(60);
            run.wall_ns = Nanos::secs(60);
        }
    });
    assert!(specs(&idle, "heap-huge").is_empty());
    assert!(why(&idle, "heap-huge").contains("at most 0."), "{}", why(&idle, "heap-huge"));
}

/// A file of three slots, with the cache state `letter`. It has text at address and offset 0 unless `code` is
/// `None`.
fn used(path: &str, letter: CacheSlot, code: Option<ImagePlacement>) -> UsedFile {
    const SLOT: u64 = 2 << 20;
    let segment = LoadSegment {
        offset_bytes: Bytes(0),
        address: 0,
        file_bytes: Bytes(3 * SLOT),
        align_bytes: Bytes(4096),
        is_writable: false,
        is_executable: true,
    };
    UsedFile {
        path: path.to_owned(),
        kind: if code.is_some() { FileKind::Code } else { FileKind::Input },
        size_bytes: Bytes(3 * SLOT),
        slots: SlotMap(vec![letter; 3]),
        layout: code.map(|placement| ElfLayout { placement, segments: vec![segment] }),
        is_placed_aligned: true,
        obstacle: None,
    }
}

/// The candidates of a program that maps and reads these files. Faults on files, and copies of them, cost
/// something.
fn with_files(files: &[UsedFile]) -> Vec<RemedyCandidate> {
    candidates(|traced, look| {
        traced.files = files.to_vec();
        traced.processes[0].anon_bytes = Bytes(0);
        traced.processes[0].file_bytes = Bytes::gib(2);
        for run in &mut look.runs {
            run.read_bytes = Some(Bytes::gib(1));
            run.sys_ns = Nanos::millis(300);
        }
    })
}

#[test]
fn code_fits_where_its_layout_lets_it_be_huge_and_its_cache_does_not() {
    let small = used("/bin/x", CacheSlot::Whole, Some(ImagePlacement::Fixed));
    let library = used("/lib/y", CacheSlot::Absent, Some(ImagePlacement::Mapped));
    assert_eq!(specs(&with_files(std::slice::from_ref(&small)), "text-huge"), ["text-huge=/bin/x"]);
    let both = with_files(&[small.clone(), library]);
    assert_eq!(specs(&both, "text-huge"), ["text-huge=/bin/x:/lib/y"]);
    assert!(why(&both, "text-huge").contains("12.0 MiB of the text of 2 files"));
    for (file, told) in [
        (used("/bin/x", CacheSlot::Huge, Some(ImagePlacement::Fixed)), "on huge pages already"),
        (used("/bin/x", CacheSlot::Whole, Some(ImagePlacement::Program)), "one of 512 starts"),
        (UsedFile { obstacle: Some("sh (1) maps it".into()), ..small }, "/bin/x: sh (1) maps it"),
        (used("/var/x", CacheSlot::Whole, None), "no file with its code"),
    ] {
        let seen = with_files(&[file]);
        assert!(specs(&seen, "text-huge").is_empty());
        assert!(why(&seen, "text-huge").contains(told), "{}", why(&seen, "text-huge"));
    }
}

#[test]
fn where_walks_are_counted_only_those_for_code_bound_it() {
    let ceiling = |walks: Fact<WalkCounts>| {
        let all = candidates(|traced, look| {
            traced.files = vec![used("/bin/x", CacheSlot::Whole, Some(ImagePlacement::Fixed))];
            traced.processes[0].file_bytes = Bytes(0);
            look.walks = walks.clone();
        });
        all.iter().find(|c| c.remedy == "text-huge").unwrap().ceiling_share
    };
    let counted = |data_walk_cycles, code_walk_cycles| {
        Fact::Known(WalkCounts { cycles: 1000, data_walk_cycles, code_walk_cycles })
    };
    let (data, code) = (ceiling(counted(200, 0)), ceiling(counted(0, 200)));
    assert!(code - data > 0.05, "{code} {data}");
}

#[test]
fn counted_misses_of_the_tlb_for_code_stand_beside_its_remedy() {
    let seen = candidates(|traced, look| {
        traced.files = vec![used("/bin/x", CacheSlot::Whole, Some(ImagePlacement::Fixed))];
        let events = vec![CountedEvent { name: "iTLB-load-misses".into(), count: 1230 }];
        look.code_misses = Fact::Known(CodeMissCounts { instructions: 1_000_000, events });
    });
    let text = why(&seen, "text-huge");
    assert!(text.ends_with("; 1.23 iTLB-load-misses in 1000 instructions"), "{text}");
}

#[test]
fn inputs_fit_where_copies_or_faults_cost_and_some_of_them_is_small() {
    let small = used("/var/x", CacheSlot::Whole, None);
    let held = UsedFile {
        obstacle: Some("sh (1) maps it".into()),
        ..used("/var/y", CacheSlot::Part, None)
    };
    let seen = with_files(&[small.clone(), held.clone()]);
    assert_eq!(specs(&seen, "file-huge"), ["file-huge=/var/x"]);
    assert!(why(&seen, "file-huge").contains("6.0 MiB of /var/x lie in small folios"));
    for (files, told) in [
        (vec![held], "/var/y: sh (1) maps it"),
        (vec![used("/var/x", CacheSlot::Huge, None)], "in huge folios already"),
        (vec![], "reads no file as large"),
    ] {
        let seen = with_files(&files);
        assert!(specs(&seen, "file-huge").is_empty());
        assert!(why(&seen, "file-huge").contains(told), "{}", why(&seen, "file-huge"));
    }
    let idle = candidates(|traced, look| {
        traced.files = vec![small.clone()];
        traced.processes[0].file_bytes = Bytes(0);
        for run in &mut look.runs {
            run.sys_ns = Nanos(1000);
        }
    });
    assert!(specs(&idle, "file-huge").is_empty(), "nothing is paid for files");
}
