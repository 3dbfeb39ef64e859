//! Reads JSON of a file into no more memory than a stated multiple of its length.
//!
//! Three bytes of JSON can become a hundred bytes of a structure. So the reader counts what it makes: each
//! text, and each element of a list or map by the size of its type, with the room in which short lists grow.
//! It refuses a text before the result takes more than [`ALWAYS`] plus [`TIMES`] its length. It does not
//! count lists of numbers that their reader packs (`CacheList`).
//!
//! A deserializer around that of `serde_json` counts what passes through it, at a cost of about 5% of the
//! reading time.

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use std::cell::Cell;
use std::fmt;

/// Bytes that any text may become, and bytes that each byte of it may become.
const ALWAYS: u64 = 8 << 20;
const TIMES: f64 = 1.5;
/// Bytes that a text takes in addition to its own.
const TEXT: u64 = 16;

/// Reads a document.
///
/// # Errors
/// If it is not JSON of the right form, or would take too much memory.
pub fn from_json<T: DeserializeOwned>(text: &[u8]) -> Result<T, serde_json::Error> {
    BoundedDocument::new(text).read()
}

/// A document from which several things are read, all of them into no more memory than one would take.
pub(crate) struct BoundedDocument<'a> {
    text: &'a [u8],
    meter: ByteBudget,
}

impl<'a> BoundedDocument<'a> {
    pub(crate) const fn new(text: &'a [u8]) -> Self {
        let meter = ByteBudget(Cell::new(ALWAYS + (TIMES * text.len() as f64) as u64));
        Self { text, meter }
    }

    /// Reads one thing from the document. Keys that it does not have take no memory.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        let mut from = serde_json::Deserializer::from_slice(self.text);
        let value = T::deserialize(Metered { inner: &mut from, meter: &self.meter })?;
        from.end()?;
        Ok(value)
    }
}

/// Number of bytes that may still be made.
struct ByteBudget(Cell<u64>);

impl ByteBudget {
    fn take<E: Error>(&self, bytes: u64) -> Result<(), E> {
        let left = self.0.get().checked_sub(bytes);
        self.0.set(left.ok_or_else(|| {
            E::custom(format!("it would take more than {TIMES} times its length in memory"))
        })?);
        Ok(())
    }

    fn text<E: Error>(&self, text: &[u8]) -> Result<(), E> {
        self.take(text.len() as u64 + TEXT)
    }

    /// Counts the element of a list after `before` others. The first makes room for four. Then lists grow by
    /// doubling; pages of long ones are not touched before they are needed.
    fn element<T, E: Error>(&self, before: u64) -> Result<(), E> {
        const LONG: u64 = 1 << 12;
        let times = match before {
            0 => 4,
            1..4 => 0,
            4..LONG => 2,
            _ => 1,
        };
        self.take(times * size_of::<T>() as u64)
    }

    /// Counts a key or a value of a map.
    fn entry<T, E: Error>(&self) -> Result<(), E> {
        self.take(2 * size_of::<T>() as u64)
    }
}

/// A part of serde that counts what passes through it.
struct Metered<'a, T> {
    inner: T,
    meter: &'a ByteBudget,
}

impl<'a, T> Metered<'a, T> {
    fn of<U>(&self, inner: U) -> Metered<'a, U> {
        Metered { inner, meter: self.meter }
    }
}

