//! `pagewise order check`

use super::lists;
use super::starts::{self, BuildStarts};
use crate::args::OrderCheckArgs;
use crate::commands::experiment;
use crate::failure::CommandFailure;
use crate::terminal;
use pagewise_judge::order::conformance;
use pagewise_model::fault::MappingKind;
use pagewise_model::pieces::{OrderCheck, OrderConformance, OrderUnit, StartSeen};
use pagewise_model::run::{RunKind, SavedRun};
use pagewise_model::spec::OwnArm;
use pagewise_model::trial::ComparedQuantity;
use pagewise_model::{Bytes, Nanos};
use pagewise_observe::order::{StartError, resident_code};
use pagewise_report::order::{check_map, check_page, check_section};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Exit code: the linker did not follow the order.
const IGNORED: u8 = 1;

/// Compares the starts of two builds; the second was linked with an order.
pub(super) fn run(args: &OrderCheckArgs) -> Result<ExitCode, CommandFailure> {
    let conformance = args.order.as_ref().map(|order| followed(args, order)).transpose()?;
    args.drawn.page.check()?;
    let (run, check) = compare(args, conformance)?;
    args.drawn.page.write(|| check_page(&check, &run))?;
    let text = match args.starts.json {
        true => check.to_json() + "\n",
        false => check_section(&check).text(&terminal::style()),
    };
    let map = args.drawn.map.then(|| check_map(&check));
    terminal::print(&text)?;
    super::show_map(map);
    Ok(match check.conformance.is_none_or(|one| one.is_honoured()) {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(IGNORED),
    })
}

/// How well the second build follows the order.
fn followed(args: &OrderCheckArgs, order: &PathBuf) -> Result<OrderConformance, CommandFailure> {
    let order = lists::read(std::slice::from_ref(order), &[])?.remove(0).functions;
    let after = lists::build(std::slice::from_ref(&args.after), OrderUnit::Function)?;
    Ok(conformance(&order, &after))
}

fn compare(
    args: &OrderCheckArgs,
    conformance: Option<OrderConformance>,
) -> Result<(SavedRun, OrderCheck), CommandFailure> {
    let mut builds = [SeenStarts::of(args, &args.before)?, SeenStarts::of(args, &args.after)?];
    for build in &mut builds {
        build.touch()?;
    }
    // Alternates the builds, so that both run under the same conditions.
    for _ in 0..args.starts.runs {
        for build in &mut builds {
            build.count()?;
        }
    }
    let [first, second] = builds;
    let (command, other) = (first.starts.command, second.starts.command);
    let (run, time) = match args.starts.no_time {
        true => (super::run_of(RunKind::Ab, &command), None),
        false => {
            let after = OwnArm { name: "after".to_owned(), command: other };
            let (run, end) = starts::race(
                &args.starts,
                ("before", command),
                vec![after],
                ComparedQuantity::Time,
                false,
            )?;
            if let Some(stop) = end {
                return Err(experiment::failure(&stop));
            }
            let raced = run.experiment.as_ref();
            let verdict = raced.and_then(|done| done.verdicts.first()).cloned();
            (run, verdict)
        }
    };
    Ok((run, OrderCheck { conformance, before: first.seen, after: second.seen, time }))
}

/// Starts of one build, with what was seen of them.
struct SeenStarts {
    starts: BuildStarts,
    seen: StartSeen,
}

impl SeenStarts {
    fn of(args: &OrderCheckArgs, program: &Path) -> Result<Self, CommandFailure> {
        let starts = BuildStarts::of(&args.starts, &args.command, program)?;
        let text = starts.segments.iter().filter(|segment| segment.is_executable);
        let seen = StartSeen {
            path: program.display().to_string(),
            text: text.map(|segment| (segment.offset_bytes, segment.file_bytes)).collect(),
            ..StartSeen::default()
        };
        Ok(Self { starts, seen })
    }

    /// Records one start with a fault for each page.
    fn touch(&mut self) -> Result<(), CommandFailure> {
        let mut touched = BTreeMap::new();
        self.record(true, |offset, at| {
            touched.entry(offset).or_insert(at);
        })?;
        self.seen.touched = touched.into_iter().collect();
        Ok(())
    }

    /// Counts the faults of one start, and the pages resident at the end of another.
    fn count(&mut self) -> Result<(), CommandFailure> {
        let mut faults = 0;
        self.record(false, |_, _| faults += 1)?;
        self.seen.faults.push(faults);
        let starts = &self.starts;
        let resident =
            resident_code(&starts.launch(), &starts.program).map_err(|error| match error {
                StartError::Launch(error) => error.into(),
                other => CommandFailure::unfit(other.to_string()),
            })?;
        self.seen.resident_bytes.push(resident.bytes);
        self.seen.proportional_bytes.push(resident.proportional);
        Ok(())
    }

    /// Passes the faults of one start on the program's code to `take`: file offset and time.
    fn record(
        &self,
        exact: bool,
        mut take: impl FnMut(Bytes, Nanos),
    ) -> Result<(), CommandFailure> {
        self.starts.record(exact, |place, fault| {
            let is_code = place.is_some_and(|place| place.kind == MappingKind::Code);
            if let Some(offset) = fault.offset_bytes.filter(|_| is_code) {
                take(offset, fault.since_first_ns);
            }
        })?;
        Ok(())
    }
}
