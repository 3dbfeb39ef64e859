//! What a copy keeps of its original besides the content: mode, owner, extended attributes.
//!
//! The order matters, since a new owner clears capabilities (chown(2)) and a mode changes the access list
//! (acl(5)). Attributes that the copy already has, such as a security label from its directory, are left
//! alone if they are equal.

use super::FoldError;
use pagewise_kernel::SysError;
use pagewise_kernel::attributes::{self, ExtendedAttribute};
use pagewise_kernel::cached_file::PageCacheFile;
use pagewise_kernel::privilege::FilePrivileges;
use std::fs::{File, Metadata, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};

/// Attributes that are signatures of the file they belong to.
const SIGNATURES: [&[u8]; 2] = [b"security.ima", b"security.evm"];
/// The permission bits of a mode.
const ACCESS: u32 = 0o777;

/// The attributes to apply.
#[derive(Debug)]
pub(super) struct KeptAttributes {
    metadata: Metadata,
    attributes: Vec<ExtendedAttribute>,
}

/// Those of a file, or why it may not be copied.
pub(super) fn kept(file: &PageCacheFile) -> Result<KeptAttributes, FoldError> {
    let name = file.path().display().to_string();
    let rights = FilePrivileges::of_open(file.file(), &name)?;
    if rights.user.is_some() || rights.group.is_some() {
        let mark = rights.mark().unwrap_or("gains rights");
        let why =
            format!("{name} {mark}: programs with more rights than their caller cannot be folded");
        let help = "a copy would have executable read-only data and weaker address randomisation; link it with aligned segments instead: pagewise text fold --linker";
        return Err(FoldError::refused(why, help));
    }
    let attributes = attributes::list(file.file(), &name)?;
    let is_signature = |found: &&ExtendedAttribute| SIGNATURES.contains(&found.name.to_bytes());
    if let Some(signature) = attributes.iter().find(is_signature) {
        let why = format!("{name} carries a signature over its contents ({})", signature.label());
        let help = "a system that checks signatures would refuse the copy; fold an unsigned copy, then sign it";
        return Err(FoldError::refused(why, help));
    }
    let metadata = file.file().metadata().map_err(|e| SysError::new("fstat", name, e))?;
    Ok(KeptAttributes { metadata, attributes })
}

impl KeptAttributes {
    /// Applies all of it to the copy. Returns a note if the owner differs.
    pub(super) fn give(&self, copy: &File) -> Result<Option<String>, FoldError> {
        let failed = |call| move |e: std::io::Error| SysError::new(call, "the copy", e);
        let own = copy.metadata().map_err(failed("fstat"))?;
        let (user, group) = (self.metadata.uid(), self.metadata.gid());
        let mut mode = self.metadata.mode() & ACCESS;
        let mut note = None;
        if (own.uid(), own.gid()) != (user, group) && fchown(copy, Some(user), Some(group)).is_err()
        {
            let whose = format!("the original to user {user} and group {group}");
            note = Some(format!("it belongs to this account, {whose}"));
            if own.gid() != group && fchown(copy, None, Some(group)).is_err() {
                mode = without_group(mode);
            }
        }
        copy.set_permissions(Permissions::from_mode(mode)).map_err(failed("fchmod"))?;
        let there = attributes::list(copy, "the copy")?;
        for attribute in self.attributes.iter().filter(|wanted| !there.contains(wanted)) {
            attribute.set(copy).map_err(|error| {
                let why = format!("the copy cannot have {}: {error}", attribute.label());
                FoldError::refused(why, "run as root, or fold a copy without it: cp FILE OTHER")
            })?;
        }
        Ok(note)
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.attributes.iter().map(ExtendedAttribute::label).collect()
    }
}

/// A mode for a file of another group: the group gets the permissions of all other users.
const fn without_group(mode: u32) -> u32 {
    (mode & !0o070) | (((mode & 0o007) << 3) & mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_group_may_no_more_than_everybody() {
        assert_eq!(without_group(0o750), 0o700);
        assert_eq!(without_group(0o755), 0o755);
        assert_eq!(without_group(0o705), 0o705);
        assert_eq!(without_group(0o774), 0o744);
    }
}
