//! Keys of shared memory, as `doctor --ftok` finds them.

use pagewise_model::Bytes;
use pagewise_model::capability::{FtokKeys, KeyedSegment};

/// A file with a segment of another account, and another with the same keys.
pub(crate) fn keys() -> Vec<FtokKeys> {
    let segment = KeyedSegment {
        key: 0x410a_1234,
        id: 5,
        size_bytes: Bytes::kib(4),
        uid: 106,
        creator_pid: 1234,
        creator: Some("postgres".into()),
        is_of_other: true,
    };
    let of = |path: &str, other: &str, segments| FtokKeys {
        path: path.into(),
        low_bits: 0x0a_1234,
        same_as: vec![other.into()],
        segments,
    };
    vec![of("/srv/app", "/etc/app", vec![segment]), of("/etc/app", "/srv/app", vec![])]
}