macro_rules! forward {
    ($($name:ident($($argument:ident: $kind:ty),*))*) => {$(
        fn $name<V: Visitor<'de>>(self, $($argument: $kind,)* visitor: V) -> Result<V::Value, D::Error> {
            let visitor = self.of(visitor);
            self.inner.$name($($argument,)* visitor)
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Metered<'_, D> {
    type Error = D::Error;

    forward! {
        deserialize_any() deserialize_bool() deserialize_i8() deserialize_i16() deserialize_i32() deserialize_i64()
        deserialize_i128() deserialize_u8() deserialize_u16() deserialize_u32() deserialize_u64() deserialize_u128()
        deserialize_f32() deserialize_f64() deserialize_char() deserialize_str() deserialize_string() deserialize_bytes()
        deserialize_byte_buf() deserialize_option() deserialize_unit() deserialize_unit_struct(name: &'static str)
        deserialize_newtype_struct(name: &'static str) deserialize_seq() deserialize_tuple(length: usize)
        deserialize_tuple_struct(name: &'static str, length: usize) deserialize_map()
        deserialize_struct(name: &'static str, fields: &'static [&'static str])
        deserialize_enum(name: &'static str, variants: &'static [&'static str])
    }

    // Names of fields and skipped values are not kept.
    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_identifier(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_ignored_any(visitor)
    }
}

macro_rules! visit {
    ($($name:ident($kind:ty))*) => {$(
        fn $name<E: Error>(self, value: $kind) -> Result<V::Value, E> {
            self.inner.$name(value)
        }
    )*};
}

macro_rules! visit_text {
    ($($name:ident($kind:ty))*) => {$(
        fn $name<E: Error>(self, value: $kind) -> Result<V::Value, E> {
            self.meter.text(value.as_ref())?;
            self.inner.$name(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Metered<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    visit! {
        visit_bool(bool) visit_i8(i8) visit_i16(i16) visit_i32(i32) visit_i64(i64) visit_i128(i128) visit_u8(u8)
        visit_u16(u16) visit_u32(u32) visit_u64(u64) visit_u128(u128) visit_f32(f32) visit_f64(f64) visit_char(char)
    }
    visit_text! {
        visit_str(&str) visit_borrowed_str(&'de str) visit_string(String) visit_bytes(&[u8])
        visit_borrowed_bytes(&'de [u8]) visit_byte_buf(Vec<u8>)
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<V::Value, D::Error> {
        let from = self.of(from);
        self.inner.visit_some(from)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, from: D) -> Result<V::Value, D::Error> {
        let from = self.of(from);
        self.inner.visit_newtype_struct(from)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, from: A) -> Result<V::Value, A::Error> {
        let from = Elements { inner: from, meter: self.meter, before: 0 };
        self.inner.visit_seq(from)
    }

    fn visit_map<A: MapAccess<'de>>(self, from: A) -> Result<V::Value, A::Error> {
        let from = MapEntries { inner: from, meter: self.meter, is_map: false };
        self.inner.visit_map(from)
    }

    fn visit_enum<A: EnumAccess<'de>>(self, from: A) -> Result<V::Value, A::Error> {
        let from = self.of(from);
        self.inner.visit_enum(from)
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Metered<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<S::Value, D::Error> {
        let from = self.of(from);
        self.inner.deserialize(from)
    }
}

/// The elements of a list.
struct Elements<'a, A> {
    inner: A,
    meter: &'a ByteBudget,
    before: u64,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Elements<'_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        let next = self.inner.next_element_seed(Metered { inner: seed, meter: self.meter })?;
        if next.is_some() {
            self.meter.element::<S::Value, _>(self.before)?;
            self.before += 1;
        }
        Ok(next)
    }
}

/// The entries of a map, or the fields of a structure, which already has room for them.
struct MapEntries<'a, A> {
    inner: A,
    meter: &'a ByteBudget,
    /// True for a map. The keys of fields are numbers of a byte or two.
    is_map: bool,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for MapEntries<'_, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.is_map = size_of::<S::Value>() >= size_of::<usize>();
        let next = self.inner.next_key_seed(Metered { inner: seed, meter: self.meter })?;
        if next.is_some() && self.is_map {
            self.meter.entry::<S::Value, _>()?;
        }
        Ok(next)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        if self.is_map {
            self.meter.entry::<S::Value, _>()?;
        }
        self.inner.next_value_seed(Metered { inner: seed, meter: self.meter })
    }
}

impl<'de, 'a, A: EnumAccess<'de>> EnumAccess<'de> for Metered<'a, A> {
    type Error = A::Error;
    type Variant = Metered<'a, A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Self::Variant), A::Error> {
        let (value, variant) = self.inner.variant_seed(seed)?;
        Ok((value, Metered { inner: variant, meter: self.meter }))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Metered<'_, A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        let seed = self.of(seed);
        self.inner.newtype_variant_seed(seed)
    }

    fn tuple_variant<V: Visitor<'de>>(
        self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        let visitor = self.of(visitor);
        self.inner.tuple_variant(length, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        let visitor = self.of(visitor);
        self.inner.struct_variant(fields, visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::collections::BTreeMap;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Large {
        numbers: [u64; 30],
        more: Option<Box<Large>>,
        names: Vec<(String, Option<u8>)>,
        tagged: Option<Tagged>,
        map: BTreeMap<String, f64>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(tag = "kind", rename_all = "snake_case")]
    enum Tagged {
        Unit,
        List { all: Vec<String> },
    }

    #[test]
    fn what_is_read_is_the_same() {
        let text = r#"{"more":{"names":[["a",null],["\u00e9",1]],"unknown":{"b":[1]}},
                       "tagged":{"kind":"list","all":["x","y"]},"map":{"k":1.5}}"#;
        let read: Large = from_json(text.as_bytes()).unwrap();
        assert_eq!(read, serde_json::from_str(text).unwrap());
        assert_eq!(read.more.unwrap().names[1], ("\u{e9}".to_owned(), Some(1)));
        assert_eq!(
            from_json::<Option<Tagged>>(b"{\"kind\":\"unit\"}").unwrap(),
            Some(Tagged::Unit)
        );
        for wrong in ["", "{", "[3]", "{} {}", "{\"tagged\":{\"kind\":\"no\"}}"] {
            let (own, theirs) =
                (from_json::<Large>(wrong.as_bytes()), serde_json::from_str::<Large>(wrong));
            assert_eq!(own.unwrap_err().to_string(), theirs.unwrap_err().to_string(), "{wrong}");
        }
    }

    #[test]
    fn short_text_of_large_things_is_refused() {
        let list =
            |element: &str| format!("[{}{element}]", format!("{element},").repeat(1_000_000));
        let why = |error: serde_json::Error| error.to_string();
        let larges = from_json::<Vec<Large>>(list("{}").as_bytes()).map_err(why);
        assert!(
            larges
                .unwrap_err()
                .starts_with("it would take more than 1.5 times its length in memory")
        );
        assert!(from_json::<Vec<String>>(list("\"\"").as_bytes()).is_err());
        // A text that is read twice counts twice.
        let names = format!("[{}\"\"]", "\"\",".repeat(100_000));
        let document = BoundedDocument::new(names.as_bytes());
        let reads: Vec<bool> = (0..3).map(|_| document.read::<Vec<String>>().is_ok()).collect();
        assert_eq!(reads, [true, true, false]);
        assert!(from_json::<Vec<Option<Tagged>>>(list("null").as_bytes()).is_err());
        let text = format!("\"{}\"", "x".repeat(200));
        assert_eq!(from_json::<Vec<String>>(list(&text).as_bytes()).unwrap().len(), 1_000_001);
        let few = format!("[{}{{}}]", "{},".repeat(10_000));
        assert_eq!(from_json::<Vec<Large>>(few.as_bytes()).unwrap().len(), 10_001);
        let map: String = (0..300_000).map(|n| format!("\"{n}\":{{}},")).collect();
        assert!(
            from_json::<BTreeMap<String, Large>>(format!("{{{map}\"\":{{}}}}").as_bytes()).is_err()
        );
    }
}
