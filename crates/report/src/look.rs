//! Findings of the look: times, memory, processes, pipes, effects. Times come only from plain runs; the
//! traced look gives counts.

use crate::number::{count, counted, percent};
use crate::page::ReportDocument;
use crate::paragraph::Paragraph;
use crate::style::TextTone;
use crate::table::{ColumnAlignment, ReportTable, TableCell};
use pagewise_model::look::{
    CpuSamples, LookFindings, SideEffect, TimedFaults, TracedLook, TracedProcess, WalkCounts,
};
use pagewise_model::machine::Machine;
use pagewise_model::usage::{ProgramUsage, typical};
use pagewise_model::{Fact, Measured, Nanos};

/// Largest number of processes and effects that are named; the rest is counted.
const LISTED: usize = 6;

/// The machine in one paragraph.
#[must_use]
pub fn machine_line(machine: &Machine) -> ReportDocument {
    let mut page = ReportDocument::default();
    let thp = match &machine.thp_enabled {
        Fact::Known(mode) => format!("huge pages: {mode}"),
        Fact::Missing(why) => format!("huge pages not known: {why}"),
    };
    page.para(&format!("machine: {}, {thp}", machine.line()), 0, TextTone::Faint);
    page
}

/// Findings of the look, with the figures of all plain runs.
#[must_use]
pub fn look_section(look: &LookFindings, plain: &[ProgramUsage]) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.heading("the unmodified program");
    if plain.is_empty() {
        page.item("time", "no plain run");
    } else {
        usage_items(plain, &mut page);
    }
    match &look.traced {
        Fact::Known(traced) => traced_items(traced, &mut page),
        Fact::Missing(why) => page.item("processes", &format!("not traced: {why}")),
    }
    match &look.samples {
        Fact::Known(samples) => page.item("CPU samples", &sample_text(samples)),
        Fact::Missing(why) => page.item("CPU samples", &format!("none: {why}")),
    }
    match &look.walks {
        Fact::Known(walks) => page.item("page walks", &walk_text(walks)),
        Fact::Missing(why) => page.item("page walks", &format!("not counted: {why}")),
    }
    match &look.faults {
        Fact::Known(faults) => page.item("fault times", &fault_text(faults)),
        Fact::Missing(why) => page.item("fault times", &format!("none: {why}")),
    }
    page
}

/// Median of one figure over runs, as text by `show`.
pub(crate) fn median(runs: &[ProgramUsage], of: fn(&ProgramUsage) -> u64) -> Option<u64> {
    typical(runs, of).map(|median| Nanos::from_f64(median).0)
}

fn median_time(runs: &[ProgramUsage], of: fn(&ProgramUsage) -> u64) -> String {
    median(runs, of).map_or_else(|| crate::number::UNKNOWN.to_owned(), |ns| Nanos(ns).to_string())
}

fn usage_items(runs: &[ProgramUsage], page: &mut ReportDocument) {
    let walls: Vec<f64> = runs.iter().map(|u| u.wall_ns.0 as f64).collect();
    let spread = Measured::from_values(&walls).filter(|m| m.n > 1 && m.median > 0.0);
    let spread = spread.map_or(String::new(), |m| format!(" +- {}", percent(m.spread_share())));
    page.item(
        "time",
        &format!(
            "{} wall{spread}, user {}, system {} ({})",
            median_time(runs, |u| u.wall_ns.0),
            median_time(runs, |u| u.user_ns.0),
            median_time(runs, |u| u.sys_ns.0),
            counted(runs.len() as u64, "run", "runs, medians"),
        ),
    );
    let middle = |of| count(median(runs, of).unwrap_or(0));
    let times = |of| counted(median(runs, of).unwrap_or(0), "time", "times");
    let peak = runs.iter().map(|u| u.peak_rss_bytes).max().unwrap_or_default();
    page.item(
        "memory",
        &format!(
            "peak {peak}; faults: {} minor, {} major",
            middle(|u| u.minor_faults),
            middle(|u| u.major_faults)
        ),
    );
    page.item(
        "waiting",
        &format!(
            "gave up a CPU {}, lost it {}",
            times(|u| u.voluntary_switches),
            times(|u| u.involuntary_switches)
        ),
    );
    page.item("data", &data_text(&runs[0]));
    if let Some(bad) = runs.iter().find(|u| !u.ended.success()) {
        page.item_tone("end", &format!("{} in a plain run", bad.ended), TextTone::Warn);
    }
}

fn data_text(usage: &ProgramUsage) -> String {
    let side = |what: &str, bytes: Option<_>, calls: Option<u64>| match (bytes, calls) {
        (Some(bytes), Some(calls)) => {
            format!("{what} {bytes} in {}", counted(calls, "call", "calls"))
        }
        (Some(bytes), None) => format!("{what} {bytes}"),
        _ => format!("{what} not known: /proc/PID/io could not be read"),
    };
    let read = side("read", usage.read_bytes, usage.read_calls);
    format!("{read}; {}", side("wrote", usage.written_bytes, usage.write_calls))
}

