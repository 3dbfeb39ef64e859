//! Sorts kernel stacks: what was the kernel doing at this sample, and why?
//!
//! A stack is a list of symbol names, leaf first. The leaf alone is often ambiguous (a spin lock, `rep movs`
//! in a helper, the page allocator), so the whole *stack* is judged. *What* is decided by the first of these
//! that matches:
//! 1. a frame that overrides all others, such as going to sleep for I/O;
//! 2. the phase nearest to the leaf: allocation, locking and copying within reclaim are reclaim;
//! 3. the first frame after the helpers, by the leaf rules (helpers only carry out what their caller wants);
//! 4. the nearest frame that a caller rule names: a fault inside a copy is a fault;
//! 5. a rule of last resort, such as the entry into a call.
//!
//! *Why* is decided by the nearest frame that has a rule for it: a fault on a file within a read from a pipe
//! is a file fault. If no frame has one, weak rules apply, then the name of the system call
//! (`__x64_sys_futex`).
//!
//! Rules are data (`rules.txt`). Each rule names the kernels it applies to and may list the names of several
//! kernel generations. [`dead_rules`] lists the rules that cannot match on a kernel. A test checks them
//! against symbol lists, so a renamed symbol fails that test instead of silently emptying a bucket. Compiler
//! suffixes (`.constprop.0`, `.isra.0`, `.part.0`, `.cold`) and the allocation-profiling suffix `_noprof` are
//! stripped first.
//!
//! [`KernelActivity`] is the coarser view that diagnoses and ladders compare prices with. It follows from the two.
//!
//! Not seen: functions inlined into their callers. Work done with interrupts off is also not seen in place: a
//! timer sample bills it to the function that enables them again (`finish_task_switch`, spin unlock).

use pagewise_model::diagnosis::{CostKind, KernelActivity};
use pagewise_model::look::{CpuSamples, KernelStack, UNKNOWN_SYMBOL};
use pagewise_model::profile::{ProfileActivity, ProfileReason};
pub use rules::{KernelRelease, ReleaseRange, RulePosition, SymbolRule, rules};
use rules::{RuleQuestion, TABLE};
use std::collections::{BTreeMap, HashSet};

mod rules;

/// The kernel samples by activity. Samples whose stacks are not listed count as unknown.
#[must_use]
pub fn sort(samples: &CpuSamples) -> BTreeMap<KernelActivity, u64> {
    let mut sorted: BTreeMap<KernelActivity, u64> = BTreeMap::new();
    let mut add = |activity, count: u64| {
        let sum = sorted.entry(activity).or_default();
        *sum = sum.saturating_add(count);
    };
    for stack in &samples.stacks {
        let names: Vec<&str> = stack.symbols.iter().map(String::as_str).collect();
        add(classify(&names), stack.count);
    }
    if samples.rest > 0 {
        add(KernelActivity::Unknown, samples.rest);
    }
    sorted
}

/// The activity of one kernel stack: symbol names, leaf first.
#[must_use]
pub fn classify(stack: &[&str]) -> KernelActivity {
    let (what, why) = judge(stack);
    rule_of(what, &why, stack)
}

/// What the kernel did in one stack, and why. `stack` holds symbol names, leaf first.
#[must_use]
pub fn judge(stack: &[&str]) -> (ProfileActivity, ProfileReason) {
    let frames: Vec<&str> = stack.iter().map(|name| strip_suffixes(name)).collect();
    (what(&frames).unwrap_or(ProfileActivity::Unclassified), why(&frames))
}

fn what(frames: &[&str]) -> Option<ProfileActivity> {
    let at = |place: RulePosition, among: &[&str]| {
        among.iter().find_map(|frame| TABLE.find(RuleQuestion::What(place), frame)?.what)
    };
    let is_helper = |frame: &&str| TABLE.find(RuleQuestion::Helper, frame).is_some();
    let start = frames.iter().position(|frame| !is_helper(frame)).unwrap_or(0);
    let above = frames.get(start..).unwrap_or_default();
    let leaf = above.get(..1).unwrap_or_default();
    at(RulePosition::Ruling, frames)
        .or_else(|| at(RulePosition::Phase, frames))
        .or_else(|| at(RulePosition::Leaf, leaf))
        .or_else(|| at(RulePosition::Caller, above))
        .or_else(|| at(RulePosition::LastResort, frames))
}

