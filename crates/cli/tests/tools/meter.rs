//! `meter`: its counts and its display, and how it watches and controls other processes.

use super::{Draw, PAGEWISE, await_some, end, ours, run, shell};
use std::fs;
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

#[test]
fn meter_passes_all_on_and_counts_it() {
    let place = tempfile::tempdir().unwrap();
    let content = Draw(3).bytes(b"abc\n", 3_000_001);
    fs::write(place.path().join("f"), &content).unwrap();
    let lines = content.iter().filter(|byte| **byte == b'\n').count();
    let meter = |arguments: &[&str], input: &[u8]| {
        let mut command = ours("meter");
        command.args(arguments);
        run(command, place.path(), input)
    };
    for arguments in [&["-q"][..], &["-q", "-C"], &["-q", "-B", "777"], &["-q", "f"], &["-q", "-Y"]]
    {
        let output = meter(arguments, &content);
        assert!(output.stdout == content, "{arguments:?}");
        assert!(output.stderr.is_empty() && output.status.success(), "{arguments:?}");
    }
    assert!(meter(&["-q", "-Y", "-o", "synced"], &content).status.success());
    assert!(fs::read(place.path().join("synced")).unwrap() == content);
    let counted = meter(&["-n", "-l"], &content);
    let last = String::from_utf8_lossy(&counted.stderr).lines().last().map(str::to_owned);
    assert_eq!(last, Some(lines.to_string()));
    let stopped = meter(&["-q", "-S", "-s", "1K", "f", "-"], &content);
    assert!(stopped.stdout == content[..1024]);
    let json = meter(&["--json", "-N", "x"], &content);
    let value: serde_json::Value = serde_json::from_slice(&json.stderr).unwrap();
    assert_eq!((&value["bytes"], &value["name"]), (&content.len().into(), &"x".into()));
    assert_eq!(value["last"], true);
}

#[test]
fn meter_ends_with_the_bits_of_pv() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("f"), b"some text\n").unwrap();
    let tool = format!("{PAGEWISE} meter");
    let status = |line: &str| {
        let output = shell(&format!("{line}; exit $?"), &tool, place.path());
        output.status.code()
    };
    assert_eq!(status("TOOL -q f"), Some(0));
    assert_eq!(status("TOOL -q missing f > out"), Some(2));
    assert_eq!(fs::read(place.path().join("out")).unwrap(), b"some text\n");
    assert_eq!(status("TOOL -q f >> f"), Some(4));
    assert_eq!(status("TOOL -q f > /dev/full"), Some(16));
    assert_eq!(status("TOOL -q . | wc -c; exit ${PIPESTATUS[0]}"), Some(16));
    assert_eq!(status("TOOL -q /dev/zero | head -c 9; exit ${PIPESTATUS[0]}"), Some(0));
    assert_eq!(status("(sleep 0.1; TOOL --help) | :; exit ${PIPESTATUS[0]}"), Some(141));
    assert_eq!(status("TOOL -q <&-"), Some(2));
    assert_eq!(status("TOOL -q -o f f"), Some(4));
    assert_eq!(fs::read(place.path().join("f")).unwrap(), b"some text\n");
    assert_eq!(status("TOOL -q -o longer < f; TOOL -q f -o longer; cmp f longer"), Some(0));
    assert_eq!(
        status("TOOL -n -i 0.1 -s 1G -S /dev/zero 2>&- > copy; wc -c < copy | grep -qx 1073741824"),
        Some(0)
    );
    assert_eq!(status("TOOL -q missing ."), Some(18));
    assert_eq!(status("TOOL --no-such-option"), Some(64));
    assert_eq!(status("TOOL -q -d 1:99999"), Some(2));
    assert_eq!(status("timeout -s INT 0.3 TOOL -q < /dev/zero > /dev/null"), Some(124));
}

/// A meter that would run for hours, and its output.
fn slow_meter(place: &Path, words: &[&str]) -> Child {
    let out = fs::File::create(place.join("out")).unwrap();
    let mut command = ours("meter");
    command.args(words).current_dir(place).stdin(fs::File::open("/dev/zero").unwrap());
    command.stdout(out).stderr(Stdio::piped()).spawn().unwrap()
}

/// Sends options to a meter that may not be listening yet.
fn send(to: &Child, words: &[&str]) -> std::process::Output {
    await_some(|| {
        let mut command = ours("meter");
        let sent = command.arg("-R").arg(to.id().to_string()).args(words).output().unwrap();
        (!String::from_utf8_lossy(&sent.stderr).contains("is not a meter")).then_some(sent)
    })
    .unwrap()
}

