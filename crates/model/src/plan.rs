//! Plans: the effect of a remedy on a program, as data. The plan goes to the process that starts the program,
//! and into the receipt, so the receipt repeats exactly the arm that was tested.

use crate::name::is_in_line;
use crate::schema::JsonSchema;
use crate::units::{Bytes, PageSize};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// One environment variable to set, merged with the user's value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnvMerge {
    /// Name of the variable.
    pub name: String,
    /// Separator between its entries (`:` for GLIBC_TUNABLES, `,` for MALLOC_CONF).
    pub separator: Option<char>,
    /// Entries `key=value` or, without a separator, the whole value. If the user's value already has the key,
    /// the user's entry stays.
    pub entries: Vec<String>,
}

/// The variable that names libraries to load before all others (ld.so(8)).
pub const LD_PRELOAD: &str = "LD_PRELOAD";

/// A restriction of transparent huge pages for the tree (`prctl(PR_SET_THP_DISABLE)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ThpRestriction {
    /// Huge pages are off, also in processes after fork and exec.
    Off,
}

/// A tool for pipelines that pagewise provides itself, with the same options (docs/tools.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[derive(strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum PipelineTool {
    /// `cat`.
    Cat,
    /// `tee`.
    Tee,
}

impl PipelineTool {
    pub const ALL: [Self; 2] = [Self::Cat, Self::Tee];
}

/// The use of a file by a program.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// An ELF file with code that the program runs.
    Code,
    /// A file that the program reads.
    Input,
}

/// A file to hold in huge folios of the page cache when the program starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HugeFile {
    pub path: String,
    /// The use of the file by the program.
    pub kind: FileKind,
}

impl HugeFile {
    /// Separator of files in a list.
    pub const SEPARATOR: char = ':';

    /// A file by its absolute path; none if the path cannot stand in a list of remedies.
    #[must_use]
    pub fn of(path: &Path, kind: FileKind) -> Option<Self> {
        let text = path.to_str().filter(|text| !text.contains([',', Self::SEPARATOR]))?;
        if !is_in_line(text) {
            return None;
        }
        path.is_absolute().then(|| Self { path: text.to_owned(), kind })
    }
}

/// An action of the supervising process on the running tree, from outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "watch", rename_all = "snake_case")]
pub enum WatchAction {
    /// Grow every pipe that the tree creates.
    GrowPipes {
        /// Capacity that pipes grow to.
        capacity_bytes: Bytes,
        /// Most memory that grown pipes may use. Above it no further pipe grows.
        budget_bytes: Bytes,
    },
    /// Advise huge pages for each new large anonymous mapping, by one injected call.
    AdviseHuge {
        /// Size of the smallest mapping that is advised.
        min_bytes: Bytes,
        /// Most resident memory of the tree. Above it no further mapping is advised.
        growth_limit_bytes: Bytes,
    },
    /// Count the memory of the tree on pages of the reserved pool.
    CountPool {
        /// Size of these pages.
        page_bytes: PageSize,
    },
    /// Keep processes that a pipe connects on alternating CPUs.
    AlternateCpus { cpus: Vec<u32> },
}

/// Memory that must be free in the pool of reserved huge pages when a program starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoolNeed {
    pub bytes: Bytes,
    /// Page size of the pool.
    pub page_bytes: PageSize,
}

impl PoolNeed {
    /// Number of pages that hold it.
    #[must_use]
    pub const fn pages(self) -> u64 {
        self.bytes.pages(self.page_bytes)
    }
}

/// Everything that makes an arm different from a plain run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ArmSettings {
    /// Environment variables.
    pub env: Vec<EnvMerge>,
    pub thp: Option<ThpRestriction>,
    /// CPUs that the tree may run on, by inherited affinity.
    pub cpus: Option<Vec<u32>>,
    /// Actions while the program runs.
    pub watches: Vec<WatchAction>,
    /// Path of a saved working set that is read before the program starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_set: Option<String>,
    /// Tools for which the tree finds pagewise's own, in front of PATH.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<PipelineTool>,
    /// Options for Java programs, in front of the user's options.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jvm_options: Vec<String>,
    /// Files to bring into huge folios of the page cache before the program starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub huge_files: Vec<HugeFile>,
    /// Memory that must be free in the pool of huge pages. Otherwise the other settings are not applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolNeed>,
    /// The only folio size for memory with advice, by settings of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folios: Option<PageSize>,
}

