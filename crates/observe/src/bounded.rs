//! For tests of what must not wait.

use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;

/// A FIFO without a writer.
pub(crate) fn fifo(directory: &Path, name: impl AsRef<Path>) -> PathBuf {
    let path = directory.join(name);
    mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    path
}

/// What `ask` answers; a test that waits for ever fails.
pub(crate) fn soon<T: Send + 'static>(ask: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = channel();
    std::thread::spawn(move || send.send(ask()));
    receive.recv_timeout(Duration::from_secs(20)).unwrap()
}
