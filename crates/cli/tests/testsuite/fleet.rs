//! `fleet script` and `merge`: the printed scripts run with a stand-in for pagewise, as their engines run them.

use crate::helper::{Place, said};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Characters that a shell, Kubernetes and Jinja might interpret.
const WORD: &str = "a$$b $(NODE) $NODE $((1 + 1)) 'q' {{ x }} {% y %} {# z";

/// A session that kept a remedy with every kind of need.
fn session() -> Value {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs/walk-tune.json");
    let mut run: Value = serde_json::from_slice(&std::fs::read(fixture).unwrap()).unwrap();
    run["command"] = json!(["walk", WORD]);
    run["stdout"] = "file".into();
    run["experiment"]["design"]["guards"] = json!([{"quantity": "memory", "limit_share": 0.5}]);
    run["conditions"] = json!({"directory": "/", "outputs": ["out"], "prepare": null,
        "cleanup": null, "ignore_failure": true, "own_arms": [], "files": []});
    run
}

fn write(place: &Place, name: &str, run: &Value) -> PathBuf {
    let file = place.path().join(name);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, run.to_string()).unwrap();
    file
}

/// The script of a session for an engine.
fn script(place: &Place, run: &Value, engine: &[&str]) -> String {
    let file = write(place, "session.json", run);
    let done = place.pagewise(&["fleet", "script"]).arg(file).args(engine).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    said(&done.stdout)
}

/// Runs a script. Its `pagewise` writes its arguments to the file `words`, prints a text and ends with status
/// 3.
fn play(place: &Place, shell: &str, script: &str, text: &str, more: &[(&str, &str)]) -> Output {
    const TOOL: &str =
        r#"pagewise() { printf '%s\n' "$@" >"$WORDS"; printf %s "$SAID"; return 3; }"#;
    Command::new(shell)
        .args(["-c", &format!("{TOOL}\n{script}")])
        .current_dir(place.path())
        .env("WORDS", place.path().join("words"))
        .env("SAID", text)
        .env_remove("SLURM_RESTART_COUNT")
        .envs(more.iter().copied())
        .output()
        .unwrap()
}

