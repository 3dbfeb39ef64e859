//! Kernel symbols: finds the function that an address belongs to.
//!
//! `/proc/kallsyms` lists every symbol of the kernel and its modules as `address type name [module]`
//! (kernel/kallsyms.c). It is read and sorted once; a lookup is a binary search. Only code symbols (types t,
//! T, w, W) are kept. Addresses read as 0 if the account may not see them: `kernel.kptr_restrict` is 1 or 2;
//! or it is 0, `kernel.perf_event_paranoid` is above 1, and CAP_SYSLOG is absent. That is distinguished from
//! an empty file ([`KallsymsError::Hidden`]).
//!
//! Not seen: symbols have no size, so an address is attributed to the symbol before it, unless it is more
//! than [`MAX_FUNCTION_BYTES`] away. Overhead: reads some 5 MB, about 20 ms, once.

use crate::error::SysError;
use std::collections::HashSet;
use std::io::{BufRead, BufReader};

const PATH: &str = "/proc/kallsyms";

/// An address farther than this from the symbol before it belongs to no function.
pub const MAX_FUNCTION_BYTES: u64 = 1 << 18;

/// Why there are no kernel symbols.
#[derive(Debug, thiserror::Error)]
pub enum KallsymsError {
    /// The file cannot be read.
    #[error(transparent)]
    Unreadable(SysError),
    /// All addresses are zero.
    #[error(
        "kernel symbol addresses are hidden from this account; \
         `sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1` or CAP_SYSLOG shows them"
    )]
    Hidden,
    /// No line holds a code symbol.
    #[error("/proc/kallsyms holds no code symbols")]
    Empty,
}

/// The code symbols of the running kernel, by address.
#[derive(Debug, Clone)]
pub struct KernelSymbols {
    /// Start address and the range of the name in `names`, ascending by address.
    entries: Vec<(u64, std::ops::Range<usize>)>,
    names: String,
}

impl KernelSymbols {
    /// Reads the symbols of the running kernel.
    pub fn read() -> Result<Self, KallsymsError> {
        let text = std::fs::read_to_string(PATH)
            .map_err(|error| KallsymsError::Unreadable(SysError::new("read", PATH, error)))?;
        Self::parse(&text)
    }

    /// Parses the text of a kallsyms file; skips malformed lines.
    pub fn parse(text: &str) -> Result<Self, KallsymsError> {
        let mut names = String::with_capacity(text.len() / 2);
        let mut entries = Vec::with_capacity(text.len() / 42);
        for (address, name) in text.lines().filter_map(parse_line) {
            let start = names.len();
            names.push_str(name);
            entries.push((address, start..names.len()));
        }
        if entries.is_empty() {
            return Err(KallsymsError::Empty);
        }
        if entries.iter().all(|(address, _)| *address == 0) {
            return Err(KallsymsError::Hidden);
        }
        // Stable: of several names for one address, the first listed stays first.
        entries.sort_by_key(|(address, _)| *address);
        entries.dedup_by_key(|(address, _)| *address);
        Ok(Self { entries, names })
    }

    /// The function that contains `address`.
    #[must_use]
    pub fn resolve(&self, address: u64) -> Option<&str> {
        let after = self.entries.partition_point(|(start, _)| *start <= address);
        let (start, name) = self.entries.get(after.checked_sub(1)?)?;
        (*start != 0 && address - start <= MAX_FUNCTION_BYTES).then(|| &self.names[name.clone()])
    }
}

/// The names of all code symbols. Every account may read them, even if addresses are hidden.
pub fn functions() -> Result<HashSet<String>, SysError> {
    let text = std::fs::read_to_string(PATH).map_err(|e| SysError::new("read", PATH, e))?;
    Ok(text.lines().filter_map(parse_line).map(|(_, name)| name.to_owned()).collect())
}

/// True if the file shows addresses and not zeroes to this account. Reads up to the first code symbol: if
/// per-CPU symbols are offsets, the lines before it are zero for every account.
pub fn are_shown() -> Result<bool, SysError> {
    let fail = |e| SysError::new("read", PATH, e);
    let file = std::fs::File::open(PATH).map_err(fail)?;
    // The kernel generates the text as it is read, so a small buffer saves most of the work.
    first_code_address(BufReader::with_capacity(256, file))
        .map(|a| a.is_some_and(|a| a != 0))
        .map_err(fail)
}

fn first_code_address(text: impl BufRead) -> std::io::Result<Option<u64>> {
    for line in text.lines() {
        if let Some((address, _)) = parse_line(&line?) {
            return Ok(Some(address));
        }
    }
    Ok(None)
}

fn parse_line(line: &str) -> Option<(u64, &str)> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let is_code = matches!(words.next()?, "t" | "T" | "w" | "W");
    let name = words.next()?;
    is_code.then_some((address, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000400 t copy_page
ffffffff81000200 T clear_page_erms
ffffffff82000000 D some_data
not a line
ffffffffc0000000 t module_function\t[module]
";

    #[test]
    fn an_address_belongs_to_the_symbol_before_it() {
        let symbols = KernelSymbols::parse(TEXT).unwrap();
        assert_eq!(symbols.resolve(0xffff_ffff_8100_0000), Some("_stext"));
        assert_eq!(symbols.resolve(0xffff_ffff_8100_03ff), Some("clear_page_erms"));
        assert_eq!(symbols.resolve(0xffff_ffff_8100_0400), Some("copy_page"));
        assert_eq!(symbols.resolve(0xffff_ffff_c000_0010), Some("module_function"));
    }

    #[test]
    fn addresses_outside_of_every_function_have_no_name() {
        let symbols = KernelSymbols::parse(TEXT).unwrap();
        assert_eq!(symbols.resolve(0xffff_ffff_80ff_ffff), None);
        assert_eq!(symbols.resolve(0xffff_ffff_8200_0000), None);
        assert_eq!(symbols.resolve(0), None);
        assert_eq!(symbols.resolve(u64::MAX), None);
    }

    #[test]
    fn zeroes_before_the_first_code_symbol_hide_nothing() {
        // x86-64 with zero-based per-CPU symbols, as seen by root and by an account without permission.
        let text = |stext: &str| {
            format!(
                "0000000000000000 A fixed_percpu_data\n0000000000001000 A cpu_debug_store\n\
                 {stext} T _stext\n{stext} T _text\n"
            )
        };
        let first = |text: &str| first_code_address(text.as_bytes()).unwrap();
        assert_eq!(first(&text("ffffffff81000000")), Some(0xffff_ffff_8100_0000));
        assert_eq!(first(&text("0000000000000000")), Some(0));
        assert_eq!(first("0000000000000000 A fixed_percpu_data\n"), None);
    }

    #[test]
    fn functions_have_names_whoever_asks() {
        // In a container without the file, no account can read it.
        if let Ok(functions) = functions() {
            assert!(functions.contains("vfs_read"), "{} functions", functions.len());
        }
    }

    #[test]
    fn hidden_addresses_are_distinguished_from_an_empty_file() {
        let hidden = "0000000000000000 T _text\n0000000000000000 t copy_page\n";
        assert!(matches!(KernelSymbols::parse(hidden), Err(KallsymsError::Hidden)));
        assert!(matches!(KernelSymbols::parse(""), Err(KallsymsError::Empty)));
        assert!(KallsymsError::Hidden.to_string().contains("kptr_restrict"));
    }
}
