//! The text of a file on huge pages while its program runs. The program has a known number of whole slots of
//! text, and `smaps` is read before and after.

use super::collapse::{collapsed, slots};
use crate::helper::{NOBODY, as_nobody, compile, open_place, said, users};
use pagewise_kernel::cached_file::PageCacheFile;
use pagewise_kernel::page_size;
use pagewise_kernel::proc::smaps::{self, SmapsEntry};
use pagewise_model::collapse::{CollapsedPart, CollapsedProcess};
use pagewise_model::{Bytes, PageSize};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// The program in a directory of its own, with the program under test.
struct WideText {
    place: tempfile::TempDir,
    program: PathBuf,
    user: Option<u32>,
}

/// It, running with all of its text touched.
struct RunningText {
    child: Child,
    program: PathBuf,
}

impl WideText {
    /// Builds it for a user. `None`, after a `SKIP` line, if this machine does not support it.
    fn build(user: Option<u32>, test: &str) -> Option<Self> {
        let place = open_place("pagewise-collapse-files-");
        let program = place.path().join("wide_text");
        if page_size::huge() != PageSize::PMD_2M || !compile("wide_text.c", &["-no-pie"], &program)
        {
            println!("SKIP {test}: no C compiler, or no huge pages of 2 MiB");
            return None;
        }
        chown(&program, user, user).unwrap();
        // A linker may write huge folios. Those of a start from disk are small.
        File::open(&program).unwrap().sync_all().unwrap();
        PageCacheFile::open(&program).unwrap().drop_cached().unwrap();
        Some(Self { place, program, user })
    }

    fn command(&self, program: &Path) -> Command {
        self.user.map_or_else(|| Command::new(program), |_| as_nobody(program))
    }

    fn start(&self, words: &[&str]) -> RunningText {
        let mut command = self.command(&self.program);
        let mut child =
            command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        RunningText { child, program: self.program.clone() }
    }

    /// `text collapse` on it, as its user or as this account.
    fn collapse(&self, words: &[&str], running: &RunningText, as_user: bool) -> Output {
        let pagewise = self.place.path().join("pagewise");
        let mut command = if as_user { self.command(&pagewise) } else { Command::new(pagewise) };
        let pid = running.child.id().to_string();
        command.args(["text", "collapse", "--json"]).args(words).arg(pid).output().unwrap()
    }
}

impl RunningText {
    fn text(&self) -> Vec<SmapsEntry> {
        let all = smaps::read(self.child.id() as i32).unwrap();
        let is_text =
            |e: &SmapsEntry| e.mapping.perms.exec && self.program.as_os_str() == e.mapping.path;
        all.into_iter().filter(is_text).collect()
    }

    /// Whole slots of its text.
    fn slots(&self) -> u64 {
        let huge = page_size::huge().bytes();
        let whole = |e: &SmapsEntry| e.mapping.end / huge - e.mapping.start.div_ceil(huge);
        self.text().iter().map(whole).sum()
    }

    /// What `smaps` says of it.
    fn huge(&self) -> Bytes {
        self.text().iter().fold(Bytes(0), |sum, entry| sum + entry.residency.huge())
    }

    fn part<'p>(&self, process: &'p CollapsedProcess) -> &'p CollapsedPart {
        let is_its = |part: &&CollapsedPart| {
            part.path.as_deref().is_some_and(|path| self.program == Path::new(path))
        };
        process.parts.iter().find(is_its).unwrap()
    }

    /// Ends it as the end of its input does.
    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

/// The result of a reread. `None`, after a `SKIP` line, if kernel or file system do not support it.
fn reread(done: &Output, running: &RunningText, test: &str) -> Option<CollapsedProcess> {
    let process = collapsed(done, test)?;
    let cannot = ["base pages", "lives only in memory", "CONFIG_PT_RECLAIM", "no huge folio came"];
    let refused = running.part(&process).refused.iter();
    let unfit =
        refused.map(|refused| &refused.why).find(|why| cannot.iter().any(|c| why.contains(c)));
    if let Some(why) = unfit {
        println!("SKIP {test}: this file system or this kernel: {why}");
        return None;
    }
    Some(process)
}

