//! Large collective operations on one node by single copies between the memories of the members.
//!
//! ```text
//! publish the address of the own data -> copy from and to the others' memories -> agree that all copies were done
//! ```
//!
//! The members meet twice, however much there is to copy, and every byte is copied once, by a process that
//! has nothing else to do: the cost does not depend on how far the cores are apart. Where the kernel refuses
//! (found by a trial of each communicator, later by the agreement at the end), all members alike use
//! messages, which need no such right.

use tutti_datatype::{Buffer, reduce::Kernel};

use super::memory::Memory;
use super::state::{Block, Readers, Right};
use super::work::{Pieces, Reduction, Root, Work};
use crate::progress::Progress;

/// Pieces in which a reduction goes on: what was fetched is combined and passed on while it is in the cache.
const REDUCED_BYTES: usize = 128 << 10;
/// Others that a member tries to copy from and to.
const TRIED: usize = 16;
/// Shares are cut at pages: the kernel copies page by page.
const PAGE_BYTES: usize = 4096;

/// Result of an operation that was tried by single copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// All members have their results.
    Done,
    /// Not touched, or still to be done from the beginning, by messages.
    Undone,
    /// A member could not copy after others had overwritten what they had contributed.
    Lost,
}

/// Does the operation if it is large enough and the kernel allows it; all members decide alike.
pub(super) fn try_large(call: &mut impl Progress, block: &Block, work: &Work) -> Outcome {
    let least = block.limits.single_copy;
    let fits = match work {
        Work::Broadcast { buffer, root: Root::Local(_) } => buffer.bytes >= least,
        Work::Allgather { each: Some(each), .. } => *each >= least,
        Work::Alltoall { each: Some(each), .. } => *each >= block.limits.exchange_copy,
        Work::Allreduce(reduction) => reduction.reducer.kernel().is_some() && reduction.bytes >= least,
        _ => false,
    };
    if !fits || !is_granted(call, block) {
        return Outcome::Undone;
    }
    let done = match work {
        Work::Broadcast { buffer, root: Root::Local(root) } => broadcast(call, block, buffer, *root),
        Work::Allgather { own, all, each: Some(each) } => allgather(call, block, own.as_ref(), all, *each),
        Work::Alltoall { send, receive, each: Some(each) } => {
            alltoall(call, block, send.as_ref(), receive, *each)
        }
        Work::Allreduce(reduction) => {
            let kernel = reduction.reducer.kernel().expect("looked at above");
            allreduce(call, block, reduction, kernel)
        }
        _ => panic!("only large work of these kinds is done here"),
    };
    if done {
        return Outcome::Done;
    }
    block.right.set(Right::Refused);
    let is_lost =
        matches!(work, Work::Allreduce(reduction) if reduction.send == reduction.receive.cast_const());
    if is_lost { Outcome::Lost } else { Outcome::Undone }
}

/// Whether all members may copy from each other: tried once.
fn is_granted(call: &mut impl Progress, block: &Block) -> bool {
    if block.right.get() == Right::Unknown {
        let right = if trial(call, block) { Right::Granted } else { Right::Refused };
        block.right.set(right);
    }
    block.right.get() == Right::Granted
}

/// Every member fetches a word of others, and writes it back. Whether the kernel allows it depends on what
/// each of the two is, so a few others tell as much as all.
fn trial(call: &mut impl Progress, block: &Block) -> bool {
    const WORD: u64 = 0x7475_7474_6921_0000;
    let mut own = Box::new(WORD + block.me as u64);
    let k = publish(call, block, Data::new((&raw mut *own).cast(), size_of::<u64>()));
    let mut granted = true;
    for member in others(block).take(TRIED) {
        let mut word = 0_u64;
        let theirs = published(call, block, member, k);
        // SAFETY: the word is ours; the member keeps its own until all have agreed, and nobody changes what
        // it holds.
        granted &= unsafe {
            fetch(call, block, member, theirs.address, (&raw mut word).cast(), size_of::<u64>())
                && word == WORD + member as u64
                && store(call, block, member, theirs.address, (&raw const word).cast(), size_of::<u64>())
        };
    }
    agree(call, block, granted)
}

