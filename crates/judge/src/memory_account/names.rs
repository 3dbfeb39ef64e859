//! Classifies a mapping by its name, its permissions and the known owners in its process.

use pagewise_model::Bytes;
use pagewise_model::memory_account::{
    MappingMemorySeen, MemoryKind, OwnerEvidence, ProcessMemorySeen,
};

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
pub(super) struct NamedMemory {
    pub(super) kind: MemoryKind,
    pub(super) name: String,
    pub(super) evidence: OwnerEvidence,
}

impl NamedMemory {
    pub(super) fn marked(kind: MemoryKind, name: &str) -> Self {
        Self { kind, name: name.to_owned(), evidence: OwnerEvidence::Mark }
    }

    fn by_name(kind: MemoryKind, name: &str) -> Self {
        Self { kind, name: name.to_owned(), evidence: OwnerEvidence::Name }
    }
}

/// What the code of the file `object` has mapped.
pub(super) fn mapped_by(object: &str) -> NamedMemory {
    let file = object.rsplit('/').next().unwrap_or(object);
    let is_one_of = |names: &[&str]| names.iter().any(|name| file.starts_with(name));
    let kind = match file {
        _ if is_one_of(&ALLOCATORS) => MemoryKind::Arena,
        _ if is_one_of(&RUNTIMES) => MemoryKind::Runtime,
        _ => MemoryKind::Mapped,
    };
    NamedMemory { kind, name: object.to_owned(), evidence: OwnerEvidence::Caller }
}

/// The name of `mapping`'s remainder of `rest` resident bytes after all its claims.
pub(super) fn named(
    process: &ProcessMemorySeen,
    mapping: &MappingMemorySeen,
    rest: Bytes,
) -> Vec<(NamedMemory, Bytes)> {
    if mapping.is_file {
        return of_file(mapping, rest);
    }
    vec![(without_file(process, mapping), rest)]
}

fn of_file(mapping: &MappingMemorySeen, rest: Bytes) -> Vec<(NamedMemory, Bytes)> {
    let path = mapping.path.strip_suffix(DELETED).unwrap_or(&mapping.path);
    if SHARED.iter().any(|place| path.starts_with(place)) {
        return vec![(NamedMemory::by_name(MemoryKind::Shared, path), rest)];
    }
    let kind = if mapping.is_executable { MemoryKind::Code } else { MemoryKind::File };
    let written = match mapping.is_shared {
        true => Bytes(0),
        false => mapping.resident.anonymous_bytes.min(rest),
    };
    vec![
        (NamedMemory::by_name(MemoryKind::Data, path), written),
        (NamedMemory::by_name(kind, path), Bytes(rest.0 - written.0)),
    ]
}

fn without_file(process: &ProcessMemorySeen, mapping: &MappingMemorySeen) -> NamedMemory {
    let path = mapping.path.as_str();
    if let Some(label) = path.strip_prefix("[anon:").or_else(|| path.strip_prefix("[anon_shmem:")) {
        return NamedMemory::by_name(MemoryKind::Labelled, label.trim_end_matches(']').trim());
    }
    match path {
        "[heap]" => NamedMemory::by_name(MemoryKind::Arena, "heap"),
        "[stack]" => NamedMemory::by_name(MemoryKind::Stack, "first thread"),
        "" => nameless(process, mapping),
        other => NamedMemory::by_name(MemoryKind::Kernel, other),
    }
}

fn nameless(process: &ProcessMemorySeen, mapping: &MappingMemorySeen) -> NamedMemory {
    if mapping.is_executable {
        let maker = process.owner.as_ref().unwrap_or(&process.name);
        return NamedMemory::marked(MemoryKind::Generated, maker);
    }
    match &process.owner {
        Some(owner) => NamedMemory {
            kind: MemoryKind::Arena,
            name: owner.clone(),
            evidence: OwnerEvidence::Exclusion,
        },
        None => NamedMemory {
            kind: MemoryKind::NotNamed,
            name: String::new(),
            evidence: OwnerEvidence::Nothing,
        },
    }
}
