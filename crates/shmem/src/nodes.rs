//! Memory of PEs on other nodes: operations go as records of remote memory
//! ([`tutti_runtime::remote_memory`]), which the service thread of the PE applies while it computes.
//!
//! A put returns when its origin may be used again, a long `put_nbi` at once; [`quiet`] waits until all are
//! applied. What fetches returns with the value, but for `get_nbi` and the `_nbi` of atomics. Operations of a
//! pair are done in order, so a fence has nothing to do.
//!
//! Each PE opens its heap and its static variables and tells the others their names; an address travels as
//! its distance from the beginning, which is the same everywhere. Elements are changed by instructions of the
//! processor there, as PEs of that node change them.

use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::*};
use std::sync::{Mutex, PoisonError};

use tutti_datatype::reduce::Operation as Reduction;
use tutti_datatype::{Buffer, Element};
use tutti_rma::accumulate::Update;
use tutti_rma::engine::Pushed;
use tutti_rma::operation::{Action, Operation};
use tutti_rma::region::Region;
use tutti_rma::wire::{Code, Name};
use tutti_runtime::rank;
use tutti_runtime::remote_memory;
use tutti_shm::opened::Opened;

use crate::fault;
use crate::pes;

/// The names of the memory of a PE.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Names {
    heap: [u32; 2],
    statics: [u32; 2],
}

/// Which memory an offset counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The symmetric heap.
    Heap,
    /// The static variables of the program.
    Statics,
}

/// A place in the memory of a PE of another node.
#[derive(Clone, Copy, Debug)]
pub struct Far {
    /// The PE.
    pub pe: usize,
    /// Kind of memory at the PE.
    pub kind: Kind,
    /// Bytes from the beginning.
    pub offset: u64,
}

/// Whether the job has PEs on other nodes.
static IS_SPREAD: AtomicBool = AtomicBool::new(false);
/// Names for each PE.
static NAMES: AtomicPtr<Names> = AtomicPtr::new(std::ptr::null_mut());
/// PEs to which something has gone since the last quiet.
static DIRTY: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Opens memory of this PE to those of other nodes; what they need to know.
pub fn open(heap: Opened, statics: Option<Opened>) -> Names {
    let rank = rank::enter().expect("MPI has started");
    let mut memory = rank.remote_memory().expect("a job of several nodes has a network");
    let mut open = |opened| {
        let name = memory.open(Region::plain(opened));
        [name.id, name.generation]
    };
    Names { heap: open(heap), statics: statics.map_or([u32::MAX; 2], open) }
}

/// The names of all PEs are known.
pub fn begin(names: Vec<Names>) {
    NAMES.store(Box::leak(names.into_boxed_slice()).as_mut_ptr(), Relaxed);
    IS_SPREAD.store(true, Release);
}

/// Closes the memory of this PE, behind a barrier.
pub fn finish(own: usize) {
    if !IS_SPREAD.swap(false, Relaxed) {
        return;
    }
    // SAFETY: there are names for each PE.
    let names = unsafe { *NAMES.load(Relaxed).add(own) };
    let Some(rank) = rank::enter() else { return };
    let mut memory = rank.remote_memory().expect("a job of several nodes has a network");
    for [id, generation] in [names.heap, names.statics] {
        if id != u32::MAX {
            memory.close(Name { id, generation });
        }
    }
}

/// Whether the job has PEs on other nodes.
#[inline(always)]
pub fn is_spread() -> bool {
    IS_SPREAD.load(Relaxed)
}

