use super::*;
use pagewise_model::constructed;
use pagewise_model::run::RunKind;
use std::fs;

fn saved(directory: &Path) -> (SavedRun, PathBuf) {
    let program = directory.canonicalize().unwrap().join("prog");
    fs::write(&program, "#!/bin/sh\n").unwrap();
    let mark = mark(&program).unwrap();
    let mut run = SavedRun::new(RunKind::Tune, "x".into(), 1, vec!["prog".into()]);
    run.machine = Some(constructed::machine());
    run.files = vec![mark];
    (run, program)
}

#[test]
fn nothing_has_changed_right_after() {
    let directory = tempfile::tempdir().unwrap();
    let (run, program) = saved(directory.path());
    assert_eq!(changed(&run, &constructed::machine(), &program), None);
}

#[test]
fn another_machine_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let (run, program) = saved(directory.path());
    let told = |now: &Machine| changed(&run, now, &program).unwrap();
    let machine = constructed::machine();
    assert!(told(&Machine { kernel: "7.0".into(), ..machine.clone() }).contains("kernel"));
    assert!(told(&Machine { cpu_model: "other".into(), ..machine.clone() }).contains("processor"));
    assert!(told(&Machine { cpus: vec![77], ..machine.clone() }).contains("CPUs"));
    assert!(told(&Machine { uid: machine.uid + 1, ..machine }).contains("user"));
}

#[test]
fn another_file_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let (run, program) = saved(directory.path());
    let other = directory.path().join("other");
    fs::write(&other, "").unwrap();
    let told = |program: &Path| changed(&run, &constructed::machine(), program);
    assert_eq!(told(&other).unwrap(), "`prog` is a different file now");
    assert_eq!(told(&directory.path().join("none")).unwrap(), "`prog` is a different file now");
    // Replaced by one of the same size and time.
    let times =
        fs::FileTimes::new().set_modified(fs::metadata(&program).unwrap().modified().unwrap());
    fs::rename(&program, directory.path().join("former")).unwrap();
    fs::write(&program, "#!/bin/sh\n").unwrap();
    fs::File::options().write(true).open(&program).unwrap().set_times(times).unwrap();
    assert!(told(&program).unwrap().ends_with("prog` has changed"));
}
