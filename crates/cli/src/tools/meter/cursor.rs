//! `-c`: several meters of one pipeline on one terminal, each with a line of its own.
//!
//! Each new meter writes a line feed, which leaves its line above the cursor, and is entered in a
//! list. To draw, a meter goes up by the number of lines below its own (ECMA-48 CUU), writes, and
//! comes back down: where on the screen the lines are, and whether they have scrolled, need not be
//! known. The list is a file, one entry of eleven bytes for each line, named after the user, the
//! terminal and the process group, which is what a pipeline of a shell has in common; its lock
//! (flock(2)) keeps the drawing of one meter together. The last to end removes it; entries of
//! processes that are gone count as ended, so what a kill left is used up by the next.
//!
//! Not seen: what other programs write to the terminal meanwhile, and more lines than it has.

use super::super::files;
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
pub(super) struct Place {
    list: File,
    path: PathBuf,
    /// Lines above it.
    above: u64,
}

/// The list of the terminal and process group that this process has.
fn list_path() -> io::Result<PathBuf> {
    let terminal = fstat(io::stderr())?;
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let directory = set("XDG_RUNTIME_DIR").or_else(|| set("TMPDIR")).unwrap_or("/tmp".into());
    let user = rustix::process::geteuid();
    let group = pagewise_kernel::proc::own_group();
    Ok(Path::new(&directory)
        .join(format!("pagewise-meter-{user}-{:x}-{:x}-{group}", terminal.st_dev, terminal.st_ino)))
}

/// The list, locked; made where there is none.
fn locked(path: &Path) -> io::Result<File> {
    loop {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let list = File::from(open(path, flags, Mode::RUSR | Mode::WUSR)?);
        flock(&list, FlockOperation::LockExclusive)?;
        let found = list.metadata()?;
        if !found.is_file() || found.uid() != rustix::process::geteuid().as_raw() {
            return Err(io::Error::other("it belongs to another user"));
        }
        // The last meter may have removed it between the two calls.
        if found.nlink() > 0 {
            return files::private(list.as_fd());
        }
    }
}

/// The process ids on the list that are alive.
fn alive(list: &File) -> io::Result<usize> {
    let mut text = vec![0; list.metadata()?.len() as usize];
    list.read_exact_at(&mut text, 0)?;
    let text = String::from_utf8_lossy(&text);
    let is_alive = |pid: &&str| *pid != "0" && Path::new("/proc").join(pid).exists();
    Ok(text.lines().map(str::trim).filter(is_alive).count())
}

impl Place {
    /// The next line of this process' terminal.
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

    /// Leaves the line as it is. The last to leave takes the list away.
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
        let first = Place::take_in(path.clone(), &mut screen).unwrap();
        let second = Place::take_in(path.clone(), &mut screen).unwrap();
        second.draw("b", &mut screen).unwrap();
        first.draw("a", &mut screen).unwrap();
        let text = String::from_utf8(screen).unwrap();
        assert_eq!(text, "\n\n\x1b[1A\rb\x1b[K\x1b[1B\r\x1b[2A\ra\x1b[K\x1b[2B\r");
        first.leave().unwrap();
        // Both entries are of this process, which lives: only the second's end is the last.
        assert!(path.exists());
        second.leave().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn a_list_of_the_dead_is_begun_anew_and_a_link_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("list");
        std::fs::write(&path, "4194305   \n         0\n").unwrap();
        let place = Place::take_in(path.clone(), &mut io::sink()).unwrap();
        assert_eq!(place.above, 0);
        place.leave().unwrap();
        std::os::unix::fs::symlink(directory.path().join("other"), &path).unwrap();
        assert!(Place::take_in(path, &mut io::sink()).is_err());
        assert!(!directory.path().join("other").exists());
    }
}
