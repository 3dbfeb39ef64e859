//! The receipt: the exact lines that keep a remedy, and how to go back.
//!
//! It gives three forms of the same start: a line for a shell, environment variables if nothing else changes,
//! and a drop-in for a systemd unit. The lines reproduce the tested arm: its input, its directory, and the
//! user's own entries in a variable that a remedy extends.

use crate::registry::find;
use crate::systemd;
use pagewise_model::plan::{self, ArmSettings, FileKind, RemedyDose, RemedyReceipt};
use pagewise_tracee::environment::{Variables, merge};
use pagewise_tracee::jvm;
use pagewise_tracee::launch::ProgramLaunch;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Conditions of the test that the lines depend on, besides the command.
#[derive(Debug, Clone, Default)]
pub struct ReceiptConditions {
    /// The environment of the program without a remedy.
    pub environment: Variables,
    /// The file of this program.
    pub pagewise: PathBuf,
    /// Whether a shell finds that file under the name `pagewise`.
    pub in_path: bool,
    /// The file of the program.
    pub program: PathBuf,
    /// The directory to start it in.
    pub directory: PathBuf,
}

impl ReceiptConditions {
    /// The surroundings of this process, for `command`. Unknown values stay empty; a drop-in that needs one
    /// is left out.
    #[must_use]
    pub fn now(command: &[OsString]) -> Self {
        let pagewise = std::env::current_exe().unwrap_or_default();
        let named = ProgramLaunch::experiment(vec!["pagewise".into()]).file().unwrap_or_default();
        Self {
            environment: std::env::vars_os().collect(),
            in_path: same_file(&named, &pagewise),
            pagewise,
            program: ProgramLaunch::experiment(command.to_vec()).file().unwrap_or_default(),
            directory: std::env::current_dir().unwrap_or_default(),
        }
    }

    /// The first path that a unit needs but that is unknown.
    fn unknown(&self) -> Option<&'static str> {
        let paths = [
            ("pagewise", &self.pagewise),
            ("the program", &self.program),
            ("the directory", &self.directory),
        ];
        paths.into_iter().find(|(_, path)| path.as_os_str().is_empty()).map(|(what, _)| what)
    }

    fn value(&self, name: &str) -> Option<&OsStr> {
        self.environment.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_os_str())
    }
}

fn same_file(a: &Path, b: &Path) -> bool {
    let identity = |path: &Path| std::fs::metadata(path).ok().map(|m| (m.dev(), m.ino()));
    identity(a).is_some_and(|a| Some(a) == identity(b))
}

/// A start of the program as tested.
#[derive(Debug, Clone, Copy)]
pub struct TestedStart<'a> {
    /// The program and its arguments.
    pub command: &'a [OsString],
    /// The file that is its standard input.
    pub input: Option<&'a Path>,
    pub here: &'a ReceiptConditions,
    /// A remedy needs changed settings of the machine.
    pub system: bool,
    /// Quotes one word for a shell. The renderer that prints the receipt provides it.
    pub quote: fn(&[u8]) -> String,
}

