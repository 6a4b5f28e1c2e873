//! Credit between this rank and another one: what the two may have in each other's queues; pure.
//!
//! | number | grows |
//! |---|---|
//! | `sent` | by the lines of a call that leaves |
//! | `returned` | to what the other one says that it has taken |
//! | `reserved` | by the lines of the answer that a call asks for, until the answer is here |
//! | `taken` | by the lines of a call of the other one that has been taken out of the own queue |
//! | `told` | to `taken`, with each answer, or by a message of its own for a quarter of the credit |
//!
//! Each of the two queues of a rank ([`Lane`]) has a credit of its own. A queue has room for so many lines of
//! every rank ([`Lane::lines_per_peer`]) that what has credit finds room.

/// Queue of a rank that a call goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// Taken by `progress`: calls, answers and all other messages.
    Ordinary,
    /// Taken by a thread of the library: calls of quick functions alone.
    Quick,
}

impl Lane {
    /// Both, in the order of their numbers.
    pub(crate) const ALL: [Lane; 2] = [Lane::Ordinary, Lane::Quick];

    /// Lines of the queue for each rank. The ordinary one has its calls, answers to calls of both lanes, at
    /// most four messages of each lane that return credit, and those of meetings.
    pub(crate) fn lines_per_peer(self, ranks: usize) -> u64 {
        match self {
            Lane::Ordinary => 3 * credit_lines(ranks) + 12,
            Lane::Quick => credit_lines(ranks),
        }
    }
}

/// Lines of calls that may be under way from one rank to another in a job of so many ranks; as many again for
/// answers.
pub(crate) fn credit_lines(ranks: usize) -> u64 {
    (1024 / ranks.max(1) as u64).clamp(64, 256)
}

/// State between this rank and another one.
#[derive(Debug)]
pub(crate) struct Flow {
    credit: u64,
    sent: u64,
    returned: u64,
    reserved: u64,
    taken: u64,
    told: u64,
}

impl Flow {
    /// Whether nothing is under way.
    pub(crate) fn new(ranks: usize) -> Self {
        Flow { credit: credit_lines(ranks), sent: 0, returned: 0, reserved: 0, taken: 0, told: 0 }
    }

    /// A call of so many lines may leave, whose answer has so many at most; then it counts as sent.
    #[must_use]
    pub(crate) fn try_send(&mut self, lines: u64, answer_lines: u64) -> bool {
        let has_credit =
            self.sent - self.returned + lines <= self.credit && self.reserved + answer_lines <= self.credit;
        if has_credit {
            self.sent += lines;
            self.reserved += answer_lines;
        }
        has_credit
    }

    /// The other one says how many lines it has taken in all. Old and impossible numbers change nothing.
    pub(crate) fn handle_returned(&mut self, returned: u64) {
        if (self.returned..=self.sent).contains(&returned) {
            self.returned = returned;
        }
    }

    /// An answer is here.
    pub(crate) fn handle_answer(&mut self, answer_lines: u64) {
        self.reserved -= answer_lines;
    }

    /// A call of the other one was taken. Gives what to tell it now, if it is enough for a message.
    pub(crate) fn handle_call(&mut self, lines: u64) -> Option<u64> {
        self.taken += lines;
        (self.taken - self.told >= self.credit / 4).then(|| self.tell())
    }

    /// Lines that were taken, which a message to the other one says.
    pub(crate) fn tell(&mut self) -> u64 {
        self.told = self.taken;
        self.taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{ANSWER_BYTES, MESSAGE_BYTES_MAX, RESULT_BYTES_MAX, TEXT_BYTES};
    use tutti_shm::queue::Queue;

    /// Whatever was not told yet, the longest call finds credit when nothing is in the queue.
    #[test]
    fn flow_never_stops_for_credit_not_returned() {
        for ranks in [1, 2, 5, 16, 17, 1000] {
            let (mut caller, mut target) = (Flow::new(ranks), Flow::new(ranks));
            let longest = Queue::lines_of(MESSAGE_BYTES_MAX);
            let answer = Queue::lines_of(ANSWER_BYTES + RESULT_BYTES_MAX);
            assert!(longest <= credit_lines(ranks) && answer <= credit_lines(ranks));
            for number in 0..10_000_u64 {
                let lines = 1 + number % longest;
                assert!(caller.try_send(lines, 0), "ranks {ranks}, call {number}");
                if let Some(told) = target.handle_call(lines) {
                    caller.handle_returned(told);
                }
            }
        }
    }

    /// A caller that takes no answers leaves a target with those of so few calls: longer results wait there.
    #[test]
    fn flow_bounds_the_answers_that_a_caller_does_not_take() {
        let least = Queue::lines_of(ANSWER_BYTES + TEXT_BYTES);
        for (ranks, calls) in [(1, 64), (4, 64), (16, 16), (1000, 16)] {
            let (mut caller, mut target) = (Flow::new(ranks), Flow::new(ranks));
            let mut sent = 0;
            while caller.try_send(1, least) {
                sent += 1;
                if let Some(told) = target.handle_call(1) {
                    caller.handle_returned(told);
                }
                assert!(sent <= calls, "{ranks} ranks");
            }
            assert_eq!(sent, calls, "{ranks} ranks");
            caller.handle_answer(least);
            assert!(caller.try_send(1, least), "an answer makes room for a call");
        }
    }

    /// Credit bounds what is in the queue of the target, and the messages that return it.
    #[test]
    fn flow_bounds_what_is_in_a_queue() {
        let mut random = 7_u64;
        let mut next = move |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % below
        };
        let (mut caller, mut target) = (Flow::new(16), Flow::new(16));
        let (mut in_queue, mut under_way) = (Vec::new(), Vec::new());
        for _ in 0..100_000 {
            match next(3) {
                0 => {
                    let lines = 1 + next(38);
                    if caller.try_send(lines, 0) {
                        in_queue.push(lines);
                    }
                }
                1 if !in_queue.is_empty() => under_way.extend(target.handle_call(in_queue.remove(0))),
                2 if !under_way.is_empty() => caller.handle_returned(under_way.remove(0)),
                _ => {}
            }
            assert!(in_queue.iter().sum::<u64>() <= credit_lines(16));
            assert!(under_way.len() <= 4, "{under_way:?}");
        }
    }

    #[test]
    fn flow_ignores_numbers_that_cannot_be() {
        let mut flow = Flow::new(2);
        assert!(flow.try_send(200, 0));
        flow.handle_returned(201);
        assert!(!flow.try_send(57, 0));
        flow.handle_returned(200);
        flow.handle_returned(3);
        assert!(flow.try_send(256, 0));
    }
}
