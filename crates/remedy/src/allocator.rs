//! `allocator`: replaces glibc's allocator by a preloaded one.
//!
//! jemalloc, mimalloc and tcmalloc serve small requests from pages of one size each, keep freed memory by
//! other rules than glibc, and give threads their own caches. Which one is faster or smaller depends on the
//! program: an experiment must show it. The library must be installed (the dynamic linker's cache lists it).
//! `LD_PRELOAD` (ld.so(8)) names it by its full path, after the user's entries. With `+huge` the allocator
//! also requests huge pages by its own switch, as in `heap-huge`.
//!
//! Evidence that it took hold: the kernel saw the library opened. It does not fit static programs and
//! programs with their own allocator, which no preload reaches, nor 32-bit programs, whose linker would print
//! a warning. Set-uid programs silently ignore a path with a slash.
//!
//! A program that opens libraries with RTLD_DEEPBIND (dlopen(3)), as php does with its extensions, is
//! refused. Such a library finds glibc's `free` before the preloaded one, and passes it memory of the other
//! allocator. The code of the program and of its loaded libraries shows this. Not seen: a mode that is
//! computed, and other programs that mix allocators. Such a program fails, and its arm is dropped.
//!
//! CPython serves requests up to 512 bytes from its own pools (Objects/obmalloc.c), so a preloaded allocator
//! sees few of them. With `+python`, `PYTHONMALLOC=malloc` is set as well, and every object comes from the
//! allocator.
//!
//! Cost: all processes of the tree load the library, and keep freed memory by other rules.

use crate::heap_huge;
use crate::remedy::{Remedy, RemedyEvidence, RemedyMechanism};
use crate::target::TargetProgram;
use pagewise_kernel::linker_cache::{ALLOCATORS, KnownAllocator};
use pagewise_model::diagnosis::CostKind;
use pagewise_model::look::{Allocator, TracedProcess};
use pagewise_model::machine::{AllocatorLibrary, Machine};
use pagewise_model::plan::{ArmSettings, EnvMerge, LD_PRELOAD, RemedyCandidate, RemedyDose};

/// Minimum shares of CPU time for trying another allocator: in malloc; below, in faults and mapping.
const LEAST_MALLOC: f64 = 0.04;
const LEAST_FAULTS: f64 = 0.10;
/// End of a parameter that requests huge pages.
const HUGE: &str = "+huge";
/// End of a parameter, after [`HUGE`], that switches CPython's pools off.
const PYTHON: &str = "+python";

pub(crate) struct AllocatorRemedy;

/// Package names of all allocators, for messages.
fn packages() -> String {
    ALLOCATORS.map(|known| known.package).join(", ")
}

impl AllocatorRemedy {
    fn preload(
        &self,
        library: &AllocatorLibrary,
        is_huge: bool,
        is_python: bool,
    ) -> Option<RemedyDose> {
        let KnownAllocator { name, .. } =
            ALLOCATORS.iter().find(|known| known.allocator == library.allocator)?;
        let entries = vec![library.path.clone()];
        let preload = EnvMerge { name: LD_PRELOAD.to_owned(), separator: Some(':'), entries };
        let switches = if is_huge { heap_huge::switch(library.allocator) } else { Vec::new() };
        let pools = EnvMerge {
            name: "PYTHONMALLOC".to_owned(),
            separator: None,
            entries: vec!["malloc".to_owned()],
        };
        let pools = if is_python { vec![pools] } else { Vec::new() };
        let env = [vec![preload], switches, pools].concat();
        let [huge, python] = [(is_huge, HUGE), (is_python, PYTHON)]
            .map(|(is_on, word)| if is_on { word } else { "" });
        let parameter = format!("{name}{huge}{python}");
        Some(self.with(&parameter, ArmSettings { env, ..ArmSettings::default() }))
    }

    /// Each library of this machine, on small pages: `heap-huge` decides separately about huge pages.
    fn doses(&self, evidence: &RemedyEvidence<'_>) -> Vec<RemedyDose> {
        let is_python = evidence.processes().iter().any(|p| is_served(p) && p.is_python);
        let plain = |library: &AllocatorLibrary| self.preload(library, false, is_python);
        evidence.machine.allocator_libraries.iter().filter_map(plain).collect()
    }
}

/// Why the program cannot get another allocator; `None` if it can.
fn unserved(evidence: &RemedyEvidence<'_>) -> Option<String> {
    match evidence.traced() {
        Some(_) => refusal(evidence.processes()),
        None => Some("the memory of the program could not be examined".to_owned()),
    }
}

