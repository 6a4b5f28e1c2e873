//! Memory that this rank has opened to ranks of other nodes, and their operations on it.
//!
//! An operation is checked whole (region, rights, every range) before the first byte is touched, and is done
//! when [`Region::apply`] returns. Whoever calls that holds the process lock.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ptr::NonNull;

use tutti_shm::LINE_BYTES;
use tutti_shm::gate::{self, Gate, STRIPES, UNIT_BYTES};
use tutti_shm::opened::Opened;
use tutti_shm::queue::{Queue, Reservation};

use crate::accumulate::{Change, Target};
use crate::attached::Table;
use crate::control::Control;
use crate::wire::{Ranges, Refusal, Request};

/// Rights of others to a region: a sum of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights(u8);

impl Rights {
    /// No right.
    pub const NONE: Rights = Rights(0);
    /// Right to read it.
    pub const READ: Rights = Rights(1);
    /// Right to write it.
    pub const WRITE: Rights = Rights(2);
    /// Right to change its elements.
    pub const CHANGE: Rights = Rights(4);
    /// Messages may be put into its queue.
    pub const ENQUEUE: Rights = Rights(8);
    /// All of that.
    pub const ALL: Rights = Rights(7);

    /// Rights of a handle of the native interface, whose bits are the same ones.
    pub const fn of_bits(bits: u64) -> Rights {
        Rights(bits as u8 & 15)
    }

    /// Union of these and those.
    #[must_use]
    pub const fn and(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }

    /// Whether all of those are among these.
    pub const fn has(self, other: Rights) -> bool {
        self.0 & other.0 == other.0
    }
}

#[derive(Debug)]
enum Memory {
    Whole(Opened),
    /// Ranges of this process by address, as far as the table has them.
    Attached(Table),
    /// Messages, with what has room in it but is not whole yet, by sender.
    Queue(Queue, HashMap<usize, (Reservation, u32)>),
}

/// How changes of elements are atomic.
#[derive(Debug)]
enum Changes {
    /// Changes pass a gate that mates pass too.
    Gate(Gate),
    /// By the processor's atomics alone: one element after the other, aligned.
    Instructions(OwnGate),
}

/// The words of a gate that nobody else passes.
#[derive(Debug)]
struct OwnGate(Box<[Line]>);

#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
struct Line([u8; LINE_BYTES]);

impl OwnGate {
    fn new() -> Self {
        OwnGate(vec![Line([0; LINE_BYTES]); gate::bytes(1).div_ceil(LINE_BYTES)].into_boxed_slice())
    }

    fn view(&mut self) -> Gate {
        // SAFETY: so many zeroed lines, which outlive the view: it is used up inside one call.
        unsafe { Gate::new(NonNull::from(&mut self.0[0]).cast(), 1, 0) }
    }
}

/// Memory of this rank that others may work on.
#[derive(Debug)]
pub struct Region {
    memory: Memory,
    changes: Changes,
    rights: Rights,
    control: Option<Control>,
}

impl Region {
    /// Memory whose changes pass a gate, the slot of the thread that serves.
    pub fn gated(memory: Opened, gate: Gate) -> Self {
        Region {
            memory: Memory::Whole(memory),
            changes: Changes::Gate(gate),
            rights: Rights::ALL,
            control: None,
        }
    }

    /// Memory whose elements mates change by the processor's atomics alone: what is not aligned is refused.
    pub fn plain(memory: Opened) -> Self {
        Region {
            memory: Memory::Whole(memory),
            changes: Changes::Instructions(OwnGate::new()),
            rights: Rights::ALL,
            control: None,
        }
    }

    /// Parts of this process's memory that a table names. Offsets are addresses.
    pub fn attached(table: Table, gate: Gate) -> Self {
        Region {
            memory: Memory::Attached(table),
            changes: Changes::Gate(gate),
            rights: Rights::ALL,
            control: None,
        }
    }

    /// A queue of messages.
    pub fn queue(queue: Queue) -> Self {
        Region {
            memory: Memory::Queue(queue, HashMap::new()),
            changes: Changes::Instructions(OwnGate::new()),
            rights: Rights::ENQUEUE,
            control: None,
        }
    }

    /// The same memory for less.
    #[must_use]
    pub fn with_rights(mut self, rights: Rights) -> Self {
        self.rights = rights;
        self
    }

    /// The same memory with a window's lock and counters.
    #[must_use]
    pub fn with_control(mut self, control: Control) -> Self {
        self.control = Some(control);
        self
    }