fn why(frames: &[&str]) -> ProfileReason {
    let by = |question| frames.iter().find_map(|frame| TABLE.find(question, frame)?.why.clone());
    let by_name = || frames.iter().find_map(|frame| called(frame));
    by(RuleQuestion::Why)
        .or_else(|| by(RuleQuestion::WeakWhy))
        .or_else(by_name)
        .unwrap_or(ProfileReason::Unknown)
}

/// The system call that `symbol` is the entry of.
fn called(symbol: &str) -> Option<ProfileReason> {
    const ENTRIES: [&str; 6] =
        ["__x64_sys_", "__ia32_sys_", "__arm64_sys_", "__do_sys_", "__se_sys_", "ksys_"];
    let name = ENTRIES.iter().find_map(|entry| symbol.strip_prefix(entry))?;
    Some(ProfileReason::Call(name.to_owned().into()))
}

/// Rules for this release that name no symbol in `symbols`. Such a rule cannot match on that kernel: the
/// symbol has another name there, or the kernel lacks the feature.
#[must_use]
pub fn dead_rules(symbols: &HashSet<&str>, release: KernelRelease) -> Vec<&'static SymbolRule> {
    let stripped: HashSet<&str> = symbols.iter().map(|s| strip_suffixes(s)).collect();
    TABLE.dead(&stripped, release)
}

/// `symbol` without the suffixes that compilers and allocation profiling add.
#[must_use]
pub fn strip_suffixes(symbol: &str) -> &str {
    const CUTS: [&str; 5] = [".constprop.", ".isra.", ".part.", ".cold", ".llvm."];
    let cut = CUTS.iter().filter_map(|c| symbol.find(c)).min().unwrap_or(symbol.len());
    let name = &symbol[..cut];
    name.strip_suffix("_noprof").unwrap_or(name)
}

/// Nothing in it has a name.
fn is_nameless(stack: &[&str]) -> bool {
    stack.iter().all(|frame| frame.is_empty() || *frame == UNKNOWN_SYMBOL)
}

// From what and why to the coarser activity that prices are compared with.
//
// Copies, zeroing, reclaim and wake-ups keep their own activity, whatever they were for. Faults, mapping
// calls, pipes, files and process creation each form one activity that includes all work done for them.

/// The activity of `stack`, given its what and why.
fn rule_of(what: ProfileActivity, why: &ProfileReason, stack: &[&str]) -> KernelActivity {
    match what {
        ProfileActivity::Unclassified if is_nameless(stack) => KernelActivity::Unknown,
        _ => known(what, why),
    }
}

/// The costs of [`is_mapping_work`].
pub(crate) const MAPPING_COSTS: &[CostKind] = &[
    CostKind::AnonFaults,
    CostKind::Zeroing,
    CostKind::FileFaults,
    CostKind::CowFaults,
    CostKind::MajorFaults,
    CostKind::MapUnmap,
];

/// Samples of pages being pinned for a transfer. The prices of faults do not include this.
pub(crate) fn pinned(samples: &CpuSamples) -> u64 {
    let is_pinning = |stack: &&KernelStack| {
        let names: Vec<&str> = stack.symbols.iter().map(String::as_str).collect();
        judge(&names).0 == ProfileActivity::Pinning
    };
    samples.stacks.iter().filter(is_pinning).map(|stack| stack.count).sum()
}

/// Whether the prices of faults and mapping calls cover this work: faults, mapping, unmapping, zeroing.
pub(crate) fn is_mapping_work(what: ProfileActivity, why: &ProfileReason) -> bool {
    what != ProfileActivity::Pinning
        && matches!(
            known(what, why),
            KernelActivity::Fault | KernelActivity::MapUnmap | KernelActivity::Zeroing
        )
}

