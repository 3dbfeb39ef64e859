//! Code that works on behalf of its caller: the C library, the loader, allocators, the standard libraries of
//! C++ and Rust.
//!
//! Whole files are recognised by file name. Single functions are recognised by function name, for programs
//! that contain them.

use pagewise_model::fault::{FaultNames, FaultSite};
use pagewise_model::library;

/// Functions of C libraries and allocators, without leading underscores. One of them may be
/// followed by a [`VARIANT`].
const FUNCTIONS: &[&str] = &[
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "free",
    "cfree",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "malloc_consolidate",
    "int_malloc",
    "int_free",
    "int_realloc",
    "int_memalign",
    "sysmalloc",
    "sysmalloc_mmap",
    "systrim",
    "tcache_init",
    "ptmalloc_init",
    "arena_get2",
    "alloc_perturb",
    "libc_malloc",
    "libc_calloc",
    "libc_realloc",
    "libc_memalign",
    "libc_alloc_buffer",
    "memset",
    "memset_chk",
    "memcpy",
    "memcpy_chk",
    "memmove",
    "memmove_chk",
    "mempcpy",
    "mempcpy_chk",
    "memccpy",
    "memcmp",
    "memchr",
    "bzero",
    "explicit_bzero",
    "strlen",
    "strnlen",
    "strcpy",
    "strncpy",
    "strcat",
    "strchr",
    "strcmp",
    "strncmp",
    "strdup",
    "strndup",
];

/// What stands in the names of a function's variants for processors and alignments.
const VARIANT: &[&str] =
    &["avx", "sse", "ssse3", "evex", "erms", "unaligned", "generic", "neon", "asimd"];

/// Beginnings of names of the standard library of C++, and of allocators' functions: C++'s `new` and `delete`, those of
/// Rust, the run time of Go, static jemalloc, mimalloc, tcmalloc.
const PREFIXES: &[&str] = &[
    "_ZNSt",
    "_ZNKSt",
    "_ZSt",
    "_ZN9__gnu_cxx",
    "_ZNK9__gnu_cxx",
    "_Znw",
    "_Zna",
    "_Zdl",
    "_Zda",
    "__rust_alloc",
    "__rust_realloc",
    "__rust_dealloc",
    "__rdl_",
    "__rg_",
    "runtime.",
    "je_",
    "_rjem_",
    "mi_",
    "tc_malloc",
    "tc_calloc",
    "tc_realloc",
    "tc_new",
];

/// Beginnings of names in Rust's standard library.
const RUST: &[&str] = &["alloc::", "core::", "std::", "hashbrown::"];

/// Whether code works on behalf of its caller: all functions that contain it do.
pub(super) fn works_for_others(site: &FaultSite) -> bool {
    first_own(site).is_none()
}

/// The innermost of the functions that an instruction is in which does not work for others, by its place among them.
fn first_own(site: &FaultSite) -> Option<usize> {
    if library::works_for_others(&site.path) || is_of_runtime(site) {
        return None;
    }
    let is_own = |function: Option<&str>| !function.is_some_and(is_of_library);
    site.nested().iter().position(|(function, _)| is_own(*function))
}

/// The same names without the inlined functions that work for the one they are inlined into.
pub(super) fn without_libraries(names: &FaultNames) -> FaultNames {
    let own = |site: &FaultSite| {
        let Some(first) = first_own(site) else { return site.clone() };
        let source = site.nested().get(first).and_then(|(_, line)| line.cloned());
        let inlined = site.inlined.iter().skip(first).cloned().collect();
        FaultSite { source, inlined, ..site.clone() }
    };
    FaultNames {
        places: Vec::new(),
        sites: names.sites.iter().map(own).collect(),
        frames: names.frames.iter().map(own).collect(),
        stacks: names.stacks.clone(),
    }
}

/// Whether code that was made as its program ran is a part of the interpreter, by its name.
fn is_of_runtime(site: &FaultSite) -> bool {
    site.path.is_empty() && site.function.is_some() && !site.is_script
}

fn is_of_library(function: &str) -> bool {
    if PREFIXES.iter().any(|prefix| function.starts_with(prefix)) || is_of_rust(function) {
        return true;
    }
    let bare = function.trim_start_matches('_');
    FUNCTIONS.iter().any(|name| match bare.strip_prefix(name) {
        Some("") => true,
        Some(rest) => rest.starts_with('_') && VARIANT.iter().any(|variant| rest.contains(variant)),
        None => false,
    })
}

