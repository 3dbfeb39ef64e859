//! `pagewise order builds`

mod workshop;

use super::lists;
use super::starts::check_command;
use crate::args::OrderBuildsArgs;
use crate::commands::ab;
use crate::failure::CommandFailure;
use crate::terminal;
use pagewise_judge::order::{BuildOptions, BuildVariation, compiles};
use pagewise_model::pieces::OrderUnit;
use pagewise_model::spec::OwnArm;
use pagewise_observe::order::GNU_LD;
use pagewise_report::order::{Linker, PlacedName, builds_section, link_options, order_file};
use std::ffi::OsString;
use std::process::ExitCode;
use workshop::BuildWorkshop;

/// Stands for the program's file in a build.
const OUT: &str = "{out}";
/// Help text: how to give builds.
const HELP: &str = "pagewise order builds -- cc app.c -o {out} --- {} --version";
/// Linkers that fold identical code, by the names that compilers know.
const FOLDING: [&str; 3] = ["lld", "gold", "mold"];

/// Builds a program in several ways and compares their starts.
pub(super) fn run(args: &OrderBuildsArgs) -> Result<ExitCode, CommandFailure> {
    let (builds, command) = parts(args)?;
    let order = args.order.as_ref().map(|file| lists::read(std::slice::from_ref(file), &[]));
    let names = order.transpose()?.map(|mut lists| {
        let placed = |name| PlacedName { name, section: None };
        lists.remove(0).functions.into_iter().map(|one| placed(one.name)).collect()
    });
    let mut workshop = BuildWorkshop::new(&args.starts, command)?;
    match &builds[..] {
        [one] => VariedBuild { workshop: &mut workshop, words: &one.command, names }.run()?,
        all => {
            for build in all {
                workshop.build(&build.name, &build.command)?;
            }
        }
    }
    let (comparison, failure) = workshop.compare()?;
    terminal::print(&match args.starts.json {
        true => comparison.to_json() + "\n",
        false => builds_section(&comparison).text(&terminal::style()),
    })?;
    // The counts are printed, even if the times could not be compared.
    failure.map_or(Ok(ExitCode::SUCCESS), Err)
}

/// The builds with their names, and the command that starts them.
fn parts(args: &OrderBuildsArgs) -> Result<(Vec<OwnArm>, Vec<OsString>), CommandFailure> {
    let mut builds = ab::split(&args.words, "give a build and the command to start", HELP)?;
    let command = builds.pop().map(|last| last.command).unwrap_or_default();
    check_command(&command)?;
    let has_out = |word: &OsString| word.to_str().is_some_and(|word| word.contains(OUT));
    if builds.iter().any(|build| !build.command.iter().any(has_out)) {
        let why = format!("a build does not contain {OUT}, the file that it has to write");
        return Err(CommandFailure::usage(why).with_help(HELP));
    }
    match builds.len() {
        1 if !args.names.is_empty() => {
            let why =
                "--name is for several builds: one build is varied, and its variants have names";
            return Err(CommandFailure::usage(why).with_help(HELP));
        }
        1 => {}
        _ if args.order.is_some() => {
            let why = "--order is for one build, which is varied";
            return Err(CommandFailure::usage(why).with_help(HELP));
        }
        _ => ab::name(&mut builds, &args.names)?,
    }
    Ok((builds, command))
}

/// One build that is varied.
struct VariedBuild<'a, 'b> {
    workshop: &'b mut BuildWorkshop<'a>,
    words: &'b [OsString],
    /// The order to link in.
    names: Option<Vec<PlacedName>>,
}

impl VariedBuild<'_, '_> {
    fn run(mut self) -> Result<(), CommandFailure> {
        self.make("plain", &BuildOptions::default())?;
        let own = self.workshop.linker();
        let mut all = BuildOptions::default();
        let small = compiles(self.words).then_some(BuildVariation::Small);
        for one in small.into_iter().chain([
            BuildVariation::CollectSections,
            BuildVariation::SeparateCode,
            BuildVariation::JoinedCode,
        ]) {
            if self.make(one.into(), &one.options())? && one != BuildVariation::SeparateCode {
                all = all.and(&one.options());
            }
        }
        let (linker, folding) = self.fold(&own)?;
        all = folding.and(&all);
        if self.names.is_some() {
            match self.order(&own)? {
                Some(ordered) => self.make("order", &ordered).map(drop)?,
                None => {
                    self.workshop.missing("order", format!("{own} takes no order of functions"));
                }
            }
        }
        if let Some(ordered) = self.order(&linker)? {
            all = all.and(&ordered);
        }
        self.make("all of them", &all).map(drop)
    }

    /// Makes a variant. False if that failed.
    fn make(&mut self, name: &str, options: &BuildOptions) -> Result<bool, CommandFailure> {
        self.workshop.build(name, &options.applied(self.words))
    }

    /// Makes the variants with identical code folded: by the linker of the build, or by the first that can, beside a
    /// build that is only linked by that. Returns the linker and the options that went furthest.
    fn fold(&mut self, own: &str) -> Result<(String, BuildOptions), CommandFailure> {
        let here: Vec<&str> = FOLDING.into_iter().filter(|name| is_here(name)).collect();
        let candidates = match own {
            GNU_LD => here.iter().copied().map(Some).collect(),
            _ => vec![None],
        };
        for linker in candidates {
            let chosen = linker.map(|name| vec![format!("-fuse-ld={name}")]);
            let by = BuildOptions::linking(chosen.unwrap_or_default());
            if let Some(name) = linker
                && !self.make(name, &by)?
            {
                continue;
            }
            let mut furthest = by.clone();
            for one in [BuildVariation::FoldSafely, BuildVariation::FoldAll] {
                let word: &str = one.into();
                let name = linker.map_or_else(|| word.to_owned(), |by| format!("{by} {word}"));
                let options = by.clone().and(&one.options());
                if self.make(&name, &options)? {
                    furthest = options;
                }
            }
            if let Some(name) = linker {
                self.workshop.note(format!(
                    "{GNU_LD} cannot fold identical code (icf). {} here can; {name} links these rows and all of them: compare them with the row {name}.",
                    here.join(", ")
                ));
            }
            return Ok((linker.unwrap_or(own).to_owned(), furthest));
        }
        let why =
            format!("{GNU_LD} cannot fold identical code; lld, gold and mold can (apt: lld, mold)");
        self.workshop.missing("icf", why);
        Ok((own.to_owned(), BuildOptions::default()))
    }

    /// The options that link in the order; `None` without one, or if this linker takes none.
    fn order(&self, linker: &str) -> Result<Option<BuildOptions>, CommandFailure> {
        let form = match linker {
            GNU_LD => Linker::LdScript,
            _ if linker.to_lowercase().contains("lld") => Linker::Lld,
            _ if linker.starts_with("gold") => Linker::Gold,
            _ => return Ok(None),
        };
        let Some(names) = &self.names else { return Ok(None) };
        let text = order_file(form, OrderUnit::Function, names);
        let file = self.workshop.write(&format!("{form:?}.order"), &text)?;
        let mut options = link_options(form, &file.to_string_lossy());
        // The build has chosen its linker.
        options.retain(|option| !option.starts_with("-fuse-ld="));
        Ok(Some(BuildOptions::sections(options)))
    }
}

/// Whether a linker is in PATH.
fn is_here(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(format!("ld.{name}")).is_file())
}
