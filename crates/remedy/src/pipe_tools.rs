//! `pipe-tools`: replaces the `cat` and `tee` of an unmodified pipeline by pagewise's own.
//!
//! A pipe of 64 KiB keeps the pieces of GNU's tools small: they sleep and wake for each. pagewise's tools
//! grow the pipe that they write to, read files in larger pieces, and discard data for /dev/null without
//! touching it. They are exact whatever the writer before them does: they copy, and do not change the
//! capacity of the pipe that they read (docs/tools.md). The tree finds them because a directory of links is
//! in front of its PATH. Nothing in the program changes, and commands that are not searched in PATH run as
//! before. See `tracee::tool_links` for the place of the links, their protection from other users, and what a
//! killed start leaves.
//!
//! Evidence: a process of the traced look whose first argument is the bare name of a tool was started through
//! PATH (a name with a slash is never searched). Its file shows whose tool it was. Not seen: a program that
//! passes a bare name together with its own path; then the counter stays at 0 and nothing is kept. `pv` is
//! not replaced: pagewise's meter refuses some of its options.
//!
//! Cost: a pagewise tool starts up to half a millisecond later than a C program, and a pipe holds more than
//! 64 KiB. A grown pipe stays grown. A later writer that lends pages and assumes 64 KiB without a check does
//! not expect that.

use crate::remedy::{Remedy, RemedyEvidence, RemedyMechanism};
use pagewise_model::Bytes;
use pagewise_model::diagnosis::CostKind;
use pagewise_model::look::{PipeSeen, TracedProcess};
use pagewise_model::machine::Machine;
use pagewise_model::plan::{ArmSettings, PipelineTool, RemedyCandidate, RemedyDose};
use pagewise_model::usage::typical;

/// Minimum bytes that all tools together must move. Saved copies gain a few milliseconds, which the later
/// start of a few tools uses up.
const LEAST_MOVED: Bytes = Bytes::mib(16);
/// A tool that is searched for but not replaced.
const METER: &str = "pv";

pub(crate) struct PipeToolsRemedy;

impl PipeToolsRemedy {
    /// In the order of [`PipelineTool::ALL`], so that equal sets give equal doses.
    fn replace(&self, tools: &[PipelineTool]) -> RemedyDose {
        let tools: Vec<PipelineTool> =
            PipelineTool::ALL.into_iter().filter(|tool| tools.contains(tool)).collect();
        let names: Vec<&str> = tools.iter().map(|tool| tool.into_str()).collect();
        self.with(&names.join("+"), ArmSettings { tools, ..ArmSettings::default() })
    }
}

/// Origin of the tool that a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ToolOrigin {
    /// The system's, found through PATH.
    Systems,
    /// Named by its path.
    ByPath,
    /// Already pagewise's.
    Ours,
    /// Another program with that name.
    Others,
}

/// The name that a process was started by; `None` if it contains a path.
fn bare(process: &TracedProcess) -> Option<&str> {
    process.args.first().and_then(|word| word.rsplit('/').next())
}

/// The tool that a process runs, and its origin.
fn used(process: &TracedProcess) -> Option<(PipelineTool, ToolOrigin)> {
    let name = bare(process)?;
    let tool = name.parse().ok()?;
    let file = process.exe.as_str();
    let named_alone = process.args.first().is_some_and(|word| word == name);
    // If the tools are one program, or are elsewhere behind links, the path says coreutils.
    let is_systems =
        file.strip_suffix(name).is_some_and(|dir| ["/bin/", "/usr/bin/"].contains(&dir))
            || file.contains("coreutils");
    let whose = match file.rsplit('/').next() {
        Some("pagewise") => ToolOrigin::Ours,
        _ if !named_alone => ToolOrigin::ByPath,
        _ if is_systems => ToolOrigin::Systems,
        _ => ToolOrigin::Others,
    };
    Some((tool, whose))
}

/// Why there is nothing to replace.
fn refusal(processes: &[TracedProcess]) -> String {
    let first =
        processes.iter().find_map(|p| used(p).map(|(tool, whose)| (p, tool.into_str(), whose)));
    match first {
        Some((_, name, ToolOrigin::Ours)) => format!("its {name} is pagewise's already"),
        Some((process, name, ToolOrigin::ByPath)) => {
            let word = process.args.first().map_or(name, String::as_str);
            format!("it starts {word} by its path, so PATH has no effect")
        }
        Some((process, name, _)) => {
            format!("its {name} is {}, not the one of coreutils", process.exe)
        }
        None if processes.iter().any(|p| bare(p) == Some(METER)) => {
            "it starts no cat or tee (pv is not replaced: meter refuses some of its options)".into()
        }
        None => "it starts no cat or tee".into(),
    }
}

