//! Says where instructions of a program came from, as reports of faults do: `origins FILE < OFFSETS`. Each line of the
//! input is the offset of an instruction in FILE. For each comes a line of its functions and lines of source by turns,
//! the innermost first, with tabs between; `?` stands for what is not known.

#![allow(clippy::print_stdout, reason = "a program for the command line")]

use pagewise_model::fault::{FaultSite, InstructionOrigin, SourceLine};
use pagewise_observe::faults::CodeImages;
use std::error::Error;
use std::fs::File;
use std::io::stdin;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: origins FILE < OFFSETS")?;
    let mut images = CodeImages::default();
    images.files().put(&path, File::open(&path)?);
    let offsets = stdin().lines().map(|line| Ok(line?.trim().parse()?));
    let offsets: Vec<u64> = offsets.collect::<Result<_, Box<dyn Error>>>()?;
    let origins = images.origins(&path, &offsets);
    for (offset, InstructionOrigin { source, inlined }) in offsets.into_iter().zip(origins) {
        let function = images.function(&path, offset);
        let site = FaultSite { function, source, inlined, ..FaultSite::default() };
        let shown: Vec<String> = site.nested().into_iter().map(shown).collect();
        println!("{}", shown.join("\t"));
    }
    Ok(())
}

fn shown((function, line): (Option<&str>, Option<&SourceLine>)) -> String {
    let line =
        line.map_or_else(|| "?".to_owned(), |SourceLine { file, line }| format!("{file}:{line}"));
    format!("{}\t{line}", function.unwrap_or("?"))
}
