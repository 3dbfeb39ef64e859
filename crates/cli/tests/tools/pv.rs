//! `meter` beside the machine's pv: each option that both have gives the same bytes, the same exit status and,
//! unless it depends on time, the same text. docs/tools.md lists the intended differences.

use super::{Draw, PAGEWISE, run};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Options whose text does not depend on time.
const SAME_TEXT: &[&str] = &[
    "-b < f",
    "-fb < f",
    "-f -b f f",
    "-f -b -C f",
    "-f -b -B 1000 f",
    "-f -b -B 1M < f",
    "-f -b -E f",
    "-f -b -EE f",
    "-f -b -W f",
    "-f -b -i 0.5 f",
    "-f -b -H 5 f",
    "-f -b -P pid f; ls pid",
    "-f -b -N name f",
    "-f -F '%b|%N' -N x f",
    "-f -F 'a%%b%b' f",
    "-f --byt f",
    "-f --name x --bytes f",
    "-f -p -w 40 f",
    "-f -p -w 41 -s 3M < f",
    "-f -p -w 30 -s 2000003 < f",
    "-f -p -w 30 -s 10G < f",
    "-f -b -s 100K -S f",
    "-f -b -S f",
    "-f -b -S < f",
    "-f -b -S -s 100 f f",
    "-f -b -L 20M f",
    "-f -b -D 9 f",
    "-f -b empty",
    "-f -b -l f",
    "-f -b -l -0 f",
    "-f -b -0 nulls",
    "-f -b -l -0 nulls",
    "-f -b -l -L 3000000 f",
    "-f -b missing f",
    "-n -b f",
    "-n f",
    "-n -s 4M f",
    "-n -s 4M -S < f",
    "-n -l -s 2000000 f",
    "-n -l -b f",
    "-n -S -s 1k < f",
    "-n -b -S -s 1m f",
    "-n -b -S -s 1K f -B 10",
    "-q f",
    "-q f missing f",
    "-q -L 50M f",
    "-q -S -s 0 f",
    "-n -b -L 1g f",
    "-q -p -t -e -I -r -a -b -T f",
];

/// Options whose text depends on time.
const SAME_BYTES: &[&str] = &[
    "-f f",
    "-f -b missing",
    "-f -b missing missing",
    "-q .",
    "-q <&-",
    "-f -t f",
    "-f -e f",
    "-f -e -s 9M < f",
    "-f -I -s 9M < f",
    "-f -r f",
    "-f -a f",
    "-f -T f",
    "-f -A 10 f",
    "-f -c -N x f",
    "-f -ptebraT -A 4 f",
    "-n -t f",
    "-n -t -b f",
    "-f -L 30M -S -s 999 f",
    "-f -l -S -s 7 f",
    "-f -l -S -s 7 < f",
    "-f -l -S -s 100001 -L 5000000 f f",
    "-f -0 -S -s 5 nulls",
    "f > /dev/full",
    "-q < /dev/full | head -c 5; exit ${PIPESTATUS[0]}",
    "f | head -c 5; exit ${PIPESTATUS[0]}",
    "-d 999999999",
    "-d 999999999:1",
    "-d 1:9999",
    "-R 999999999 -L 1",
    "-i x f",
    "-s x f",
    "-L x f",
    "-B x f",
    "-w x f",
    "-N",
    "-z f",
    "--no-such-option f",
    "-h > /dev/null",
    "-V > /dev/null",
];

fn ended(tool: &str, words: &str, place: &Path) -> Output {
    let mut command = Command::new("bash");
    command.args(["-c", &format!("{tool} {words}")]);
    run(command, place, b"")
}

/// The last state of a line that is redrawn, without its padding. Since 1.7 pv also pads amounts that have no
/// prefix.
fn text(output: &Output) -> String {
    let said =
        String::from_utf8_lossy(&output.stderr).replace("pv: ", "meter: ").replace("  B", " B");
    let lines = said.lines().map(|line| line.trim_end_matches(['\r', ' ']));
    lines.map(|line| line.rsplit('\r').next().unwrap_or(line)).collect::<Vec<_>>().join("\n")
}

#[test]
fn meter_does_as_pv_does() {
    if Command::new("pv").arg("-V").output().is_err() {
        eprintln!("SKIP meter_does_as_pv_does: no pv (apt: pv)");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let mut draw = Draw(12);
    fs::write(place.path().join("f"), draw.bytes(b"abcdefg\n", 2_000_003)).unwrap();
    fs::write(place.path().join("nulls"), draw.bytes(b"abc\0", 5_003)).unwrap();
    fs::write(place.path().join("empty"), b"").unwrap();
    let mut wrong = Vec::new();
    let all = SAME_TEXT.iter().map(|w| (w, true)).chain(SAME_BYTES.iter().map(|w| (w, false)));
    for (words, has_text) in all {
        let theirs = ended("pv", words, place.path());
        let ours = ended(&format!("{PAGEWISE} meter"), words, place.path());
        if theirs.stdout != ours.stdout {
            wrong.push(format!("{words}: {} and {} bytes", theirs.stdout.len(), ours.stdout.len()));
        }
        if theirs.status.code() != ours.status.code() {
            wrong.push(format!("{words}: {} and {}", theirs.status, ours.status));
        }
        if has_text && text(&theirs) != text(&ours) {
            wrong.push(format!("{words}: {:?} and {:?}", text(&theirs), text(&ours)));
        }
    }
    assert!(wrong.is_empty(), "pv and meter:\n{}", wrong.join("\n"));
}
