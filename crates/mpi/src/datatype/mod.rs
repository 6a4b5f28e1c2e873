//! Datatypes (MPI chapter 5): handles, argument checks and errors around [`tutti_datatype`].
//!
//! A handle names a [`tutti_datatype::Datatype`], predefined ([`predefined`], [`fortran`]) or made by the
//! user; [`Types`] has both ([`registry`]). The constructors ([`constructors`], [`arrays`]) check what the
//! user gives and put layouts together; [`references`] keep handles for pending operations; [`moved`] has
//! what ranks that move hand over.

pub mod arrays;
pub mod constructors;
pub mod fortran;
pub(crate) mod moved;
pub mod predefined;
pub mod references;
pub mod registry;
mod remade;

#[cfg(test)]
mod tests;

use core::ffi::c_void;

use tutti_datatype::{Datatype, Description, Layout, Part, TooLarge};

use crate::abi::*;
use crate::error::{Error, Result, check};
use crate::handle::Slab;
pub use predefined::Predefined;
pub use references::Reference;
pub(crate) use remade::remade;

/// The datatypes of a process.
#[derive(Debug)]
pub struct Types {
    predefined: Predefined,
    made: Slab<Datatype>,
    references: references::References,
}

/// A call that reaches datatypes.
pub trait HasTypes {
    /// Datatypes.
    fn types(&self) -> &Types;

    /// Datatypes, to be changed.
    fn types_mut(&mut self) -> &mut Types;
}

/// The data arguments of a call.
#[derive(Clone, Copy, Debug)]
pub struct Data {
    /// Address.
    pub address: *mut c_void,
    /// Number of elements.
    pub count: i64,
    /// Type of the elements.
    pub datatype: MPI_Datatype,
}

impl Data {
    /// Data of a call, whatever the kind of its counts.
    #[inline(always)]
    pub fn new(address: *const c_void, count: impl Into<i64>, datatype: MPI_Datatype) -> Self {
        Data { address: address.cast_mut(), count: count.into(), datatype }
    }
}

/// The layout of a predefined type.
pub fn named(handle: MPI_Datatype, part: Part) -> Layout {
    let description = Description { combiner: MPI_COMBINER_NAMED, ..Description::default() };
    Layout { part, description, handle: Some(handle.0) }
}

impl From<tutti_datatype::Error> for Error {
    #[cold]
    fn from(error: tutti_datatype::Error) -> Self {
        let class = match error {
            tutti_datatype::Error::NotCommitted => MPI_ERR_TYPE,
            tutti_datatype::Error::TooMany(_) => MPI_ERR_COUNT,
        };
        Error::new(class, error)
    }
}

impl From<TooLarge> for Error {
    #[cold]
    fn from(_: TooLarge) -> Self {
        Error::new(MPI_ERR_COUNT, "the type would be larger than can be described")
    }
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
