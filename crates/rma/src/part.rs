//! The memory that a rank opens in a window, as a rank of its node reaches it: mapped here, or through the
//! kernel, which copies between the two processes.
//!
//! | | mapped | through the kernel |
//! |---|---|---|
//! | put, get | a copy; with gaps by the type's program | `process_vm_writev`, `process_vm_readv`, many ranges a call |
//! | atomic change | [`accumulate::Target`](crate::accumulate::Target) | with the gate closed: read, change, write |
//!
//! Data at the target are a [`Buffer`] whose address is an offset in the memory. Everything is done when the
//! call returns. What the processor accesses of the origin's memory beside the kernel's copies is looked at
//! before ([`own`]): bad memory is the kernel's EFAULT there too.
#![allow(unsafe_code)]

use std::io;

use tutti_datatype::Buffer;
use tutti_shm::gate::{Gate, UNIT_BYTES};
use tutti_shm::opened::{Opened, copy};

use crate::accumulate::{Change, Target, in_sections};
use crate::device::Access;
use crate::operation::Places;
use crate::os::{Direction, Ranges, Remote, read, write};
use crate::own;

mod batch;

use batch::{Batch, LONG_BYTES};

/// Typed data with gaps on both sides go through a place of this size.
const STAGE_BYTES: usize = 16 << 10;

/// How the memory is reached.
#[derive(Clone, Copy, Debug)]
pub enum Reach {
    /// Memory of this process.
    Mapped(Opened),
    /// Memory of another process: where, and how many bytes.
    Other(Remote, usize),
    /// Memory of another node, of so many bytes: operations are the caller's to send.
    OtherNode(usize),
}

/// Why an operation was not done, or not whole.
#[derive(Debug)]
pub enum Fault {
    /// The memory has no such range.
    OutOfRange,
    /// Memory of another node; nothing was done.
    OtherNode,
    /// The kernel refused: such copies are not allowed here, or the memory is not there any more.
    Kernel(io::Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Fault::Kernel(error)
    }
}

/// A rank's memory with its gate, as one thread sees them.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    reach: Reach,
    gate: Gate,
}

impl Part {
    /// Memory whose changes pass `gate`, which is the slot of this thread.
    pub fn new(reach: Reach, gate: Gate) -> Self {
        Part { reach, gate }
    }

    /// Length of the memory.
    pub fn bytes(&self) -> usize {
        match self.reach {
            Reach::Mapped(memory) => memory.bytes(),
            Reach::Other(_, bytes) | Reach::OtherNode(bytes) => bytes,
        }
    }

    /// Writes the origin's data to the target's places, which hold as many bytes.
    ///
    /// # Errors
    /// When contiguous places are not inside the memory; what the kernel says.
    ///
    /// # Safety
    /// The origin is valid for reading. Places with gaps lie inside the memory.
    #[inline]
    pub unsafe fn put(&self, target: &Buffer, origin: &Buffer) -> Result<(), Fault> {
        // SAFETY: our contract.
        unsafe {
            match self.reach {
                Reach::Mapped(memory) if target.map.is_none() && origin.map.is_none() => {
                    let is_inside = memory.store(target.at.addr(), origin.at, origin.bytes);
                    if is_inside { Ok(()) } else { Err(Fault::OutOfRange) }
                }
                Reach::Mapped(memory) => {
                    copy_typed(&in_memory(memory, target)?, origin);
                    Ok(())
                }
                Reach::Other(remote, bytes) => {
                    let mut stage = Vec::new();
                    let from = match origin.map {
                        None => origin.at,
                        Some(_) => {
                            own::check(origin, Access::Read)?;
                            stage.resize(origin.bytes, 0);
                            origin.load(0, stage.as_mut_ptr(), origin.bytes);
                            stage.as_mut_ptr()
                        }
                    };
                    copy_ranges(remote, bytes, target, Direction::Scatter, from)
                }
                Reach::OtherNode(_) => Err(Fault::OtherNode),
            }
        }
    }

