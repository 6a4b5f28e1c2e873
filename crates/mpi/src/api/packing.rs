//! MPI 5.2 and 5.3: packing into and out of contiguous memory, native and external32.

use core::ffi::{c_char, c_int, c_void};

use tutti_datatype::{Buffer, Signature, external};

use crate::abi::*;
use crate::argument::text;
use crate::errhandler::call;
use crate::error::{Error, Result, check};
use crate::point_to_point::Data;
use crate::process::Guard;
use crate::type_arguments::{Number, put};

/// A piece of packed memory with a position in it.
struct Packed<T> {
    memory: *mut u8,
    size: i64,
    position: *mut T,
}

impl<T: Number> Packed<T> {
    unsafe fn new(memory: *const c_void, size: impl Number, position: *mut T) -> Result<Self> {
        check(!position.is_null(), MPI_ERR_ARG, || "position is a null pointer".into())?;
        Ok(Packed { memory: memory.cast_mut().cast(), size: size.wide(), position })
    }

    /// The place of the next `bytes` bytes; the position moves behind them when `then` has run.
    unsafe fn take(&self, bytes: usize, then: impl FnOnce(*mut u8)) -> Result<()> {
        // SAFETY: the user gives a place with the position.
        let position = unsafe { self.position.read() }.wide();
        check(position >= 0, MPI_ERR_ARG, || format!("position is {position}, expected 0 or more"))?;
        let room = self.size.saturating_sub(position);
        check(bytes as i128 <= room.into(), MPI_ERR_ARG, || {
            format!(
                "{bytes} bytes at position {position} exceed the packed buffer, which has {} bytes",
                self.size
            )
        })?;
        check(!self.memory.is_null() || bytes == 0, MPI_ERR_BUFFER, || {
            "the packed buffer is a null pointer".into()
        })?;
        then(self.memory.wrapping_add(position as usize));
        // SAFETY: as above; the sum is at most the size, which the user gave in the same type or a narrower
        // one.
        unsafe { put(self.position, position as i128 + bytes as i128) };
        Ok(())
    }
}

unsafe fn pack<T: Number>(guard: &Guard, data: Data, comm: MPI_Comm, packed: Packed<T>) -> Result<()> {
    guard.comm(comm)?;
    let buffer = guard.buffer(data)?;
    // SAFETY: the user's buffer is valid; `take` has checked that the packed one has room.
    unsafe { packed.take(buffer.bytes, |to| buffer.load(0, to, buffer.bytes)) }
}

unsafe fn unpack<T: Number>(guard: &Guard, data: Data, comm: MPI_Comm, packed: Packed<T>) -> Result<()> {
    guard.comm(comm)?;
    let buffer = guard.buffer(data)?;
    // SAFETY: the user's buffer is valid; `take` has checked that the packed one has as much.
    unsafe { packed.take(buffer.bytes, |from| buffer.store(0, from, buffer.bytes)) }
}

/// Packs (5.2).
#[inline]
pub unsafe fn MPI_Pack(
    inbuf: *const c_void,
    incount: c_int,
    datatype: MPI_Datatype,
    outbuf: *mut c_void,
    outsize: c_int,
    position: *mut c_int,
    comm: MPI_Comm,
) -> c_int {
    // SAFETY: the user gives valid buffers and a position.
    call(c"MPI_Pack", comm, |guard| unsafe {
        let packed = Packed::new(outbuf, outsize, position)?;
        pack(guard, Data::new(inbuf, incount, datatype), comm, packed)
    })
}

/// Packs (5.2). Large count.
#[inline]
pub unsafe fn MPI_Pack_c(
    inbuf: *const c_void,
    incount: MPI_Count,
    datatype: MPI_Datatype,
    outbuf: *mut c_void,
    outsize: MPI_Count,
    position: *mut MPI_Count,
    comm: MPI_Comm,
) -> c_int {
    // SAFETY: the user gives valid buffers and a position.
    call(c"MPI_Pack_c", comm, |guard| unsafe {
        let packed = Packed::new(outbuf, outsize, position)?;
        pack(guard, Data::new(inbuf, incount, datatype), comm, packed)
    })
}