impl ArmSettings {
    /// True if nothing is changed.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }
    /// True if a supervising process must stay beside the program.
    #[must_use]
    pub fn needs_supervision(&self) -> bool {
        !self.watches.is_empty()
    }
    /// True if settings of the machine may have to change during the run.
    #[must_use]
    pub const fn needs_machine(&self) -> bool {
        self.pool.is_some() || self.folios.is_some()
    }
    /// Paths of libraries that the dynamic linker loads before the program's own.
    pub fn preloaded(&self) -> impl Iterator<Item = &str> {
        let preloads = self.env.iter().filter(|merge| merge.name == LD_PRELOAD);
        preloads.flat_map(|merge| merge.entries.iter().map(String::as_str))
    }
    /// Both settings together: `other` is added to `self`.
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
        let more: Vec<PipelineTool> =
            other.tools.iter().copied().filter(|tool| !all.tools.contains(tool)).collect();
        all.tools.extend(more);
        all.jvm_options.extend(other.jvm_options.iter().cloned());
        all.huge_files.extend(other.huge_files.iter().cloned());
        all.pool = all.pool.or(other.pool);
        all.folios = all.folios.or(other.folios);
        all
    }
}

/// A remedy with its parameters, ready to try: `name` or `name=parameter`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RemedyDose {
    /// Name of the remedy.
    #[serde(deserialize_with = "crate::name::of_remedy")]
    pub remedy: String,
    /// Parameter as the user types it after `=`; empty for the default.
    #[serde(deserialize_with = "crate::name::of_remedy")]
    pub parameter: String,
    /// Effect of the remedy on the program.
    pub settings: ArmSettings,
}

/// The doses as one list, in the form that `run --with` takes.
#[must_use]
pub fn list(doses: &[RemedyDose]) -> String {
    doses.iter().map(RemedyDose::spec).collect::<Vec<_>>().join(",")
}

impl RemedyDose {
    /// `name` or `name=parameter`, in the form that `run --with` takes.
    #[must_use]
    pub fn spec(&self) -> String {
        if self.parameter.is_empty() {
            self.remedy.clone()
        } else {
            format!("{}={}", self.remedy, self.parameter)
        }
    }
}

/// A remedy with the answer whether it fits the program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RemedyCandidate {
    /// Name of the remedy.
    pub remedy: String,
    /// Effect of the remedy, in one sentence.
    pub sentence: String,
    /// Why it fits, or why it does not.
    pub why: String,
    /// Largest gain that it could bring, as a share (0..1) of wall time; 0 if it does not fit.
    pub ceiling_share: f64,
    /// Doses to try; empty if it does not fit.
    pub doses: Vec<RemedyDose>,
}

impl RemedyCandidate {
    /// True if there is a dose to try.
    #[must_use]
    pub fn fits(&self) -> bool {
        !self.doses.is_empty()
    }
}

/// Environment variables in the forms of container tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContainerLines {
    /// `docker run` with its options; podman takes the same.
    pub docker_run: String,
    /// Lines of a Compose file.
    pub compose: Vec<String>,
    /// Lines of a container in a Kubernetes pod.
    pub kubernetes: Vec<String>,
}

/// Instructions to keep a remedy and to undo it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RemedyReceipt {
    /// Command that starts the program with the remedy.
    pub command: String,
    /// Environment lines (`export NAME=value`), if the environment alone applies the remedy.
    pub environment: Vec<String>,
    /// Lines of a systemd drop-in.
    pub systemd: Vec<String>,
    /// Lines for containers, if the program is a service and the environment alone applies the remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub containers: Option<ContainerLines>,
    /// Cost of the remedy and other notes, one sentence each.
    pub notes: Vec<String>,
    /// Instructions to undo the remedy.
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
