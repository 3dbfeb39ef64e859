//! The report of a session on one screen: the answer, why, what was tried, how to keep a gain, what disturbed the
//! runs, what comes next. All else is in the whole report and on its page.

use crate::experiment::{columns, control_row, short_arm, short_word, verdict_row};
use crate::headline::headline_section;
use crate::number::{counted, percent};
use crate::page::Document;
use crate::paragraph::{Paragraph, line};
use crate::service;
use crate::shell::start_line;
use crate::style::{Style, Tone};
use crate::table::Table;
use crate::text::{cut_end, escape_for, shorten};
use pagewise_model::diagnosis::{Basis, Cost, CostKind};
use pagewise_model::measured::mean;
use pagewise_model::plan::Candidate;
use pagewise_model::run::{Outcome, Run, RunKind};
use pagewise_model::trial::{Block, Experiment, Point, Quantity, Verdict, Word};

/// It has no more lines than this, but for commands that are quoted over several.
const MOST_LINES: usize = 25;
/// Cells of the labels in front of the parts.
const LABEL: usize = 9;
/// From this width on memory has a column of its own.
const ROOMY: usize = 56;
const MOST_COSTS: usize = 3;
const MOST_ARMS: usize = 6;
/// Shares of time below this are no reason.
const LEAST_SHARE: f64 = 0.005;
/// From this share of the time on others are named who had the CPUs.
const LEAST_DISTURBANCE: f64 = 0.05;
/// Runs that say how much a program varies by itself.
const LEAST_RUNS: usize = 4;

/// Whether runs of this kind have one; all others are short by themselves.
pub(crate) fn has_brief(run: &Run) -> bool {
    matches!(run.kind, RunKind::Tune | RunKind::Ab) && run.memory.is_none()
}

/// The report on one screen, with as many arms as there is room for beside all notes, or beside some where they are
/// many.
pub(crate) fn brief(run: &Run, style: &Style) -> String {
    let all = (1..=MOST_ARMS).rev().map(|arms| with_arms(run, style, arms));
    let all: Vec<(String, u64)> = all.collect();
    let fits = |report: &str| report.lines().count() <= MOST_LINES;
    let whole = all.iter().find(|(report, left_out)| fits(report) && *left_out == 0);
    let found = whole.or_else(|| all.iter().find(|(report, _)| fits(report)));
    found.or(all.last()).map_or_else(String::new, |(report, _)| report.clone())
}

/// The report with so many arms, and how many notes it leaves out.
fn with_arms(run: &Run, style: &Style, most_arms: usize) -> (String, u64) {
    let mut report = Brief { style, out: headline_section(run).text(style) };
    if run.kind == RunKind::Tune {
        report.out.push_str(&single(&start_line(run), style));
        report.out.push('\n');
        report.add("why", &costs(run, &report.inner()));
    }
    let inner = report.inner();
    report.add("tried", &tried(run, &inner, most_arms));
    if run.experiment.is_none() {
        report.add("fits", &remedies(run, &inner, true, MOST_ARMS));
        report.add("not", &remedies(run, &inner, false, 2 * most_arms));
    }
    report.keep(run);
    let noise = noise(run);
    report.sentence("noise", &noise);
    let mut end = Brief { style, out: String::new() };
    end.next(run);
    if !run.id.is_empty() {
        end.sentence("more", &format!("pagewise show {} --verbose, or --html FILE", run.id));
    }
    let room = MOST_LINES.saturating_sub(report.lines() + end.lines());
    let left_out = report.notes(run, room);
    (report.out + &end.out, left_out)
}

/// Lines for a terminal, with labels in front.
struct Brief<'a> {
    style: &'a Style,
    out: String,
}

