//! Messages that leave for other ranks: at once where there is credit, else in their order when it returns.
//!
//! | message | room in the target's queue |
//! |---|---|
//! | call, posts, part | by credit of its lane |
//! | answer | reserved with its call |
//! | credit, meeting | always there |

#![allow(unsafe_code)]

use core::ffi::c_int;
use std::collections::{BTreeSet, VecDeque};

use tutti_native::completion::End;
use tutti_native::handle::Handle;
use tutti_native::operation;
use tutti_shm::queue::Queue;

use crate::failure::fail;
use crate::flow::{Flow, Lane};
use crate::status::*;

/// A message that leaves, and what it needs.
#[derive(Debug)]
pub(crate) struct Leaving {
    message: Vec<u8>,
    lines: u64,
    answer_lines: u64,
}

impl Leaving {
    /// A message by credit, whose answer has so many lines at most.
    pub(crate) fn call(message: Vec<u8>, answer_lines: u64) -> Self {
        let lines = Queue::lines_of(message.len());
        Leaving { message, lines, answer_lines }
    }

    /// An answer behind parts of it: there is room for it.
    fn answer(message: Vec<u8>) -> Self {
        Leaving { message, lines: 0, answer_lines: 0 }
    }
}

#[derive(Debug)]
struct Way {
    queue: Handle,
    flow: Flow,
    waiting: VecDeque<Leaving>,
}

/// Queues of all ranks, and what waits for credit of theirs.
#[derive(Debug)]
pub(crate) struct Outbox {
    me: usize,
    /// By place, then by lane.
    ways: Vec<[Way; 2]>,
    backlogged: BTreeSet<(usize, Lane)>,
    backlog_bytes: usize,
}

impl Outbox {
    /// Queues by place, then by lane.
    pub(crate) fn new(me: usize, queues: &[[Handle; 2]]) -> Self {
        let ranks = queues.len();
        let way = |queue| Way { queue, flow: Flow::new(ranks), waiting: VecDeque::new() };
        let ways = queues.iter().map(|queues| queues.map(way)).collect();
        Outbox { me, ways, backlogged: BTreeSet::new(), backlog_bytes: 0 }
    }

    /// Number of ranks.
    pub(crate) fn ranks(&self) -> usize {
        self.ways.len()
    }

    /// Queue of this rank.
    pub(crate) fn own_queue(&self, lane: Lane) -> Handle {
        self.ways[self.me][lane as usize].queue
    }

    /// Bytes that wait for credit.
    pub(crate) fn backlog_bytes(&self) -> usize {
        self.backlog_bytes
    }

    /// Whether nothing waits for credit.
    pub(crate) fn is_empty(&self) -> bool {
        self.backlogged.is_empty()
    }

    fn way(&mut self, to: usize, lane: Lane) -> &mut Way {
        &mut self.ways[to][lane as usize]
    }

    /// Sends a message whose room is always there.
    pub(crate) fn put(&self, to: usize, message: &[u8]) -> Result<(), c_int> {
        self.put_into(to, Lane::Ordinary, message)
    }

    fn put_into(&self, to: usize, lane: Lane, message: &[u8]) -> Result<(), c_int> {
        let queue = &self.ways[to][lane as usize].queue;
        // SAFETY: a slice.
        let status = unsafe { operation::put(queue, message.as_ptr().cast(), message.len(), End::Posted) };
        match status {
            OK => Ok(()),
            tutti_native::status::FULL => {
                fail(format_args!("a queue of rank {to} is full although there is credit: a bug of Tutti"))
            }
            _ => Err(GONE),
        }
    }

    /// Sends a message by credit, or keeps it behind those that wait.
    pub(crate) fn send(&mut self, to: usize, lane: Lane, leaving: Leaving) -> Result<(), c_int> {
        let way = self.way(to, lane);
        if way.waiting.is_empty() && way.flow.try_send(leaving.lines, leaving.answer_lines) {
            return self.put_into(to, lane, &leaving.message);
        }
        self.backlog_bytes += leaving.message.len();
        self.way(to, lane).waiting.push_back(leaving);
        self.backlogged.insert((to, lane));
        Ok(())
    }

    /// Sends an answer, behind its parts.
    pub(crate) fn send_answer(&mut self, to: usize, message: Vec<u8>) -> Result<(), c_int> {
        self.send(to, Lane::Ordinary, Leaving::answer(message))
    }

    /// Sends what has waited for credit of this rank, as far as it goes.
    fn send_waiting(&mut self, to: usize, lane: Lane) {
        if !self.backlogged.contains(&(to, lane)) {
            return;
        }
        loop {
            let way = self.way(to, lane);
            let Some(first) = way.waiting.front() else { break };
            if !way.flow.try_send(first.lines, first.answer_lines) {
                return;
            }
            let Some(first) = way.waiting.pop_front() else { break };
            self.backlog_bytes -= first.message.len();
            // A rank that has left the job is noticed by whoever sends to it next.
            let _ = self.put_into(to, lane, &first.message);
        }
        self.backlogged.remove(&(to, lane));
    }

    /// A rank says how many lines it has taken.
    pub(crate) fn handle_returned(&mut self, to: usize, lane: Lane, returned: u64) {
        self.way(to, lane).flow.handle_returned(returned);
        self.send_waiting(to, lane);
    }

    /// The answer to a call of this lane is here.
    pub(crate) fn handle_answer(&mut self, from: usize, lane: Lane, answer_lines: u64) {
        self.way(from, lane).flow.handle_answer(answer_lines);
        self.send_waiting(from, lane);
    }

    /// A message by credit was taken. Gives what to tell its sender, if that is enough for a message.
    pub(crate) fn handle_call(&mut self, from: usize, lane: Lane, bytes: usize) -> Option<u64> {
        self.way(from, lane).flow.handle_call(Queue::lines_of(bytes))
    }

    /// Lines of a rank's ordinary messages that were taken, which a message to it says.
    pub(crate) fn tell(&mut self, to: usize) -> u64 {
        self.way(to, Lane::Ordinary).flow.tell()
    }
}