    /// The words beside it.
    pub fn control(&self) -> Option<&Control> {
        self.control.as_ref()
    }

    /// Does what is asked for; what there was is appended to `found`, if it is wanted. Nothing has been done
    /// when it is refused.
    ///
    /// # Errors
    /// Why it is refused. Locks are not the region's.
    pub fn apply(
        &mut self,
        from: usize,
        request: &Request<'_>,
        mut found: Option<&mut Vec<u8>>,
    ) -> Result<(), Refusal> {
        match *request {
            Request::Write { ranges, data } => {
                self.check(ranges, Rights::WRITE)?;
                let mut rest = data;
                for range in ranges.iter() {
                    let (bytes, behind) = rest.split_at(range.bytes as usize);
                    let (memory, at) = self.place(range.offset, bytes.len())?;
                    // SAFETY: a slice of so many bytes.
                    unsafe { memory.store(at, bytes.as_ptr(), bytes.len()) };
                    rest = behind;
                }
            }
            Request::Read { ranges } => {
                self.check(ranges, Rights::READ)?;
                for range in ranges.iter() {
                    let (memory, at) = self.place(range.offset, range.bytes as usize)?;
                    let place = append(&mut found, range.bytes as usize).ok_or(Refusal::Malformed)?;
                    // SAFETY: the place has so many bytes.
                    unsafe { memory.load(at, place.as_mut_ptr(), place.len()) };
                }
            }
            Request::Change { ranges, code, data } => {
                let change = code.change().ok_or(Refusal::Malformed)?;
                self.check(ranges, Rights::CHANGE)?;
                self.check_alignment(ranges, change.element_bytes())?;
                let mut done = 0;
                for range in ranges.iter() {
                    let bytes = range.bytes as usize;
                    let operand = if data.is_empty() { data } else { &data[done..done + bytes] };
                    self.change((range.offset, bytes), change, operand, append(&mut found, bytes))?;
                    done += bytes;
                }
            }
            Request::Swap { offset, compare, new } => {
                let bytes = new.len();
                self.check_right(Rights::CHANGE)?;
                let (memory, at) = self.place(offset, bytes)?;
                self.check_aligned(&memory, at, bytes)?;
                let target = Target::new(memory, self.gate());
                let result = append(&mut found, bytes).ok_or(Refusal::Malformed)?.as_mut_ptr();
                // SAFETY: three places of an element each; nobody else has the record or the answer.
                let swapped =
                    unsafe { target.compare_and_swap(at, bytes, compare.as_ptr(), new.as_ptr(), result) };
                swapped.map_err(|_| Refusal::OutOfRange)?;
            }
            Request::Count(count, rank) => {
                let control = self.control.as_ref().filter(|control| rank < control.ranks());
                control.ok_or(Refusal::Malformed)?.add(rank, count);
            }
            Request::Settle => {}
            Request::Enqueue { total, at, data } => return self.enqueue(from, total, at, data),
            Request::Lock(_) | Request::Unlock | Request::Offer(_) | Request::Fetch(..) => {
                return Err(Refusal::Malformed);
            }
        }
        Ok(())
    }

    /// Where bytes lie that others may read or write.
    ///
    /// # Errors
    /// Why they may not.
    pub fn bytes_at(&self, offset: u64, bytes: usize, right: Rights) -> Result<NonNull<u8>, Refusal> {
        self.check_right(right)?;
        let (memory, at) = self.place(offset, bytes)?;
        memory.address(at, bytes).ok_or(Refusal::OutOfRange)
    }

    /// Takes a part of a message of a sender, which has one under way at a time. When a part is refused, the
    /// rest of the message is, and nothing of it comes out of the queue.
    fn enqueue(&mut self, from: usize, total: u32, at: u32, data: &[u8]) -> Result<(), Refusal> {
        self.check_right(Rights::ENQUEUE)?;
        let Memory::Queue(queue, open) = &mut self.memory else { return Err(Refusal::NoRight) };
        let reservation = match open.remove(&from) {
            None if at == 0 => {
                if total as usize > queue.message_bytes_max() {
                    return Err(Refusal::OutOfRange);
                }
                if data.len() > total as usize {
                    return Err(Refusal::Malformed);
                }
                queue.reserve(from as u32, total as usize).ok_or(Refusal::Full)?
            }
            // The beginning was refused, so all of it is, for the same reason.
            None => return Err(Refusal::Full),
            Some((reservation, expected)) => {
                let is_next = at != 0 && at == expected && total as usize == reservation.bytes();
                if !is_next || data.len() > reservation.bytes() - at as usize {
                    queue.withdraw(reservation);
                    return Err(Refusal::Malformed);
                }
                reservation
            }
        };
        let end = at as usize + data.len();
        // SAFETY: a slice, which ends inside the message.
        unsafe { queue.fill(reservation, at as usize, data.as_ptr(), data.len()) };
        if end == reservation.bytes() {
            queue.commit(reservation);
        } else {
            open.insert(from, (reservation, end as u32));
        }
        Ok(())
    }