#[test]
fn text_of_a_file_is_huge_while_its_program_runs() {
    const TEST: &str = "text_of_a_file_is_huge_while_its_program_runs";
    for user in users() {
        let Some(wide) = WideText::build(user, TEST) else { return };
        let running = wide.start(&[]);
        let whole = running.slots();
        assert!(whole >= 2, "{whole}");
        if running.huge() > Bytes(0) {
            return println!("SKIP {TEST}: the machine gives huge pages unasked");
        }
        // By the kernel: it takes every slot or none, and then the next step is named.
        if let Some(process) = collapsed(&wide.collapse(&[], &running, false), TEST) {
            let part = running.part(&process);
            assert_eq!((part.tried_slots, part.huge()), (whole, running.huge()), "{part:?}");
            match &part.refused[..] {
                [] => {
                    assert_eq!(part.huge(), slots(whole));
                    return println!("SKIP {TEST}: this kernel collapses files");
                }
                [refused] => {
                    assert_eq!((refused.slots, part.huge()), (whole, Bytes(0)));
                    assert!(refused.why.contains("add --reread"), "{refused:?}");
                }
                other => panic!("{other:?}"),
            }
        }
        let done = wide.collapse(&["--reread"], &running, true);
        let Some(process) = reread(&done, &running, TEST) else { return };
        let part = running.part(&process);
        assert_eq!((part.tried_slots, part.huge_before_bytes), (whole, Bytes(0)), "{part:?}");
        assert_eq!((part.huge(), running.huge()), (slots(whole), slots(whole)), "{part:?}");
        assert!(done.status.success() && process.longest_stop_ns.is_some(), "{process:?}");

        // Back on small pages, and on huge ones again.
        let split = wide.collapse(&["--undo"], &running, false);
        if let Some(process) = collapsed(&split, TEST) {
            assert_eq!(running.part(&process).tried_slots, whole);
            assert_eq!((split.status.code(), running.huge()), (Some(0), Bytes(0)), "{process:?}");
            let again = wide.collapse(&["--reread"], &running, true);
            assert_eq!((again.status.code(), running.huge()), (Some(0), slots(whole)));
        }
        running.end();
    }
}

#[test]
fn pages_of_its_own_and_files_of_others_are_left_alone() {
    const TEST: &str = "pages_of_its_own_and_files_of_others_are_left_alone";
    for user in users() {
        let Some(wide) = WideText::build(user, TEST) else { return };
        let other = wide.start(&[]);
        let running = wide.start(&["written"]);
        if running.huge() > Bytes(0) {
            return println!("SKIP {TEST}: the machine gives huge pages unasked");
        }
        let done = wide.collapse(&["--reread"], &running, true);
        let Some(process) = reread(&done, &running, TEST) else { return };
        let [refused] = &running.part(&process).refused[..] else { panic!("{process:?}") };
        let named = format!("wide_text ({})", other.child.id());
        assert!(refused.why.contains(&named), "{refused:?}");
        assert_eq!((done.status.code(), running.huge()), (Some(3), Bytes(0)));
        other.end();

        // The slot with the written page stays as it is. `smaps` lists the page's own mapping beside it.
        let done = wide.collapse(&["--reread"], &running, true);
        let Some(process) = reread(&done, &running, TEST) else { return };
        let part = running.part(&process);
        assert!(part.refused.is_empty() && part.tried_slots > 0, "{part:?}");
        assert_eq!(
            (part.huge(), running.huge()),
            (slots(part.tried_slots), slots(part.tried_slots))
        );
        let own = running.text().iter().fold(Bytes(0), |sum, e| sum + e.residency.private_dirty);
        assert_eq!(own, Bytes(page_size::base().bytes()), "the written page is still its own");
        running.end();
    }
}

#[test]
fn a_file_that_its_user_may_not_examine_is_refused_by_name() {
    const TEST: &str = "a_file_that_its_user_may_not_examine";
    let Some(user) = users().into_iter().flatten().find(|user| *user == NOBODY) else { return };
    let Some(wide) = WideText::build(Some(user), TEST) else { return };
    let root = WideText { user: None, ..wide };
    let running = root.start(&[]);
    let mut nobody = as_nobody(&root.place.path().join("pagewise"));
    let pid = running.child.id().to_string();
    let done = nobody.args(["text", "collapse", "--reread", &pid]).output().unwrap();
    let error = said(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{error}");
    assert!(error.contains("belongs to another account"), "{error}");
    assert_eq!(running.huge(), Bytes(0));
    running.end();
}
