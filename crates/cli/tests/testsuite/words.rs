//! Names, parameters, words and paths of a saved run can hold any text. It must add no line and no word to what
//! is written for other programs. Each form is read back: scripts by sh and bash with a stand-in that keeps its
//! words, YAML by python3, units and environment files by small readers. A value that a form cannot hold is
//! refused.

mod readers;

use crate::helper::{Place as Home, install, said, tuned};
use pagewise_kernel::machine::machine;
use pagewise_model::plan::{self, RemedyDose};
use pagewise_model::run::SavedRun;
use pagewise_model::spec::{SessionSpec, StdinSource};
use pagewise_remedy::apply::{self, ApplyPlace};
use pagewise_remedy::receipt::{ReceiptConditions, TestedStart, write};
use pagewise_remedy::{containers, derived, unit};
use pagewise_report::quote_bytes;
use proptest::prelude::*;
use proptest::sample::select;
use readers::{assignments, doubled, expanded, split, unquoted, yaml};
use serde_json::json;
use std::ffi::OsString;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Text that at least one of the readers treats specially.
const SIGNS: [&str; 46] = [
    "\n", "\r\n", "\n\n", ": ", " #", "#", "'", "\"", "`id`", "$(id)", "$x", "${x}", "$$",
    "$(NODE)", "%h", "%%", "\\", "\\n", "\t", " ", "{{ x }}", "{% x %}", "{#", "[", "]", ";", "|",
    "&", ">f", "--x", "-", "~", "*", "!", "=", ",", "@", "yes", "123", "\u{85}", "\u{2028}",
    "\u{feff}", "\u{fffe}", "\u{1b}[m", "\u{7f}", "\u{e9}",
];
const LINES: [&str; 5] =
    ["\n#SBATCH -x\n", "\nExecStart=/x\n", "\n[Unit]\n", "\n- a: b\n", "\nEOF\n"];

fn hostile() -> impl Strategy<Value = String> {
    let any = any::<char>().prop_filter("no argument holds it", |c| *c != '\0');
    let piece = prop_oneof![
        6 => select(&SIGNS[..]).prop_map(str::to_owned),
        1 => select(&LINES[..]).prop_map(str::to_owned),
        2 => "[a-z0-9]{1,4}",
        1 => any.prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat())
}

/// The name of one file.
fn file_name() -> impl Strategy<Value = String> {
    hostile().prop_map(|text| {
        let name = text.replace('/', "_");
        if ["", ".", ".."].contains(&&*name) { "x".to_owned() } else { name }
    })
}

/// Words and paths that a saved run and its user put into lines.
#[derive(Debug, Clone, Default)]
struct Words {
    program: String,
    arguments: Vec<String>,
    directory: String,
    input: String,
    value: String,
}

fn words() -> impl Strategy<Value = Words> {
    let arguments = prop::collection::vec(hostile(), 0..3);
    (file_name(), arguments, file_name(), file_name(), hostile()).prop_map(
        |(program, arguments, directory, input, value)| Words {
            program,
            arguments,
            directory,
            input,
            value,
        },
    )
}

/// A directory with files of hostile names, and a stand-in for pagewise that prints its words.
struct Scene {
    dir: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("pagewise-words-").tempdir().unwrap();
        let text = "#!/bin/sh\nprintf '%s\\0' \"$@\"\n";
        let made = dir.path().join("made");
        std::fs::write(&made, text).unwrap();
        std::fs::set_permissions(&made, std::fs::Permissions::from_mode(0o755)).unwrap();
        install(&made, &dir.path().join("stand-in"));
        Self { dir }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Creates the directory of the program, with the program, its input and pagewise in it.
    fn made(&self, words: &Words) -> PathBuf {
        let place = self.path().join("at").join(&words.directory);
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join(&words.input), "").unwrap();
        std::fs::write(place.join(&words.program), "").unwrap();
        let pagewise = place.join("pagewise of it's");
        let _there_already = symlink(self.path().join("stand-in"), pagewise);
        place
    }

    /// The words that a script gave to the stand-in. Programs are found only by their path.
    fn given(&self, script: &str, arguments: &[&str]) -> Vec<String> {
        let file = self.path().join("script");
        std::fs::write(&file, script).unwrap();
        let checked = Command::new("sh").arg("-n").arg(&file).output().unwrap();
        assert!(checked.status.success(), "{script}\n{checked:?}");
        let ran = Command::new("/bin/sh")
            .arg(&file)
            .args(arguments)
            .env_clear()
            .env("PATH", self.path().join("none"))
            .current_dir(self.path())
            .output()
            .unwrap();
        assert!(ran.status.success() && ran.stderr.is_empty(), "{script}\n{ran:?}");
        split(&ran.stdout)
    }
}

