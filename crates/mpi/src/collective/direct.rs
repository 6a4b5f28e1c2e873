//! Operations in which every process sends to every other what that one needs.

use tutti_datatype::Buffer;

use super::plan::Plan;
use super::work::Pieces;

/// Everybody's contribution to the root.
pub(super) fn gather(plan: &mut Plan, own: Option<&Buffer>, all: Option<&Pieces>, root: usize) {
    match all {
        Some(all) => {
            for from in plan.others() {
                plan.receive(from, all.piece(from));
            }
            if let Some(own) = own {
                plan.schedule.copy(own.clone(), all.piece(root));
            }
        }
        None => plan.send(root, own.expect("all but the root contribute").clone()),
    }
}

/// From the root to everybody.
pub(super) fn scatter(plan: &mut Plan, all: Option<&Pieces>, own: Option<&Buffer>, root: usize) {
    match all {
        Some(all) => {
            for to in plan.others() {
                plan.send(to, all.piece(to));
            }
            if let Some(own) = own {
                plan.schedule.copy(all.piece(root), own.clone());
            }
        }
        None => {
            plan.receive(root, own.expect("all but the root receive").clone());
        }
    }
}

/// Everybody's contribution to everybody.
pub(super) fn allgather(plan: &mut Plan, own: Option<&Buffer>, all: &Pieces) {
    let me = plan.me;
    for from in plan.others() {
        plan.receive(from, all.piece(from));
    }
    let own = match own {
        Some(own) => {
            plan.schedule.copy(own.clone(), all.piece(me));
            own.clone()
        }
        None => all.piece(me),
    };
    for to in plan.others() {
        plan.send(to, own.clone());
    }
}

/// Everybody to everybody. In place, what is sent is set aside first.
pub(super) fn alltoall(plan: &mut Plan, send: Option<&Pieces>, receive: &Pieces) {
    let me = plan.me;
    let aside: Vec<Buffer> = match send {
        Some(_) => Vec::new(),
        None => (0..plan.size())
            .map(|to| {
                let piece = receive.piece(to);
                if to == me || piece.bytes == 0 {
                    return Buffer::empty();
                }
                let copy = Buffer::contiguous(plan.schedule.memory(piece.bytes), piece.bytes);
                plan.schedule.copy(piece, copy.clone());
                copy
            })
            .collect(),
    };
    for from in plan.others() {
        plan.receive(from, receive.piece(from));
    }
    for to in plan.others() {
        let piece = send.map_or_else(|| aside[to].clone(), |send| send.piece(to));
        plan.send(to, piece);
    }
    if let Some(send) = send {
        plan.schedule.copy(send.piece(me), receive.piece(me));
    }
}

/// A large broadcast: the root scatters, then everybody sends its part to everybody.
pub(super) fn broadcast(plan: &mut Plan, buffer: &Buffer, root: usize) {
    let (size, me, bytes) = (plan.size(), plan.me, buffer.bytes);
    // Ranks may describe the same bytes by different types, so data with gaps travel packed.
    let packed = if buffer.map.is_none() {
        buffer.clone()
    } else {
        let packed = Buffer::contiguous(plan.schedule.memory(bytes), bytes);
        if me == root {
            plan.schedule.copy(buffer.clone(), packed.clone());
        }
        packed
    };
    let each = bytes.div_ceil(size).next_multiple_of(64);
    let part = |rank: usize| {
        let begin = (rank * each).min(bytes);
        Buffer::contiguous(packed.at.wrapping_add(begin), each.min(bytes - begin))
    };
    if me == root {
        for to in plan.others() {
            plan.send(to, part(to));
        }
        // The others get the root's part from the root itself.
        for to in plan.others() {
            plan.send(to, part(root));
        }
        return;
    }
    let own = plan.receive(root, part(me));
    for from in plan.others() {
        plan.receive(from, part(from));
    }
    if let Some(own) = own {
        plan.schedule.await_one(own);
    }
    for to in plan.others() {
        if to != root {
            plan.send(to, part(me));
        }
    }
    plan.schedule.await_all();
    if buffer.map.is_some() {
        plan.schedule.copy(packed, buffer.clone());
    }
}