/// Members say whether they have done their part; true when all have. Nobody's memory is looked at any more
/// afterwards.
fn agree(call: &mut impl Progress, block: &Block, done: bool) -> bool {
    let k = block.begin();
    let slot = block.prepare(call, k, size_of::<u64>());
    // SAFETY: the slot is ours, aligned, and has room.
    unsafe { slot.cast::<u64>().write(u64::from(done)) };
    block.commit(call, k, Readers::All);
    block.expect_all(call, k);
    let mut all = done;
    for member in others(block) {
        // SAFETY: the member has written the word before it committed the slot.
        all &= unsafe { block.read(call, member, k, size_of::<u64>()).cast::<u64>().read() } != 0;
    }
    block.all_arrived(k);
    all
}

/// Description that a member gives of its data.
#[derive(Clone, Copy)]
#[repr(C)]
struct Data {
    /// Where they are, in one piece; 0 when they have gaps.
    address: u64,
    bytes: u64,
    /// Where the result of a reduction goes.
    result: u64,
}

impl Data {
    fn new(at: *const u8, bytes: usize) -> Self {
        Data { address: at as u64, bytes: bytes as u64, result: 0 }
    }
}

/// Says where this process's data are; the number of the operation.
fn publish(call: &mut impl Progress, block: &Block, data: Data) -> u64 {
    let k = block.begin();
    let slot = block.prepare(call, k, size_of::<Data>());
    // SAFETY: the slot is ours, aligned, and has room.
    unsafe { slot.cast::<Data>().write(data) };
    block.commit(call, k, Readers::All);
    k
}

/// Where a member's data are.
fn published(call: &mut impl Progress, block: &Block, member: usize, k: u64) -> Data {
    // SAFETY: the member has written them before it committed the slot.
    unsafe { block.read(call, member, k, size_of::<Data>()).cast::<Data>().read() }
}

/// The other members, beginning behind this one, so that not all begin with the same.
fn others(block: &Block) -> impl Iterator<Item = usize> + use<> {
    let (me, size) = (block.me, block.size());
    (1..size).map(move |i| (me + i) % size)
}

/// Copies from a member's memory; false when the kernel refuses.
///
/// # Safety
/// `to` is valid for writing `bytes` bytes.
unsafe fn fetch(
    call: &mut impl Progress,
    block: &Block,
    member: usize,
    from: u64,
    to: *mut u8,
    bytes: usize,
) -> bool {
    let process = block.process(call, member);
    in_calls(call, bytes, |offset| {
        // SAFETY: our contract.
        unsafe { tutti_rma::read(process, from + offset as u64, to.add(offset), bytes - offset) }
    })
}

/// Copies to a member's memory; false when the kernel refuses.
///
/// # Safety
/// `from` is valid for reading `bytes` bytes, and the member waits for them at `to`.
unsafe fn store(
    call: &mut impl Progress,
    block: &Block,
    member: usize,
    to: u64,
    from: *const u8,
    bytes: usize,
) -> bool {
    let process = block.process(call, member);
    in_calls(call, bytes, |offset| {
        // SAFETY: our contract.
        unsafe { tutti_rma::write(process, to + offset as u64, from.add(offset), bytes - offset) }
    })
}

/// Messages go on between the calls.
fn in_calls(
    call: &mut impl Progress,
    bytes: usize,
    mut copy: impl FnMut(usize) -> std::io::Result<usize>,
) -> bool {
    let mut offset = 0;
    while offset < bytes {
        match copy(offset) {
            Ok(copied) => offset += copied,
            Err(_) => return false,
        }
        if offset < bytes {
            call.progress(None);
        }
    }
    true
}

/// Copies from a member's memory to the beginning of a buffer that may have gaps.
///
/// # Safety
/// The user's buffer is valid and has so many bytes of data.
unsafe fn fetch_into(
    call: &mut impl Progress,
    block: &Block,
    member: usize,
    from: u64,
    to: &Buffer,
    bytes: usize,
) -> bool {
    if to.map.is_none() {
        // SAFETY: our contract.
        return unsafe { fetch(call, block, member, from, to.at, bytes) };
    }
    let mut memory = Memory::new(bytes.min(REDUCED_BYTES));
    let mut done = 0;
    while done < bytes {
        let part = (bytes - done).min(REDUCED_BYTES);
        // SAFETY: the memory has room for the part; the buffer by our contract.
        unsafe {
            if !fetch(call, block, member, from + done as u64, memory.address(), part) {
                return false;
            }
            to.store(done, memory.address(), part);
        }
        done += part;
    }
    true
}