    /// Reads the target's data into the origin's places, which hold as many bytes.
    ///
    /// # Errors
    /// As [`Part::put`].
    ///
    /// # Safety
    /// The origin is valid for writing. Places with gaps lie inside the memory.
    #[inline]
    pub unsafe fn get(&self, target: &Buffer, origin: &Buffer) -> Result<(), Fault> {
        // SAFETY: our contract.
        unsafe {
            match self.reach {
                Reach::Mapped(memory) if target.map.is_none() && origin.map.is_none() => {
                    let is_inside = memory.load(target.at.addr(), origin.at, origin.bytes);
                    if is_inside { Ok(()) } else { Err(Fault::OutOfRange) }
                }
                Reach::Mapped(memory) => {
                    copy_typed(origin, &in_memory(memory, target)?);
                    Ok(())
                }
                Reach::Other(remote, bytes) => match origin.map {
                    None => copy_ranges(remote, bytes, target, Direction::Gather, origin.at),
                    Some(_) => {
                        own::check(origin, Access::Write)?;
                        let mut stage = vec![0; origin.bytes];
                        copy_ranges(remote, bytes, target, Direction::Gather, stage.as_mut_ptr())?;
                        origin.store(0, stage.as_ptr(), origin.bytes);
                        Ok(())
                    }
                },
                Reach::OtherNode(_) => Err(Fault::OtherNode),
            }
        }
    }

    /// Changes the target's elements, one after the other as they lie at `origin`. With `result`, what they
    /// were is stored there. The target's places may leave out what elements have besides their data: then
    /// `data_bytes` is less than an element, and each begins where its data do.
    ///
    /// # Errors
    /// When a run of elements is not inside the memory: then those before it are changed. What the kernel
    /// says.
    ///
    /// # Safety
    /// `origin` is valid for reading as many bytes as the target has, unless the change keeps them; `result`
    /// for writing as many. Neither overlaps the target.
    pub unsafe fn accumulate(
        &self,
        target: &Buffer,
        data_bytes: usize,
        change: Change,
        origin: *const u8,
        result: Option<*mut u8>,
    ) -> Result<(), Fault> {
        let (mut done, element_bytes) = (0, change.element_bytes());
        match self.reach {
            Reach::Mapped(memory) => each_group(target, data_bytes, element_bytes, &mut |offset, bytes| {
                let origin = origin.wrapping_add(done);
                let result = result.map(|result| result.wrapping_add(done));
                done += bytes;
                let target = Target::new(memory, self.gate);
                // SAFETY: our contract, for this part of the data.
                unsafe { target.accumulate(offset, bytes / element_bytes, change, origin, result) }
                    .map_err(|_| Fault::OutOfRange)
            }),
            Reach::Other(remote, size) => {
                // SAFETY: our contract.
                let mut batch = unsafe { Batch::new(&self.gate, remote, change, origin, result) };
                let visited = each_group(target, data_bytes, element_bytes, &mut |offset, bytes| {
                    check_range(size, offset, bytes)?;
                    if target.map.is_some() && bytes < LONG_BYTES {
                        return batch.add(offset, bytes);
                    }
                    batch.change()?;
                    let (origin, result) = batch.places();
                    // SAFETY: our contract, for this part of the data.
                    unsafe { self.change_there(remote, offset, bytes, change, origin, result)? };
                    batch.skip(bytes);
                    Ok(())
                });
                // Those before one that is outside are changed; none is left behind one that failed.
                batch.change()?;
                visited
            }
            Reach::OtherNode(_) => Err(Fault::OtherNode),
        }
    }

    /// Writes bytes of this process at an offset; none, and nothing is written, when the memory is not mapped
    /// here or does not have them.
    ///
    /// # Safety
    /// `from` is valid for reading so many bytes.
    #[inline(always)]
    pub unsafe fn store_mapped(&self, offset: usize, from: *const u8, bytes: usize) -> Option<()> {
        let Reach::Mapped(memory) = &self.reach else { return None };
        // SAFETY: our contract.
        unsafe { memory.store(offset, from, bytes) }.then_some(())
    }

    /// Reads bytes at an offset into memory of this process; else none, as [`Part::store_mapped`].
    ///
    /// # Safety
    /// `to` is valid for writing so many bytes.
    #[inline(always)]
    pub unsafe fn load_mapped(&self, offset: usize, to: *mut u8, bytes: usize) -> Option<()> {
        let Reach::Mapped(memory) = &self.reach else { return None };
        // SAFETY: our contract.
        unsafe { memory.load(offset, to, bytes) }.then_some(())
    }

    /// [`Part::compare_and_swap`] in memory that is mapped here; else none, as [`Part::store_mapped`].
    ///
    /// # Safety
    /// As [`Part::compare_and_swap`].
    #[inline(always)]
    pub unsafe fn compare_and_swap_mapped(
        &self,
        offset: usize,
        bytes: usize,
        compare: *const u8,
        origin: *const u8,
        result: *mut u8,
    ) -> Option<()> {
        let Reach::Mapped(memory) = self.reach else { return None };
        // SAFETY: our contract.
        unsafe { Target::new(memory, self.gate).compare_and_swap(offset, bytes, compare, origin, result) }
            .ok()
    }

