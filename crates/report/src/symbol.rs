//! Readable function names: C++ without parameters, Rust without the hash.
//!
//! A name comes from a file that anyone may have made, and a short name can expand to gigabytes. A name that
//! expands beyond [`LONGEST`] stays unchanged.

use std::borrow::Cow;
use std::fmt::{self, Write};

/// Longest expanded name, in bytes.
const LONGEST: usize = 2000;

/// A text of at most [`LONGEST`] bytes.
struct ShortText(String);

impl Write for ShortText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > LONGEST {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// The function name as in its source, if `name` is mangled C++ or Rust; else unchanged.
pub(crate) fn readable(name: &str) -> Cow<'_, str> {
    let is_mangled = ["_Z", "_R"].iter().any(|start| name.starts_with(start));
    let found = is_mangled.then(|| rust(name).or_else(|| cpp(name))).flatten();
    found.map_or(Cow::Borrowed(name), Cow::Owned)
}

fn rust(name: &str) -> Option<String> {
    let mut text = ShortText(String::new());
    write!(text, "{:#}", rustc_demangle::try_demangle(name).ok()?).ok()?;
    Some(text.0)
}

fn cpp(name: &str) -> Option<String> {
    let symbol = cpp_demangle::BorrowedSymbol::new(name.as_bytes()).ok()?;
    let options = cpp_demangle::DemangleOptions::new().no_params().no_return_type();
    let mut text = ShortText(String::new());
    symbol.structured_demangle(&mut text, &options).ok()?;
    Some(text.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_of_linkers_are_spelled_as_in_the_source() {
        for (name, want) in [
            ("main", "main"),
            ("_Zebra", "_Zebra"),
            ("_Z13makes_a_tableR4Heldm", "makes_a_table"),
            ("_ZN12_GLOBAL__N_15alikeEv", "(anonymous namespace)::alike"),
            (
                "_ZNSt6vectorIdSaIdEE14_M_fill_assignEmRKd",
                "std::vector<double, std::allocator<double> >::_M_fill_assign",
            ),
            ("_ZN5sites13fills_a_table17h65d8b9a41963987dE", "sites::fills_a_table"),
            ("_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar"),
        ] {
            assert_eq!(readable(name), want);
        }
    }

    #[test]
    fn a_name_of_gigabytes_stays_as_it_is() {
        // Each part stands for twice the previous one.
        let parts =
            ["S_", "S0_", "S1_", "S2_", "S3_", "S4_", "S5_", "S6_", "S7_", "S8_", "S9_", "SA_"];
        let twice = parts.iter().map(|part| format!("1aI{part}{part}E"));
        let name = format!("_Z1f1aI1bS_E{}", twice.collect::<String>());
        assert!(readable(&name).len() <= LONGEST.max(name.len()));
    }

    proptest! {
        #[test]
        fn any_name_is_bounded(name in "_(Z|R)[A-Za-z0-9_]{0,80}") {
            prop_assert!(readable(&name).len() <= LONGEST.max(name.len()));
        }
    }
}
