//! The real world over a stand-in for the supervising process.

use super::*;
use pagewise_model::plan::{ArmSettings, PoolNeed};
use pagewise_model::spec::SessionSpec;
use pagewise_model::usage::{ProgramEnd, ProgramUsage};
use pagewise_model::{PageSize, constructed};
use pagewise_remedy::receipt::ReceiptConditions;
use pagewise_tracee::watcher::WatchReport;
use std::cell::RefCell;
use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;

/// Runs every command immediately and keeps a list. Raises the flag when it reaches `stop_at`.
struct Fake {
    ran: Rc<RefCell<Vec<String>>>,
    stop_at: &'static str,
    dead_at: &'static str,
    stop: Arc<AtomicBool>,
    begun: Option<ProgramLaunch>,
}

impl ProgramRunner for Fake {
    fn begin(&mut self, launch: &ProgramLaunch) -> Result<(), SuperviseError> {
        self.begun = Some(launch.clone());
        Ok(())
    }

    fn end(&mut self, interrupted: &dyn Fn() -> bool) -> Result<FinishedRun, SuperviseError> {
        let launch = self.begun.take().unwrap();
        let text = launch.argv.last().unwrap().to_string_lossy().into_owned();
        self.ran.borrow_mut().push(text.clone());
        if text == self.stop_at {
            self.stop.store(true, Ordering::Relaxed);
        }
        if interrupted() {
            return Err(SuperviseError::Interrupted);
        }
        if text == self.dead_at {
            return Err(SuperviseError::Died {
                how: "signal 9".into(),
                killed: 0,
                alive: Vec::new(),
            });
        }
        let status = Command::new(&launch.argv[0]).args(&launch.argv[1..]).status().unwrap();
        Ok(finished(ProgramEnd::Exited(status.code().unwrap())))
    }

    fn traced(
        &mut self,
        _: &ProgramLaunch,
        _: &[PathBuf],
        interrupted: &dyn Fn() -> bool,
    ) -> Result<TracedLook, SuperviseError> {
        self.ran.borrow_mut().push("traced".into());
        assert!(!interrupted(), "nobody asked");
        Err(SuperviseError::Trace("not here".into()))
    }

    fn accounted(
        &mut self,
        _: &ProgramLaunch,
        _: &dyn Fn() -> bool,
    ) -> Result<AccountedRun, SuperviseError> {
        self.ran.borrow_mut().push("accounted".into());
        Err(SuperviseError::Trace("not here".into()))
    }

    fn condition(&mut self, _: Bytes, _: &dyn Fn() -> bool) -> Result<(), SuperviseError> {
        self.ran.borrow_mut().push("condition".into());
        Ok(())
    }
}

fn finished(ended: ProgramEnd) -> FinishedRun {
    FinishedRun::new(ProgramUsage {
        wall_ns: Nanos(1),
        user_ns: Nanos(1),
        peak_rss_bytes: Bytes(1),
        ended,
        ..constructed::usage()
    })
}

