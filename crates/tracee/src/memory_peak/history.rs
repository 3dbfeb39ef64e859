//! Records which code mapped which addresses. Each call takes over addresses of earlier calls.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Addresses that one call mapped and no later call has taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttributedMapping {
    pub start: u64,
    pub end: u64,
    /// Path of the file whose code made the call.
    pub object: Arc<str>,
}

/// The calls of one process.
#[derive(Debug, Clone, Default)]
pub(super) struct MappingHistory(BTreeMap<u64, (u64, Arc<str>)>);

impl MappingHistory {
    pub(super) fn put(&mut self, start: u64, end: u64, object: Arc<str>) {
        if start >= end {
            return;
        }
        self.cut(start, end);
        self.0.insert(start, (end, object));
    }

    /// The file whose code mapped `address`.
    pub(super) fn object(&self, address: u64) -> Option<Arc<str>> {
        let (_, (end, object)) = self.0.range(..=address).next_back()?;
        (address < *end).then(|| object.clone())
    }

    /// All ranges in the order of their addresses.
    pub(super) fn all(&self) -> Vec<AttributedMapping> {
        let one = |(start, (end, object)): (&u64, &(u64, Arc<str>))| AttributedMapping {
            start: *start,
            end: *end,
            object: object.clone(),
        };
        self.0.iter().map(one).collect()
    }

    /// Removes these addresses from all calls.
    fn cut(&mut self, start: u64, end: u64) {
        let before = self.0.range(..start).next_back().map(|(at, _)| *at);
        let inside = self.0.range(start..end).map(|(at, _)| *at);
        for at in before.into_iter().chain(inside).collect::<Vec<u64>>() {
            let Some((last, object)) = self.0.remove(&at) else { continue };
            if at < start {
                self.0.insert(at, (last.min(start), object.clone()));
            }
            if last > end {
                self.0.insert(end.max(at), (last, object));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(history: &MappingHistory) -> Vec<(u64, u64, String)> {
        history.all().into_iter().map(|one| (one.start, one.end, one.object.to_string())).collect()
    }

    #[test]
    fn later_calls_take_addresses_of_earlier_ones() {
        let mut history = MappingHistory::default();
        history.put(10, 100, "a".into());
        history.put(200, 300, "b".into());
        history.put(50, 60, "c".into());
        let expected = [(10, 50, "a"), (50, 60, "c"), (60, 100, "a"), (200, 300, "b")];
        let owned = |all: &[(u64, u64, &str)]| {
            all.iter()
                .map(|(start, end, object)| (*start, *end, (*object).to_owned()))
                .collect::<Vec<_>>()
        };
        assert_eq!(all(&history), owned(&expected));
        history.put(55, 250, "d".into());
        assert_eq!(
            all(&history),
            owned(&[(10, 50, "a"), (50, 55, "c"), (55, 250, "d"), (250, 300, "b")])
        );
        history.put(0, 400, "e".into());
        assert_eq!(all(&history), owned(&[(0, 400, "e")]));
        assert_eq!(history.object(399).as_deref(), Some("e"));
        assert_eq!(history.object(400), None);
        history.put(5, 5, "f".into());
        assert_eq!(history.all().len(), 1);
    }
}
