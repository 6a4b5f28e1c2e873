//! The node as a keeper: what a message changes of the locks, barriers, flags and memory that it keeps, and
//! the grants that follow.

use super::knowledge::Knowledge;
use super::moves;
use crate::core::interval::Part;
use crate::core::message::{Call, Message};
use crate::core::sync::{Asker, Granted, Handover, Kept};
use crate::core::time::VectorTime;
use crate::core::violation::Violation;

/// Applies a message of a node; the grants that follow, with the notices that each of
/// their receivers lacks.
pub(super) fn apply(
    kept: &mut Kept,
    from: usize,
    message: Message,
    known: &Knowledge,
) -> Result<Vec<(usize, Message)>, Violation> {
    let Message { call, time, moves: wishes, .. } = message;
    let time = &time;
    let asker = || Granted { node: from, seen: time.clone() };
    let (mut value, mut moves) = (0, Vec::new());
    let grants = match call {
        Call::Grant { .. } | Call::Lend { .. } | Call::Recall { .. } => {
            unreachable!("an answer asks for nothing")
        }
        Call::Lock { lock } => {
            let asker = Asker { granted: asker(), is_deputy: false };
            return Ok(handed(lock, kept.lock(lock, asker)?, known));
        }
        Call::Borrow { lock } => {
            let asker = Asker { granted: asker(), is_deputy: true };
            return Ok(handed(lock, kept.lock(lock, asker)?, known));
        }
        Call::Unlock { lock } | Call::Return { lock } => {
            return Ok(handed(lock, kept.unlock(lock, from, time)?, known));
        }
        Call::Arrive { barrier, count } => {
            let (grants, wishes) = kept.arrive(barrier, count, asker(), wishes)?;
            moves = kept.admit(moves::granted(wishes, &grants.1, known));
            grants
        }
        Call::Set { flag } => kept.set(flag, time),
        Call::Clear { flag } => {
            kept.clear(flag);
            return Ok(Vec::new());
        }
        Call::Wait { flag } => kept.wait(flag, asker()),
        Call::Allocate { bytes, attributes, site } => {
            let (place, freed) = kept.allocate(bytes, attributes, &site)?;
            value = place;
            (vec![asker()], if mutated!(AllocateWithoutTime) { time.clone() } else { freed })
        }
        Call::Touch { offset } => {
            kept.blocks().touch(offset, from)?;
            value = kept.blocks().large_at(offset);
            // Nothing is handed on.
            (vec![asker()], VectorTime::zero(time.entries().len()))
        }
        Call::End => {
            kept.end()?;
            return Ok(Vec::new());
        }
        Call::Free { offset, site } => {
            kept.free(offset, &site, time)?;
            return Ok(Vec::new());
        }
    };
    let (granted, time) = grants;
    let answers = granted.into_iter().map(|granted| {
        let (to, message) = answer(granted, Call::Grant { value }, &time, known);
        (to, Message { moves: moves.clone(), ..message })
    });
    Ok(answers.collect())
}

/// Messages by which a lock changes hands.
fn handed(lock: u64, handover: Handover, known: &Knowledge) -> Vec<(usize, Message)> {
    let Handover { to, time, is_wanted, recalled } = handover;
    let call = |is_deputy| if is_deputy { Call::Lend { lock, is_wanted } } else { Call::Grant { value: 0 } };
    let given = to.map(|to| answer(to.granted, call(to.is_deputy), &time, known));
    let zero = VectorTime::zero(time.entries().len());
    let message = Message::new(Call::Recall { lock }, zero);
    given.into_iter().chain(recalled.map(|deputy| (deputy, message))).collect()
}

/// The answer to a node that is to see a time, with the notices that it lacks.
pub(super) fn answer(granted: Granted, call: Call, time: &VectorTime, known: &Knowledge) -> (usize, Message) {
    let Granted { node, seen } = granted;
    let mut upto = time.clone();
    if mutated!(GrantWithoutTime) {
        upto = seen.clone();
    }
    let mut parts = if node == known.me() { Vec::new() } else { known.since(&seen, &upto) };
    if mutated!(OwnNoticesAlone) {
        parts.retain(|part: &Part| part.node == known.me());
        (0..time.entries().len())
            .filter(|other| *other != known.me())
            .for_each(|other| upto.set(other, seen.of(other)));
    }
    // The time of a grant is one of which the keeper has the notices, so that its receiver need not send
    // them again. What the receiver has seen by others the keeper may never have heard of.
    if mutated!(SeenTakenForTold) {
        upto.join(&seen);
    }
    (node, Message { call, time: upto, parts, moves: Vec::new() })
}
