//! `pagewise merge`, `pagewise fleet`

use crate::args::{Fleet, FleetScript, FleetVerb, Merge};
use crate::failure::{Failure, UNFIT};
use crate::{store, terminal};
use pagewise_judge::fleet::{lines, merge};
use pagewise_model::fleet::{FleetWord, HostArm};
use pagewise_model::plan;
use pagewise_model::run::{Outcome, Run};
use pagewise_model::trial::Quantity;
use pagewise_report::{FleetTask, quote};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// How long a task waits for another experiment on its host.
const WAIT: &str = "1h";

/// Prints a script for an engine.
pub(super) fn run(args: &Fleet) -> Result<ExitCode, Failure> {
    let FleetVerb::Script(args) = &args.verb;
    let run = store::load(args.run.as_deref())?;
    let task = task(&run, args)?;
    let image = args.image.as_deref().unwrap_or_default();
    let text = match (args.slurm, args.ansible) {
        (true, _) => pagewise_report::slurm(&task),
        (_, true) => pagewise_report::ansible(&task),
        _ => pagewise_report::kubernetes(&task, image, &args.claim),
    };
    terminal::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The command line that every host runs: the plain program beside the arm that was kept.
fn task(run: &Run, args: &FleetScript) -> Result<FleetTask, Failure> {
    let refused = |why: &str| {
        Failure::usage(format!("run `{}`: {why}", run.id))
            .with_help("give a session of tune with a remedy that was kept or is likely")
    };
    let arm = run.outcome.as_ref().and_then(Outcome::best);
    let arm = arm.ok_or_else(|| refused("it has no remedy to measure"))?;
    let doses = run.doses_of(arm).ok_or_else(|| refused("its best arm is a command of yours"))?;
    if run.service.is_some() {
        return Err(refused("it is a session of a service"));
    }
    let list = plan::list(doses);
    let mut front = format!("pagewise tune --only {} --wait {WAIT} --json --quiet", quote(&list));
    let mut option = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            front.push_str(&format!(" {name} {}", quote(value)));
        }
    };
    option(
        "--budget",
        args.budget.map(|budget| format!("{}s", budget.0.div_ceil(1_000_000_000))).as_deref(),
    );
    let quantity = run.experiment.as_ref().map(|experiment| experiment.design.quantity);
    option("--goal", quantity.filter(|one| *one != Quantity::Time).map(Quantity::name));
    option("--input", run.input.as_deref());
    if let Some(conditions) = &run.conditions {
        option("--prepare", conditions.prepare.as_deref());
        option("--cleanup", conditions.cleanup.as_deref());
        for file in &conditions.outputs {
            option("--output", Some(file));
        }
    }
    let program = run.command.first().map(Path::new).and_then(Path::file_name);
    let program = program.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    Ok(FleetTask {
        program: program.chars().filter(|c| is_plain(*c)).collect(),
        front,
        back: format!("-- {}", pagewise_report::command_line(&run.command)),
        hosts: args.hosts,
        results: args.results.clone(),
        directory: directory(run),
    })
}

/// Where the runs were made, if their command line names files relative to that.
fn directory(run: &Run) -> Option<String> {
    let conditions = run.conditions.as_ref()?;
    let place = Path::new(&conditions.directory);
    let is_file = |word: &String| {
        let there = place.join(word);
        !word.starts_with('/') && conditions.files.iter().any(|file| Path::new(&file.path) == there)
    };
    let is_relative = |path: &String| !path.starts_with('/');
    let has_file = run.command.iter().any(is_file);
    let named = run.input.iter().chain(&conditions.outputs).any(is_relative);
    (has_file || named).then(|| conditions.directory.clone())
}

