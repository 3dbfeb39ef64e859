//! Faults of a run on code and data of files, for `order check`, `order builds` and `order record`.

use crate::commands::{faults, signals};
use crate::failure::CommandFailure;
use pagewise_model::Bytes;
use pagewise_model::fault::{
    FaultNames, FaultPlace, FaultRecordingOptions, MappingKind, PageFault, StackRecording,
};
use pagewise_model::usage::ProgramEnd;
use pagewise_tracee::launch::ProgramLaunch;
use pagewise_tracee::passthrough;

/// Runs `launch` and passes each fault on a file's code to `take`, with the file and the offset.
pub(super) fn record(
    launch: &ProgramLaunch,
    exact: bool,
    mut take: impl FnMut(&str, Bytes, &PageFault),
) -> Result<ProgramEnd, CommandFailure> {
    record_all(launch, exact, |place, fault| {
        if let (MappingKind::Code, Some(offset)) = (place.kind, fault.offset_bytes) {
            take(&place.path, offset, fault);
        }
    })
}

/// Runs `launch` and passes each fault to `take`, with the object at its address.
pub(super) fn record_all(
    launch: &ProgramLaunch,
    exact: bool,
    mut take: impl FnMut(&FaultPlace, &PageFault),
) -> Result<ProgramEnd, CommandFailure> {
    let wanted = FaultRecordingOptions {
        list: true,
        latency: false,
        calls: false,
        stacks: StackRecording::None,
        names: false,
        debug_files: false,
        exact,
        made_maps: false,
        sites: false,
    };
    let mut each = |names: &FaultNames, list: Vec<PageFault>| {
        for fault in &list {
            if let Some(place) = names.place(fault) {
                take(place, fault);
            }
        }
    };
    let recorder = faults::recorder()?;
    let recorded = passthrough::record_through(launch, &recorder, wanted, false, &mut each)
        .map_err(faults::failure)?;
    // A program of the user's session got the signal itself, and its end is passed on.
    if recorded.interrupted && launch.own_session {
        return Err(signals::interrupted());
    }
    recorded.report.map_err(faults::failure)?;
    Ok(recorded.ended)
}