fn traced_items(traced: &TracedLook, page: &mut ReportDocument) {
    let images = counted(traced.processes.len() as u64, "program started", "programs started");
    page.item("processes", &format!("{images}, at most {} at once", traced.most_processes));
    page.append(process_table(&traced.processes));
    if !traced.pipes.is_empty() {
        let largest = traced.pipes.iter().map(|p| p.capacity_bytes).max().unwrap_or_default();
        let inherited = traced.pipes.iter().filter(|p| p.inherited).count();
        let all = counted(traced.pipes.len() as u64, "pipe", "pipes");
        page.item("pipes", &format!("{all}, the largest of {largest}; {inherited} inherited"));
    }
    if !traced.effects.is_empty() {
        page.item_tone("outside", &effects_text(&traced.effects), TextTone::Warn);
    }
    match &traced.pattern {
        Fact::Known(p) => page.item(
            "accesses",
            &format!(
                "{} of {} stepped instructions went to another page, within {} ({} of it huge)",
                count(p.jumps),
                count(p.accesses),
                p.jump_span_bytes,
                p.jump_huge_bytes
            ),
        ),
        Fact::Missing(why) => page.item("accesses", &format!("not stepped: {why}")),
    }
    if let Fact::Known(seen) = &traced.footprint {
        let pages =
            format!("{:.0} more pages came into use per ms of CPU time", seen.new_pages_per_ms);
        page.item("footprint", &format!("{pages}, beyond those that the smallest TLB holds"));
    }
}

fn effects_text(effects: &[SideEffect]) -> String {
    let listed = effects.iter().take(LISTED).map(|e| format!("{} {}", e.action, e.subject));
    let mut text = listed.collect::<Vec<_>>().join("; ");
    if effects.len() > LISTED {
        text.push_str(&format!("; and {} more", effects.len() - LISTED));
    }
    text
}

fn process_table(processes: &[TracedProcess]) -> ReportDocument {
    let mut table = ReportTable::new(&[
        ("program", ColumnAlignment::Name),
        ("allocator", ColumnAlignment::Left),
        ("threads", ColumnAlignment::Right),
        ("peak", ColumnAlignment::Decimal),
        ("huge", ColumnAlignment::Decimal),
        ("faults", ColumnAlignment::Right),
    ]);
    let mut by_peak: Vec<&TracedProcess> = processes.iter().collect();
    by_peak.sort_by_key(|p| std::cmp::Reverse(p.peak_rss_bytes));
    for process in by_peak.iter().take(LISTED) {
        let name = process.exe.rsplit('/').find(|part| !part.is_empty()).unwrap_or(&process.exe);
        let mut under = Vec::new();
        let mut cells: Vec<TableCell> = vec![
            name.into(),
            process.allocator.to_string().into(),
            count(process.threads.into()).into(),
        ];
        if let Some(why) = &process.incomplete {
            under.push(Paragraph::new(format!("memory not known: {why}"), 6, TextTone::Warn));
        } else {
            cells.push(process.peak_rss_bytes.to_string().into());
            cells.push(process.anon_huge_bytes.to_string().into());
            cells.push(count(process.minor_faults).into());
        }
        table.row_with(cells, under);
    }
    let mut page = ReportDocument::default();
    page.append(table);
    if processes.len() > LISTED {
        let text = format!("and {} with smaller peaks", processes.len() - LISTED);
        page.para(&text, 2, TextTone::Faint);
    }
    page
}

fn sample_text(samples: &CpuSamples) -> String {
    let total = samples.total();
    if total == 0 {
        return "none fell on the program: it used too little CPU time".to_owned();
    }
    let kernel = percent(samples.kernel_total() as f64 / total as f64);
    let mut text = format!("{}, {kernel} of them in the kernel", count(total));
    if samples.lost > 0 {
        text.push_str(&format!("; {} lost", count(samples.lost)));
    }
    text
}

fn fault_text(faults: &TimedFaults) -> String {
    let all = counted(faults.faults(), "fault", "faults");
    let kinds = faults.by_cost.iter().map(|group| {
        let name = group.kind.into_str().trim_end_matches(" faults");
        format!("{} {name}", count(group.tally.faults))
    });
    let (kinds, added) = (kinds.collect::<Vec<_>>().join(", "), faults.added_ns);
    if faults.in_shown_run {
        let cost = faults.recording_ns();
        format!(
            "of {all} of this run: {kinds}; recording takes about {added} each, {cost} of the times above (the costs below exclude it)"
        )
    } else {
        format!("of {all} of a separate run: {kinds}; recording takes about {added} each")
    }
}

fn walk_text(walks: &WalkCounts) -> String {
    if walks.cycles == 0 {
        return "no user cycles were counted".to_owned();
    }
    let share = |n: u64| percent(n as f64 / walks.cycles as f64);
    format!(
        "active in {} of user cycles for data, {} for code",
        share(walks.data_walk_cycles),
        share(walks.code_walk_cycles)
    )
}
