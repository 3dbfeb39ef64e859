//! Mode and attributes of a copy, or a refusal.

use super::{fold, folded};
use crate::helper::{Place, as_nobody, is_root, open_place, said};
use pagewise_kernel::attributes::{self, ExtendedAttribute};
use std::ffi::CString;
use std::fs::{File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program of this test with this mode.
fn program(directory: &Path, mode: u32) -> PathBuf {
    let path = directory.join("program");
    std::fs::copy("/proc/self/exe", &path).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path
}

fn attribute(name: &str, value: &[u8]) -> ExtendedAttribute {
    ExtendedAttribute { name: CString::new(name).unwrap(), value: value.to_vec() }
}

#[test]
fn mode_and_attributes_are_kept() {
    let place = Place::new();
    let (file, copy) = (program(place.path(), 0o741), place.path().join("copy"));
    let wanted = attribute("user.origin", b"a\0b");
    let has_attributes = wanted.set(&File::open(&file).unwrap()).is_ok();
    let made = folded(&place, &["--merge"], &file, &copy);
    assert_eq!(std::fs::metadata(&copy).unwrap().mode() & 0o7777, 0o741);
    if !has_attributes {
        return println!("SKIP attributes: this file system has none");
    }
    assert!(attributes::list(&File::open(&copy).unwrap(), "copy").unwrap().contains(&wanted));
    assert!(made.attributes.contains(&"user.origin".to_owned()), "{:?}", made.attributes);
}

#[test]
fn capabilities_are_kept_or_the_copy_is_refused() {
    const TEST: &str = "capabilities_are_kept_or_the_copy_is_refused";
    if !is_root() {
        return println!("SKIP {TEST}: only root gives capabilities");
    }
    let open = open_place("pagewise-fold-");
    let (file, copy) = (program(open.path(), 0o755), open.path().join("copy"));
    let given = Command::new("setcap").arg("cap_net_raw+ep").arg(&file).status();
    if !given.is_ok_and(|status| status.success()) {
        return println!("SKIP {TEST}: no setcap, or a file system without capabilities");
    }
    let mut refused = as_nobody(&open.path().join("pagewise"));
    let done = refused.args(["text", "fold"]).arg(&file).arg("-o").arg(&copy).output().unwrap();
    assert_eq!(done.status.code(), Some(2));
    assert!(said(&done.stderr).contains("security.capability"), "{}", said(&done.stderr));
    assert!(!copy.exists());
    let place = Place::new();
    folded(&place, &[], &file, &copy);
    let of = |path: &Path| attributes::list(&File::open(path).unwrap(), "file").unwrap();
    assert_eq!(of(&copy), of(&file));
    assert!(of(&copy).iter().any(|found| found.label() == "security.capability"));
}

#[test]
fn another_account_gets_a_copy_of_its_own() {
    const TEST: &str = "another_account_gets_a_copy_of_its_own";
    if !is_root() {
        return println!("SKIP {TEST}: only root can become another account");
    }
    let open = open_place("pagewise-fold-");
    let (file, copy) = (program(open.path(), 0o755), open.path().join("copy"));
    let mut command = as_nobody(&open.path().join("pagewise"));
    let done = command.args(["text", "fold"]).arg(&file).arg("-o").arg(&copy).output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", said(&done.stderr));
    assert!(said(&done.stdout).contains("belongs to this account"), "{}", said(&done.stdout));
    assert_eq!(std::fs::metadata(&copy).unwrap().uid(), crate::helper::NOBODY);
}

#[test]
fn what_gains_rights_or_is_signed_is_refused() {
    let place = Place::new();
    let copy = place.path().join("copy");
    for mode in [0o4755, 0o2755] {
        let file = program(place.path(), mode);
        let done = fold(&place, &[], &file, &copy);
        assert_eq!(done.status.code(), Some(2));
        assert!(
            said(&done.stderr).contains("more rights than their caller"),
            "{}",
            said(&done.stderr)
        );
    }
    let file = program(place.path(), 0o755);
    // The first byte of the value is its kind. The digest after it is not checked here.
    if let Err(error) = attribute("security.ima", &[1; 21]).set(&File::open(&file).unwrap()) {
        return println!("SKIP signatures: {error}");
    }
    let done = fold(&place, &[], &file, &copy);
    assert_eq!(done.status.code(), Some(2));
    assert!(said(&done.stderr).contains("signature over its contents"), "{}", said(&done.stderr));
    assert!(!copy.exists());
}