fn known(what: ProfileActivity, why: &ProfileReason) -> KernelActivity {
    match what {
        ProfileActivity::Zeroing => KernelActivity::Zeroing,
        // The pages that a fault copies are part of its price.
        ProfileActivity::Copy if is_fault(why) => KernelActivity::Fault,
        ProfileActivity::Copy => KernelActivity::Copy,
        ProfileActivity::Reclaim | ProfileActivity::Compaction | ProfileActivity::SwapIn => {
            KernelActivity::Reclaim
        }
        ProfileActivity::Scheduling => KernelActivity::Wakeup,
        ProfileActivity::Pinning | ProfileActivity::FaultEntry => KernelActivity::Fault,
        ProfileActivity::Unmapping => KernelActivity::MapUnmap,
        ProfileActivity::TlbFlush if is_fault(why) => KernelActivity::Fault,
        ProfileActivity::TlbFlush => KernelActivity::MapUnmap,
        ProfileActivity::Entry => KernelActivity::Entry,
        ProfileActivity::IoWait => KernelActivity::File,
        ProfileActivity::User | ProfileActivity::Interrupt | ProfileActivity::Unclassified => {
            KernelActivity::Other
        }
        ProfileActivity::Allocation
        | ProfileActivity::Mapping
        | ProfileActivity::Lock
        | ProfileActivity::Lookup
        | ProfileActivity::Handling => of_purpose(what, why),
    }
}

/// The activity of work that is part of whatever it is done for.
fn of_purpose(what: ProfileActivity, why: &ProfileReason) -> KernelActivity {
    match why {
        ProfileReason::Pipe => KernelActivity::Pipe,
        ProfileReason::FileRead | ProfileReason::FileWrite => KernelActivity::File,
        ProfileReason::Exec | ProfileReason::Fork | ProfileReason::Exit => KernelActivity::Spawn,
        ProfileReason::MapCall => KernelActivity::MapUnmap,
        why if is_fault(why) => KernelActivity::Fault,
        _ if what == ProfileActivity::Mapping => KernelActivity::MapUnmap,
        _ if what == ProfileActivity::Lock => KernelActivity::Other,
        _ => KernelActivity::File,
    }
}

