//! Whether a remedy can act in a program at all, judging by the program's file: it checks which variables of
//! a dose have an effect.
//!
//! The dynamic linker preloads libraries; a static program has no linker. glibc reads its own tunables, and
//! jemalloc its own settings. A dose has no effect if the program reads none of its variables. Settings that
//! the kernel applies to a process act in every program.
//!
//! Not seen: programs that the program starts, where the variables act too; an allocator in a library of the
//! program; set-uid programs, whose linker ignores both variables.

use crate::target::TargetProgram;
use pagewise_model::look::Allocator;
use pagewise_model::plan::{ArmSettings, EnvMerge, LD_PRELOAD, RemedyDose};

/// The tunable that older versions of glibc lack.
const HUGE: &str = "glibc.malloc.hugetlb";

/// Why the dose cannot act in this program; `None` if it can, or if the file does not show it.
#[must_use]
pub fn idle(dose: &RemedyDose, target: &TargetProgram) -> Option<String> {
    let env = &dose.settings.env;
    let only_env =
        ArmSettings { env: env.clone(), pool: dose.settings.pool, ..ArmSettings::default() };
    if env.is_empty() || dose.settings != only_env {
        return None;
    }
    let file = target.file()?.display().to_string();
    let reasons = env.iter().map(|merge| unread(merge, target)).collect::<Option<Vec<_>>>()?;
    let why = reasons.into_iter().next()?;
    Some(format!("{file} {why}; it can act only in other programs that this one starts"))
}

/// Why the program does not read this variable, as the end of a sentence about it.
fn unread(merge: &EnvMerge, target: &TargetProgram) -> Option<String> {
    let (allocator, is_static) = (target.allocator(), target.is_static());
    let other = || format!("has the allocator of {allocator}");
    // The file does not show libraries that the user preloads or that another library needs.
    let is_settled = is_static || allocator == Allocator::Go;
    let is_other = |own| ![own, Allocator::Unknown].contains(&allocator);
    match merge.name.as_str() {
        LD_PRELOAD if is_static => {
            Some("is static, so no library can be preloaded into it".to_owned())
        }
        LD_PRELOAD if target.is_32_bit() => {
            Some("is a 32-bit program, whose linker skips the library with a warning".to_owned())
        }
        LD_PRELOAD => is_other(Allocator::Glibc).then(other),
        "GLIBC_TUNABLES" if is_other(Allocator::Glibc) => Some(other()),
        "GLIBC_TUNABLES" => {
            let needs_huge = merge.entries.iter().all(|entry| entry.starts_with(HUGE));
            let lacks = needs_huge && target.glibc_huge_tunable() == Some(false);
            lacks.then(|| "is on a glibc without that tunable (2.35 and later have it)".to_owned())
        }
        "MALLOC_CONF" | "_RJEM_MALLOC_CONF" => {
            (is_settled && is_other(Allocator::Jemalloc)).then(other)
        }
        "MIMALLOC_ALLOW_LARGE_OS_PAGES" => {
            (is_settled && is_other(Allocator::Mimalloc)).then(other)
        }
        "PYTHONMALLOC" => (!target.is_python()).then(|| "is no Python".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::tests_support::parse;

    fn preload() -> RemedyDose {
        let env = [LD_PRELOAD, "MALLOC_CONF"].map(|name| EnvMerge {
            name: name.to_owned(),
            separator: Some(':'),
            entries: vec!["x".to_owned()],
        });
        let settings = ArmSettings { env: env.to_vec(), ..ArmSettings::default() };
        RemedyDose { remedy: "allocator".into(), parameter: "jemalloc+huge".into(), settings }
    }

    #[test]
    fn a_variable_that_nobody_reads_has_no_effect() {
        let on = |allocator, is_static| TargetProgram::with_file("/bin/x", allocator, is_static);
        let tunable = parse("malloc-keep").unwrap().remove(0);
        let kernel = parse("heap-small").unwrap().remove(0);
        let said = |dose: &RemedyDose, allocator, is_static| idle(dose, &on(allocator, is_static));
        let is_static = said(&preload(), Allocator::Glibc, true).unwrap();
        assert!(is_static.starts_with("/bin/x is static, so no library"), "{is_static}");
        assert_eq!(said(&preload(), Allocator::Glibc, false), None);
        assert_eq!(said(&preload(), Allocator::Unknown, false), None);
        // A static glibc reads its tunables.
        assert_eq!(said(&tunable, Allocator::Glibc, true), None);
        for other in [Allocator::Musl, Allocator::Go, Allocator::Jemalloc] {
            let why = said(&tunable, other, true).unwrap();
            assert!(why.contains(&format!("has the allocator of {other}")), "{why}");
            assert_eq!(said(&kernel, other, true), None, "the kernel does it");
        }
        let all = parse("heap-huge=tunable").unwrap().remove(0);
        assert_eq!(said(&all, Allocator::Jemalloc, true), None, "one of its variables acts");
        assert!(said(&all, Allocator::Go, true).is_some());
    }
}