/// Every receiver fetches; the root, which would be idle, brings each of them the last part.
fn broadcast(call: &mut impl Progress, block: &Block, buffer: &Buffer, root: usize) -> bool {
    let bytes = buffer.bytes;
    let (packed, own) = if block.me == root {
        contiguous(buffer)
    } else {
        (None, if buffer.map.is_none() { buffer.at } else { std::ptr::null_mut() })
    };
    let mine = Data::new(own, bytes);
    let k = publish(call, block, mine);
    // So many bytes of each receiver are the root's work: then all copy the same amount.
    let share = if block.limits.root_helps { (bytes / block.size()).next_multiple_of(PAGE_BYTES) } else { 0 };
    let by_root = |receiver: &Data| if receiver.address == 0 { 0 } else { share.min(bytes) };
    let copied = if block.me == root {
        others(block).all(|member| {
            let theirs = published(call, block, member, k);
            let part = by_root(&theirs);
            let begin = bytes - part;
            // SAFETY: the data stay until all have agreed; the receiver waits for its last part.
            theirs.bytes == bytes as u64
                && unsafe { store(call, block, member, theirs.address + begin as u64, own.add(begin), part) }
        })
    } else {
        let theirs = published(call, block, root, k);
        let part = bytes - by_root(&mine);
        // SAFETY: the user's receive buffer is valid during the call.
        theirs.bytes == bytes as u64 && unsafe { fetch_into(call, block, root, theirs.address, buffer, part) }
    };
    let done = agree(call, block, copied);
    drop(packed);
    done
}

/// The data of a buffer in one piece: where they are, and the memory that they were packed into.
fn contiguous(buffer: &Buffer) -> (Option<Memory>, *mut u8) {
    if buffer.map.is_none() {
        return (None, buffer.at);
    }
    let mut packed = Memory::new(buffer.bytes);
    let at = packed.address();
    // SAFETY: the user's buffer is valid during the call; the memory has room.
    unsafe { buffer.load(0, at, buffer.bytes) };
    (Some(packed), at)
}

/// Every member fetches every other's contribution.
fn allgather(
    call: &mut impl Progress,
    block: &Block,
    own: Option<&Buffer>,
    all: &Pieces,
    each: usize,
) -> bool {
    let target = all.piece(block.me);
    let mine = own.unwrap_or(&target);
    let (packed, address) = contiguous(mine);
    let k = publish(call, block, Data::new(address, mine.bytes));
    if let Some(own) = own {
        // SAFETY: the user's two buffers are valid and do not overlap.
        unsafe { super::schedule::copy(own, &target) };
    }
    let copied = others(block).all(|member| {
        let theirs = published(call, block, member, k);
        // SAFETY: the user's receive buffer is valid during the call.
        theirs.bytes == each as u64
            && unsafe { fetch_into(call, block, member, theirs.address, &all.piece(member), each) }
    });
    let done = agree(call, block, copied);
    drop(packed);
    done
}

/// Every member fetches its piece from every other. In place, what is sent is set aside first.
fn alltoall(
    call: &mut impl Progress,
    block: &Block,
    send: Option<&Pieces>,
    receive: &Pieces,
    each: usize,
) -> bool {
    let (me, size) = (block.me, block.size());
    let in_one = send.and_then(|send| in_one_piece(send, size, each));
    let mut aside = Memory::new(if in_one.is_none() { size * each } else { 0 });
    let address = in_one.unwrap_or_else(|| {
        for to in (0..size).filter(|&to| to != me) {
            let piece = send.unwrap_or(receive).piece(to);
            // SAFETY: the user's buffer is valid during the call; the memory has room for all pieces.
            unsafe { piece.load(0, aside.address().add(to * each), each) };
        }
        aside.address()
    });
    let k = publish(call, block, Data::new(address, each));
    if let Some(send) = send {
        // SAFETY: the user's two buffers are valid and do not overlap.
        unsafe { super::schedule::copy(&send.piece(me), &receive.piece(me)) };
    }
    let copied = others(block).all(|member| {
        let theirs = published(call, block, member, k);
        let from = theirs.address + (me * each) as u64;
        // SAFETY: the user's receive buffer is valid during the call.
        theirs.bytes == each as u64
            && unsafe { fetch_into(call, block, member, from, &receive.piece(member), each) }
    });
    let done = agree(call, block, copied);
    if !done && send.is_none() {
        // What was contributed is needed once more.
        for to in (0..size).filter(|&to| to != me) {
            // SAFETY: as above.
            unsafe { receive.piece(to).store(0, aside.address().add(to * each), each) };
        }
    }
    done
}