/// Share of time that pagewise's tools could save at most: the copies of the tools (larger pieces, or none to
/// /dev/null), and all wake-ups if they hold an end of a pipe.
fn ceiling(evidence: &RemedyEvidence<'_>, tools: &[&TracedProcess], moved: Option<u64>) -> f64 {
    let sum = |bytes: Option<Bytes>| bytes.unwrap_or_default().0;
    let all = typical(&evidence.look.runs, |run| sum(run.read_bytes) + sum(run.written_bytes));
    let part = match (moved, all) {
        (Some(moved), Some(all)) if all > 0.0 => (moved as f64 / all).min(1.0),
        _ => 1.0,
    };
    let copies = evidence.diagnosis.share(&[CostKind::PipeCopies, CostKind::FileCopies]);
    let holds = |pipe: &PipeSeen| {
        tools
            .iter()
            .any(|tool| pipe.writers.contains(&tool.pid) || pipe.readers.contains(&tool.pid))
    };
    let piped = evidence.traced().is_some_and(|traced| traced.pipes.iter().any(holds));
    let wakeups = if piped { evidence.share(CostKind::Wakeups) } else { 0.0 };
    part * copies + wakeups
}

impl Remedy for PipeToolsRemedy {
    fn name(&self) -> &'static str {
        "pipe-tools"
    }
    fn sentence(&self) -> &'static str {
        "cat and tee inside the program are pagewise's: exact, with a larger pipe behind them"
    }
    fn parameters(&self) -> &'static str {
        "cat, tee, or both as cat+tee (default)"
    }

    fn dose(&self, parameter: &str, _machine: &Machine) -> Result<RemedyDose, String> {
        if parameter.is_empty() {
            return Ok(self.replace(&PipelineTool::ALL));
        }
        let tools: Result<Vec<PipelineTool>, _> = parameter.split('+').map(str::parse).collect();
        tools
            .map(|tools| self.replace(&tools))
            .map_err(|_| format!("`{parameter}` is not `cat`, `tee` or `cat+tee`"))
    }

    fn fit(&self, evidence: &RemedyEvidence<'_>) -> RemedyCandidate {
        if evidence.traced().is_none() {
            return self.unfit("the programs that it starts could not be examined");
        }
        let found = |process| match used(process)? {
            (tool, ToolOrigin::Systems) => Some((tool, process)),
            _ => None,
        };
        let (tools, processes): (Vec<PipelineTool>, Vec<&TracedProcess>) =
            evidence.processes().iter().filter_map(found).unzip();
        if processes.is_empty() {
            return self.unfit(refusal(evidence.processes()));
        }
        let moved: Option<u64> = processes.iter().map(|p| p.moved_bytes.map(|b| b.0)).sum();
        let dose = self.replace(&tools);
        let names = dose.parameter.replace('+', " and ");
        let why = match moved.map(Bytes) {
            Some(moved) if moved < LEAST_MOVED => {
                return self.unfit(format!("only {moved} go through its {names}"));
            }
            Some(moved) => {
                format!("{moved} go through {names} of coreutils, found through PATH")
            }
            None => format!("{names} of coreutils, found through PATH"),
        };
        self.fitting(why, ceiling(evidence, &processes, moved), vec![dose])
    }

    fn mechanism(&self, _dose: &RemedyDose) -> RemedyMechanism {
        RemedyMechanism::FilesOpened
    }

    fn notes(&self, dose: &RemedyDose) -> Vec<String> {
        let names = dose.parameter.replace('+', " and ");
        vec![
            format!(
                "the program's PATH begins with a directory of links in pagewise's cache: `which` and printed PATHs show it, and {names} --version is pagewise's"
            ),
            "processes that set PATH themselves, start a tool by its path, or become another user run the system's tools"
                .to_owned(),
            "the tools pass on exact data: they copy, and do not change the pipe that they read"
                .to_owned(),
            "the pipes that the tools write to hold up to 1 MiB, from the user's budget \
             (fs.pipe-user-pages-soft); a later writer to the same pipe that lends its pages (vmsplice) and assumes 64 KiB would send wrong data"
                .to_owned(),
            "for all programs of a shell: run `pagewise links DIR` and put DIR in front of PATH"
                .to_owned(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use crate::registry::tests_support::parse;
    use pagewise_model::plan::PipelineTool;

    #[test]
    fn a_set_of_tools_is_one_dose_however_it_is_typed() {
        let dose = |spec: &str| parse(spec).map(|doses| doses[0].clone());
        let both = dose("pipe-tools").unwrap();
        assert_eq!(
            (both.spec().as_str(), &both.settings.tools[..]),
            ("pipe-tools=cat+tee", &PipelineTool::ALL[..])
        );
        assert_eq!(dose("pipe-tools=tee+cat"), Ok(both.clone()));
        assert_eq!(dose("pipe-tools=cat+cat").unwrap().spec(), "pipe-tools=cat");
        for wrong in ["pipe-tools=pv", "pipe-tools=cat+"] {
            assert!(dose(wrong).is_err(), "{wrong}");
        }
        assert!(!both.settings.needs_supervision(), "pagewise becomes the program");
    }
}
