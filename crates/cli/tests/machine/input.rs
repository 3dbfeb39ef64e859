//! Standard input of a program that runs many times. Input that can be opened again is read from the same place
//! in each run. Input that can be read only once is never consumed.

use crate::helper::{PROGRAM, Place, experiment, only_turn, said};
use rustix::fs::SeekFrom;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Output, Stdio};

/// `tune --advise` of a shell script with this standard input, which outlives the session: one look and some
/// runs.
fn advise(place: &Place, input: impl AsFd, words: &[&str], script: &str) -> Option<Output> {
    experiment(|| {
        let mut command = place.pagewise(&["tune", "--advise"]);
        command.args(words).args(["--", "sh", "-c", script]).current_dir(place.path());
        command.stdin(Stdio::from(input.as_fd().try_clone_to_owned().unwrap()));
        command
    })
}

/// Another program that starts pagewise, with the same environment and place.
fn around(place: &Place, words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    let given = place.pagewise(&[]);
    command.envs(given.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.args(&words[1..]).current_dir(place.path()).stdin(Stdio::null());
    command
}

fn assert_success(done: &Output) {
    assert!(done.status.success(), "{}{}", said(&done.stdout), said(&done.stderr));
}

/// Inputs that can be read only once, with these bytes in them and no writer: the kind, and the end to read
/// from.
fn read_once(bytes: &[u8]) -> Vec<(&'static str, OwnedFd)> {
    let (pipe, end) = rustix::pipe::pipe().unwrap();
    rustix::io::write(end, bytes).unwrap();
    let mut all = vec![("a pipe", pipe)];
    for kind in [SocketType::STREAM, SocketType::DGRAM, SocketType::SEQPACKET] {
        let flags = SocketFlags::empty();
        let (one, end) = rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None).unwrap();
        rustix::io::write(end, bytes).unwrap();
        all.push(("a socket", one));
    }
    all
}

fn assert_untouched(input: &OwnedFd, bytes: &[u8], what: &str) {
    let mut left = [0; 64];
    let count = rustix::io::read(input, &mut left).unwrap();
    assert_eq!(&left[..count], bytes, "{what}");
}

#[test]
fn a_file_is_opened_again_at_its_place_for_each_run() {
    let _turn = only_turn();
    let place = Place::new();
    let (path, log) = (place.path().join("input"), place.path().join("log"));
    let script = format!("cat >> {0}; echo . >> {0}", log.display());
    for deleted in [false, true] {
        std::fs::write(&path, "skip\nrest\n").unwrap();
        // Readable and writable. Writes go to its end.
        let file = File::options().read(true).append(true).open(&path).unwrap();
        rustix::fs::seek(&file, SeekFrom::Start(5)).unwrap();
        if deleted {
            std::fs::remove_file(&path).unwrap();
        }
        let Some(done) = advise(&place, &file, &["--rerun-safe"], &script) else { return };
        assert_success(&done);
        let text = std::fs::read_to_string(&log).unwrap();
        let runs = text.matches('.').count();
        assert!(runs >= 3, "{text}");
        assert_eq!(text, "rest\n.\n".repeat(runs));
        std::fs::remove_file(&log).unwrap();
        // The caller's descriptor has not moved.
        assert_eq!(rustix::fs::seek(&file, SeekFrom::Current(0)), Ok(5));
        let mut rest = String::new();
        (&file).read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "rest\n");
    }
}