/// Where all pieces are, one behind the other without gaps.
fn in_one_piece(pieces: &Pieces, size: usize, each: usize) -> Option<*mut u8> {
    let first = pieces.piece(0).at;
    let fits = |rank: usize| {
        let piece = pieces.piece(rank);
        piece.map.is_none() && piece.at == first.wrapping_add(rank * each) && piece.bytes == each
    };
    (0..size).all(fits).then_some(first)
}

/// Every member reduces a part, and stores the result in every member's receive buffer. In place too: a part
/// of a contribution is fetched by nobody else.
fn allreduce(call: &mut impl Progress, block: &Block, reduction: &Reduction, kernel: Kernel) -> bool {
    let (size, bytes, extent) = (block.size(), reduction.bytes, reduction.bytes_per_element());
    let mine = Data { result: reduction.receive as u64, ..Data::new(reduction.send, bytes) };
    let k = publish(call, block, mine);
    let members: Vec<Data> = (0..size).map(|member| published(call, block, member, k)).collect();
    let share = bytes.div_ceil(size).next_multiple_of(extent * 64);
    let (begin, end) = ((block.me * share).min(bytes), ((block.me + 1) * share).min(bytes));
    let piece = (REDUCED_BYTES / extent).max(1) * extent;
    let (mut operand, mut sum) = (Memory::new(piece), Memory::new(piece));
    let spare = [operand.address(), sum.address()];
    let mut copied = members.iter().all(|data| data.bytes == bytes as u64);
    for offset in (begin..end).step_by(piece) {
        let piece = Piece { offset, bytes: piece.min(end - offset) };
        // SAFETY: the user's buffers are valid during the call; both spare memories have room for a piece.
        copied = copied
            && unsafe {
                reduce_piece(call, block, reduction, kernel, &members, piece, spare)
                    && spread_piece(call, block, reduction, &members, piece)
            };
    }
    agree(call, block, copied)
}

/// Some elements of a reduction.
#[derive(Clone, Copy)]
struct Piece {
    offset: usize,
    bytes: usize,
}

/// Fetches a piece of all contributions and combines them from the last rank to the first into the receive
/// buffer, as the slots do (`flags`): of NaN and of zeros of both signs MPI_MAX takes the same one.
///
/// # Safety
/// The user's buffers are valid, the piece lies inside them, and both spare memories have room for it.
unsafe fn reduce_piece(
    call: &mut impl Progress,
    block: &Block,
    reduction: &Reduction,
    kernel: Kernel,
    members: &[Data],
    Piece { offset, bytes }: Piece,
    [operand, aside]: [*mut u8; 2],
) -> bool {
    let (me, last) = (block.me, block.size() - 1);
    let count = bytes / reduction.bytes_per_element();
    let own = reduction.send.wrapping_add(offset);
    let result = reduction.receive.wrapping_add(offset);
    let in_place = own == result.cast_const();
    // In place the own contribution is needed until its turn has come; that of the last rank begins.
    let sum = if in_place && me < last { aside } else { result };
    let mut get = |member: usize, to: *mut u8| {
        // SAFETY: our contract.
        unsafe { fetch(call, block, member, members[member].address + offset as u64, to, bytes) }
    };
    let combine = |input: *const u8| {
        // SAFETY: our contract.
        unsafe { kernel(input, sum, count) };
    };
    if me == last && !in_place {
        // SAFETY: our contract; the user's two buffers do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(own, sum, bytes) };
    }
    let begun = me == last || get(last, sum);
    let combined = begun
        && (0..last).rev().all(|member| {
            let input = if member == me { own } else { operand.cast_const() };
            (member == me || get(member, operand)) && {
                combine(input);
                true
            }
        });
    if combined && sum != result {
        // SAFETY: our contract.
        unsafe { std::ptr::copy_nonoverlapping(sum, result, bytes) };
    }
    combined
}

/// Stores a piece of the result in the other members' receive buffers.
///
/// # Safety
/// The user's buffers are valid, and the piece lies inside them.
unsafe fn spread_piece(
    call: &mut impl Progress,
    block: &Block,
    reduction: &Reduction,
    members: &[Data],
    Piece { offset, bytes }: Piece,
) -> bool {
    let result = reduction.receive.wrapping_add(offset);
    // SAFETY: our contract.
    others(block).all(|member| unsafe {
        store(call, block, member, members[member].result + offset as u64, result, bytes)
    })
}
