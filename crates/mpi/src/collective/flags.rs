//! Small collective operations on one node, through the slots of the communicator's block.
//!
//! Each member publishes its contribution and reads the others'. Reductions go from the last rank to the
//! first, on every rank alike: the results are the same on all ranks and from run to run, also when the
//! operation is not commutative.

use tutti_datatype::{Buffer, reduce::Kernel};
use tutti_shm::collective::SLOT_BYTES;

use super::memory::Memory;
use super::state::{Block, Readers};
use super::work::{Pieces, Reduction, Root, Work};
use crate::progress::Progress;

/// Does the operation if it is small enough; all ranks decide alike.
#[inline(always)]
pub(super) fn try_small(call: &mut impl Progress, block: &Block, work: &Work) -> bool {
    let limits = &block.limits;
    match work {
        Work::Barrier => barrier(call, block),
        Work::Broadcast { buffer, root: Root::Local(root) } if buffer.bytes <= limits.broadcast => {
            broadcast(call, block, buffer, *root);
        }
        Work::Allreduce(reduction)
            if reduction.bytes <= limits.allreduce && reduction.bytes_per_element() <= SLOT_BYTES =>
        {
            allreduce(call, block, reduction);
        }
        Work::Reduce(reduction, Root::Local(root)) if reduction.bytes <= SLOT_BYTES => {
            reduce(call, block, reduction, *root);
        }
        Work::Scan { reduction, exclusive } if reduction.bytes <= SLOT_BYTES => {
            scan(call, block, reduction, *exclusive);
        }
        Work::Gather { own, all, root: Root::Local(root), each: Some(each) } if *each <= SLOT_BYTES => {
            gather(call, block, own.as_ref(), all.as_ref(), *root, *each);
        }
        Work::Scatter { all, own, root: Root::Local(root), each: Some(each) }
            if *each * block.size() <= SLOT_BYTES =>
        {
            scatter(call, block, all.as_ref(), own.as_ref(), *root, *each);
        }
        Work::Allgather { own, all, each: Some(each) } if *each <= SLOT_BYTES => {
            allgather(call, block, own.as_ref(), all, *each);
        }
        Work::Alltoall { send, receive, each: Some(each) } if *each * block.size() <= SLOT_BYTES => {
            alltoall(call, block, send.as_ref().unwrap_or(receive), receive, *each);
        }
        _ => return false,
    }
    true
}

fn barrier(call: &mut impl Progress, block: &Block) {
    let k = block.begin();
    // No data are overwritten, so nobody needs to have finished anything.
    block.commit(call, k, Readers::All);
    block.meet(call, k);
    block.all_arrived(k);
}

fn broadcast(call: &mut impl Progress, block: &Block, buffer: &Buffer, root: usize) {
    let mut offset = 0;
    while offset < buffer.bytes {
        let bytes = (buffer.bytes - offset).min(SLOT_BYTES);
        let k = block.begin();
        if block.me == root {
            let slot = block.prepare(call, k, bytes);
            // SAFETY: the user's buffer is valid during the call; the slot is ours and has room.
            unsafe { buffer.load(offset, slot, bytes) };
            block.commit(call, k, Readers::All);
        } else {
            let data = block.read(call, root, k, bytes);
            // SAFETY: as above; the root does not touch the slot before we have finished.
            unsafe { buffer.store(offset, data, bytes) };
            block.finish(call, k);
        }
        offset += bytes;
    }
}

/// Publishes a contribution.
#[inline(always)]
fn publish(call: &mut impl Progress, block: &Block, k: u64, data: &Buffer, readers: Readers) {
    let slot = block.prepare(call, k, data.bytes);
    // SAFETY: the user's buffer is valid during the call; the slot is ours and has room.
    unsafe { data.load(0, slot, data.bytes) };
    block.commit(call, k, readers);
}

/// Elements of a predefined type under a predefined operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elements {
    /// The loop.
    pub kernel: Kernel,
    /// How many.
    pub count: usize,
    /// Bytes of all.
    pub bytes: usize,
}

/// Some of the elements of a reduction.
#[derive(Clone, Copy)]
struct Part {
    first: usize,
    count: usize,
}

