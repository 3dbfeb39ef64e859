//! Whether a remedy can act in a program at all, by what the program's file shows: whom the variables of a dose
//! reach.
//!
//! A library is preloaded by the dynamic linker, which a static program does not have. A tunable of glibc is read by
//! glibc, a setting of jemalloc by jemalloc. A dose has no effect if nobody reads any of its variables. What is set
//! for a process by the kernel acts in every program.
//!
//! Not seen: what the program starts, where the variables act too; an allocator that a library of the program brings
//! along; set-uid programs, whose linker ignores both variables.

use crate::target::Target;
use pagewise_model::look::Allocator;
use pagewise_model::plan::{Dose, EnvMerge, LD_PRELOAD, Settings};

/// The tunable that older versions of glibc lack.
const HUGE: &str = "glibc.malloc.hugetlb";

/// Why the dose cannot act in this program; none where it can, or its file does not show it.
#[must_use]
pub fn idle(dose: &Dose, target: &Target) -> Option<String> {
    let env = &dose.settings.env;
    let only_env = Settings { env: env.clone(), pool: dose.settings.pool, ..Settings::default() };
    if env.is_empty() || dose.settings != only_env {
        return None;
    }
    let file = target.file()?.display().to_string();
    let reasons = env.iter().map(|merge| unread(merge, target)).collect::<Option<Vec<_>>>()?;
    let why = reasons.into_iter().next()?;
    Some(format!("{file} {why}; it can act only in other programs that this one starts"))
}

/// Why nobody reads this variable, as the rest of a sentence about the program.
fn unread(merge: &EnvMerge, target: &Target) -> Option<String> {
    let (allocator, is_static) = (target.allocator(), target.is_static());
    let other = || format!("has the allocator of {allocator}");
    // What is preloaded by the user or needed by a library does not show in the file.
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

    fn preload() -> Dose {
        let env = [LD_PRELOAD, "MALLOC_CONF"].map(|name| EnvMerge {
            name: name.to_owned(),
            separator: Some(':'),
            entries: vec!["x".to_owned()],
        });
        let settings = Settings { env: env.to_vec(), ..Settings::default() };
        Dose { remedy: "allocator".into(), parameter: "jemalloc+huge".into(), settings }
    }

    #[test]
    fn a_variable_that_nobody_reads_has_no_effect() {
        let on = |allocator, is_static| Target::with_file("/bin/x", allocator, is_static);
        let tunable = parse("malloc-keep").unwrap().remove(0);
        let kernel = parse("heap-small").unwrap().remove(0);
        let said = |dose: &Dose, allocator, is_static| idle(dose, &on(allocator, is_static));
        let is_static = said(&preload(), Allocator::Glibc, true).unwrap();
        assert!(is_static.starts_with("/bin/x is static, so no library"), "{is_static}");
        assert_eq!(said(&preload(), Allocator::Glibc, false), None);
        assert_eq!(said(&preload(), Allocator::Unknown, false), None);
        // The tunables of a static glibc act.
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
