//! `-d PID[:FD]`: shows the progress of another process from `/proc/PID/fdinfo`, without touching it.
//!
//! The file position of an open regular file is the progress, and the file size is the end. Watching ends
//! when the descriptor is closed or the process ends. Not seen: `pread(2)` and mappings, which move no file
//! position.

use super::control::MeterControl;
use super::draw::{MeterDisplay, MeterFigures};
use super::options::MeterOptions;
use crate::message::tell;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A regular file that another process has open.
#[derive(Debug, Clone, PartialEq, Eq)]
struct OpenFile {
    fd: u32,
    path: PathBuf,
    size: u64,
}

/// Position in the file; `None` once it is closed.
fn position(pid: u32, fd: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("pos:")?.trim().parse().ok())
}

fn open(pid: u32, fd: u32) -> Option<OpenFile> {
    let link = PathBuf::from(format!("/proc/{pid}/fd/{fd}"));
    let found = fs::metadata(&link).ok()?;
    let path = fs::read_link(&link).ok()?;
    found.is_file().then_some(OpenFile { fd, path, size: found.len() })
}

/// The requested file, or the largest that the process has open.
fn choose(pid: u32, fd: Option<u32>) -> Option<OpenFile> {
    if let Some(fd) = fd {
        return open(pid, fd);
    }
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter_map(|fd| open(pid, fd)).max_by_key(|open| open.size)
}

/// Watches until the file is closed. Returns false if there is no file to watch.
pub(super) fn run(options: &MeterOptions, (pid, fd): (u32, Option<u32>)) -> bool {
    let Some(watched) = choose(pid, fd) else {
        let what = match fd {
            Some(fd) => format!("descriptor {fd} of process {pid} is not an open regular file"),
            None if Path::new(&format!("/proc/{pid}")).exists() => {
                format!("no regular file of process {pid} is open and visible to you")
            }
            None => format!("process {pid} does not exist"),
        };
        tell("meter", &what);
        return false;
    };
    let name = watched.path.file_name().map(|name| name.to_string_lossy().into_owned());
    let control = MeterControl::new(MeterOptions {
        // The size of a file that is being written is not its end.
        size: options.size.or(Some(watched.size).filter(|_| !is_written(pid, watched.fd))),
        // A user who named the descriptor knows the file.
        name: options.name.clone().or(name.filter(|_| fd.is_none())),
        ..options.clone()
    });
    let mut display = MeterDisplay::new(&control, Instant::now());
    let mut figures = MeterFigures::default();
    display.start_from(position(pid, watched.fd).unwrap_or_default());
    while let Some(at) = position(pid, watched.fd).filter(|_| still(pid, &watched)) {
        figures.done = at;
        display.draw(&figures);
        std::thread::sleep(options.interval);
    }
    display.finish(&figures);
    true
}

/// Whether the descriptor is open for writing (the last octal digit of fdinfo's `flags:`).
fn is_written(pid: u32, fd: u32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.is_some_and(|flags| !flags.trim().ends_with(['0', '4']))
}

/// Whether the descriptor still refers to the same file.
fn still(pid: u32, watched: &OpenFile) -> bool {
    fs::read_link(format!("/proc/{pid}/fd/{}", watched.fd)).is_ok_and(|path| path == watched.path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, SeekFrom};
    use std::os::fd::AsRawFd;

    #[test]
    fn a_position_is_seen_and_the_largest_file_chosen() {
        let mut file = tempfile::tempfile().unwrap();
        file.set_len(1 << 40).unwrap();
        file.seek(SeekFrom::Start(700)).unwrap();
        file.read_exact(&mut [0; 50]).unwrap();
        let (pid, fd) = (std::process::id(), file.as_raw_fd() as u32);
        assert_eq!(position(pid, fd), Some(750));
        let found = choose(pid, None).unwrap();
        assert_eq!((found.fd, found.size), (fd, 1 << 40));
        assert!(still(pid, &found));
        assert_eq!(choose(pid, Some(9999)), None);
    }
}
