//! Lines of the board that name the jobs which have a node's processors: one for each node, behind the lines
//! of jobs. A board of an earlier release has none.

use std::sync::atomic::Ordering;

use super::{BOARD_BYTES, JOBS_AT, JOBS_MAX, LINE_BYTES, NODES_MAX, NodeLines, Reader, WORDS, place};

pub(super) const RUNNING_AT: usize = JOBS_AT + JOBS_MAX * LINE_BYTES;
/// Bytes of the file with these lines, whose pages come when they are written.
pub(super) const BOARD_BYTES_MAX: usize = BOARD_BYTES + NODES_MAX * LINE_BYTES;
/// Jobs that a line names.
pub const NAMED_MAX: usize = WORDS - 2;

const _: () = assert!(RUNNING_AT + NODES_MAX * LINE_BYTES <= BOARD_BYTES_MAX);

/// Jobs that had a node's processors when its line was measured. The time is of CLOCK_MONOTONIC of the
/// reader's node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Running {
    /// When it was measured.
    pub updated_ns: u64,
    /// How many they were; more than are named if there was no room.
    pub jobs: u64,
    /// Number of each plus 1; behind the last one 0.
    pub job_plus_1: [u64; NAMED_MAX],
}

const _: () = assert!(size_of::<Running>() == WORDS * 8);

impl Running {
    /// Makes the words for the jobs of these numbers.
    pub fn of(jobs: impl Iterator<Item = u64>) -> Self {
        let mut running = Running::default();
        for job in jobs {
            if let Some(word) = running.job_plus_1.get_mut(running.jobs as usize) {
                *word = job.wrapping_add(1);
            }
            running.jobs += 1;
        }
        running
    }

    /// Numbers of the jobs, as far as they are named.
    pub fn named(&self) -> impl Iterator<Item = u64> + '_ {
        self.job_plus_1.iter().filter_map(|word| word.checked_sub(1))
    }

    /// The words, as they stand in the line.
    pub fn words(&self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        (words[0], words[1]) = (self.updated_ns, self.jobs);
        words[2..].copy_from_slice(&self.job_plus_1);
        words
    }

    /// A line of such words.
    pub fn of_words(words: [u64; WORDS]) -> Self {
        let [updated_ns, jobs, job_plus_1 @ ..] = words;
        Running { updated_ns, jobs, job_plus_1 }
    }
}

impl NodeLines {
    /// Writes the line of a node's jobs; a node with a higher number than there are lines has none.
    pub fn write_running(&mut self, node: usize, line: &Running) {
        if node < NODES_MAX {
            self.memory.write_line(RUNNING_AT + node * LINE_BYTES, &line.words());
        }
    }
}

impl Reader {
    /// The jobs that have a node's processors; none if the line is torn, or there is no such line.
    pub fn running(&self, node: usize) -> Option<Running> {
        let at = self.memory.header(place::RUNNING_AT).load(Ordering::Relaxed);
        if node >= NODES_MAX || at != RUNNING_AT as u64 {
            return None;
        }
        self.memory.read_line(RUNNING_AT + node * LINE_BYTES).map(Running::of_words)
    }

    /// The jobs that have the processors of this node now, by their own lines. A line that is being written
    /// counts as that of none.
    pub fn running_here(&self) -> Running {
        let lines = (0..JOBS_MAX).filter_map(|place| self.job_at(place));
        Running::of(lines.filter(|line| line.state == super::JOB_RUNNING).filter_map(|line| line.job()))
    }
}
