//! `pagewise merge`, `pagewise fleet`

use crate::args::{FleetArgs, FleetCommand, FleetRankArgs, FleetScriptArgs, MergeArgs};
use crate::failure::{CommandFailure, UNFIT};
use crate::{store, terminal};
use pagewise_judge::fleet::{lines, merge};
use pagewise_judge::{guards, host_rank};
use pagewise_kernel::machine::machine;
use pagewise_model::fleet::{FleetWord, HostArm};
use pagewise_model::name::is_subdomain;
use pagewise_model::plan::{self, RemedyDose};
use pagewise_model::run::{SavedRun, SessionOutcome};
use pagewise_model::spec::StdoutTarget;
use pagewise_model::top::TopSample;
use pagewise_model::trial::ComparedQuantity;
use pagewise_remedy::derived;
use pagewise_report::{FleetTask, quote, quote_bytes};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::BufReader;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// How long a task waits for another experiment on its host.
const WAIT: &str = "1h";

pub(super) fn run(args: &FleetArgs) -> Result<ExitCode, CommandFailure> {
    match &args.verb {
        FleetCommand::Script(args) => script(args),
        FleetCommand::Rank(args) => rank(args),
    }
}

/// Lists hosts by what remedies will probably save there.
fn rank(args: &FleetRankArgs) -> Result<ExitCode, CommandFailure> {
    let mut hosts = Vec::new();
    for path in args.paths.iter().map(|path| below(path)).collect::<Result<Vec<_>, _>>()?.concat() {
        let host = path.file_stem().unwrap_or_default().to_string_lossy();
        hosts.push(host_rank::promise(&host, &samples(&path)?));
    }
    host_rank::rank(&mut hosts);
    if args.json {
        terminal::print_json(&hosts)?;
    } else {
        terminal::print(&pagewise_report::rank_page(&hosts).text(&terminal::style()))?;
    }
    let is_predicted = hosts.iter().any(|host| host.program.is_some());
    Ok(ExitCode::from(if is_predicted { 0 } else { UNFIT }))
}

/// The samples of one host.
fn samples(path: &Path) -> Result<Vec<TopSample>, CommandFailure> {
    let unfit = |why: String| {
        CommandFailure::usage(format!("cannot read `{}`: {why}", path.display()))
            .with_help("write samples with pagewise top --json")
    };
    let file = File::open(path).map_err(|error| unfit(error.to_string()))?;
    let parsed = serde_json::Deserializer::from_reader(BufReader::new(file)).into_iter();
    let samples: Vec<TopSample> =
        parsed.collect::<Result<_, _>>().map_err(|error| unfit(error.to_string()))?;
    if samples.is_empty() { Err(unfit("it is empty".to_owned())) } else { Ok(samples) }
}

