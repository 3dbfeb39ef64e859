//! Lines of receipts, read by the programs that they are for, if these are installed.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking")]

use pagewise_model::constructed::machine;
use pagewise_model::look::Allocator;
use pagewise_model::machine::{AllocatorLibrary, Machine};
use pagewise_model::plan::RemedyDose;
use pagewise_remedy::receipt::{ReceiptConditions, TestedStart, write};
use pagewise_remedy::{TargetProgram, containers, parse_list};
use std::ffi::OsString;
use std::io::Write;
use std::process::{Command, Stdio};

/// An environment with every character that is special to one of the readers.
const ODD: &str = r#"-Da="$(b)" -Dc=\d$e%f:g #h {i}"#;

fn doses(list: &str) -> Vec<RemedyDose> {
    parse_list(list, &machine(), &|| TargetProgram::from_command(&[])).unwrap()
}

fn here() -> ReceiptConditions {
    ReceiptConditions {
        environment: vec![("JAVA_TOOL_OPTIONS".into(), ODD.into())],
        pagewise: "/bin/true".into(),
        in_path: false,
        program: "/bin/true".into(),
        directory: "/".into(),
    }
}

#[test]
fn systemd_accepts_every_drop_in() {
    let (here, command) = (here(), ["true", "a b", "$c", "50%"].map(OsString::from));
    let (command, here) = (&command[..], &here);
    let quote = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
    let dir = tempfile::tempdir().unwrap();
    for list in ["heap-huge=java", "malloc-keep=64M,heap-small", "text-huge=/bin/true", "place"] {
        let start = TestedStart { command, input: None, here, system: false, quote };
        let lines = write(&doses(list), &start).systemd;
        assert_eq!(lines.first().map(String::as_str), Some("[Service]"), "{list}");
        let own = if lines.iter().any(|line| line.starts_with("ExecStart=/")) {
            ""
        } else {
            "ExecStart=/bin/true\n"
        };
        let unit = dir.path().join("pagewise-receipt.service");
        std::fs::write(&unit, format!("{}\n{own}", lines.join("\n"))).unwrap();
        match Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&unit).output() {
            Ok(done) => {
                let said = String::from_utf8_lossy(&done.stderr);
                assert!(done.status.success(), "{list}: {said}{lines:?}");
                assert!(!said.contains("pagewise-receipt"), "{list}: {said}");
            }
            Err(error) => println!("SKIP systemd-analyze verify: {error}"),
        }
    }
}

#[test]
fn an_allocator_for_python_is_kept_in_every_form_with_the_users_preload_first() {
    let library =
        AllocatorLibrary { allocator: Allocator::Jemalloc, path: "/lib/libj.so.2".into() };
    let machine = Machine { allocator_libraries: vec![library], ..machine() };
    let doses =
        parse_list("allocator=+python", &machine, &|| TargetProgram::from_command(&[])).unwrap();
    let environment = vec![("LD_PRELOAD".into(), "/own.so".into())];
    let (here, command) =
        (ReceiptConditions { environment, ..here() }, [OsString::from("python3")]);
    let quote = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
    let start = TestedStart { command: &command, input: None, here: &here, system: false, quote };
    let kept = write(&doses, &start);
    assert!(kept.command.contains("--with allocator=jemalloc+python --"), "{}", kept.command);
    let both = ["LD_PRELOAD=/own.so:/lib/libj.so.2", "PYTHONMALLOC=malloc"];
    assert_eq!(kept.environment, both.map(|pair| format!("export {pair}")));
    assert_eq!(kept.systemd[1..], both.map(|pair| format!("Environment=\"{pair}\"")));
    let lines = containers::lines(&doses, &start).unwrap();
    assert!(both.iter().all(|pair| lines.docker_run.contains(&format!("--env {pair} "))));
    let pod = ["- name: PYTHONMALLOC", "  value: \"malloc\""];
    assert_eq!(lines.kubernetes[3..], pod);
    assert!(kept.undo.contains("set LD_PRELOAD back to /own.so"), "{}", kept.undo);
}

#[test]
fn yaml_holds_the_environment_as_it_was_tested() {
    let (here, command) = (here(), [OsString::from("java")]);
    let quote = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
    let start = TestedStart { command: &command, input: None, here: &here, system: false, quote };
    let lines = containers::lines(&doses("heap-huge=java"), &start).unwrap();
    let value = format!("-XX:+UseTransparentHugePages {ODD}");
    let compose =
        "yaml.safe_load(sys.stdin)['services']['NAME']['environment']['JAVA_TOOL_OPTIONS']";
    let pod = "yaml.safe_load(sys.stdin)['env'][0]['value']";
    // Both readers take two of them as one.
    let expected = value.replace('$', "$$");
    for (lines, expression) in [(&lines.compose, compose), (&lines.kubernetes, pod)] {
        let script = format!("import sys, yaml; print({expression})");
        let mut reader = Command::new("python3");
        reader.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let Ok(mut child) = reader.stderr(Stdio::null()).spawn() else {
            println!("SKIP YAML of receipts: no python3");
            return;
        };
        child.stdin.take().unwrap().write_all(lines.join("\n").as_bytes()).unwrap();
        let done = child.wait_with_output().unwrap();
        if !done.status.success() {
            let has_yaml = Command::new("python3").args(["-c", "import yaml"]).output().unwrap();
            assert!(!has_yaml.status.success(), "{lines:?}");
            println!("SKIP YAML of receipts: python3 has no yaml");
            return;
        }
        assert_eq!(String::from_utf8_lossy(&done.stdout).trim_end(), expected);
    }
}
