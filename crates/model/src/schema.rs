//! The JSON Schema of saved runs (draft 2020-12). Readers accept keys that it does not name.
//!
//! The program prints the published file. The types derive it only with the feature `schema`, which tests use to
//! compare both.

#[cfg(not(feature = "schema"))]
pub(crate) use pagewise_no_schema::JsonSchema;
#[cfg(feature = "schema")]
pub(crate) use schemars::JsonSchema;

#[cfg(feature = "schema")]
pub use derived::{OsTextSchema, derived};

/// The published schema.
pub const PUBLISHED: &str = include_str!("../../../docs/schema/run-6.json");

#[cfg(feature = "schema")]
mod derived {
    use crate::cache::SlotMap;
    use crate::cache_list::PageRanges;
    use crate::run::{SCHEMA, SavedRun};
    use schemars::{JsonSchema, Schema, SchemaGenerator};
    use std::borrow::Cow;

    /// The schema that the types derive.
    #[must_use]
    pub fn derived() -> String {
        let mut schema = schemars::schema_for!(SavedRun);
        let address = format!("run-{SCHEMA}.json");
        schema.insert("$id".to_owned(), address.into());
        let text = serde_json::to_string_pretty(&schema);
        text.unwrap_or_else(|error| unreachable!("a schema is plain JSON: {error}")) + "\n"
    }

    /// For `#[schemars(with = "crate::schema::OsTextSchema")]`.
    #[derive(Debug)]
    pub struct OsTextSchema;

    impl JsonSchema for OsTextSchema {
        fn schema_name() -> Cow<'static, str> {
            "OsText".into()
        }

        fn json_schema(generator: &mut SchemaGenerator) -> Schema {
            let (string, bytes) =
                (String::json_schema(generator), Vec::<u8>::json_schema(generator));
            schemars::json_schema!({
                "description": "A word or a path: a string, or the list of its bytes if it is not UTF-8.",
                "anyOf": [string, bytes],
            })
        }
    }

    impl JsonSchema for SlotMap {
        fn schema_name() -> Cow<'static, str> {
            String::schema_name()
        }
        fn json_schema(generator: &mut SchemaGenerator) -> Schema {
            String::json_schema(generator)
        }
        fn inline_schema() -> bool {
            true
        }
    }

    impl JsonSchema for PageRanges {
        fn schema_name() -> Cow<'static, str> {
            Vec::<u64>::schema_name()
        }
        fn json_schema(generator: &mut SchemaGenerator) -> Schema {
            Vec::<u64>::json_schema(generator)
        }
        fn inline_schema() -> bool {
            true
        }
    }
}
