//! Queue of what waits for room in front of a peer's ring or FIFO, in order. Any entry may be withdrawn at
//! the same cost, wherever it stands.

use std::collections::VecDeque;

/// Waiting things. Outside of a loop over [`Backlog::pop_front`] the first one has not been withdrawn.
#[derive(Debug)]
pub(super) struct Backlog<T> {
    /// Withdrawn ones are `None`.
    queue: VecDeque<Option<T>>,
    /// How many have left at the front.
    popped: u64,
}

impl<T> Default for Backlog<T> {
    fn default() -> Self {
        Backlog { queue: VecDeque::new(), popped: 0 }
    }
}

impl<T> Backlog<T> {
    /// Whether nothing waits.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Adds one; returns the ticket by which it can be withdrawn.
    pub(super) fn push_back(&mut self, one: T) -> u64 {
        self.queue.push_back(Some(one));
        self.popped + self.queue.len() as u64 - 1
    }

    /// Takes the first one.
    pub(super) fn pop_front(&mut self) -> Option<T> {
        self.drop_withdrawn();
        let first = self.queue.pop_front()?;
        self.popped += 1;
        first
    }

    /// Puts back what [`Backlog::pop_front`] has given.
    pub(super) fn push_front(&mut self, one: T) {
        self.queue.push_front(Some(one));
        self.popped -= 1;
    }

    /// The first one.
    pub(super) fn front(&self) -> Option<&T> {
        self.queue.front()?.as_ref()
    }

    /// Takes the one with this ticket out if it waits yet, which `is_it` says of what has the ticket now.
    pub(super) fn withdraw(&mut self, ticket: u64, is_it: impl FnOnce(&T) -> bool) -> bool {
        let Some(position) = ticket.checked_sub(self.popped) else { return false };
        let Some(slot) = self.queue.get_mut(position as usize) else { return false };
        if !slot.as_ref().is_some_and(is_it) {
            return false;
        }
        *slot = None;
        self.drop_withdrawn();
        true
    }

    fn drop_withdrawn(&mut self) {
        while let Some(None) = self.queue.front() {
            self.queue.pop_front();
            self.popped += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn backlog_is_a_queue_from_which_any_can_be_withdrawn(
            calls in prop::collection::vec((0..5_u8, any::<prop::sample::Index>()), 0..300),
        ) {
            let (mut backlog, mut tickets, mut left) = (Backlog::default(), Vec::new(), Vec::new());
            for (number, (call, which)) in calls.into_iter().enumerate() {
                match call {
                    0 | 1 => {
                        tickets.push((backlog.push_back(number), number));
                        left.push(number);
                    }
                    // Some are taken, then one is put back.
                    2 => {
                        for _ in 0..which.index(4) {
                            prop_assert_eq!(backlog.pop_front(), (!left.is_empty()).then(|| left.remove(0)));
                        }
                        if let Some(one) = backlog.pop_front() {
                            backlog.push_front(one);
                        }
                    }
                    _ if tickets.is_empty() => {}
                    _ => {
                        let (ticket, number) = tickets[which.index(tickets.len())];
                        let position = left.iter().position(|other| *other == number);
                        prop_assert_eq!(backlog.withdraw(ticket, |one| *one == number), position.is_some());
                        position.map(|position| left.remove(position));
                    }
                }
                prop_assert_eq!(backlog.is_empty(), left.is_empty());
                prop_assert_eq!(backlog.front(), left.first());
            }
        }
    }
}
