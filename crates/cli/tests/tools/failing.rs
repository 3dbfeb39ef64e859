//! Descriptors that each fail in a special way: connections that are reset, sockets with a timeout, files that
//! take nothing, files opened with O_DIRECT, and outputs of meter that cannot be emptied or are an input.

use super::limits::{FILTERS, filter};
use super::{PAGEWISE, end, ours, shell};
use rustix::fs::{MemfdFlags, OFlags, SealFlags};
use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The exit status of a tool, and its messages.
fn ended(
    words: &[&str],
    stdin: impl Into<Stdio>,
    stdout: impl Into<Stdio>,
) -> (Option<i32>, String) {
    let mut command = filter(words);
    let mut child = command.stdin(stdin).stdout(stdout).stderr(Stdio::piped()).spawn().unwrap();
    drop(command);
    let mut stderr = child.stderr.take().unwrap();
    let status = end(child).code();
    let mut text = String::new();
    stderr.read_to_string(&mut text).unwrap();
    (status, text)
}

/// The exit status of a failed copy.
fn failure(tool: &str) -> Option<i32> {
    Some(if tool == "meter" { 16 } else { 1 })
}

/// A pipe that holds a few bytes, then its end.
fn fed() -> std::io::PipeReader {
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(b"some text\n").unwrap();
    reader
}

/// A connection that the peer has reset.
fn reset() -> OwnedFd {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let far = listener.accept().unwrap().0;
    rustix::net::sockopt::set_socket_linger(&far, Some(Duration::ZERO)).unwrap();
    near.into()
}

#[test]
fn a_connection_that_is_reset_is_reported() {
    let live: [&[&str]; 4] =
        [&["cat", "--live"], &["tee", "--live"], &["tee", "-p", "--live"], &["meter", "-q", "-v"]];
    for words in FILTERS.into_iter().chain(live) {
        let (status, text) = ended(words, fed(), reset());
        assert_eq!(status, failure(words[0]), "{words:?}: {text}");
        assert!(text.contains("Connection reset by peer"), "{words:?}: {text}");
    }
}

#[test]
fn a_socket_with_a_timeout_is_not_waited_for() {
    for words in FILTERS {
        let (from, _idle) = UnixStream::pair().unwrap();
        from.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        let (status, text) = ended(words, OwnedFd::from(from), Stdio::null());
        assert_eq!(status, failure(words[0]), "{words:?}: {text}");
        assert!(text.contains("Resource temporarily unavailable"), "{words:?}: {text}");
    }
}

#[test]
fn a_file_that_takes_nothing_is_an_error() {
    for words in FILTERS {
        // A write into the memory of a process that has ended returns 0.
        let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
        let memory = File::options().write(true).open(format!("/proc/{}/mem", sleeper.id()));
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        let memory = match memory {
            Ok(memory) => memory,
            Err(error) => {
                eprintln!("SKIP a_file_that_takes_nothing: /proc/PID/mem: {error}");
                return;
            }
        };
        let (status, text) = ended(words, fed(), memory);
        assert_eq!(status, failure(words[0]), "{words:?}: {text}");
        assert!(text.contains("No space left on device"), "{words:?}: {text}");
    }
}

#[test]
fn a_file_opened_with_o_direct_is_read() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("f");
    // Several buffers and part of a sector.
    let content = b"12345678\n".repeat(300_000);
    fs::write(&path, &content).unwrap();
    let open = || File::options().read(true).custom_flags(OFlags::DIRECT.bits() as i32).open(&path);
    for words in FILTERS {
        let direct = match open() {
            Ok(direct) => direct,
            Err(error) => {
                eprintln!("SKIP a_file_opened_with_o_direct: {error}");
                return;
            }
        };
        let out = place.path().join("out");
        let (status, text) = ended(words, direct, File::create(&out).unwrap());
        assert_eq!((status, text.as_str()), (Some(0), ""), "{words:?}");
        assert!(fs::read(&out).unwrap() == content, "{words:?}");
    }
}

#[test]
fn an_output_that_cannot_be_emptied_is_an_error() {
    let fd = rustix::fs::memfd_create("out", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING);
    let mut output = File::from(fd.unwrap());
    output.write_all(b"what was there before").unwrap();
    rustix::fs::fcntl_add_seals(&output, SealFlags::SHRINK).unwrap();
    let path = format!("/proc/{}/fd/{}", std::process::id(), output.as_raw_fd());
    let (status, text) = ended(&["meter", "-q", "-o", &path], fed(), Stdio::null());
    assert_eq!(status, Some(2), "{text}");
    assert_eq!(text, format!("meter: {path}: Operation not permitted\n"));
    let mut content = String::new();
    output.rewind().unwrap();
    output.read_to_string(&mut content).unwrap();
    assert_eq!(content, "what was there before");
}

