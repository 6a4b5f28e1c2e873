//! Views of frozen ranks for an onlooker: copies of their words and of what waits in their rings.
//!
//! The starter looks, for a snapshot. Ranks may write anything into the segment, so everything here is
//! bounded and total; nothing is ever written, and no page of rings or flows is made by a look
//! ([`Segment::receivers`], [`Segment::used_flows`]).

use std::os::fd::AsRawFd;
use std::ptr::NonNull;

use touched::Touched;

use crate::LINE_BYTES;
use crate::directory::{REGIONS_MAX, SIGNAL, lines_at, open_lines};
use crate::endpoint::{ATTACHED, Endpoint, FINALIZED};
use crate::envelope::EAGER;
use crate::envelope_ring::{Consumed, Envelope, HEADER_BYTES, Line, Untaken, waiting};
use crate::flow::FlowWords;
use crate::queue::{PROGRESS_BYTES, Progress};
use crate::report::{Asleep, Report};
use crate::segment::Segment;
use crate::sync::Ordering;

/// The signals that a rank has open (`tutti.h`): queues whose messages start functions of the rank, each
/// served by a thread of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signals {
    /// How many are open.
    pub open: u32,
    /// Signals whose thread has nothing to do: their queue is empty and no function runs. All words only
    /// grow, so two looks that see the same mean that nothing happened in between.
    pub at_rest: u32,
    /// Lines taken out of the queues so far.
    pub taken: u64,
}

/// Activity of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Rank that has not called MPI_Init yet, or is no program of ours.
    NotHere,
    /// Rank that runs, or waits for less time than a rank waits before it sleeps.
    Runs,
    /// All its threads that are in the library sleep, nothing has come for them, and this is what they wait
    /// for.
    Sleeps(Asleep),
    /// Rank that has left MPI_Finalize.
    HasLeft,
}

impl Segment {
    /// Tells what a frozen rank does; ranks are counted on this node.
    ///
    /// # Panics
    /// When there is no such rank.
    pub fn doing(&self, rank: usize) -> Doing {
        let (endpoint, report) = self.words_of(rank);
        match endpoint.state.load(Ordering::Acquire) {
            ATTACHED => {}
            FINALIZED => return Doing::HasLeft,
            _ => return Doing::NotHere,
        }
        if report.termination.is_running() {
            return Doing::Runs;
        }
        if is_asleep(endpoint, report) { Doing::Sleeps(report.sleep.read()) } else { Doing::Runs }
    }

    /// Number that stays the same as long as a rank [`Doing::Sleeps`] or [`Doing::HasLeft`]:
    /// its bell, or an odd number. Ranks need not be frozen for it.
    ///
    /// # Panics
    /// When there is no such rank.
    pub fn stillness(&self, rank: usize) -> Option<u32> {
        let (endpoint, report) = self.words_of(rank);
        self.rest(rank).filter(|bell| bell % 2 == 1 || is_asleep(endpoint, report))
    }

    /// The same of a rank that has announced its sleep, or has left: also while its service thread looks at
    /// the network. A hint.
    ///
    /// # Panics
    /// When there is no such rank.
    pub fn rest(&self, rank: usize) -> Option<u32> {
        let (endpoint, report) = self.words_of(rank);
        match endpoint.state.load(Ordering::Acquire) {
            FINALIZED => Some(1),
            ATTACHED if report.termination.is_running() => None,
            ATTACHED => {
                let bell = endpoint.bell.load(Ordering::Acquire);
                (endpoint.sleeping.load(Ordering::Acquire) == bell.wrapping_add(1)).then_some(bell)
            }
            _ => None,
        }
    }

    pub(crate) fn words_of(&self, rank: usize) -> (&Endpoint, &Report) {
        // SAFETY: the layout says what lies there; all fields are atomics, and the references do not outlive
        // the mapping.
        unsafe {
            let endpoint: NonNull<Endpoint> = self.at(self.layout().endpoint_at(rank));
            let report: NonNull<Report> = self.at(self.layout().report_at(rank));
            (endpoint.as_ref(), report.as_ref())
        }
    }

    /// Pid of a rank in the namespace of the starter, as it says itself; 0 before it has come.
    ///
    /// # Panics
    /// When there is no such rank.
    pub fn pid(&self, rank: usize) -> u32 {
        // SAFETY: as in `doing`.
        unsafe { self.at::<Endpoint>(self.layout().endpoint_at(rank)).as_ref() }.pid.load(Ordering::Relaxed)
    }

    /// Address in its own memory of what a rank says of the messages that it has taken and no receive has
    /// asked for ([`crate::unexpected::Root`]); 0: it has not said.
    ///
    /// # Panics
    /// When there is no such rank.
    pub fn kept(&self, rank: usize) -> u64 {
        self.words_of(rank).1.kept.load(Ordering::Acquire)
    }