impl Brief<'_> {
    fn lines(&self) -> usize {
        self.out.lines().count()
    }

    /// The style of what stands beside a label.
    fn inner(&self) -> Style {
        Style { width: self.style.columns() - LABEL, ..*self.style }
    }

    /// A part: lines that are wrapped already.
    fn add(&mut self, label: &str, lines: &str) {
        for (at, text) in lines.lines().enumerate() {
            let label = if at == 0 { label } else { "" };
            let pad = " ".repeat(LABEL - 2 - label.len());
            let text = format!("  {}{pad}{text}", self.style.paint(label, Tone::Strong));
            self.out.push_str(text.trim_end());
            self.out.push('\n');
        }
    }

    fn sentence(&mut self, label: &str, text: &str) {
        let lines = Paragraph::new(text, 0, Tone::Plain).lines(&self.inner());
        self.add(label, &lines);
    }

    /// A line to be copied, which is never cut.
    fn exact(&mut self, label: &str, text: &str) {
        let mut page = Document::default();
        page.exact(text);
        let lines = page.text(self.style);
        match lines.lines().count() {
            1 => self.add(label, lines.trim_start()),
            _ => {
                self.add(label, "\n");
                self.out.push_str(&lines);
            }
        }
    }

    /// How to keep what was found.
    fn keep(&mut self, run: &Run) {
        let Some(receipt) = run.receipt.as_ref().filter(|one| !one.command.is_empty()) else {
            return;
        };
        let is_likely = matches!(run.outcome, Some(Outcome::Likely { .. }));
        self.exact(if is_likely { "use" } else { "keep" }, &receipt.command);
        if !run.id.is_empty() && !is_likely {
            self.sentence("", &format!("pagewise apply {} (docs/apply.md)", run.id));
        }
        if let Some(cost) = receipt.notes.first() {
            self.sentence("costs", cost);
        }
    }

    /// The line that goes on with an open question.
    fn next(&mut self, run: &Run) {
        if let Some(line) = crate::receipt::continue_line(run) {
            self.exact("next", &line);
        }
    }

    /// What else the reader has to know. Returns how many notes did not fit.
    fn notes(&mut self, run: &Run, room: usize) -> u64 {
        let of_race = run.experiment.iter().flat_map(|one| &one.warnings);
        let differing = run.output_checks.iter().filter(|check| !check.equal);
        let differing = differing.map(|check| {
            format!("output of {} differs: {}", short_arm(&check.arm), check.notes.join("; "))
        });
        let notes: Vec<String> =
            differing.chain(of_race.cloned()).chain(run.warnings.iter().cloned()).collect();
        let inner = self.inner();
        let (mut used, mut left_out) = (0, 0);
        for note in &notes {
            let lines = Paragraph::new(note, 0, Tone::Warn).lines(&inner);
            let takes = lines.lines().count();
            // One line is for the number of those that are left out, unless this one is the last.
            let is_last = std::ptr::eq(note, &notes[notes.len() - 1]) && left_out == 0;
            if used + takes + usize::from(!is_last) > room {
                left_out += 1;
                continue;
            }
            self.add(if used == 0 { "note" } else { "" }, &lines);
            used += takes;
        }
        if left_out > 0 {
            let label = if used == 0 { "note" } else { "" };
            self.sentence(
                label,
                &format!("{} left out here", counted(left_out, "note is", "notes are")),
            );
        }
        left_out
    }
}

/// A line, cut in its middle where it is too long.
fn single(text: &str, style: &Style) -> String {
    let text = shorten(&escape_for(text, style.unicode), style.columns() - 2, style.unicode);
    line(style, "  ", &text, Tone::Faint)
}

/// The largest costs, each with its share and what it was found by.
fn costs(run: &Run, style: &Style) -> String {
    let Some(diagnosis) = &run.diagnosis else { return String::new() };
    let worth = diagnosis.costs.iter().filter(|cost| cost.time_share >= LEAST_SHARE);
    let (mut rows, mut said) = (String::new(), Vec::new());
    for cost in worth.take(MOST_COSTS) {
        let evidence = cost.evidence.split(';').next().unwrap_or_default();
        let shown = if said.contains(&evidence) { "in the same events" } else { evidence };
        let text = format!("{:<24}{:>10}  {shown}", cost.kind.into_str(), share(cost));
        rows.push_str(&cut_end(&escape_for(&text, style.unicode), style.columns(), style.unicode));
        rows.push('\n');
        said.push(evidence);
    }
    if rows.is_empty() {
        return format!("no page cost above {}\n", percent(LEAST_SHARE));
    }
    rows
}

/// The share of CPU time, of wake-ups of wall time.
fn share(cost: &Cost) -> String {
    let share = percent(cost.time_share.min(1.0));
    let is_bound = cost.basis == Basis::UpperBound || cost.kind == CostKind::Wakeups;
    if is_bound { format!("up to {share}") } else { share }
}

/// The arms, the best first; what was not tried, in a line.
fn tried(run: &Run, style: &Style, most_arms: usize) -> String {
    let Some(experiment) = &run.experiment else { return String::new() };
    let mut verdicts: Vec<&Verdict> = experiment.verdicts.iter().collect();
    if run.kind == RunKind::Tune {
        let ratio =
            |one: &Verdict| one.effect.as_ref().map_or(f64::INFINITY, |effect| effect.ratio);
        verdicts
            .sort_by(|a, b| rank(a.word).cmp(&rank(b.word)).then(ratio(a).total_cmp(&ratio(b))));
    }
    let more = verdicts.split_off(verdicts.len().min(most_arms));
    let table = match &run.service {
        Some(service) => service::brief_table(service, experiment, &verdicts),
        None => arms(run, experiment, &verdicts, style.columns() >= ROOMY),
    };
    let lines = table.render(style);
    let mut lines: String = lines
        .lines()
        .map(|line| format!("{}\n", line.strip_prefix("  ").unwrap_or(line)))
        .collect();
    if !more.is_empty() {
        let words: Vec<String> = more
            .iter()
            .map(|one| {
                let (word, _) =
                    short_word(one, experiment.design.quantity, run.kind == RunKind::Ab);
                format!("{} {word}", short_arm(&one.arm))
            })
            .collect();
        let text = format!("{} more: {}", more.len(), words.join(", "));
        lines.push_str(
            &(cut_end(&escape_for(&text, style.unicode), style.columns(), style.unicode) + "\n"),
        );
    }
    lines
}