    fn change(
        &mut self,
        (offset, bytes): (u64, usize),
        change: Change,
        operand: &[u8],
        mut found: Option<&mut [u8]>,
    ) -> Result<(), Refusal> {
        let (memory, at) = self.place(offset, bytes)?;
        let target = Target::new(memory, self.gate());
        let each_bytes = change.element_bytes();
        let at_once = match self.changes {
            Changes::Gate(_) => bytes.max(each_bytes),
            Changes::Instructions(_) => each_bytes,
        };
        for skip in (0..bytes).step_by(at_once) {
            let some = at_once.min(bytes - skip);
            let origin = operand.as_ptr().wrapping_add(skip);
            let result = found.as_deref_mut().map(|found| found[skip..skip + some].as_mut_ptr());
            // SAFETY: so many elements on each side, or none of the origin's where the change keeps them.
            let changed = unsafe { target.accumulate(at + skip, some / each_bytes, change, origin, result) };
            changed.map_err(|_| Refusal::OutOfRange)?;
        }
        Ok(())
    }

    fn gate(&mut self) -> Gate {
        match &mut self.changes {
            Changes::Gate(gate) => *gate,
            Changes::Instructions(own) => own.view(),
        }
    }

    fn check_right(&self, right: Rights) -> Result<(), Refusal> {
        if self.rights.has(right) { Ok(()) } else { Err(Refusal::NoRight) }
    }

    fn check(&self, ranges: Ranges<'_>, right: Rights) -> Result<(), Refusal> {
        self.check_right(right)?;
        for range in ranges.iter() {
            self.place(range.offset, range.bytes as usize)?;
        }
        Ok(())
    }

    fn check_alignment(&self, ranges: Ranges<'_>, element_bytes: usize) -> Result<(), Refusal> {
        for range in ranges.iter() {
            let (memory, at) = self.place(range.offset, range.bytes as usize)?;
            self.check_aligned(&memory, at, element_bytes)?;
        }
        Ok(())
    }

    fn check_aligned(&self, memory: &Opened, at: usize, element_bytes: usize) -> Result<(), Refusal> {
        let is_reachable = matches!(element_bytes, 1 | 2 | 4 | 8)
            && (memory.base().addr().get() + at).is_multiple_of(element_bytes);
        match self.changes {
            Changes::Instructions(_) if !is_reachable => Err(Refusal::Unaligned),
            _ => Ok(()),
        }
    }

    /// The memory that has so many bytes, and where in it they begin.
    fn place(&self, offset: u64, bytes: usize) -> Result<(Opened, usize), Refusal> {
        match self.memory {
            Memory::Queue(..) => Err(Refusal::NoRight),
            Memory::Whole(memory) => {
                let at = usize::try_from(offset).map_err(|_| Refusal::OutOfRange)?;
                memory.address(at, bytes).ok_or(Refusal::OutOfRange)?;
                Ok((memory, at))
            }
            Memory::Attached(table) => {
                let range = table.find(offset, bytes as u64).ok_or(Refusal::OutOfRange)?;
                // Stripes of the gate are counted from a multiple of all of them, as mates count them.
                let base = range.address & !((UNIT_BYTES * STRIPES) as u64 - 1);
                let at = std::ptr::with_exposed_provenance_mut::<u8>(base as usize);
                let at = NonNull::new(at).ok_or(Refusal::OutOfRange)?;
                // SAFETY: the program has attached the range and keeps it (MPI 12.2.4). What lies before it
                // is not accessed: the bytes wanted are in the range.
                let memory = unsafe { Opened::new(at, (range.address - base + range.bytes) as usize) };
                Ok((memory, (offset - base) as usize))
            }
        }
    }
}

/// Appends so many bytes to what was found, if that is wanted.
fn append<'a>(found: &'a mut Option<&mut Vec<u8>>, bytes: usize) -> Option<&'a mut [u8]> {
    let found = found.as_deref_mut()?;
    let begin = found.len();
    found.resize(begin + bytes, 0);
    Some(&mut found[begin..])
}
