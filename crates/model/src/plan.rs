//! Plans: what a remedy would do to a program, as data. Carried from the remedy to the process
//! that starts the program, and into the receipt: the arm that is tested runs exactly this.

use crate::name::is_in_line;
use crate::units::{Bytes, PageSize};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// One environment variable to set, merged with what the user already has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnvMerge {
    /// Name of the variable.
    pub name: String,
    /// Separator between its entries (`:` for GLIBC_TUNABLES, `,` for MALLOC_CONF).
    pub separator: Option<char>,
    /// Entries `key=value` or, without separator, the whole value. An entry whose key the user's
    /// value already has is left as the user has it.
    pub entries: Vec<String>,
}

/// The variable that names libraries to load before all others (ld.so(8)).
pub const LD_PRELOAD: &str = "LD_PRELOAD";

/// How transparent huge pages are restricted for the tree (`prctl(PR_SET_THP_DISABLE)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ThpRestriction {
    /// Off altogether, inherited over fork and exec.
    Off,
}

/// A tool of pipelines of which pagewise has its own, with the same options (docs/tools.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[derive(strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum Tool {
    /// `cat`.
    Cat,
    /// `tee`.
    Tee,
}

impl Tool {
    pub const ALL: [Self; 2] = [Self::Cat, Self::Tee];
}

/// What a file is to a program.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// An ELF file with code that it runs.
    Code,
    /// Something it reads.
    Input,
}

/// A file whose page cache is to lie in huge folios when the program starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HugeFile {
    pub path: String,
    /// What it is to the program.
    pub kind: FileKind,
}

impl HugeFile {
    /// What separates files in a list.
    pub const SEPARATOR: char = ':';

    /// A file by its absolute path; none where that cannot stand in a list of remedies.
    #[must_use]
    pub fn of(path: &Path, kind: FileKind) -> Option<Self> {
        let text = path.to_str().filter(|text| !text.contains([',', Self::SEPARATOR]))?;
        if !is_in_line(text) {
            return None;
        }
        path.is_absolute().then(|| Self { path: text.to_owned(), kind })
    }
}

/// Something done to the running tree from outside, by the supervising process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "watch", rename_all = "snake_case")]
pub enum Watch {
    /// Grow every pipe that the tree creates.
    GrowPipes {
        /// Wanted capacity.
        capacity_bytes: Bytes,
        /// Stop growing when this much pipe memory is in use by what was grown.
        budget_bytes: Bytes,
    },
    /// Advise huge pages on each new large anonymous mapping, by one injected call.
    AdviseHuge {
        /// Smallest mapping that is advised.
        min_bytes: Bytes,
        /// Stop when the tree's resident memory exceeds this.
        growth_limit_bytes: Bytes,
    },
    /// Count the memory that the tree has on pages of the reserved pool.
    CountPool {
        /// The size of these pages.
        page_bytes: PageSize,
    },
    /// Keep pipe-connected processes on alternating CPUs.
    AlternateCpus { cpus: Vec<u32> },
}

/// What has to be free in the pool of reserved huge pages when a program starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoolNeed {
    pub bytes: Bytes,
    /// On pages of this size.
    pub page_bytes: PageSize,
}

impl PoolNeed {
    /// Pages that hold it.
    #[must_use]
    pub const fn pages(self) -> u64 {
        self.bytes.pages(self.page_bytes)
    }
}

/// All that makes one arm different from a plain run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Settings {
    /// Environment.
    pub env: Vec<EnvMerge>,
    pub thp: Option<ThpRestriction>,
    /// Affinity inherited by the tree.
    pub cpus: Option<Vec<u32>>,
    /// Things done while it runs.
    pub watches: Vec<Watch>,
    /// A saved working set that is read before the program starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_set: Option<String>,
    /// Tools of which the tree finds ours, in front of PATH.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Tool>,
    /// Options for Java programs, in front of the user's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jvm_options: Vec<String>,
    /// Files that are brought into huge folios of the page cache before the program starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub huge_files: Vec<HugeFile>,
    /// What has to be free in the pool of huge pages, or the rest is left undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolNeed>,
    /// The only folios that memory with advice is to be on, by settings of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folios: Option<PageSize>,
}