impl TestedStart<'_> {
    pub(crate) fn quoted(&self, word: impl AsRef<OsStr>) -> String {
        (self.quote)(word.as_ref().as_bytes())
    }

    /// The words after `run` that permit the changes of the machine that these settings need.
    fn permission(&self, settings: &ArmSettings) -> Option<&'static str> {
        (self.system && settings.needs_machine()).then_some("--system")
    }

    /// The words before the program: `PAGEWISE run --with LIST --`.
    fn front(&self, pagewise: &str, list: &str, settings: &ArmSettings) -> String {
        let system = self.permission(settings).map_or(String::new(), |word| format!(" {word}"));
        format!("{pagewise} run{system} --with {} --", self.quoted(list))
    }

    /// The line that starts the program with the remedies of `list`.
    fn line(&self, list: &str, settings: &ArmSettings) -> String {
        let named = self.here.in_path || self.here.pagewise.as_os_str().is_empty();
        let pagewise = if named { "pagewise".to_owned() } else { self.quoted(&self.here.pagewise) };
        let words: Vec<String> = self.command.iter().map(|w| self.quoted(w)).collect();
        let input = self.input.map_or(String::new(), |file| format!(" < {}", self.quoted(file)));
        format!("{} {}{input}", self.front(&pagewise, list, settings), words.join(" "))
    }

    /// The line of a wrapper script: starts the program with the arguments of the script.
    pub(crate) fn script(&self, list: &str, settings: &ArmSettings) -> String {
        let front = self.front(&self.quoted(&self.here.pagewise), list, settings);
        format!("{front} {} \"$@\"", self.quoted(&self.here.program))
    }

    /// `ExecStart=` and the lines that go with it.
    fn service(&self, list: &str, settings: &ArmSettings) -> Result<Vec<String>, String> {
        let said = |what: &'static str| move |why| format!("{what} {why}");
        let mut words = vec![
            systemd::program(self.here.pagewise.as_os_str()).map_err(said("pagewise's path"))?,
            "run".to_owned(),
        ];
        words.extend(self.permission(settings).map(str::to_owned));
        words.extend([
            "--with".to_owned(),
            systemd::argument(list.as_ref()).map_err(said("the list"))?,
            "--".to_owned(),
            systemd::argument(self.here.program.as_os_str()).map_err(said("the program's path"))?,
        ]);
        for word in self.command.iter().skip(1) {
            words.push(systemd::argument(word).map_err(said("an argument"))?);
        }
        let directory = systemd::path(self.here.directory.as_os_str());
        let mut lines = vec![
            "ExecStart=".to_owned(),
            format!("ExecStart={}", words.join(" ")),
            format!("WorkingDirectory={}", directory.map_err(said("the directory"))?),
        ];
        if let Some(input) = self.input {
            let file = self.here.directory.join(input);
            let file = systemd::path(file.as_os_str()).map_err(said("the input's path"))?;
            lines.push(format!("StandardInput=file:{file}"));
        }
        if settings.needs_supervision() {
            // pagewise is the unit's main process, and the program below it may notify systemd. The unit's
            // stop settings stay: with any KillMode= the program gets the signal once.
            lines.push("NotifyAccess=all".to_owned());
        }
        Ok(lines)
    }

    /// Names and values of the variables that the settings touch; if not `with`, as the user has them.
    pub(crate) fn variables(&self, settings: &ArmSettings, with: bool) -> Variables {
        let mut all = self.here.environment.clone();
        if with {
            all = merge(all, &settings.env);
            jvm::put_in_environment(&settings.jvm_options, &mut all);
        }
        let touched = names(settings);
        all.retain(|(name, _)| touched.iter().any(|one| name == one));
        all
    }

    fn assignments(&self, settings: &ArmSettings, with: bool) -> Result<Vec<String>, String> {
        let line = |(name, value): &(OsString, OsString)| {
            let name = name.to_string_lossy();
            systemd::assignment(&name, value)
                .map(|text| format!("Environment={text}"))
                .map_err(|why| format!("the value of {name} {why}"))
        };
        self.variables(settings, with).iter().map(line).collect()
    }

    /// The lines of a drop-in; `Err` says why none is possible.
    fn drop_in(&self, list: &str, settings: &ArmSettings) -> Result<Vec<String>, String> {
        // A unit can set an environment and CPUs itself.
        let starts_pagewise =
            !ArmSettings { cpus: None, ..beyond_environment(settings) }.is_plain();
        let mut lines = vec!["[Service]".to_owned()];
        // If pagewise starts the program, it adds to the user's values, as in a shell.
        lines.extend(self.assignments(settings, !starts_pagewise)?);
        if starts_pagewise {
            if let Some(what) = self.here.unknown() {
                return Err(format!("the path of {what} is not known"));
            }
            lines.extend(self.service(list, settings)?);
        } else if let Some(cpus) = &settings.cpus {
            let list = cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
            lines.push(format!("CPUAffinity={list}"));
        }
        Ok(lines)
    }

    fn exports(&self, settings: &ArmSettings) -> Vec<String> {
        if !environment_alone(settings) {
            return Vec::new();
        }
        self.variables(settings, true)
            .iter()
            .map(|(name, value)| {
                format!("export {}={}", name.to_string_lossy(), self.quoted(value))
            })
            .collect()
    }

    /// Words for the files to bring into huge folios, of the `wanted` kinds.
    fn files(&self, settings: &ArmSettings, wanted: impl Fn(FileKind) -> bool) -> String {
        let wanted = settings.huge_files.iter().filter(|file| wanted(file.kind));
        wanted.map(|file| self.quoted(&file.path)).collect::<Vec<_>>().join(" ")
    }

    /// Commands that bring files into huge folios without a start, if the settings do that.
    fn without_a_start(&self, settings: &ArmSettings) -> Vec<String> {
        let verbs = [(FileKind::Code, "text warm"), (FileKind::Input, "cache huge")];
        let lines = verbs.into_iter().filter_map(|(kind, verb)| {
            let files = self.files(settings, |of| of == kind);
            (!files.is_empty()).then(|| {
                format!("for starts without pagewise, after each boot: pagewise {verb} {files}")
            })
        });
        lines.collect()
    }

    fn undo(&self, settings: &ArmSettings) -> String {
        if !settings.huge_files.is_empty() {
            let files = self.files(settings, |_| true);
            return format!(
                "start it without `pagewise run`; to drop its files from the cache: pagewise cache evict {files}"
            );
        }
        if !environment_alone(settings) {
            return "start it without `pagewise run`; the system is unchanged".to_owned();
        }
        let names = names(settings).into_iter();
        let (set, unset): (Vec<&str>, Vec<&str>) =
            names.partition(|name| self.here.value(name).is_some());
        let mut steps = Vec::new();
        if !unset.is_empty() {
            steps.push(format!("unset {}", unset.join(" ")));
        }
        for name in set {
            let value = self.here.value(name).unwrap_or_default();
            steps.push(format!("set {name} back to {}", self.quoted(value)));
        }
        format!("start it without these settings ({})", steps.join("; "))
    }
}