/// Unpacks (5.2).
#[inline]
pub unsafe fn MPI_Unpack(
    inbuf: *const c_void,
    insize: c_int,
    position: *mut c_int,
    outbuf: *mut c_void,
    outcount: c_int,
    datatype: MPI_Datatype,
    comm: MPI_Comm,
) -> c_int {
    // SAFETY: the user gives valid buffers and a position.
    call(c"MPI_Unpack", comm, |guard| unsafe {
        let packed = Packed::new(inbuf, insize, position)?;
        unpack(guard, Data::new(outbuf, outcount, datatype), comm, packed)
    })
}

/// Unpacks (5.2). Large count.
#[inline]
pub unsafe fn MPI_Unpack_c(
    inbuf: *const c_void,
    insize: MPI_Count,
    position: *mut MPI_Count,
    outbuf: *mut c_void,
    outcount: MPI_Count,
    datatype: MPI_Datatype,
    comm: MPI_Comm,
) -> c_int {
    // SAFETY: the user gives valid buffers and a position.
    call(c"MPI_Unpack_c", comm, |guard| unsafe {
        let packed = Packed::new(inbuf, insize, position)?;
        unpack(guard, Data::new(outbuf, outcount, datatype), comm, packed)
    })
}

/// Writes the room that packing needs: the data themselves, nothing else.
unsafe fn write_pack_size<T: Number>(
    guard: &Guard,
    count: T,
    datatype: MPI_Datatype,
    comm: MPI_Comm,
    size: *mut T,
) -> Result<()> {
    guard.comm(comm)?;
    let count = crate::datatype::checked_count(count.wide())?;
    let bytes = guard.datatype(datatype)?.layout.part.bounds.size.saturating_mul(count as i128);
    // SAFETY: the user gives a place for the size.
    unsafe { put(size, bytes) };
    Ok(())
}

/// Room that packing needs (5.2).
#[inline]
pub unsafe fn MPI_Pack_size(
    incount: c_int,
    datatype: MPI_Datatype,
    comm: MPI_Comm,
    size: *mut c_int,
) -> c_int {
    call(c"MPI_Pack_size", comm, |guard| {
        // SAFETY: the user gives a place for the size.
        unsafe { write_pack_size(guard, incount, datatype, comm, size) }
    })
}

/// Room that packing needs (5.2). Large count.
#[inline]
pub unsafe fn MPI_Pack_size_c(
    incount: MPI_Count,
    datatype: MPI_Datatype,
    comm: MPI_Comm,
    size: *mut MPI_Count,
) -> c_int {
    call(c"MPI_Pack_size_c", comm, |guard| {
        // SAFETY: the user gives a place for the size.
        unsafe { write_pack_size(guard, incount, datatype, comm, size) }
    })
}

/// The data of an external call, their signature, and their bytes in external32.
unsafe fn external(guard: &Guard, datarep: *const c_char, data: Data) -> Result<(Buffer, Signature, usize)> {
    // SAFETY: the user gives a text.
    checked_representation(unsafe { text(datarep, "datarep") }?)?;
    let buffer = guard.buffer(data)?;
    let signature = &guard.datatype(data.datatype)?.layout.part.signature;
    let (signature, bytes) = signature
        .repeat(data.count.into())
        .and_then(|all| external::external_size(&all).map(|bytes| (all, bytes)))
        .ok_or_else(|| Error::new(MPI_ERR_COUNT, "the packed data would exceed the address space"))?;
    Ok((buffer, signature, bytes as usize))
}

unsafe fn pack_external<T: Number>(
    guard: &Guard,
    datarep: *const c_char,
    data: Data,
    packed: Packed<T>,
) -> Result<()> {
    // SAFETY: the user's buffer is valid; `take` has checked that the packed one has room.
    unsafe {
        let (buffer, signature, bytes) = external(guard, datarep, data)?;
        packed.take(bytes, |to| external::pack(&buffer, &signature, to))
    }
}

unsafe fn unpack_external<T: Number>(
    guard: &Guard,
    datarep: *const c_char,
    data: Data,
    packed: Packed<T>,
) -> Result<()> {
    // SAFETY: the user's buffer is valid; `take` has checked that the packed one has as much.
    unsafe {
        let (buffer, signature, bytes) = external(guard, datarep, data)?;
        packed.take(bytes, |from| external::unpack(&buffer, &signature, from))
    }
}

/// Packs as external32 (5.3).
#[inline]
pub unsafe fn MPI_Pack_external(
    datarep: *const c_char,
    inbuf: *const c_void,
    incount: c_int,
    datatype: MPI_Datatype,
    outbuf: *mut c_void,
    outsize: MPI_Aint,
    position: *mut MPI_Aint,
) -> c_int {
    // SAFETY: the user gives a text, valid buffers and a position.
    call(c"MPI_Pack_external", MPI_COMM_SELF, |guard| unsafe {
        let packed = Packed::new(outbuf, outsize, position)?;
        pack_external(guard, datarep, Data::new(inbuf, incount, datatype), packed)
    })
}

