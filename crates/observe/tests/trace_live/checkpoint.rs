//! Long programs, stopped where later runs stop too.

use super::shell;
use pagewise_model::usage::ProgramEnd;
use pagewise_model::{Bytes, Nanos};
use pagewise_tracee::checkpoint::RunCheckpoint;
use pagewise_tracee::launch::ProgramLaunch;
use pagewise_tracee::supervise::RunSupervisor;

pub(super) fn long_programs_end_at_a_checkpoint() {
    let me = std::env::current_exe().unwrap();
    let mut supervisor = RunSupervisor::start(&me, &["supervise"]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut look = |command: &str| {
        let checkpoint = Some(RunCheckpoint::After(Nanos::millis(200)));
        let launch = ProgramLaunch { checkpoint, ..shell(dir.path(), command) };
        supervisor.traced(&launch, &[], &|| false).unwrap()
    };
    let seen = look("exec dd if=/dev/zero of=/dev/null bs=64k");
    assert_eq!(seen.ended, ProgramEnd::Checkpoint);
    assert!(seen.checkpoint_bytes.is_some_and(|bytes| bytes > Bytes::mib(1)), "{seen:?}");
    let last = seen.processes.last().unwrap();
    assert!(last.exe.ends_with("/dd") && last.incomplete.is_none(), "{last:?}");
    let whole = [
        ("a change outside", "dd if=/dev/zero of=file bs=64k count=9000; rm file"),
        ("no calls", "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done"),
    ];
    for (why, command) in whole {
        let seen = look(command);
        assert_eq!((seen.ended, seen.checkpoint_bytes), (ProgramEnd::Exited(0), None), "{why}");
    }
}
