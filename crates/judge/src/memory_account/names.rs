//! Classifies a mapping by its name, its permissions and the known owners in its process.

use pagewise_model::Bytes;
use pagewise_model::memory_account::{Evidence, Kind, MappingSeen, ProcessSeen};

pub(super) const MAIN: &str = "main arena";
pub(super) const OTHERS: &str = "other arenas";

/// Paths of files that are memory.
const SHARED: [&str; 4] = ["/dev/shm/", "/memfd:", "/SYSV", "/dev/zero"];
/// Suffix of files that have been deleted.
const DELETED: &str = " (deleted)";

/// Libraries that map memory for others.
const ALLOCATORS: [&str; 3] = ["libjemalloc", "libmimalloc", "libtcmalloc"];
const RUNTIMES: [&str; 1] = ["libjvm.so"];

/// What a piece of memory is, and the evidence for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) evidence: Evidence,
}

impl Named {
    pub(super) fn marked(kind: Kind, name: &str) -> Self {
        Self { kind, name: name.to_owned(), evidence: Evidence::Mark }
    }

    fn by_name(kind: Kind, name: &str) -> Self {
        Self { kind, name: name.to_owned(), evidence: Evidence::Name }
    }
}

/// What the code of the file `object` has mapped.
pub(super) fn mapped_by(object: &str) -> Named {
    let file = object.rsplit('/').next().unwrap_or(object);
    let is_one_of = |names: &[&str]| names.iter().any(|name| file.starts_with(name));
    let kind = match file {
        _ if is_one_of(&ALLOCATORS) => Kind::Arena,
        _ if is_one_of(&RUNTIMES) => Kind::Runtime,
        _ => Kind::Mapped,
    };
    Named { kind, name: object.to_owned(), evidence: Evidence::Caller }
}

/// The name of `mapping`'s remainder of `rest` resident bytes after all its claims.
pub(super) fn named(
    process: &ProcessSeen,
    mapping: &MappingSeen,
    rest: Bytes,
) -> Vec<(Named, Bytes)> {
    if mapping.is_file {
        return of_file(mapping, rest);
    }
    vec![(without_file(process, mapping), rest)]
}

fn of_file(mapping: &MappingSeen, rest: Bytes) -> Vec<(Named, Bytes)> {
    let path = mapping.path.strip_suffix(DELETED).unwrap_or(&mapping.path);
    if SHARED.iter().any(|place| path.starts_with(place)) {
        return vec![(Named::by_name(Kind::Shared, path), rest)];
    }
    let kind = if mapping.is_executable { Kind::Code } else { Kind::File };
    let written = match mapping.is_shared {
        true => Bytes(0),
        false => mapping.resident.anonymous_bytes.min(rest),
    };
    vec![
        (Named::by_name(Kind::Data, path), written),
        (Named::by_name(kind, path), Bytes(rest.0 - written.0)),
    ]
}

fn without_file(process: &ProcessSeen, mapping: &MappingSeen) -> Named {
    let path = mapping.path.as_str();
    if let Some(label) = path.strip_prefix("[anon:").or_else(|| path.strip_prefix("[anon_shmem:")) {
        return Named::by_name(Kind::Labelled, label.trim_end_matches(']').trim());
    }
    match path {
        "[heap]" => Named::by_name(Kind::Arena, "heap"),
        "[stack]" => Named::by_name(Kind::Stack, "first thread"),
        "" => nameless(process, mapping),
        other => Named::by_name(Kind::Kernel, other),
    }
}

fn nameless(process: &ProcessSeen, mapping: &MappingSeen) -> Named {
    if mapping.is_executable {
        let maker = process.owner.as_ref().unwrap_or(&process.name);
        return Named::marked(Kind::Generated, maker);
    }
    match &process.owner {
        Some(owner) => {
            Named { kind: Kind::Arena, name: owner.clone(), evidence: Evidence::Exclusion }
        }
        None => Named { kind: Kind::NotNamed, name: String::new(), evidence: Evidence::Nothing },
    }
}
