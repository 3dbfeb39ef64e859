//! The published JSON Schema matches the types, and saved runs match it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use boon::{Compiler, Schemas};
use pagewise_model::run::{RunKind, SCHEMA, SavedRun};
use pagewise_model::schema::derived;
use pagewise_model::spec::SessionSpec;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

fn published() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/schema/run-{SCHEMA}.json"))
}

#[test]
fn the_published_schema_is_that_of_the_types() {
    let (file, schema) = (published(), derived());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&file, &schema).unwrap();
    }
    let published = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(published == schema, "run with UPDATE_GOLDEN=1 to write {}", file.display());
}

/// The objection of the schema to a document; `None` if it is valid.
fn objection(document: &serde_json::Value) -> Option<String> {
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.add_resource("run", serde_json::from_str(&derived()).unwrap()).unwrap();
    let schema = compiler.compile("run", &mut schemas).unwrap();
    schemas.validate(document, schema).err().map(|error| format!("{error:#}"))
}

#[test]
fn saved_runs_are_of_the_schema_and_others_are_not() {
    let run = SavedRun::new(RunKind::Tune, "1-2-x".into(), 7, vec!["x".into()]);
    let mut document: serde_json::Value = serde_json::from_str(&run.to_json()).unwrap();
    assert_eq!(objection(&document), None);
    document["took_ns"] = "long".into();
    assert!(objection(&document).is_some());
}

/// Saved runs of the repository from an earlier version.
fn former() -> Vec<SavedRun> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let files = ["cookbook", "runs"].map(|name| std::fs::read_dir(all.join(name)).unwrap());
    let paths = files.into_iter().flatten().map(|entry| entry.unwrap().path());
    let json = paths.filter(|path| path.extension().is_some_and(|end| end == "json"));
    json.map(|path| {
        let text = std::fs::read(&path).unwrap();
        assert!(!String::from_utf8_lossy(&text).contains("\"spec\""), "{}", path.display());
        SavedRun::from_json(&text).unwrap()
    })
    .collect()
}

#[test]
fn former_runs_say_what_was_asked() {
    let runs = former();
    let tuned: Vec<&SavedRun> = runs.iter().filter(|run| run.kind == RunKind::Tune).collect();
    let specs: Vec<&SessionSpec> = tuned.iter().map(|run| run.spec.as_ref().unwrap()).collect();
    for (run, spec) in tuned.iter().zip(&specs) {
        assert!(spec.command.iter().eq(run.command.iter().map(OsStr::new)), "{}", run.id);
        if let Some(experiment) = &run.experiment {
            let design = &experiment.design;
            assert_eq!((spec.quantity, spec.seed), (design.quantity, design.seed), "{}", run.id);
        }
        assert_eq!(run.service.is_some(), spec.service.is_some(), "{}", run.id);
        assert_eq!(run.can_continue(), spec.is_repeatable(), "{}", run.id);
    }
    let services = specs.iter().filter_map(|spec| spec.service.as_ref());
    let loads: Vec<&str> = services.map(|service| service.load.as_str()).collect();
    assert!(loads.len() > 5 && loads.iter().all(|load| !load.is_empty()), "{loads:?}");
    assert!(specs.iter().filter(|spec| spec.is_repeatable()).count() > 10);
}

#[test]
fn a_run_comes_back_with_what_was_asked() {
    for run in former() {
        let text = run.to_json();
        assert_eq!(objection(&serde_json::from_str(&text).unwrap()), None, "{}", run.id);
        let again = SavedRun::from_json(text.as_bytes()).unwrap();
        assert_eq!((again.spec, again.files), (run.spec, run.files), "{}", run.id);
    }
}

#[test]
fn runs_of_schema_5_are_read_as_they_are() {
    for run in former() {
        let text = run.to_json().replacen("\"schema\": 6", "\"schema\": 5", 1);
        assert!(text != run.to_json());
        let again = SavedRun::from_json(text.as_bytes()).unwrap();
        assert_eq!((again.spec, again.files), (run.spec, run.files), "{}", run.id);
        assert_eq!(again.service.is_some(), run.service.is_some(), "{}", run.id);
    }
}
