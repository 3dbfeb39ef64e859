//! `pagewise doctor`

use super::experiment::{identity, report};
use crate::args::DoctorArgs;
use crate::failure::CommandFailure;
use crate::terminal;
use pagewise_judge::activity::{self, KernelRelease};
use pagewise_kernel::doctor::ftok_keys;
use pagewise_kernel::{clock, kallsyms};
use pagewise_lanes::probe::{ProbeSink, ProbeTruth, truths};
use pagewise_measure::CalibrationOptions;
use pagewise_model::body::RunBody;
use pagewise_model::capability::MachineTrait;
use pagewise_model::run::{RunKind, SavedRun};
use pagewise_model::{Fact, Nanos};
use std::collections::HashSet;
use std::process::ExitCode;

/// Reports what this machine allows and what disturbs measurements.
pub(super) fn run(args: &DoctorArgs) -> Result<ExitCode, CommandFailure> {
    let start = clock::now();
    let (started, _) = identity(&[]);
    // No identifier: the findings hold only now and are not saved.
    let mut run = SavedRun::new(RunKind::Doctor, String::new(), started, Vec::new());
    let mut checkup = pagewise_kernel::doctor::checkup();
    checkup.traits.extend(ProbeSink::ALL.map(|sink| sharing(sink, truths())));
    checkup.traits.push(rules(&checkup.machine.kernel, kallsyms::functions().into()));
    checkup.keys = ftok_keys(&args.ftok).map_err(|e| {
        CommandFailure::usage(e.to_string()).with_help("name files that exist, as for ftok(3)")
    })?;
    run.machine = Some(checkup.machine.clone());
    run.body = Some(RunBody::Checkup(checkup));
    if args.prices {
        let options =
            CalibrationOptions { fresh: true, ..CalibrationOptions::cached(Nanos::secs(2)) };
        let prices = pagewise_measure::calibrate(&options, &|| false);
        run.prices = Some(prices.map_err(|e| CommandFailure::usage(e.to_string()))?);
    }
    run.took_ns = Nanos(clock::now().0.saturating_sub(start.0));
    let text = if args.json {
        run.to_json() + "\n"
    } else {
        report(&run, args.verbose, &terminal::style())
    };
    terminal::print(&text)?;
    args.page.write(|| pagewise_report::html(&run))?;
    Ok(ExitCode::SUCCESS)
}

/// The sample rules that match no function of this kernel.
fn rules(release: &str, functions: Fact<HashSet<String>>) -> MachineTrait {
    let value = match (KernelRelease::parse(release), functions) {
        (Some(release), Fact::Known(functions)) => {
            let functions: HashSet<&str> = functions.iter().map(String::as_str).collect();
            let dead = activity::dead_rules(&functions, release);
            let meant = |rule: &&activity::SymbolRule| rule.kernels.contains(release);
            let all = activity::rules().iter().filter(meant).count();
            let names: Vec<&str> = dead.iter().map(|rule| rule.name).collect();
            match names.len() {
                0 => format!("all {all} for Linux {release} match functions"),
                n => format!("{n} of {all} for Linux {release} match none: {}", names.join(", ")),
            }
        }
        (None, _) => format!("not checked: {release:?} is not a kernel release"),
        (_, Fact::Missing(why)) => format!("not checked: {why}"),
    };
    MachineTrait {
        group: "kernel samples".into(),
        name: "rules that match functions of this kernel".into(),
        value,
    }
}

/// What this kernel shares with a sink, what it copies and what it refuses.
fn sharing(sink: ProbeSink, truths: &[ProbeTruth]) -> MachineTrait {
    let of_sink = || truths.iter().filter(|truth| truth.sink == sink);
    let mut answers: Vec<String> = of_sink().map(|truth| truth.answer.to_string()).collect();
    answers.sort_unstable();
    answers.dedup();
    let lists = answers.iter().rev().map(|answer| {
        let sources = of_sink().filter(|truth| truth.answer.to_string() == *answer);
        let names: Vec<String> = sources.map(|truth| truth.source.to_string()).collect();
        format!("{answer}: {}", names.join(", "))
    });
    MachineTrait {
        group: "pages passed by reference".into(),
        name: format!("into a {sink}"),
        value: lists.collect::<Vec<_>>().join("; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_lanes::probe::{ProbeAnswer, ProbeSource};

    #[test]
    fn rules_without_a_function_are_named() {
        let functions =
            |names: &[&str]| Fact::Known(names.iter().map(ToString::to_string).collect());
        let few = rules("6.18.1-generic", functions(&["clear_page_erms"])).value;
        assert!(few.contains("match none: ") && !few.contains("clearing a page"), "{few}");
        assert!(rules("unknown", functions(&[])).value.starts_with("not checked"));
        assert!(rules("6.18", Fact::missing("no /proc")).value.contains("no /proc"));
    }

    #[test]
    fn sources_are_listed_by_answer() {
        let truth = |source, answer| ProbeTruth { source, sink: ProbeSink::Pipe, answer };
        let other =
            ProbeTruth { sink: ProbeSink::File, ..truth(ProbeSource::Tee, ProbeAnswer::Copied) };
        let truths = [
            truth(ProbeSource::Private, ProbeAnswer::Shared),
            truth(ProbeSource::Memfd, ProbeAnswer::Copied),
            truth(ProbeSource::Pipe, ProbeAnswer::Shared),
            other,
        ];
        let found = sharing(ProbeSink::Pipe, &truths);
        assert_eq!(found.name, "into a pipe");
        assert_eq!(found.value, "shared: memory (vmsplice), pipe (splice); copied: memfd (splice)");
    }
}
