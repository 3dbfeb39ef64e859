//! The host and the fleet: `top`, `export-metrics`, `merge`, and what they refuse.

use crate::helper::{Place, said};
use serde_json::Value;

#[test]
fn a_sample_names_the_process_that_touches_fresh_memory() {
    let place = Place::new();
    let text = "import mmap\nwhile True:\n m=mmap.mmap(-1,8<<20)\n for i in range(0,8<<20,mmap.PAGESIZE): m[i]=1\n m.close()\n";
    let mut toucher = std::process::Command::new("python3").args(["-c", text]).spawn().unwrap();
    let top = place.pagewise(&["top", "--json", "--interval", "500ms", "-n", "40"]).output();
    let shown = place.pagewise(&["top", "--once", "--interval", "200ms", "-n", "200"]).output();
    toucher.kill().and_then(|()| toucher.wait()).unwrap();
    let top: Value = serde_json::from_slice(&top.unwrap().stdout).unwrap();
    let rows = top["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["pid"] == toucher.id()).unwrap();
    assert!(row["minor_per_second"].as_f64().unwrap() > 100.0, "{row:#}");
    assert!(row["resident_bytes"].as_u64().unwrap() > 1 << 20, "{row:#}");
    let shown = said(&shown.unwrap().stdout);
    assert!(shown.lines().all(|line| line.len() <= 80), "{shown}");
    assert!(shown.contains("faults/s") && shown.contains("python3"), "{shown}");
}

#[test]
fn metrics_are_written_whole_and_for_others_to_read() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let file = place.path().join("pagewise.prom");
    let done = place.pagewise(&["export-metrics", "-o"]).arg(&file).output().unwrap();
    assert!(done.status.success() && done.stdout.is_empty(), "{done:?}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("\npagewise_page_faults_total ") && text.ends_with('\n'), "{text}");
    let nowhere = place.pagewise(&["export-metrics", "-o", "/no/such/dir/x"]).output().unwrap();
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(said(&nowhere.stderr).contains("/no/such/dir/x"), "{nowhere:?}");
}

#[test]
fn what_cannot_be_pooled_or_measured_again_is_one_line() {
    let place = Place::new();
    let refused = |words: &[&str], expected: &str| {
        let done = place.pagewise(words).output().unwrap();
        assert_eq!(done.status.code(), Some(2), "{done:?}");
        assert!(said(&done.stderr).contains(expected), "{done:?}");
    };
    let empty = place.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    refused(&["merge", empty.to_str().unwrap()], "no saved run (*.json) in the given paths");
    refused(&["merge", "/no/such/directory"], "/no/such/directory");
    std::fs::write(empty.join("bad.json"), "{").unwrap();
    refused(&["merge", empty.to_str().unwrap()], "bad.json");
    refused(&["recheck"], "no receipt was applied");
    refused(&["fleet", "script", "last", "--slurm"], "no saved runs yet");
    refused(&["fleet", "script", "--kubernetes"], "--image");
    refused(&["top", "--interval", "1ms"], "100ms");
}