/// What `program` with these around it ran, and what `work` made of it.
fn with<T>(
    request: &SessionRequest,
    stop_at: &'static str,
    dead_at: &'static str,
    work: impl FnOnce(&mut RealWorld<'_>) -> T,
) -> (T, Vec<String>) {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let parent = std::env::temp_dir().join(format!("pagewise-live-{}-{next}", std::process::id()));
    std::fs::create_dir_all(&parent).unwrap();
    let (ran, stop) = (Rc::new(RefCell::new(Vec::new())), Arc::new(AtomicBool::new(false)));
    let fake =
        Fake { ran: Rc::clone(&ran), stop_at, dead_at, stop: Arc::clone(&stop), begun: None };
    let mut listener = |_: &SessionEvent<'_>| {};
    let scratch = ScratchDir::create(&parent).unwrap();
    let [recorder, probe] = ["record", "touch"].map(|word| vec![OsString::from(word)]);
    let recording = faults::RecordingCommands { recorder, probe };
    let mut live =
        RealWorld::with(request, Box::new(fake), None, recording, scratch, stop, &mut listener);
    let made = work(&mut live);
    drop(live);
    std::fs::remove_dir_all(&parent).unwrap();
    (made, ran.take())
}

fn request(prepare: &str, program: &str, cleanup: &str) -> SessionRequest {
    let command = ["sh", "-c", program].map(OsString::from).to_vec();
    SessionRequest {
        spec: SessionSpec {
            rerun_safe: true,
            prepare: Some(prepare.into()),
            cleanup: Some(cleanup.into()),
            ..SessionSpec::new(command, PathBuf::new(), 1)
        },
        system: None,
        quote: |word| String::from_utf8_lossy(word).into_owned(),
        here: ReceiptConditions::default(),
        offsets: Default::default(),
        id: "test".into(),
    }
}

#[test]
fn cleanup_always_runs_and_the_first_error_is_told() {
    let timed = |request: &SessionRequest, stop_at, dead_at| {
        let arm = ProgramArm::plain(request);
        let timing = RunTiming::default();
        with(request, stop_at, dead_at, |live| live.timed(&arm, &timing).err())
    };
    let usual = request("true", "exit 0", "exit 4");
    let (stop, ran) = timed(&usual, "none", "none");
    assert!(matches!(stop, Some(SessionStop::Around { which: "--cleanup", .. })), "{stop:?}");
    assert_eq!(ran, ["true", "condition", "exit 0", "exit 4"]);
    let (stop, ran) = timed(&usual, "exit 0", "none");
    assert!(matches!(stop, Some(SessionStop::Interrupted)), "{stop:?}");
    assert_eq!(ran.last().unwrap(), "exit 4", "Ctrl-C does not reach it");
    let (stop, ran) = timed(&usual, "none", "exit 0");
    assert!(matches!(stop, Some(SessionStop::Broken(_))), "{stop:?}");
    assert_eq!(ran.len(), 4);
    let (stop, ran) = timed(&request("exit 3", "exit 0", "true"), "none", "none");
    assert!(matches!(stop, Some(SessionStop::Around { which: "--prepare", .. })), "{stop:?}");
    assert_eq!(ran, ["exit 3", "true"]);
}

#[test]
fn a_run_that_was_recorded_and_failed_tells_nothing_of_the_program() {
    let recorded = |program| {
        let asked = request("true", program, "true");
        let arm = ProgramArm::plain(&asked);
        with(&asked, "none", "none", |live| live.recorded(&arm, &RunTiming::default()))
    };
    let (seen, ran) = recorded("exit 3");
    assert!(matches!(seen, Ok(Fact::Missing(why)) if why.contains("exit status 3")));
    assert_eq!(ran, ["true", "condition", "exit 3", "true"]);
    // Without a recording there is nothing to compare with a probe.
    let (seen, ran) = recorded("exit 0");
    assert!(matches!(seen, Ok(Fact::Missing(why)) if why == "not requested"));
    assert_eq!(ran, ["true", "condition", "exit 0", "true"]);
}

#[test]
fn files_are_read_before_cleanup_removes_them() {
    let dir = std::env::temp_dir().join(format!("pagewise-outputs-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("out");
    let path = file.display();
    let mut asked = request("true", &format!("echo data >{path}"), &format!("rm {path}"));
    asked.spec.outputs = vec![file.clone(), dir.join("misspelt")];
    let arm = ProgramArm::plain(&asked);
    let work = |live: &mut RealWorld<'_>| live.captured(&arm, &RunLimits::default());
    let (captured, _) = with(&asked, "none", "none", work);
    let streams = captured.unwrap().streams;
    assert!(!file.exists() && streams[2].1.is_ok(), "{streams:?}");
    assert_eq!(streams[3].1.as_ref().unwrap_err(), "is not there");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_look_that_sees_nothing_has_its_surroundings_too() {
    let asked = request("true", "exit 0", "exit 0");
    let (seen, ran) = with(&asked, "none", "none", |live| {
        live.traced(&ProgramArm::plain(&asked), TracedLookPlan::default())
    });
    assert!(matches!(seen, Ok((Fact::Missing(why), _)) if why == "not here"));
    assert_eq!(ran, ["true", "traced", "exit 0"]);
}

#[test]
fn what_lies_on_the_pool_is_memory_too() {
    let need = PoolNeed { bytes: Bytes::mib(64), page_bytes: PageSize::PMD_2M };
    let settings = ArmSettings { pool: Some(need), ..ArmSettings::default() };
    let arm = ProgramArm { settings, ..ProgramArm::unchanged("pool", &[]) };
    let watch =
        |name: &str| WatchReport { watch: name.into(), counter: 5, ..WatchReport::default() };
    let watches = vec![watch(pagewise_remedy::POOL), watch("grow-pipes")];
    let done = FinishedRun { watches, ..finished(ProgramEnd::Exited(0)) };
    assert_eq!(on_pool(&done, &arm), Bytes::mib(10));
    assert_eq!(on_pool(&done, &ProgramArm::unchanged("plain", &[])), Bytes(0));
}
