//! Atomic changes of elements in opened memory: accumulate, fetch-and-op, compare-and-swap (MPI 12.3.4).
//!
//! | elements | are changed |
//! |---|---|
//! | one | by the processor's atomic, inside the gate |
//! | a few | by a plain loop with the gate closed, if nobody else is there; else one by one as above |
//! | more, and those that no atomic reaches (too long, or not aligned) | by plain loops with the gate closed |
//!
//! So every change of an element is atomic against every other, and a run of thousands costs little more than
//! an addition of vectors.
#![allow(unsafe_code)]

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use tutti_datatype::Element;
use tutti_datatype::reduce::{Kernel, Operation, kernel};
use tutti_shm::gate::{Gate, STRIPES, UNIT_BYTES, stripe_of};
use tutti_shm::opened::{Opened, copy};

/// Of more elements than these the change waits until it can close the gate.
const FEW_MAX: usize = 8;

/// Update of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// Replacement by the origin's (`MPI_REPLACE`).
    Replace,
    /// No change: the element is only fetched (`MPI_NO_OP`).
    Keep,
    /// Combination with the origin's.
    Reduce(Operation),
}

/// A change of elements of one type.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// Bytes of an element, gaps included.
    bytes: usize,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Replace,
    Keep,
    /// By an instruction for integers of up to 8 bytes, else by the loop.
    Combine(Instruction, Kernel),
}

#[derive(Clone, Copy, Debug)]
enum Instruction {
    Add,
    And,
    Or,
    Xor,
    /// Compare-and-swap of the sum of two doubles, which programs accumulate most.
    AddDouble,
    /// Compare-and-swap of what the loop makes of one element.
    None,
}

impl Change {
    /// The change; none when the operation has no meaning for such elements.
    pub fn new(update: Update, element: Element) -> Option<Self> {
        let kind = match update {
            Update::Replace => Kind::Replace,
            Update::Keep => Kind::Keep,
            Update::Reduce(operation) => {
                let is_integer = matches!(
                    element,
                    Element::Signed(1..=8) | Element::Unsigned(1..=8) | Element::Byte | Element::Character(_)
                );
                let instruction = match operation {
                    Operation::SUM if element == Element::Float(8) => Instruction::AddDouble,
                    _ if !is_integer => Instruction::None,
                    Operation::SUM => Instruction::Add,
                    Operation::BAND => Instruction::And,
                    Operation::BOR => Instruction::Or,
                    Operation::BXOR => Instruction::Xor,
                    _ => Instruction::None,
                };
                Kind::Combine(instruction, kernel(operation, element)?)
            }
        };
        Some(Change { bytes: element.stride(), kind })
    }

    /// Bytes of an element, gaps included.
    pub fn element_bytes(&self) -> usize {
        self.bytes
    }

    /// Whether elements may become others.
    pub fn writes(&self) -> bool {
        !matches!(self.kind, Kind::Keep)
    }

    /// Changes elements that nobody else changes meanwhile.
    ///
    /// # Safety
    /// `elements` leads to `bytes` bytes of whole elements; `origin` to as many, unless the change keeps
    /// them, and `result` too. They do not overlap.
    #[inline]
    pub(crate) unsafe fn apply(
        &self,
        elements: *mut u8,
        bytes: usize,
        origin: *const u8,
        result: Option<*mut u8>,
    ) {
        // SAFETY: our contract.
        unsafe {
            if let Some(result) = result {
                copy(elements, result, bytes);
            }
            match self.kind {
                Kind::Keep => {}
                Kind::Replace => copy(origin, elements, bytes),
                Kind::Combine(_, combine) => combine(origin, elements, bytes / self.bytes),
            }
        }
    }
}

/// Opened memory with the gate that its changes pass, as one thread sees them.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    memory: Opened,
    gate: Gate,
}

/// The memory does not have such a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange;

macro_rules! by_width {
    ($target:expr, $offset:expr, $bytes:expr, |$atomic:ident| $body:expr) => {
        match $bytes {
            1 => $target.memory.atomic_u8($offset).map(|$atomic| $body),
            2 => $target.memory.atomic_u16($offset).map(|$atomic| $body),
            4 => $target.memory.atomic_u32($offset).map(|$atomic| $body),
            8 => $target.memory.atomic_u64($offset).map(|$atomic| $body),
            _ => None,
        }
    };
}

