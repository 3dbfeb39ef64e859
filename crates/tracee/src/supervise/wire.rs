//! One message: its length in four bytes, little-endian, then JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read, Write};

/// Longest message; samples of a run are at most some 400 KiB, a look at thousands of processes may
/// be longer.
const LONGEST: u32 = 64 << 20;

/// True for the error of [`send`] that sent nothing: the message cannot be put on the wire.
pub(crate) fn is_unsendable(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidInput
}

/// Writes one message.
pub(crate) fn send<T: Serialize>(mut to: impl Write, message: &T) -> io::Result<()> {
    let unsendable = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
    let text = serde_json::to_vec(message).map_err(|e| unsendable(e.to_string()))?;
    let len = u32::try_from(text.len()).ok().filter(|len| *len <= LONGEST);
    let too_long = || format!("{} bytes are more than the {LONGEST} of a message", text.len());
    let len = len.ok_or_else(|| unsendable(too_long()))?;
    let mut frame = len.to_le_bytes().to_vec();
    frame.extend(text);
    to.write_all(&frame)
}

/// Reads one message; `None` at the end of the stream.
pub(crate) fn receive<T: DeserializeOwned>(mut from: impl Read) -> io::Result<Option<T>> {
    let mut len = [0; 4];
    match from.read_exact(&mut len) {
        Err(e) if is_end(&e) => return Ok(None),
        other => other?,
    }
    let len = u32::from_le_bytes(len);
    if len > LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "message too long"));
    }
    let mut text = Vec::new();
    from.take(u64::from(len)).read_to_end(&mut text)?;
    if text.len() as u64 != u64::from(len) {
        return Ok(None);
    }
    Ok(Some(serde_json::from_slice(&text)?))
}

/// True for the ways in which a peer's death shows.
pub(crate) fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionReset | BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::{Input, Launch, Sink};
    use crate::supervise::Request;
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn a_launch_with_bytes_that_are_no_text_survives() {
        let odd = OsString::from_vec(b"/tmp/\xff\xfe a".to_vec());
        let mut launch = Launch::experiment(vec!["x".into(), odd.clone()]);
        launch.cwd = Some(odd.clone().into());
        launch.stdin = Input::File(odd.clone().into());
        launch.stdout = Sink::File(odd.into());
        let request = Request::Run(Box::new(launch));
        let mut bytes = Vec::new();
        send(&mut bytes, &request).unwrap();
        send(&mut bytes, &Request::Ping).unwrap();
        let mut from = bytes.as_slice();
        assert_eq!(receive::<Request>(&mut from).unwrap(), Some(request));
        assert_eq!(receive::<Request>(&mut from).unwrap(), Some(Request::Ping));
        assert_eq!(receive::<Request>(&mut from).unwrap(), None);
    }

    #[test]
    fn a_cut_message_is_the_end_and_a_wrong_one_an_error() {
        assert_eq!(receive::<Request>(&[9, 0, 0, 0, b'"'][..]).unwrap(), None);
        assert_eq!(receive::<Request>(&[9][..]).unwrap(), None);
        assert!(receive::<Request>(&[255, 255, 255, 255][..]).is_err());
        assert!(receive::<Request>(&[1, 0, 0, 0, b'{'][..]).is_err());
    }
}