/// Packs as external32 (5.3). Large count.
#[inline]
pub unsafe fn MPI_Pack_external_c(
    datarep: *const c_char,
    inbuf: *const c_void,
    incount: MPI_Count,
    datatype: MPI_Datatype,
    outbuf: *mut c_void,
    outsize: MPI_Count,
    position: *mut MPI_Count,
) -> c_int {
    // SAFETY: the user gives a text, valid buffers and a position.
    call(c"MPI_Pack_external_c", MPI_COMM_SELF, |guard| unsafe {
        let packed = Packed::new(outbuf, outsize, position)?;
        pack_external(guard, datarep, Data::new(inbuf, incount, datatype), packed)
    })
}

/// Unpacks external32 (5.3).
#[inline]
pub unsafe fn MPI_Unpack_external(
    datarep: *const c_char,
    inbuf: *const c_void,
    insize: MPI_Aint,
    position: *mut MPI_Aint,
    outbuf: *mut c_void,
    outcount: c_int,
    datatype: MPI_Datatype,
) -> c_int {
    // SAFETY: the user gives a text, valid buffers and a position.
    call(c"MPI_Unpack_external", MPI_COMM_SELF, |guard| unsafe {
        let packed = Packed::new(inbuf, insize, position)?;
        unpack_external(guard, datarep, Data::new(outbuf, outcount, datatype), packed)
    })
}

/// Unpacks external32 (5.3). Large count.
#[inline]
pub unsafe fn MPI_Unpack_external_c(
    datarep: *const c_char,
    inbuf: *const c_void,
    insize: MPI_Count,
    position: *mut MPI_Count,
    outbuf: *mut c_void,
    outcount: MPI_Count,
    datatype: MPI_Datatype,
) -> c_int {
    // SAFETY: the user gives a text, valid buffers and a position.
    call(c"MPI_Unpack_external_c", MPI_COMM_SELF, |guard| unsafe {
        let packed = Packed::new(inbuf, insize, position)?;
        unpack_external(guard, datarep, Data::new(outbuf, outcount, datatype), packed)
    })
}

/// Checks the name of a data representation.
///
/// # Errors
/// MPI_ERR_ARG unless it is external32, the only one that Pack_external knows.
fn checked_representation(name: &[u8]) -> Result<()> {
    check(name == b"external32", MPI_ERR_ARG, || {
        format!("datarep is \"{}\", expected \"external32\"", String::from_utf8_lossy(name))
    })
}

/// Writes the bytes of data in external32.
unsafe fn write_external_size<T: Number>(
    guard: &Guard,
    datarep: *const c_char,
    count: i64,
    datatype: MPI_Datatype,
    size: *mut T,
) -> Result<()> {
    // SAFETY: the user gives a text.
    checked_representation(unsafe { text(datarep, "datarep") }?)?;
    let count = crate::datatype::checked_count(count)?;
    let one = external::external_size(&guard.datatype(datatype)?.layout.part.signature);
    // SAFETY: the user gives a place for the size.
    unsafe { put(size, one.unwrap_or(i128::MAX).saturating_mul(count as i128)) };
    Ok(())
}

/// Bytes of data in external32 (5.3).
#[inline]
pub unsafe fn MPI_Pack_external_size(
    datarep: *const c_char,
    incount: c_int,
    datatype: MPI_Datatype,
    size: *mut MPI_Aint,
) -> c_int {
    call(c"MPI_Pack_external_size", MPI_COMM_SELF, |guard| {
        // SAFETY: the user gives a text and a place for the size.
        unsafe { write_external_size(guard, datarep, incount.into(), datatype, size) }
    })
}

/// Bytes of data in external32 (5.3). Large count.
#[inline]
pub unsafe fn MPI_Pack_external_size_c(
    datarep: *const c_char,
    incount: MPI_Count,
    datatype: MPI_Datatype,
    size: *mut MPI_Count,
) -> c_int {
    call(c"MPI_Pack_external_size_c", MPI_COMM_SELF, |guard| {
        // SAFETY: the user gives a text and a place for the size.
        unsafe { write_external_size(guard, datarep, incount, datatype, size) }
    })
}
