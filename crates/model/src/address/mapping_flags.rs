//! The two letters of `VmFlags` in `/proc/PID/smaps` in words (`show_smap_vma_flags` in
//! fs/proc/task_mmu.c, `Documentation/filesystems/proc.rst`).

const WORDS: &[(&str, &str)] = &[
    ("rd", "readable"),
    ("wr", "writable"),
    ("ex", "executable"),
    ("sh", "shared"),
    ("mr", "may become readable"),
    ("mw", "may become writable"),
    ("me", "may become executable"),
    ("ms", "may become shared"),
    ("gd", "grows downwards"),
    ("pf", "frames without a page descriptor"),
    ("lo", "locked in memory"),
    ("io", "of a device"),
    ("sr", "advised: read in order"),
    ("rr", "advised: read at random"),
    ("dc", "not given to a forked child"),
    ("de", "cannot grow by mremap"),
    ("ac", "counts as committed memory"),
    ("nr", "no swap space reserved"),
    ("ht", "pages of a reserved pool"),
    ("sf", "faults wait for the disk (MAP_SYNC)"),
    ("wf", "zeroed in a forked child"),
    ("dd", "left out of core dumps"),
    ("sd", "soft-dirty"),
    ("mm", "frames of several kinds"),
    ("hg", "advised: huge pages"),
    ("nh", "advised: no huge pages"),
    ("mg", "may be merged (KSM)"),
    ("bt", "guarded against stray branches"),
    ("mt", "memory tags"),
    ("um", "userfaultfd: absent pages"),
    ("uw", "userfaultfd: writes"),
    ("ui", "userfaultfd: minor faults"),
    ("ss", "shadow stack"),
    ("sl", "sealed"),
    ("lf", "locked as it is faulted in"),
    ("dp", "may be dropped (MAP_DROPPABLE)"),
    ("gu", "may hold guards"),
    ("ar", "of this architecture"),
];

/// The meaning of a flag, or none if this version does not know the letters.
#[must_use]
pub fn describe_mapping_flag(letters: &str) -> Option<&'static str> {
    WORDS.iter().find(|(known, _)| *known == letters).map(|(_, words)| *words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_have_one_meaning() {
        assert_eq!(describe_mapping_flag("hg"), Some("advised: huge pages"));
        assert_eq!(describe_mapping_flag("??"), None);
        let letters: std::collections::BTreeSet<&str> = WORDS.iter().map(|(l, _)| *l).collect();
        assert_eq!(letters.len(), WORDS.len());
        assert!(letters.iter().all(|letters| letters.len() == 2));
    }
}
