//! Remedies: those that fit the findings, those that do not, and all that exist.

use crate::number::{at_most, counted, percent};
use crate::page::ReportDocument;
use crate::prediction::{likeliest, probable};
use crate::style::TextTone;
use pagewise_model::Nanos;
use pagewise_model::plan::{RemedyCandidate, RemedyDose};
use pagewise_model::run::SavedRun;

/// Every remedy with the reason why it fits or does not.
#[must_use]
pub fn candidates_section(run: &SavedRun) -> ReportDocument {
    let candidates = &run.candidates;
    let mut page = ReportDocument::default();
    if candidates.is_empty() {
        return page;
    }
    let (fit, rest): (Vec<_>, Vec<_>) = candidates.iter().partition(|c| c.fits());
    if fit.is_empty() {
        page.heading("no remedy fits");
    } else {
        page.heading("remedies that fit");
    }
    for candidate in fit {
        page.item_tone(&candidate.remedy, &fitting(run, candidate), TextTone::Good);
        page.para(
            &format!("{}. To try: {}", candidate.sentence, doses(candidate)),
            16,
            TextTone::Faint,
        );
    }
    page.append(rest_section(rest.iter().map(|c| (c.remedy.as_str(), c.why.as_str()))));
    page
}

/// A line with the remedies that fit, and what the most promising one will probably gain.
#[must_use]
pub fn fitting_line(run: &SavedRun) -> String {
    let fit: Vec<&str> =
        run.candidates.iter().filter(|one| one.fits()).map(|one| one.remedy.as_str()).collect();
    let line = match fit.as_slice() {
        [] => return "no remedy fits".to_owned(),
        [one] => format!("1 remedy fits: {one}"),
        all => format!("{} remedies fit: {}", all.len(), all.join(", ")),
    };
    line + &run.predictions.first().map_or_else(String::new, likeliest)
}

/// What the budget can prove, if it holds few runs of an arm. `provable` gives the least gain that a number of runs
/// at once proves. Needs the look of `run`.
#[must_use]
pub fn budget_line(run: &SavedRun, provable: impl Fn(u32) -> Option<f64>) -> Option<String> {
    /// Runs of an arm for a useful comparison; the plain program needs as many.
    const USEFUL_RUNS: u32 = 8;
    let budget = run.spec.as_ref()?.budget_ns?;
    let looked = run.look.as_ref()?.runs.iter().map(|usage| usage.wall_ns);
    let a_run = looked.clone().max()?;
    // The traced run and the prices take about one more.
    let spent = looked.fold(a_run.0, |sum, wall| sum.saturating_add(wall.0));
    let pairs = budget.0.saturating_sub(spent) / a_run.0.saturating_mul(2).max(1);
    let pairs = u32::try_from(pairs).unwrap_or(u32::MAX);
    if pairs >= USEFUL_RUNS || !run.candidates.iter().any(RemedyCandidate::fits) {
        return None;
    }
    let held = counted(pairs.into(), "run of an arm", "runs of an arm");
    let proven = match provable(pairs) {
        Some(gain) => {
            format!("gains above {} can be proven, by runs that share a CPU", percent(gain))
        }
        None => "nothing can be proven".to_owned(),
    };
    let useful = Nanos(a_run.0.saturating_mul(2 * u64::from(USEFUL_RUNS)));
    Some(format!(
        "a run takes {a_run} and {budget} hold {held}: {proven}; {USEFUL_RUNS} runs of an arm take about {useful}"
    ))
}

fn fitting(run: &SavedRun, candidate: &RemedyCandidate) -> String {
    format!("{}: {}", promise(run, candidate), candidate.why)
}

/// The predicted gain of a remedy; without one, the most that it can gain.
fn promise(run: &SavedRun, candidate: &RemedyCandidate) -> String {
    match run.best_prediction(candidate) {
        Some(best) => probable(best),
        None => format!("{} (estimate)", at_most(candidate.ceiling_share)),
    }
}

fn doses(candidate: &RemedyCandidate) -> String {
    candidate.doses.iter().map(|d| d.spec()).collect::<Vec<_>>().join(", ")
}

fn rest_section<'a>(rest: impl Iterator<Item = (&'a str, &'a str)>) -> ReportDocument {
    let mut page = ReportDocument::default();
    let mut rest = rest.peekable();
    if rest.peek().is_some() {
        page.heading("not tried");
    }
    for (remedy, why) in rest {
        page.item(remedy, why);
    }
    page
}

/// What a finished run did not try, and why.
pub(crate) fn untried_section(run: &SavedRun) -> ReportDocument {
    let tried = |candidate: &RemedyCandidate| {
        let specs: Vec<String> = candidate.doses.iter().map(|d| d.spec()).collect();
        let arm_has = |arm: &str| {
            let doses = run.doses.iter().find(|(name, _)| name == arm);
            doses.is_some_and(|(_, d)| d.iter().any(|d| d.remedy == candidate.remedy))
                || arm.split('+').any(|part| specs.iter().any(|s| s == part))
        };
        run.experiment.iter().flat_map(|e| &e.verdicts).any(|v| arm_has(&v.arm))
    };
    let rows = run.candidates.iter().filter(|c| !tried(c)).map(|c| {
        let why = if c.fits() {
            format!("fits, {}, but {}", promise(run, c), passed(run, c))
        } else {
            c.why.clone()
        };
        (c.remedy.as_str(), why)
    });
    let rows: Vec<_> = rows.collect();
    rest_section(rows.iter().map(|(remedy, why)| (*remedy, why.as_str())))
}

/// Why a remedy that fits has no verdict. All that fit are arms, unless the user named others.
fn passed(run: &SavedRun, candidate: &RemedyCandidate) -> &'static str {
    let Some(experiment) = &run.experiment else { return "nothing was tried" };
    let planned = |dose: &RemedyDose| experiment.design.arms.contains(&dose.spec());
    if candidate.doses.iter().any(planned) {
        "no run of this arm counted"
    } else {
        "excluded by --only"
    }
}