fn dirty() -> std::sync::MutexGuard<'static, Vec<usize>> {
    DIRTY.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Far {
    fn rank(self) -> usize {
        pes::rank(self.pe)
    }

    fn region(self) -> Name {
        // SAFETY: there are names for each PE, and a place is of one.
        let names = unsafe { *NAMES.load(Relaxed).add(self.pe) };
        let [id, generation] = if self.kind == Kind::Heap { names.heap } else { names.statics };
        Name { id, generation }
    }

    /// Hands an operation over; with `is_awaited` its answer is here when this returns.
    ///
    /// # Safety
    /// The memory that the action names is valid: the origin during the call, a result until the answer is
    /// here.
    unsafe fn start(self, function: &str, action: Action, ranges: Vec<(u64, usize)>, is_awaited: bool) {
        // SAFETY: our contract; the origin has been copied when all of it is handed over.
        let operation = unsafe { Operation::new(self.rank(), self.region(), action, ranges) };
        self.hand_over(function, operation, is_awaited);
    }

    fn hand_over(self, function: &str, mut operation: Operation, is_awaited: bool) {
        let Some(mut rank) = rank::enter() else { fault::end_not_running(function) };
        let mut memory = rank.remote_memory().expect("a job of several nodes has a network");
        let mut pushed = memory.push(&mut operation);
        if pushed == Pushed::Part {
            memory.hurry(self.rank());
            remote_memory::wait(&mut rank, |memory| {
                pushed = memory.push(&mut operation);
                pushed != Pushed::Part
            });
        }
        if pushed == Pushed::Gone {
            drop(rank);
            fault::end(function, format_args!("PE {} has left the job", self.pe));
        }
        if is_awaited {
            memory.hurry(self.rank());
            remote_memory::wait(&mut rank, |memory| !memory.has_answers_outstanding(self.rank()));
            let refusal = memory.take_refusal(self.rank(), self.region());
            drop(rank);
            return check(function, self.pe, refusal);
        }
        memory.send(self.rank());
        drop(rank);
        let mut dirty = dirty();
        if !dirty.contains(&self.pe) {
            dirty.push(self.pe);
        }
    }

    /// Writes bytes there.
    ///
    /// # Safety
    /// `from` is valid for so many bytes.
    #[cold]
    pub unsafe fn put(self, function: &str, from: *const u8, bytes: usize) {
        let from = Buffer::contiguous(from.cast_mut(), bytes);
        // SAFETY: our contract.
        unsafe { self.start(function, Action::Write { from }, vec![(self.offset, bytes)], false) }
    }

    /// The same with an origin that stays until the next quiet.
    ///
    /// # Safety
    /// `from` is valid for so many bytes until then.
    #[cold]
    pub unsafe fn put_nbi(self, function: &str, from: *const u8, bytes: usize) {
        let from = Buffer::contiguous(from.cast_mut(), bytes);
        // SAFETY: our contract.
        let operation = unsafe {
            Operation::new(self.rank(), self.region(), Action::Write { from }, vec![(self.offset, bytes)])
        };
        self.hand_over(function, operation.with_lasting_origin(), false);
    }

    /// Reads bytes there; with `is_awaited` they are here when this returns, else at the next quiet.
    ///
    /// # Safety
    /// `to` is valid for writing so many bytes, until then.
    #[cold]
    pub unsafe fn get(self, function: &str, to: *mut u8, bytes: usize, is_awaited: bool) {
        let into = Buffer::contiguous(to, bytes);
        // SAFETY: our contract.
        unsafe { self.start(function, Action::Read { into }, vec![(self.offset, bytes)], is_awaited) }
    }

    /// Writes packed blocks to ranges, given as distance from the place and bytes.
    #[cold]
    pub fn put_blocks(self, function: &str, packed: &[u8], blocks: impl Iterator<Item = (u64, usize)>) {
        let ranges = blocks.map(|(distance, bytes)| (self.offset + distance, bytes)).collect();
        let from = Buffer::contiguous(packed.as_ptr().cast_mut(), packed.len());
        // SAFETY: a slice; it is only read.
        unsafe { self.start(function, Action::Write { from }, ranges, false) }
    }

    /// Reads ranges into packed blocks.
    #[cold]
    pub fn get_blocks(self, function: &str, packed: &mut [u8], blocks: impl Iterator<Item = (u64, usize)>) {
        let ranges = blocks.map(|(distance, bytes)| (self.offset + distance, bytes)).collect();
        let into = Buffer::contiguous(packed.as_mut_ptr(), packed.len());
        // SAFETY: a slice, which is filled when the call returns.
        unsafe { self.start(function, Action::Read { into }, ranges, true) }
    }

    /// Changes an element; what was there, if that is wanted.
    #[cold]
    pub fn change<T: Copy>(
        self,
        function: &str,
        element: Element,
        update: Update,
        value: T,
        is_fetched: bool,
    ) -> T {
        let mut found = value;
        let origin = (&raw const value).cast();
        let result = is_fetched.then_some((&raw mut found).cast());
        let action = Action::Change { code: Code { element, update }, origin, result };
        // SAFETY: both are variables of this call, which waits for the answer if there is one.
        unsafe { self.start(function, action, vec![(self.offset, size_of::<T>())], is_fetched) };
        found
    }

    /// The same; what was there is in `fetch` at the next quiet.
    ///
    /// # Safety
    /// `fetch` is valid for writing until then.
    #[cold]
    pub unsafe fn change_nbi<T: Copy>(
        self,
        function: &str,
        element: Element,
        update: Update,
        value: T,
        fetch: *mut T,
    ) {
        let origin = (&raw const value).cast();
        let action = Action::Change { code: Code { element, update }, origin, result: Some(fetch.cast()) };
        // SAFETY: the origin is a variable of this call, the result is our contract.
        unsafe { self.start(function, action, vec![(self.offset, size_of::<T>())], false) };
    }

    /// Replaces an element if it is `cond`; what was there.
    #[cold]
    pub fn compare_swap<T: Copy>(self, function: &str, cond: T, value: T) -> T {
        let mut found = value;
        // SAFETY: the result is a variable of this call, which waits for the answer.
        unsafe { self.start_swap(function, cond, value, &raw mut found, true) };
        found
    }

    /// The same; what was there is in `fetch` at the next quiet.
    ///
    /// # Safety
    /// `fetch` is valid for writing until then.
    #[cold]
    pub unsafe fn compare_swap_nbi<T: Copy>(self, function: &str, cond: T, value: T, fetch: *mut T) {
        // SAFETY: our contract.
        unsafe { self.start_swap(function, cond, value, fetch, false) };
    }

    /// # Safety
    /// `result` is valid for writing until the answer is here.
    unsafe fn start_swap<T: Copy>(self, function: &str, cond: T, value: T, result: *mut T, is_awaited: bool) {
        let bytes = size_of::<T>();
        let bytes_of = |value: &T| {
            // SAFETY: integers of the standard's types have no gaps.
            unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), bytes) }.to_vec()
        };
        let operands = [bytes_of(&cond), bytes_of(&value)].concat();
        let action = Action::Swap { operands, result: result.cast() };
        // SAFETY: our contract.
        unsafe { self.start(function, action, vec![(self.offset, bytes)], is_awaited) };
    }
}

