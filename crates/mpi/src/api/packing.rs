//! MPI 5.2 and 5.3: packing into and out of contiguous memory, native and external32.

use core::ffi::c_void;

use tutti_datatype::{Buffer, Signature, external};

use crate::abi::*;
use crate::argument;
use crate::comm::Comms;
use crate::datatype::Data;
use crate::datatype::Types;
use crate::error::{Error, Result, check};
use crate::type_arguments::Number;

/// A piece of packed memory with a position in it.
pub(super) struct Packed<T> {
    memory: *mut u8,
    size: i64,
    position: i64,
    /// Where the user has the position.
    place: *mut T,
}

impl<T: Number> Packed<T> {
    /// # Errors
    /// MPI_ERR_ARG when the position is negative.
    ///
    /// # Safety
    /// `memory` is null or has `size` bytes; `place` is valid for reading and writing.
    pub(super) unsafe fn new(memory: *const c_void, size: impl Number, place: *mut T) -> Result<Self> {
        // SAFETY: our contract.
        let position = unsafe { place.read() }.wide();
        check(position >= 0, MPI_ERR_ARG, || format!("position is {position}, expected 0 or more"))?;
        Ok(Packed { memory: memory.cast_mut().cast(), size: size.wide(), position, place })
    }

    /// The place of the next `bytes` bytes; the position moves behind them when `then` has run.
    fn take(&self, bytes: usize, then: impl FnOnce(*mut u8)) -> Result<()> {
        let position = self.position;
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
        // SAFETY: the contract of `new`. The sum is at most the size, which the user gave in the same type or
        // a narrower one.
        unsafe { argument::write(self.place, position as i128 + bytes as i128) };
        Ok(())
    }
}

/// Packs data as they are.
pub(super) fn pack<T: Number>(
    comms: &Comms,
    types: &Types,
    data: Data,
    comm: MPI_Comm,
    packed: Packed<T>,
) -> Result<()> {
    comms.find(comm)?;
    let buffer = types.buffer(data)?;
    // SAFETY: the user's buffer is valid; `take` has checked that the packed one has room.
    packed.take(buffer.bytes, |to| unsafe { buffer.load(0, to, buffer.bytes) })
}

/// Unpacks what [`pack`] has packed.
pub(super) fn unpack<T: Number>(
    comms: &Comms,
    types: &Types,
    data: Data,
    comm: MPI_Comm,
    packed: Packed<T>,
) -> Result<()> {
    comms.find(comm)?;
    let buffer = types.buffer(data)?;
    // SAFETY: the user's buffer is valid; `take` has checked that the packed one has as much.
    packed.take(buffer.bytes, |from| unsafe { buffer.store(0, from, buffer.bytes) })
}

/// The room that packing needs: the data themselves, nothing else.
pub(super) fn size(
    comms: &Comms,
    types: &Types,
    count: i64,
    datatype: MPI_Datatype,
    comm: MPI_Comm,
) -> Result<i128> {
    comms.find(comm)?;
    let count = crate::datatype::checked_count(count)?;
    Ok(types.find(datatype)?.layout.part.bounds.size.saturating_mul(count as i128))
}

/// The data of an external call, their signature, and their bytes in external32.
fn external(types: &Types, representation: &[u8], data: Data) -> Result<(Buffer, Signature, usize)> {
    check_representation(representation)?;
    let buffer = types.buffer(data)?;
    let signature = &types.find(data.datatype)?.layout.part.signature;
    let (signature, bytes) = signature
        .repeat(data.count.into())
        .and_then(|all| external::external_size(&all).map(|bytes| (all, bytes)))
        .ok_or_else(|| Error::new(MPI_ERR_COUNT, "the packed data would exceed the address space"))?;
    Ok((buffer, signature, bytes as usize))
}

/// Packs data as external32.
pub(super) fn pack_external<T: Number>(
    types: &Types,
    representation: &[u8],
    data: Data,
    packed: Packed<T>,
) -> Result<()> {
    let (buffer, signature, bytes) = external(types, representation, data)?;
    // SAFETY: the user's buffer is valid; `take` has checked that the packed one has room.
    packed.take(bytes, |to| unsafe { external::pack(&buffer, &signature, to) })
}

/// Unpacks external32.
pub(super) fn unpack_external<T: Number>(
    types: &Types,
    representation: &[u8],
    data: Data,
    packed: Packed<T>,
) -> Result<()> {
    let (buffer, signature, bytes) = external(types, representation, data)?;
    // SAFETY: the user's buffer is valid; `take` has checked that the packed one has as much.
    packed.take(bytes, |from| unsafe { external::unpack(&buffer, &signature, from) })
}

/// Checks the name of a data representation.
///
/// # Errors
/// MPI_ERR_ARG unless it is external32, the only one that Pack_external knows.
fn check_representation(name: &[u8]) -> Result<()> {
    check(name == b"external32", MPI_ERR_ARG, || {
        format!("datarep is \"{}\", expected \"external32\"", String::from_utf8_lossy(name))
    })
}

/// The bytes of data in external32.
pub(super) fn external_size(
    types: &Types,
    representation: &[u8],
    count: i64,
    datatype: MPI_Datatype,
) -> Result<i128> {
    check_representation(representation)?;
    let count = crate::datatype::checked_count(count)?;
    let one = external::external_size(&types.find(datatype)?.layout.part.signature);
    Ok(one.unwrap_or(i128::MAX).saturating_mul(count as i128))
}
