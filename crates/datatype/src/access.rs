//! How the data of a committed type are reached, and why they cannot be.

use std::fmt;
use std::rc::Rc;

use crate::buffer::Buffer;
use crate::layout::Layout;
use crate::transfer::{Map, Program};

/// Why a type has no buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// Type that is not committed.
    NotCommitted,
    /// Number of elements, and bytes of each: more than a machine can address.
    TooMany(Box<(usize, i128)>),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotCommitted => {
                f.write_str("the datatype is not committed, expected MPI_Type_commit before it is used")
            }
            Error::TooMany(found) => {
                let (count, size) = **found;
                write!(f, "{count} elements of {size} bytes exceed the address space")
            }
        }
    }
}

impl std::error::Error for Error {}

/// How the data of a type are reached.
#[derive(Clone, Debug)]
pub(crate) enum Access {
    /// All elements are one run of bytes, which begins at this displacement.
    Run(isize),
    /// Gaps among the bytes, or bytes in another order.
    Gaps(Rc<Program>),
    /// Elements that do not fit this machine.
    TooLarge,
    /// Not yet committed.
    Uncommitted,
}

impl Access {
    /// `count` elements of `size` bytes at `address`; none when they exceed the address space.
    #[inline]
    pub(crate) fn buffer(
        &self,
        size: usize,
        address: *mut u8,
        count: usize,
    ) -> Option<Result<Buffer, Error>> {
        let bytes = size.checked_mul(count).filter(|&bytes| bytes <= isize::MAX as usize)?;
        Some(match self {
            Access::Run(0) => Ok(Buffer::contiguous(address, bytes)),
            Access::Run(begin) => Ok(Buffer::contiguous(address.wrapping_offset(*begin), bytes)),
            Access::Gaps(program) => {
                if bytes == 0 {
                    return Some(Ok(Buffer::contiguous(address, 0)));
                }
                if count == 1
                    && let Some(begin) = program.single_run(bytes)
                {
                    return Some(Ok(Buffer::contiguous(address.wrapping_offset(begin), bytes)));
                }
                Ok(Buffer { at: address, bytes, map: Some(Map::new(program.clone())) })
            }
            Access::TooLarge if count == 0 => Ok(Buffer::contiguous(address, 0)),
            Access::TooLarge => return None,
            Access::Uncommitted => Err(Error::NotCommitted),
        })
    }
}

#[cold]
pub(crate) fn too_many(layout: &Layout, count: usize) -> Error {
    Error::TooMany(Box::new((count, layout.part.bounds.size)))
}
