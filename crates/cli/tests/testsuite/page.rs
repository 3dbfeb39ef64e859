//! `pagewise page` on memory in a known state: a program of a few lines that maps, touches and waits.

use crate::helper::{NOBODY, compile, is_root, said, users};
use pagewise_model::address::{
    AddressMemory, AddressReport, AddressView, EntryRole, PageState, PageView,
};
use pagewise_model::{Fact, PageSize};
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

/// The program under test and the one it looks at, in a place where every account may execute them.
struct Programs(tempfile::TempDir);

impl Programs {
    /// `None` without a C compiler.
    fn get() -> Option<&'static Self> {
        static BUILT: OnceLock<Option<Programs>> = OnceLock::new();
        let built = BUILT.get_or_init(Self::build).as_ref();
        if built.is_none() {
            println!("SKIP live tests of addresses: no C compiler");
        }
        built
    }

    fn build() -> Option<Self> {
        let dir = crate::helper::open_place("pagewise-page-");
        let options = ["-O1", "-Wall", "-Werror"];
        compile("addresses.c", &options, &dir.path().join("addresses")).then_some(Self(dir))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A command as this user.
    fn command(&self, user: Option<u32>, name: &str) -> Command {
        let program = self.path(name);
        if user.is_some() { crate::helper::as_nobody(&program) } else { Command::new(program) }
    }

    fn page(&self, user: Option<u32>, words: &[&str]) -> Output {
        let mut command = self.command(user, "pagewise");
        command.arg("page").args(words).env("LC_ALL", "C").env("NO_COLOR", "1");
        command.output().unwrap()
    }
}

/// The program that maps and touches; it ends when the test does.
struct Subject {
    child: Child,
    /// Address by name.
    places: HashMap<String, String>,
    user: Option<u32>,
}

