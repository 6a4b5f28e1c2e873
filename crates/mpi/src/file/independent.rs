//! One rank's access to its file, without the others.
//!
//! | in the file | in memory | |
//! |---|---|---|
//! | contiguous | contiguous | one call for each 4 MiB |
//! | contiguous | with gaps | through a stage |
//! | with gaps | | a call for each run; short runs are read with what lies between them (sieving) |
//!
//! A write never writes what the user has not given: what lies between runs may belong to another writer.

use tutti_datatype::{Buffer, View};

use super::hints::{Choice, Hints, Key};
use super::opened::Opened;
use super::system::{self, Moved};
use crate::error::Error;

/// Which way the data go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To memory.
    Read,
    /// To the file.
    Write,
}

impl Direction {
    /// "read" or "write".
    pub fn verb(self) -> &'static str {
        match self {
            Direction::Read => "read",
            Direction::Write => "write",
        }
    }
}

/// Part of the data that was moved: the first bytes.
#[derive(Debug)]
pub struct Transferred {
    /// How many.
    pub bytes: usize,
    /// Offset at which it ended early, and why, if not at the end of the file.
    pub error: Option<(i64, Error)>,
}

const STAGE_BYTES: usize = 1 << 20;
/// Bytes that are read at once for short pieces.
const SIEVE_BYTES: Key = Key::of("ind_rd_buffer_size");
/// Short pieces are read with what lies between them.
const SIEVE_READS: Key = Key::of("romio_ds_read");
/// Runs from this length on are read by a call each.
const SIEVE_RUN_BYTES: usize = 64 << 10;
/// Least share of wanted bytes in what is read for sieving: one in so many.
const SIEVE_SHARE: usize = 8;

/// A run in the file, and where its data are in the buffer.
#[derive(Clone, Copy)]
struct Run {
    offset: i64,
    bytes: usize,
    at: usize,
}

struct Transfer<'a> {
    opened: &'a Opened,
    buffer: &'a Buffer,
    stage: Vec<u8>,
    done: usize,
    failure: Option<(i64, Error)>,
    /// Runs to be read at once.
    sieve: Vec<Run>,
    sieve_bytes: usize,
}

/// Moves data between a buffer and the places of a view from a position on. The buffer has as many bytes.
///
/// # Safety
/// The buffer's memory is the user's, valid until this returns.
pub unsafe fn transfer(
    opened: &Opened,
    view: &View,
    position: u64,
    buffer: &Buffer,
    direction: Direction,
    hints: &Hints,
) -> Transferred {
    let mut transfer = Transfer {
        opened,
        buffer,
        stage: Vec::new(),
        done: 0,
        failure: None,
        sieve: Vec::new(),
        sieve_bytes: hints.number(SIEVE_BYTES) as usize,
    };
    let sieves =
        direction == Direction::Read && hints.choice(SIEVE_READS) != Choice::Disable && !view.is_contiguous();
    let mut at = 0;
    view.for_each(position, buffer.bytes as u64, &mut |runs| {
        runs.each().all(|(offset, bytes)| {
            let run = Run { offset, bytes: bytes as usize, at };
            at += run.bytes;
            match direction {
                Direction::Write => transfer.write(run),
                Direction::Read if sieves => transfer.collect(run),
                Direction::Read => transfer.read(run),
            }
        })
    });
    if transfer.failure.is_none() {
        transfer.flush();
    }
    Transferred { bytes: transfer.done, error: transfer.failure }
}