/// Remedies that fit, with what they could save, or those that do not, each with its reason as far as there is room.
fn remedies(run: &Run, style: &Style, fit: bool, most: usize) -> String {
    let all: Vec<&Candidate> = run.candidates.iter().filter(|one| one.fits() == fit).collect();
    let row = |one: &&Candidate| {
        let most = percent(one.ceiling_share.min(1.0));
        let share = if fit { format!("up to {most}: ") } else { String::new() };
        let text = format!("{:<13}{share}{}", one.remedy, one.why);
        cut_end(&escape_for(&text, style.unicode), style.columns(), style.unicode) + "\n"
    };
    let mut rows: String = all.iter().take(most).map(row).collect();
    if all.len() > most {
        rows.push_str(&format!("{} more\n", all.len() - most));
    }
    rows
}

/// Where an arm stands among others.
const fn rank(word: Word) -> u8 {
    match word {
        Word::Keep => 0,
        Word::Likely => 1,
        Word::CannotTell => 2,
        Word::NoGain => 3,
        Word::Slower => 4,
        Word::Reject => 5,
        Word::NotTried => 6,
    }
}

/// With memory beside what decides where it `is_roomy`.
fn arms(run: &Run, experiment: &Experiment, verdicts: &[&Verdict], is_roomy: bool) -> Table {
    let quantity = experiment.design.quantity;
    let beside = if quantity == Quantity::Memory { Quantity::Time } else { Quantity::Memory };
    let shown = if is_roomy { &[beside][..] } else { &[] };
    let is_ab = run.kind == RunKind::Ab;
    let mut columns = columns(experiment, shown);
    // All runs together are in the line on noise.
    let runs = columns.len() - 2;
    columns.remove(runs);
    let rows = verdicts.iter().map(|verdict| verdict_row(experiment, verdict, shown, is_ab));
    let mut table = Table::new(&columns);
    for mut row in control_row(experiment, shown).into_iter().chain(rows) {
        row.remove(runs);
        table.row(row);
    }
    table
}

/// How much the plain program varies by itself, how the runs were made, and who disturbed them.
fn noise(run: &Run) -> String {
    let Some(experiment) = &run.experiment else {
        return format!("no runs to compare; took {}", run.took_ns);
    };
    let mut parts = Vec::new();
    parts.extend(deviation(experiment).map(|share| format!("{} from run to run", percent(share))));
    let runs: usize = experiment.blocks.iter().map(|block| block.points.len()).sum();
    match &run.service {
        Some(service) => {
            parts.push(format!(
                "{} of servers",
                counted(service.pairs.len() as u64, "pair", "pairs")
            ));
        }
        None => parts.push(counted(runs as u64, "run", "runs")),
    }
    let is_at_once = |block: &Block| block.at_once && block.dropped.is_none();
    match &experiment.in_turn_because {
        Some(why) => parts.push(format!("one at a time ({why})")),
        None if experiment.blocks.iter().any(is_at_once) => {
            parts.push("at once on shared CPUs".to_owned());
        }
        None => {}
    }
    parts.push(format!("took {}", run.took_ns));
    parts.extend(disturbed(run, experiment));
    parts.join(", ")
}

/// The plain program's standard deviation as a share of its mean: of runs at once within their block.
fn deviation(experiment: &Experiment) -> Option<f64> {
    let control = experiment.design.control.as_str();
    let at_once = experiment.is_at_once(control);
    let logs = |block: &Block| -> Vec<f64> {
        let own = block.points.iter().filter(|point| point.arm == control);
        let figure = |point: &Point| match at_once {
            true => point.usage.cpu_ns().0,
            false => point.usage.wall_ns.0,
        };
        own.map(|point| (figure(point).max(1) as f64).ln()).collect()
    };
    let counting = experiment.blocks.iter();
    let counting = counting.filter(|block| block.dropped.is_none() && block.at_once == at_once);
    let blocks: Vec<Vec<f64>> = counting.map(logs).collect();
    let groups = if at_once { blocks } else { vec![blocks.concat()] };
    let groups: Vec<&Vec<f64>> = groups.iter().filter(|group| group.len() > 1).collect();
    let square = |group: &&Vec<f64>| {
        let mean = mean(group);
        group.iter().map(|log| (log - mean).powi(2)).sum::<f64>()
    };
    let freedom: usize = groups.iter().map(|group| group.len() - 1).sum();
    (freedom + 1 >= LEAST_RUNS)
        .then(|| (groups.iter().map(square).sum::<f64>() / freedom as f64).sqrt())
}

/// Who else had the CPUs, where the program itself cannot have kept them waiting: runs at once, threads and
/// processes do.
fn disturbed(run: &Run, experiment: &Experiment) -> Option<String> {
    let processes = &run.look.as_ref()?.traced.known()?.processes;
    if !matches!(processes.as_slice(), [one] if one.threads == 1) {
        return None;
    }
    let in_turn = experiment.blocks.iter().filter(|block| !block.at_once);
    let shares: Vec<f64> = in_turn.filter_map(|block| block.weather.cpu_pressure_share).collect();
    let share = mean(&shares);
    (share >= LEAST_DISTURBANCE)
        .then(|| format!("other programs kept the CPUs busy {} of the time", percent(share)))
}
