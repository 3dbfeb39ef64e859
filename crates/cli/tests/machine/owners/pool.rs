//! Pages of the machine's pool, with a second owner elsewhere and with a neighbour that holds every name.

use super::{Network, behind, can_be_hostile};
use crate::helper::{NOBODY, Place, compile, first_line, only_turn, said};
use pagewise_kernel::hugetlb;
use rustix::process::{Pid, Signal, kill_process};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn pages() -> u64 {
    hugetlb::pool(hugetlb::usual().unwrap()).unwrap().pages
}

/// Pages before a test, without those that a failed test may have left.
fn at_first(place: &Place) -> u64 {
    let _ignored = place.pagewise(&["history"]).output().unwrap();
    pages()
}

/// A run that holds pages until it is ended. `None`, after a `SKIP` line, if the pages are not available.
fn owner(test: &str, place: &Place, network: &Network) -> Option<Child> {
    let before = pages();
    let program: PathBuf = place.path().join("table_walk");
    if !compile("table_walk.c", &["-O2", "-pthread"], &program) {
        println!("SKIP {test}: no C compiler");
        return None;
    }
    let mut command = place.pagewise(&["run", "--system", "--with", "pool=8M", "--"]);
    command.arg(program).args(["random", "2", "1000000000000"]);
    let mut child = network.holds(&command);
    let mut child = child.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    let is_used = || {
        let pool = hugetlb::pool(hugetlb::usual().unwrap()).unwrap();
        pool.pages > before && pool.available_pages() < pool.pages
    };
    while !is_used() {
        if Instant::now() > deadline || child.try_wait().unwrap().is_some() {
            child.kill().unwrap();
            println!("SKIP {test}: {}", said(&child.wait_with_output().unwrap().stderr));
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Some(child)
}

/// A process without rights that holds the name of the lock of experiments and never answers.
fn neighbour(network: &Network) -> Child {
    let script = "import socket,time\n\
                  s = socket.socket(socket.AF_UNIX)\n\
                  s.bind('\\0pagewise-experiment')\n\
                  print('held', flush=True)\n\
                  time.sleep(600)";
    let mut python = Command::new("python3");
    // A PATH that the other account can read too.
    python.args(["-c", script]).env("PATH", "/usr/bin:/bin");
    let id = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")];
    let nobody = behind(&["setpriv", &id[0], &id[1], "--clear-groups", "--"], &python);
    let mut child = network.holds(&nobody).stdout(Stdio::piped()).spawn().unwrap();
    assert_eq!(first_line(&mut child), "held\n");
    child
}

fn end(child: &mut Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
    child.wait().unwrap();
}

#[test]
fn a_second_owner_in_another_namespace_takes_no_page_of_the_first() {
    const TEST: &str = "a_second_owner_in_another_namespace_takes_no_page_of_the_first";
    let _turn = only_turn();
    if !can_be_hostile(TEST) {
        return;
    }
    let place = Place::new();
    let before = at_first(&place);
    let networks = [Network::new(), Network::new()];
    let Some(mut first) = owner(TEST, &place, &networks[0]) else { return };
    let held = pages();
    let kinds = [&["unshare", "-i", "-u"][..], &["unshare", "-m", "-p", "-f", "--mount-proc"]];
    for words in kinds {
        let command = place.pagewise(&["run", "--system", "--with", "pool=64M", "--", "true"]);
        let second = networks[1].holds(&behind(words, &command)).output().unwrap();
        let reported = said(&second.stderr);
        let is_left = (pages(), first.try_wait().unwrap().is_none());
        if is_left != (held, true) {
            end(&mut first, Signal::TERM);
        }
        assert_eq!(is_left, (held, true), "{reported}");
        assert_eq!(second.status.code(), Some(0), "{reported}");
        assert!(reported.contains("changes settings of this machine"), "{reported}");
        let next = networks[1].holds(&behind(words, &place.pagewise(&["history"])));
        let reported = said(&{ next }.output().unwrap().stderr);
        assert!(reported.is_empty() && pages() == held, "{reported}");
    }
    end(&mut first, Signal::TERM);
    assert_eq!(pages(), before);
}

#[test]
fn pages_are_given_back_whoever_holds_the_name_of_the_lock() {
    const TEST: &str = "pages_are_given_back_whoever_holds_the_name_of_the_lock";
    let _turn = only_turn();
    if !can_be_hostile(TEST) {
        return;
    }
    let (place, network) = (Place::new(), Network::new());
    let before = at_first(&place);
    let Some(mut first) = owner(TEST, &place, &network) else { return };
    end(&mut first, Signal::KILL);
    assert!(pages() > before, "nobody was left to give them back");
    let mut hostile = neighbour(&network);
    let next = network.holds(&place.pagewise(&["history"])).output().unwrap();
    let left = pages();
    let mut again = place.pagewise(&["run", "--system", "--with", "pool=8M", "--", "true"]);
    again.env("LC_ALL", "C");
    let again = network.holds(&again).output().unwrap();
    let refused =
        network.holds(&place.pagewise(&["tune", "--no-wait", "--", "true"])).output().unwrap();
    end(&mut hostile, Signal::KILL);
    let reported = said(&next.stderr);
    if left != before {
        let _clean = place.pagewise(&["history"]).output();
    }
    assert_eq!(left, before, "{reported}");
    assert!(reported.contains("reserved by a killed run"), "{reported}");
    // Root's settings do not wait for a name that any account can take. Experiments wait, and name its owner.
    let reported = said(&again.stderr);
    assert!(!reported.contains("started without it"), "{reported}");
    assert_eq!((refused.status.code(), pages()), (Some(3), before));
    let reported = said(&refused.stderr);
    assert!(
        reported.contains(&format!("uid {NOBODY}")) && reported.contains("python3"),
        "{reported}"
    );
    assert!(reported.contains("help: "), "{reported}");
}

#[test]
fn pages_that_cannot_be_given_back_are_reported() {
    const TEST: &str = "pages_that_cannot_be_given_back_are_reported";
    let _turn = only_turn();
    if !can_be_hostile(TEST) {
        return;
    }
    let (place, network) = (Place::new(), Network::new());
    let before = at_first(&place);
    let Some(mut first) = owner(TEST, &place, &network) else { return };
    end(&mut first, Signal::KILL);
    let closed =
        ["unshare", "-m", "sh", "-c", "mount -o remount,bind,ro /sys && exec \"$@\"", "sh"];
    let next = behind(&closed, &place.pagewise(&["history"])).output().unwrap();
    let (reported, left) = (said(&next.stderr), pages());
    let repaired = place.pagewise(&["history"]).output().unwrap();
    assert_eq!(pages(), before, "{}", said(&repaired.stderr));
    assert!(left > before, "the setting could not be written");
    assert!(
        reported.contains("cannot give back") && reported.contains("nr_hugepages"),
        "{reported}"
    );
}
