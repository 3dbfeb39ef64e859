//! `working-set`: reads the parts of files that a start touches into the page cache at once, before the
//! start.
//!
//! A cold start takes a major fault at one page after the other, and waits for the device at each. `pagewise
//! faults --save-working-set FILE` saves which parts of which files a start touches, and with `--exact` which
//! parts it reads. Later starts request all of them from the device together and wait once
//! (`pagewise_tracee::read_ahead`). Nothing is mapped, so minor faults stay the same. Whole files are never
//! read: populating whole images was slower in every program that was tried.
//!
//! Cached pages are not read again: a warm start only pays for the look. Experiments run warm, so `tune` has
//! nothing to prove here. Cost: page cache for parts that a start with other arguments would not touch.

use crate::remedy::{Remedy, RemedyEvidence, RemedyMechanism};
use pagewise_model::machine::Machine;
use pagewise_model::plan::{ArmSettings, RemedyCandidate, RemedyDose};
use pagewise_tracee::read_ahead;
use std::path::Path;

pub(crate) struct WorkingSetRemedy;

impl Remedy for WorkingSetRemedy {
    fn name(&self) -> &'static str {
        "working-set"
    }
    fn sentence(&self) -> &'static str {
        "for cold starts: reads what a start touches of its files in one go beforehand"
    }
    fn parameters(&self) -> &'static str {
        "a file made by `pagewise faults --save-working-set`; no comma in its path"
    }

    fn dose(&self, parameter: &str, _machine: &Machine) -> Result<RemedyDose, String> {
        if parameter.is_empty() {
            return Err("name a file made by `pagewise faults --save-working-set FILE -- CMD`: working-set=FILE"
                .to_owned());
        }
        read_ahead::load(Path::new(parameter))?;
        // The receipt must be valid from any directory.
        let path = std::path::absolute(parameter).map_err(|e| format!("`{parameter}`: {e}"))?;
        let path = path.to_string_lossy().into_owned();
        let settings = ArmSettings { working_set: Some(path.clone()), ..ArmSettings::default() };
        Ok(self.with(&path, settings))
    }

    fn fit(&self, _evidence: &RemedyEvidence<'_>) -> RemedyCandidate {
        self.unfit(
            "it is for cold starts, and experiments run warm (pagewise faults --save-working-set)",
        )
    }

    fn mechanism(&self, _dose: &RemedyDose) -> RemedyMechanism {
        RemedyMechanism::MajorFaultsSaved
    }

    fn notes(&self, _dose: &RemedyDose) -> Vec<String> {
        vec![
            "it helps if the program's files are not in the page cache; a warm start pays for checking the cache"
                .to_owned(),
            "record it again when the program or its libraries change: changed files are left out"
                .to_owned(),
            "data files that the program reads are in it if it was recorded with --exact".to_owned(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use crate::registry::tests_support::parse;
    use pagewise_model::fault::WORKING_SET_SCHEMA;

    #[test]
    fn it_takes_a_saved_set_and_says_what_it_misses() {
        let said = |list: &str| parse(list).unwrap_err().to_string();
        assert!(said("working-set").contains("--save-working-set"), "{}", said("working-set"));
        let missing = said("working-set=/nonexistent/set");
        assert!(missing.contains("cannot read working set `/nonexistent/set`"), "{missing}");
        let path = std::env::temp_dir().join(format!("pagewise-set-{}", std::process::id()));
        let schema = format!("\"working_set_schema\":{WORKING_SET_SCHEMA}");
        std::fs::write(&path, format!("{{{schema},\"command\":[],\"files\":[]}}")).unwrap();
        let doses = parse(&format!("working-set={}", path.display()));
        std::fs::remove_file(&path).unwrap();
        let doses = doses.unwrap();
        assert_eq!(doses[0].settings.working_set.as_deref(), path.to_str());
        assert_eq!(doses[0].spec(), format!("working-set={}", path.display()));
    }
}
