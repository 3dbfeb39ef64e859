//! `-c`: several meters of one pipeline on one terminal, each on its own line.
//!
//! Each new meter writes a line feed, which leaves its line above the cursor, and adds an entry to a list. To
//! draw, a meter moves up by the number of lines below its own (ECMA-48 CUU), writes, and moves back down. It
//! needs to know neither the position of the lines on the screen nor whether they have scrolled. The list is
//! a file with an entry of eleven bytes for each line. Its name holds the user, the terminal and the process
//! group, which the commands of a shell pipeline share. Its lock (flock(2)) keeps one meter's drawing
//! together. The last meter to end removes the file. Entries of dead processes count as ended, so the next
//! meter reuses what a kill left behind.
//!
//! Not seen: other programs' output to the terminal meanwhile, and more lines than the terminal has.

use crate::files;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, open};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Bytes of an entry: a process id, or 0 for one that has ended, and a line feed.
const ENTRY: u64 = 11;

/// A line on the terminal.
#[derive(Debug)]
pub(super) struct TerminalLine {
    list: File,
    path: PathBuf,
    /// Number of lines above it.
    above: u64,
}

/// Path of the list for this process's terminal and process group.
fn list_path() -> io::Result<PathBuf> {
    let terminal = fstat(io::stderr())?;
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let directory = set("XDG_RUNTIME_DIR").or_else(|| set("TMPDIR")).unwrap_or("/tmp".into());
    let user = rustix::process::geteuid();
    let group = pagewise_kernel::proc::own_group();
    Ok(Path::new(&directory)
        .join(format!("pagewise-meter-{user}-{:x}-{:x}-{group}", terminal.st_dev, terminal.st_ino)))
}

/// The list, locked; created if missing.
fn locked(path: &Path) -> io::Result<File> {
    loop {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let list = File::from(open(path, flags, Mode::RUSR | Mode::WUSR)?);
        flock(&list, FlockOperation::LockExclusive)?;
        let found = list.metadata()?;
        if !found.is_file() || found.uid() != rustix::process::geteuid().as_raw() {
            return Err(io::Error::other("it belongs to another user"));
        }
        // The last meter may have removed the list between the two calls.
        if found.nlink() > 0 {
            return files::private(list.as_fd());
        }
    }
}

/// Number of live processes on the list.
fn alive(list: &File) -> io::Result<usize> {
    let mut text = vec![0; list.metadata()?.len() as usize];
    list.read_exact_at(&mut text, 0)?;
    let text = String::from_utf8_lossy(&text);
    let is_alive = |pid: &&str| *pid != "0" && Path::new("/proc").join(pid).exists();
    Ok(text.lines().map(str::trim).filter(is_alive).count())
}

impl TerminalLine {
    /// Takes the next line of this process's terminal.
    pub(super) fn take() -> io::Result<Self> {
        Self::take_in(list_path()?, &mut io::stderr())
    }

    fn take_in(path: PathBuf, terminal: &mut impl Write) -> io::Result<Self> {
        let list = locked(&path)?;
        if alive(&list)? == 0 {
            list.set_len(0)?;
        }
        let above = list.metadata()?.len() / ENTRY;
        let place = Self { list, path, above };
        place.enter(std::process::id())?;
        let drawn = terminal.write_all(b"\n");
        place.unlock()?;
        drawn.map(|()| place)
    }

    fn enter(&self, pid: u32) -> io::Result<()> {
        self.list.write_all_at(format!("{pid:>10}\n").as_bytes(), self.above * ENTRY)
    }

    fn unlock(&self) -> io::Result<()> {
        Ok(flock(&self.list, FlockOperation::Unlock)?)
    }

    pub(super) fn draw(&self, line: &str, terminal: &mut impl Write) -> io::Result<()> {
        flock(&self.list, FlockOperation::LockExclusive)?;
        let up = (self.list.metadata()?.len() / ENTRY).saturating_sub(self.above);
        let drawn = write!(terminal, "\x1b[{up}A\r{line}\x1b[K\x1b[{up}B\r");
        self.unlock()?;
        drawn
    }

    /// Leaves the line unchanged. The last meter to leave removes the list.
    pub(super) fn leave(self) -> io::Result<()> {
        flock(&self.list, FlockOperation::LockExclusive)?;
        self.enter(0)?;
        if alive(&self.list)? == 0 {
            std::fs::remove_file(&self.path)?;
        }
        self.unlock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_from_the_last_and_the_list_goes_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("list");
        let mut screen = Vec::new();
        let first = TerminalLine::take_in(path.clone(), &mut screen).unwrap();
        let second = TerminalLine::take_in(path.clone(), &mut screen).unwrap();
        second.draw("b", &mut screen).unwrap();
        first.draw("a", &mut screen).unwrap();
        let text = String::from_utf8(screen).unwrap();
        assert_eq!(text, "\n\n\x1b[1A\rb\x1b[K\x1b[1B\r\x1b[2A\ra\x1b[K\x1b[2B\r");
        first.leave().unwrap();
        // Both entries belong to this process, which is alive: only the second to end is the last.
        assert!(path.exists());
        second.leave().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn a_list_of_the_dead_is_begun_anew_and_a_link_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("list");
        std::fs::write(&path, "4194305   \n         0\n").unwrap();
        let place = TerminalLine::take_in(path.clone(), &mut io::sink()).unwrap();
        assert_eq!(place.above, 0);
        place.leave().unwrap();
        std::os::unix::fs::symlink(directory.path().join("other"), &path).unwrap();
        assert!(TerminalLine::take_in(path, &mut io::sink()).is_err());
        assert!(!directory.path().join("other").exists());
    }
}
