//! Bytes of others that a switch thread reads: sealed datagrams, what they say, a switch link's life under
//! any of it, and the messages that come. Nothing panics, every message is taken once and in order, nothing
//! goes over the link twice, and what is understood can be said again.
//!
//! A life is steps of two bytes, what happens and how much of it; see [`exercise`].

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tutti_sched::Report;

use super::message::{SwitchMessage, decode_message, encode};
use super::seal::{HEADER_BYTES, Refused, SECRET_BYTES, Seal, TAG_BYTES};
use super::switch_link::{PAYLOAD_BYTES, Payload, SwitchLink};

/// Reads bytes in every way in which a datagram is read; gives how many messages were understood.
pub(super) fn read(input: &[u8]) -> usize {
    open(input);
    seal(input);
    exercise(input) + understand_any(input)
}

/// As a message of either neighbour.
fn understand_any(input: &[u8]) -> usize {
    usize::from(understand::<SwitchMessage>(input) | understand::<Report>(input))
}

fn understand<T: Serialize + DeserializeOwned + PartialEq + Debug>(input: &[u8]) -> bool {
    let Some(message) = decode_message::<T>(input) else { return false };
    assert_eq!(decode_message(&encode(&message, Vec::new())), Some(message));
    true
}

/// As a datagram of anybody.
fn open(input: &[u8]) {
    let mut reader = Seal::new(&[7; SECRET_BYTES], false);
    let Some((tag, number)) = Seal::header(input) else { return };
    let _ = reader.is_from(tag);
    if reader.open(number, &mut input.to_vec()).is_ok() {
        assert_eq!(
            reader.open(number, &mut input.to_vec()),
            Err(Refused::Replayed),
            "what is opened is opened once"
        );
    }
}

/// As what a neighbour says: it is read as it was sealed, and changed it is not read.
fn seal(input: &[u8]) {
    let secret = std::array::from_fn(|at| at as u8);
    let (writer, mut reader) = (Seal::new(&secret, true), Seal::new(&secret, false));
    let text = &input[..input.len().min(PAYLOAD_BYTES)];
    let mut datagram = vec![0; HEADER_BYTES + text.len() + TAG_BYTES];
    datagram[HEADER_BYTES..HEADER_BYTES + text.len()].copy_from_slice(text);
    writer.seal(3, &mut datagram, text.len());
    let at = input.len() % datagram.len();
    let mut changed = datagram.clone();
    changed[at] ^= 1;
    let (tag, number) = Seal::header(&changed).expect("long enough for a header");
    assert!(!reader.is_from(tag) || reader.open(number, &mut changed) == Err(Refused::Forged));
    assert_eq!(reader.open(3, &mut datagram), Ok((text, true)));
}

/// The life of a switch link: messages are pushed (0), time passes (1), texts come (2), datagrams leave (3),
/// messages come over the link (4). Gives how many messages were understood.
fn exercise(mut input: &[u8]) -> usize {
    let mut switch_link = SwitchLink::new(0);
    let mut understood = 0;
    let (mut now_ns, mut received, mut sent) = (0, 0, 0);
    // Words pushed, the next that may go over the link, the next to be taken.
    let (mut pushed, mut by_link, mut have) = (0, 0, 0);
    while let [what, size, rest @ ..] = input {
        input = rest;
        let amount = u64::from(*size);
        let mut link = |number: u64, _: &[u8]| {
            assert!((by_link..=pushed).contains(&number), "message {number} goes over the link again");
            by_link = number + 1;
        };
        match what % 5 {
            0 => {
                let ack_delay_ns = u64::from(*what / 5) * 10_000_000;
                switch_link.push(now_ns, &vec![0; 5 * usize::from(*size)], ack_delay_ns, &mut link);
                pushed += 1;
            }
            1 => {
                now_ns += amount * 1_000_000;
                switch_link.handle_time(now_ns, &mut link);
            }
            2 => {
                let (text, rest) = input.split_at(input.len().min(usize::from(*size)));
                (input, received) = (rest, received + 1);
                if let Some(text) = Payload::parse(text) {
                    switch_link.handle(now_ns, received, &text, &mut |message| {
                        understood += understand_any(message);
                        have += 1;
                    });
                }
            }
            3 => {
                let mut text = [0; PAYLOAD_BYTES];
                if let Some((number, bytes)) = switch_link.poll(now_ns, &mut text) {
                    assert!(number > sent && Payload::parse(&text[..bytes]).is_some(), "datagram {number}");
                    sent = number;
                }
            }
            _ => {
                assert!(switch_link.take(have + amount / 64), "a message was taken before it had come");
                have += amount / 64 + 1;
            }
        }
        let _ = switch_link.timeout_ns();
    }
    understood
}
