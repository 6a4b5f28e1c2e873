//! Messages that wait for their receives while ranks of their communicator move ([`crate::moving`]): they are
//! taken out, handed over, and kept under the numbers that hold afterwards.
//!
//! Credit is counted between two processes. No credit stands for a message once its sender or its receiver is
//! another process ([`Body::Moved`]).

use std::ops::Range;

use super::Engine;
use super::matching::Matching;
use super::unexpected_message::{Body, Unexpected};
use crate::comm::CONTEXTS_PER_COMM;

/// Message that waits for a receive, on its way to the process that will receive it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// World rank of its sender.
    pub from: u32,
    /// Context.
    pub context: u32,
    /// Tag.
    pub tag: i32,
    /// Data.
    pub data: Box<[u8]>,
}

impl Engine {
    /// Whether data are on their way of a message that waits for its receive.
    pub fn awaits_streams(&self) -> bool {
        self.matching.unexpected().any(|(_, message)| message.body.is_on_its_way())
    }

    /// Takes the messages of a communicator that wait, of these senders, each one's in order.
    ///
    /// # Panics
    /// When the data of one are not here.
    pub fn take_waiting(&mut self, context: u32, is_wanted: impl Fn(u32) -> bool) -> Vec<Waiting> {
        let is_wanted = |from: usize| is_wanted(from as u32);
        let taken = self.matching.take_messages(contexts_of(context), is_wanted).into_iter();
        let waiting = |(from, message): (usize, Unexpected)| Waiting {
            from: from as u32,
            context: message.context,
            tag: message.tag,
            data: message.body.into_data(message.bytes),
        };
        taken.map(waiting).collect()
    }

    /// Keeps messages that have waited elsewhere behind those that wait here.
    pub fn keep_waiting(&mut self, messages: Vec<Waiting>) {
        for Waiting { from, context, tag, data } in messages {
            let bytes = data.len();
            self.matching.keep(from as usize, Unexpected { context, tag, bytes, body: Body::Moved(data) });
        }
    }

    /// Senders of a communicator have other numbers from now on, also of messages that wait.
    pub fn readdress(&mut self, context: u32, number_now: impl Fn(u32) -> u32) {
        readdress(&mut self.matching, context, number_now);
    }
}

fn readdress(matching: &mut Matching, context: u32, number_now: impl Fn(u32) -> u32) {
    let has_moved = |from: usize| number_now(from as u32) as usize != from;
    for (from, message) in matching.take_messages(contexts_of(context), has_moved) {
        let Unexpected { context, tag, bytes, body } = message;
        let body = Body::Moved(body.into_data(bytes));
        matching.keep(number_now(from as u32) as usize, Unexpected { context, tag, bytes, body });
    }
}

fn contexts_of(context: u32) -> Range<u32> {
    context..context + CONTEXTS_PER_COMM
}

#[cfg(test)]
mod tests {
    use super::super::unexpected_message::SHORT_BYTES;
    use super::*;

    fn short(context: u32, tag: i32) -> Unexpected {
        let mut data = [0; SHORT_BYTES];
        data[0] = tag as u8;
        Unexpected { context, tag, bytes: 1, body: Body::Short(data) }
    }

    #[test]
    fn readdressed_messages_keep_their_order_and_others_stay() {
        const WORLD: u32 = 0;
        const OTHER: u32 = CONTEXTS_PER_COMM;
        let mut matching = Matching::new(6);
        // Sender 2 becomes 5; sender 1 stays.
        for (from, context, tag) in
            [(2, WORLD, 1), (1, WORLD, 2), (2, OTHER, 3), (2, WORLD + 1, 4), (2, WORLD, 5), (1, WORLD, 6)]
        {
            matching.keep(from, short(context, tag));
        }
        readdress(&mut matching, WORLD, |rank| if rank == 2 { 5 } else { rank });
        let seen: Vec<_> = matching
            .unexpected()
            .map(|(from, message)| {
                (from, message.context, message.tag, matches!(message.body, Body::Moved(_)))
            })
            .collect();
        let expected = [
            (1, WORLD, 2, false),
            (1, WORLD, 6, false),
            (2, OTHER, 3, false),
            (5, WORLD, 1, true),
            (5, WORLD + 1, 4, true),
            (5, WORLD, 5, true),
        ];
        assert_eq!(seen, expected);
        let taken = matching.take_messages(contexts_of(WORLD), |from| from == 5).into_iter();
        let data: Vec<_> = taken.map(|(_, message)| message.body.into_data(message.bytes)[0]).collect();
        assert_eq!(data, [1, 4, 5]);
    }
}
