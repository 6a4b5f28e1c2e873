//! Datatypes (MPI chapter 5): where the bytes of a message lie in memory, and what they are.
//!
//! A handle names a [`Datatype`]: name, whether it is committed, and a [`layout::Layout`] that is shared and never changes.
//! The constructors ([`constructors`], [`arrays`]) put layouts together; each keeps a flattened program ([`node`]) of its bytes.
//! Commit makes the program ready for [`transfer`], which copies any range of bytes of it; a [`Buffer`] holds it while an operation is
//! pending, so that the type may be freed meanwhile.

pub mod arrays;
pub mod bounds;
pub mod constructors;
pub mod elements;
pub mod external;
pub mod fortran;
pub mod kernels;
pub mod layout;
pub mod node;
pub mod predefined;
pub mod registry;
pub mod signature;
pub mod transfer;

#[cfg(test)]
mod tests;

use std::rc::Rc;

use crate::abi::*;
use crate::buffer::Buffer;
use crate::check::note::Note;
use crate::error::{Error, Result, check};
use layout::Layout;
use node::Shape;
pub use predefined::{Element, PairValue, Predefined};
use transfer::{Map, Program};

/// What a handle names.
#[derive(Debug)]
#[repr(C)]
pub struct Datatype {
    /// Bytes of data in one element; of a type too large for this machine, the largest number.
    pub size: usize,
    /// Distance from one element to the next.
    pub extent: isize,
    /// How its data are reached.
    access: Access,
    /// What it is, when predefined.
    pub element: Option<Element>,
    /// Lower bound.
    pub lower: isize,
    /// Bounds, program, contents.
    pub layout: Rc<Layout>,
    /// Name: the constant's, the user's, or none.
    pub name: Vec<u8>,
}

impl Datatype {
    /// Whether its elements fill memory from their address on.
    pub fn is_plain(&self) -> bool {
        matches!(self.access, Access::Run(0)) && self.extent == self.size as isize
    }
}

/// How the data of a type are reached.
#[derive(Clone, Debug)]
enum Access {
    /// All elements are one run of bytes, which begins at this displacement.
    Run(isize),
    /// There are gaps, or bytes in another order.
    Gaps(Rc<Program>),
    /// They do not fit this machine.
    TooLarge,
    /// Not yet committed.
    Uncommitted,
}

impl Datatype {
    /// A predefined type.
    pub fn predefined(layout: Rc<Layout>, element: Element, name: &str) -> Self {
        let mut datatype = Datatype::new(layout);
        datatype.element = Some(element);
        datatype.name = name.into();
        datatype.commit();
        datatype
    }

    /// A type just made by the user.
    pub fn new(layout: Rc<Layout>) -> Self {
        let bounds = &layout.part.bounds;
        let narrow = |number: i128| number.clamp(isize::MIN as i128, isize::MAX as i128) as isize;
        Datatype {
            size: narrow(bounds.size) as usize,
            extent: narrow(bounds.extent()),
            access: Access::Uncommitted,
            element: None,
            lower: narrow(bounds.lower()),
            layout,
            name: Vec::new(),
        }
    }

    /// Makes the type ready for communication.
    pub fn commit(&mut self) {
        if !matches!(self.access, Access::Uncommitted) {
            return;
        }
        if crate::check::is_on()
            && let Some(node) = &self.layout.part.node
        {
            // Every buffer knows what its data are.
            let note = Note::new(&self.layout, &self.name, self.size);
            self.access = Access::Gaps(Rc::new(Program::noted(node, self.extent, note)));
            return;
        }
        self.access = match &self.layout.part.node {
            None if self.layout.part.bounds.size > 0 => Access::TooLarge,
            None => Access::Run(0),
            Some(node) if matches!(node.shape, Shape::Run) && self.extent == self.size as isize => {
                Access::Run(node.at)
            }
            Some(node) => Access::Gaps(Rc::new(Program::new(node, self.extent))),
        };
    }

    /// The same type as another one, for a handle of its own: committed if that one is.
    pub fn duplicate(&self, layout: Rc<Layout>) -> Self {
        Datatype { access: self.access.clone(), element: None, ..Datatype::new(layout) }
    }

    /// Whether any number of elements fill memory from their address on without gaps.
    pub fn is_contiguous(&self) -> bool {
        matches!(self.access, Access::Run(0))
    }

    /// Whether the type may be used in communication.
    pub fn is_committed(&self) -> bool {
        !matches!(self.access, Access::Uncommitted)
    }

    /// Whether the user must not free or change it.
    pub fn is_predefined(&self) -> bool {
        self.layout.handle.is_some()
    }

    /// Hash of the sequence of basic types of `count` elements; the same for types with the same data, whatever their gaps.
    pub fn signature_hash(&self, count: usize) -> u64 {
        self.layout.part.signature.repeat(count as i128).map_or(0, |signature| signature.hash)
    }

    /// `count` elements at `address` as a stream of bytes.
    ///
    /// # Errors
    /// MPI_ERR_TYPE when the type is not committed, MPI_ERR_COUNT when the bytes cannot be counted.
    #[inline]
    pub fn buffer(&self, address: *mut u8, count: usize) -> Result<Buffer> {
        match self.access.buffer(self.size, address, count) {
            Some(buffer) => buffer,
            None => Err(self.layout.too_many(count)),
        }
    }
}

impl Access {
    /// `count` elements of `size` bytes at `address`; none when they exceed the address space.
    #[inline]
    fn buffer(&self, size: usize, address: *mut u8, count: usize) -> Option<Result<Buffer>> {
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
            Access::Uncommitted => Err(not_committed()),
        })
    }
}

impl Layout {
    #[cold]
    fn too_many(&self, count: usize) -> Error {
        let size = self.part.bounds.size;
        Error::new(MPI_ERR_COUNT, format_args!("{count} elements of {size} bytes exceed the address space"))
    }
}

#[cold]
fn not_committed() -> Error {
    Error::new(MPI_ERR_TYPE, "the datatype is not committed, expected MPI_Type_commit before it is used")
}

/// Checks a count argument.
///
/// # Errors
/// MPI_ERR_COUNT when it is negative.
#[inline(always)]
pub fn checked_count(count: i64) -> Result<usize> {
    check(count >= 0, MPI_ERR_COUNT, || format!("count is {count}, expected 0 or more"))?;
    Ok(count as usize)
}
