//! `--account`: faults that no event reports, counted at the calls.

use super::*;

/// The accounts of a program with these words, for each user that may trace it.
fn accounts(words: &[&str], check: impl Fn(&Run, &Value)) {
    for user in users() {
        let Some(run) = run_with("account", user, &["--account"], words) else { continue };
        let account = &run.report["account"];
        if account["start_faults"]["known"].is_null() {
            println!("SKIP account of {words:?}: {}", account["start_faults"]["missing"]);
            continue;
        }
        check(&run, account);
    }
}

fn known(account: &Value, term: &str) -> i64 {
    account[term]["known"].as_i64().unwrap()
}

/// Faults inside one kind of call.
fn inside(account: &Value, call: &str) -> i64 {
    let calls = account["calls"].as_array().unwrap();
    let found = calls.iter().find(|one| one["call"] == call);
    found.map_or(0, |one| one["faults"].as_i64().unwrap())
}

/// No fault remains unexplained on kernels that report their own. Elsewhere the kernel takes a few outside of
/// calls. Their number grows only with the number of processes.
fn assert_closed(run: &Run, account: &Value) {
    let left = known(account, "unexplained_faults");
    let most = match account["outside_faults"]["known"].is_null() {
        true => 3 * run.number("/processes"),
        false => 0,
    };
    assert!((0..=most).contains(&left), "{account}");
}

#[test]
fn populated_and_pinned_pages_are_those_of_their_calls() {
    let pages = PAGES.to_string();
    for (how, call) in [("populate", "mmap"), ("locked", "mlock")] {
        accounts(&[how, &pages], |run, account| {
            if run.done.status.code() == Some(4) {
                println!("SKIP {how}: so much may not be locked");
                return;
            }
            assert_eq!(run.within.len(), 0, "{how}");
            assert_eq!(inside(account, call), PAGES.cast_signed(), "{account}");
            assert!(known(account, "populate_faults") >= PAGES.cast_signed(), "{account}");
            assert_closed(run, account);
        });
    }
}

#[test]
fn what_a_call_copies_is_counted_at_it() {
    accounts(&["read-call", &PAGES.to_string()], |run, account| {
        assert_eq!(inside(account, "read"), PAGES.cast_signed(), "{account}");
        assert!(known(account, "kernel_faults") >= PAGES.cast_signed(), "{account}");
        assert_closed(run, account);
    });
}

#[test]
fn the_account_of_a_tree_closes() {
    let pages = PAGES.to_string();
    for how in ["write", "fork", "exec", "vfork", "chain", "threads", "handler", "in-handler"] {
        accounts(&[how, &pages, "5"], |run, account| {
            assert_closed(run, account);
            let executes = matches!(how, "exec" | "vfork" | "chain");
            assert_eq!(inside(account, "execve") > 0, executes, "{how}: {account}");
        });
    }
}

#[test]
fn the_programs_status_and_signals_are_its_own_when_followed() {
    let place = Place::new();
    let script = "trap 'echo caught' USR1; kill -USR1 $$; (exit 4); echo $?; true | cat; exit 6";
    let done = place.pagewise(&["faults", "--account", "--", "sh", "-c", script]).output().unwrap();
    if refused("followed status", &done) {
        return;
    }
    assert_eq!(done.status.code(), Some(6), "{}", said(&done.stderr));
    assert_eq!(said(&done.stdout), "caught\n4\n");
    let killed = ["faults", "--account", "--", "sh", "-c", "kill -9 $$"];
    let done = place.pagewise(&killed).output().unwrap();
    assert_eq!(done.status.signal(), Some(Signal::KILL.as_raw()));
    let missing = ["faults", "--account", "--", "/nonexistent/program"];
    assert_eq!(place.pagewise(&missing).output().unwrap().status.code(), Some(127));
}