impl Target {
    /// Memory whose changes pass `gate`, which is the slot of this thread.
    pub fn new(memory: Opened, gate: Gate) -> Self {
        Target { memory, gate }
    }

    /// The memory.
    pub fn memory(&self) -> &Opened {
        &self.memory
    }

    /// Changes `count` elements from byte `offset` on. With `result`, what they were is stored there, element
    /// by element.
    ///
    /// # Errors
    /// When the range is not inside the memory; then nothing is changed.
    ///
    /// # Safety
    /// `origin` is valid for reading `count` elements, unless the change keeps them; `result` for writing as
    /// many. Neither overlaps the target.
    #[inline]
    pub unsafe fn accumulate(
        &self,
        offset: usize,
        count: usize,
        change: Change,
        origin: *const u8,
        result: Option<*mut u8>,
    ) -> Result<(), OutOfRange> {
        let bytes = count.checked_mul(change.bytes).ok_or(OutOfRange)?;
        self.memory.address(offset, bytes).ok_or(OutOfRange)?;
        let is_reachable = matches!(change.bytes, 1 | 2 | 4 | 8) && self.is_aligned(offset, change.bytes);
        // SAFETY: the range is inside; our contract for the rest.
        unsafe {
            if is_reachable && count == 1 {
                if !self.try_change_word(offset, change, origin, result) {
                    self.change_each(offset, count, change, origin, result);
                }
            } else if is_reachable && count <= FEW_MAX {
                if !self.try_change_alone(offset, bytes, change, origin, result) {
                    self.change_each(offset, count, change, origin, result);
                }
            } else if bytes <= UNIT_BYTES
                && let (stripe, None) = stripes(offset, bytes)
            {
                self.gate.close(stripe);
                change.apply(self.memory.base().as_ptr().add(offset), bytes, origin, result);
                self.gate.open(stripe);
            } else {
                self.change_many(offset, bytes, change, origin, result);
            }
        }
        Ok(())
    }

    /// If the element at `offset` equals `compare` it becomes `origin`; what it was is stored at `result`.
    ///
    /// # Errors
    /// When the element is not inside the memory.
    ///
    /// # Safety
    /// The three addresses are valid for an element of `bytes` bytes each; none overlaps the target.
    #[inline]
    pub unsafe fn compare_and_swap(
        &self,
        offset: usize,
        bytes: usize,
        compare: *const u8,
        origin: *const u8,
        result: *mut u8,
    ) -> Result<(), OutOfRange> {
        let address = self.memory.address(offset, bytes).ok_or(OutOfRange)?.as_ptr();
        self.gate.enter(stripe_of(offset as u64));
        let swapped = by_width!(self, offset, bytes, |atomic| {
            // SAFETY: our contract.
            unsafe {
                let found = atomic.compare_exchange(read(compare), read(origin), SeqCst, SeqCst);
                write(result, found.unwrap_or_else(|found| found));
            }
        });
        self.gate.leave();
        if swapped.is_none() {
            close(&self.gate, offset, bytes);
            // SAFETY: our contract; the element is inside, and this thread alone changes it.
            unsafe {
                let is_equal = std::slice::from_raw_parts(compare, bytes)
                    .iter()
                    .enumerate()
                    .all(|(index, byte)| address.add(index).read() == *byte);
                copy(address, result, bytes);
                if is_equal {
                    copy(origin, address, bytes);
                }
            }
            open(&self.gate, offset, bytes);
        }
        Ok(())
    }

    /// Copies the range while nobody changes an element of it by an atomic operation, in sections of a unit.
    ///
    /// # Errors
    /// When the range is not inside the memory.
    ///
    /// # Safety
    /// `visit` is given an address in the memory, the distance from the beginning of the range, and a number
    /// of bytes, and keeps to them.
    pub unsafe fn change_alone(
        &self,
        offset: usize,
        bytes: usize,
        element_bytes: usize,
        visit: &mut dyn FnMut(*mut u8, usize, usize),
    ) -> Result<(), OutOfRange> {
        let begin = self.memory.address(offset, bytes).ok_or(OutOfRange)?.as_ptr();
        let alone = in_sections(&self.gate, offset, bytes, element_bytes, |done, section| {
            visit(begin.wrapping_add(done), done, section);
            Ok::<(), std::convert::Infallible>(())
        });
        debug_assert!(alone.is_ok());
        Ok(())
    }

