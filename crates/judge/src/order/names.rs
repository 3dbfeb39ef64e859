//! The part of a function's name that does not change from one build to the next.
//!
//! Compilers append parts that differ between builds: LLVM `.llvm.HASH` and `.__uniq.HASH`, GCC numbers of
//! its clones (`.isra.0`, `.constprop.1`, `.part.2`, `.cold`), rustc a hash of crate and types. A *stem* is
//! the name without them. Cold parts and split parts stay separate from their function. A clone that replaces
//! its function (`isra`, `constprop`, `lto_priv`) has the function's stem.

/// Suffixes that carry no information about what the function does.
const EMPTY: [&str; 8] =
    ["llvm", "__uniq", "isra", "constprop", "lto_priv", "localalias", "clone", "resolver"];
/// Suffixes of parts that are laid out separately.
const PARTS: [&str; 3] = ["part", "cold", "warm"];

/// The name without what changes from build to build.
#[must_use]
pub fn stem(name: &str) -> String {
    let (base, endings) = split(name);
    let plain = rustc_demangle::try_demangle(base)
        .map_or_else(|_| base.to_owned(), |demangled| format!("{demangled:#}"));
    endings.iter().fold(plain, |stem, part| stem + "." + part)
}

/// The name before its endings, and those of them that make a part.
fn split(name: &str) -> (&str, Vec<&str>) {
    let mut base = name;
    let mut parts = Vec::new();
    while let Some((before, last)) = base.rsplit_once('.') {
        let is_number = !last.is_empty() && last.bytes().all(|b| b.is_ascii_hexdigit());
        let is_part = PARTS.contains(&last);
        let is_empty = if is_number { ends_in_known(before) } else { EMPTY.contains(&last) };
        if before.is_empty() || !(is_part || is_empty) {
            break;
        }
        if is_part {
            parts.insert(0, last);
        }
        base = before;
    }
    (base, parts)
}

/// Whether a number after `before` belongs to a compiler's suffix.
fn ends_in_known(before: &str) -> bool {
    before.rsplit_once('.').is_some_and(|(_, last)| EMPTY.contains(&last) || PARTS.contains(&last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_of_compilers_are_left_out() {
        for (name, want) in [
            ("f", "f"),
            ("f.llvm.12345678901234567890", "f"),
            ("f.__uniq.123.llvm.456", "f"),
            ("f.isra.0", "f"),
            ("f.constprop.1.isra.0", "f"),
            ("f.part.3", "f.part"),
            ("f.part.0.cold", "f.part.cold"),
            ("f.cold.17", "f.cold"),
            ("f.lto_priv.0", "f"),
            ("main.init.0", "main.init.0"),
            ("go.runtime.mallocgc", "go.runtime.mallocgc"),
            (".L1", ".L1"),
            ("", ""),
        ] {
            assert_eq!(stem(name), want, "{name}");
        }
    }

    #[test]
    fn hashes_of_rust_are_left_out() {
        let legacy = |hash: &str| format!("_ZN3foo3bar17h{hash}E");
        assert_eq!(stem(&legacy("0123456789abcdef")), "foo::bar");
        assert_eq!(stem(&legacy("fedcba9876543210")), "foo::bar");
        assert_eq!(stem("_ZN3foo3bar17h0123456789abcdefE.llvm.77"), "foo::bar");
        let one = stem("_RNvCs1234_7mycrate3foo");
        assert_eq!(one, stem("_RNvCsaBcDeF_7mycrate3foo"));
        assert_eq!(one, "mycrate::foo");
        let cpp = "_ZNSt6vectorIiSaIiEE9push_backEOi";
        assert_eq!(stem(cpp), cpp);
    }
}