/// Contributions of the members `members`, combined into `result`.
///
/// # Safety
/// `result` leads to memory for the elements; it is overwritten.
#[inline(always)]
unsafe fn fold(
    call: &mut impl Progress,
    block: &Block,
    k: u64,
    reduction: &Reduction,
    part: Part,
    members: std::ops::RangeInclusive<usize>,
) {
    let result = reduction.element(reduction.receive, part.first);
    match reduction.reducer.kernel() {
        Some(kernel) => {
            let bytes = part.count * reduction.reducer.datatype.extent as usize;
            let elements = Elements { kernel, count: part.count, bytes };
            // SAFETY: our contract.
            unsafe { fold_elements(call, block, k, elements, members, result) };
        }
        // SAFETY: our contract.
        None => unsafe { fold_with_function(call, block, k, reduction, part, members, result) },
    }
}

/// As [`fold`], with a predefined operation on elements that lie in the slots as in memory.
#[inline(always)]
unsafe fn fold_elements(
    call: &mut impl Progress,
    block: &Block,
    k: u64,
    elements: Elements,
    members: std::ops::RangeInclusive<usize>,
    result: *mut u8,
) {
    let Elements { kernel, count, bytes } = elements;
    let (first, last) = (*members.start(), *members.end());
    let data = block.read(call, last, k, bytes);
    // SAFETY: our contract; a slot stays as it is until we have finished.
    unsafe { copy_few(data, result, bytes) };
    for member in (first..last).rev() {
        let data = block.read(call, member, k, bytes);
        // SAFETY: as above.
        unsafe { kernel(data, result, count) };
    }
}

/// Copies; one word without a call.
///
/// # Safety
/// As for a copy of `bytes` bytes that do not overlap.
#[inline(always)]
unsafe fn copy_few(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: our contract.
    unsafe {
        if bytes == 8 {
            to.cast::<u64>().write_unaligned(from.cast::<u64>().read_unaligned());
        } else {
            std::ptr::copy_nonoverlapping(from, to, bytes);
        }
    }
}

/// As [`fold`], with a function of the user: it sees elements of its type, so the packed data are laid out
/// first.
unsafe fn fold_with_function(
    call: &mut impl Progress,
    block: &Block,
    k: u64,
    reduction: &Reduction,
    part: Part,
    members: std::ops::RangeInclusive<usize>,
    result: *mut u8,
) {
    let (first, last) = (*members.start(), *members.end());
    let reducer = &reduction.reducer;
    let (low, length) = reducer.datatype.room(part.count);
    let mut memory = Memory::new(length);
    let operand = memory.address().wrapping_offset(-low);
    for member in (first..=last).rev() {
        let target = reduction.elements(if member == last { result } else { operand }, part.count);
        let data = block.read(call, member, k, target.bytes);
        // SAFETY: both targets lead to memory for the elements.
        unsafe { target.store(0, data, target.bytes) };
        if member != last {
            // SAFETY: as above; they are two memories.
            unsafe { reducer.combine(|run| call.unlocked(run), operand, result, part.count) };
        }
    }
}

/// Publishes some elements of this process's contribution.
#[inline(always)]
fn contribute(
    call: &mut impl Progress,
    block: &Block,
    k: u64,
    reduction: &Reduction,
    part: Part,
    readers: Readers,
) {
    let data = reduction.elements(reduction.element(reduction.send, part.first), part.count);
    publish(call, block, k, &data, readers);
}

/// In pieces that fit a slot, one after the other: a piece published ahead would say that the one before was
/// read.
fn allreduce(call: &mut impl Progress, block: &Block, reduction: &Reduction) {
    let room = SLOT_BYTES / reduction.bytes_per_element().max(1);
    let mut first = 0;
    while first < reduction.count {
        let part = Part { first, count: room.min(reduction.count - first) };
        let k = block.begin();
        contribute(call, block, k, reduction, part, Readers::All);
        block.expect_all(call, k);
        // SAFETY: the user's receive buffer; its own contribution has been published.
        unsafe { fold(call, block, k, reduction, part, 0..=block.size() - 1) };
        block.all_arrived(k);
        first += part.count;
    }
}

/// A predefined operation on few elements, for the calls that cannot be fast enough.
///
/// # Safety
/// Both addresses lead to the elements; they may be equal.
#[inline(always)]
pub(super) unsafe fn allreduce_elements(
    call: &mut impl Progress,
    block: &Block,
    elements: Elements,
    send: *const u8,
    receive: *mut u8,
) {
    let bytes = elements.bytes;
    let k = block.begin();
    let slot = block.prepare(call, k, bytes);
    // SAFETY: our contract; the slot is ours and has room.
    unsafe { copy_few(send, slot, bytes) };
    block.commit(call, k, Readers::All);
    block.expect_all(call, k);
    // SAFETY: our contract; this process's contribution has been published.
    unsafe { fold_elements(call, block, k, elements, 0..=block.size() - 1, receive) };
    block.all_arrived(k);
}

