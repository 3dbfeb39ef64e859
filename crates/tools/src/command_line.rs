//! What the tools share in parsing: abbreviated long options, the error texts of `getopt_long(3)` (scripts
//! compare them), and the actions of help and version.

use super::files;
use super::message::{reason, tell};
use lexopt::Arg;
use pagewise_kernel::start::restore_pipe_signal;
use std::io::{self, Write};
use std::process::ExitCode;

/// What to do instead of running the tool.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EarlyExit {
    Help,
    Version,
    /// Bad usage, with the error text.
    Wrong(String),
}

impl From<lexopt::Error> for EarlyExit {
    fn from(error: lexopt::Error) -> Self {
        use lexopt::Error::{MissingValue, UnexpectedValue};
        Self::Wrong(match error {
            MissingValue { option: Some(option) } => match option.strip_prefix("--") {
                Some(_) => format!("option '{option}' requires an argument"),
                None => format!("option requires an argument -- '{}'", option.trim_matches('-')),
            },
            UnexpectedValue { option, .. } => {
                format!("option '{option}' doesn't allow an argument")
            }
            other => other.to_string(),
        })
    }
}

impl EarlyExit {
    /// Bad usage.
    pub(super) fn wrong(text: impl Into<String>) -> Self {
        Self::Wrong(text.into())
    }

    /// An option that the tool does not have.
    pub(super) fn unknown(argument: &Arg<'_>) -> Self {
        Self::Wrong(match argument {
            Arg::Short(letter) => format!("invalid option -- '{letter}'"),
            Arg::Long(name) => format!("unrecognized option '--{name}'"),
            Arg::Value(value) => format!("extra operand '{}'", value.display()),
        })
    }

    /// Prints it. Returns the exit status, which is `status` for bad usage.
    pub(super) fn serve(self, tool: &str, help: &str, status: u8) -> ExitCode {
        match self {
            Self::Help => print(tool, help),
            Self::Version => {
                print(tool, &format!("{tool} (pagewise) {}\n", env!("CARGO_PKG_VERSION")))
            }
            Self::Wrong(what) => {
                let next = format!("Try 'pagewise {tool} --help' for more information.");
                tell(tool, &format!("{what}\n{next}"));
                ExitCode::from(status)
            }
        }
    }
}

fn print(tool: &str, text: &str) -> ExitCode {
    restore_pipe_signal();
    let mut out = io::stdout();
    let printed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match printed.and_then(|()| files::close_standard_output(None)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell(tool, &format!("write error: {}", reason(&error)));
            ExitCode::FAILURE
        }
    }
}

/// The option with its full name, if an unambiguous abbreviation was given.
pub(super) fn in_full<'a>(argument: Arg<'a>, known: &[&'static str]) -> Result<Arg<'a>, EarlyExit> {
    let Arg::Long(name) = argument else { return Ok(argument) };
    match complete(name, known) {
        NameCompletion::One(whole) => Ok(Arg::Long(whole)),
        NameCompletion::None => Ok(Arg::Long(name)),
        NameCompletion::Many(options) => {
            let names: String = options.iter().map(|option| format!(" '--{option}'")).collect();
            Err(EarlyExit::Wrong(format!("option '--{name}' is ambiguous; possibilities:{names}")))
        }
    }
}

/// The result of completing an abbreviated name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NameCompletion {
    None,
    One(&'static str),
    Many(Vec<&'static str>),
}

/// The names that begin with `name`. An exact match wins.
pub(super) fn complete(name: &str, known: &[&'static str]) -> NameCompletion {
    if let Some(whole) = known.iter().find(|option| **option == name) {
        return NameCompletion::One(whole);
    }
    let begun: Vec<_> = known.iter().copied().filter(|option| option.starts_with(name)).collect();
    match begun[..] {
        [] => NameCompletion::None,
        [option] => NameCompletion::One(option),
        _ => NameCompletion::Many(begun),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_may_be_cut_while_it_is_the_only_one() {
        let known = ["show-all", "show-ends", "squeeze-blank", "show"];
        assert_eq!(complete("sq", &known), NameCompletion::One("squeeze-blank"));
        assert_eq!(complete("show-e", &known), NameCompletion::One("show-ends"));
        assert_eq!(complete("show", &known), NameCompletion::One("show"));
        assert_eq!(complete("show-", &known), NameCompletion::Many(vec!["show-all", "show-ends"]));
        assert_eq!(complete("x", &known), NameCompletion::None);
    }

    #[test]
    fn what_is_wrong_is_said_in_the_words_of_getopt() {
        let wrong = |word: &str, has_value: bool| {
            let mut parser = lexopt::Parser::from_args([word]);
            let _option = parser.next().unwrap();
            let error = match has_value {
                true => parser.value().unwrap_err(),
                false => parser.next().unwrap_err(),
            };
            match EarlyExit::from(error) {
                EarlyExit::Wrong(text) => text,
                other => panic!("{word} gave {other:?}"),
            }
        };
        assert_eq!(wrong("-s", true), "option requires an argument -- 's'");
        assert_eq!(wrong("--size", true), "option '--size' requires an argument");
        assert_eq!(wrong("--all=1", false), "option '--all' doesn't allow an argument");
    }
}
