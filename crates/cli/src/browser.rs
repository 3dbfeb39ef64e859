//! Opens a page in the user's browser: the one in `$BROWSER`, else xdg-open.
//!
//! `BROWSER` is a list separated by colons, in which `%s` stands for the page (as in xdg-open(1)). A browser
//! that has not failed within [`PATIENCE`] shows the page. Without a display, the browser runs in this
//! terminal: pagewise waits until it ends.

use crate::failure::CommandFailure;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

const USUAL: &str = "xdg-open";
const PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(20);

/// Opens the page in `file` in a browser.
pub(crate) fn open(file: &Path) -> Result<(), CommandFailure> {
    let set = std::env::var("BROWSER").ok().filter(|set| !set.trim().is_empty());
    let candidates = set.clone().unwrap_or_else(|| USUAL.to_owned());
    let displays = ["DISPLAY", "WAYLAND_DISPLAY"];
    let has_display = displays.iter().any(|name| std::env::var_os(name).is_some());
    let mut why = "BROWSER names no program".to_owned();
    for candidate in candidates.split(':').filter(|candidate| !candidate.trim().is_empty()) {
        match shown(candidate, file, has_display) {
            Ok(None) => return Ok(()),
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => why = format!("`{candidate}`: {status}"),
            Err(error) => why = format!("cannot start `{candidate}`: {error}"),
        }
    }
    let help = match set {
        Some(_) => format!("the page is `{}`", file.display()),
        None => format!("set BROWSER, or open `{}`", file.display()),
    };
    Err(CommandFailure::usage(why).with_help(help))
}

/// The exit status; `None` if the browser is still running.
fn shown(candidate: &str, file: &Path, has_display: bool) -> io::Result<Option<ExitStatus>> {
    let mut words: Vec<OsString> = Vec::new();
    let mut is_named = false;
    for word in candidate.split_whitespace() {
        is_named |= word == "%s";
        words.push(if word == "%s" { file.into() } else { word.into() });
    }
    if !is_named {
        words.push(file.into());
    }
    let Some((program, arguments)) = words.split_first() else { return Ok(None) };
    let mut child = Command::new(program).args(arguments).spawn()?;
    if !has_display {
        return child.wait().map(Some);
    }
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        sleep(PAUSE);
    }
    Ok(None)
}
