//! The parts of all processes for other tools.

use crate::csv::field;
use pagewise_model::memory_account::{MemoryAccount, MemoryPart, ProcessAccount};

const HEADER: &str = "pid,process,kind,name,known_by,pss_bytes,rss_bytes,referenced_bytes,\
swapped_bytes,huge_bytes\n";

/// A line for each part.
pub(crate) fn csv(account: &MemoryAccount) -> String {
    let lines = account
        .processes
        .iter()
        .flat_map(|process| process.parts.iter().map(|part| line(process, part)));
    lines.fold(HEADER.to_owned(), |out, line| out + &line)
}

fn line(process: &ProcessAccount, part: &MemoryPart) -> String {
    let sizes = [
        part.pss_bytes,
        part.rss_bytes,
        part.referenced_bytes,
        part.swapped_bytes,
        part.huge_bytes,
    ];
    let texts = [
        process.pid.to_string(),
        field(&process.name),
        part.kind.into_str().replace(", ", " and "),
        field(&part.name),
        part.evidence.into_str().to_owned(),
    ];
    let sizes = sizes.map(|bytes| bytes.0.to_string());
    [texts, sizes].concat().join(",") + "\n"
}
