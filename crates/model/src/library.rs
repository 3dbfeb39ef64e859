//! Files whose code works for its caller, by their names: C libraries and their loaders, allocators, and the
//! code that the kernel maps into every program. A page that such code touches, or memory that it maps,
//! belongs to its caller.

/// Prefixes of the names of C libraries, of their parts in separate files, and of their loaders.
const OF_C: &[&str] = &[
    "libc.so",
    "libc-2",
    "libc.musl",
    "libm.so",
    "libm-2",
    "libpthread",
    "ld-linux",
    "ld-musl",
    "ld-2",
    "ld.so",
];
/// Allocators, which map memory for themselves.
const ALLOCATORS: &[&str] = &["libjemalloc", "libtcmalloc", "libmimalloc"];
/// The kernel's own code, by the names that stand for its file.
const OF_KERNEL: &[&str] = &["[kernel]", "[vdso]"];

fn begins(path: &str, names: &[&str]) -> bool {
    let file = path.rsplit('/').next().unwrap_or_default();
    names.iter().any(|name| file.starts_with(name))
}

/// True if the file at `path` belongs to a C library or a loader.
#[must_use]
pub fn is_of_c(path: &str) -> bool {
    begins(path, OF_C)
}

/// True if the code of the file at `path` works for its caller.
#[must_use]
pub fn works_for_others(path: &str) -> bool {
    [OF_C, ALLOCATORS, OF_KERNEL].iter().any(|names| begins(path, names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_told_by_the_names_of_their_files() {
        let of_c = [
            "/usr/lib/x86_64-linux-gnu/libc.so.6",
            "/lib/libc-2.31.so",
            "libm.so.6",
            "/lib64/ld-linux-x86-64.so.2",
            "/lib/ld-musl-x86_64.so.1",
            "/lib/libpthread-2.31.so",
        ];
        assert!(of_c.iter().all(|path| is_of_c(path) && works_for_others(path)));
        let of_others = ["/usr/lib/libjemalloc.so.2", "[vdso]", "[kernel]"];
        assert!(of_others.iter().all(|path| !is_of_c(path) && works_for_others(path)));
        let programs =
            ["/opt/libc-client.so", "/usr/bin/ld", "libmemcached.so", "/libc.so.d/job", ""];
        assert!(!programs.iter().any(|path| works_for_others(path)));
    }
}
