//! Frames that are nearly right: what a reader of others' bytes must survive. They follow from samples and a
//! seed; each is a real frame with some of its parts cut, doubled, or replaced by what readers get wrong.

use crate::random::{Random, SEED, mix, seed};

/// Variable: frames for each reader; `make malformed` sets it.
pub const FRAMES: &str = "TUTTI_HOSTILE_FRAMES";
/// Frames where it is not set: a part of a second.
const FRAMES_FEW: u64 = 4_000;
/// Words of 4 and 8 bytes that readers have got wrong.
const WORDS: [u64; 9] =
    [0, 1, 0x7f, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 1 << 40, i64::MAX as u64, u64::MAX];
/// The same as text.
const NUMBERS: [&str; 8] = ["", "-1", "00", "1e999", "0x10", "4294967296", "18446744073709551616", "\u{663}"];
/// Characters that have a meaning in most formats.
const MARKS: &[u8] = b"\n\r\0\"'\\/{}[]()<>,:;=%&?# \t.-\x1b\xff\x80\xc3";

/// Frames for each reader in this run.
#[must_use]
pub fn count() -> u64 {
    std::env::var(FRAMES).ok().and_then(|text| text.parse().ok()).unwrap_or(FRAMES_FEW)
}

/// A frame that is nearly one of these; never empty.
///
/// # Panics
/// When there is no sample.
#[must_use]
pub fn frame(random: &mut Random, samples: &[Vec<u8>]) -> Vec<u8> {
    let one = |random: &mut Random| samples[random.below(samples.len() as u64) as usize].clone();
    let mut bytes = one(random);
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() as u64 + 1) as usize;
        let word = WORDS[random.below(WORDS.len() as u64) as usize].to_le_bytes();
        match random.below(10) {
            0 => bytes.truncate(at),
            1 => bytes.splice(at..at, one(random)).for_each(drop),
            2 => bytes.extend(vec![random.below(256) as u8; random.below(300) as usize]),
            3 => replace(&mut bytes, at & !3, &word[..4]),
            4 => replace(&mut bytes, at & !7, &word),
            5 => replace(&mut bytes, at, &word[..4]),
            6 => replace_number(&mut bytes, at, NUMBERS[random.below(NUMBERS.len() as u64) as usize]),
            7 if at < bytes.len() => bytes[at] = MARKS[random.below(MARKS.len() as u64) as usize],
            8 => cut_out(&mut bytes, at, random.below(16) as usize),
            _ if at < bytes.len() => bytes[at] = random.below(256) as u8,
            _ => {}
        }
    }
    if bytes.is_empty() { vec![0] } else { bytes }
}

/// Gives a reader [`count`] such frames. The one at which it panics is shown, with the seed of which it is
/// the first.
pub fn read_frames(samples: &[Vec<u8>], mut read: impl FnMut(&[u8])) {
    let first = seed();
    for number in 0..count() {
        let seed = first.wrapping_add(number);
        let bytes = frame(&mut Random::new(mix(seed)), samples);
        let shown = Shown { seed, bytes: &bytes };
        read(shown.bytes);
    }
}

fn replace(bytes: &mut Vec<u8>, at: usize, with: &[u8]) {
    let end = (at + with.len()).min(bytes.len());
    bytes.splice(at.min(end)..end, with.iter().copied()).for_each(drop);
}

fn cut_out(bytes: &mut Vec<u8>, at: usize, count: usize) {
    let end = (at + count).min(bytes.len());
    bytes.drain(at..end);
}

/// Replaces the next number in text.
fn replace_number(bytes: &mut Vec<u8>, at: usize, with: &str) {
    let Some(from) = bytes[at..].iter().position(u8::is_ascii_digit).map(|more| at + more) else { return };
    let digits = bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    bytes.splice(from..from + digits, with.bytes()).for_each(drop);
}

/// Shows a frame when its reader panics.
struct Shown<'a> {
    seed: u64,
    bytes: &'a [u8],
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{SEED}={}: {}", self.seed, self.bytes.escape_ascii());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_follow_from_the_seed_and_are_near_their_samples() {
        let samples = [b"cmd=get rank=17\n".to_vec(), vec![7; 40]];
        let all = |seed| {
            let mut random = Random::new(seed);
            (0..2000).map(|_| frame(&mut random, &samples)).collect::<Vec<_>>()
        };
        let frames = all(5);
        assert_eq!(frames, all(5));
        assert_ne!(frames, all(6));
        assert!(frames.iter().all(|frame| !frame.is_empty() && frame.len() < 3000));
        let near = frames.iter().filter(|frame| frame.starts_with(b"cmd") || frame.starts_with(&[7; 3]));
        assert!(near.count() > 1000, "most of them begin as a sample does");
        let has = |text: &str| frames.iter().any(|frame| frame.escape_ascii().to_string().contains(text));
        assert!(has("rank=-1") && has("rank=18446744073709551616"), "numbers are replaced");
    }
}
