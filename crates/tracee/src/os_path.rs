//! How a path travels in JSON: as the bytes the kernel takes, because a path need not be UTF-8.
//!
//! For `#[serde(with = "crate::os_path")]`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub(crate) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    path.as_os_str().serialize(to)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    OsString::deserialize(from).map(PathBuf::from)
}

/// The same for a path that may be absent.
pub(crate) mod optional {
    use super::{Deserialize, Deserializer, OsString, PathBuf, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        path: &Option<PathBuf>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        path.as_ref().map(|p| p.as_os_str()).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<PathBuf>, D::Error> {
        Ok(Option::<OsString>::deserialize(from)?.map(PathBuf::from))
    }
}
