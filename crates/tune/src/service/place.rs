//! Where one start of a server lives, and the commands that name it.

use crate::files::last_line_in;
use crate::scratch::remove_tree;
use crate::stop::Stop;
use std::ffi::{OsStr, OsString};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// How much of the end of a log is read and shown.
const LOG_READ: u64 = 1 << 20;
const LOG_SHOWN: usize = 200;
/// The placeholders of a command.
const PORT: &str = "{port}";
const DIR: &str = "{dir}";

/// Whether a command has a placeholder, so that two servers can run at once.
#[must_use]
pub(super) fn has_placeholder(text: &str) -> bool {
    text.contains(PORT)
}

/// Where one start of a server lives: a free port and a directory, which `remove` takes away.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) port: u16,
    pub(super) dir: PathBuf,
    pub(super) log: PathBuf,
}

impl Place {
    /// A place in `scratch`.
    pub(super) fn new(scratch: &Path, name: &str) -> Result<Self, Stop> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|l| l.local_addr());
        let port = free.map_err(|e| Stop::Broken(format!("no free port: {e}")))?.port();
        let dir = scratch.join(name);
        std::fs::create_dir_all(&dir)
            .map_err(|e| Stop::Broken(format!("cannot make `{}`: {e}", dir.display())))?;
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
        let read = std::fs::File::open(&self.log).and_then(|mut file| {
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(LOG_READ)))?;
            file.take(LOG_READ).read_to_end(&mut bytes)
        });
        read.map_or_else(|_| String::new(), |_| String::from_utf8_lossy(&bytes).into_owned())
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

    /// Removes its directory and its log, once nothing needs them. What stays, if anything.
    pub(super) fn remove(&self) -> Option<String> {
        let _gone = std::fs::remove_file(&self.log);
        let left = remove_tree(&self.dir).err()?;
        Some(format!("cannot remove {left}: remove it by hand, after umount if it is mounted"))
    }

    /// Somebody still holds the port.
    pub(super) fn is_port_taken(&self) -> bool {
        TcpListener::bind((Ipv4Addr::LOCALHOST, self.port))
            .is_err_and(|e| e.kind() == std::io::ErrorKind::AddrInUse)
    }
}
