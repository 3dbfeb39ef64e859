use super::*;
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, chown};

fn change(file: &Path, content: &str) -> FileChange {
    FileChange {
        run: "r".into(),
        arm: "place".into(),
        file: file.display().to_string(),
        content: content.into(),
        mode: 0o755,
        next: Vec::new(),
        next_after_undo: Vec::new(),
        warnings: Vec::new(),
    }
}

#[test]
fn a_new_file_and_its_directories_go_again() {
    let (place, records) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = place.path().join("a.d/b.d/50.conf");
    let applied = apply_in(records.path(), &change(&file, "x"), false).unwrap().unwrap();
    assert_eq!((applied.number, applied.directories.len()), (1, 2));
    assert_eq!(fs::read(&file).unwrap(), b"x");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o755);
    assert!(apply_in(records.path(), &change(&file, "x"), false).unwrap().is_none());
    assert_eq!(undo_in(records.path(), None, false).unwrap().1, UndoOutcome::Removed);
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    assert!(all_in(records.path()).unwrap().is_empty());
    let none = undo_in(records.path(), None, false).unwrap_err().to_string();
    assert_eq!(none, "there is no change to undo");
}

#[test]
fn a_file_that_was_there_comes_back_as_it_was() {
    let (place, records) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = place.path().join("conf");
    fs::write(&file, b"own \xff").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
    let refused = apply_in(records.path(), &change(&file, "x"), false).unwrap_err();
    assert!(refused.to_string().ends_with("conf exists"), "{refused}");
    apply_in(records.path(), &change(&file, "x"), true).unwrap();
    apply_in(records.path(), &change(&place.path().join("other"), "y"), false).unwrap();
    assert_eq!(undo_in(records.path(), Some(1), false).unwrap().1, UndoOutcome::Restored);
    assert_eq!(fs::read(&file).unwrap(), b"own \xff");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(all_in(records.path()).unwrap().len(), 1);
}

#[test]
fn what_was_changed_since_stays_unless_forced() {
    let (place, records) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = place.path().join("conf");
    apply_in(records.path(), &change(&file, "x"), false).unwrap();
    fs::write(&file, "x and more").unwrap();
    let refused = undo_in(records.path(), None, false).unwrap_err();
    assert!(refused.to_string().contains("was changed since"), "{refused}");
    assert_eq!(undo_in(records.path(), None, true).unwrap().1, UndoOutcome::Removed);
}

#[test]
fn an_edited_wrapper_is_one_and_another_program_in_its_place_is_none() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("app");
    let wrapper = change(&file, "#!/bin/sh\n# pagewise: run r\nexec app\n");
    assert!(!is_wrapper_still(&wrapper), "there is no file");
    for (now, is_one) in [
        (wrapper.content.clone(), true),
        (wrapper.content.replace("exec", "exec nice"), true),
        ("#!/bin/sh\nexec app\n".to_owned(), false),
        (String::new(), false),
    ] {
        fs::write(&file, &now).unwrap();
        assert_eq!(is_wrapper_still(&wrapper), is_one, "{now}");
    }
    fs::write(&file, &wrapper.content).unwrap();
    assert!(!is_wrapper_still(&FileChange { mode: 0o644, ..wrapper }));
}

#[test]
fn a_record_without_its_file_is_forgotten() {
    let (place, records) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = place.path().join("conf");
    apply_in(records.path(), &change(&file, "x"), false).unwrap();
    fs::remove_file(&file).unwrap();
    assert_eq!(undo_in(records.path(), None, false).unwrap().1, UndoOutcome::Nothing);
    assert!(all_in(records.path()).unwrap().is_empty());
    assert!(all_in(&records.path().join("never made")).unwrap().is_empty());
}

#[test]
fn a_link_is_not_replaced_and_what_cannot_be_written_leaves_nothing() {
    let (place, records) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let link = place.path().join("link");
    std::os::unix::fs::symlink("target", &link).unwrap();
    assert!(apply_in(records.path(), &change(&link, "x"), true).is_err());
    let below = place.path().join("file");
    fs::write(&below, "").unwrap();
    assert!(apply_in(records.path(), &change(&below.join("x"), "x"), true).is_err());
    assert!(all_in(records.path()).unwrap().is_empty());
}

/// Applies a change to `file` and undoes it.
fn there_and_back(file: &Path) -> Result<UndoOutcome, String> {
    let records = tempfile::tempdir().unwrap();
    let said = |error: ApplyError| error.to_string();
    apply_in(records.path(), &change(file, "x"), true).map_err(said)?;
    undo_in(records.path(), None, false).map(|(_, undone)| undone).map_err(said)
}

#[test]
fn what_an_undo_could_not_give_back_is_not_replaced() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("conf");
    fs::write(&file, "own").unwrap();
    for mode in [0o4755, 0o2755, 0o1644] {
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        let refused = there_and_back(&file).unwrap_err();
        assert!(refused.ends_with("is set-user-ID, set-group-ID or sticky"), "{refused}");
    }
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let fifo = place.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    assert!(there_and_back(&fifo).unwrap_err().ends_with("is not a file that can be restored"));
    assert_eq!(fs::read(&file).unwrap(), b"own");
}

#[test]
fn root_writes_over_nothing_of_others_and_keeps_a_group() {
    if !rustix::process::geteuid().is_root() {
        return println!("SKIP root_writes_over_nothing_of_others: only root gives files away");
    }
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("conf");
    fs::write(&file, "own").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
    chown(&file, None, Some(65001)).unwrap();
    assert_eq!(there_and_back(&file), Ok(UndoOutcome::Restored));
    let now = fs::metadata(&file).unwrap();
    assert_eq!((now.uid(), now.gid(), now.mode() & 0o7777), (0, 65001, 0o640));
    chown(&file, Some(65001), None).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o6777)).unwrap();
    let refused = there_and_back(&file).unwrap_err();
    assert!(refused.ends_with("belongs to another user (uid 65001)"), "{refused}");
    chown(place.path(), Some(65001), None).unwrap();
    for name in ["new", "below/new"] {
        let refused = there_and_back(&place.path().join(name)).unwrap_err();
        assert!(refused.ends_with("belongs to another user (uid 65001)"), "{refused}");
    }
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
}

#[test]
fn an_earlier_record_of_a_special_file_restores_nothing() {
    let (place, records) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = place.path().join("conf");
    fs::write(&file, "own").unwrap();
    let applied = apply_in(records.path(), &change(&file, "x"), true).unwrap().unwrap();
    let text = serde_json::to_string(&applied).unwrap();
    let group = applied.before.unwrap().group.unwrap();
    let old = text.replace(&format!(",\"group\":{group}"), "");
    for (mode, is_restored) in [(0o4755, false), (0o750, true)] {
        let mut record: serde_json::Value = serde_json::from_str(&old).unwrap();
        record["before"]["mode"] = mode.into();
        fs::write(records.path().join("1.json"), record.to_string()).unwrap();
        let undone = undo_in(records.path(), None, false);
        assert_eq!(undone.is_ok(), is_restored, "{undone:?}");
    }
    let now = fs::metadata(&file).unwrap();
    assert_eq!((now.mode() & 0o7777, fs::read(&file).unwrap()), (0o750, b"own".to_vec()));
}