/// Whether a function is of Rust's standard library, or written there for any type.
fn is_of_rust(function: &str) -> bool {
    let Ok(name) = rustc_demangle::try_demangle(function) else { return false };
    let name = format!("{name:#}");
    let begins = |name: &str| RUST.iter().any(|start| name.starts_with(start));
    let of = name.trim_start_matches(['<', '&', '[']).trim_start_matches("mut ");
    let is_for_any = |(of, trait_name): (&str, &str)| !of.contains("::") && begins(trait_name);
    begins(of) || of.split_once(" as ").is_some_and(is_for_any)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use pagewise_model::Bytes;
    use pagewise_model::fault::{InlinedFunction, SourceLine};

    pub(in crate::faults) fn site(function: &str, path: &str) -> FaultSite {
        let function = (!function.is_empty()).then(|| function.to_owned());
        FaultSite {
            function,
            path: path.to_owned(),
            offset_bytes: Bytes(1),
            ..FaultSite::default()
        }
    }

    #[test]
    fn libraries_and_allocators_work_for_others() {
        let yes = [
            ("_dl_relocate_object", "/lib64/ld-linux-x86-64.so.2"),
            ("clear_user", crate::faults::KERNEL),
            ("__memset_avx2_unaligned_erms", "/opt/static"),
            ("_int_malloc", "/opt/static"),
            ("malloc", "/opt/static"),
            ("_Znwm", "/usr/lib/libstdc++.so.6"),
            ("__rust_alloc_zeroed", "/opt/rust"),
            ("_ZN5alloc7raw_vec11finish_grow17h0123456789abcdefE", "/opt/rust"),
            (
                "_ZN36_$LT$T$u20$as$u20$alloc..vec..Of$GT$9from_elem17h0123456789abcdefE",
                "/opt/rust",
            ),
            (
                "_ZN49_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$x..Y$GT$4made17h0123456789abcdefE",
                "/opt/rust",
            ),
            (
                "_ZN37_$LT$u8$u20$as$u20$alloc..vec..Of$GT$9from_elem17h0123456789abcdefE",
                "/opt/rust",
            ),
            ("_ZNSt6vectorIiE17_M_realloc_insertE", "/opt/cpp"),
            ("runtime.memclrNoHeapPointers", "/opt/go"),
        ];
        for (function, path) in yes {
            assert!(works_for_others(&site(function, path)), "{function} {path}");
        }
        let no = [
            ("main", "/opt/static"),
            ("memset_all_fields", "/opt/static"),
            ("mallocate", "/opt/static"),
            ("_ZN3job7StorageC2Ev", "/opt/cpp"),
            ("_ZN3job4main17h0123456789abcdefE", "/opt/rust"),
            (
                "_ZN44_$LT$job..Rows$u20$as$u20$core..iter..Of$GT$4next17h0123456789abcdefE",
                "/opt/rust",
            ),
            ("", "/opt/libcompute.so"),
            ("", ""),
        ];
        for (function, path) in no {
            assert!(!works_for_others(&site(function, path)), "{function} {path}");
        }
    }

    #[test]
    fn inlined_functions_of_libraries_work_for_what_they_are_inlined_into() {
        let line = |line| Some(SourceLine { file: "x.cpp".into(), line });
        let inlined = |function: &str, called_at| InlinedFunction {
            function: function.into(),
            called_at: line(called_at),
        };
        let all = |last: &str| FaultSite {
            source: line(1),
            inlined: vec![inlined("_ZSt4fill", 2), inlined("grow", 3), inlined("_ZSt4sort", 4)],
            ..site(last, "/x")
        };
        let names =
            FaultNames { sites: vec![all("main"), all("_ZNSt6vector")], ..FaultNames::default() };
        let own = without_libraries(&names);
        assert_eq!(
            (&own.sites[0].source, &own.sites[0].inlined[..]),
            (&line(2), &names.sites[0].inlined[1..])
        );
        assert!(own.sites.iter().all(|site| !works_for_others(site)));
        let none = FaultSite {
            source: line(1),
            inlined: vec![inlined("_ZSt4fill", 2)],
            ..site("_ZNSt6vector", "/x")
        };
        assert!(works_for_others(&none));
        let names = FaultNames { frames: vec![none.clone()], ..FaultNames::default() };
        assert_eq!(without_libraries(&names).frames, [none]);
    }
}
