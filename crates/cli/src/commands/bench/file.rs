//! `pagewise bench file`

use super::session::{BenchControl, BenchStart};
use super::{chosen, once_each};
use crate::args::{self, FileBenchArgs};
use crate::commands::helper;
use crate::failure::CommandFailure;
use pagewise_kernel::dirs;
use pagewise_measure::bench::file::{
    self, FileBenchRequest, FileContent, FileOrigin, FileOriginError, FilePlan,
};
use pagewise_measure::{BenchProgress, PriceError};
use pagewise_model::bench::file::{CopyRates, FileBenchPart, FileBenchReport, FileCell, FilePoint};
use pagewise_model::body::{BenchReport, RunBody};
use pagewise_model::cache::FolioClass;
use pagewise_model::choice::{BLOCK_UNIT, FolioClassShare, LARGEST_BLOCK};
use pagewise_model::{Bytes, Fact, Measured};
use std::path::PathBuf;
use std::process::ExitCode;

/// Size of a generated file; below, its size in the short form.
const USUAL: Bytes = Bytes::mib(512);
const QUICK: Bytes = Bytes::mib(64);
/// Size of one that is written to again and again.
const WRITTEN: Bytes = Bytes::mib(128);
/// If less of the file lies on one kind of folio, the prices do not cover all of it.
const ALIKE: f64 = 0.9;

/// Reads, judges, saves and shows.
pub(super) fn run(args: &FileBenchArgs) -> Result<ExitCode, CommandFailure> {
    let start = BenchStart::new("file", &args.result)?;
    let request = request(args, start.seed)?;
    let origin = origin(args, &request).map_err(|error| no_file(&error))?;
    let mut session = start.begin()?;
    let has_copies = request.parts.contains(&FileBenchPart::Copies);
    let plan = FilePlan::new(request, origin.size(), args.file.is_none()).map_err(unfit)?;
    session.announce(&announcement(&plan, args.no_prices || args.write));
    let (control, run) = (&session.control, &mut session.run);
    let prices = if args.no_prices || args.write {
        None
    } else {
        prices(args, &origin, control, &mut run.warnings)
    };
    let copies = if has_copies { copies(args, control, &mut run.warnings) } else { None };
    let mut any = has_copies;
    if let Some(mut readings) = read(control, &plan, origin)? {
        if let Some(prices) = prices {
            readings.entry_ns = prices.entry_ns;
            readings.prices = prices.points;
            readings.price_folios = Some(prices.folios);
        }
        readings.copies = copies;
        readings.judgement = Some(pagewise_judge::bench::file::judge(&readings));
        any |= readings.points.iter().any(|point| !point.samples.is_empty());
        run.body = Some(RunBody::Bench(BenchReport::File(readings)));
    }
    session.conclude(any)
}

/// The request that the command line describes.
fn request(args: &FileBenchArgs, seed: u64) -> Result<FileBenchRequest, CommandFailure> {
    let usual =
        if args.quick { FileBenchRequest::short(seed) } else { FileBenchRequest::usual(seed) };
    check(&args.block)?;
    let asked = FileBenchRequest {
        parts: chosen(&args.only, usual.parts),
        arms: chosen(&args.arm, usual.arms),
        blocks: chosen(&args.block, usual.blocks),
        orders: chosen(&args.order, usual.orders),
        residencies: chosen(&args.cache, usual.residencies),
        cold_bytes: args.cold_size.unwrap_or(usual.cold_bytes),
        passes: args.passes.unwrap_or(usual.passes),
        threads: once_each(args.threads.clone()),
        repeats: args.repeats.unwrap_or(usual.repeats),
        slips: chosen(&args.repeat_error, usual.slips),
        summed: args.sum,
        written: false,
        quick: args.quick,
        seed,
    };
    Ok(if args.write { asked.writing() } else { asked })
}

fn check(blocks: &[Bytes]) -> Result<(), CommandFailure> {
    let fits = |block: &&Bytes| {
        block.0 > 0 && block.0.is_multiple_of(BLOCK_UNIT.0) && **block <= LARGEST_BLOCK
    };
    match blocks.iter().find(|block| !fits(block)) {
        None => Ok(()),
        Some(block) => {
            Err(CommandFailure::usage(format!("--block {block}: this size is not supported"))
                .with_help("use multiples of 512 bytes, up to 1M"))
        }
    }
}