/// The receipt for these doses on this start.
#[must_use]
pub fn write(doses: &[RemedyDose], start: &TestedStart<'_>) -> RemedyReceipt {
    let settings = all_of(doses);
    let list = plan::list(doses);
    let mut notes: Vec<String> = Vec::new();
    for dose in doses {
        notes.extend(find(&dose.remedy).map(|r| r.notes(dose)).unwrap_or_default());
    }
    notes.extend(start.without_a_start(&settings));
    notes.dedup();
    let systemd = start.drop_in(&list, &settings).unwrap_or_else(|why| {
        notes.push(format!("no systemd drop-in: {why}"));
        Vec::new()
    });
    RemedyReceipt {
        command: start.line(&list, &settings),
        environment: start.exports(&settings),
        systemd,
        containers: None,
        notes,
        undo: start.undo(&settings),
    }
}

/// All changes of these doses together.
pub(crate) fn all_of(doses: &[RemedyDose]) -> ArmSettings {
    doses.iter().fold(ArmSettings::default(), |all, dose| all.merged(&dose.settings))
}

/// The variables that the settings change.
fn names(settings: &ArmSettings) -> Vec<&str> {
    let of_java = (!settings.jvm_options.is_empty()).then_some(jvm::VARIABLE);
    settings.env.iter().map(|merge| merge.name.as_str()).chain(of_java).collect()
}

/// The changes of the settings other than the environment.
fn beyond_environment(settings: &ArmSettings) -> ArmSettings {
    ArmSettings { env: Vec::new(), jvm_options: Vec::new(), ..settings.clone() }
}

