//! The bytes that a producer sends and a consumer checks: the numbers of their own places.
//!
//! The stream is a sequence of 8-byte words in native byte order, each the number of its place, from 0. With
//! a period the sequence restarts after that many bytes. A byte that was lost, repeated, reordered, changed
//! or overwritten on the way differs from the expected one. The cost is about that of reading or writing the
//! memory: both loops are vectorised.

const WORD: usize = 8;

/// Writes the part of the stream that begins at byte `offset`.
pub(super) fn fill(bytes: &mut [u8], offset: u64) {
    let (head, first) = split(offset, bytes.len());
    let (before, rest) = bytes.split_at_mut(head);
    let (words, after) = rest.as_chunks_mut::<WORD>();
    fill_bytes(before, offset);
    let mut next = first;
    for word in words {
        *word = next.to_ne_bytes();
        next = next.wrapping_add(1);
    }
    fill_bytes(after, next.wrapping_mul(WORD as u64));
}

/// Whether `bytes` are the expected ones at `offset` of a stream with this period.
pub(super) fn is_whole(mut bytes: &[u8], offset: u64, period: Option<u64>) -> bool {
    let Some(period) = period.filter(|&period| period > 0) else {
        return is_straight(bytes, offset);
    };
    let mut at = offset % period;
    let mut whole = true;
    while !bytes.is_empty() {
        let len = usize::try_from(period - at).unwrap_or(usize::MAX).min(bytes.len());
        let (piece, rest) = bytes.split_at(len);
        whole &= is_straight(piece, at);
        (bytes, at) = (rest, 0);
    }
    whole
}

fn is_straight(bytes: &[u8], offset: u64) -> bool {
    let (head, first) = split(offset, bytes.len());
    let (before, rest) = bytes.split_at(head);
    let (words, after) = rest.as_chunks::<WORD>();
    let mut next = first;
    let mut difference = 0;
    for word in words {
        difference |= u64::from_ne_bytes(*word) ^ next;
        next = next.wrapping_add(1);
    }
    let ends = is_bytes(before, offset) && is_bytes(after, next.wrapping_mul(WORD as u64));
    ends && difference == 0
}

/// Bytes up to the first whole word, and the number of that word.
fn split(offset: u64, len: usize) -> (usize, u64) {
    let first = offset.div_ceil(WORD as u64);
    let head = usize::try_from(first * WORD as u64 - offset).unwrap_or(0);
    (head.min(len), first)
}

fn byte_at(place: u64) -> u8 {
    (place / WORD as u64).to_ne_bytes()[(place % WORD as u64) as usize]
}

fn fill_bytes(bytes: &mut [u8], offset: u64) {
    for (byte, place) in bytes.iter_mut().zip(offset..) {
        *byte = byte_at(place);
    }
}

fn is_bytes(bytes: &[u8], offset: u64) -> bool {
    bytes.iter().zip(offset..).all(|(byte, place)| *byte == byte_at(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(len: usize) -> Vec<u8> {
        (0..len as u64).map(byte_at).collect()
    }

    #[test]
    fn any_part_is_the_same_stream() {
        let whole = stream(200);
        for offset in 0..20 {
            for len in 0..40 {
                let mut part = vec![0xaa; len];
                fill(&mut part, offset as u64);
                assert_eq!(part, whole[offset..offset + len], "{len} bytes at {offset}");
                assert!(is_whole(&part, offset as u64, None));
            }
        }
    }

    #[test]
    fn every_flipped_byte_is_caught() {
        let mut bytes = vec![0; 100];
        fill(&mut bytes, 3);
        for place in 0..bytes.len() {
            bytes[place] ^= 0x10;
            assert!(!is_whole(&bytes, 3, None), "byte {place}");
            bytes[place] ^= 0x10;
        }
        assert!(is_whole(&bytes, 3, None));
        assert!(!is_whole(&bytes, 3 + 8, None), "bytes of another place");
    }

    #[test]
    fn a_period_starts_anew() {
        let mut period = vec![0; 24];
        fill(&mut period, 0);
        let twice = [&period[..], &period[..]].concat();
        assert!(is_whole(&twice, 0, Some(24)));
        assert!(is_whole(&twice[5..40], 5 + 240, Some(24)));
        assert!(!is_whole(&twice, 0, Some(32)));
        assert!(!is_whole(&twice, 0, None));
    }
}
