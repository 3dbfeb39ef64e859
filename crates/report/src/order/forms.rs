//! An order in a linker's format. Linkers name functions by symbol or by section. The section of a function
//! `f` is `.text.f`. The compiler may also choose `.text.hot.f`, `.text.startup.f` or `.text.exit.f`. GCC
//! puts the cold part `f.cold` in `.text.unlikely.f`.

use pagewise_model::pieces::OrderUnit;
use std::collections::HashSet;
use std::fmt::{self, Write};

/// The linker or tool that lays out the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Linker {
    /// LLVM's linker for ELF, also `rust-lld`.
    Lld,
    /// GNU gold.
    Gold,
    /// GNU ld from 2.43 on.
    Ld,
    /// Any GNU ld, and lld, by a linker script.
    LdScript,
    /// A linker without support for orders, such as mold: the object files are joined in order first.
    MoldObjects,
    /// LLVM's post-link optimiser.
    Bolt,
    /// Apple's linker.
    Apple,
    /// Microsoft's linker, and lld-link.
    Msvc,
}

impl Linker {
    /// Why it cannot order these; `None` if it can.
    #[must_use]
    pub const fn refusal(self, by: OrderUnit) -> Option<&'static str> {
        match (self, by) {
            (Self::Ld | Self::LdScript, _) | (_, OrderUnit::Function) => None,
            (_, OrderUnit::Object) => {
                Some("it takes object files in the order of the command line, and no other")
            }
            (Self::Bolt, OrderUnit::Variable) => Some("it takes no order of variables"),
            (Self::Msvc, OrderUnit::Variable) => Some("it orders functions only"),
            (_, OrderUnit::Variable) => None,
        }
    }
}

/// A name with its section, if known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PlacedName {
    /// The symbol, or the object file.
    pub name: String,
    /// Its section; `None` if unknown.
    pub section: Option<String>,
}

/// The file for the linker. Each name stands once, at its first position: a linker puts everything with that
/// name there, and some warn about repetitions. Sections are known for all of `order` or for none. Memory:
/// the text, and 50 bytes per name.
#[must_use]
pub fn order_file(linker: Linker, by: OrderUnit, order: &[PlacedName]) -> String {
    let is_by_symbol = matches!(linker, Linker::Lld | Linker::Bolt | Linker::Msvc | Linker::Apple);
    let mut seen = HashSet::new();
    let once = order.iter().filter(|one| seen.insert(place(one, by, is_by_symbol)));
    let mut text = String::new();
    match linker {
        Linker::Lld | Linker::Bolt | Linker::Msvc => {
            once.for_each(|one| line(&mut text, format_args!("{}", one.name)));
        }
        Linker::Apple => once.for_each(|one| line(&mut text, format_args!("_{}", one.name))),
        Linker::Gold => once
            .flat_map(|one| sections(by, one))
            .for_each(|(_, name)| line(&mut text, format_args!("{name}"))),
        Linker::Ld => outputs(by, once).into_iter().for_each(|(output, inside)| {
            line(&mut text, format_args!("{output} : {{\n{inside}}}"))
        }),
        Linker::LdScript => outputs(by, once).into_iter().for_each(|(output, inside)| {
            let all = format_args!(
                "SECTIONS {{\n{output}.ordered : {{\n{inside}}}\n}} INSERT BEFORE {output};"
            );
            line(&mut text, all);
        }),
        // One section each, which `ld -r` writes in this order. But mold cannot read .eh_frame in several sections.
        Linker::MoldObjects => {
            line(&mut text, format_args!("SECTIONS {{"));
            once.flat_map(|one| sections(by, one))
                .for_each(|(_, name)| line(&mut text, format_args!("{name} 0 : {{ *({name}) }}")));
            line(&mut text, format_args!(".eh_frame 0 : {{ *(.eh_frame) }}\n}}"));
        }
    }
    text
}

fn line(text: &mut String, line: fmt::Arguments<'_>) {
    let _infallible = writeln!(text, "{line}");
}

/// Equal for two entries that a linker puts at the same place: the symbol, or the section and whether it is
/// the cold one.
fn place(one: &PlacedName, by: OrderUnit, is_by_symbol: bool) -> (bool, &str) {
    let PlacedName { name, section } = one;
    match section {
        _ if is_by_symbol => (false, name),
        Some(section) => (false, section),
        None if by == OrderUnit::Function => {
            name.split_once(".cold").map_or((false, name), |(hot, _)| (true, hot))
        }
        None => (false, name),
    }
}