/// A run with these words, read from its file.
fn run_of(doses: &str, words: &Words, place: &Path) -> SavedRun {
    let program = place.join(&words.program);
    let mut run = tuned(doses, program.to_str().unwrap(), true);
    run.command.truncate(1);
    run.command.extend(words.arguments.clone());
    run.input = Some(words.input.clone());
    run.environment = vec![
        ("JAVA_TOOL_OPTIONS".into(), words.value.clone()),
        ("GLIBC_TUNABLES".into(), words.value.clone()),
        (words.value.clone(), words.value.clone()),
    ];
    let command = run.command.iter().map(OsString::from).collect();
    run.spec = Some(SessionSpec {
        input: StdinSource::File(words.input.clone().into()),
        prepare: Some(words.value.clone()),
        ..SessionSpec::new(command, place.to_owned(), 1)
    });
    SavedRun::from_json(run.to_json().as_bytes()).unwrap()
}

fn planned(run: &SavedRun, place: &ApplyPlace, pagewise: &Path) -> Option<String> {
    apply::plan(run, place, pagewise, quote_bytes, false).ok().map(|change| change.content)
}

/// The doses of the only arm, ready to apply.
fn doses_of(run: &SavedRun) -> Vec<RemedyDose> {
    derived(&run.doses[0].1, &machine()).unwrap()
}

fn check_wrapper(here: &Scene, run: &SavedRun, pagewise: &Path) {
    let place = ApplyPlace::Wrapper { directory: here.path().join("bin") };
    let script = planned(run, &place, pagewise).expect("a shell can hold all of it");
    let list = plan::list(&doses_of(run));
    let expected = ["run", "--with", &list, "--", &run.command[0], "a b", "$c", ""];
    assert_eq!(here.given(&script, &["a b", "$c", ""]), expected, "{script}");
    assert_eq!(script.lines().filter(|line| line.starts_with("# pagewise: ")).count(), 1);
}

fn check_drop_in(here: &Scene, run: &SavedRun, pagewise: &Path, words: &Words) {
    let units = here.path().join("units");
    let place = ApplyPlace::Systemd { unit: "it.service".into(), units, of_user: true };
    let Some(text) = planned(run, &place, pagewise) else { return };
    let all = assignments(&text);
    assert_eq!(all[0], ("[Service]", ""), "{text}");
    let list = plan::list(&doses_of(run));
    let mut expected = vec![pagewise.to_str().unwrap(), "run", "--with", &list, "--"];
    expected.extend(run.command.iter().map(String::as_str));
    let directory = run.spec.as_ref().unwrap().directory.as_path();
    let input = format!("file:{}", directory.join(&words.input).display());
    for (key, value) in &all[1..] {
        match *key {
            "ExecStart" if value.is_empty() => (),
            "ExecStart" => assert_eq!(unquoted(value, true), expected, "{text}"),
            "WorkingDirectory" => assert_eq!(Path::new(&doubled(value, '%')), directory, "{text}"),
            "StandardInput" => assert_eq!(doubled(value, '%'), input, "{text}"),
            "Environment" => {
                let one = unquoted(value, false);
                let is_java = one[0].starts_with("JAVA_TOOL_OPTIONS=");
                assert!(one.len() == 1 && one[0].contains('='), "{text}");
                assert!(!is_java || one[0].ends_with(&words.value), "{text}");
            }
            "NotifyAccess" => assert_eq!(*value, "all"),
            other => panic!("{other}: {text}"),
        }
    }
    let starts = all.iter().filter(|(key, _)| *key == "ExecStart").count();
    assert!(starts == 0 || starts == 2, "{text}");
}

