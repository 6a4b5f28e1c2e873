//! What a rank tells about itself for the user's eyes: whether it checks, what it waits for, what it has counted.
//!
//! One per local rank, behind everything else in the segment; nothing on the way of a message is in here.
//!
//! ```text
//! rank that waits: text -> blocked = 1 -> look, nothing: looks + 1 ... something: moves + 1 ... blocked = 0 -> go on
//! ```
//!
//! A look counts when it has ended with nothing. So a rank whose `looks` have grown by two while `blocked` and `moves` stayed
//! has begun and ended a look in between, and found nothing that was published before. If that is true of all ranks of a job,
//! measured from one moment at which all were blocked, none of them will ever go on.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Bytes of a rank's text, at most.
pub const TEXT_BYTES: usize = 56 * 8;
/// How many counters a rank can leave.
pub const COUNTERS: usize = 32;

/// The report of one rank. Writer: the rank, but for `left`.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Report {
    /// 0 until the rank has said how it checks; then one more than its mode.
    pub check: AtomicU32,
    /// 1 while the rank waits and has nothing to do.
    pub blocked: AtomicU32,
    /// Grows whenever the rank moves something while it waits.
    pub moves: AtomicU32,
    /// Looks that have found nothing.
    pub looks: AtomicU32,
    text_bytes: AtomicU32,
    _line0: [u32; 11],
    text: [AtomicU64; TEXT_BYTES / 8],
    counters: [AtomicU64; COUNTERS],
    /// In the report of rank 0: ranks that have left the job. Writer: all, by atomic addition.
    pub left: AtomicU32,
    _line12: [u32; 15],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Report>() == 13 * 64 && align_of::<Report>() == 64);

impl Report {
    /// Writes the text, as much of it as there is room for. Only while the rank is not `blocked`.
    pub fn write(&self, text: &str) {
        let mut end = text.len().min(TEXT_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        for (word, chunk) in self.text.iter().zip(text.as_bytes()[..end].chunks(8)) {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
        }
        self.text_bytes.store(end as u32, Ordering::Release);
    }

    /// The text. What another rank writes meanwhile may be torn; it is never anything but text.
    pub fn read(&self) -> String {
        let bytes = (self.text_bytes.load(Ordering::Acquire) as usize).min(TEXT_BYTES);
        let words = self.text[..bytes.div_ceil(8)].iter().map(|word| word.load(Ordering::Relaxed));
        let text: Vec<u8> = words.flat_map(u64::to_ne_bytes).take(bytes).collect();
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Leaves what was counted; before the rank says that it has left.
    ///
    /// # Panics
    /// When there are more than [`COUNTERS`].
    pub fn leave_counters(&self, values: &[u64]) {
        assert!(values.len() <= COUNTERS, "{} counters", values.len());
        for (word, value) in self.counters.iter().zip(values) {
            word.store(*value, Ordering::Relaxed);
        }
    }

    /// What was left, of the first `count` counters.
    pub fn counters(&self, count: usize) -> Vec<u64> {
        self.counters[..count].iter().map(|word| word.load(Ordering::Relaxed)).collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn report() -> Box<Report> {
        // SAFETY: all fields are integers, for which zero is a value.
        unsafe { Box::new(std::mem::zeroed()) }
    }

    #[test]
    fn a_text_comes_back_and_a_long_one_is_cut_between_characters() {
        let report = report();
        assert_eq!(report.read(), "");
        report.write("MPI_Recv on MPI_COMM_WORLD");
        assert_eq!(report.read(), "MPI_Recv on MPI_COMM_WORLD");
        report.write("short");
        assert_eq!(report.read(), "short");
        report.write(&("x".repeat(TEXT_BYTES - 1) + "ä and more"));
        assert_eq!(report.read(), "x".repeat(TEXT_BYTES - 1));
    }

    #[test]
    fn counters_come_back() {
        let report = report();
        report.leave_counters(&[3, 1, 4]);
        assert_eq!(report.counters(4), [3, 1, 4, 0]);
    }
}
