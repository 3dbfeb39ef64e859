//! From what and why to the coarser activity that prices are compared with.
//!
//! Copies, zeroing, reclaim and wake-ups are what they are, whomever they serve. Faults, mapping
//! calls, pipes, files and the making of processes are each one activity with all that is done for
//! them.

use super::is_nameless;
use pagewise_model::diagnosis::{Activity, CostKind};
use pagewise_model::profile::{What, Why};

/// The activity of `stack`, of which this is known.
pub(super) fn activity(what: What, why: &Why, stack: &[&str]) -> Activity {
    match what {
        What::Unclassified if is_nameless(stack) => Activity::Unknown,
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

/// Faults, mapping and unmapping, zeroing: what the prices of faults and mapping calls hold together.
pub(crate) fn is_mapping_work(what: What, why: &Why) -> bool {
    matches!(known(what, why), Activity::Fault | Activity::MapUnmap | Activity::Zeroing)
}

fn known(what: What, why: &Why) -> Activity {
    match what {
        What::Zeroing => Activity::Zeroing,
        // The pages that a fault copies are part of its price.
        What::Copy if is_fault(why) => Activity::Fault,
        What::Copy => Activity::Copy,
        What::Reclaim | What::Compaction | What::SwapIn => Activity::Reclaim,
        What::Scheduling => Activity::Wakeup,
        What::Pinning | What::FaultEntry => Activity::Fault,
        What::Unmapping => Activity::MapUnmap,
        What::TlbFlush if is_fault(why) => Activity::Fault,
        What::TlbFlush => Activity::MapUnmap,
        What::Entry => Activity::Entry,
        What::IoWait => Activity::File,
        What::User | What::Interrupt | What::Unclassified => Activity::Other,
        What::Allocation | What::Mapping | What::Lock | What::Lookup | What::Handling => {
            of_purpose(what, why)
        }
    }
}

/// The activity of work that is part of whatever it is done for.
fn of_purpose(what: What, why: &Why) -> Activity {
    match why {
        Why::Pipe => Activity::Pipe,
        Why::FileRead | Why::FileWrite => Activity::File,
        Why::Exec | Why::Fork | Why::Exit => Activity::Spawn,
        Why::MapCall => Activity::MapUnmap,
        why if is_fault(why) => Activity::Fault,
        _ if what == What::Mapping => Activity::MapUnmap,
        _ if what == What::Lock => Activity::Other,
        _ => Activity::File,
    }
}

const fn is_fault(why: &Why) -> bool {
    matches!(why, Why::AnonFault | Why::FileFault | Why::CowFault | Why::Fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_for_a_fault_is_the_fault_but_for_zeroing() {
        let of = |what| activity(what, &Why::AnonFault, &["x"]);
        for what in [What::Allocation, What::Lock, What::Lookup, What::Mapping, What::Copy] {
            assert_eq!(of(what), Activity::Fault, "{what:?}");
        }
        assert_eq!(of(What::Zeroing), Activity::Zeroing);
        assert_eq!(of(What::Reclaim), Activity::Reclaim);
    }

    #[test]
    fn every_what_and_why_has_an_activity() {
        for what in What::ALL {
            for why in Why::plain() {
                assert_ne!(activity(what, why, &["x"]), Activity::Unknown, "{what:?} {why:?}");
            }
        }
        let call = Why::Call("getdents64".into());
        assert_eq!(activity(What::Allocation, &call, &["kfree"]), Activity::File);
        assert_eq!(activity(What::Unclassified, &Why::Unknown, &[]), Activity::Unknown);
    }
}