#[test]
fn an_input_that_is_the_output_stays_as_it_is() {
    let place = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        fs::write(place.path().join(name), name.repeat(9)).unwrap();
    }
    let mut command = ours("meter");
    let ended =
        command.args(["-q", "-o", "b", "a", "b"]).current_dir(place.path()).output().unwrap();
    assert_eq!(ended.status.code(), Some(4));
    let text = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(text, "meter: b: input file is output file\n");
    assert_eq!(fs::read(place.path().join("b")).unwrap(), b"bbbbbbbbb");
}

#[test]
fn a_file_is_copied_into_itself_only_where_that_ends() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("f");
    // Offset to read from, offset to write to, whether it appends, and whether GNU's cat copies.
    for (read_at, write_at, appends, copies) in
        [(0, 0, false, true), (4, 2, false, true), (2, 4, false, false), (0, 0, true, false)]
    {
        fs::write(&path, "12345678").unwrap();
        let mut input = File::open(&path).unwrap();
        let mut output = File::options().write(true).append(appends).open(&path).unwrap();
        input.seek(std::io::SeekFrom::Start(read_at)).unwrap();
        output.seek(std::io::SeekFrom::Start(write_at)).unwrap();
        let (status, text) = ended(&["cat"], input, output);
        assert_eq!(status, Some(i32::from(!copies)), "{read_at} {write_at}: {text}");
        assert_eq!(text.contains("input file is output file"), !copies, "{text}");
        let expected = if read_at == 4 { "12567878" } else { "12345678" };
        assert_eq!(fs::read_to_string(&path).unwrap(), expected);
    }
}

#[test]
fn tee_without_readers_ends_before_its_input_does() {
    for words in [&["tee", "-p"][..], &["tee", "-p", "--live"], &["tee", "--output-error"]] {
        let (input, writer) = std::io::pipe().unwrap();
        let (reader, output) = std::io::pipe().unwrap();
        let mut child = filter(words).stdin(input).stdout(output).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert!(child.try_wait().unwrap().is_none(), "{words:?} waits while it has a reader");
        drop(reader);
        // Still open, and nothing was ever written.
        assert_eq!(end(child).code(), Some(0), "{words:?}");
        drop(writer);
    }
}

#[test]
fn tee_with_a_file_outlives_its_readers() {
    let place = tempfile::tempdir().unwrap();
    let status = |line: &str| shell(line, &format!("{PAGEWISE} tee"), place.path()).status.code();
    let line =
        "(sleep 0.3; echo more) | (TOOL -p f; echo $? >s) | :; grep -qx 0 s && grep -qx more f";
    assert_eq!(status(line), Some(0));
    // A named pipe counts as a reader, and its end as a reader that left.
    let line =
        "mkfifo a; exec 3<>a; (timeout 20 TOOL -p >(exit) <&3; echo $? >s) | :; grep -qx 0 s";
    assert_eq!(status(line), Some(0));
}

#[test]
fn descriptors_of_our_own_are_no_inputs() {
    for number in 3..10 {
        let name = format!("/proc/self/fd/{number}");
        // A descriptor that the test inherits, and so does cat.
        if Command::new("test").args(["-e", &name]).status().unwrap().success() {
            continue;
        }
        let asked: [(&[&str], i32); 5] = [
            (&["cat", "-", &name], 1),
            (&["tee", &name], 1),
            (&["meter", "-q", "-", &name], 2),
            (&["meter", "-f", "-c", "-", &name], 2),
            (&["meter", "-q", "-o", &name], 2),
        ];
        for (words, expected) in asked {
            let (status, text) = ended(words, Stdio::null(), Stdio::null());
            assert_eq!(status, Some(expected), "{words:?}: {text}");
            assert!(text.contains("No such file"), "{words:?}: {text}");
        }
        // The placeholder for a closed output is not an input either.
        let line = format!("TOOL {name} </dev/null >&-");
        let said = shell(&line, &format!("{PAGEWISE} tee"), Path::new("/"));
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(said.status.code() == Some(1) && text.contains("No such file"), "{name}: {text}");
    }
}