/// The words that the stand-in received.
fn words(place: &Place) -> Vec<String> {
    let text = std::fs::read_to_string(place.path().join("words")).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_task_of_slurm_repeats_the_session_and_keeps_a_result_only() {
    let place = Place::new();
    let script = script(&place, &session(), &["--slurm", "--results", "all results"]);
    let results = place.path().join("all results");
    let task =
        [("SLURM_ARRAY_JOB_ID", "7"), ("SLURM_ARRAY_TASK_ID", "2"), ("SLURMD_NODENAME", "n1")];
    let busy = play(&place, "bash", &script, "", &task);
    assert_eq!((busy.status.code(), names(&results)), (Some(3), vec![]), "{busy:?}");
    let done = play(&place, "bash", &script, "{}", &task);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert_eq!(names(&results), ["7.2.0.n1.json"], "{script}");
    let expected = [
        "tune",
        "--only",
        "heap-huge=tunable",
        "--rerun-safe",
        "--wait",
        "1h",
        "--json",
        "--quiet",
        "--guard",
        "memory<+50%",
        "--stdout",
        "file",
        "--output",
        "out",
        "--ignore-failure",
        "--seed",
        "2",
        "--",
        "walk",
        WORD,
    ];
    assert_eq!(words(&place), expected);
}

#[test]
fn a_script_changes_the_machine_only_where_the_session_might() {
    let place = Place::new();
    let mut run = session();
    let dose = &mut run["doses"][0][1][0];
    (dose["remedy"], dose["parameter"]) = ("pool".into(), "2M".into());
    assert!(!script(&place, &run, &["--slurm"]).contains("--system"));
    run["pool"]["known"]["addable_pages"] = 8.into();
    assert!(script(&place, &run, &["--slurm"]).contains(" --system --seed "));
    // The settings of a dose come from the remedy, not from the file.
    run["doses"] = session()["doses"].clone();
    let settings = &mut run["doses"][0][1][0]["settings"];
    settings["pool"] = json!({"page_bytes": 2_097_152, "bytes": 2_097_152});
    assert!(!script(&place, &run, &["--slurm"]).contains("--system"));
}

#[test]
fn what_no_host_could_run_is_one_line() {
    let place = Place::new();
    let refused = |run: &Value, engine: &[&str], why: &str| {
        let file = write(&place, "session.json", run);
        let done = place.pagewise(&["fleet", "script"]).arg(file).args(engine).output().unwrap();
        let text = said(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{done:?}");
        assert!(done.stdout.is_empty() && text.contains(why), "{done:?}");
        assert!(text.lines().count() <= 2, "{text}");
    };
    let with = |remedy: &str, parameter: &str| {
        let mut run = session();
        let dose = &mut run["doses"][0][1][0];
        (dose["remedy"], dose["parameter"]) = (remedy.into(), parameter.into());
        run
    };
    refused(&with("malloc-keep", "64M,pipe-grow"), &["--slurm"], "remedy `malloc-keep`");
    refused(&with("heap-hugo", ""), &["--ansible"], "unknown remedy `heap-hugo`");
    refused(&with("malloc-keep", "64M\nb"), &["--slurm"], "holds a control character");
    let mut run = session();
    run["conditions"]["directory"] = "-P".into();
    refused(&run, &["--slurm"], "no absolute path");
    for image in ["", "a b", "-x", "a\nb"] {
        let image = format!("--image={image}");
        refused(&session(), &["--kubernetes", &image], "is not the name of an image");
    }
    let long = "a".repeat(254);
    for claim in ["Yes", "a_b", "a\nb", "-", &long] {
        let claim = format!("--claim={claim}");
        refused(&session(), &["--kubernetes", "--image=1", &claim], "is not a name of Kubernetes");
    }
    assert!(
        script(&place, &session(), &["--kubernetes", "--image=1", "--claim=123"])
            .contains("claimName: \"123\"\n")
    );
    let mut run = session();
    run["conditions"]["prepare"] = "--system".into();
    assert!(script(&place, &run, &["--slurm"]).contains(" --prepare=--system "));
}

/// Expands `args` as Kubernetes does, with NODE known: `$$` becomes `$`, and `$(NODE)` its value.
fn expanded(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let (read, taken) = if rest.starts_with("$$") {
            ("$", 2)
        } else if rest.starts_with("$(NODE)") {
            ("VALUE", 7)
        } else {
            ("$", 1)
        };
        out.push_str(read);
        rest = &rest[taken..];
    }
    out + rest
}

#[test]
fn a_pod_gets_the_command_as_it_was() {
    let place = Place::new();
    let job = script(&place, &session(), &["--kubernetes", "--image", "app:1"]);
    let (_, rest) = job.split_once("            - |\n").unwrap();
    let (block, _) = rest.split_once("          env:\n").unwrap();
    let block: String = block.lines().map(|line| format!("{}\n", line.trim_start())).collect();
    let results = place.path().join("results");
    std::fs::create_dir(&results).unwrap();
    let script = expanded(&block).replace("/results/", &format!("{}/", results.display()));
    let pod = [("JOB_COMPLETION_INDEX", "4"), ("NODE", "n1")];
    let busy = play(&place, "sh", &script, "", &pod);
    assert_eq!((busy.status.code(), names(&results)), (Some(3), vec![]), "{busy:?}");
    let done = play(&place, "sh", &script, "{}", &pod);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert_eq!(names(&results), ["1.4.0.n1.json"]);
    let words = words(&place);
    assert_eq!(words.last().unwrap(), WORD);
    assert!(words.windows(2).any(|pair| pair == ["--seed", "5"]), "{words:?}");
    assert!(script.contains(".tmp.$$\""), "{script}");
}

/// Hosts and sessions in the answer about a directory.
fn pooled(place: &Place) -> (u64, u64) {
    let runs = place.path().join("runs");
    let done = place.pagewise(&["merge", "--json"]).arg(runs).output().unwrap();
    let answer: Value = serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"));
    assert_eq!(answer.as_array().unwrap().len(), 1, "{answer:#}");
    let pooled = &answer[0]["pooled"];
    (pooled["hosts"].as_u64().unwrap(), pooled["sessions"].as_u64().unwrap())
}

#[test]
fn every_host_counts_once_and_every_session() {
    let place = Place::new();
    let run = |id: &str, start: u64| {
        let mut run = session();
        (run["id"], run["started_unix_ns"]) = (id.into(), start.into());
        run
    };
    // Hosts that could not save their run have no run identifier.
    write(&place, "runs/a.json", &run("", 1));
    write(&place, "runs/b.json", &run("", 2));
    assert_eq!(pooled(&place), (2, 2));
    // The same run under another name, with a host's and without.
    write(&place, "runs/c.json", &run("", 2));
    write(&place, "runs/1.1.0.node1.json", &run("", 1));
    assert_eq!(pooled(&place), (2, 2));
    // Two containers with equal process identifiers; a second job of Ansible, with the hosts in another order.
    write(&place, "runs/1.2.0.node2.json", &run("x", 3));
    write(&place, "runs/1.2.0.node3.json", &run("x", 3));
    assert_eq!(pooled(&place), (4, 4));
    write(&place, "runs/1.1.0.node2.json", &run("y", 4));
    write(&place, "runs/1.3.0.node1.json", &run("z", 5));
    assert_eq!(pooled(&place), (4, 6));
}

#[test]
fn hosts_are_ranked_by_samples_of_top() {
    let place = Place::new();
    let sample = |cpus: f64, gain: f64| {
        let prediction = json!({"arm": "heap-huge=glibc", "gain_share": gain, "programs": 40,
            "low_share": gain - 0.05, "high_share": gain + 0.05});
        let row = json!({"pid": 7, "name": "postgres", "cpus": cpus, "minor_per_second": 1e5,
            "major_per_second": 0.0, "fault_cpus": 0.2, "resident_bytes": 1, "anonymous_bytes": 1,
            "table_bytes": 1, "huge_bytes": 0, "prediction": prediction});
        json!({"interval_ns": 1_000_000_000, "processes": 9, "host": {"counts": {}}, "rows": [row],
            "own_cpu_ns": 0})
    };
    write(&place, "samples/small.json", &sample(1.0, 0.2));
    let both = format!("{}\n{}\n", sample(6.0, 0.1), sample(4.0, 0.1));
    std::fs::write(place.path().join("samples/large.json"), both).unwrap();
    let rank = |words: &[&str]| {
        let command = &mut place.pagewise(&["fleet", "rank"]);
        command.args(words).current_dir(place.path()).output().unwrap()
    };
    let shown = said(&rank(&["samples"]).stdout);
    let lines: Vec<&str> = shown.lines().map(str::trim).collect();
    assert!(lines[1].starts_with("large") && lines[2].starts_with("small"), "{shown}");
    assert!(lines[1].contains("5.00   0.50  0.25 to 0.75  postgres: heap-huge=glibc"), "{shown}");
    let json: Value = serde_json::from_slice(&rank(&["--json", "samples"]).stdout).unwrap();
    assert_eq!((&json[0]["host"], &json[0]["samples"]), (&json!("large"), &json!(2)));
    std::fs::write(place.path().join("samples/bad.json"), "no").unwrap();
    let refused = rank(&["samples"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused.stderr).contains("bad.json"), "{}", said(&refused.stderr));
}