/// How elements become others.
pub mod update {
    use super::{Reduction, Update};

    /// The value takes their place.
    pub const SET: Update = Update::Replace;
    /// Elements stay as they are.
    pub const FETCH: Update = Update::Keep;
    /// The value is added.
    pub const ADD: Update = Update::Reduce(Reduction::SUM);
    /// Bitwise AND.
    pub const AND: Update = Update::Reduce(Reduction::BAND);
    /// Bitwise OR.
    pub const OR: Update = Update::Reduce(Reduction::BOR);
    /// Bitwise XOR.
    pub const XOR: Update = Update::Reduce(Reduction::BXOR);
}

fn check(function: &str, pe: usize, refusal: Option<tutti_rma::wire::Refusal>) {
    if let Some(refusal) = refusal {
        fault::end(function, format_args!("PE {pe} refuses an operation on its memory: {refusal}"));
    }
}

/// Waits until everything that this PE has asked others for is done.
#[cold]
pub fn quiet(function: &str) {
    // Another thread may wait for the same, so they stay noted until they are done.
    let pes = dirty().clone();
    let Some(mut rank) = rank::enter().filter(|_| !pes.is_empty()) else { return };
    let mut memory = rank.remote_memory().expect("a job of several nodes has a network");
    // All are asked before one is awaited.
    pes.iter().for_each(|pe| memory.hurry(pes::rank(*pe)));
    for other in pes.iter().map(|pe| pes::rank(*pe)) {
        if !memory.is_done(other) {
            remote_memory::wait(&mut rank, |memory| memory.is_done(other));
        }
    }
    dirty().retain(|pe| !pes.contains(pe) || !memory.is_done(pes::rank(*pe)));
    let refused: Vec<_> = pes
        .iter()
        .flat_map(|pe| [Kind::Heap, Kind::Statics].map(|kind| Far { pe: *pe, kind, offset: 0 }))
        .map(|far| (far.pe, memory.take_refusal(far.rank(), far.region())))
        .collect();
    drop(rank);
    refused.into_iter().for_each(|(pe, refusal)| check(function, pe, refusal));
}

/// Takes in what has come, for a program that looks at a word again and again.
#[cold]
pub fn look() {
    if let Some(mut rank) = rank::enter() {
        remote_memory::look(&mut rank);
    }
}
