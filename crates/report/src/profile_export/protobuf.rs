//! Messages as bytes (protobuf.dev, "Encoding"): a field consists of its number, wire type and value. Zero
//! numbers and empty texts are left out, as in proto3.

/// A message under construction.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct ProtobufMessage(Vec<u8>);

/// Wire types.
const VARINT: u32 = 0;
const FIXED: u32 = 1;
const BYTES: u32 = 2;

impl ProtobufMessage {
    /// A number.
    pub(super) fn number(mut self, field: u32, value: u64) -> Self {
        if value != 0 {
            self.begin(field, VARINT);
            self.varint(value);
        }
        self
    }

    /// A number that always takes 8 bytes.
    pub(super) fn fixed(mut self, field: u32, value: u64) -> Self {
        if value != 0 {
            self.begin(field, FIXED);
            self.0.extend(value.to_le_bytes());
        }
        self
    }

    /// A text.
    pub(super) fn text(self, field: u32, text: &str) -> Self {
        if text.is_empty() { self } else { self.bytes(field, text.as_bytes()) }
    }

    /// A nested message, empty or not.
    pub(super) fn message(self, field: u32, inner: &Self) -> Self {
        self.bytes(field, &inner.0)
    }

    /// A nested message for each of `all`.
    pub(super) fn messages<T>(self, field: u32, all: &[T], write: impl Fn(&T) -> Self) -> Self {
        all.iter().fold(self, |message, one| message.message(field, &write(one)))
    }

    /// A text for each of `all`, empty or not.
    pub(super) fn texts(self, field: u32, all: &[impl AsRef<str>]) -> Self {
        all.iter().fold(self, |message, text| message.bytes(field, text.as_ref().as_bytes()))
    }

    /// A packed list of numbers.
    pub(super) fn numbers(self, field: u32, all: impl IntoIterator<Item = u64>) -> Self {
        let mut packed = Self::default();
        all.into_iter().for_each(|value| packed.varint(value));
        if packed.0.is_empty() { self } else { self.bytes(field, &packed.0) }
    }

    /// The bytes of the message.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn bytes(mut self, field: u32, bytes: &[u8]) -> Self {
        self.begin(field, BYTES);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    fn begin(&mut self, field: u32, written: u32) {
        self.varint(u64::from(field << 3 | written));
    }

    /// Seven bits per byte, the lowest first; the highest bit means that more bytes follow.
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_written_as_published() {
        // The examples of "Encoding".
        assert_eq!(ProtobufMessage::default().number(1, 150).into_bytes(), [0x08, 0x96, 0x01]);
        assert_eq!(ProtobufMessage::default().text(2, "testing").into_bytes(), b"\x12\x07testing");
        let packed = ProtobufMessage::default().numbers(6, [3, 270, 86942]).into_bytes();
        assert_eq!(packed, [0x32, 0x06, 0x03, 0x8e, 0x02, 0x9e, 0xa7, 0x05]);
        let inner =
            ProtobufMessage::default().message(3, &ProtobufMessage::default().number(1, 150));
        assert_eq!(inner.into_bytes(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
        assert_eq!(
            ProtobufMessage::default().fixed(3, 1).into_bytes(),
            [0x19, 1, 0, 0, 0, 0, 0, 0, 0]
        );
        let empty = ProtobufMessage::default().number(1, 0).text(2, "").fixed(3, 0).numbers(4, []);
        assert_eq!(empty, ProtobufMessage::default());
    }
}