    fn is_aligned(&self, offset: usize, bytes: usize) -> bool {
        (self.memory.base().addr().get() + offset).is_multiple_of(bytes)
    }

    /// Changes elements of one stripe with the gate closed, if nobody else is there; else false, and nothing
    /// is changed.
    ///
    /// # Safety
    /// The range is inside; for the rest as [`Target::accumulate`].
    #[inline]
    unsafe fn try_change_alone(
        &self,
        offset: usize,
        bytes: usize,
        change: Change,
        origin: *const u8,
        result: Option<*mut u8>,
    ) -> bool {
        let (stripe, None) = stripes(offset, bytes) else { return false };
        let is_alone = self.gate.try_close(stripe);
        if is_alone {
            // SAFETY: our contract; this thread alone changes the elements.
            unsafe { change.apply(self.memory.base().as_ptr().add(offset), bytes, origin, result) };
            self.gate.open(stripe);
        }
        is_alone
    }

    /// [`Target::change_each`] of one element of 8 bytes and the changes that programs make most, without a
    /// loop over elements and widths; false when it is another one.
    ///
    /// # Safety
    /// As [`Target::change_each`] with one element.
    #[inline(always)]
    unsafe fn try_change_word(
        &self,
        offset: usize,
        change: Change,
        origin: *const u8,
        result: Option<*mut u8>,
    ) -> bool {
        if change.bytes != 8 {
            return false;
        }
        let Some(word) = self.memory.atomic_u64(offset) else { return false };
        let stripe = stripe_of(offset as u64);
        // SAFETY: our contract, for each address that is read.
        let found = unsafe {
            match change.kind {
                Kind::Combine(Instruction::Add, _) => {
                    let operand = read(origin);
                    self.change_in_gate(stripe, || word.fetch_add(operand, SeqCst))
                }
                Kind::Combine(Instruction::AddDouble, _) => {
                    let operand = read(origin);
                    self.change_in_gate(stripe, || add_double(word, operand))
                }
                Kind::Replace => {
                    let operand = read(origin);
                    self.change_in_gate(stripe, || word.swap(operand, SeqCst))
                }
                Kind::Keep => self.change_in_gate(stripe, || word.load(SeqCst)),
                Kind::Combine(..) => return false,
            }
        };
        if let Some(result) = result {
            // SAFETY: our contract.
            unsafe { write(result, found) };
        }
        true
    }

    #[inline(always)]
    fn change_in_gate(&self, stripe: u32, change: impl FnOnce() -> u64) -> u64 {
        self.gate.enter(stripe);
        let found = change();
        self.gate.leave();
        found
    }

    /// # Safety
    /// The range is inside, elements are aligned and of 1, 2, 4 or 8 bytes; for the rest as
    /// [`Target::accumulate`].
    #[inline]
    unsafe fn change_each(
        &self,
        offset: usize,
        count: usize,
        change: Change,
        origin: *const u8,
        result: Option<*mut u8>,
    ) {
        // The stripe is entered once for all elements that lie in it.
        let mut entered = None;
        for index in 0..count {
            let skip = index * change.bytes;
            let stripe = stripe_of((offset + skip) as u64);
            if entered != Some(stripe) {
                if entered.is_some() {
                    self.gate.leave();
                }
                self.gate.enter(stripe);
                entered = Some(stripe);
            }
            by_width!(self, offset + skip, change.bytes, |atomic| {
                // SAFETY: our contract: one element on each side.
                unsafe {
                    let found = match change.kind {
                        Kind::Keep => atomic.load(SeqCst),
                        Kind::Replace => atomic.swap(read(origin.add(skip)), SeqCst),
                        Kind::Combine(instruction, combine) => {
                            let operand = origin.add(skip);
                            match instruction {
                                Instruction::Add => atomic.fetch_add(read(operand), SeqCst),
                                Instruction::And => atomic.fetch_and(read(operand), SeqCst),
                                Instruction::Or => atomic.fetch_or(read(operand), SeqCst),
                                Instruction::Xor => atomic.fetch_xor(read(operand), SeqCst),
                                Instruction::AddDouble | Instruction::None => {
                                    let mut found = atomic.load(SeqCst);
                                    loop {
                                        let mut made = found;
                                        combine(operand, (&raw mut made).cast(), 1);
                                        match atomic.compare_exchange_weak(found, made, SeqCst, SeqCst) {
                                            Ok(_) => break found,
                                            Err(now) => found = now,
                                        }
                                    }
                                }
                            }
                        }
                    };
                    if let Some(result) = result {
                        write(result.add(skip), found);
                    }
                }
            });
        }
        if entered.is_some() {
            self.gate.leave();
        }
    }