/// The named file, or a generated one.
fn origin(args: &FileBenchArgs, request: &FileBenchRequest) -> Result<FileOrigin, FileOriginError> {
    if let Some(path) = &args.file {
        let largest = request.blocks.iter().max().copied().unwrap_or(BLOCK_UNIT);
        return FileOrigin::given(path, largest);
    }
    let usual = match (args.quick, args.write) {
        (true, _) => QUICK,
        (false, true) => WRITTEN,
        (false, false) => USUAL,
    };
    FileOrigin::own(&directory(args), args.size, usual)
}

/// The directory for generated files.
fn directory(args: &FileBenchArgs) -> PathBuf {
    let cache = || dirs::cache_dir().unwrap_or_else(|_| std::env::temp_dir());
    args.dir.clone().unwrap_or_else(cache)
}

pub(in crate::commands) fn no_file(error: &FileOriginError) -> CommandFailure {
    let text = error.to_string();
    let failure = match error {
        FileOriginError::NoRoom { .. } => CommandFailure::unfit(text),
        _ => CommandFailure::usage(text),
    };
    match error.help() {
        Some(help) => failure.with_help(help),
        None => failure,
    }
}

fn unfit(error: PriceError) -> CommandFailure {
    match error {
        PriceError::Unavailable(why) => {
            CommandFailure::usage(why).with_help("add ways, orders or parts")
        }
        other => CommandFailure::usage(other.to_string()),
    }
}

/// Announces the measurement and its cost.
fn announcement(plan: &FilePlan, no_prices: bool) -> String {
    let cost = plan.cost();
    let prices = if no_prices { "" } else { "; prices first, some seconds" };
    format!(
        "{} cells, {} fresh processes, about {}, at most {}, over a file of {}{prices}",
        cost.points, cost.samples, cost.about_ns, cost.cap_ns, cost.memory_bytes
    )
}

/// The prices that explain the times of all other cells.
struct FileBenchPrices {
    entry_ns: Fact<Measured>,
    points: Vec<FilePoint>,
    /// The kind of folios of the file that was priced.
    folios: FolioClass,
}

/// Measures the cells that give prices, over a file like `subject`, before the cells that they explain. If
/// that fails, the file is read without prices.
fn prices(
    args: &FileBenchArgs,
    subject: &FileOrigin,
    control: &BenchControl,
    warnings: &mut Vec<String>,
) -> Option<FileBenchPrices> {
    match priced(args, subject, control) {
        Ok((most, prices)) => {
            if most.share < ALIKE {
                let (percent, folios) = (100.0 * most.share, most.folios.into_str());
                warnings.push(format!(
                    "{percent:.0}% of the file lies on {folios}: prices cover only that part"
                ));
            }
            prices
        }
        Err(error) => {
            warnings.push(format!("no explanations, because the prices failed: {error}"));
            None
        }
    }
}

/// The kind of folios that holds most of the subject, and the prices of such a file.
fn priced(
    args: &FileBenchArgs,
    subject: &FileOrigin,
    control: &BenchControl,
) -> Result<(FolioClassShare, Option<FileBenchPrices>), CommandFailure> {
    let most = subject.folios().map_err(|error| CommandFailure::usage(error.to_string()))?;
    let directory = directory(args);
    let origin = FileOrigin::own(&directory, None, file::price_file(subject.size()));
    let origin = origin.map_err(|error| no_file(&error))?.on(most.folios);
    let plan = FilePlan::prices(control.seed, origin.size(), args.quick).map_err(unfit)?;
    let Some(content) = open(control, origin)? else { return Ok((most, None)) };
    if most.folios == FolioClass::Huge && !file::lies_huge(&content) {
        let place = directory.display();
        return Err(CommandFailure::unfit(format!(
            "this file has huge pages, but new files in {place} get none"
        )));
    }
    let entry_ns = file::entry_price();
    let points = read_all(control, &plan, &content)?.points;
    Ok((most, Some(FileBenchPrices { entry_ns, points, folios: most.folios })))
}

/// The kernel's copy compared with others; `None`, with a warning, if that fails.
fn copies(
    args: &FileBenchArgs,
    control: &BenchControl,
    warnings: &mut Vec<String>,
) -> Option<CopyRates> {
    control.show("copies");
    match file::copies(&directory(args), &|| control.is_stopped()) {
        Ok(copies) => Some(copies),
        Err(error) => {
            warnings.push(format!("the kernel's copy is not compared with others: {error}"));
            None
        }
    }
}

/// Reads all cells of `plan`; `None` if the user stopped before the file was ready.
fn read(
    control: &BenchControl,
    plan: &FilePlan,
    origin: FileOrigin,
) -> Result<Option<FileBenchReport>, CommandFailure> {
    open(control, origin)?.map(|content| read_all(control, plan, &content)).transpose()
}

