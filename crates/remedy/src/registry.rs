//! The list of remedies, and their names on a command line.

use crate::remedy::Remedy;
use crate::target::TargetProgram;
use pagewise_model::machine::Machine;
use pagewise_model::name::is_in_line;
use pagewise_model::plan::RemedyDose;

static ALL: [&dyn Remedy; 14] = [
    &crate::malloc_keep::MallocKeepRemedy,
    &crate::allocator::AllocatorRemedy,
    &crate::heap_huge::HeapHugeRemedy,
    &crate::heap_mthp::HeapMthpRemedy,
    &crate::pool::PoolRemedy,
    &crate::heap_small::HeapSmallRemedy,
    &crate::arenas::ArenasRemedy,
    &crate::trim::TrimRemedy,
    &crate::pipe_grow::PipeGrowRemedy,
    &crate::pipe_tools::PipeToolsRemedy,
    &crate::place::PlaceRemedy,
    &crate::working_set::WorkingSetRemedy,
    &crate::text_huge::TextHugeRemedy,
    &crate::file_huge::FileHugeRemedy,
];

/// Every remedy, in display order.
#[must_use]
pub fn all() -> &'static [&'static dyn Remedy] {
    &ALL
}

/// The remedy of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static dyn Remedy> {
    ALL.iter().copied().find(|r| r.name() == name)
}

/// Warnings for a start with these doses, by remedy.
pub fn unseen(doses: &[RemedyDose]) -> impl Iterator<Item = (&str, &'static str)> {
    doses.iter().filter_map(|dose| Some((dose.remedy.as_str(), find(&dose.remedy)?.unseen()?)))
}

/// Whether both are the same remedy, or one undoes the effect of the other.
fn conflict(one: &str, other: &str) -> bool {
    let lists = |x: &str, y: &str| find(x).is_some_and(|remedy| remedy.conflicts().contains(&y));
    one == other || lists(one, other) || lists(other, one)
}

/// Two of these doses that cannot be used in one run.
#[must_use]
pub fn clash(doses: &[RemedyDose]) -> Option<(&RemedyDose, &RemedyDose)> {
    doses.iter().enumerate().find_map(|(at, one)| {
        let other = doses[at + 1..].iter().find(|other| conflict(&one.remedy, &other.remedy))?;
        Some((one, other))
    })
}

/// The first of these doses that would make this program fail, and why.
pub fn misfit<'a>(doses: &'a [RemedyDose], target: &TargetProgram) -> Option<(&'a str, String)> {
    let mut all = doses.iter().map(|dose| dose.remedy.as_str());
    all.find_map(|name| Some((name, find(name)?.misfit(target)?)))
}

/// Why a list of remedies cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemedyError {
    /// No remedy has this name.
    #[error("unknown remedy `{name}`; known: {known}")]
    Unknown {
        /// As typed.
        name: String,
        /// The known names.
        known: String,
    },
    /// The remedy does not accept this parameter.
    #[error("remedy `{remedy}`: {why}")]
    Parameter { remedy: &'static str, why: String },
    /// Contains a character that would end a line of a script.
    #[error("the remedy {0:?} holds a control character")]
    Control(String),
    /// The same remedy with the same parameter twice.
    #[error("`{0}` is named twice")]
    Twice(String),
}

/// Parses doses from a comma-separated list `name[=parameter],...`; an empty list gives no doses. `target` is
/// called only if a missing parameter depends on the program.
///
/// # Errors
/// Names the first invalid entry.
pub fn parse_list(
    list: &str,
    machine: &Machine,
    target: &dyn Fn() -> TargetProgram,
) -> Result<Vec<RemedyDose>, RemedyError> {
    let mut doses: Vec<RemedyDose> = Vec::new();
    for entry in list.split(',').map(str::trim).filter(|e| !e.is_empty()) {
        let (name, parameter) = entry.split_once('=').unwrap_or((entry, ""));
        let remedy = known(name)?;
        let chosen = || remedy.parameter_for(target);
        let parameter = if parameter.is_empty() { chosen() } else { parameter.to_owned() };
        let dose = dose_of(remedy, &parameter, machine)?;
        if doses.iter().any(|d| d.spec() == dose.spec()) {
            return Err(RemedyError::Twice(dose.spec()));
        }
        doses.push(dose);
    }
    Ok(doses)
}

fn known(name: &str) -> Result<&'static dyn Remedy, RemedyError> {
    find(name).ok_or_else(|| RemedyError::Unknown {
        name: name.to_owned(),
        known: ALL.iter().map(|r| r.name()).collect::<Vec<_>>().join(", "),
    })
}

fn dose_of(
    remedy: &'static dyn Remedy,
    parameter: &str,
    machine: &Machine,
) -> Result<RemedyDose, RemedyError> {
    if !is_in_line(parameter) {
        return Err(RemedyError::Control(format!("{}={parameter}", remedy.name())));
    }
    let dose = remedy.dose(parameter, machine);
    dose.map_err(|why| RemedyError::Parameter { remedy: remedy.name(), why })
}