/// Prints a script for a cluster engine.
fn script(args: &FleetScriptArgs) -> Result<ExitCode, CommandFailure> {
    let run = store::load(args.run.as_deref())?;
    let task = task(&run, args)?;
    let image = args.image.as_deref().unwrap_or_default();
    if args.kubernetes {
        check_names(image, &args.claim)?;
    }
    let text = match (args.slurm, args.ansible) {
        (true, _) => pagewise_report::slurm(&task),
        (_, true) => pagewise_report::ansible(&task),
        _ => pagewise_report::kubernetes(&task, image, &args.claim),
    };
    terminal::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses names that Kubernetes would refuse on every host.
fn check_names(image: &str, claim: &str) -> Result<(), CommandFailure> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@[]".contains(c);
    let begins_well = image.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[');
    if !begins_well || !image.chars().all(is_plain) {
        return Err(CommandFailure::usage(format!(
            "--image {image:?} is not the name of an image"
        ))
        .with_help("give it as for docker pull, such as registry.example/app:1"));
    }
    if !is_subdomain(claim) {
        return Err(CommandFailure::usage(format!(
            "--claim {claim:?} is not a name of Kubernetes"
        ))
        .with_help("use small letters, digits, - and ., as kubectl get pvc lists it"));
    }
    Ok(())
}

/// The command line for every host: the plain program against the kept arm.
fn task(run: &SavedRun, args: &FleetScriptArgs) -> Result<FleetTask, CommandFailure> {
    let refused = |why: &str| {
        CommandFailure::usage(format!("run `{}`: {why}", run.id))
            .with_help("give a session of tune with a remedy that was kept or is likely")
    };
    let arm = run.outcome.as_ref().and_then(SessionOutcome::best);
    let arm = arm.ok_or_else(|| refused("it has no remedy to measure"))?;
    let doses = run.doses_of(arm).ok_or_else(|| refused("its best arm is a command of yours"))?;
    // Derived for the session's machine: this one may lack what the doses need.
    let machine = run.machine.clone().unwrap_or_else(machine);
    let doses = &derived(doses, &machine).map_err(|error| refused(&error.to_string()))?;
    if run.service.is_some() {
        return Err(refused("it is a session of a service"));
    }
    let program = run.command.first().map(Path::new).and_then(Path::file_name);
    let program = program.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    Ok(FleetTask {
        program: program.chars().filter(|c| is_plain(*c)).collect(),
        front: front(run, doses, args),
        back: format!("-- {}", command_line(run)),
        hosts: args.hosts,
        results: args.results.clone(),
        directory: directory(run).map_err(refused)?,
    })
}

fn command_line(run: &SavedRun) -> String {
    let quoted = |word: &OsString| quote_bytes(word.as_bytes());
    match &run.spec {
        Some(spec) => spec.command.iter().map(quoted).collect::<Vec<_>>().join(" "),
        None => pagewise_report::command_line(&run.command),
    }
}

/// The command line before `--seed`, with the options of the saved session.
fn front(run: &SavedRun, doses: &[RemedyDose], args: &FleetScriptArgs) -> String {
    let list = quote(&plan::list(doses));
    let mut words =
        vec![format!("pagewise tune --only {list} --rerun-safe --wait {WAIT} --json --quiet")];
    let mut option = |name: &str, value: Option<&OsStr>| {
        words.extend(value.map(OsStr::as_bytes).map(|value| match value.first() {
            // A separate word would be parsed as an option.
            Some(b'-') => quote_bytes(&[name.as_bytes(), b"=", value].concat()),
            _ => format!("{name} {}", quote_bytes(value)),
        }));
    };
    let budget = args.budget.map(|budget| format!("{}s", budget.0.div_ceil(1_000_000_000)));
    option("--budget", budget.as_deref().map(OsStr::new));
    if let Some(spec) = &run.spec {
        let goal = (spec.quantity != ComparedQuantity::Time).then(|| spec.quantity.into_str());
        option("--goal", goal.map(OsStr::new));
        for guard in &spec.guards {
            option("--guard", Some(guards::spell(*guard).as_ref()));
        }
        option("--input", spec.input.path().map(Path::as_os_str));
        let stdout = (spec.stdout != StdoutTarget::default()).then(|| spec.stdout.into_str());
        option("--stdout", stdout.map(OsStr::new));
        option("--prepare", spec.prepare.as_deref().map(OsStr::new));
        option("--cleanup", spec.cleanup.as_deref().map(OsStr::new));
        for file in &spec.outputs {
            option("--output", Some(file.as_os_str()));
        }
        words.extend(spec.ignore_failure.then(|| "--ignore-failure".to_owned()));
        words.extend(spec.in_turn.then(|| "--in-turn".to_owned()));
    }
    words.extend(changes_machine(run, doses).then(|| "--system".to_owned()));
    words.join(" ")
}

/// Whether the session was allowed to change the machine, and these doses need it.
fn changes_machine(run: &SavedRun, doses: &[RemedyDose]) -> bool {
    let folios = run.machine.as_ref().and_then(|machine| machine.small_folios.known());
    let pool = run.pool.as_ref().and_then(|pool| pool.known());
    let was_allowed = folios.is_some_and(|folios| folios.may_change)
        || pool.is_some_and(|pool| pool.addable_pages > 0);
    was_allowed && doses.iter().any(|dose| dose.settings.needs_machine())
}

/// The working directory of the runs, if their command line names relative files.
fn directory(run: &SavedRun) -> Result<Option<String>, &'static str> {
    let Some(spec) = run.spec.as_ref().filter(|spec| !spec.directory.as_os_str().is_empty()) else {
        return Ok(None);
    };
    let is_file = |word: &OsString| {
        let there = spec.directory.join(word);
        Path::new(word).is_relative() && run.files.iter().any(|file| Path::new(&file.path) == there)
    };
    let has_file = spec.command.iter().any(is_file);
    let mut named = spec.input.path().into_iter().chain(spec.outputs.iter().map(PathBuf::as_path));
    match has_file || named.any(Path::is_relative) {
        true if !spec.directory.is_absolute() => Err("its directory is no absolute path"),
        true => spec
            .directory
            .to_str()
            .map(|path| Some(path.to_owned()))
            .ok_or("its directory is not UTF-8"),
        false => Ok(None),
    }
}