/// Java's environment as a file, and in the forms of Compose and Kubernetes.
fn check_containers(here: &Scene, run: &SavedRun, pagewise: &Path, words: &Words, name: &str) {
    let own = Some(words.value.as_str()).filter(|own| !own.is_empty());
    let value: Vec<&str> = Some("-XX:+UseTransparentHugePages").into_iter().chain(own).collect();
    let value = value.join(" ");
    let file = here.path().join("e.env");
    if let Some(text) = planned(run, &ApplyPlace::EnvironmentFile { file }, pagewise) {
        let lines: Vec<&str> = text.split('\n').collect();
        assert!(lines[0].starts_with("# pagewise: ") && lines.len() == 3, "{text}");
        assert_eq!(lines[1], format!("JAVA_TOOL_OPTIONS={value}"), "{text}");
    }
    let file = here.path().join("c.yaml");
    let service = ApplyPlace::Compose { file: file.clone(), service: name.to_owned() };
    let pod = ApplyPlace::Kubernetes { file, container: name.to_owned() };
    let variable = "JAVA_TOOL_OPTIONS";
    let of_service = |value| json!({"services": {name: {"environment": {variable: value}}}});
    let of_pod = |value| {
        let containers = json!([{"name": name, "env": [{"name": variable, "value": value}]}]);
        json!({"spec": {"template": {"spec": {"containers": containers}}}})
    };
    let service = planned(run, &service, pagewise).map(|text| (text, of_service(&value)));
    let pod = planned(run, &pod, pagewise).map(|text| (text, of_pod(&value)));
    let (texts, expected): (Vec<_>, Vec<_>) = service.into_iter().chain(pod).unzip();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    // Both engines read `$$` as `$`. They must treat nothing else in a value specially.
    for (read, expected) in yaml(&texts).into_iter().flatten().zip(expected) {
        assert_eq!(doubled(&read.to_string(), '$'), expected.to_string(), "{texts:#?}");
    }
}

/// The lines that `tune` prints.
fn check_receipt(here: &Scene, run: &SavedRun, words: &Words, place: &Path) {
    let command: Vec<OsString> = run.command.iter().map(OsString::from).collect();
    let of = ReceiptConditions {
        environment: vec![("JAVA_TOOL_OPTIONS".into(), words.value.clone().into())],
        pagewise: "/opt/pagewise".into(),
        in_path: true,
        program: place.join(&words.program),
        directory: place.to_owned(),
    };
    let input = place.join(&words.input);
    let input = Some(input.as_path());
    let start =
        TestedStart { command: &command, input, here: &of, system: false, quote: quote_bytes };
    let doses = doses_of(run);
    let receipt = write(&doses, &start);
    let list = plan::list(&doses);
    let mut expected = vec!["run", "--with", &list, "--"];
    expected.extend(run.command.iter().map(String::as_str));
    let tool = "printf '%s\\0' \"$@\"; }";
    let script = format!("pagewise() {{ {tool}\n{}\n", receipt.command);
    assert_eq!(here.given(&script, &[]), expected, "{script}");
    for line in receipt.environment.iter().filter(|line| line.contains("JAVA_TOOL_OPTIONS")) {
        let script = format!("{line}\nset -- \"$JAVA_TOOL_OPTIONS\"; printf '%s\\0' \"$@\"\n");
        assert!(here.given(&script, &[])[0].ends_with(&words.value), "{script}");
    }
    if let Ok(lines) = containers::lines(&doses, &start) {
        let script = format!("docker() {{ {tool}\n{}\n", lines.docker_run);
        let given = here.given(&script, &[]);
        assert_eq!((given.len(), &*given[3]), (4, "IMAGE"), "{script}");
        let is_whole = given[2].ends_with(&words.value) || given[2].starts_with("GLIBC_TUNABLES=");
        assert!(is_whole, "{script}");
    }
}

