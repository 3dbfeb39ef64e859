//! The port and directory of one start of a server, and the commands that contain them.

use crate::files::last_line_in;
use crate::scratch::{ScratchDir, remove_tree};
use crate::stop::SessionStop;
use pagewise_kernel::file_view::open_regular;
use pagewise_kernel::proc::net::{self, ListenAddress};
use pagewise_kernel::proc::own_pid;
use rustix::fs::{FallocateFlags, fallocate};
use std::ffi::{OsStr, OsString};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// How much of the end of a log is read and shown, and how much of it is kept.
const LOG_READ: u64 = 1 << 20;
const LOG_KEPT: u64 = 16 << 20;
const LOG_SHOWN: usize = 200;
/// The placeholders of a command.
const PORT: &str = "{port}";
const DIR: &str = "{dir}";

/// Whether a command has a placeholder, so that two servers can run at once.
#[must_use]
pub(super) fn has_placeholder(text: &str) -> bool {
    text.contains(PORT)
}

/// Refuses a `scratch` path that is not one word in a command.
pub(super) fn refuse_odd(scratch: &Path, commands: &str) -> Result<(), SessionStop> {
    if ScratchDir::is_one_word(scratch) || !commands.contains(DIR) {
        return Ok(());
    }
    Err(SessionStop::Service(format!(
        "`{}` cannot stand for {DIR} in a command: set TMPDIR to a directory whose path has only letters, digits \
         and /._-+,:@",
        scratch.display()
    )))
}

/// Discards the beginning of a long log. A writer's position in it stays valid: the discarded part reads as
/// zeros. If the file system does not support holes, the whole log is discarded.
pub(super) fn bound_log(log: &Path) {
    use std::os::unix::fs::MetadataExt;
    let Ok(file) = std::fs::File::options().write(true).open(log) else { return };
    let Ok(found) = file.metadata() else { return };
    // In units of 512 bytes (stat(2)).
    if found.blocks() * 512 < LOG_KEPT {
        return;
    }
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let given_up = found.len().saturating_sub(LOG_READ);
    if fallocate(&file, hole, 0, given_up).is_err() {
        let _stays = file.set_len(0);
    }
}

/// A port at which nothing listens, at any address of this machine.
fn free_port() -> std::io::Result<u16> {
    loop {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let all = net::listeners(own_pid()).unwrap_or_default();
        if !all.iter().any(|one| matches!(one.address, ListenAddress::Tcp(at) if at.port() == port))
        {
            return Ok(port);
        }
    }
}

/// The port and directory of one start of a server. `remove` deletes the directory.
#[derive(Debug)]
pub(super) struct ServerPlace {
    pub(super) port: u16,
    pub(super) dir: PathBuf,
    pub(super) log: PathBuf,
}

impl ServerPlace {
    /// A place in `scratch`.
    pub(super) fn new(scratch: &Path, name: &str) -> Result<Self, SessionStop> {
        let port = free_port().map_err(|e| SessionStop::Broken(format!("no free port: {e}")))?;
        let dir = scratch.join(name);
        std::fs::create_dir_all(&dir)
            .map_err(|e| SessionStop::Broken(format!("cannot make `{}`: {e}", dir.display())))?;
        Ok(Self { port, log: scratch.join(format!("{name}.log")), dir })
    }

    /// `text` with its placeholders filled in.
    pub(super) fn fill(&self, text: &str) -> String {
        text.replace(PORT, &self.port.to_string()).replace(DIR, &self.dir.to_string_lossy())
    }

    pub(super) fn fill_word(&self, word: &OsStr) -> OsString {
        match word.to_str() {
            Some(text) => self.fill(text).into(),
            None => OsString::from_vec(word.as_bytes().to_vec()),
        }
    }

    /// The end of what the server has written.
    pub(super) fn log_text(&self) -> String {
        use std::io::{Read, Seek, SeekFrom};
        let mut bytes = Vec::new();
        let read =
            open_regular(&self.log).map_err(|error| error.source).and_then(|(mut file, length)| {
                file.seek(SeekFrom::Start((length as u64).saturating_sub(LOG_READ)))?;
                file.take(LOG_READ).read_to_end(&mut bytes)
            });
        let text = bytes.iter().position(|byte| *byte != 0).map_or(&[][..], |at| &bytes[at..]);
        read.map_or_else(|_| String::new(), |_| String::from_utf8_lossy(text).into_owned())
    }

    /// The last words of the server, for a message.
    pub(super) fn last_words(&self) -> String {
        let text = self.log_text();
        match last_line_in(&text) {
            "" => "; it printed nothing".to_owned(),
            line => {
                let short: String = line.chars().take(LOG_SHOWN).collect();
                format!("; its last line: {short}")
            }
        }
    }

    /// Removes its directory and its log when they are no longer needed. Returns what could not be removed.
    pub(super) fn remove(&self) -> Option<String> {
        let _gone = std::fs::remove_file(&self.log);
        let left = remove_tree(&self.dir).err()?;
        Some(format!("cannot remove {left}: remove it by hand, after umount if it is mounted"))
    }

    /// Whether a process still holds the port.
    pub(super) fn is_port_taken(&self) -> bool {
        TcpListener::bind((Ipv4Addr::LOCALHOST, self.port))
            .is_err_and(|e| e.kind() == std::io::ErrorKind::AddrInUse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_one_word_of_any_command_or_is_refused() {
        let dir = "rm -rf {dir}/*";
        for odd in ["/a b", "/a'b", "/a\"b", "/$HOME", "/a;b", "/a\\b", "/é", "/*", "/a=b", "/a~"]
        {
            let why = refuse_odd(Path::new(odd), dir).unwrap_err().to_string();
            assert!(why.contains("set TMPDIR"), "{why}");
            refuse_odd(Path::new(odd), "server {port}").unwrap();
        }
        refuse_odd(Path::new("/tmp/pagewise-scratch-1-2/server_1.x"), dir).unwrap();
    }

    #[test]
    fn of_a_long_log_the_end_is_kept() {
        use std::io::Write;
        use std::os::unix::fs::MetadataExt;
        let scratch = tempfile::tempdir().unwrap();
        let place = ServerPlace::new(scratch.path(), "server").unwrap();
        let mut log = std::fs::File::create(&place.log).unwrap();
        let line = [&[b'x'; 1023][..], b"\n"].concat();
        for part in 0..4 {
            for _ in 0..LOG_KEPT >> 10 {
                log.write_all(&line).unwrap();
            }
            log.write_all(format!("part {part}\n").as_bytes()).unwrap();
            bound_log(&place.log);
        }
        // The writer's place in it is unchanged.
        log.write_all(b"last\n").unwrap();
        let held = log.metadata().unwrap().blocks() * 512;
        assert!(held <= LOG_KEPT, "{held} bytes are kept");
        assert!(place.last_words().ends_with("its last line: last"), "{}", place.last_words());
    }
}