/// True if the settings change nothing but environment variables.
pub(crate) fn environment_alone(settings: &ArmSettings) -> bool {
    beyond_environment(settings).is_plain() && !names(settings).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::tests_support::parse;

    fn here() -> ReceiptConditions {
        ReceiptConditions {
            environment: Vec::new(),
            pagewise: "/opt/pagewise".into(),
            in_path: true,
            program: "/usr/bin/sort".into(),
            directory: "/work dir".into(),
        }
    }

    fn of(
        list: &str,
        input: Option<&str>,
        here: &ReceiptConditions,
        command: &[&str],
    ) -> RemedyReceipt {
        let doses = parse(list).expect("a known remedy");
        let command: Vec<OsString> = command.iter().map(OsString::from).collect();
        let quote = |w: &[u8]| {
            let text = String::from_utf8_lossy(w).into_owned();
            if text.contains(' ') { format!("'{text}'") } else { text }
        };
        let (command, input) = (&command[..], input.map(Path::new));
        write(&doses, &TestedStart { command, input, here, system: true, quote })
    }

    fn receipt(list: &str) -> RemedyReceipt {
        of(list, None, &here(), &["sort", "a b"])
    }

    #[test]
    fn environment_remedies_need_no_pagewise() {
        let r = receipt("heap-huge=tunable,malloc-keep=64M");
        assert_eq!(
            r.command,
            "pagewise run --with heap-huge=tunable,malloc-keep=64M -- sort 'a b'"
        );
        let glibc = &r.environment[0];
        assert!(
            glibc.contains("glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=67108864"),
            "{glibc}"
        );
        assert!(r.systemd.iter().any(|l| l.starts_with("Environment=\"GLIBC_TUNABLES=")));
        assert!(!r.systemd.iter().any(|l| l.starts_with("ExecStart")));
        assert!(r.undo.contains("unset GLIBC_TUNABLES"));
    }

    #[test]
    fn what_the_user_has_set_is_kept_and_comes_back() {
        let mut here = here();
        here.environment = vec![
            ("GLIBC_TUNABLES".into(), "glibc.malloc.arena_max=1".into()),
            ("A".into(), "".into()),
        ];
        let r = of("heap-huge=glibc", None, &here, &["sort"]);
        let both = "glibc.malloc.arena_max=1:glibc.malloc.hugetlb=1";
        assert_eq!(r.environment, [format!("export GLIBC_TUNABLES={both}")]);
        assert_eq!(r.systemd[1], format!("Environment=\"GLIBC_TUNABLES={both}\""));
        assert!(
            r.undo.contains("set GLIBC_TUNABLES back to glibc.malloc.arena_max=1"),
            "{}",
            r.undo
        );
        // In front of the program, pagewise adds its entries itself.
        let r = of("heap-huge=glibc,pipe-grow", None, &here, &["sort"]);
        assert_eq!(r.systemd[1], "Environment=\"GLIBC_TUNABLES=glibc.malloc.arena_max=1\"");
    }

    #[test]
    fn options_of_java_are_a_variable_in_front_of_the_users() {
        let mut here = here();
        here.environment = vec![("JAVA_TOOL_OPTIONS".into(), "-Xmx1g".into())];
        let r = of("heap-huge=java", None, &here, &["java", "-jar", "a.jar"]);
        let both = "-XX:+UseTransparentHugePages -Xmx1g";
        assert_eq!(r.command, "pagewise run --with heap-huge=java -- java -jar a.jar");
        assert_eq!(r.environment, [format!("export JAVA_TOOL_OPTIONS='{both}'")]);
        assert_eq!(r.systemd[1..], [format!("Environment=\"JAVA_TOOL_OPTIONS={both}\"")]);
        assert!(r.undo.contains("set JAVA_TOOL_OPTIONS back to -Xmx1g"), "{}", r.undo);
    }

    #[test]
    fn watched_remedies_keep_pagewise_in_front() {
        let r = of("pipe-grow", Some("in put"), &here(), &["sort", "50% $x"]);
        assert!(r.environment.is_empty());
        assert_eq!(r.command, "pagewise run --with pipe-grow=1024K -- sort '50% $x' < 'in put'");
        assert_eq!(
            r.systemd,
            [
                "[Service]",
                "ExecStart=",
                "ExecStart=/opt/pagewise run --with pipe-grow=1024K -- /usr/bin/sort \"50%% $$x\"",
                "WorkingDirectory=/work dir",
                "StandardInput=file:/work dir/in put",
                "NotifyAccess=all"
            ]
        );
        assert!(!r.notes.is_empty());
        // If pagewise executes the program in its own process, systemd sees the program itself.
        let r = receipt("heap-small");
        assert!(!r.systemd.iter().any(|l| l.starts_with("NotifyAccess")), "{:?}", r.systemd);
    }

    #[test]
    fn tools_are_put_in_front_by_pagewise_and_not_by_an_environment() {
        let mut here = here();
        here.environment = vec![("PATH".into(), "/usr/bin".into())];
        let r = of("pipe-tools=cat,place", None, &here, &["sort"]);
        assert!(r.environment.is_empty(), "{:?}", r.environment);
        assert_eq!(r.command, "pagewise run --with pipe-tools=cat,place=one -- sort");
        let start = "ExecStart=/opt/pagewise run --with pipe-tools=cat,place=one -- /usr/bin/sort";
        assert_eq!(r.systemd[2], start);
        assert!(!r.systemd.iter().any(|l| l.contains("PATH=") || l.starts_with("NotifyAccess")));
        assert!(r.undo.contains("without `pagewise run`"), "{}", r.undo);
    }

    #[test]
    fn what_stays_in_the_page_cache_is_dropped_by_name() {
        let r = receipt("text-huge=/opt/a b/x:/lib/y");
        assert_eq!(r.command, "pagewise run --with 'text-huge=/opt/a b/x:/lib/y' -- sort 'a b'");
        assert!(r.undo.ends_with("pagewise cache evict '/opt/a b/x' /lib/y"), "{}", r.undo);
        assert!(r.systemd.iter().any(|line| line.starts_with("ExecStart=/opt/pagewise run")));
        assert!(!r.systemd.iter().any(|line| line.starts_with("NotifyAccess")), "it becomes it");
        let last = r.notes.last().unwrap();
        assert!(last.ends_with("pagewise text warm '/opt/a b/x' /lib/y"), "{:?}", r.notes);
    }

    #[test]
    fn what_systemd_cannot_hold_is_said() {
        let r = of("pipe-grow", None, &here(), &["sh", "-c", "a\nb"]);
        assert!(r.systemd.is_empty());
        assert!(r.notes.iter().any(|n| n.contains("no systemd drop-in: an argument holds")));
        assert!(r.command.contains("a\nb"));
    }

    #[test]
    fn a_drop_in_needs_all_paths() {
        let unknown = [
            ("pagewise", ReceiptConditions { pagewise: PathBuf::new(), ..here() }),
            ("the program", ReceiptConditions { program: PathBuf::new(), ..here() }),
            ("the directory", ReceiptConditions { directory: PathBuf::new(), ..here() }),
        ];
        for (what, here) in unknown {
            let r = of("pipe-grow", Some("input"), &here, &["sort"]);
            assert!(r.systemd.is_empty(), "{:?}", r.systemd);
            let note = format!("no systemd drop-in: the path of {what} is not known");
            assert!(r.notes.contains(&note), "{:?}", r.notes);
            let settings_alone = of("malloc-keep=64M", None, &here, &["sort"]);
            assert!(!settings_alone.systemd.is_empty());
        }
    }

    #[test]
    fn a_program_that_no_shell_finds_is_named_by_its_path() {
        let here = ReceiptConditions {
            in_path: false,
            pagewise: "/opt/my tools/pagewise".into(),
            ..here()
        };
        let r = of("place", None, &here, &["sort"]);
        assert_eq!(r.command, "'/opt/my tools/pagewise' run --with place=one -- sort");
        let here = ReceiptConditions::now(&["sh".into()]);
        assert!(here.pagewise.is_absolute() && here.program.is_absolute() && !here.in_path);
    }

    #[test]
    fn a_pool_is_looked_at_before_each_start() {
        let r = receipt("pool=64M");
        let start = "run --system --with pool=64M --";
        assert_eq!(r.command, format!("pagewise {start} sort 'a b'"));
        assert!(r.environment.is_empty(), "nobody would look at the pool");
        assert!(r.systemd[2].contains(start), "{:?}", r.systemd);
        assert!(r.notes.iter().any(|note| note.contains("vm.nr_hugepages=32 ")), "{:?}", r.notes);
    }

    #[test]
    fn affinity_becomes_a_unit_line() {
        assert_eq!(receipt("place").systemd[1], "CPUAffinity=1");
    }
}
