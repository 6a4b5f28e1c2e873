//! What a switch thread reads of others: sealed datagrams, what they say, a lane's life under any of it, and the words that come. Nothing
//! panics, every word is taken once and in order, nothing goes over the link twice, and what is understood can be said again.
//!
//! A life is steps of two bytes, what happens and how much of it; see [`live`].

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tutti_sched::Report;

use super::lane::{Lane, TEXT_BYTES, Text};
use super::seal::{HEAD_BYTES, Refused, SECRET_BYTES, Seal, TAG_BYTES};
use super::words::{Word, encode, read_word};

/// Reads bytes in every way in which a datagram is read; gives how many words were understood.
pub fn read(input: &[u8]) -> usize {
    open(input);
    seal(input);
    live(input) + hear(input)
}

/// As a word of either neighbour.
fn hear(input: &[u8]) -> usize {
    usize::from(understand::<Word>(input) | understand::<Report>(input))
}

fn understand<T: Serialize + DeserializeOwned + PartialEq + Debug>(input: &[u8]) -> bool {
    let Some(word) = read_word::<T>(input) else { return false };
    assert_eq!(read_word(&encode(&word, Vec::new())), Some(word));
    true
}

/// As a datagram of anybody.
fn open(input: &[u8]) {
    let mut reader = Seal::new(&[7; SECRET_BYTES], false);
    let Some((tag, number)) = Seal::head(input) else { return };
    let _ = reader.is_from(tag);
    if reader.open(number, &mut input.to_vec()).is_ok() {
        assert_eq!(
            reader.open(number, &mut input.to_vec()),
            Err(Refused::Again),
            "what is opened is opened once"
        );
    }
}

/// As what a neighbour says: it is read as it was sealed, and changed it is not read.
fn seal(input: &[u8]) {
    let secret = std::array::from_fn(|at| at as u8);
    let (writer, mut reader) = (Seal::new(&secret, true), Seal::new(&secret, false));
    let text = &input[..input.len().min(TEXT_BYTES)];
    let mut datagram = vec![0; HEAD_BYTES + text.len() + TAG_BYTES];
    datagram[HEAD_BYTES..HEAD_BYTES + text.len()].copy_from_slice(text);
    writer.seal(3, &mut datagram, text.len());
    let at = input.len() % datagram.len();
    let mut changed = datagram.clone();
    changed[at] ^= 1;
    let (tag, number) = Seal::head(&changed).expect("long enough for a head");
    assert!(!reader.is_from(tag) || reader.open(number, &mut changed) == Err(Refused::Forged));
    assert_eq!(reader.open(3, &mut datagram), Ok((text, true)));
}

/// The life of a lane: words are pushed (0), time passes (1), texts come (2), datagrams leave (3), words come over the link (4). Gives how
/// many words were understood.
fn live(mut input: &[u8]) -> usize {
    let mut lane = Lane::new(0);
    let mut understood = 0;
    let (mut now_ns, mut heard, mut said) = (0, 0, 0);
    // Words pushed, the next that may go over the link, the next to be taken.
    let (mut pushed, mut by_link, mut have) = (0, 0, 0);
    while let [what, size, rest @ ..] = input {
        input = rest;
        let amount = u64::from(*size);
        let mut link = |number: u64, _: &[u8]| {
            assert!((by_link..=pushed).contains(&number), "word {number} goes over the link again");
            by_link = number + 1;
        };
        match what % 5 {
            0 => {
                let calm_ns = u64::from(*what / 5) * 10_000_000;
                lane.push(now_ns, &vec![0; 5 * usize::from(*size)], calm_ns, &mut link);
                pushed += 1;
            }
            1 => {
                now_ns += amount * 1_000_000;
                lane.handle_time(now_ns, &mut link);
            }
            2 => {
                let (text, rest) = input.split_at(input.len().min(usize::from(*size)));
                (input, heard) = (rest, heard + 1);
                if let Some(text) = Text::parse(text) {
                    lane.handle(now_ns, heard, &text, &mut |word| {
                        understood += hear(word);
                        have += 1;
                    });
                }
            }
            3 => {
                let mut text = [0; TEXT_BYTES];
                if let Some((number, bytes)) = lane.poll(now_ns, &mut text) {
                    assert!(number > said && Text::parse(&text[..bytes]).is_some(), "datagram {number}");
                    said = number;
                }
            }
            _ => {
                assert!(lane.take(have + amount / 64), "a word was taken before it had come");
                have += amount / 64 + 1;
            }
        }
        let _ = lane.timeout_ns();
    }
    understood
}