    /// The signals of a rank; none when a message waits in one, reserved or whole, so that its thread is
    /// about to run, or what stands there makes no sense.
    ///
    /// # Panics
    /// When there is no such rank.
    pub fn signals(&self, rank: usize) -> Option<Signals> {
        let mut signals = Signals::default();
        let directory = self.words_of(rank).1.directory.load(Ordering::Acquire);
        if directory == 0 {
            return Some(signals);
        }
        let mut regions = [0; 8];
        self.read_file(directory, &mut regions)?;
        let regions =
            usize::try_from(u64::from_ne_bytes(regions)).ok().filter(|count| *count <= REGIONS_MAX)?;
        let mut lines = vec![0; regions * LINE_BYTES];
        let ranks = self.layout().numbers().len();
        self.read_file(directory.checked_add(lines_at(ranks) as u64)?, &mut lines)?;
        for line in open_lines(&lines).filter(|line| line.rights & SIGNAL != 0) {
            let mut words = [0; PROGRESS_BYTES];
            self.read_file(line.range.offset.checked_add(line.begin)?, &mut words)?;
            let Progress { given_out, taken, done } = Progress::of(&words);
            if given_out != taken {
                return None;
            }
            signals.open += 1;
            signals.at_rest += u32::from(done == taken);
            signals.taken = signals.taken.wrapping_add(taken);
        }
        Some(signals)
    }

    /// Fills the bytes from the segment's file; none when they do not lie in it.
    fn read_file(&self, offset: u64, bytes: &mut [u8]) -> Option<()> {
        let offset = libc::off_t::try_from(offset).ok()?;
        let descriptor = self.descriptor().as_raw_fd();
        // SAFETY: the kernel writes inside the slice.
        let read = unsafe { libc::pread(descriptor, bytes.as_mut_ptr().cast(), bytes.len(), offset) };
        (usize::try_from(read) == Ok(bytes.len())).then_some(())
    }

    /// Receivers of each rank: those to which it may have sent messages, since their rings have been used.
    /// Counted on this node, in order.
    pub fn receivers(&self) -> Vec<Vec<usize>> {
        let (layout, ranks) = (self.layout(), self.present() as usize);
        let mut receivers = vec![Vec::new(); ranks];
        for to in 0..ranks {
            let begin = layout.pair_at(0, to);
            let touched = Touched::of(self.descriptor(), begin..layout.slots_at(ranks - 1, to));
            for (from, receivers) in receivers.iter_mut().enumerate() {
                if from != to && touched.has(layout.pair_at(from, to)..layout.slots_at(from, to)) {
                    receivers.push(to);
                }
            }
        }
        receivers
    }

    /// Whether the flow of a local rank to a world rank of another node may have been used.
    ///
    /// # Panics
    /// When there is no such rank.
    pub fn used_flows(&self, from: usize) -> impl Fn(usize) -> bool {
        let (at, bytes) = self.layout().flows_of(from);
        let (touched, layout) = (Touched::of(self.descriptor(), at..at + bytes), *self.layout());
        move |to| {
            let words = layout.flow_words_at(from, to);
            touched.has(words..words + size_of::<FlowWords>())
        }
    }

    /// The messages from one rank to another that the receiver, which is frozen, has not taken out of its
    /// ring yet: headers, and the data of those that have them there.
    ///
    /// # Panics
    /// When there are no such ranks.
    pub fn in_ring(&self, from: usize, to: usize) -> Vec<(Envelope, Vec<u8>)> {
        let layout = self.layout();
        let lines: NonNull<Line> = self.at(layout.envelopes_at(from, to));
        // SAFETY: the layout says what lies there; all words are atomics, and the references do not outlive
        // the mapping.
        unsafe {
            let consumed: NonNull<Consumed> = self.at(layout.pair_at(from, to));
            let lines = std::slice::from_raw_parts(lines.as_ptr(), layout.envelope_lines);
            let with_data = |untaken: Untaken| {
                let bytes = if untaken.envelope.kind == EAGER { untaken.envelope.length } else { 0 };
                let mut data = vec![0; bytes.min(untaken.capacity as u64) as usize];
                let from = lines.as_ptr().add(untaken.at).cast::<u8>().add(HEADER_BYTES);
                std::ptr::copy_nonoverlapping(from, data.as_mut_ptr(), data.len());
                (untaken.envelope, data)
            };
            waiting(lines, consumed.as_ref()).map(with_data).collect()
        }
    }

    /// A copy of the send FIFO of a local rank to world rank `to`, which is on another node. What its owner
    /// writes meanwhile may be torn.
    ///
    /// # Panics
    /// When there is no such flow.
    pub fn fifo(&self, from: usize, to: usize) -> Vec<u8> {
        let layout = self.layout();
        let bytes: NonNull<u8> = self.at(layout.fifo_at(from, to));
        let mut copy = vec![0; layout.fifo_bytes];
        // SAFETY: the layout says that the FIFO lies there whole; the kernel copies, as any memory of another
        // process.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy.as_mut_ptr(), copy.len()) };
        copy
    }
}

fn is_asleep(endpoint: &Endpoint, report: &Report) -> bool {
    let settled = report.sleep.settled.load(Ordering::Acquire);
    let (sleeping, bell) = (endpoint.sleeping.load(Ordering::Acquire), endpoint.bell.load(Ordering::Acquire));
    settled != 0 && settled == sleeping && settled == bell.wrapping_add(1)
}

#[cfg(test)]
mod tests;
mod touched;
