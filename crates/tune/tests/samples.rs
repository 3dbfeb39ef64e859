//! Samples of a real program whose kernel work is known, from the recording to the terms of the diagnosis.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a live test says why it is skipped")]

use pagewise_judge::activity::sort;
use pagewise_model::diagnosis::KernelActivity;
use pagewise_tracee::launch::ObservationOptions;
use pagewise_tracee::mapped_file::MappedFiles;
use pagewise_tracee::perf::PerfObservers;
use std::io::Write;
use std::process::{Command, Stdio};

#[test]
fn kernel_work_is_recognised() {
    // One pipe. The reader keeps 60 MB in fresh memory.
    let script = "head -c 300M /dev/zero | tail -c 60M";
    let mut child = Command::new("/bin/sh")
        .args(["-c", "read go; exec /bin/sh -c \"$1\"", "sh", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    let observers = PerfObservers::attach(
        pid,
        &ObservationOptions { samples: true, ..ObservationOptions::default() },
        &MappedFiles::default(),
        None,
    );
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    assert!(child.wait().unwrap().success());
    let samples = match observers.finish().samples {
        pagewise_model::Fact::Known(samples) => samples,
        pagewise_model::Fact::Missing(reason) => {
            eprintln!("SKIP kernel_work_is_recognised: {reason}");
            return;
        }
    };
    let sorted = sort(&samples);
    let of = |activity| sorted.get(&activity).copied().unwrap_or(0);
    assert!(of(KernelActivity::Copy) > 0 && of(KernelActivity::Fault) > 0, "{sorted:?}");
    assert!(of(KernelActivity::Pipe) + of(KernelActivity::Wakeup) > 0, "{sorted:?}");
    let unexplained = of(KernelActivity::Unknown) + of(KernelActivity::Other);
    assert!(unexplained * 20 <= samples.kernel_total(), "{sorted:?} of {samples:?}");
}
