//! The environment that a program is started with: the user's own, with the entries of a plan merged in.
//!
//! Some variables hold a list (`GLIBC_TUNABLES=a=1:b=2`, `MALLOC_CONF=x:1,y:2`), so setting one means adding
//! entries to the user's list. The user wins: an entry whose key is already present is dropped, and a
//! variable without list structure that is already set is not changed. All functions here are pure and work
//! on bytes; names and values need not be UTF-8.

use pagewise_model::plan::EnvMerge;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Name and value of each variable, in order.
pub type Variables = Vec<(OsString, OsString)>;

/// `base` with all merges applied in order.
#[must_use]
pub fn merge(base: Variables, merges: &[EnvMerge]) -> Variables {
    let mut all = base;
    for one in merges {
        apply(&mut all, one);
    }
    all
}

/// The value of a variable; `None` if it is not set.
pub(crate) fn value<'a>(all: &'a Variables, name: &str) -> Option<&'a OsStr> {
    all.iter().find(|(one, _)| one == name).map(|(_, value)| value.as_os_str())
}

/// Sets a variable, adding it if it does not exist.
pub(crate) fn set(all: &mut Variables, name: &str, value: OsString) {
    match all.iter_mut().find(|(one, _)| one == name) {
        Some((_, present)) => *present = value,
        None => all.push((name.into(), value)),
    }
}

fn apply(all: &mut Variables, merge: &EnvMerge) {
    if merge.entries.is_empty() {
        return;
    }
    let present = all.iter_mut().find(|(name, _)| name.as_bytes() == merge.name.as_bytes());
    match (present, merge.separator) {
        (Some(_), None) => {}
        (Some((_, value)), Some(separator)) => *value = add_entries(value, merge, separator),
        (None, None) => {
            all.push((merge.name.clone().into(), merge.entries.concat().into()));
        }
        (None, Some(separator)) => {
            all.push((merge.name.clone().into(), add_entries(OsStr::new(""), merge, separator)));
        }
    }
}

/// The list `value`, plus the entries of `merge` whose keys it lacks.
fn add_entries(value: &OsStr, merge: &EnvMerge, separator: char) -> OsString {
    let mut mark = [0; 4];
    let mark = separator.encode_utf8(&mut mark).as_bytes();
    let mut list = value.as_bytes().to_vec();
    for entry in &merge.entries {
        let wanted = key(entry.as_bytes());
        if split(&list, mark).any(|have| key(have) == wanted) {
            continue;
        }
        if !list.is_empty() && !list.ends_with(mark) {
            list.extend_from_slice(mark);
        }
        list.extend_from_slice(entry.as_bytes());
    }
    OsString::from_vec(list)
}

/// Pieces of `list` between separators of one byte or more.
fn split<'a>(list: &'a [u8], mark: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = Some(list);
    std::iter::from_fn(move || {
        let here = rest?;
        match here.windows(mark.len()).position(|w| w == mark) {
            Some(at) => {
                rest = Some(&here[at + mark.len()..]);
                Some(&here[..at])
            }
            None => {
                rest = None;
                Some(here)
            }
        }
    })
}

/// The part of an entry before its first `=` or `:` (jemalloc writes `key:value`).
fn key(entry: &[u8]) -> &[u8] {
    let end = entry.iter().position(|b| matches!(b, b'=' | b':')).unwrap_or(entry.len());
    entry[..end].trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glibc(entries: &[&str]) -> EnvMerge {
        EnvMerge {
            name: "GLIBC_TUNABLES".into(),
            separator: Some(':'),
            entries: entries.iter().map(|e| (*e).to_owned()).collect(),
        }
    }

    fn merged(value: Option<&str>, with: &EnvMerge) -> Option<String> {
        let base: Variables = value
            .map(|v| (OsString::from(&with.name), OsString::from(v)))
            .into_iter()
            .chain([("HOME".into(), "/h".into())])
            .collect();
        let out = merge(base, std::slice::from_ref(with));
        assert!(out.contains(&("HOME".into(), "/h".into())));
        let named: Vec<_> = out.iter().filter(|(n, _)| n == with.name.as_str()).collect();
        assert!(named.len() <= 1);
        named.first().map(|(_, v)| v.to_str().unwrap().to_owned())
    }

    #[test]
    fn entries_join_with_what_is_there() {
        let with = glibc(&["glibc.malloc.hugetlb=1", "glibc.malloc.trim_threshold=9"]);
        let both = "glibc.malloc.hugetlb=1:glibc.malloc.trim_threshold=9";
        assert_eq!(merged(None, &with).as_deref(), Some(both));
        assert_eq!(merged(Some(""), &with).as_deref(), Some(both));
        assert_eq!(merged(Some("a.b=1"), &with), Some(format!("a.b=1:{both}")));
        assert_eq!(merged(Some("a.b=1:"), &with), Some(format!("a.b=1:{both}")));
    }

    #[test]
    fn the_users_value_of_a_key_wins() {
        let with = glibc(&["glibc.malloc.hugetlb=1", "x=2"]);
        let out = merged(Some("glibc.malloc.hugetlb=0"), &with);
        assert_eq!(out.as_deref(), Some("glibc.malloc.hugetlb=0:x=2"));
        // A key that is a mere prefix of the user's key is a different key.
        let out = merged(Some("glibc.malloc.hugetlb_more=0"), &glibc(&["glibc.malloc.hugetlb=1"]));
        assert_eq!(out.as_deref(), Some("glibc.malloc.hugetlb_more=0:glibc.malloc.hugetlb=1"));
    }

    #[test]
    fn jemalloc_keys_end_at_a_colon() {
        let with = EnvMerge {
            name: "MALLOC_CONF".into(),
            separator: Some(','),
            entries: vec!["thp:always".into(), "metadata_thp:auto".into()],
        };
        let out = merged(Some("thp:never,narenas:1"), &with);
        assert_eq!(out.as_deref(), Some("thp:never,narenas:1,metadata_thp:auto"));
    }

    #[test]
    fn a_variable_without_list_is_set_only_when_absent() {
        let with = EnvMerge { name: "V".into(), separator: None, entries: vec!["1".into()] };
        assert_eq!(merged(None, &with).as_deref(), Some("1"));
        assert_eq!(merged(Some("0"), &with).as_deref(), Some("0"));
        assert_eq!(merged(Some(""), &with).as_deref(), Some(""));
        let nothing = EnvMerge { name: "V".into(), separator: None, entries: vec![] };
        assert_eq!(merged(None, &nothing), None);
    }

    #[test]
    fn a_variable_is_set_in_its_place() {
        let mut all: Variables = vec![("PATH".into(), "/a".into()), ("HOME".into(), "/h".into())];
        set(&mut all, "PATH", "/b".into());
        set(&mut all, "LANG", "C".into());
        assert_eq!([value(&all, "PATH"), value(&all, "PAT")], [Some(OsStr::new("/b")), None]);
        let names: Vec<&OsStr> = all.iter().map(|(name, _)| name.as_os_str()).collect();
        assert_eq!(names, ["PATH", "HOME", "LANG"]);
    }

    #[test]
    fn bytes_that_are_not_utf8_survive() {
        let odd = OsString::from_vec(b"k=\xff".to_vec());
        let out = merge(vec![("GLIBC_TUNABLES".into(), odd)], &[glibc(&["a=1"])]);
        assert_eq!(out[0].1.as_bytes(), b"k=\xff:a=1");
    }
}