    /// # Safety
    /// The range is inside; for the rest as [`Target::accumulate`].
    unsafe fn change_many(
        &self,
        offset: usize,
        bytes: usize,
        change: Change,
        origin: *const u8,
        result: Option<*mut u8>,
    ) {
        let mut visit = |address: *mut u8, done: usize, section: usize| {
            let origin = origin.wrapping_add(done);
            let result = result.map(|result| result.wrapping_add(done));
            // SAFETY: the section lies in the range; our contract for origin and result.
            unsafe { change.apply(address, section, origin, result) };
        };
        // SAFETY: the closure keeps to what it is given.
        let inside = unsafe { self.change_alone(offset, bytes, change.bytes, &mut visit) };
        debug_assert_eq!(inside, Ok(()));
    }
}

/// Visits the range in sections, each inside one unit, while this thread is alone in their stripes. An
/// element across the border of two units has both.
pub(crate) fn in_sections<E>(
    gate: &Gate,
    offset: usize,
    bytes: usize,
    element_bytes: usize,
    mut visit: impl FnMut(usize, usize) -> Result<(), E>,
) -> Result<(), E> {
    let mut done = 0;
    while done < bytes {
        let at = offset + done;
        let room = UNIT_BYTES - at % UNIT_BYTES;
        let section = (bytes - done).min((room / element_bytes).max(1) * element_bytes);
        close(gate, at, section);
        let visited = visit(done, section);
        open(gate, at, section);
        visited?;
        done += section;
    }
    Ok(())
}

/// Calls `visit` while this thread is alone in the stripes of all ranges, of which each is at most a unit.
pub(crate) fn alone_in<T>(gate: &Gate, ranges: &[(usize, usize)], visit: impl FnOnce() -> T) -> T {
    let bits = ranges.iter().fold(0_u32, |bits, (offset, bytes)| {
        let (first, second) = stripes(*offset, *bytes);
        bits | 1 << first | second.map_or(0, |second| 1 << second)
    });
    let closed = |stripe: &u32| bits & 1 << stripe != 0;
    // In the order of their numbers, as all do.
    (0..STRIPES as u32).filter(closed).for_each(|stripe| gate.close(stripe));
    let visited = visit();
    (0..STRIPES as u32).filter(closed).for_each(|stripe| gate.open(stripe));
    visited
}

/// Closes the stripes of a section, in the order of their numbers.
fn close(gate: &Gate, offset: usize, bytes: usize) {
    let (first, second) = stripes(offset, bytes);
    gate.close(first);
    if let Some(second) = second {
        gate.close(second);
    }
}

fn open(gate: &Gate, offset: usize, bytes: usize) {
    let (first, second) = stripes(offset, bytes);
    if let Some(second) = second {
        gate.open(second);
    }
    gate.open(first);
}

/// Adds to a double; what it was, in bits.
#[inline(always)]
fn add_double(word: &AtomicU64, operand: f64) -> u64 {
    let mut found = word.load(SeqCst);
    loop {
        let made = (f64::from_bits(found) + operand).to_bits();
        match word.compare_exchange_weak(found, made, SeqCst, SeqCst) {
            Ok(_) => return found,
            Err(now) => found = now,
        }
    }
}

/// # Safety
/// `from` is valid for a `T`, in any alignment; every bit pattern is one.
unsafe fn read<T: Copy>(from: *const u8) -> T {
    // SAFETY: our contract.
    unsafe { from.cast::<T>().read_unaligned() }
}

/// # Safety
/// `to` is valid for writing a `T`, in any alignment.
unsafe fn write<T: Copy>(to: *mut u8, value: T) {
    // SAFETY: our contract.
    unsafe { to.cast::<T>().write_unaligned(value) }
}

/// The stripes of a section of at most a unit, the lower one first.
fn stripes(offset: usize, bytes: usize) -> (u32, Option<u32>) {
    let (begin, end) = (stripe_of(offset as u64), stripe_of((offset + bytes.max(1) - 1) as u64));
    if begin == end { (begin, None) } else { (begin.min(end), Some(begin.max(end))) }
}

#[cfg(test)]
mod tests;
