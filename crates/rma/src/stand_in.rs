//! A request on the memory of a rank that stands still, applied by its starter ([`tutti_shm::stand_in`]).
//!
//! The starter looks the region up as mates of the node do ([`tutti_shm::directory`]), and claims the request
//! before it applies it ([`crate::claims`]): a rank that goes on meanwhile does not apply it again. Words of
//! ranks are checked before anything is done by them.
//!
//! Answers may be lost, and what has been applied is not applied again: [`Answers`] keeps the last one of
//! each pair. An initiator asks for a request when it has the answers to all that it has asked for before
//! ([`crate::engine::Engine::first_kept`]).
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::atomic::{Ordering::*, fence};

use tutti_shm::arena::{Mapping, Range};
use tutti_shm::directory::Directory;
use tutti_shm::endpoint::Endpoint;
use tutti_shm::opened::Opened;
use tutti_shm::queue::Queue;
use tutti_shm::report::Report;
use tutti_shm::segment::Segment;
use tutti_shm::stand_in::{Place, Question};
use tutti_shm::watch;

use crate::claims::Claims;
use crate::region::{Region, Rights};
use crate::wire::{self, NO_REPLY, Record, Refusal, Request};

/// Applies a request on the memory of a rank, by its number on this node; its answer, as the rank would give
/// it. None: it cannot be done here, or not now.
pub fn apply(segment: &Segment, local_rank: usize, question: &Question<'_>) -> Option<Vec<u8>> {
    let from = question.from as usize;
    let layout = segment.layout();
    // SAFETY: the layout says what lies there; all of it is atomics, and the segment outlives the borrows.
    let (report, endpoint) = unsafe {
        let report = segment.at::<Report>(layout.report_at(local_rank)).as_ref();
        (report, segment.at::<Endpoint>(layout.endpoint_at(local_rank)).as_ref())
    };
    let ranks = layout.numbers().len();
    let map = |range: Range| Mapping::new(segment.descriptor(), range).ok();
    let bytes = Directory::bytes(ranks).next_multiple_of(4096) as u64;
    let mapped = map(Range { offset: report.directory.load(Acquire), bytes })?;
    let directory = Directory::new(opened(&mapped), ranks)?;
    let claimed = map(directory.claims()?)?;
    let claims = Claims::new(opened(&claimed));
    let Place { region: at, generation } = question.place;
    apply_once(claims, question, |request, answer| {
        let visit = directory.visit_as_starter(at as usize, generation).ok_or(Refusal::NoRegion)?;
        let line = visit.line;
        let whole = map(line.range).ok_or(Refusal::NoRegion)?;
        let base = opened(&whole).address(line.begin as usize, line.bytes as usize);
        // SAFETY: a part of the mapping, which outlives the region.
        let memory = unsafe { Opened::new(base.ok_or(Refusal::NoRegion)?, line.bytes as usize) };
        let rights = Rights::of_bits(line.rights);
        let region = match rights.has(Rights::ENQUEUE) {
            true => Region::queue(Queue::open(memory).ok_or(Refusal::NoRegion)?),
            false => Region::plain(memory),
        };
        region.with_rights(rights).apply(from, request, Some(answer))?;
        // Whoever sleeps until a word changes has said so, or sees the change.
        fence(SeqCst);
        watch::notify(endpoint);
        Ok(())
    })
}

/// Applies a request by `work` if nobody has; its answer. None: it is the rank's own to apply, it has been
/// applied or is being applied, or others come before it.
pub fn apply_once(
    claims: Claims,
    question: &Question<'_>,
    work: impl FnOnce(&Request<'_>, &mut Vec<u8>) -> Result<(), Refusal>,
) -> Option<Vec<u8>> {
    let from = question.from as usize;
    let Some(Record::Request { region, number, request }) = wire::parse(question.record) else { return None };
    let asked_bytes = answer_bytes(&request).filter(|_| number != NO_REPLY)?;
    if !claims.try_begin(from, question.number) {
        return None;
    }
    let mut answer = wire::reply(number, asked_bytes);
    let done = work(&request, &mut answer);
    claims.end(from, question.number);
    Some(match done {
        Ok(()) => answer,
        Err(refusal) => wire::status(number, region, refusal),
    })
}

/// The last answer of each pair: of a rank of this node, and of who has asked.
#[derive(Debug, Default)]
pub struct Answers(BTreeMap<(u32, u32), (u64, Vec<u8>)>);

impl Answers {
    /// Forgets what a rank of this node was asked for.
    pub fn forget(&mut self, local_rank: u32) {
        self.0.retain(|(rank, _), _| *rank != local_rank);
    }

    /// The answer to a question for a rank of this node: `apply` gives it, or it is the last one of its pair,
    /// which was lost.
    pub fn to(
        &mut self,
        local_rank: u32,
        question: &Question<'_>,
        apply: impl FnOnce() -> Option<Vec<u8>>,
    ) -> Option<&[u8]> {
        let pair = (local_rank, question.from);
        if let Some(record) = apply() {
            self.0.insert(pair, (question.number, record));
        }
        let (number, record) = self.0.get(&pair)?;
        (*number == question.number).then_some(record)
    }
}

/// Bytes that the answer to a request has; none if it is the rank's own to apply.
fn answer_bytes(request: &Request<'_>) -> Option<usize> {
    match request {
        Request::Read { ranges } | Request::Change { ranges, .. } => usize::try_from(ranges.bytes()).ok(),
        Request::Swap { new, .. } => Some(new.len()),
        Request::Write { .. } => Some(0),
        Request::Enqueue { total, at: 0, data } if data.len() == *total as usize => Some(0),
        _ => None,
    }
    .filter(|bytes| *bytes <= tutti_shm::stand_in::RECORD_BYTES_MAX - wire::HEAD_BYTES)
}

fn opened(mapping: &Mapping) -> Opened {
    // SAFETY: callers keep the mapping as long as they use the value.
    unsafe { Opened::new(mapping.base(), mapping.range().bytes as usize) }
}