/// Pools saved runs.
pub(super) fn pool(args: &Merge) -> Result<ExitCode, Failure> {
    let files = files(&args.paths)?;
    let mut all = Vec::new();
    let mut seen = BTreeSet::new();
    for (file, host) in &files {
        let run = store::read(file)?;
        // The same run under two names counts once.
        if seen.insert(run.id.clone()) {
            all.extend(lines(&run, host.as_deref()));
        }
    }
    if let Some(file) = &args.ndjson {
        store::write_whole(file, &ndjson(&all)?)?;
    }
    let arms = merge(&all);
    if args.json {
        terminal::print_json(&arms)?;
    } else {
        terminal::print(&pagewise_report::fleet_page(&arms).text(&terminal::style()))?;
    }
    let has_answer = arms.iter().any(|arm| arm.word != FleetWord::CannotTell);
    Ok(ExitCode::from(if has_answer { 0 } else { UNFIT }))
}

fn ndjson(all: &[HostArm]) -> Result<String, Failure> {
    let mut text = String::new();
    for line in all {
        let line = serde_json::to_string(line)
            .map_err(|e| Failure::usage(format!("cannot write JSON: {e}")))?;
        text.push_str(&line);
        text.push('\n');
    }
    Ok(text)
}

/// The files of saved runs with the host that their name gives, one for each task.
fn files(paths: &[PathBuf]) -> Result<Vec<(PathBuf, Option<String>)>, Failure> {
    let mut plain = Vec::new();
    let mut tasks: BTreeMap<(String, String), (u32, PathBuf, String)> = BTreeMap::new();
    for path in paths.iter().map(|path| below(path)).collect::<Result<Vec<_>, _>>()?.concat() {
        let Some((array, task, restart, host)) = parts(&path) else {
            plain.push((path, None));
            continue;
        };
        let known = tasks.get(&(array.clone(), task.clone()));
        if known.is_none_or(|(last, ..)| *last < restart) {
            tasks.insert((array, task), (restart, path, host));
        }
    }
    plain.extend(tasks.into_values().map(|(_, path, host)| (path, Some(host))));
    if plain.is_empty() {
        return Err(Failure::usage("no saved run (*.json) in the given paths")
            .with_help("tune --json writes one; pagewise fleet script does so on every host"));
    }
    Ok(plain)
}

/// A file itself, or the JSON files of a directory in the order of their names.
fn below(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let cannot = |e| Failure::usage(format!("cannot read `{}`: {e}", path.display()));
    if !std::fs::metadata(path).map_err(cannot)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path).map_err(cannot)?;
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "json"))
        .collect();
    found.sort();
    Ok(found)
}

/// Array, task, restart and host of `ARRAY.TASK.RESTART.HOST.json`.
fn parts(path: &Path) -> Option<(String, String, u32, String)> {
    let name = path.file_name()?.to_str()?.strip_suffix(".json")?;
    let mut words = name.splitn(4, '.');
    let (array, task, restart) = (words.next()?, words.next()?, words.next()?);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let host = words.next().filter(|host| !host.is_empty())?;
    (is_number(array) && is_number(task)).then_some((
        array.to_owned(),
        task.to_owned(),
        restart.parse().ok()?,
        host.to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_start_of_a_task_counts() {
        let place = tempfile::tempdir().unwrap();
        let names = [
            "7.1.0.node1.json",
            "7.1.2.node3.x.json",
            "7.1.1.node2.json",
            "7.2.0.node2.json",
            "own.json",
            "7.3.0.n.tmp.55",
        ];
        for name in names {
            std::fs::write(place.path().join(name), "{}").unwrap();
        }
        let found = files(&[place.path().to_owned()]).unwrap();
        let shown: Vec<(String, Option<String>)> = found
            .into_iter()
            .map(|(path, host)| (path.file_name().unwrap().to_str().unwrap().to_owned(), host))
            .collect();
        let expected = [
            ("own.json", None),
            ("7.1.2.node3.x.json", Some("node3.x")),
            ("7.2.0.node2.json", Some("node2")),
        ];
        let expected = expected.map(|(name, host)| (name.to_owned(), host.map(str::to_owned)));
        assert_eq!(shown, expected);
        assert!(files(&[place.path().join("none")]).is_err());
    }
}
