//! Handles: kind, generation and index in 31 bits, above the range that the standard reserves.
//!
//! ```text
//! bit 30..27 kind (1..)   26..20 generation   19..0 index
//! ```
//!
//! A freed handle is noticed because its slot's generation has changed.

use std::mem::MaybeUninit;

use tutti_runtime::log;

use crate::abi::MPI_ERR_NO_MEM;
use crate::end_job::{By, end_job};

const INDEX_BITS: u32 = 20;
const GENERATION_BITS: u32 = 7;
const INDEX_MASK: usize = (1 << INDEX_BITS) - 1;
const GENERATION_MASK: u32 = ((1 << GENERATION_BITS) - 1) << INDEX_BITS;

/// The handle of a slot's next object: the generation is one higher, the rest stays.
const fn next_generation(handle: u32) -> u32 {
    handle & !GENERATION_MASK | handle.wrapping_add(1 << INDEX_BITS) & GENERATION_MASK
}

/// Kind of object that a handle names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// MPI_Comm
    Comm = 1,
    /// MPI_Datatype
    Datatype,
    /// MPI_Errhandler
    Errhandler,
    /// MPI_Group
    Group,
    /// MPI_Info
    Info,
    /// MPI_Message
    Message,
    /// MPI_Op
    Op,
    /// MPI_Request
    Request,
    /// MPI_Session
    Session,
    /// MPI_Win
    Win,
    /// MPI_File
    File,
    /// Keys of attributes, which are integers
    Keyval,
}

/// Ends the job with a line: there is no room for one more object. Nobody who makes one expects to be
/// refused, and a program that has so many forgets them.
#[cold]
fn end_full(kind: Kind) -> ! {
    let what = match kind {
        Kind::Comm => "communicators (MPI_Comm)",
        Kind::Datatype => "datatypes (MPI_Datatype)",
        Kind::Errhandler => "error handlers (MPI_Errhandler)",
        Kind::Group => "groups (MPI_Group)",
        Kind::Info => "info objects (MPI_Info)",
        Kind::Message => "matched messages that were not received (MPI_Message)",
        Kind::Op => "operations (MPI_Op)",
        Kind::Request => "requests that were not completed (MPI_Request)",
        Kind::Session => "sessions (MPI_Session)",
        Kind::Win => "windows (MPI_Win)",
        Kind::File => "files (MPI_File)",
        Kind::Keyval => "keys of attributes",
    };
    let pid = std::process::id();
    log::line(format_args!(
        "this process (pid {pid}) has {} {what} at once, and there can be no more: it makes ever new ones and frees none",
        INDEX_MASK + 1
    ));
    end_job(By::Error, MPI_ERR_NO_MEM)
}

/// Objects of one kind, named by handles.
#[derive(Debug)]
pub struct Slab<T> {
    kind: Kind,
    slots: Vec<Slot<T>>,
    /// Index of a free slot, or [`NONE`]; the others follow through the slots' states.
    free: u32,
    live: usize,
}

/// Begins a cache line, and what finds and frees an object comes first: see [`crate::request::Request`].
#[derive(Debug)]
#[repr(C, align(64))]
struct Slot<T> {
    /// The handle while the slot is taken; what the next one will be while it is free.
    handle: u32,
    /// [`TAKEN`], or the next free slot, or [`NONE`].
    state: u32,
    /// Initialized while the slot is taken.
    value: MaybeUninit<T>,
}

/// No slot.
pub const NONE: u32 = u32::MAX;
/// No slot either: this one is taken.
const TAKEN: u32 = u32::MAX - 1;

impl<T> Slot<T> {
    #[inline(always)]
    fn value(&self) -> Option<&T> {
        // SAFETY: TAKEN says that the value is there.
        (self.state == TAKEN).then(|| unsafe { self.value.assume_init_ref() })
    }

    #[inline(always)]
    fn value_mut(&mut self) -> Option<&mut T> {
        // SAFETY: as above.
        (self.state == TAKEN).then(|| unsafe { self.value.assume_init_mut() })
    }
}

impl<T> Drop for Slot<T> {
    fn drop(&mut self) {
        if self.state == TAKEN {
            // SAFETY: the value is there, and nobody sees it again.
            unsafe { self.value.assume_init_drop() };
        }
    }
}