/// Output sections with their input patterns, as in a linker script.
fn outputs<'a>(
    by: OrderUnit,
    order: impl Iterator<Item = &'a PlacedName>,
) -> Vec<(&'static str, String)> {
    let mut outputs: Vec<(&'static str, String)> = Vec::new();
    for (output, pattern) in order.flat_map(|one| patterns(by, one)) {
        let known = outputs.iter().position(|(name, _)| *name == output);
        let at = known.unwrap_or_else(|| {
            outputs.push((output, String::new()));
            outputs.len() - 1
        });
        line(&mut outputs[at].1, format_args!("  {pattern}"));
    }
    outputs
}

fn patterns(by: OrderUnit, one: &PlacedName) -> Vec<(&'static str, String)> {
    if by == OrderUnit::Object {
        return vec![(".text", format!("{}(.text .text.*)", file_pattern(&one.name)))];
    }
    sections(by, one).into_iter().map(|(output, name)| (output, format!("*({name})"))).collect()
}

/// An object file in a linker script: `*name.o`, or `*archive:member`.
fn file_pattern(name: &str) -> String {
    let base = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    match name.strip_suffix(')').and_then(|rest| rest.split_once('(')) {
        Some((archive, member)) => format!("*{}:{member}", base(archive)),
        None => format!("*{}", base(name)),
    }
}

/// Prefixes of sections of variables, and their output sections.
const DATA: [(&str, &str); 7] = [
    (".rodata", ".rodata."),
    (".data.rel.ro", ".data.rel.ro."),
    (".data.rel.ro", ".data.rel.ro.local."),
    (".data", ".data."),
    (".data", ".data.rel."),
    (".data", ".data.rel.local."),
    (".bss", ".bss."),
];

/// The sections that a function or variable may be in.
fn sections(by: OrderUnit, one: &PlacedName) -> Vec<(&'static str, String)> {
    let name = &one.name;
    if let Some(section) = &one.section {
        let data = DATA.iter().filter(|(_, start)| section.starts_with(start));
        let output =
            data.max_by_key(|(_, start)| start.len()).map_or(".text", |(output, _)| output);
        return vec![(output, section.clone())];
    }
    if by == OrderUnit::Variable {
        return DATA.iter().map(|(output, start)| (*output, format!("{start}{name}"))).collect();
    }
    if let Some((hot, _)) = name.split_once(".cold") {
        return vec![(".text", format!(".text.unlikely.{hot}"))];
    }
    let kinds = ["", "hot.", "startup.", "exit."];
    kinds.iter().map(|kind| (".text", format!(".text.{kind}{name}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use strum::VariantNames;

    fn order(names: &[&str]) -> Vec<PlacedName> {
        names.iter().map(|name| PlacedName { name: (*name).to_owned(), section: None }).collect()
    }

    #[test]
    fn each_linker_has_its_name() {
        assert_eq!("ld-script".parse(), Ok(Linker::LdScript));
        assert!(Linker::VARIANTS.contains(&"mold-objects"));
        assert!("mold".parse::<Linker>().is_err());
    }

    #[test]
    fn symbols_are_lines() {
        let two = order(&["main", "_ZN1aE"]);
        assert_eq!(order_file(Linker::Lld, OrderUnit::Function, &two), "main\n_ZN1aE\n");
        assert_eq!(order_file(Linker::Apple, OrderUnit::Function, &two), "_main\n__ZN1aE\n");
    }

    #[test]
    fn a_name_stands_once_in_every_form() {
        let twice = order(&["f", "f.cold", "g", "f", "f.cold.2"]);
        let within = |section: &str| Some(section.to_owned());
        let sections = [(".text.f", "f"), (".text.g", "g"), (".text.f", "h"), (".data.f", "v")];
        let known = sections
            .map(|(section, name)| PlacedName { name: name.into(), section: within(section) });
        for (by, linker) in [OrderUnit::Function, OrderUnit::Variable]
            .into_iter()
            .flat_map(|by| Linker::VARIANTS.iter().map(move |name| (by, name.parse().unwrap())))
        {
            for order in [&twice[..], &known] {
                let text = order_file(linker, by, order);
                let is_brace = |line: &&str| line.ends_with('{') || line.starts_with('}');
                let names: Vec<&str> = text.lines().filter(|line| !is_brace(line)).collect();
                let distinct: HashSet<&&str> = names.iter().collect();
                assert!(names.len() >= 2 && names.len() == distinct.len(), "{linker:?} {text}");
            }
        }
        assert_eq!(
            order_file(Linker::Lld, OrderUnit::Function, &twice),
            "f\nf.cold\ng\nf.cold.2\n"
        );
    }

    #[test]
    fn sections_are_those_that_compilers_make() {
        let text = order_file(Linker::Gold, OrderUnit::Function, &order(&["f", "f.cold"]));
        assert_eq!(text, ".text.f\n.text.hot.f\n.text.startup.f\n.text.exit.f\n.text.unlikely.f\n");
        let known = PlacedName { name: "main".into(), section: Some(".text.startup.main".into()) };
        let text = order_file(Linker::LdScript, OrderUnit::Function, &[known]);
        let want =
            "SECTIONS {\n.text.ordered : {\n  *(.text.startup.main)\n}\n} INSERT BEFORE .text;\n";
        assert_eq!(text, want);
    }

    #[test]
    fn variables_go_where_they_belong() {
        let known = |section: &str| PlacedName { name: "v".into(), section: Some(section.into()) };
        let all = [known(".data.rel.ro.local.v"), known(".bss.v"), known(".data.rel.local.v")];
        let text = order_file(Linker::Ld, OrderUnit::Variable, &all);
        let want = ".data.rel.ro : {\n  *(.data.rel.ro.local.v)\n}\n.bss : {\n  *(.bss.v)\n}\n\
                    .data : {\n  *(.data.rel.local.v)\n}\n";
        assert_eq!(text, want);
    }

    #[test]
    fn members_of_archives_have_a_pattern() {
        let text = order_file(Linker::Ld, OrderUnit::Object, &order(&["x/lib.a(b.o)", "y/a.o"]));
        assert_eq!(text, ".text : {\n  *lib.a:b.o(.text .text.*)\n  *a.o(.text .text.*)\n}\n");
        assert!(
            Linker::Lld.refusal(OrderUnit::Object).is_some()
                && Linker::Ld.refusal(OrderUnit::Object).is_none()
        );
    }
}