    /// Changes `count` elements that follow one another from byte `offset` on; none, and nothing is changed,
    /// when the memory is not mapped here or does not have them.
    ///
    /// # Safety
    /// As [`Part::accumulate`].
    #[inline]
    pub unsafe fn accumulate_mapped(
        &self,
        offset: usize,
        count: usize,
        change: Change,
        origin: *const u8,
        result: Option<*mut u8>,
    ) -> Option<()> {
        let Reach::Mapped(memory) = self.reach else { return None };
        // SAFETY: our contract.
        unsafe { Target::new(memory, self.gate).accumulate(offset, count, change, origin, result) }.ok()
    }

    /// If the element of `bytes` bytes at `offset` equals `compare` it becomes `origin`; what it was is
    /// stored at `result`.
    ///
    /// # Errors
    /// When it is not inside the memory; what the kernel says.
    ///
    /// # Safety
    /// The three addresses are valid for an element each; none overlaps the target.
    #[inline]
    pub unsafe fn compare_and_swap(
        &self,
        offset: usize,
        bytes: usize,
        compare: *const u8,
        origin: *const u8,
        result: *mut u8,
    ) -> Result<(), Fault> {
        match self.reach {
            Reach::Mapped(memory) => {
                let target = Target::new(memory, self.gate);
                // SAFETY: our contract.
                let swapped = unsafe { target.compare_and_swap(offset, bytes, compare, origin, result) };
                swapped.map_err(|_| Fault::OutOfRange)
            }
            Reach::Other(remote, size) => {
                check_range(size, offset, bytes)?;
                own::check_bytes(compare, bytes, Access::Read)?;
                in_sections(&self.gate, offset, bytes, bytes, |_, _| {
                    // SAFETY: our contract.
                    unsafe {
                        read_whole(remote, offset, result, bytes)?;
                        let found = std::slice::from_raw_parts(result, bytes);
                        if found == std::slice::from_raw_parts(compare, bytes) {
                            write_whole(remote, offset, origin, bytes)?;
                        }
                    }
                    Ok(())
                })
            }
            Reach::OtherNode(_) => Err(Fault::OtherNode),
        }
    }

    /// # Safety
    /// As [`Part::accumulate`]; the range is inside.
    unsafe fn change_there(
        &self,
        remote: Remote,
        offset: usize,
        bytes: usize,
        change: Change,
        origin: *const u8,
        result: Option<*mut u8>,
    ) -> Result<(), Fault> {
        let mut stage = vec![0_u8; bytes.min(UNIT_BYTES + change.element_bytes())];
        in_sections(&self.gate, offset, bytes, change.element_bytes(), |done, section| {
            let origin = origin.wrapping_add(done);
            let result = result.map(|result| result.wrapping_add(done));
            let elements = &mut stage[..section];
            if change.writes() {
                own::check_bytes(origin, section, Access::Read)?;
            }
            // SAFETY: our contract, for this section.
            unsafe {
                read_whole(remote, offset + done, result.unwrap_or(elements.as_mut_ptr()), section)?;
                if let Some(result) = result {
                    copy(result, elements.as_mut_ptr(), section);
                }
                change.apply(elements.as_mut_ptr(), section, origin, None);
                if change.writes() {
                    write_whole(remote, offset + done, elements.as_ptr(), section)?;
                }
            }
            Ok(())
        })
    }
}

fn check_range(size: usize, offset: usize, bytes: usize) -> Result<(), Fault> {
    let is_inside = offset.checked_add(bytes).is_some_and(|end| end <= size);
    if is_inside { Ok(()) } else { Err(Fault::OutOfRange) }
}

/// The same data by address. Contiguous ones are checked here.
fn in_memory(memory: Opened, target: &Buffer) -> Result<Buffer, Fault> {
    if target.map.is_none() {
        memory.address(target.at.addr(), target.bytes).ok_or(Fault::OutOfRange)?;
    }
    let at = memory.base().as_ptr().wrapping_add(target.at.addr());
    Ok(Buffer { at, bytes: target.bytes, map: target.map.clone() })
}

/// Copies typed data of this process's memory.
///
/// # Safety
/// Both are valid and hold as many bytes.
unsafe fn copy_typed(to: &Buffer, from: &Buffer) {
    // SAFETY: our contract.
    unsafe {
        match (&to.map, &from.map) {
            (None, _) => from.load(0, to.at, from.bytes),
            (_, None) => to.store(0, from.at, from.bytes),
            _ => {
                let mut stage = [0_u8; STAGE_BYTES];
                let mut done = 0;
                while done < from.bytes {
                    let some = STAGE_BYTES.min(from.bytes - done);
                    from.load(done, stage.as_mut_ptr(), some);
                    to.store(done, stage.as_ptr(), some);
                    done += some;
                }
            }
        }
    }
}