#[test]
fn a_running_meter_obeys_another() {
    let place = tempfile::tempdir().unwrap();
    let running = slow_meter(place.path(), &["-q", "-L", "10", "-S", "-s", "3M"]);
    let refused = send(&running, &["-C"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("can be changed"), "{refused:?}");
    assert!(send(&running, &["-L", "0", "-N", "x", "--json", "-i", "0.1"]).status.success());
    let reported = running.stderr.as_ref().is_some();
    let ended = running.wait_with_output().unwrap();
    assert!(ended.status.success() && reported);
    assert_eq!(fs::metadata(place.path().join("out")).unwrap().len(), 3 << 20);
    let text = String::from_utf8_lossy(&ended.stderr).into_owned();
    let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!((&last["name"], &last["bytes"]), (&"x".into(), &(3 << 20).into()));
    let nobody = ours("meter").args(["-R", "1", "-L", "1"]).output().unwrap();
    assert_eq!(nobody.status.code(), Some(1));
}

#[test]
fn a_pid_file_is_there_while_it_runs() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("pid");
    let running = slow_meter(place.path(), &["-q", "-L", "10", "-S", "-s", "1K", "-P", "pid"]);
    let found = await_some(|| fs::read_to_string(&path).ok().filter(|text| text.ends_with('\n')));
    assert_eq!(found, Some(format!("{}\n", running.id())));
    assert!(send(&running, &["-L", "0"]).status.success());
    assert!(end(running).success());
    assert!(!path.exists());
}

#[test]
fn the_progress_of_another_process_is_watched() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("watched");
    fs::write(&path, vec![0; 1000]).unwrap();
    let mut file = fs::File::open(&path).unwrap();
    file.seek(SeekFrom::Start(500)).unwrap();
    let target = format!("{}:{}", std::process::id(), file.as_raw_fd());
    let mut command = ours("meter");
    command.args(["-n", "-i", "0.1", "-d", &target]).stderr(Stdio::piped());
    let mut watching = command.spawn().unwrap();
    let mut lines = BufReader::new(watching.stderr.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "50");
    file.seek(SeekFrom::Start(750)).unwrap();
    assert!(lines.by_ref().any(|line| line.unwrap() == "75"));
    drop(file);
    assert!(end(watching).success());
    let none = ours("meter").args(["-d", &target]).output().unwrap();
    assert_eq!(none.status.code(), Some(2));
    for (fd, has_name) in [(":0", false), ("", true)] {
        let line = format!("sleep 1 < watched & sleep 0.3; TOOL -f -b -d $!{fd} 2>&1");
        let shown = shell(&line, &format!("{PAGEWISE} meter"), place.path()).stdout;
        let shown = String::from_utf8(shown).unwrap();
        assert!(shown.contains("0.00  B") && shown.contains("watched:") == has_name, "{shown:?}");
    }
}

#[test]
fn what_cannot_be_read_becomes_zeroes_when_asked() {
    let place = tempfile::tempdir().unwrap();
    // Nothing is mapped at address 0: reading there gives EIO.
    let source = "/proc/self/mem";
    let skipped = |option: &str| {
        let mut command = ours("meter");
        command.args(["-q", option, "-S", "-s", "1300", source]);
        run(command, place.path(), b"")
    };
    let (each, once) = (skipped("-E"), skipped("-EE"));
    for output in [&each, &once] {
        assert_eq!(output.stdout, vec![0; 1300]);
        assert_eq!(output.status.code(), Some(16));
    }
    let reported =
        |output: &std::process::Output| String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(reported(&each).lines().count(), 3, "{}", reported(&each));
    assert!(reported(&each).contains("skipped 276 bytes at 1024"), "{}", reported(&each));
    assert_eq!(reported(&once).lines().count(), 1, "{}", reported(&once));
    let plain =
        shell("TOOL -q /proc/self/mem; exit $?", &format!("{PAGEWISE} meter"), place.path());
    assert!(plain.stdout.is_empty() && plain.status.code() == Some(16));
}

