//! What every remedy has, and the list of them.

use crate::target::Target;
use pagewise_model::Fact;
use pagewise_model::diagnosis::{CostKind, Diagnosis};
use pagewise_model::look::{Look, ProcessSeen, Traced};
use pagewise_model::machine::Machine;
use pagewise_model::plan::{Candidate, Dose, Settings};
use pagewise_model::pool::HugePool;
use pagewise_model::price::Prices;

/// What a remedy judges from: facts and the diagnosis made of them.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// The look at the program.
    pub look: &'a Look,
    /// Its diagnosis.
    pub diagnosis: &'a Diagnosis,
    /// The machine.
    pub machine: &'a Machine,
    /// Unit prices.
    pub prices: &'a Prices,
    /// The pool of reserved huge pages.
    pub pool: &'a Fact<HugePool>,
}

impl<'a> Evidence<'a> {
    /// The traced look, if there was one.
    pub(crate) fn traced(&self) -> Option<&'a Traced> {
        self.look.traced.known()
    }
    /// Process images of the traced look, none when it is missing.
    pub(crate) fn processes(&self) -> &'a [ProcessSeen] {
        self.traced().map_or(&[], |t| &t.processes)
    }
    /// Share (0..1) of time of one kind of cost.
    pub(crate) fn share(&self, kind: CostKind) -> f64 {
        self.diagnosis.share(&[kind])
    }
}

/// Which number of a finished run shows that a remedy took hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// Transparent huge pages handed out at faults (`thp_fault_alloc` in /proc/vmstat).
    HugeFaults,
    /// Minor faults below those of a plain run.
    FaultsSaved,
    /// Minor faults above those of a plain run: huge pages no longer serve many at once.
    FaultsAdded,
    /// Major faults below those of a plain run.
    MajorFaultsSaved,
    /// The kernel saw the file of the tools opened that the settings put in front of PATH.
    ToolsStarted,
    /// What the watcher of this name read back from the kernel.
    Watched(&'static str),
    /// The arm's files with code lie in huge folios where a plain start leaves none, and the kernel
    /// mapped pages of files by one entry for a huge page meanwhile.
    TextHuge,
    /// The arm's other files lie in huge folios where a plain start leaves none.
    FilesHuge,
    /// The affinity that the kernel reports at the program's end is the one asked for.
    Affinity,
}

/// A remedy.
pub trait Remedy: Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;
    /// What it does, in one sentence.
    fn sentence(&self) -> &'static str;
    /// What may follow `=`, for people.
    fn parameters(&self) -> &'static str;
    /// The dose for a parameter as typed; an empty parameter is the default.
    ///
    /// # Errors
    /// A sentence that says what the parameter must be.
    fn dose(&self, parameter: &str, machine: &Machine) -> Result<Dose, String>;
    /// The parameter to take for a program of which nothing but its file was seen, where none was
    /// typed; empty for the default.
    fn parameter_for(&self, _target: &dyn Fn() -> Target) -> String {
        String::new()
    }
    /// Whether it fits, with the doses to try.
    fn fit(&self, evidence: &Evidence<'_>) -> Candidate;
    /// How success is read.
    fn mechanism(&self, dose: &Dose) -> Mechanism;
    /// Other remedies that undo what this one does, by name; named by either of the two.
    fn conflicts(&self) -> &'static [&'static str] {
        &[]
    }
    /// What to know before the start: what could harm a program and cannot be seen.
    fn unseen(&self) -> Option<&'static str> {
        None
    }
    /// What it costs and what to know.
    fn notes(&self, dose: &Dose) -> Vec<String>;

    /// A candidate with nothing to try.
    fn unfit(&self, why: impl Into<String>) -> Candidate
    where
        Self: Sized,
    {
        Candidate {
            remedy: self.name().to_owned(),
            sentence: self.sentence().to_owned(),
            why: why.into(),
            ceiling_share: 0.0,
            doses: Vec::new(),
        }
    }
    /// A candidate to try.
    fn fitting(&self, why: String, ceiling_share: f64, doses: Vec<Dose>) -> Candidate
    where
        Self: Sized,
    {
        Candidate {
            remedy: self.name().to_owned(),
            sentence: self.sentence().to_owned(),
            why,
            ceiling_share: ceiling_share.clamp(0.0, 1.0),
            doses,
        }
    }
    /// A dose of this remedy.
    fn with(&self, parameter: &str, settings: Settings) -> Dose
    where
        Self: Sized,
    {
        Dose { remedy: self.name().to_owned(), parameter: parameter.to_owned(), settings }
    }
}

static ALL: [&dyn Remedy; 10] = [
    &crate::malloc_keep::MallocKeep,
    &crate::heap_huge::HeapHuge,
    &crate::pool::Pool,
    &crate::heap_small::HeapSmall,
    &crate::pipe_grow::PipeGrow,
    &crate::pipe_tools::PipeTools,
    &crate::place::Place,
    &crate::working_set::WorkingSet,
    &crate::text_huge::TextHuge,
    &crate::file_huge::FileHuge,
];

/// Every remedy, in the order in which they are shown.
#[must_use]
pub fn all() -> &'static [&'static dyn Remedy] {
    &ALL
}