/// Merges saved runs.
pub(super) fn pool(args: &MergeArgs) -> Result<ExitCode, CommandFailure> {
    let files = files(&args.paths)?;
    let mut all = Vec::new();
    let mut seen: BTreeMap<(String, u64), BTreeSet<Option<String>>> = BTreeMap::new();
    for (file, host) in files {
        let run = store::read(&file)?;
        // The same run under two names counts once. Runs of several hosts may share an identifier; an unsaved
        // run has none. A copy without the host's name sorts after the file with it.
        let hosts = seen.entry((run.id.clone(), run.started_unix_ns)).or_default();
        let is_new = if host.is_some() { !hosts.contains(&host) } else { hosts.is_empty() };
        if is_new {
            all.extend(lines(&run, host.as_deref()));
            hosts.insert(host);
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

fn ndjson(all: &[HostArm]) -> Result<String, CommandFailure> {
    let mut text = String::new();
    for line in all {
        let line = serde_json::to_string(line)
            .map_err(|e| CommandFailure::usage(format!("cannot write JSON: {e}")))?;
        text.push_str(&line);
        text.push('\n');
    }
    Ok(text)
}

/// Numbers of a job array and of one of its tasks.
type Task = (String, String);
/// A start of a task: restart number, result file, host.
type Start = (u32, PathBuf, String);

/// The files of saved runs with the host from the file name, those without a host last. If a task was
/// restarted, only its last start counts. Other jobs, of Ansible and Kubernetes, have equal numbers and no
/// restarts.
fn files(paths: &[PathBuf]) -> Result<Vec<(PathBuf, Option<String>)>, CommandFailure> {
    let mut plain = Vec::new();
    let mut tasks: BTreeMap<Task, Vec<Start>> = BTreeMap::new();
    for path in paths.iter().map(|path| below(path)).collect::<Result<Vec<_>, _>>()?.concat() {
        match parts(&path) {
            Some((array, task, restart, host)) => {
                tasks.entry((array, task)).or_default().push((restart, path, host));
            }
            None => plain.push((path, None)),
        }
    }
    let mut found = Vec::new();
    for starts in tasks.into_values() {
        let last = starts.iter().map(|(restart, ..)| *restart).max();
        let counting = starts.into_iter().filter(|(restart, ..)| Some(*restart) == last);
        found.extend(counting.map(|(_, path, host)| (path, Some(host))));
    }
    found.extend(plain);
    if found.is_empty() {
        return Err(CommandFailure::usage("no saved run (*.json) in the given paths")
            .with_help("tune --json writes one; pagewise fleet script does so on every host"));
    }
    Ok(found)
}

/// The file itself, or the JSON files of a directory, sorted by name.
fn below(path: &Path) -> Result<Vec<PathBuf>, CommandFailure> {
    let cannot = |e| CommandFailure::usage(format!("cannot read `{}`: {e}", path.display()));
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
            "1.1.0.a.json",
            "1.1.0.b.json",
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
            ("1.1.0.a.json", Some("a")),
            ("1.1.0.b.json", Some("b")),
            ("7.1.2.node3.x.json", Some("node3.x")),
            ("7.2.0.node2.json", Some("node2")),
            ("own.json", None),
        ];
        let expected = expected.map(|(name, host)| (name.to_owned(), host.map(str::to_owned)));
        assert_eq!(shown, expected);
        assert!(files(&[place.path().join("none")]).is_err());
    }
}