const fn is_fault(why: &ProfileReason) -> bool {
    matches!(
        why,
        ProfileReason::AnonFault
            | ProfileReason::FileFault
            | ProfileReason::CowFault
            | ProfileReason::Fault
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_stripped_in_any_combination() {
        assert_eq!(strip_suffixes("finish_task_switch.isra.0"), "finish_task_switch");
        assert_eq!(strip_suffixes("copy_process.cold"), "copy_process");
        assert_eq!(strip_suffixes("a.part.3.constprop.1.cold"), "a");
        assert_eq!(strip_suffixes("__alloc_pages_noprof"), "__alloc_pages");
        assert_eq!(strip_suffixes("alloc_noprof.isra.0"), "alloc");
        assert_eq!(strip_suffixes("filemap_read"), "filemap_read");
    }

    #[test]
    fn nothing_known_is_unknown_and_a_known_stranger_is_other() {
        assert_eq!(classify(&[]), KernelActivity::Unknown);
        assert_eq!(classify(&[UNKNOWN_SYMBOL, ""]), KernelActivity::Unknown);
        assert_eq!(classify(&["crypto_shash_update"]), KernelActivity::Other);
        assert_eq!(
            judge(&["crypto_shash_update"]),
            (ProfileActivity::Unclassified, ProfileReason::Unknown)
        );
    }

    #[test]
    fn samples_are_sorted_and_none_is_lost() {
        let stack = |symbols: &[&str], count| KernelStack {
            symbols: symbols.iter().map(ToString::to_string).collect(),
            count,
        };
        let samples = CpuSamples {
            stacks: vec![
                stack(&["_copy_to_iter", "filemap_read"], 7),
                stack(&["_copy_to_iter", "copy_page_to_iter"], 2),
                stack(&["anon_pipe_write"], 3),
                stack(&[], 1),
            ],
            rest: 4,
            user: 50,
            ..CpuSamples::default()
        };
        let sorted = sort(&samples);
        let want =
            [(KernelActivity::Copy, 9), (KernelActivity::Pipe, 3), (KernelActivity::Unknown, 5)];
        assert_eq!(sorted, BTreeMap::from(want));
        assert_eq!(sorted.values().sum::<u64>(), samples.kernel_total());
        assert_eq!(sort(&CpuSamples::default()), BTreeMap::new());
    }

    #[test]
    fn an_unknown_leaf_is_blamed_on_its_caller() {
        assert_eq!(classify(&[UNKNOWN_SYMBOL, "filemap_read"]), KernelActivity::File);
    }

    #[test]
    fn a_stack_of_helpers_alone_still_gets_an_answer() {
        assert_eq!(classify(&["_raw_spin_lock"]), KernelActivity::Other);
        assert_eq!(classify(&["_raw_spin_unlock_irqrestore"]), KernelActivity::Other);
        assert_eq!(classify(&["native_flush_tlb_one_user"]), KernelActivity::MapUnmap);
    }

    #[test]
    fn an_unlisted_call_gives_its_name() {
        let call = |name: &'static str| ProfileReason::Call(name.into());
        assert_eq!(judge(&["__x64_sys_getppid"]), (ProfileActivity::Entry, call("getppid")));
        assert_eq!(judge(&["tcp_sendmsg", "__arm64_sys_sendto"]).1, call("sendto"));
        assert_eq!(judge(&["__fget_light", "ksys_read"]), (ProfileActivity::Entry, call("read")));
    }

    #[test]
    fn what_is_done_within_a_phase_is_part_of_it() {
        let reclaim = ["_raw_spin_lock", "shrink_lruvec", "get_page_from_freelist", "pipe_write"];
        assert_eq!(judge(&reclaim), (ProfileActivity::Reclaim, ProfileReason::Pipe));
        let slept = ["finish_task_switch", "schedule", "io_schedule", "folio_wait_bit_common"];
        assert_eq!(judge(&slept).0, ProfileActivity::IoWait);
        let flushed = ["flush_tlb_mm_range", "tlb_finish_mmu", "exit_mmap", "do_exit"];
        assert_eq!(judge(&flushed), (ProfileActivity::TlbFlush, ProfileReason::Exit));
    }

    #[test]
    fn whose_work_it_is_nearer_frames_know_better() {
        let fault = ["do_anonymous_page", "exc_page_fault", "_copy_to_iter", "filemap_read"];
        assert_eq!(judge(&fault), (ProfileActivity::Mapping, ProfileReason::AnonFault));
        let mapped = ["vma_merge", "do_mmap", "elf_load", "load_elf_binary", "__x64_sys_execve"];
        assert_eq!(judge(&mapped), (ProfileActivity::Mapping, ProfileReason::Exec));
        let unmapped = ["zap_pte_range", "exit_mmap", "mmput", "begin_new_exec"];
        assert_eq!(judge(&unmapped), (ProfileActivity::Unmapping, ProfileReason::Exec));
        assert_eq!(judge(&unmapped[..3]), (ProfileActivity::Unmapping, ProfileReason::Exit));
    }

    #[test]
    fn what_is_done_for_a_fault_is_the_fault_but_for_zeroing() {
        let of = |what| rule_of(what, &ProfileReason::AnonFault, &["x"]);
        for what in [
            ProfileActivity::Allocation,
            ProfileActivity::Lock,
            ProfileActivity::Lookup,
            ProfileActivity::Mapping,
            ProfileActivity::Copy,
        ] {
            assert_eq!(of(what), KernelActivity::Fault, "{what:?}");
        }
        assert_eq!(of(ProfileActivity::Zeroing), KernelActivity::Zeroing);
        assert_eq!(of(ProfileActivity::Reclaim), KernelActivity::Reclaim);
    }

    #[test]
    fn every_what_and_why_has_an_activity() {
        for &what in ProfileActivity::ALL {
            for why in ProfileReason::plain() {
                assert_ne!(rule_of(what, why, &["x"]), KernelActivity::Unknown, "{what:?} {why:?}");
            }
        }
        let call = ProfileReason::Call("getdents64".into());
        assert_eq!(rule_of(ProfileActivity::Allocation, &call, &["kfree"]), KernelActivity::File);
        assert_eq!(
            rule_of(ProfileActivity::Unclassified, &ProfileReason::Unknown, &[]),
            KernelActivity::Unknown
        );
    }
}
