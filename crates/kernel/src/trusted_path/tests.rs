use super::*;
use std::fs::{Permissions, create_dir, set_permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};

/// A directory of this account that contains another one.
fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let inner = dir.path().canonicalize().unwrap().join("inner");
    create_dir(&inner).unwrap();
    (dir, inner)
}

fn walked(path: &Path) -> Result<Option<PathBuf>, PathError> {
    walk(path, MissingNamePolicy::Ends).map(|found| found.map(|dir| dir.path().to_owned()))
}

fn doubt(path: &Path) -> (PathBuf, PathDoubt) {
    match walked(path) {
        Err(PathError::Doubtful { at, why }) => (at, why),
        other => panic!("{}: {other:?}", path.display()),
    }
}

fn mode(path: &Path, mode: u32) {
    set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn what_is_missing_is_made_only_where_that_is_asked_for() {
    let (_dir, inner) = place();
    let far = inner.join("a/./b/../c");
    assert_eq!(walked(&far).unwrap(), None);
    assert_eq!(inner.read_dir().unwrap().count(), 0);
    let made = walk(&far, MissingNamePolicy::IsMade).unwrap().unwrap();
    assert_eq!(made.path(), inner.join("a/c"));
    assert_eq!(inner.join("a/c").metadata().unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(walked(&inner.join("a/c")).unwrap(), Some(inner.join("a/c")));
    std::fs::write(inner.join("file"), "").unwrap();
    let error = walked(&inner.join("file/below")).unwrap_err();
    assert!(matches!(&error, PathError::Sys(e) if e.errno() == Some(libc::ENOTDIR)), "{error}");
}

#[test]
fn nothing_on_the_way_may_be_written_by_others_unless_they_cannot_rename() {
    let (_dir, inner) = place();
    let below = inner.join("below");
    create_dir(&below).unwrap();
    mode(&inner, 0o777);
    assert_eq!(doubt(&below), (inner.clone(), PathDoubt::Open));
    mode(&inner, 0o1777);
    assert_eq!(walked(&below).unwrap(), Some(below.clone()));
    mode(&below, 0o1777);
    assert_eq!(walked(&below).unwrap(), Some(below));
}

#[test]
fn links_are_followed_where_nobody_else_could_have_set_them() {
    let (_dir, inner) = place();
    let (link, round) = (inner.join("link"), inner.join("round"));
    create_dir(inner.join("real")).unwrap();
    symlink("real", &link).unwrap();
    symlink("round", &round).unwrap();
    assert_eq!(walked(&link).unwrap(), Some(inner.join("real")));
    symlink(inner.join("link"), inner.join("far")).unwrap();
    assert_eq!(walked(&inner.join("far")).unwrap(), Some(inner.join("real")));
    let error = walked(&round).unwrap_err();
    assert!(matches!(&error, PathError::Sys(e) if e.errno() == Some(libc::ELOOP)), "{error}");
    // The target of a link is checked as well.
    mode(&inner.join("real"), 0o777);
    assert_eq!(doubt(&link), (inner.join("real"), PathDoubt::Open));
}

#[test]
fn what_belongs_to_others_is_doubted_links_too() {
    let (_dir, inner) = place();
    mode(&inner, 0o1777);
    let (theirs, link) = (inner.join("theirs"), inner.join("link"));
    create_dir(&theirs).unwrap();
    symlink("/tmp", &link).unwrap();
    let given = chown(&theirs, Some(1234), None)
        .and_then(|()| std::os::unix::fs::lchown(&link, Some(1234), None));
    if let Err(error) = given {
        return println!("SKIP what_belongs_to_others_is_doubted: {error}");
    }
    assert_eq!(doubt(&theirs.join("below")), (theirs, PathDoubt::Foreign(1234)));
    assert_eq!(doubt(&link), (link, PathDoubt::Foreign(1234)));
    // The overflow uid is an ordinary user here.
    let nobody = inner.join("nobody");
    create_dir(&nobody).unwrap();
    chown(&nobody, Some(65534), None).unwrap();
    assert_eq!(doubt(&nobody).1, PathDoubt::Foreign(65534));
}

#[test]
fn a_group_may_write_where_nobody_else_is_in_it() {
    let (_dir, inner) = place();
    mode(&inner, 0o775);
    if chown(&inner, None, Some(4321)).is_err() {
        return println!("SKIP a_group_may_write: only root gives a directory to a group");
    }
    assert_eq!(doubt(&inner), (inner.clone(), PathDoubt::Group(4321)));
    let error = walked(&inner).unwrap_err().to_string();
    assert!(error.ends_with("inner can be written by other users (group 4321)"), "{error}");
    mode(&inner, 0o1775);
    assert!(walked(&inner).is_ok());
}

#[test]
fn a_group_is_private_by_the_files_that_list_users_and_groups() {
    let users = b"root:x:0:0::/:\nann:x:1000:1000::/:\nbob:x:1001:1001::/:\n\
        eve:x:1002:100::/:\nold:x:1003:1000\nnot a user";
    let groups = b"root:x:0:\nann:x:1000:\nbob:x:1001:ann\nusers:x:100:eve,ann\nself:x:50:ann\n";
    let ann = [0, 1000];
    let private = |owner_group: (u32, u32)| has_no_others(users, groups, owner_group, &ann);
    assert!(private((1000, 50)), "a group of ann alone");
    assert!(!private((1000, 1000)), "`old` has it as its first group");
    assert!(!private((1000, 100)), "eve is in it");
    assert!(private((0, 0)));
    assert!(private((7000, 7000)), "in no file, with the number of its owner");
    assert!(!private((7000, 7001)), "in no file");
    assert!(!has_no_others(users, groups, (1001, 1001), &[0, 1001]), "ann is in it");
    assert!(has_no_others(b"", b"", (5, 5), &[]) && !has_no_others(b"\xff", b"::", (5, 6), &[]));
}

#[test]
fn a_user_without_a_number_is_distinguished_from_one_that_has_it() {
    assert!(has_number("         0          0 4294967295\n", 65534));
    assert!(!has_number("0 1000 1\n", 65534));
    assert!(has_number("0 1000 1\n1 100000 65536\n", 65534));
    assert!(!has_number("", 0) && !has_number("no map", 0));
}
