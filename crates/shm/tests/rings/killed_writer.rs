//! The writer is killed at a random instant: what the reader finds is whole, in order, and has an end.

use std::thread;

use tutti_testkit::stepper::Child;

use tutti_testkit::Random;

use crate::memory::{INLINE_BYTES_MAX, Memory, Message, put_chunk, take, take_chunk};

const ROUNDS: u32 = 150;

#[test]
fn killed_writer_leaves_whole_messages_only() {
    let mut random = Random::new(tutti_testkit::seed());
    let (mut envelopes, mut chunks) = (0, 0);
    for _ in 0..ROUNDS {
        let memory = Memory::new();
        let mut their_random = random.clone();
        let child = Child::fork(|| {
            // The mapping made before the fork is not there in the child.
            let memory = memory.again();
            write_for_ever(&memory, &mut their_random)
        });
        let (mut inbox, mut bulk_in) = memory.receivers(0);
        let (mut received, mut received_chunks) = (0, 0);
        // The kill comes a random number of messages and a random while after the start.
        let enough = random.below(100);
        while received < enough {
            let found = take(&mut inbox, received).is_some();
            received += u64::from(found);
            received_chunks += u64::from(take_chunk(&mut bulk_in, received_chunks));
            if !found {
                thread::yield_now();
            }
        }
        (0..random.below(3000)).for_each(|_| core::hint::spin_loop());
        child.kill();
        while take(&mut inbox, received).is_some() {
            received += 1;
        }
        while take_chunk(&mut bulk_in, received_chunks) {
            received_chunks += 1;
        }
        assert!(!inbox.is_ready() && inbox.peek().is_none() && bulk_in.peek().is_none());
        envelopes += received;
        chunks += received_chunks;
    }
    println!(
        "{ROUNDS} writers killed, {envelopes} envelopes and {chunks} chunks found, all whole and in order"
    );
}

fn write_for_ever(memory: &Memory, random: &mut Random) {
    let (mut envelopes, mut bulk) = memory.senders(0);
    let (mut sent, mut chunks) = (0, 0);
    loop {
        let message = Message::new(sent, random.below(INLINE_BYTES_MAX as u64 + 1) as usize);
        let pushed = envelopes.try_push(&message.envelope, &message.inline);
        let put = put_chunk(&mut bulk, chunks);
        sent += u64::from(pushed);
        chunks += u64::from(put);
        if !pushed && !put {
            thread::yield_now();
        }
    }
}
