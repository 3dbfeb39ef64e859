//! The published JSON Schema is that of the types, and saved runs are of it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use boon::{Compiler, Schemas};
use pagewise_model::run::{Run, RunKind, SCHEMA};
use std::path::{Path, PathBuf};

fn published() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/schema/run-{SCHEMA}.json"))
}

#[test]
fn the_published_schema_is_that_of_the_types() {
    let (file, schema) = (published(), Run::json_schema());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&file, &schema).unwrap();
    }
    let published = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(published == schema, "run with UPDATE_GOLDEN=1 to write {}", file.display());
}

/// What the schema says against a document.
fn objection(document: &serde_json::Value) -> Option<String> {
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.add_resource("run", serde_json::from_str(&Run::json_schema()).unwrap()).unwrap();
    let schema = compiler.compile("run", &mut schemas).unwrap();
    schemas.validate(document, schema).err().map(|error| format!("{error:#}"))
}

#[test]
fn saved_runs_are_of_the_schema_and_others_are_not() {
    let run = Run::new(RunKind::Tune, "1-2-x".into(), 7, vec!["x".into()]);
    let mut document: serde_json::Value = serde_json::from_str(&run.to_json()).unwrap();
    assert_eq!(objection(&document), None);
    document["took_ns"] = "long".into();
    assert!(objection(&document).is_some());
}
