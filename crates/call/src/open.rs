//! Calls whose answers have not come; pure. An answer names its call by index and check, never by an address.

use crate::flow::Lane;
use crate::wire::Number;

/// Calls that may be open at a time.
pub(crate) const OPEN_MAX: usize = 65_535;

/// A call that waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenCall {
    /// Place of the target.
    pub(crate) to: usize,
    /// Queue that it went to.
    pub(crate) lane: Lane,
    /// Lines that are reserved for its answer.
    pub(crate) answer_lines: u64,
    /// Address of what is told; none: nobody waits any more.
    pub(crate) answer: Option<usize>,
}

/// Table of all open calls.
#[derive(Debug, Default)]
pub(crate) struct OpenCalls {
    slots: Vec<(u16, Option<OpenCall>)>,
    free: Vec<u16>,
}

impl OpenCalls {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Opens one more; none when [`OPEN_MAX`] are open.
    pub(crate) fn insert(&mut self, call: OpenCall) -> Option<Number> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.slots.len() < OPEN_MAX => {
                self.slots.push((0, None));
                (self.slots.len() - 1) as u16
            }
            None => return None,
        };
        let (check, slot) = &mut self.slots[usize::from(index)];
        *check = check.wrapping_add(1);
        *slot = Some(call);
        Some(Number { index, check: *check })
    }

    fn slot(&mut self, number: Number) -> Option<&mut Option<OpenCall>> {
        let (check, slot) = self.slots.get_mut(usize::from(number.index))?;
        (*check == number.check).then_some(slot)
    }

    /// The call that an answer of the rank at this place is for.
    pub(crate) fn take(&mut self, number: Number, from: usize) -> Option<OpenCall> {
        let call = self.slot(number)?.take_if(|call| call.to == from)?;
        self.free.push(number.index);
        Some(call)
    }

    /// Whether a part of an answer is for a call to the rank at this place.
    pub(crate) fn is_open(&mut self, number: Number, from: usize) -> bool {
        matches!(self.slot(number), Some(Some(call)) if call.to == from)
    }

    /// From now on another address is told, or nobody. False: there is no such call.
    pub(crate) fn redirect(&mut self, number: Number, answer: Option<usize>) -> bool {
        match self.slot(number) {
            Some(Some(call)) => call.answer = answer,
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_calls_are_found_once_and_by_their_target() {
        let mut open = OpenCalls::default();
        let call = OpenCall { to: 3, lane: Lane::Quick, answer_lines: 4, answer: Some(64) };
        let first = open.insert(call).expect("room");
        assert_eq!(open.take(first, 2), None, "another rank cannot answer");
        assert!(open.is_open(first, 3) && !open.is_open(first, 2));
        assert!(open.redirect(first, None));
        assert_eq!(open.take(first, 3), Some(OpenCall { answer: None, ..call }));
        assert_eq!(open.take(first, 3), None);
        let second = open.insert(call).expect("room");
        assert_eq!(second.index, first.index);
        assert_eq!(open.take(first, 3), None, "an old answer");
        assert!(!open.redirect(first, None));
        assert_eq!(open.take(Number { index: 9, check: 1 }, 3), None);
        assert_eq!(open.len(), 1);
    }

    #[test]
    fn open_calls_are_bounded() {
        let mut open = OpenCalls::default();
        let call = OpenCall { to: 0, lane: Lane::Ordinary, answer_lines: 1, answer: None };
        let last = (0..OPEN_MAX).map(|_| open.insert(call).expect("room")).last().expect("some");
        assert_eq!((open.insert(call), open.len()), (None, OPEN_MAX));
        assert!(open.take(last, 0).is_some());
        assert!(open.insert(call).is_some());
    }
}
