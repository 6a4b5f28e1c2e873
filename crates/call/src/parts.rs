//! Data of long calls and answers, of which parts have come; pure.

use std::collections::HashMap;

use crate::wire::PartOf;

/// Bytes of arguments, or of a result, that come in parts, at most.
pub(crate) const LONG_BYTES_MAX: usize = 16 << 20;

/// Parts that wait for the last one, by sender and by what they belong to.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    kept: HashMap<(usize, PartOf), Vec<u8>>,
}

impl Parts {
    /// A part has come from the rank at a place. What would be longer than any rank sends is dropped.
    pub(crate) fn add(&mut self, from: usize, of: PartOf, data: &[u8]) {
        let kept = self.kept.entry((from, of)).or_default();
        if kept.len() + data.len() <= LONG_BYTES_MAX {
            kept.extend_from_slice(data);
        }
    }

    /// The whole of it, whose last part is this; none where this is all of it.
    pub(crate) fn end(&mut self, from: usize, of: PartOf, last: &[u8]) -> Option<Vec<u8>> {
        if self.kept.is_empty() {
            return None;
        }
        let mut whole = self.kept.remove(&(from, of))?;
        whole.extend_from_slice(last);
        Some(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Number;

    #[test]
    fn parts_are_put_together_by_sender_and_call() {
        let mut parts = Parts::default();
        let answer = PartOf::Answer(Number { index: 3, check: 1 });
        assert_eq!(parts.end(0, PartOf::Call, b"all"), None);
        parts.add(0, PartOf::Call, b"one ");
        parts.add(1, PartOf::Call, b"other ");
        parts.add(0, answer, b"answer ");
        parts.add(0, PartOf::Call, b"two ");
        assert_eq!(parts.end(0, PartOf::Call, b"three"), Some(b"one two three".to_vec()));
        assert_eq!(parts.end(0, PartOf::Call, b"all"), None);
        assert_eq!(parts.end(0, answer, b""), Some(b"answer ".to_vec()));
        assert_eq!(parts.end(1, PartOf::Call, b"one"), Some(b"other one".to_vec()));
    }

    #[test]
    fn parts_are_bounded() {
        let mut parts = Parts::default();
        let half = vec![0; LONG_BYTES_MAX / 2];
        (0..5).for_each(|_| parts.add(0, PartOf::Call, &half));
        assert_eq!(parts.end(0, PartOf::Call, b"1").map(|whole| whole.len()), Some(LONG_BYTES_MAX + 1));
    }
}