/// Why none of these processes can get another allocator.
fn refusal(processes: &[TracedProcess]) -> Option<String> {
    if let Some(narrow) = processes.iter().find(|p| p.is_32_bit && !p.is_static) {
        return Some(format!(
            "{} is a 32-bit program: its linker would print a warning",
            narrow.exe
        ));
    }
    if let Some((exe, opener)) =
        processes.iter().find_map(|p| Some((&p.exe, p.opens_deep.as_ref()?)))
    {
        return Some(match opener == exe {
            true => mixes(exe),
            false => format!("{exe} has loaded {opener}; {}", mixes(opener)),
        });
    }
    if processes.iter().any(is_served) {
        return None;
    }
    let of_each = processes.first().map(|process| match process.is_static {
        true => format!(": {} is static", process.exe),
        false => format!(": {} has the allocator of {}", process.exe, process.allocator),
    });
    Some(format!("no process loads glibc's malloc{}", of_each.unwrap_or_default()))
}

/// Explains that a file opens libraries in a way that breaks other allocators.
fn mixes(file: &str) -> String {
    format!(
        "{file} opens libraries with RTLD_DEEPBIND: they would pass memory of the preloaded allocator to glibc's free"
    )
}

fn is_served(process: &TracedProcess) -> bool {
    process.allocator == Allocator::Glibc && !process.is_static
}

/// The parameter without this end, and whether it had that end.
fn without<'a>(parameter: &'a str, end: &str) -> (&'a str, bool) {
    parameter.strip_suffix(end).map_or((parameter, false), |rest| (rest, true))
}

