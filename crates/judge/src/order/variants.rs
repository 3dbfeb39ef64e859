//! How a build command is varied: by options of the compiler, some of which it passes to the linker.
//!
//! The options come where the command has a place for them, in the form of C compilers or of rustc, or else at its
//! end: the last option wins.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Places for the options in a command, for C compilers and for rustc.
const FLAGS: &str = "{flags}";
const RUST_FLAGS: &str = "{rustflags}";
/// Endings of files that a compiler compiles.
const SOURCES: [&str; 8] = ["c", "cc", "cpp", "cxx", "C", "m", "mm", "rs"];

/// One change of how a program is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
pub enum BuildVariation {
    #[strum(serialize = "-Os")]
    Small,
    #[strum(serialize = "gc-sections")]
    CollectSections,
    #[strum(serialize = "icf=safe")]
    FoldSafely,
    #[strum(serialize = "icf=all")]
    FoldAll,
    #[strum(serialize = "separate-code")]
    SeparateCode,
    #[strum(serialize = "noseparate-code")]
    JoinedCode,
}

impl BuildVariation {
    #[must_use]
    pub fn options(self) -> BuildOptions {
        let sections = |option: &str| BuildOptions::sections(vec![format!("-Wl,{option}")]);
        let layout = |word: &str| BuildOptions::linking(vec![format!("-Wl,-z,{word}")]);
        match self {
            Self::Small => BuildOptions { compile: vec!["-Os"], link: Vec::new() },
            Self::CollectSections => sections("--gc-sections"),
            Self::FoldSafely => sections("--icf=safe"),
            Self::FoldAll => sections("--icf=all"),
            Self::SeparateCode => layout("separate-code"),
            Self::JoinedCode => layout("noseparate-code"),
        }
    }
}

/// Options that are added to a build command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BuildOptions {
    compile: Vec<&'static str>,
    link: Vec<String>,
}

impl BuildOptions {
    /// Options for linking only.
    #[must_use]
    pub const fn linking(link: Vec<String>) -> Self {
        Self { compile: Vec::new(), link }
    }

    /// Options for linking that need a section for each function and variable.
    #[must_use]
    pub fn sections(link: Vec<String>) -> Self {
        Self { compile: vec!["-ffunction-sections", "-fdata-sections"], link }
    }

    /// These options, then those of `other`; each once.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        let new = other.compile.iter().filter(|one| !self.compile.contains(one));
        self.compile.extend(new.copied().collect::<Vec<_>>());
        let new = other.link.iter().filter(|one| !self.link.contains(one));
        self.link.extend(new.cloned().collect::<Vec<_>>());
        self
    }

    /// The command with these options.
    #[must_use]
    pub fn applied(&self, command: &[OsString]) -> Vec<OsString> {
        let c: Vec<String> =
            self.compile.iter().map(|one| (*one).to_owned()).chain(self.link.clone()).collect();
        // rustc gives each function a section.
        let small = self.compile.contains(&"-Os").then(|| "-Copt-level=s".to_owned());
        let links = self.link.iter().map(|option| format!("-Clink-arg={option}"));
        let rust: Vec<String> = small.into_iter().chain(links).collect();
        let placed = |word: &OsString| -> Vec<OsString> {
            match word.to_str() {
                Some(FLAGS) => c.iter().map(OsString::from).collect(),
                Some(RUST_FLAGS) => rust.iter().map(OsString::from).collect(),
                Some(text) => {
                    vec![
                        text.replace(FLAGS, &c.join(" "))
                            .replace(RUST_FLAGS, &rust.join(" "))
                            .into(),
                    ]
                }
                None => vec![word.clone()],
            }
        };
        let mut all: Vec<OsString> = command.iter().flat_map(placed).collect();
        if !has_place(command) {
            let options = if is_rust(command) { &rust } else { &c };
            all.extend(options.iter().map(OsString::from));
        }
        all
    }
}

/// Whether the command compiles, and not only links, as far as its words show.
#[must_use]
pub fn compiles(command: &[OsString]) -> bool {
    let is_source = |word: &OsString| {
        let ending = Path::new(word).extension().and_then(OsStr::to_str);
        ending.is_some_and(|ending| SOURCES.contains(&ending))
    };
    has_place(command) || is_rust(command) || command.iter().any(is_source)
}

fn has_place(command: &[OsString]) -> bool {
    let texts = command.iter().filter_map(|word| word.to_str());
    texts.into_iter().any(|text| text.contains(FLAGS) || text.contains(RUST_FLAGS))
}

fn is_rust(command: &[OsString]) -> bool {
    let program = command.first().and_then(|word| Path::new(word).file_name());
    program.is_some_and(|name| name == "rustc" || name == "cargo")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn options_come_at_the_end_or_in_their_place() {
        let fold = BuildVariation::FoldAll.options();
        let sections = "-ffunction-sections -fdata-sections";
        let of = |command: &str| fold.applied(&words(command));
        assert_eq!(of("cc a.o"), words(&format!("cc a.o {sections} -Wl,--icf=all")));
        assert_eq!(of("cc {flags} a.o"), words(&format!("cc {sections} -Wl,--icf=all a.o")));
        assert_eq!(
            of("/usr/bin/rustc a.rs"),
            words("/usr/bin/rustc a.rs -Clink-arg=-Wl,--icf=all")
        );
        let script = ["sh", "-c", "make F='{flags}' R='{rustflags}'"].map(OsString::from);
        let want = format!("make F='{sections} -Wl,--icf=all' R='-Clink-arg=-Wl,--icf=all'");
        assert_eq!(fold.applied(&script)[2], OsString::from(want));
        assert_eq!(BuildOptions::default().applied(&words("cc {flags} a.o")), words("cc a.o"));
    }

    #[test]
    fn options_join_once_and_small_code_is_rustcs_too() {
        let all = BuildVariation::Small.options().and(&BuildVariation::CollectSections.options());
        let all = all.and(&BuildVariation::JoinedCode.options());
        let want =
            "cc -Os -ffunction-sections -fdata-sections -Wl,--gc-sections -Wl,-z,noseparate-code";
        assert_eq!(all.applied(&words("cc")), words(want));
        let want =
            "rustc -Copt-level=s -Clink-arg=-Wl,--gc-sections -Clink-arg=-Wl,-z,noseparate-code";
        assert_eq!(all.applied(&words("rustc")), words(want));
    }

    #[test]
    fn a_command_with_sources_compiles() {
        assert!(compiles(&words("cc -o a main.c")) && compiles(&words("c++ x/y.cpp")));
        assert!(compiles(&words("cargo rustc")) && compiles(&words("make CC={flags}")));
        assert!(!compiles(&words("cc -o a main.o libx.a")));
    }
}