/// Opens the file, after writing it if it is generated; `None` if the user stopped before it was ready.
pub(in crate::commands) fn open(
    control: &BenchControl,
    origin: FileOrigin,
) -> Result<Option<FileContent>, CommandFailure> {
    control.show("writing the file");
    match origin.open(&|| control.is_stopped()) {
        Err(FileOriginError::Interrupted) => Ok(None),
        opened => opened.map(Some).map_err(|error| no_file(&error)),
    }
}

/// Reads all cells of `plan` from `content`.
pub(in crate::commands) fn read_all(
    control: &BenchControl,
    plan: &FilePlan,
    content: &FileContent,
) -> Result<FileBenchReport, CommandFailure> {
    let launcher = helper::launcher(args::HelperRole::FileReader)?;
    let text = |p: &BenchProgress<'_, FileCell>| {
        let (cell, order) = (p.point, p.point.order.into_str());
        let (part, arm, state) = (cell.part.into_str(), cell.way(), cell.residency.into_str());
        format!("{part}, {} of {}: {arm}, {order}, {state}", p.done, p.total)
    };
    let read = control.measure(text, |callbacks| file::run(plan, content, &launcher, callbacks));
    read.map_err(|error| CommandFailure::usage(error.to_string()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::args::BenchCommand;
    use crate::commands::bench::typed;
    use pagewise_model::bench::file::{BenchmarkFlaw, CacheResidency, ReadWay};
    use pagewise_model::bench::tlb::AccessOrder;

    fn parse(words: &[&str]) -> Result<FileBenchRequest, CommandFailure> {
        let BenchCommand::File(args) = typed("file", words).unwrap() else { panic!("not file") };
        request(&args, 1)
    }

    #[test]
    fn without_words_it_is_the_study() {
        let all = parse(&[]).unwrap();
        assert_eq!(all.blocks, [4, 8, 16].map(Bytes::kib));
        assert_eq!((all.arms.len(), all.parts.len(), all.repeats, all.passes), (16, 5, 6, 8));
        assert!(all.slips.is_empty() && !all.summed && !all.quick);
        let quick = parse(&["--quick"]).unwrap();
        assert_eq!((quick.blocks.len(), quick.parts.len(), quick.repeats), (2, 2, 3));
    }

    #[test]
    fn everything_can_be_chosen() {
        let words = [
            "--only=buffers,passes",
            "--arm=mmap,read,mmap",
            "--block=1M,512",
            "--order=random",
            "--cache=cold",
            "--cold-size=1M",
            "--passes=2",
            "--threads=3,1",
            "--repeats=9",
            "--sum",
            "--repeat-error=short-loop,with-replacement",
        ];
        let some = parse(&words).unwrap();
        assert_eq!(some.parts, [FileBenchPart::Passes, FileBenchPart::Buffers]);
        assert_eq!(
            (some.arms, some.orders),
            (vec![ReadWay::Read, ReadWay::Map], vec![AccessOrder::Random])
        );
        assert_eq!(some.blocks, [Bytes(512), Bytes::mib(1)]);
        assert_eq!((some.residencies, some.threads), (vec![CacheResidency::Cold], vec![1, 3]));
        assert_eq!((some.passes, some.repeats, some.summed), (2, 9, true));
        assert_eq!(some.cold_bytes, Bytes::mib(1));
        assert_eq!(some.slips, [BenchmarkFlaw::ShortLoop, BenchmarkFlaw::Replacement]);
    }

    #[test]
    fn writing_is_of_our_own_file_and_warm() {
        let some = parse(&["--write", "--block=4K", "--order=random"]).unwrap();
        assert!(some.written && some.arms == [ReadWay::Read, ReadWay::Map]);
        assert_eq!(some.residencies, [CacheResidency::Warm]);
        for other in ["--file=x", "--cache=cold", "--arm=mmap", "--sum"] {
            assert!(typed("file", &["--write", other]).is_err(), "{other}");
        }
    }

    #[test]
    fn blocks_that_make_no_sense_are_refused() {
        for block in ["0", "513", "2M"] {
            assert!(parse(&["--block", block]).is_err(), "{block}");
        }
    }

    #[test]
    fn every_way_can_be_typed() {
        for arm in ReadWay::ALL {
            let typed = parse(&["--arm", arm.into_str()]).map(|request| request.arms);
            assert_eq!(typed.ok(), Some(vec![*arm]));
        }
    }
}
