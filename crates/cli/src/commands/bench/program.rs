//! `pagewise bench text -- COMMAND`: compares a program with its code on base pages and on huge pages.

use crate::args::{HelperRole, TextBenchArgs};
use crate::commands::experiment;
use crate::commands::helper;
use crate::commands::progress::ProgressDisplay;
use crate::commands::signals;
use crate::failure::CommandFailure;
use crate::store;
use pagewise_kernel::file_view::open_regular;
use pagewise_kernel::machine;
use pagewise_model::plan::HugeFile;
use pagewise_tune::live::RealWorld;
use pagewise_tune::text::TextTrialSubject;
use std::path::Path;
use std::process::ExitCode;

/// Default number of pairs.
const PAIRS: u32 = 24;

/// Compares, saves and shows.
pub(super) fn run(args: &TextBenchArgs) -> Result<ExitCode, CommandFailure> {
    if args.result.chart.is_some() {
        return Err(CommandFailure::usage(
            "--chart draws only generated code, not the runs of a program",
        )
        .with_help("omit it, or use --csv, --save or --json"));
    }
    let conditions = args.experiment();
    let request = experiment::request(&conditions, args.command.clone(), true)?;
    let files = files(args)?;
    let _lock = experiment::lock(args.result.patience())?;
    let stop = signals::stop_flag()?;
    let mut display = ProgressDisplay::new(args.result.quiet);
    let mut listener = |event: &pagewise_tune::world::SessionEvent<'_>| display.tell(event);
    let exe = helper::own_exe()?;
    let recording = helper::timing(&exe);
    let words = helper::words(HelperRole::Supervise);
    let pairs = args.program.pairs.unwrap_or(PAIRS);
    let subject = TextTrialSubject { request: &request, pairs, files };
    let world = RealWorld::start(&request, &exe, &words, recording, stop, &mut listener);
    let (run, end) = match world {
        Ok(mut world) => subject.run(&mut world),
        Err(stop) => return Err(experiment::failure(&stop)),
    };
    display.finish();
    let csv = args.result.csv.as_ref().map(|file| (file, pagewise_report::csv(&run)));
    let code = experiment::conclude(run, end, &conditions)?;
    // The result is printed first: a failed write does not lose it.
    if let Some((file, text)) = csv {
        store::write_whole(file, &text)?;
    }
    Ok(code)
}

/// The named files, which must exist.
fn files(args: &TextBenchArgs) -> Result<Vec<HugeFile>, CommandFailure> {
    let Some(list) = &args.program.files else { return Ok(Vec::new()) };
    let bad = |why: String| {
        CommandFailure::usage(format!("--files: {why}"))
            .with_help("separate paths by :, each a program or library")
    };
    let remedy =
        pagewise_remedy::find("text-huge").ok_or_else(|| bad("there is no such remedy".into()))?;
    let dose = remedy.dose(list, &machine::machine()).map_err(bad)?;
    let missing = dose.settings.huge_files.iter().find_map(|file| {
        let opened = open_regular(Path::new(&file.path));
        opened.err().map(|error| format!("cannot read `{}`: {}", file.path, error.source))
    });
    missing.map_or(Ok(dose.settings.huge_files), |why| Err(bad(why)))
}