/// The remedy of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static dyn Remedy> {
    ALL.iter().copied().find(|r| r.name() == name)
}

/// What to know before a start with these doses, by remedy.
pub fn unseen(doses: &[Dose]) -> impl Iterator<Item = (&str, &'static str)> {
    doses.iter().filter_map(|dose| Some((dose.remedy.as_str(), find(&dose.remedy)?.unseen()?)))
}

/// Why a list of remedies cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemedyError {
    /// No such remedy.
    #[error("unknown remedy `{name}`; known: {known}")]
    Unknown {
        /// As typed.
        name: String,
        /// The known names.
        known: String,
    },
    /// A parameter that the remedy does not take.
    #[error("remedy `{remedy}`: {why}")]
    Parameter {
        /// The remedy.
        remedy: &'static str,
        /// What it takes.
        why: String,
    },
    /// The same remedy twice.
    #[error("remedy `{0}` is named twice")]
    Twice(String),
}

/// Doses from a comma-separated list `name[=parameter],...`; an empty list is no dose. `target` is
/// asked only where a parameter that was not typed depends on the program.
///
/// # Errors
/// Names the first entry that cannot be used.
pub fn parse_list(
    list: &str,
    machine: &Machine,
    target: &dyn Fn() -> Target,
) -> Result<Vec<Dose>, RemedyError> {
    let mut doses: Vec<Dose> = Vec::new();
    for entry in list.split(',').map(str::trim).filter(|e| !e.is_empty()) {
        let (name, parameter) = entry.split_once('=').unwrap_or((entry, ""));
        let remedy = find(name).ok_or_else(|| RemedyError::Unknown {
            name: name.to_owned(),
            known: ALL.iter().map(|r| r.name()).collect::<Vec<_>>().join(", "),
        })?;
        if doses.iter().any(|d| d.remedy == name) {
            return Err(RemedyError::Twice(name.to_owned()));
        }
        let chosen = || remedy.parameter_for(target);
        let parameter = if parameter.is_empty() { chosen() } else { parameter.to_owned() };
        let dose = remedy
            .dose(&parameter, machine)
            .map_err(|why| RemedyError::Parameter { remedy: remedy.name(), why })?;
        doses.push(dose);
    }
    Ok(doses)
}

#[cfg(test)]
pub(crate) mod tests_support {
    use super::{Dose, RemedyError, Target};
    use pagewise_model::constructed::machine;
    use pagewise_model::look::Allocator;

    /// Doses of `list` for a program on glibc.
    pub(crate) fn parse(list: &str) -> Result<Vec<Dose>, RemedyError> {
        parse_for(list, Allocator::Glibc, Some(true))
    }

    /// Doses of `list` for a program on this allocator.
    pub(crate) fn parse_for(
        list: &str,
        allocator: Allocator,
        glibc_huge_tunable: Option<bool>,
    ) -> Result<Vec<Dose>, RemedyError> {
        let target = || Target::with_malloc(allocator, glibc_huge_tunable);
        crate::parse_list(list, &machine(), &target)
    }
}

#[cfg(test)]
mod tests {
    use super::tests_support::{parse, parse_for};
    use super::*;
    use pagewise_model::constructed::machine;
    use pagewise_model::look::Allocator;

    #[test]
    fn lists_are_parsed_and_refused_by_name() {
        let doses = parse("pipe-grow=256K, heap-small").unwrap();
        assert_eq!(
            doses.iter().map(Dose::spec).collect::<Vec<_>>(),
            ["pipe-grow=256K", "heap-small"]
        );
        assert!(parse("").unwrap().is_empty());
        let unknown = parse("heap-hugo").unwrap_err().to_string();
        assert!(unknown.contains("heap-huge") && unknown.contains("malloc-keep"), "{unknown}");
        assert!(parse("heap-small=3").is_err());
        assert!(parse("place,place=apart").is_err());
        assert!(parse("pipe-grow=3M").is_err());
    }

    #[test]
    fn without_a_parameter_heap_huge_goes_by_the_allocator() {
        let spec =
            |allocator, tunable| parse_for("heap-huge", allocator, tunable).unwrap()[0].spec();
        for switched in [Allocator::Glibc, Allocator::Jemalloc, Allocator::Mimalloc] {
            assert_eq!(spec(switched, None), "heap-huge=tunable");
        }
        assert_eq!(spec(Allocator::Glibc, Some(false)), "heap-huge=inject");
        for other in [Allocator::Go, Allocator::Musl, Allocator::Tcmalloc, Allocator::Unknown] {
            assert_eq!(spec(other, None), "heap-huge=inject");
        }
        let typed = parse_for("heap-huge=tunable", Allocator::Go, None).unwrap();
        assert_eq!(typed[0].spec(), "heap-huge=tunable");
    }

    #[test]
    fn every_default_dose_is_what_its_spec_says() {
        let takes_files = ["working-set", "text-huge", "file-huge"];
        for remedy in all().iter().filter(|remedy| !takes_files.contains(&remedy.name())) {
            let dose = remedy.dose("", &machine()).unwrap();
            let again = remedy.dose(&dose.parameter, &machine()).unwrap();
            assert_eq!(dose, again, "{}", remedy.name());
            assert!(!dose.settings.is_plain(), "{}", remedy.name());
        }
    }
}
