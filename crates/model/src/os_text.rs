//! Words and paths of the operating system in JSON: a string, or a list of bytes if the text is not UTF-8.
//!
//! For `#[serde(with = "crate::os_text")]`. The modules [`list`] and [`optional`] serve several texts and an
//! optional one.

use serde::de::{DeserializeSeed, Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// One text in its saved form.
struct OsText<T>(T);

impl<T: AsRef<OsStr>> Serialize for OsText<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        serialize(&self.0, to)
    }
}

impl<'de, T: From<OsString>> Deserialize<'de> for OsText<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(OsTextBytes(Vec::new())).map(|text| Self(text.into()))
    }
}

/// Reads both forms without an intermediate one, so a list of bytes takes no more memory than its JSON.
struct OsTextBytes(Vec<u8>);

/// Takes one byte. The bound on memory does not count it.
impl<'de> DeserializeSeed<'de> for &mut OsTextBytes {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        u8::deserialize(from).map(|byte| self.0.push(byte))
    }
}

impl<'de> Visitor<'de> for OsTextBytes {
    type Value = OsString;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, or a list of bytes")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<OsString, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut from: A) -> Result<OsString, A::Error> {
        while from.next_element_seed(&mut self)?.is_some() {}
        Ok(OsString::from_vec(self.0))
    }
}

/// Saves one text.
///
/// # Errors
/// Those of `to`.
pub fn serialize<S: Serializer>(text: &impl AsRef<OsStr>, to: S) -> Result<S::Ok, S::Error> {
    let text = text.as_ref();
    match text.to_str() {
        Some(text) => to.serialize_str(text),
        None => to.collect_seq(text.as_bytes()),
    }
}

/// Reads one text.
///
/// # Errors
/// If it has neither form.
pub fn deserialize<'de, T: From<OsString>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    OsText::deserialize(from).map(|text| text.0)
}

/// Several texts.
pub mod list {
    use super::{Deserialize, Deserializer, OsStr, OsString, OsText, Serializer};

    /// Saves all texts.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn serialize<T: AsRef<OsStr>, S: Serializer>(all: &[T], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(all.iter().map(OsText))
    }

    /// Reads all texts.
    ///
    /// # Errors
    /// If one has neither form.
    pub fn deserialize<'de, T: From<OsString>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<T>, D::Error> {
        Ok(Vec::<OsText<T>>::deserialize(from)?.into_iter().map(|text| text.0).collect())
    }
}

/// A text that may be absent.
pub mod optional {
    use super::{Deserialize, Deserializer, OsStr, OsString, OsText, Serialize, Serializer};

    /// Saves the text.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn serialize<T: AsRef<OsStr>, S: Serializer>(
        one: &Option<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        one.as_ref().map(OsText).serialize(to)
    }

    /// Reads the text.
    ///
    /// # Errors
    /// If it has neither form.
    pub fn deserialize<'de, T: From<OsString>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        Ok(Option::<OsText<T>>::deserialize(from)?.map(|text| text.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct All {
        #[serde(with = "super")]
        one: PathBuf,
        #[serde(with = "super::list")]
        list: Vec<OsString>,
        #[serde(with = "super::optional")]
        optional: Option<PathBuf>,
    }

    #[test]
    fn what_is_not_utf_8_comes_back() {
        let odd = || OsString::from_vec(b"/\xff\xc3".to_vec());
        let all = All { one: odd().into(), list: vec!["a b".into(), odd()], optional: None };
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(text, r#"{"one":[47,255,195],"list":["a b",[47,255,195]],"optional":null}"#);
        assert_eq!(crate::bounded::from_json::<All>(text.as_bytes()).unwrap(), all);
        let wrong = text.replace("195", "256");
        assert!(serde_json::from_str::<All>(&wrong).is_err());
    }

    #[test]
    fn a_list_of_bytes_takes_no_more_than_its_json() {
        let many: Vec<OsString> = vec![OsString::from_vec(vec![0xff; 4000]); 4000];
        let all = All { one: PathBuf::new(), list: many, optional: Some("x".into()) };
        let text = serde_json::to_vec(&all).unwrap();
        assert_eq!(crate::bounded::from_json::<All>(&text).unwrap(), all);
    }
}