impl Subject {
    fn start(programs: &Programs, user: Option<u32>) -> Self {
        let mut command = programs.command(user, "addresses");
        command.arg(programs.path("addresses"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut places = HashMap::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            if line == "ready" {
                break;
            }
            let (name, address) = line.split_once(' ').unwrap();
            places.insert(name.to_owned(), address.to_owned());
        }
        Self { child, places, user }
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    fn view(&self, programs: &Programs, name: &str) -> AddressView {
        let done = programs.page(self.user, &["--json", &self.pid(), &self.places[name]]);
        assert_eq!(done.status.code(), Some(0), "{}", said(&done.stderr));
        let report: AddressReport = serde_json::from_slice(&done.stdout).unwrap();
        assert_eq!(report.process.unwrap().pid.to_string(), self.pid());
        report.addresses.into_iter().next().unwrap()
    }

    fn memory(&self, programs: &Programs, name: &str) -> AddressMemory {
        self.view(programs, name).memory.unwrap()
    }

    fn page(&self, programs: &Programs, name: &str) -> PageView {
        self.memory(programs, name).page.known().unwrap().clone()
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The letter of the addressed page among the pages around it.
fn own_cell(view: &AddressView) -> char {
    let around = view.memory.as_ref().unwrap().around.known().unwrap();
    let nth = (view.address.0 - around.start_address.0) / base().bytes();
    around.pages.chars().nth(usize::try_from(nth).unwrap()).unwrap()
}

fn base() -> PageSize {
    PageSize::new(rustix::param::page_size() as u64).unwrap()
}

#[test]
fn what_was_touched_is_present_and_what_was_not_is_absent() {
    let Some(programs) = Programs::get() else { return };
    for user in users() {
        let subject = Subject::start(programs, user);
        let touched = subject.page(programs, "touched");
        assert_eq!(touched.state, PageState::Present);
        assert_eq!(touched.size_bytes, Fact::Known(base()));
        assert!(touched.is_exclusive && !touched.is_of_file_or_shared);
        let view = subject.view(programs, "touched");
        assert!(view.levels.iter().rev().skip(1).all(|level| level.role == EntryRole::Table));
        assert_eq!(view.levels.last().unwrap().role, EntryRole::Page);
        let untouched = subject.view(programs, "untouched");
        assert!(untouched.levels.iter().all(|level| level.role == EntryRole::NotKnown));
        assert_eq!(subject.page(programs, "untouched").state, PageState::Absent);
        assert_eq!((own_cell(&view), own_cell(&untouched)), ('#', '.'));
    }
}

#[test]
fn rights_show_the_frame_and_without_them_its_absence_has_a_reason() {
    let Some(programs) = Programs::get() else { return };
    for user in users() {
        let subject = Subject::start(programs, user);
        let view = subject.view(programs, "touched");
        match view.memory.unwrap().frame {
            Fact::Known(frame) => {
                assert!(user.is_none(), "{frame:?}");
                let first_byte = frame.number * base().bytes();
                let offset = view.address.0 % base().bytes();
                assert_eq!(frame.physical_address, first_byte + offset);
                if let Fact::Known(flags) = &frame.flags {
                    assert!(flags.iter().any(|flag| flag == "anonymous"), "{frame:?}");
                    assert_eq!(frame.map_count, Fact::Known(1));
                    let folio = frame.folio.known().unwrap();
                    assert!(
                        (folio.first_frame..folio.first_frame + folio.frames)
                            .contains(&frame.number)
                    );
                }
            }
            Fact::Missing(why) => {
                assert!(why.contains("physical address") && why.contains("cap_sys_admin"), "{why}");
            }
        }
    }
}

#[test]
fn memory_advised_huge_is_on_a_huge_page() {
    let Some(programs) = Programs::get() else { return };
    for user in users() {
        let subject = Subject::start(programs, user);
        let memory = subject.memory(programs, "huge");
        let residence = memory.within.unwrap().residence.known().unwrap().clone();
        assert!(residence.flags.iter().any(|flag| flag == "hg"), "{residence:?}");
        if residence.anon_huge_bytes.0 == 0 {
            println!("SKIP memory_advised_huge: no huge page was given");
            continue;
        }
        let view = subject.view(programs, "huge");
        let roles: Vec<EntryRole> = view.levels.iter().rev().map(|level| level.role).collect();
        assert_eq!(roles[..2], [EntryRole::Beyond, EntryRole::Page]);
        let page = subject.page(programs, "huge");
        assert!(page.size_bytes.known().is_some_and(|size| *size > base()));
        assert_eq!(page.offset_bytes.0, 0x1234);
        let around = memory.around.known().unwrap().clone();
        assert_eq!(around.huge_pages, around.pages.len() as u64);
        let size = page.size_bytes.known().unwrap().bytes();
        if let Fact::Known(frame) = memory.frame {
            // A huge page begins at a multiple of its size in physical memory too.
            assert_eq!(frame.physical_address % size, view.address.0 % size);
            if let Fact::Known(folio) = frame.folio {
                assert_eq!(folio.size_bytes.0, size);
            }
        }
    }
}

#[test]
fn files_zero_pages_and_shared_memory_are_distinguished() {
    let Some(programs) = Programs::get() else { return };
    for user in users() {
        let subject = Subject::start(programs, user);
        let file = subject.memory(programs, "file");
        let within = file.within.unwrap();
        assert!(within.mapping.path.ends_with("/addresses"), "{within:?}");
        assert_eq!(within.position_bytes.unwrap().0, rustix::param::page_size() as u64 + 5);
        assert!(subject.page(programs, "file").is_of_file_or_shared);
        let zero = subject.page(programs, "zero");
        assert_eq!(zero.state, PageState::Present);
        match &zero.is_zero {
            Fact::Known(is_zero) => assert!(is_zero),
            Fact::Missing(why) => println!("SKIP zero page: {why}"),
        }
        assert_ne!(subject.page(programs, "touched").is_zero, Fact::Known(true));
        let shared = subject.memory(programs, "shared");
        assert!(shared.within.unwrap().mapping.permissions.ends_with('s'));
        let shared = shared.page.known().unwrap().clone();
        assert!(shared.is_of_file_or_shared && !shared.is_exclusive, "a child has it too");
    }
}

#[test]
fn what_may_not_be_touched_is_said_so() {
    let Some(programs) = Programs::get() else { return };
    let subject = Subject::start(programs, None);
    let text = |name: &str| {
        let done = programs.page(None, &[&subject.pid(), &subject.places[name]]);
        assert_eq!(done.status.code(), Some(0), "{}", said(&done.stderr));
        let text = said(&done.stdout);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        text
    };
    assert!(text("none").contains("reserved without permissions"), "{}", text("none"));
    let hole = text("hole");
    assert!(hole.contains("not mapped: any touch is fatal"), "{hole}");
    assert!(hole.contains("before") && hole.contains("after"), "{hole}");
    let touched = text("touched");
    assert!(touched.contains("maps the page: the walk ends"), "{touched}");
    assert!(touched.contains("|  PMD  |>|  PTE  |>|"), "{touched}");
    assert_eq!(touched.contains("  physical      address 0x"), is_root(), "{touched}");
}

#[test]
fn several_addresses_are_reported_in_the_order_given() {
    let Some(programs) = Programs::get() else { return };
    let subject = Subject::start(programs, None);
    let (pid, zero, touched) = (subject.pid(), &subject.places["zero"], &subject.places["touched"]);
    let done = programs.page(None, &["--json", &pid, zero, touched]);
    let report: AddressReport = serde_json::from_slice(&done.stdout).unwrap();
    let reported: Vec<String> =
        report.addresses.iter().map(|v| format!("{:#x}", v.address.0)).collect();
    assert_eq!(reported, [zero.as_str(), touched.as_str()]);
}

#[test]
fn a_process_of_somebody_else_is_refused() {
    let Some(programs) = Programs::get() else { return };
    if !is_root() {
        println!("SKIP a_process_of_somebody_else_is_refused: only root can become another user");
        return;
    }
    let subject = Subject::start(programs, None);
    let done = programs.page(Some(NOBODY), &[&subject.pid(), &subject.places["touched"]]);
    assert_eq!(done.status.code(), Some(2));
    let text = said(&done.stderr);
    assert!(text.contains("may not be observed by this account"), "{text}");
    assert!(text.contains("help: run as its user"), "{text}");
    assert_eq!(text.lines().count(), 2, "{text}");
}

#[test]
fn root_without_the_right_is_not_told_to_be_root() {
    const TEST: &str = "root_without_the_right_is_not_told_to_be_root";
    let Some(programs) = Programs::get() else { return };
    if !is_root() {
        return println!("SKIP {TEST}: only root has rights to drop");
    }
    let subject = Subject::start(programs, Some(NOBODY));
    let mut command = Command::new("setpriv");
    let without = ["--bounding-set=-all", "--inh-caps=-all", "--"];
    command.args(without).arg(programs.path("pagewise"));
    let done = command.args(["page", &subject.pid(), "0x1000"]).output().unwrap();
    let said = said(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(said.contains("root may lack CAP_SYS_PTRACE here"), "{said}");
}