/// The scripts for engines, each as a host's shell gets it.
fn check_fleet(home: &Home, run: &SavedRun, results: &str) {
    let place = home.path();
    let file = place.join("session.json");
    std::fs::write(&file, run.to_json()).unwrap();
    let script = |engine: &[&str]| {
        let results = format!("--results={results}");
        let mut asked = home.pagewise(&["fleet", "script"]);
        let done = asked.arg(&file).arg(results).args(engine).output().unwrap();
        assert!(done.status.success() && done.stderr.is_empty(), "{done:?}");
        said(&done.stdout)
    };
    let slurm = script(&["--slurm"]);
    let head = slurm.lines().take_while(|line| line.starts_with('#'));
    assert_eq!(head.filter(|line| line.starts_with("#SBATCH")).count(), 6, "{slurm}");
    let mut scripts = vec![slurm];
    let texts = [script(&["--ansible"]), script(&["--kubernetes", "--image=a"])];
    if let Some(read) = yaml(&[&texts[0], &texts[1]]) {
        let tasks = read[0][0]["tasks"].as_array().unwrap();
        assert_eq!((read[0].as_array().unwrap().len(), tasks.len()), (1, 3));
        let task = tasks[0]["ansible.builtin.shell"].as_object().unwrap();
        assert!(task.keys().all(|key| ["cmd", "chdir"].contains(&&**key)), "{}", texts[0]);
        // The number that Jinja puts here.
        let number = "{{ ansible_play_hosts.index(inventory_hostname) + 1 }}";
        let cmd = task["cmd"].as_str().unwrap().replace(number, "1");
        let parts: Vec<&str> = cmd.split("{{ '{' }}").collect();
        assert!(parts.iter().all(|part| !part.contains('{')), "{cmd}");
        scripts.push(parts.join("{"));
        let pod = &read[1]["spec"]["template"]["spec"];
        assert_eq!(pod["containers"].as_array().unwrap().len(), 1);
        let args = pod["containers"][0]["args"].as_array().unwrap();
        assert_eq!(args.len(), 1);
        scripts.push(expanded(args[0].as_str().unwrap()));
    }
    let option = |name: &str, value: &str| match value.strip_prefix('-') {
        Some(_) => vec![format!("{name}={value}")],
        None => vec![name.to_owned(), value.to_owned()],
    };
    let list = plan::list(&doses_of(run));
    let front = ["tune", "--only", &list, "--rerun-safe", "--wait", "1h", "--json", "--quiet"];
    let mut expected: Vec<String> = front.iter().map(|word| (*word).to_owned()).collect();
    expected.extend(option("--input", run.input.as_ref().unwrap()));
    expected.extend(option("--prepare", run.spec.as_ref().unwrap().prepare.as_ref().unwrap()));
    expected.extend(["--seed", "1", "--"].map(str::to_owned));
    expected.extend(run.command.iter().cloned());
    let words = place.join("words");
    for script in scripts {
        let script = script.replace("=/results/", "=$HOME/");
        let script = format!("pagewise() {{ printf '%s\\0' \"$@\" >\"$WORDS\"; }}\n{script}");
        let _none = std::fs::remove_file(&words);
        let mut shell = Command::new("bash");
        shell.args(["-c", &script]).current_dir(place).env("WORDS", &words).env("HOME", place);
        shell.envs([("SLURM_ARRAY_TASK_ID", "1"), ("JOB_COMPLETION_INDEX", "0"), ("NODE", "n")]);
        let ran = shell.output().unwrap();
        assert!(ran.status.success() && ran.stderr.is_empty(), "{script}\n{ran:?}");
        assert_eq!(split(&std::fs::read(&words).unwrap()), expected, "{script}");
    }
}

