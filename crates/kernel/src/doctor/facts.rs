//! Plain facts about processor, memory and kernel, for people to read.
//!
//! Sources: `/proc/cpuinfo`, CPUID, sysfs and, if the kernel shows it, its build configuration. Missing facts
//! are left out.

use crate::proc::cpuinfo::{self, CpuInfo};
use crate::proc::{buddyinfo, lines, meminfo, pagetypeinfo, read_bytes, read_text, status};
use crate::tlb::{self, CpuidTlb};
use crate::{hugetlb, page_size, page_table, thp};
use pagewise_model::capability::MachineTrait;

/// Build options that decide whether a remedy or a probe can work.
const OPTIONS: [&str; 6] = [
    "CONFIG_TRANSPARENT_HUGEPAGE",
    "CONFIG_READ_ONLY_THP_FOR_FS",
    "CONFIG_USERFAULTFD",
    "CONFIG_ANON_VMA_NAME",
    "CONFIG_HZ",
    "CONFIG_PAGE_REPORTING",
];

pub(super) fn collect() -> Vec<MachineTrait> {
    let info = cpuinfo::read().unwrap_or_default();
    let mut traits = processor(&info);
    traits.extend(claimed_tlbs());
    traits.extend(caches());
    traits.extend(memory());
    traits.extend(build_options());
    traits
}

fn fact(group: &str, name: impl Into<String>, value: impl Into<String>) -> MachineTrait {
    MachineTrait { group: group.to_owned(), name: name.into(), value: value.into() }
}

fn processor(info: &CpuInfo) -> Vec<MachineTrait> {
    let sizes: Vec<String> = page_table::page_sizes(info).iter().map(ToString::to_string).collect();
    let mut traits = vec![fact("processor", "page sizes", sizes.join(", "))];
    if cfg!(target_arch = "x86_64") {
        let levels = if page_table::has_five_levels(info) { "5" } else { "4" };
        traits.push(fact("processor", "page table levels", levels));
    }
    traits
}

fn claimed_tlbs() -> Vec<MachineTrait> {
    let found = tlb::claimed();
    if found.is_empty() {
        return vec![fact("processor", "TLB as claimed", "nothing claimed")];
    }
    found.into_iter().map(describe_tlb).collect()
}

fn describe_tlb(tlb: CpuidTlb) -> MachineTrait {
    let name = format!("L{} {} {} as claimed", tlb.level, tlb.side.into_str(), tlb.pages);
    let scaled = tlb.scaled.map_or_else(String::new, |n| format!(", or {n} (unit unknown)"));
    fact("processor", name, format!("{} entries{scaled}", tlb.entries))
}

fn caches() -> Vec<MachineTrait> {
    let dir = "/sys/devices/system/cpu/cpu0/cache";
    let describe = |index: u32| {
        let read = |file: &str| read_text(format!("{dir}/index{index}/{file}")).ok();
        let kind = match read("type")?.as_str() {
            "Data" => " data",
            "Instruction" => " code",
            _ => "",
        };
        let name = format!("L{} cache{kind}", read("level")?);
        let cpus = status::parse_list(read("shared_cpu_list")?.as_bytes()).len();
        Some(fact("processor", name, format!("{}, shared by {cpus} CPUs", read("size")?)))
    };
    (0..8).filter_map(describe).collect()
}

fn memory() -> Vec<MachineTrait> {
    let mut traits = Vec::new();
    if let Ok(info) = meminfo::read() {
        traits.push(fact("memory", "installed", info.total.to_string()));
        traits.push(fact("memory", "available", info.available.to_string()));
    }
    traits.extend(pools());
    traits.extend(free_blocks());
    traits.extend(page_blocks());
    if let Ok(nodes) = read_bytes("/sys/devices/system/node/online") {
        traits.push(fact("memory", "NUMA nodes", status::parse_list(&nodes).len().to_string()));
    }
    if let Ok(word) = thp::shmem_enabled() {
        traits.push(fact("memory", "huge pages for shared memory", word));
    }
    traits.extend(offered_sizes());
    traits
}

/// Share of the free memory in blocks that can become huge pages without moving anything.
fn free_blocks() -> Option<MachineTrait> {
    let (base, huge) = (page_size::base(), page_size::huge());
    let info = buddyinfo::read().ok()?;
    let (whole, all) = (info.free_for(huge, base), info.free_for(base, base));
    let value = format!("{whole} of {all} free lie in blocks of {huge} or more");
    Some(fact("memory", "available as huge pages now", value))
}

/// The pools of reserved huge pages.
fn pools() -> Vec<MachineTrait> {
    let sizes = hugetlb::sizes().unwrap_or_default();
    let found = sizes.into_iter().filter_map(|page| hugetlb::pool(page).ok());
    found
        .map(|pool| fact("memory", format!("pool of {} pages", pool.page_bytes), pool.to_string()))
        .collect()
}

/// Share of the memory that could be moved together, if the kernel shows it.
fn page_blocks() -> Option<MachineTrait> {
    let blocks = pagetypeinfo::read().ok()?;
    let all = blocks.movable.saturating_add(blocks.other);
    let value = format!("{} of {all} blocks of memory are kept for movable pages", blocks.movable);
    Some(fact("memory", "available as huge pages by moving", value))
}

fn offered_sizes() -> Option<MachineTrait> {
    let sizes = thp::sizes().ok().filter(|s| !s.is_empty())?;
    let offered: Vec<String> = sizes
        .iter()
        .filter_map(|s| Some((s.size, s.enabled.as_deref()?)))
        .filter(|(_, word)| *word != "never")
        .map(|(size, word)| format!("{size} ({word})"))
        .collect();
    let value = if offered.is_empty() {
        "none apart from the setting `enabled`".to_owned()
    } else {
        offered.join(", ")
    };
    Some(fact("memory", "sizes of transparent huge pages", value))
}

/// Options of an uncompressed configuration in `/boot`; `/proc/config.gz` would need a decompressor.
fn build_options() -> Vec<MachineTrait> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let text = read_bytes(format!("/boot/config-{release}"))
        .or_else(|_| read_bytes(format!("/lib/modules/{release}/config")));
    text.map_or_else(|_| Vec::new(), |text| options_in(&text))
}

fn options_in(text: &[u8]) -> Vec<MachineTrait> {
    let value = |option: &str| {
        lines(text).find_map(|line| {
            let rest = line.strip_prefix(option.as_bytes())?.strip_prefix(b"=")?;
            Some(String::from_utf8_lossy(rest).into_owned())
        })
    };
    let set = |option: &str| value(option).unwrap_or_else(|| "not set".to_owned());
    OPTIONS.iter().map(|option| fact("kernel", *option, set(option))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options() {
        let found =
            options_in(b"CONFIG_HZ_250=y\nCONFIG_HZ=250\n# CONFIG_USERFAULTFD is not set\n");
        let value = |name: &str| found.iter().find(|t| t.name == name).unwrap().value.clone();
        assert_eq!(value("CONFIG_HZ"), "250");
        assert_eq!(value("CONFIG_USERFAULTFD"), "not set");
    }

    #[test]
    fn this_machine_has_memory_and_page_sizes() {
        let found = collect();
        let has = |name: &str| found.iter().any(|t| t.name == name && !t.value.is_empty());
        assert!(has("page sizes") && has("installed"), "{found:?}");
        assert!(has("available as huge pages now"), "{found:?}");
        for page in hugetlb::sizes().unwrap() {
            assert!(has(&format!("pool of {page} pages")), "{found:?}");
        }
    }
}