/// The runs of the target's data, by offset: whole elements of `element_bytes`, of which the target's places
/// may leave out what they have besides `data_bytes` of data.
pub fn ranges(target: &Buffer, data_bytes: usize, element_bytes: usize) -> Places {
    if target.map.is_none() && data_bytes == element_bytes {
        return Places::One([(target.at.addr() as u64, target.bytes)]);
    }
    let mut ranges: Vec<(u64, usize)> = Vec::new();
    let visited = each_group(target, data_bytes, element_bytes, &mut |offset, bytes| {
        match ranges.last_mut() {
            Some((begin, length)) if *begin + *length as u64 == offset as u64 => *length += bytes,
            _ => ranges.push((offset as u64, bytes)),
        }
        Ok(())
    });
    debug_assert!(visited.is_ok());
    Places::Many(ranges)
}

/// Visits the runs of the target's data, by offset.
fn each_run(target: &Buffer, visit: &mut dyn FnMut(usize, usize) -> Result<(), Fault>) -> Result<(), Fault> {
    let offset = target.at.addr();
    let Some(map) = &target.map else { return visit(offset, target.bytes) };
    let mut visited = Ok(());
    map.runs(offset, target.bytes, &mut |offset, bytes| {
        visited = visit(offset, bytes);
        visited.is_ok()
    });
    visited
}

/// Visits whole elements by offset: as many as follow one another, or each by itself where the data are only
/// `data_bytes` of its `element_bytes`.
fn each_group(
    target: &Buffer,
    data_bytes: usize,
    element_bytes: usize,
    visit: &mut dyn FnMut(usize, usize) -> Result<(), Fault>,
) -> Result<(), Fault> {
    if data_bytes == element_bytes {
        return each_run(target, visit);
    }
    let mut left = 0;
    each_run(target, &mut |mut offset, mut bytes| {
        // What is left of the element that began before.
        while left < bytes {
            (offset, bytes) = (offset + left, bytes - left);
            visit(offset, element_bytes)?;
            left = data_bytes;
        }
        left -= bytes;
        Ok(())
    })
}

/// Copies elements between the user's places, of which each has `data_bytes` of its `element_bytes`, and a
/// place where they follow one another.
///
/// # Safety
/// The buffer's memory holds whole elements, and `packed` as many; what is written is valid for it.
pub unsafe fn copy_elements(
    buffer: &Buffer,
    data_bytes: usize,
    element_bytes: usize,
    packed: *mut u8,
    is_packing: bool,
) {
    let mut done = 0;
    let visited = each_group(buffer, data_bytes, element_bytes, &mut |address, bytes| {
        let place = std::ptr::with_exposed_provenance_mut::<u8>(address);
        // SAFETY: our contract.
        unsafe {
            match is_packing {
                true => copy(place, packed.add(done), bytes),
                false => copy(packed.add(done), place, bytes),
            }
        }
        done += bytes;
        Ok(())
    });
    debug_assert!(visited.is_ok());
}

/// # Safety
/// `local` is valid for the target's bytes, for writing if they are gathered.
unsafe fn copy_ranges(
    remote: Remote,
    size: usize,
    target: &Buffer,
    direction: Direction,
    local: *mut u8,
) -> Result<(), Fault> {
    // SAFETY: our contract.
    let mut ranges = unsafe { Ranges::new(remote.process, direction, local) };
    each_run(target, &mut |offset, bytes| {
        check_range(size, offset, bytes)?;
        Ok(ranges.add(remote.address + offset as u64, bytes)?)
    })?;
    Ok(ranges.flush()?)
}

/// # Safety
/// `to` is valid for writing so many bytes.
unsafe fn read_whole(remote: Remote, offset: usize, to: *mut u8, bytes: usize) -> io::Result<()> {
    let mut done = 0;
    while done < bytes {
        // SAFETY: our contract.
        done += unsafe {
            read(remote.process, remote.address + (offset + done) as u64, to.add(done), bytes - done)?
        };
    }
    Ok(())
}

/// # Safety
/// `from` is valid for reading so many bytes.
unsafe fn write_whole(remote: Remote, offset: usize, from: *const u8, bytes: usize) -> io::Result<()> {
    let mut done = 0;
    while done < bytes {
        // SAFETY: our contract.
        done += unsafe {
            write(remote.process, remote.address + (offset + done) as u64, from.add(done), bytes - done)?
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests;