impl Settings {
    /// True when nothing at all is changed.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }
    /// True when a process of ours must stay beside the program.
    #[must_use]
    pub fn needs_supervision(&self) -> bool {
        !self.watches.is_empty()
    }
    /// True where settings of the machine may have to be changed meanwhile.
    #[must_use]
    pub const fn needs_machine(&self) -> bool {
        self.pool.is_some() || self.folios.is_some()
    }
    /// Paths of libraries that the dynamic linker loads before those that a program names.
    pub fn preloaded(&self) -> impl Iterator<Item = &str> {
        let preloads = self.env.iter().filter(|merge| merge.name == LD_PRELOAD);
        preloads.flat_map(|merge| merge.entries.iter().map(String::as_str))
    }
    /// Both settings together; `other` adds to `self`.
    #[must_use]
    pub fn merged(&self, other: &Self) -> Self {
        let mut all = self.clone();
        for merge in &other.env {
            match all.env.iter_mut().find(|m| m.name == merge.name) {
                Some(mine) => mine.entries.extend(merge.entries.iter().cloned()),
                None => all.env.push(merge.clone()),
            }
        }
        all.thp = all.thp.or(other.thp);
        all.cpus = all.cpus.or_else(|| other.cpus.clone());
        all.watches.extend(other.watches.iter().cloned());
        all.working_set = all.working_set.or_else(|| other.working_set.clone());
        let more: Vec<Tool> =
            other.tools.iter().copied().filter(|tool| !all.tools.contains(tool)).collect();
        all.tools.extend(more);
        all.jvm_options.extend(other.jvm_options.iter().cloned());
        all.huge_files.extend(other.huge_files.iter().cloned());
        all.pool = all.pool.or(other.pool);
        all.folios = all.folios.or(other.folios);
        all
    }
}

/// A remedy with its parameters chosen, ready to be tried: `name` or `name=parameter`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Dose {
    /// Name of the remedy.
    #[serde(deserialize_with = "crate::name::of_remedy")]
    pub remedy: String,
    /// Parameter, as the user would type it after `=`; empty for the default.
    #[serde(deserialize_with = "crate::name::of_remedy")]
    pub parameter: String,
    /// What it does to the program.
    pub settings: Settings,
}

/// Doses as one list, as `run --with` takes it.
#[must_use]
pub fn list(doses: &[Dose]) -> String {
    doses.iter().map(Dose::spec).collect::<Vec<_>>().join(",")
}

impl Dose {
    /// `name` or `name=parameter`, as `run --with` takes it.
    #[must_use]
    pub fn spec(&self) -> String {
        if self.parameter.is_empty() {
            self.remedy.clone()
        } else {
            format!("{}={}", self.remedy, self.parameter)
        }
    }
}

/// Whether a remedy fits what was seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Candidate {
    /// Name of the remedy.
    pub remedy: String,
    /// What it does, in one sentence.
    pub sentence: String,
    /// Why it fits, or why not.
    pub why: String,
    /// Largest gain it could bring, as a share (0..1) of wall time; 0 where it does not fit.
    pub ceiling_share: f64,
    /// The doses to try; empty where it does not fit.
    pub doses: Vec<Dose>,
}

impl Candidate {
    /// True when there is something to try.
    #[must_use]
    pub fn fits(&self) -> bool {
        !self.doses.is_empty()
    }
}

/// An environment as those who start containers write it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContainerLines {
    /// `docker run` with its options; podman takes the same.
    pub docker_run: String,
    /// Lines of a Compose file.
    pub compose: Vec<String>,
    /// Lines of a container in a Kubernetes pod.
    pub kubernetes: Vec<String>,
}

/// How to keep a remedy, and how to go back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Receipt {
    /// The command that starts the program with the remedy on.
    pub command: String,
    /// Environment lines (`export NAME=value`), where the environment alone does it.
    pub environment: Vec<String>,
    /// Lines of a systemd drop-in.
    pub systemd: Vec<String>,
    /// Lines for containers, where the program is a service and the environment alone does it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub containers: Option<ContainerLines>,
    /// What it costs and what to know, a sentence each.
    pub notes: Vec<String>,
    /// How to go back.
    pub undo: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_list_holds_are_left_out() {
        let of = |path: &str| HugeFile::of(Path::new(path), FileKind::Code).map(|file| file.path);
        assert_eq!(of("/a b/c").as_deref(), Some("/a b/c"));
        for odd in ["/a,b", "/a:b", "/a\nb", "relative"] {
            assert_eq!(of(odd), None, "{odd}");
        }
    }
}