#[test]
fn nothing_is_taken_of_what_can_be_read_only_once() {
    let _turn = only_turn();
    let place = Place::new();
    let bytes = b"of the caller\n";
    for (what, input) in read_once(bytes) {
        // A run without input would empty the file. The user's consent does not change that.
        let kept = place.path().join("kept");
        std::fs::write(&kept, "kept").unwrap();
        let script = "cat > all && cat all > kept";
        let Some(done) = advise(&place, &input, &["--rerun-safe"], script) else { return };
        let text = said(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{what}: {text}");
        let reported = format!("the program reads its standard input (read), which is {what}: ");
        assert!(text.contains(&reported) && text.contains("nothing was read"), "{text}");
        assert!(text.contains("help: ") && text.contains("--input FILE"), "{text}");
        assert!(done.stdout.is_empty(), "{}", said(&done.stdout));
        assert_eq!(std::fs::read_to_string(kept).unwrap(), "kept");
        assert_untouched(&input, bytes, what);
    }
}

#[test]
fn nor_is_it_asked_for() {
    let _turn = only_turn();
    let place = Place::new();
    let bytes = b"of the caller\n";
    for (what, input) in read_once(bytes).into_iter().take(2) {
        let script = "python3 -c 'import select; select.select([0], [], [], 9)'";
        let Some(done) = advise(&place, &input, &[], script) else { return };
        let text = said(&done.stderr);
        if text.contains("not found") {
            println!("SKIP nor_is_it_asked_for: no python3");
            return;
        }
        assert!(done.status.code() == Some(2) && text.contains("input (select)"), "{what}: {text}");
        assert_untouched(&input, bytes, what);
    }
}

#[test]
fn what_is_not_read_is_noted_and_each_run_has_an_empty_one() {
    let _turn = only_turn();
    let place = Place::new();
    let bytes = b"of the caller\n";
    for (what, input) in read_once(bytes).into_iter().take(2) {
        let option = if what == "a pipe" { "-p" } else { "-S" };
        let script = format!("exec test {option} /dev/stdin");
        let Some(done) = advise(&place, &input, &[], &script) else { return };
        assert_success(&done);
        let note = format!("standard input is {what}, which the program does not read");
        assert!(said(&done.stdout).contains(&note), "{}", said(&done.stdout));
        assert_untouched(&input, bytes, what);
    }
}

#[test]
fn nothing_and_terminals_are_dev_null() {
    const TEST: &str = "nothing_and_terminals_are_dev_null";
    let _turn = only_turn();
    let place = Place::new();
    let script = "test ! -t 0 && test -c /dev/stdin && ! read line";
    let null = File::open("/dev/null").unwrap();
    let Some(done) = advise(&place, &null, &[], script) else { return };
    assert_success(&done);
    let quoted = format!("{PROGRAM} tune --advise -- sh -c '{script}'");
    let closed = format!("exec <&-; exec {quoted}");
    let Some(done) = experiment(|| around(&place, &["sh", "-c", &closed])) else { return };
    assert_success(&done);
    // `script` gives its child a terminal.
    if Command::new("script").arg("--version").output().is_err() {
        println!("SKIP {TEST}: no script(1)");
        return;
    }
    let words = ["script", "-qec", &quoted, "/dev/null"];
    let Some(done) = experiment(|| around(&place, &words)) else { return };
    assert_success(&done);
}

#[test]
fn a_loop_over_lines_sees_each_of_them() {
    let _turn = only_turn();
    let place = Place::new();
    std::fs::write(place.path().join("list"), "one\ntwo\n").unwrap();
    let body = format!(
        "while read line; do {PROGRAM} tune --advise -- true || exit; echo $line >> seen; done"
    );
    for line in [format!("{body} < list"), format!("cat list | {body}")] {
        let looped = experiment(|| {
            let _gone = std::fs::remove_file(place.path().join("seen"));
            around(&place, &["sh", "-c", &line])
        });
        let Some(done) = looped else { return };
        assert_success(&done);
        let seen = std::fs::read_to_string(place.path().join("seen")).unwrap();
        assert_eq!(seen, "one\ntwo\n", "{line}");
    }
}

#[test]
fn where_nothing_is_looked_at_it_is_refused_at_once() {
    let place = Place::new();
    let bytes = b"of the caller\n";
    for (what, input) in read_once(bytes) {
        let mut command = place.pagewise(&["ab", "--", "true", "---", "true"]);
        let done = command.stdin(input.try_clone().unwrap()).output().unwrap();
        let text = said(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{text}");
        assert!(text.contains(&format!("standard input is {what}, which can be read only once")));
        assert!(text.contains("--input FILE") && text.contains("</dev/null"), "{text}");
        assert_untouched(&input, bytes, what);
    }
    let directory = File::open("/").unwrap();
    let done = place.pagewise(&["tune", "--", "true"]).stdin(directory).output().unwrap();
    assert_eq!(done.status.code(), Some(2));
    assert!(said(&done.stderr).contains("standard input is a directory"), "{}", said(&done.stderr));
}

#[test]
fn the_input_that_is_named_is_no_pipe() {
    let place = Place::new();
    let fifo = place.path().join("fifo").display().to_string();
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // Opening it would wait for a writer.
    let tune = ["tune", "--input", &fifo, "--", "true"];
    let ab = ["ab", "--input", &fifo, "--", "true", "---", "true"];
    for words in [&tune[..], &ab] {
        let done = place.pagewise(words).output().unwrap();
        assert_eq!(done.status.code(), Some(2));
        let text = said(&done.stderr);
        assert!(text.contains("can be read only once") && text.contains("regular file"), "{text}");
    }
}

/// The second run of `profile --traced` reads the file from where the first run began.
#[test]
fn a_second_run_has_what_the_first_one_had() {
    let _turn = only_turn();
    let place = Place::new();
    let (log, path) = (place.path().join("log"), place.path().join("input"));
    std::fs::write(&path, "skip\nrest\n").unwrap();
    let file = File::open(&path).unwrap();
    rustix::fs::seek(&file, SeekFrom::Start(5)).unwrap();
    let script = format!("cat >> {}", log.display());
    let mut command = place.pagewise(&["profile", "--traced", "--rerun-safe", "--"]);
    let done = command.args(["sh", "-c", &script]).stdin(file).output().unwrap();
    assert_success(&done);
    assert_eq!(std::fs::read_to_string(log).unwrap(), "rest\nrest\n");
}

#[test]
fn what_the_last_run_left_is_named_where_it_makes_the_next_one_fail() {
    let _turn = only_turn();
    let place = Place::new();
    let input = File::open("/dev/null").unwrap();
    let script = "exec 3>>left; test ! -s left && echo 1 >&3";
    let remove = format!("rm -f {}/left", place.path().display());
    // The first session fails in its second run, the second session in its first.
    for session in ["first", "second"] {
        let Some(done) = advise(&place, &input, &[], script) else { return };
        let said = said(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("--prepare '{remove}'")), "{session}: {said}");
    }
    let Some(done) = advise(&place, &input, &["--prepare", &remove], script) else { return };
    assert_success(&done);
}