/// Rebuilds the doses of a saved run on this machine, from their remedies and parameters. The settings in the
/// file are not used.
///
/// # Errors
/// Names the first dose that is not available here.
pub fn derived(saved: &[RemedyDose], machine: &Machine) -> Result<Vec<RemedyDose>, RemedyError> {
    let again = |dose: &RemedyDose| dose_of(known(&dose.remedy)?, &dose.parameter, machine);
    saved.iter().map(again).collect()
}

#[cfg(test)]
pub(crate) mod tests_support {
    use super::{RemedyDose, RemedyError, TargetProgram};
    use pagewise_model::constructed::machine;
    use pagewise_model::look::Allocator;

    /// Doses of `list` for a program on glibc.
    pub(crate) fn parse(list: &str) -> Result<Vec<RemedyDose>, RemedyError> {
        parse_for(list, Allocator::Glibc, Some(true))
    }

    /// Doses of `list` for a program on this allocator.
    pub(crate) fn parse_for(
        list: &str,
        allocator: Allocator,
        glibc_huge_tunable: Option<bool>,
    ) -> Result<Vec<RemedyDose>, RemedyError> {
        let target = || TargetProgram::with_malloc(allocator, glibc_huge_tunable);
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
            doses.iter().map(RemedyDose::spec).collect::<Vec<_>>(),
            ["pipe-grow=256K", "heap-small"]
        );
        assert!(parse("").unwrap().is_empty());
        let unknown = parse("heap-hugo").unwrap_err().to_string();
        assert!(unknown.contains("heap-huge") && unknown.contains("malloc-keep"), "{unknown}");
        assert!(parse("heap-small=3").is_err());
        assert!(parse("place,place").is_err());
        assert!(parse("pipe-grow=3M").is_err());
    }

    #[test]
    fn a_saved_dose_does_what_its_remedy_does() {
        let honest = parse("malloc-keep=64M,pipe-grow").unwrap();
        let mut saved = honest.clone();
        saved[0].settings.env.clear();
        saved[1].settings.cpus = Some(vec![7]);
        saved[1].settings.env.clone_from(&honest[0].settings.env);
        assert_eq!(derived(&saved, &machine()).unwrap(), honest);
        let of = |remedy: &str, parameter: &str| {
            let mut dose = honest[0].clone();
            (dose.remedy, dose.parameter) = (remedy.to_owned(), parameter.to_owned());
            derived(&[dose], &machine()).unwrap_err().to_string()
        };
        assert!(of("heap-hugo", "").starts_with("unknown remedy"));
        assert!(of("malloc-keep", "64M,pipe-grow").starts_with("remedy `malloc-keep`"));
        assert!(of("text-huge", "/a\n/b").ends_with("holds a control character"));
    }

    #[test]
    fn doses_that_undo_each_other_clash() {
        let clashes = |list| clash(&parse(list).unwrap()).map(|(a, b)| (a.spec(), b.spec()));
        assert_eq!(clashes("pipe-grow=256K,heap-small"), None);
        let pair = |a: &str, b: &str| Some((a.to_owned(), b.to_owned()));
        assert_eq!(clashes("place=one,pipe-grow,place=apart"), pair("place=one", "place=apart"));
        assert_eq!(clashes("heap-small,heap-huge=glibc"), pair("heap-small", "heap-huge=glibc"));
    }

    #[test]
    fn without_a_parameter_heap_huge_goes_by_the_allocator() {
        let spec =
            |allocator, tunable| parse_for("heap-huge", allocator, tunable).unwrap()[0].spec();
        for switched in [Allocator::Glibc, Allocator::Jemalloc, Allocator::Mimalloc] {
            assert_eq!(spec(switched, None), "heap-huge=tunable");
        }
        assert_eq!(spec(Allocator::Glibc, Some(false)), "heap-huge=inject");
        assert_eq!(spec(Allocator::Hotspot, None), "heap-huge=inject", "its file is not `java`");
        for other in [Allocator::Go, Allocator::Musl, Allocator::Tcmalloc, Allocator::Unknown] {
            assert_eq!(spec(other, None), "heap-huge=inject");
        }
        let typed = parse_for("heap-huge=tunable", Allocator::Go, None).unwrap();
        assert_eq!(typed[0].spec(), "heap-huge=tunable");
    }

    #[test]
    fn every_default_dose_is_what_its_spec_says() {
        let needs_files = ["working-set", "text-huge", "file-huge", "allocator"];
        for remedy in all().iter().filter(|remedy| !needs_files.contains(&remedy.name())) {
            let dose = remedy.dose("", &machine()).unwrap();
            let again = remedy.dose(&dose.parameter, &machine()).unwrap();
            assert_eq!(dose, again, "{}", remedy.name());
            assert!(!dose.settings.is_plain(), "{}", remedy.name());
        }
    }
}