/// A hostile name or parameter in a saved run, and its place there.
const NAMED: [&str; 6] = [
    "/id",
    "/doses/0/0",
    "/doses/0/1/0/remedy",
    "/doses/0/1/0/parameter",
    "/outcome/keep/0",
    "both",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn names_of_a_saved_run_are_one_word_or_refused(at in select(&NAMED[..]), text in hostile(), path in any::<bool>()) {
        let here = Scene::new();
        let program = here.path().join("app");
        std::fs::write(&program, "").unwrap();
        let mut saved = serde_json::to_value(tuned("malloc-keep=64M", program.to_str().unwrap(), true)).unwrap();
        if path {
            saved["doses"][0][1][0]["remedy"] = "text-huge".into();
            saved["doses"][0][1][0]["parameter"] = "/x".into();
        }
        let places = if at == "both" { vec!["/doses/0/0", "/outcome/keep/0"] } else { vec![at] };
        let text = if path && at.ends_with("parameter") { format!("/{text}") } else { text };
        for place in places {
            *saved.pointer_mut(place).unwrap() = text.clone().into();
        }
        let run = match SavedRun::from_json(saved.to_string().as_bytes()) {
            Ok(run) => run,
            Err(error) => {
                prop_assert_eq!(error.to_string().lines().count(), 1, "{}", error);
                return Ok(());
            }
        };
        prop_assert!(!run.id.contains('/') && !run.id.starts_with('.'), "{}", run.id);
        let pagewise = here.path().join("stand-in");
        let place = ApplyPlace::Wrapper { directory: here.path().join("bin") };
        match apply::plan(&run, &place, &pagewise, quote_bytes, false) {
            Ok(change) => {
                prop_assert_eq!(change.content.split('\n').count(), 4, "{}", change.content);
                check_wrapper(&here, &run, &pagewise);
                let list = plan::list(&doses_of(&run));
                prop_assert_eq!(list.matches(',').count(), 0);
                let words = Words { program: "app".into(), ..Words::default() };
                let mut run = run;
                run.spec = run_of("heap-small", &words, here.path()).spec;
                run.spec.as_mut().unwrap().command = run.command.iter().map(OsString::from).collect();
                check_drop_in(&here, &run, &pagewise, &words);
            }
            Err(error) => prop_assert!(error.help().is_some(), "{}", error),
        }
    }

    #[test]
    fn words_and_paths_stay_as_they_are_in_files_that_are_applied(words in words(), name in hostile()) {
        let here = Scene::new();
        let place = here.made(&words);
        let pagewise = place.join("pagewise of it's");
        for doses in ["malloc-keep=64M", "heap-small", "pipe-grow", "heap-huge=java"] {
            let run = run_of(doses, &words, &place);
            check_wrapper(&here, &run, &pagewise);
            check_drop_in(&here, &run, &pagewise, &words);
            check_receipt(&here, &run, &words, &place);
        }
        let run = run_of("heap-huge=java", &words, &place);
        check_containers(&here, &run, &pagewise, &words, &name);
        check_containers(&here, &run, &pagewise, &words, "yes");
    }

    #[test]
    fn scripts_for_engines_hold_the_command_as_it_was(words in words(), results in file_name()) {
        let home = Home::new();
        let mut run = run_of("malloc-keep=64M", &words, home.path());
        run.command[0] = words.program;
        run.spec.as_mut().unwrap().command[0] = run.command[0].clone().into();
        check_fleet(&home, &run, &results);
    }

    #[test]
    fn paths_in_units_are_one_word_or_refused(names in prop::collection::vec(file_name(), 1..4)) {
        let files: Vec<PathBuf> = names.iter().map(|name| Path::new("/opt").join(name)).collect();
        let pagewise = files[0].join("pagewise");
        let words = |first: &str, more: &[&str], files: &[PathBuf]| {
            let more = more.iter().map(|word| (*word).to_owned());
            let files = files.iter().map(|file| file.display().to_string());
            let program = format!("{first}{}", pagewise.display());
            [program].into_iter().chain(more).chain(files).collect::<Vec<_>>()
        };
        let kept = vec![words("", &["text", "keep", "--"], &files)];
        let one = &files[..1];
        let restored = ["restore", "save --again"].map(|verb| {
            let verb: Vec<&str> = ["cache"].into_iter().chain(verb.split(' ')).collect();
            words("-", &verb, one)
        });
        let units = [(unit::keeping(&pagewise, &files), kept), (unit::restoring(&pagewise, &files[0]), restored.into())];
        for (lines, expected) in units {
            let Ok(lines) = lines else { continue };
            let text = lines.join("\n");
            prop_assert_eq!(text.lines().count(), lines.len());
            let all = assignments(&text);
            let commands = all.iter().filter(|(key, _)| key.starts_with("Exec"));
            let commands: Vec<Vec<String>> = commands.map(|(_, value)| unquoted(value, true)).collect();
            prop_assert_eq!(commands, expected);
        }
    }
}