#[test]
fn the_end_is_reported_with_its_cost() {
    let place = tempfile::tempdir().unwrap();
    let content = vec![7; 4 << 20];
    let meter = |words: &[&str]| {
        let mut command = ours("meter");
        command.args(words);
        let output = run(command, place.path(), &content);
        assert!(output.stdout == content, "{words:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let stats = meter(&["-q", "-v"]);
    for word in ["rate min/avg/max/mdev", "0.004 GiB", "CPU-seconds/GiB", "wake-ups/GiB"] {
        assert!(stats.contains(word), "{stats}");
    }
    assert!(meter(&["-q", "-v", "-C"]).contains("0% by reference"));
    let json: serde_json::Value = serde_json::from_str(meter(&["--json"]).trim()).unwrap();
    for key in ["cpu_s_per_gib", "wakeups_per_gib", "by_reference_share"] {
        assert!(json[key].is_number(), "{json}");
    }
    assert_eq!(meter(&["-n", "-D", "1000"]), "");
    assert_eq!(meter(&["-n", "-s", "8M"]), "50\n");
}

#[test]
fn the_users_pipes_are_not_polled() {
    let place = tempfile::tempdir().unwrap();
    let calls = "trace=poll,ppoll,select,pselect6,epoll_wait,epoll_pwait,ioctl";
    let mut command = Command::new("strace");
    command.args(["-f", "-o", "calls", "-e", calls, "--", PAGEWISE, "meter", "-q", "-i", "0.1"]);
    if Command::new("strace").arg("-V").output().is_err() {
        eprintln!("SKIP the_users_pipes_are_not_polled: no strace");
        return;
    }
    let output = run(command, place.path(), &vec![1; 8 << 20]);
    if output.stdout.is_empty() {
        eprintln!(
            "SKIP the_users_pipes_are_not_polled: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        return;
    }
    assert_eq!(output.stdout.len(), 8 << 20);
    let calls = fs::read_to_string(place.path().join("calls")).unwrap();
    let polls = calls.lines().filter(|line| line.contains("poll(") || line.contains("select"));
    // The Rust runtime makes one call, on the standard descriptors, before `main`.
    assert!(polls.count() <= 1, "{calls}");
    assert!(!calls.contains("FIONREAD"), "{calls}");
}

/// The contents of a terminal after it got these bytes: line feeds, carriage returns, cursor up and down, and
/// the rest of a line cleared.
fn screen(bytes: &str) -> Vec<String> {
    let (mut lines, mut row, mut column) = (vec![Vec::new()], 0_usize, 0);
    let mut rest = bytes.chars();
    while let Some(letter) = rest.next() {
        match letter {
            '\n' => {
                row += 1;
                lines.resize_with(lines.len().max(row + 1), Vec::new);
            }
            '\r' => column = 0,
            '\u{1b}' => {
                assert_eq!(rest.next(), Some('['));
                let (mut digits, mut end) = (String::new(), '0');
                while end.is_ascii_digit() {
                    end = rest.next().unwrap();
                    digits.push(end);
                }
                let count: usize = digits.trim_end_matches(end).parse().unwrap_or(1);
                match end {
                    'A' => row -= count,
                    'B' => row += count,
                    'K' => lines[row].truncate(column),
                    _ => panic!("CSI {digits}"),
                }
            }
            letter => {
                let line: &mut Vec<char> = &mut lines[row];
                line.resize(line.len().max(column + 1), ' ');
                line[column] = letter;
                column += 1;
            }
        }
    }
    lines.iter().map(|line| line.iter().collect()).collect()
}

#[test]
fn each_meter_of_a_pipeline_has_its_line() {
    let place = tempfile::tempdir().unwrap();
    let line = "export XDG_RUNTIME_DIR=$PWD; (seq 3000000 | TOOL -fcN first | TOOL -fcN second \
                -i 0.1 | TOOL -fcN third > /dev/null) 2> drawn";
    let ended = shell(line, &format!("{PAGEWISE} meter"), place.path());
    assert!(ended.status.success(), "{ended:?}");
    let drawn = screen(&fs::read_to_string(place.path().join("drawn")).unwrap());
    let mut lines: Vec<&str> = drawn.iter().map(|line| line.trim()).collect();
    assert_eq!(lines.pop(), Some(""), "the cursor ends below: {drawn:?}");
    lines.sort_unstable();
    let starts = ["first:", "second:", "third:"];
    assert_eq!(lines.len(), starts.len(), "{drawn:?}");
    assert!(lines.iter().zip(starts).all(|(line, start)| line.starts_with(start)), "{drawn:?}");
    assert_eq!(place.path().read_dir().unwrap().count(), 1, "the list is gone");
}

#[test]
fn a_line_has_nothing_before_it_and_no_padding() {
    let place = tempfile::tempdir().unwrap();
    for (words, line) in [(&["-f", "-b"][..], " 100  B"), (&["-f", "-A", "4"], "....")] {
        let mut command = ours("meter");
        command.args(words);
        let done = run(command, place.path(), &[0; 100]);
        let shown = String::from_utf8(done.stderr).unwrap();
        assert_eq!(shown, format!("{line}\r\n"), "{words:?}");
    }
}

#[test]
fn a_message_leaves_the_line_that_is_drawn() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("d")).unwrap();
    let said = |words: &str| {
        let line = format!("(sleep 0.5; echo x) | TOOL {words} -b -i 0.2 - d d >/dev/null");
        let ended = shell(&line, &format!("{PAGEWISE} meter"), place.path());
        String::from_utf8(ended.stderr).unwrap()
    };
    let (drawn, message) = (said("-f"), "\r\nmeter: d: Is a directory\n");
    assert!(
        drawn.contains(&format!("{message}\nmeter: d: Is a directory\n2.00  B\r\n")),
        "{drawn:?}"
    );
    for (words, others) in [("-n", "\nmeter: d"), ("-q", "meter: d"), ("-f -D 9", "meter: d")] {
        assert!(!said(words).contains('\r') && said(words).contains(others), "{words}");
        assert!(!said(words).contains("\n\n"), "{words}");
    }
}

#[test]
fn the_time_left_follows_the_rate_over_the_window() {
    // A fast start, then nothing: over a window of two seconds the rate falls to 0.
    let mut command = ours("meter");
    command.args(["-f", "-e", "-i", "0.2", "-m", "0.5", "-s", "1G"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&vec![0; 1 << 20]).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    drop(stdin);
    let text = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
    let shown: Vec<&str> = text.split('\r').collect();
    assert!(shown.iter().any(|line| line.contains("ETA --")), "{text:?}");
}
