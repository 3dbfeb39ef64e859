//! Starting and ending a minimal program, ns.
//!
//! `true` from the system's directories: fork (as vfork), exec, dynamic linking, exit, wait, with
//! parent and child on one CPU, so that wall time is the CPU time of both. Not seen: the page tables
//! that a plain fork of a large process copies.

use crate::error::PriceError;
use crate::sample::{Probe, time};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Programs of one repeat.
const STARTS: u32 = 4;

/// The probe.
#[derive(Debug)]
pub(crate) struct Spawn {
    program: PathBuf,
}

impl Spawn {
    /// Finds the program.
    pub(crate) fn new() -> Result<Self, PriceError> {
        let known = ["/usr/bin/true", "/bin/true"].map(Path::new);
        let found = known.into_iter().find(|path| path.exists());
        let program =
            found.ok_or_else(|| PriceError::Unavailable("there is no true".to_owned()))?;
        Ok(Self { program: program.to_path_buf() })
    }
}

impl Probe for Spawn {
    const NAME: &'static str = "the start of a program";

    fn measure_once(&mut self) -> Result<f64, PriceError> {
        let start_once = |_| {
            let mut command = Command::new(&self.program);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().map(drop)
        };
        let (ns, done) = time(|| (0..STARTS).try_for_each(start_once));
        done.map_err(PriceError::sys("spawn", self.program.display().to_string()))?;
        Ok(ns / f64::from(STARTS))
    }
}
