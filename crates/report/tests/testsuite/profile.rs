//! Profiles as terminal text: constructed ones against reviewed texts in `tests/golden`, and hostile ones.
//! `UPDATE_GOLDEN` writes the texts again.

use crate::support::profile::{course, profile, run, sorted};
use crate::support::{HOSTILE, PLAIN, assert_harmless, check};
use pagewise_model::Fact;
use pagewise_model::profile::{ProfileActivity, ProfileReport, SamplingClock, SortedSamples};
use pagewise_report::escape::cells;
use pagewise_report::{TerminalStyle, graph_section, headline, profile_section, render_whole};
use proptest::prelude::*;

#[test]
fn buckets_as_text() {
    let profile = profile();
    check("profile.txt", &profile_section(&profile).text(&PLAIN));
    assert!(
        render_whole(&run(profile.clone()), &PLAIN)
            .contains(&profile_section(&profile).text(&PLAIN))
    );
}

#[test]
fn graphs_as_text() {
    check("profile-graph.txt", &graph_section(&profile(), "all").text(&PLAIN));
}

#[test]
fn a_graph_is_asked_for_by_what_by_why_or_by_both() {
    let titles = |wanted: &str| {
        let text = graph_section(&profile(), wanted).text(&PLAIN);
        let titles = text.lines().filter(|line| line.contains(" of CPU time)"));
        titles.map(|line| line.split(':').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(titles("copy"), ["copy/pipe", "copy/file-read"]);
    assert_eq!(titles("pipe"), ["copy/pipe", "scheduling/pipe", "lock/pipe"]);
    assert_eq!(titles("copy/file_read"), ["copy/file-read"]);
    assert_eq!(titles("sendto"), ["unclassified/sendto"]);
    let none = graph_section(&profile(), "swap-in").text(&PLAIN);
    assert!(titles("swap-in").is_empty() && none.contains("copy/pipe"), "{none}");
}

#[test]
fn a_running_process_and_missing_samples_are_reported() {
    let without = ProfileReport {
        sorted: Fact::missing("kernel samples are refused to this account"),
        compared: Vec::new(),
        unseen: vec![ProfileActivity::Lock, ProfileActivity::TlbFlush],
        course: Some(course()),
        code_pages: None,
        dead_rules: Fact::missing("/proc/kallsyms cannot be read"),
    };
    assert!(graph_section(&without, "all").text(&PLAIN).is_empty());
    let run = run(without);
    assert!(headline(&run).contains("refused to this account"));
    check("profile-refused.txt", &render_whole(&run, &PLAIN));
}

#[test]
fn what_clocks_of_tasks_miss_is_reported_and_of_whole_cpus_nothing_is() {
    let with = |clock| {
        let of_tasks = SortedSamples { clock, begun_tasks: 300, ..sorted() };
        profile_section(&ProfileReport { sorted: Fact::Known(of_tasks), ..profile() }).text(&PLAIN)
    };
    let of_tasks = with(SamplingClock::Tasks { why: "whole CPUs need root".to_owned() });
    assert!(of_tasks.contains("whole CPUs need root"), "{of_tasks}");
    assert!(of_tasks.contains("not seen") && of_tasks.contains("300 processes"), "{of_tasks}");
    assert!(!with(SamplingClock::Cpus).contains("not seen"));
}

#[test]
fn an_idle_process_has_a_profile_too() {
    let mut idle = profile();
    idle.sorted = Fact::Known(SortedSamples {
        samples: 0,
        kernel_samples: 0,
        lost: 0,
        buckets: Vec::new(),
        unclassified: Vec::new(),
        ..sorted()
    });
    let run = run(idle);
    assert!(headline(&run).contains("almost no CPU time"));
    assert!(render_whole(&run, &PLAIN).contains("0 samples"));
}

#[test]
fn names_of_others_do_no_harm() {
    let mut hostile = profile();
    let mut all = sorted();
    for bucket in &mut all.buckets {
        for line in &mut bucket.graph {
            line.name.push_str(HOSTILE);
        }
    }
    all.unclassified[0].symbols[0].push_str(HOSTILE);
    hostile.sorted = Fact::Known(all);
    assert_harmless(&graph_section(&hostile, "all").text(&PLAIN));
    assert_harmless(&graph_section(&hostile, HOSTILE).text(&PLAIN));
    assert_harmless(&render_whole(&run(hostile), &PLAIN));
}

proptest! {
    #[test]
    fn no_line_is_wider_than_asked(
        width in 40_usize..90,
        depths in prop::collection::vec((0_u32..200, 0_u64..90), 0..40),
    ) {
        let style = TerminalStyle { width, ..PLAIN };
        let mut deep = profile();
        let mut all = sorted();
        for (line, (depth, samples)) in all.buckets[1].graph.iter_mut().zip(depths) {
            (line.depth, line.samples) = (depth, samples);
        }
        deep.sorted = Fact::Known(all);
        let text = graph_section(&deep, "all").text(&style) + &profile_section(&deep).text(&style);
        prop_assert!(text.lines().all(|line| cells(line) <= width.min(160)), "{}", text);
    }
}