impl Remedy for AllocatorRemedy {
    fn name(&self) -> &'static str {
        "allocator"
    }
    fn sentence(&self) -> &'static str {
        "another allocator in the place of glibc's malloc, preloaded"
    }
    fn parameters(&self) -> &'static str {
        "jemalloc, mimalloc or tcmalloc, of those installed (default: the first);\n    jemalloc+huge or mimalloc+huge: on huge pages;\n    with +python behind it: PYTHONMALLOC=malloc too (default for CPython)"
    }

    fn dose(&self, parameter: &str, machine: &Machine) -> Result<RemedyDose, String> {
        let (rest, is_python) = without(parameter, PYTHON);
        let (name, is_huge) = without(rest, HUGE);
        let known = ALLOCATORS.iter().find(|known| known.name == name);
        let libraries = &machine.allocator_libraries;
        let (library, package) = match known {
            Some(known) => {
                let found = libraries.iter().find(|one| one.allocator == known.allocator);
                (found, known.package.to_owned())
            }
            None if name.is_empty() => (libraries.first(), packages()),
            None => {
                return Err(format!("`{parameter}`: use jemalloc, mimalloc or tcmalloc"));
            }
        };
        let library = library.ok_or_else(|| {
            format!("the dynamic linker knows no such library; install it (Debian: {package})")
        })?;
        if is_huge && heap_huge::switch(library.allocator).is_empty() {
            return Err(format!("{} has no switch for huge pages", library.allocator));
        }
        self.preload(library, is_huge, is_python).ok_or_else(|| format!("`{parameter}` is unknown"))
    }

    fn parameter_for(&self, target: &dyn Fn() -> TargetProgram) -> String {
        if target().is_python() { PYTHON.to_owned() } else { String::new() }
    }

    fn misfit(&self, target: &TargetProgram) -> Option<String> {
        let file = target.file()?;
        target.opens_deep().then(|| mixes(&file.display().to_string()))
    }

    fn conflicts(&self) -> &'static [&'static str] {
        &["heap-huge", "malloc-keep", "pool", "arenas", "trim"]
    }

    fn fit(&self, evidence: &RemedyEvidence<'_>) -> RemedyCandidate {
        if let Some(why) = unserved(evidence) {
            return self.unfit(why);
        }
        let of_faults = [CostKind::AnonFaults, CostKind::Zeroing, CostKind::MapUnmap];
        let (faults, malloc) =
            (evidence.diagnosis.share(&of_faults), evidence.share(CostKind::Malloc));
        let work = match evidence.look.user.known() {
            Some(_) => {
                format!("malloc and free take {:.1}% of its CPU time", malloc * 100.0)
            }
            None => "how much time malloc takes is not known".to_owned(),
        };
        if malloc < LEAST_MALLOC && faults < LEAST_FAULTS {
            return self.unfit(format!("{work}, faults and mapping {:.1}%", faults * 100.0));
        }
        let doses = self.doses(evidence);
        if doses.is_empty() {
            let missing =
                format!("{work}, but no other allocator is installed (Debian: {})", packages());
            return self.unfit(missing);
        }
        self.fitting(work, faults + malloc, doses)
    }

    fn fit_for_memory(&self, evidence: &RemedyEvidence<'_>) -> RemedyCandidate {
        if let Some(why) = unserved(evidence) {
            return self.unfit(why);
        }
        let doses = self.doses(evidence);
        if doses.is_empty() {
            return self.unfit(format!("no other allocator is installed (Debian: {})", packages()));
        }
        let share = evidence.heap_share(is_served);
        self.fitting("each allocator keeps freed memory by its own rules".to_owned(), share, doses)
    }

    fn mechanism(&self, _dose: &RemedyDose) -> RemedyMechanism {
        RemedyMechanism::FilesOpened
    }

    fn unseen(&self) -> Option<&'static str> {
        Some("a program that mixes allocators fails under a preloaded one")
    }

    fn notes(&self, dose: &RemedyDose) -> Vec<String> {
        let mut notes = vec![
            "all programs that it starts get the library too, unless they are static or set-uid; \
             LD_PRELOAD shows in their environment"
                .to_owned(),
            "compare the memory: each allocator keeps freed memory by its own rules".to_owned(),
        ];
        let (rest, is_python) = without(&dose.parameter, PYTHON);
        if rest.ends_with(HUGE) {
            notes.push("memory is rounded up to 2 MiB pages".to_owned());
        }
        if is_python {
            notes.push(
                "PYTHONMALLOC=malloc switches CPython's own pools off; an interpreter started with -E or -I \
                 ignores it, and keeps them"
                    .to_owned(),
            );
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::constructed::{machine, process};

    fn with(allocators: &[Allocator]) -> Machine {
        let library =
            |a: &Allocator| AllocatorLibrary { allocator: *a, path: format!("/lib/lib{a}.so.2") };
        Machine { allocator_libraries: allocators.iter().map(library).collect(), ..machine() }
    }

    #[test]
    fn a_library_is_preloaded_by_its_path_and_switched() {
        let both = with(&[Allocator::Mimalloc, Allocator::Tcmalloc]);
        let plain = AllocatorRemedy.dose("", &both).unwrap();
        assert_eq!(plain.spec(), "allocator=mimalloc");
        assert_eq!(plain.settings.preloaded().collect::<Vec<_>>(), ["/lib/libmimalloc.so.2"]);
        let huge = AllocatorRemedy.dose("mimalloc+huge", &both).unwrap();
        assert_eq!(huge.settings.env.len(), 2);
    }

    #[test]
    fn the_pools_of_python_are_switched_off_behind_the_allocator() {
        let one = with(&[Allocator::Jemalloc]);
        for (typed, spec) in [
            ("+python", "allocator=jemalloc+python"),
            ("jemalloc+huge+python", "allocator=jemalloc+huge+python"),
        ] {
            let dose = AllocatorRemedy.dose(typed, &one).unwrap();
            assert_eq!(dose.spec(), spec);
            let last = dose.settings.env.last().unwrap();
            assert_eq!(
                (last.name.as_str(), &last.entries[..]),
                ("PYTHONMALLOC", &["malloc".to_owned()][..])
            );
            assert_eq!(AllocatorRemedy.dose(&dose.parameter, &one).unwrap(), dose);
            assert!(AllocatorRemedy.notes(&dose).iter().any(|note| note.contains("-I")));
        }
        let plain = AllocatorRemedy.dose("jemalloc", &one).unwrap();
        assert!(plain.settings.env.iter().all(|merge| merge.name != "PYTHONMALLOC"));
    }

    #[test]
    fn a_program_whose_libraries_keep_glibcs_free_is_refused() {
        let php = TracedProcess {
            exe: "/bin/php".into(),
            opens_deep: Some("/bin/php".into()),
            ..process()
        };
        let why = refusal(&[process(), php.clone()]).unwrap();
        assert!(why.starts_with("/bin/php opens libraries with RTLD_DEEPBIND"), "{why}");
        let by_library = TracedProcess { opens_deep: Some("/lib/libapr.so".into()), ..php };
        let why = refusal(&[by_library]).unwrap();
        assert!(
            why.starts_with("/bin/php has loaded /lib/libapr.so; /lib/libapr.so opens"),
            "{why}"
        );
    }

    #[test]
    fn what_is_missing_or_unknown_is_refused_by_name() {
        let none = AllocatorRemedy.dose("jemalloc", &machine()).unwrap_err();
        assert!(none.contains("libjemalloc2"), "{none}");
        assert!(AllocatorRemedy.dose("hoard", &machine()).unwrap_err().contains("hoard"));
        assert!(AllocatorRemedy.dose("tcmalloc+huge", &with(&[Allocator::Tcmalloc])).is_err());
    }

    #[test]
    fn only_dynamic_programs_on_glibc_are_served() {
        let of = |allocator, is_static, is_32_bit| TracedProcess {
            allocator,
            is_static,
            is_32_bit,
            ..process()
        };
        assert_eq!(
            refusal(&[of(Allocator::Go, true, false), of(Allocator::Glibc, false, false)]),
            None
        );
        let why = |process| refusal(&[process]).unwrap();
        assert!(why(of(Allocator::Glibc, true, false)).ends_with("is static"));
        assert!(why(of(Allocator::Jemalloc, false, false)).ends_with("jemalloc"));
        assert!(why(of(Allocator::Glibc, false, true)).contains("32-bit"));
        assert!(refusal(&[]).is_some());
    }
}
