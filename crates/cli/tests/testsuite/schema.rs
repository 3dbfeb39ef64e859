//! The JSON that the commands print matches the published schema, according to a public validator.

use crate::helper::{Place, experiment, said};
use boon::{Compiler, Schemas};
use serde_json::Value;

#[test]
fn every_kind_of_run_is_of_the_schema_that_show_prints() {
    let place = Place::new();
    let schema = said(&place.pagewise(&["show", "--schema"]).output().unwrap().stdout);
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.add_resource("run", serde_json::from_str(&schema).unwrap()).unwrap();
    let schema = compiler.compile("run", &mut schemas).unwrap();
    let file = place.path().join("file");
    std::fs::write(&file, vec![b'x'; 1 << 20]).unwrap();
    let file = file.to_str().unwrap();
    for words in [
        &["doctor", "--json"][..],
        &["faults", "--json", "--account", "--", "true"],
        &["profile", "--json", "--", "sh", "-c", "true"],
        &["profile", "--memory", "--json", "--", "true"],
        &["cache", "show", "--json", file],
        &["choose", "--json", file],
        &["text", "status", "--json"],
        &["tune", "--json", "--quiet", "--budget", "3s", "--", "sh", "-c", "true"],
        &["ab", "--json", "--quiet", "--budget", "3s", "--", "true", "---", "true"],
    ] {
        let Some(done) = experiment(|| place.pagewise(words)) else { continue };
        let Ok(document) = serde_json::from_slice::<Value>(&done.stdout) else {
            println!("SKIP {words:?}: {}", said(&done.stderr));
            continue;
        };
        let valid = schemas.validate(&document, schema);
        assert!(valid.is_ok(), "{words:?}: {:#}", valid.unwrap_err());
    }
}
