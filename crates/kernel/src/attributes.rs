//! Extended attributes of a file (xattr(7)): named bytes besides its content. They include its access list
//! (`system.posix_acl_access`), capabilities(7) (`security.capability`), security labels, and attributes set
//! by users (`user.*`).
//!
//! Listed by flistxattr(2), read by fgetxattr(2), set by fsetxattr(2). Not seen: `trusted.*` by accounts
//! other than root; flags such as those of chattr(1), which are not extended attributes. Overhead: two calls
//! for the list and two for each attribute.

use crate::error::SysError;
use rustix::fs::{XattrFlags, fgetxattr, fgetxattr_query, flistxattr, flistxattr_query, fsetxattr};
use rustix::io::Errno;
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd};

/// An extended attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtendedAttribute {
    /// Its name, including the namespace prefix.
    pub name: CString,
    /// Its bytes.
    pub value: Vec<u8>,
}

impl ExtendedAttribute {
    /// Its name for messages.
    #[must_use]
    pub fn label(&self) -> String {
        self.name.to_string_lossy().into_owned()
    }

    /// Sets it on a file.
    ///
    /// # Errors
    /// EPERM if this account may not set it, ENOTSUP if the file system does not support it, ENOSPC.
    pub fn set(&self, file: &impl AsFd) -> Result<(), SysError> {
        fsetxattr(file, self.name.as_c_str(), &self.value, XattrFlags::empty())
            .map_err(|e| SysError::new("fsetxattr", self.label(), e))
    }
}

/// The name of the access list of a file (acl(5)).
pub const ACCESS_LIST: &std::ffi::CStr = c"system.posix_acl_access";
/// Bytes before the entries of an access list (linux/posix_acl_xattr.h).
const LIST_HEAD: usize = 4;
/// Bytes of an entry: tag, rights, id.
const LIST_ENTRY: usize = 8;

/// The access list of a file, which may be open with `O_PATH`; `None` if the mode says everything.
///
/// # Errors
/// When it cannot be read.
pub fn access_list(file: &impl AsFd) -> Result<Option<Vec<u8>>, SysError> {
    let through = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    let read = || {
        let size = rustix::fs::getxattr_query(&through, ACCESS_LIST)?;
        let mut list = vec![0; size];
        let used = rustix::fs::getxattr(&through, ACCESS_LIST, &mut list[..])?;
        list.truncate(used);
        Ok(list)
    };
    match read() {
        Ok(list) => Ok(Some(list)),
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(None),
        Err(error) => Err(SysError::new("getxattr", ACCESS_LIST.to_string_lossy(), error)),
    }
}

/// The same access list without any execute permission.
#[must_use]
pub fn without_execution(mut list: Vec<u8>) -> Vec<u8> {
    let entries = list.get_mut(LIST_HEAD..).unwrap_or_default();
    for rights in entries.chunks_exact_mut(LIST_ENTRY).filter_map(|entry| entry.get_mut(2)) {
        *rights &= 0o6;
    }
    list
}

/// All attributes of a file that this account can see. `subject` names the file in errors.
///
/// # Errors
/// When they cannot be read, or change meanwhile.
pub fn list(file: &impl AsFd, subject: &str) -> Result<Vec<ExtendedAttribute>, SysError> {
    let failed = |e| SysError::new("flistxattr", subject, e);
    let len = match flistxattr_query(file) {
        Ok(len) => len,
        Err(Errno::NOTSUP | Errno::NOSYS) => 0,
        Err(error) => return Err(failed(error)),
    };
    let mut names = vec![0; len];
    let used = if len == 0 { 0 } else { flistxattr(file, &mut names[..]).map_err(failed)? };
    // Each name ends with a NUL byte.
    let names = names[..used].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names.filter_map(|name| CString::new(name).ok()).map(|name| read(file, name, subject)).collect()
}

fn read(file: &impl AsFd, name: CString, subject: &str) -> Result<ExtendedAttribute, SysError> {
    let failed =
        |e| SysError::new("fgetxattr", format!("{} of {subject}", name.to_string_lossy()), e);
    let mut value = vec![0; fgetxattr_query(file, name.as_c_str()).map_err(failed)?];
    if !value.is_empty() {
        let used = fgetxattr(file, name.as_c_str(), &mut value[..]).map_err(failed)?;
        value.truncate(used);
    }
    Ok(ExtendedAttribute { name, value })
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn what_is_set_is_listed_with_its_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let file = File::create(dir.path().join("file")).unwrap();
        let before = list(&file, "file").unwrap();
        let named = |name: &str, value: &[u8]| ExtendedAttribute {
            name: CString::new(name).unwrap(),
            value: value.to_vec(),
        };
        let (full, empty) = (named("user.full", b"a\0b"), named("user.empty", b""));
        if let Err(error) = full.set(&file) {
            return println!("SKIP what_is_set_is_listed_with_its_bytes: {error}");
        }
        empty.set(&file).unwrap();
        let found = list(&file, "file").unwrap();
        assert_eq!(found.len(), before.len() + 2, "{found:?}");
        assert!(found.contains(&full) && found.contains(&empty), "{found:?}");
    }

    #[test]
    fn a_file_system_without_attributes_has_none_and_takes_none() {
        let file = File::open("/proc/self/status").unwrap();
        assert_eq!(list(&file, "status").unwrap(), []);
        let attribute = ExtendedAttribute { name: CString::new("user.x").unwrap(), value: vec![1] };
        assert_eq!(attribute.set(&file).unwrap_err().call, "fsetxattr");
    }
}