impl Transfer<'_> {
    fn stage(&mut self, bytes: usize) -> *mut u8 {
        if self.stage.len() < bytes {
            self.stage.resize(bytes, 0);
        }
        self.stage.as_mut_ptr()
    }

    /// Takes account of a call; whether all has been moved.
    fn moved(&mut self, moved: Moved, wanted: usize, offset: i64, verb: &str) -> bool {
        self.done += moved.bytes;
        if let Some(error) = moved.error {
            let end = offset + moved.bytes as i64;
            let text = self.opened.failed(verb, wanted - moved.bytes, end, &error);
            self.failure = Some((end, text));
        }
        moved.bytes == wanted
    }

    /// Parts of a run that pass the stage, or all of it.
    fn part(&self, run: &Run) -> usize {
        if self.buffer.map.is_some() { STAGE_BYTES } else { run.bytes.max(1) }
    }

    fn write(&mut self, run: Run) -> bool {
        let part = self.part(&run);
        let mut begin = 0;
        while begin < run.bytes {
            let bytes = part.min(run.bytes - begin);
            let from = match self.buffer.map {
                None => self.buffer.at.wrapping_add(run.at + begin).cast_const(),
                Some(_) => {
                    let stage = self.stage(bytes);
                    // SAFETY: the caller's contract; the stage has so many bytes.
                    unsafe { self.buffer.load(run.at + begin, stage, bytes) };
                    stage.cast_const()
                }
            };
            let offset = run.offset + begin as i64;
            // SAFETY: memory of the user or the stage.
            let moved = unsafe { system::write(&self.opened.file, from, bytes, offset) };
            if !self.moved(moved, bytes, offset, "write") {
                return false;
            }
            begin += bytes;
        }
        true
    }

    fn read(&mut self, run: Run) -> bool {
        let part = self.part(&run);
        let mut begin = 0;
        while begin < run.bytes {
            let bytes = part.min(run.bytes - begin);
            let offset = run.offset + begin as i64;
            let to = match self.buffer.map {
                None => self.buffer.at.wrapping_add(run.at + begin),
                Some(_) => self.stage(bytes),
            };
            // SAFETY: memory of the user or the stage.
            let moved = unsafe { system::read(&self.opened.file, to, bytes, offset) };
            if self.buffer.map.is_some() {
                // SAFETY: the caller's contract; so many bytes have been read.
                unsafe { self.buffer.store(run.at + begin, to, moved.bytes) };
            }
            if !self.moved(moved, bytes, offset, "read") {
                return false;
            }
            begin += bytes;
        }
        true
    }

    /// Reads a run, perhaps together with those that follow.
    fn collect(&mut self, run: Run) -> bool {
        if run.bytes >= SIEVE_RUN_BYTES {
            return self.flush() && self.read(run);
        }
        if let Some(first) = self.sieve.first() {
            let span = (run.offset + run.bytes as i64 - first.offset) as usize;
            let wanted = run.at + run.bytes - first.at;
            let is_before = run.offset < first.offset;
            if (is_before || span > self.sieve_bytes || wanted < span / SIEVE_SHARE) && !self.flush() {
                return false;
            }
        }
        self.sieve.push(run);
        true
    }

    /// Reads what has been collected.
    fn flush(&mut self) -> bool {
        let runs = std::mem::take(&mut self.sieve);
        let Some(first) = runs.first() else { return true };
        if runs.len() == 1 {
            return self.read(*first);
        }
        // A view that is only read may show bytes twice: the last run need not end last.
        let end = runs.iter().map(|run| run.offset + run.bytes as i64).fold(first.offset, i64::max);
        let span = (end - first.offset) as usize;
        let begin = first.offset;
        let stage = self.stage(span);
        // SAFETY: the stage has so many bytes.
        let moved = unsafe { system::read(&self.opened.file, stage, span, begin) };
        for run in &runs {
            let at = (run.offset - begin) as usize;
            let bytes = moved.bytes.saturating_sub(at).min(run.bytes);
            // SAFETY: the caller's contract; so many bytes have been read.
            unsafe { self.buffer.store(run.at, stage.add(at), bytes) };
            self.done += bytes;
            if bytes < run.bytes {
                if let Some(error) = moved.error {
                    let end = run.offset + bytes as i64;
                    self.failure = Some((end, self.opened.failed("read", run.bytes - bytes, end, &error)));
                }
                return false;
            }
        }
        // They are free again for the next ones.
        self.sieve = runs;
        self.sieve.clear();
        true
    }
}
