//! The receipt: the exact lines that keep a remedy, and how to go back.

use crate::registry::find;
use pagewise_model::plan::{Dose, EnvMerge, Receipt, Settings};

/// The receipt for these doses on this command (already quoted for a shell).
///
/// `quote` quotes one word for a shell; the renderer that prints the receipt owns that rule.
#[must_use]
pub fn write(doses: &[Dose], command: &[String], quote: &dyn Fn(&str) -> String) -> Receipt {
    let settings = doses.iter().fold(Settings::default(), |all, d| all.merged(&d.settings));
    let list = doses.iter().map(Dose::spec).collect::<Vec<_>>().join(",");
    let words = command.iter().map(|w| quote(w)).collect::<Vec<_>>().join(" ");
    let kept = format!("pagewise run --with {} -- {words}", quote(&list));
    let environment = if environment_alone(&settings) {
        settings.env.iter().map(|m| format!("export {}={}", m.name, quote(&value(m)))).collect()
    } else {
        Vec::new()
    };
    let mut notes: Vec<String> = Vec::new();
    for dose in doses {
        notes.extend(find(&dose.remedy).map(|r| r.notes(dose)).unwrap_or_default());
    }
    notes.dedup();
    Receipt {
        systemd: systemd(&settings, &kept),
        undo: undo(&settings),
        command: kept,
        environment,
        notes,
    }
}

/// True when environment variables are all that the settings change.
fn environment_alone(settings: &Settings) -> bool {
    let rest = Settings { env: Vec::new(), ..settings.clone() };
    rest.is_plain() && !settings.env.is_empty()
}

fn value(merge: &EnvMerge) -> String {
    let joint = merge.separator.map(String::from).unwrap_or_default();
    merge.entries.join(&joint)
}

fn systemd(settings: &Settings, kept: &str) -> Vec<String> {
    let mut lines = vec!["[Service]".to_owned()];
    if settings.needs_supervision() || settings.thp.is_some() {
        lines.push("ExecStart=".to_owned());
        lines.push(format!("ExecStart={}", kept.replace('%', "%%")));
        return lines;
    }
    for merge in &settings.env {
        lines.push(format!("Environment=\"{}={}\"", merge.name, value(merge)));
    }
    if let Some(cpus) = &settings.cpus {
        let list = cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        lines.push(format!("CPUAffinity={list}"));
    }
    lines
}

fn undo(settings: &Settings) -> String {
    if environment_alone(settings) {
        let names: Vec<&str> = settings.env.iter().map(|m| m.name.as_str()).collect();
        format!("start it without these settings (unset {})", names.join(" "))
    } else {
        "start it without `pagewise run`; nothing stays changed on the system".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::tests_support::machine;

    fn receipt(list: &str) -> Receipt {
        let doses = crate::parse_list(list, &machine()).expect("a known remedy");
        write(&doses, &["sort".to_owned(), "a b".to_owned()], &|w| {
            if w.contains(' ') { format!("'{w}'") } else { w.to_owned() }
        })
    }

    #[test]
    fn environment_remedies_need_no_pagewise() {
        let r = receipt("heap-huge,malloc-keep=64M");
        assert_eq!(
            r.command,
            "pagewise run --with heap-huge=tunable,malloc-keep=64M -- sort 'a b'"
        );
        let glibc = &r.environment[0];
        assert!(
            glibc.contains("glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=67108864"),
            "{glibc}"
        );
        assert!(r.systemd.iter().any(|l| l.starts_with("Environment=\"GLIBC_TUNABLES=")));
        assert!(r.undo.contains("unset GLIBC_TUNABLES"));
    }

    #[test]
    fn watched_remedies_keep_pagewise_in_front() {
        let r = receipt("pipe-grow");
        assert!(r.environment.is_empty());
        assert_eq!(r.systemd[1], "ExecStart=");
        assert!(r.systemd[2].starts_with("ExecStart=pagewise run --with pipe-grow=1024K -- sort"));
        assert!(!r.notes.is_empty());
    }

    #[test]
    fn affinity_becomes_a_unit_line() {
        assert_eq!(receipt("place").systemd[1], "CPUAffinity=1");
    }
}
