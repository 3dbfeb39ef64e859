//! What manuals and programs say of these calls, set beside what the kernel counted here.

use super::ratios::find;
use pagewise_model::first_touch::{FirstTouch, Part, Point, Ratio, Way};
use pagewise_model::ladder::{Answer, Claim};
use pagewise_model::{Bytes, Fact};

/// Every claim for which something was measured.
pub(super) fn claims(touches: &FirstTouch, ratios: &[Ratio]) -> Vec<Claim> {
    let claims = [
        fewer_faults(touches),
        filled(touches, Way::MapPopulate, "MAP_POPULATE leaves no fault to the first touch"),
        filled(
            touches,
            Way::PopulateWrite,
            "MADV_POPULATE_WRITE leaves no fault to the first touch",
        ),
        faster(touches, ratios),
        willneed(touches),
        willneed_of_file(touches),
        whole_copies(touches),
        split(touches),
        shared(touches),
        pressed(touches),
    ];
    claims.into_iter().flatten().collect()
}

fn claim(claim: impl Into<String>, holds: bool, why: String) -> Claim {
    let answer = if holds { Answer::Confirmed } else { Answer::Refuted };
    Claim { claim: claim.into(), answer, why }
}

/// A point with samples.
fn measured(touches: &FirstTouch, way: Way) -> Option<&Point> {
    touches.plain(way).filter(|point| !point.samples.is_empty())
}

/// `16384 faults for 64.0 MiB`.
fn faults_text(point: &Point) -> String {
    let faults = point.touch_faults().unwrap_or(0);
    format!("{faults} faults for {}", point.mapped_bytes)
}

fn fewer_faults(touches: &FirstTouch) -> Option<Claim> {
    let (huge, base) = (measured(touches, Way::Thp)?, measured(touches, Way::OnDemand)?);
    let fewer = touches.huge_page_bytes.bytes() / touches.base_page_bytes.bytes().max(1);
    let holds = huge.has_expected_faults()? && base.has_expected_faults()?;
    let why = format!("{}, and {} on base pages", faults_text(huge), faults_text(base));
    Some(claim(format!("a huge page takes one fault instead of {fewer}"), holds, why))
}

fn filled(touches: &FirstTouch, way: Way, what: &str) -> Option<Claim> {
    let point = measured(touches, way)?;
    let resident = point.resident_bytes()?;
    let holds = point.has_expected_faults()? && resident >= point.mapped_bytes;
    let why = format!(
        "{resident} of {} mapped before the first touch, then {} faults",
        point.mapped_bytes,
        point.touch_faults().unwrap_or(0)
    );
    Some(claim(what, holds, why))
}

fn faster(touches: &FirstTouch, ratios: &[Ratio]) -> Option<Claim> {
    let ratio = find(ratios, Way::PopulateWrite, 1)?;
    let (low, high) = ratio.interval.known()?;
    let ns = |way| Some(measured(touches, way)?.page_ns(Part::Whole)?.median);
    let why = format!(
        "{:.0} ns for each page filled ahead and touched, {:.0} ns on demand (ratio {:.2}, {low:.2}-{high:.2})",
        ns(Way::PopulateWrite)?,
        ns(Way::OnDemand)?,
        ratio.ratio
    );
    let what = "filling memory ahead is faster than a fault for each page".to_owned();
    let answer = match (low, high) {
        (_, high) if *high < 1.0 => Answer::Confirmed,
        (low, _) if *low > 1.0 => Answer::Refuted,
        _ => Answer::CannotTell,
    };
    Some(Claim { claim: what, answer, why })
}

fn willneed(touches: &FirstTouch) -> Option<Claim> {
    let point = measured(touches, Way::Willneed)?;
    let resident = point.resident_bytes()?;
    let has_mapped = resident > Bytes(0) || !point.has_expected_faults()?;
    let why = format!("{resident} mapped behind the call, then {}", faults_text(point));
    Some(claim("MADV_WILLNEED fills anonymous memory", has_mapped, why))
}

fn willneed_of_file(touches: &FirstTouch) -> Option<Claim> {
    let point = measured(touches, Way::FileWillneed)?;
    let without = measured(touches, Way::FileFaultAround)?;
    let resident = point.resident_bytes()?;
    let (with, plain) = (point.touch_faults()?, without.touch_faults()?);
    let why =
        format!("{resident} mapped behind the call, then {with} faults; without it {plain} faults");
    // A mapped page would be a fault less.
    let has_mapped = resident > Bytes(0) || with < plain - plain / 10;
    Some(claim("POSIX_MADV_WILLNEED maps the cached pages of a file", has_mapped, why))
}

fn whole_copies(touches: &FirstTouch) -> Option<Claim> {
    let point = measured(touches, Way::ForkCowHuge)?;
    let page = *point.page_bytes.known()?;
    let why = format!("{} in the child, which got pages of {page}", faults_text(point));
    let holds = page == touches.huge_page_bytes;
    Some(claim("a write to a huge page that fork shares copies all of it", holds, why))
}

fn split(touches: &FirstTouch) -> Option<Claim> {
    let Fact::Known(split) = &touches.split else { return None };
    let why = format!(
        "{} on huge pages before and {} after one base page of each was made read-only and writable again; \
         {:.0} + {:.0} ns for each, {:.0} + {:.0} ns on base pages",
        split.before_bytes,
        split.after_bytes,
        split.split_ns.median,
        split.mend_ns.median,
        split.base_split_ns.median,
        split.base_mend_ns.median
    );
    let holds = split.after_bytes >= split.before_bytes;
    Some(claim("a huge page stays one when the rights of a part of it change", holds, why))
}

fn pressed(touches: &FirstTouch) -> Option<Claim> {
    let Fact::Known(pressure) = &touches.pressure else { return None };
    let (file, limited) = (pressure.file_bytes, pressure.limited);
    // Alone it has to be whole, or the machine itself was short.
    if pressure.alone.resident_bytes < file {
        return None;
    }
    let why = format!(
        "the call succeeded with {} of {file} mapped where {} may be held, then {} major faults",
        limited.resident_bytes, pressure.limit_bytes, limited.major_faults
    );
    let holds = limited.resident_bytes >= file;
    Some(claim("a mapping that MAP_POPULATE made is whole", holds, why))
}

fn shared(touches: &FirstTouch) -> Option<Claim> {
    let Fact::Known(shared) = &touches.shared_pool else { return None };
    let why = format!(
        "a second process found {} of {} pages of a file on {} as the first had written them, with {} faults",
        shared.seen_pages, shared.pages, shared.mount, shared.second_faults
    );
    let holds = shared.seen_pages == shared.pages;
    Some(claim("processes share the huge pages of a file on hugetlbfs", holds, why))
}