fn reduce(call: &mut impl Progress, block: &Block, reduction: &Reduction, root: usize) {
    let k = block.begin();
    let whole = Part { first: 0, count: reduction.count };
    contribute(call, block, k, reduction, whole, Readers::One(root));
    if block.me == root {
        // SAFETY: the user's receive buffer; its own contribution has been published.
        unsafe { fold(call, block, k, reduction, whole, 0..=block.size() - 1) };
        block.all_arrived(k);
    }
}

fn scan(call: &mut impl Progress, block: &Block, reduction: &Reduction, exclusive: bool) {
    let k = block.begin();
    let whole = Part { first: 0, count: reduction.count };
    contribute(call, block, k, reduction, whole, Readers::All);
    let last = if exclusive { block.me.checked_sub(1) } else { Some(block.me) };
    if let Some(last) = last {
        // SAFETY: the user's receive buffer; its own contribution has been published.
        unsafe { fold(call, block, k, reduction, whole, 0..=last) };
    }
}

fn gather(
    call: &mut impl Progress,
    block: &Block,
    own: Option<&Buffer>,
    all: Option<&Pieces>,
    root: usize,
    each: usize,
) {
    let k = block.begin();
    let Some(all) = all else {
        if let Some(own) = own {
            publish(call, block, k, own, Readers::One(root));
        }
        return;
    };
    for member in 0..block.size() {
        if member != root {
            let data = block.read(call, member, k, each);
            // SAFETY: the user's receive buffer is valid during the call; the slot stays until we have
            // finished.
            unsafe { all.piece(member).store(0, data, each) };
        }
    }
    if let Some(own) = own {
        // SAFETY: the user's two buffers are valid and do not overlap.
        unsafe { super::schedule::copy(own, &all.piece(root)) };
    }
    block.finish(call, k);
}

fn scatter(
    call: &mut impl Progress,
    block: &Block,
    all: Option<&Pieces>,
    own: Option<&Buffer>,
    root: usize,
    each: usize,
) {
    let k = block.begin();
    let whole = each * block.size();
    match all {
        Some(all) => {
            let slot = block.prepare(call, k, whole);
            for member in 0..block.size() {
                // SAFETY: the user's buffer is valid during the call; the slot is ours and has room for all
                // pieces.
                unsafe { all.piece(member).load(0, slot.add(member * each), each) };
            }
            block.commit(call, k, Readers::All);
            if let Some(own) = own {
                // SAFETY: the user's two buffers are valid and do not overlap.
                unsafe { super::schedule::copy(&all.piece(root), own) };
            }
        }
        None => {
            let data = block.read(call, root, k, whole);
            if let Some(own) = own {
                // SAFETY: as above.
                unsafe { own.store(0, data.add(block.me * each), each) };
            }
            block.finish(call, k);
        }
    }
}

fn allgather(call: &mut impl Progress, block: &Block, own: Option<&Buffer>, all: &Pieces, each: usize) {
    let k = block.begin();
    match own {
        Some(own) => publish(call, block, k, own, Readers::All),
        None => publish(call, block, k, &all.piece(block.me), Readers::All),
    }
    block.expect_all(call, k);
    for member in 0..block.size() {
        if member != block.me || own.is_some() {
            let data = block.read(call, member, k, each);
            // SAFETY: the user's receive buffer is valid during the call; the slot stays until we have
            // finished.
            unsafe { all.piece(member).store(0, data, each) };
        }
    }
    block.all_arrived(k);
}

fn alltoall(call: &mut impl Progress, block: &Block, send: &Pieces, receive: &Pieces, each: usize) {
    let k = block.begin();
    let whole = each * block.size();
    let slot = block.prepare(call, k, whole);
    for member in 0..block.size() {
        // SAFETY: the user's buffer is valid during the call; the slot is ours and has room for all pieces.
        unsafe { send.piece(member).load(0, slot.add(member * each), each) };
    }
    block.commit(call, k, Readers::All);
    block.expect_all(call, k);
    for member in 0..block.size() {
        let data = block.read(call, member, k, whole);
        // SAFETY: the user's receive buffer is valid during the call; in place, what it held has been
        // published.
        unsafe { receive.piece(member).store(0, data.add(block.me * each), each) };
    }
    block.all_arrived(k);
}