impl<T> Slab<T> {
    /// An empty slab of `kind`.
    pub const fn new(kind: Kind) -> Self {
        Slab { kind, slots: Vec::new(), free: NONE, live: 0 }
    }

    /// Stores a value; returns its index.
    ///
    /// Where there are 2^20 objects of this kind the job ends with a line.
    #[inline(always)]
    pub fn insert(&mut self, value: T) -> u32 {
        self.insert_named(value).0
    }

    /// The same; returns its handle too.
    ///
    /// # Panics
    /// As [`Slab::insert`].
    #[inline(always)]
    pub fn insert_named(&mut self, value: T) -> (u32, usize) {
        if self.free == NONE {
            self.grow();
        }
        self.live += 1;
        let index = self.free;
        let slot = &mut self.slots[index as usize];
        self.free = std::mem::replace(&mut slot.state, TAKEN);
        slot.value.write(value);
        (index, slot.handle as usize)
    }

    /// Makes one more slot, free.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        if self.slots.len() > INDEX_MASK {
            end_full(self.kind);
        }
        let index = self.slots.len() as u32;
        let handle = (self.kind as u32) << (INDEX_BITS + GENERATION_BITS) | index;
        self.slots.push(Slot { handle, state: self.free, value: MaybeUninit::uninit() });
        self.free = index;
    }

    /// Stores a value under a handle that it has had in another process.
    ///
    /// # Panics
    /// When the handle is of another kind, or its slot is taken.
    pub fn insert_at(&mut self, handle: usize, value: T) {
        assert_eq!(handle >> (INDEX_BITS + GENERATION_BITS), self.kind as usize, "the handle's kind");
        let index = (handle & INDEX_MASK) as u32;
        while self.slots.len() <= index as usize {
            self.grow();
        }
        let behind = self.slots[index as usize].state;
        assert!(behind != TAKEN, "a slot is taken once");
        if self.free == index {
            self.free = behind;
        } else {
            let before = self.slots.iter_mut().find(|slot| slot.state == index);
            before.expect("a free slot that is not the first follows another").state = behind;
        }
        self.live += 1;
        let slot = &mut self.slots[index as usize];
        (slot.handle, slot.state) = (handle as u32, TAKEN);
        slot.value.write(value);
    }

    /// Frees a slot; handles to it are stale from now on.
    #[inline]
    pub fn remove(&mut self, index: u32) -> T {
        let slot = self.give_back(index);
        // SAFETY: it was taken until now, so the value is there; a free slot's value is not looked at again.
        unsafe { slot.value.assume_init_read() }
    }

    /// Frees a slot whose value is of no more use; cheaper than [`Slab::remove`], since nothing is moved.
    #[inline(always)]
    pub fn free(&mut self, index: u32) {
        let slot = self.give_back(index);
        // SAFETY: as above.
        unsafe { slot.value.assume_init_drop() };
    }

    /// Frees a slot whose value is of no more use and owns nothing: cheaper than [`Slab::free`], since
    /// nothing is looked through.
    #[inline(always)]
    pub fn free_plain(&mut self, index: u32) {
        self.give_back(index);
    }

    /// Marks a slot as free and returns it, its value still there.
    #[inline(always)]
    fn give_back(&mut self, index: u32) -> &mut Slot<T> {
        let slot = &mut self.slots[index as usize];
        assert!(slot.state == TAKEN, "a slot is freed once");
        slot.handle = next_generation(slot.handle);
        slot.state = self.free;
        self.free = index;
        self.live -= 1;
        slot
    }

    /// The handle of a slot.
    #[inline]
    pub fn handle(&self, index: u32) -> usize {
        self.slots[index as usize].handle as usize
    }

    /// The index that a handle names, if the object is alive.
    #[inline]
    pub fn index(&self, handle: usize) -> Option<u32> {
        let index = handle & INDEX_MASK;
        let slot = self.slots.get(index)?;
        (slot.handle as usize == handle && slot.state == TAKEN).then_some(index as u32)
    }

    /// The object that a handle names.
    #[inline]
    pub fn find(&self, handle: usize) -> Option<&T> {
        self.index(handle).map(|index| self.get(index))
    }

    /// The object that a handle names.
    #[inline]
    pub fn find_mut(&mut self, handle: usize) -> Option<&mut T> {
        self.index(handle).map(|index| self.get_mut(index))
    }

    /// The object that a handle names, with its index.
    #[inline(always)]
    pub fn named(&self, handle: usize) -> Option<(u32, &T)> {
        let index = handle & INDEX_MASK;
        let slot = self.slots.get(index)?;
        if slot.handle as usize == handle { Some((index as u32, slot.value()?)) } else { None }
    }

    /// The object in a slot that is known to be taken.
    #[inline(always)]
    pub fn get(&self, index: u32) -> &T {
        self.slots[index as usize].value().expect("a live slot")
    }

    /// The object in a slot that is known to be taken.
    #[inline(always)]
    pub fn get_mut(&mut self, index: u32) -> &mut T {
        self.slots[index as usize].value_mut().expect("a live slot")
    }

    /// Where the next objects will stand.
    pub fn next_indices<const N: usize>(&self) -> [u32; N] {
        let (mut free, mut end) = (self.free, self.slots.len() as u32);
        std::array::from_fn(|_| {
            let index = if free == NONE { end } else { free };
            match self.slots.get(index as usize) {
                Some(slot) => free = slot.state,
                None => end += 1,
            }
            index
        })
    }

    /// The handle of the object at an index, if there is one.
    pub fn live_handle(&self, index: u32) -> Option<usize> {
        let slot = self.slots.get(index as usize)?;
        (slot.state == TAKEN).then_some(slot.handle as usize)
    }

    /// How many objects live.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether none lives.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// All live objects with their indices, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.slots.iter_mut().enumerate().filter_map(|(i, slot)| Some((i as u32, slot.value_mut()?)))
    }

    /// All live objects with their indices.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.slots.iter().enumerate().filter_map(|(i, slot)| Some((i as u32, slot.value()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handle_freed_or_foreign_is_invalid() {
        let mut slab = Slab::new(Kind::Group);
        let index = slab.insert("a");
        let handle = slab.handle(index);
        assert!(handle > 4095 && handle < 1 << 31);
        assert_eq!(slab.find(handle), Some(&"a"));
        assert_eq!(slab.named(handle), Some((index, &"a")));
        slab.remove(index);
        assert_eq!((slab.find(handle), slab.named(handle)), (None, None));
        let again = slab.insert("b");
        assert_eq!(again, index);
        assert_eq!(slab.find(handle), None, "the old handle must not name the new object");
        let mut other = Slab::new(Kind::Info);
        let index = other.insert("c");
        assert_eq!(slab.find(other.handle(index)), None);
    }

    #[test]
    fn handle_of_another_process_names_the_same_here() {
        let mut slab = Slab::new(Kind::Group);
        for value in 0..5 {
            slab.insert(value);
        }
        for index in [1, 3] {
            slab.remove(index);
            slab.insert(10 + index as i32);
        }
        slab.remove(2);
        let all: Vec<(usize, i32)> = slab.iter().map(|(index, value)| (slab.handle(index), *value)).collect();
        for order in [[0, 1, 2, 3], [3, 1, 0, 2]] {
            let mut other = Slab::new(Kind::Group);
            for at in order {
                other.insert_at(all[at].0, all[at].1);
            }
            assert_eq!(other.len(), 4);
            assert!(all.iter().all(|(handle, value)| other.find(*handle) == Some(value)));
            let (free, further) = (other.insert(20), other.insert(21));
            assert_eq!((free, further), (2, 5), "free slots are used again");
            assert!(all.iter().all(|(handle, value)| other.find(*handle) == Some(value)));
        }
    }

    #[test]
    fn handle_next_places_are_predictable() {
        let mut slab = Slab::new(Kind::Group);
        for value in 0..4 {
            slab.insert(value);
        }
        slab.remove(1);
        slab.remove(3);
        let next: [u32; 4] = slab.next_indices();
        assert_eq!(next, [3, 1, 4, 5]);
        assert_eq!(next.map(|_| slab.insert(0)), next);
        assert_eq!(slab.live_handle(5), Some(slab.handle(5)));
        assert_eq!(slab.live_handle(6), None);
    }
}
