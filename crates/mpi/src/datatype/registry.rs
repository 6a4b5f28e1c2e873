//! Handles of datatypes: from a handle to its type and from a new type to its handle.

use std::rc::Rc;

use tutti_datatype::{Bounds, Buffer, Datatype, Element, Layout, Part};

use super::references::{Reference, References};
use super::{Data, Predefined, Types, checked_count, named};
use crate::abi::*;
use crate::error::{Error, Result, check};
use crate::handle::{Kind, Slab};

impl Types {
    /// The predefined types.
    pub fn new() -> Self {
        Types {
            predefined: Predefined::new(),
            made: Slab::new(Kind::Datatype),
            references: References::default(),
        }
    }

    /// A datatype by handle.
    ///
    /// # Errors
    /// MPI_ERR_TYPE when it names none.
    #[inline(always)]
    pub fn find(&self, handle: MPI_Datatype) -> Result<&Datatype> {
        match self.predefined.find(handle) {
            Some(datatype) => Ok(datatype),
            None => match self.made.find(handle.0) {
                Some(datatype) if !self.references.is_gone(handle) => Ok(datatype),
                _ => Err(bad_datatype(handle)),
            },
        }
    }

    /// A datatype by handle, to be changed.
    ///
    /// # Errors
    /// MPI_ERR_TYPE when it names none.
    pub fn find_mut(&mut self, handle: MPI_Datatype) -> Result<&mut Datatype> {
        match self.predefined.find_mut(handle) {
            Some(datatype) => Ok(datatype),
            None if self.references.is_gone(handle) => Err(bad_datatype(handle)),
            None => self.made.find_mut(handle.0).ok_or_else(|| bad_datatype(handle)),
        }
    }

    /// Makes a type ready for communication.
    ///
    /// # Errors
    /// MPI_ERR_TYPE when the handle names none.
    pub fn commit(&mut self, handle: MPI_Datatype) -> Result<()> {
        self.find_mut(handle)?.commit(crate::check_mode::is_on());
        Ok(())
    }

    /// Layout of a type, to make another one of it.
    ///
    /// # Errors
    /// MPI_ERR_TYPE when the handle names none.
    pub fn layout(&self, handle: MPI_Datatype) -> Result<Rc<Layout>> {
        Ok(self.find(handle)?.layout.clone())
    }

    /// The same for a member of a structure, which may be one of the markers MPI_LB and MPI_UB of MPI-1.
    ///
    /// # Errors
    /// MPI_ERR_TYPE when the handle names none.
    pub fn layout_or_marker(&self, handle: MPI_Datatype) -> Result<Rc<Layout>> {
        let bounds = match handle {
            MPI_LB => Bounds::LOWER_MARKER,
            MPI_UB => Bounds::UPPER_MARKER,
            _ => return self.layout(handle),
        };
        Ok(Rc::new(named(handle, Part { bounds, ..Part::empty() })))
    }

    /// A handle for a new type.
    pub fn add(&mut self, datatype: Datatype) -> MPI_Datatype {
        self.remove_gone();
        let index = self.made.insert(datatype);
        MPI_Datatype(self.made.handle(index))
    }

    /// A handle for a part of another type's contents: its own when it is predefined, else a new one.
    pub fn handle_of(&mut self, layout: &Rc<Layout>) -> MPI_Datatype {
        match layout.handle {
            Some(handle) => MPI_Datatype(handle),
            None => self.add(Datatype::new(layout.clone())),
        }
    }

    /// Checks that a type may be freed.
    ///
    /// # Errors
    /// MPI_ERR_TYPE when the handle names no type, or a predefined one.
    pub fn check_not_predefined(&self, handle: MPI_Datatype) -> Result<()> {
        let datatype = self.find(handle)?;
        if self.references.has_freed(handle) {
            return Err(bad_datatype(handle));
        }
        check(!datatype.is_predefined(), MPI_ERR_TYPE, || {
            let name = String::from_utf8_lossy(&datatype.name);
            format!("datatype {:#x} {name} is predefined and cannot be freed", handle.0)
        })
    }

    /// Lets go of a handle. Whatever uses the type keeps what it needs, the handle too ([`Types::refer`]).
    ///
    /// # Errors
    /// MPI_ERR_TYPE when it names no type, or a predefined one.
    pub fn free(&mut self, handle: MPI_Datatype) -> Result<()> {
        self.check_not_predefined(handle)?;
        let index = self.made.index(handle.0).expect("a type that is not predefined is in the slab");
        self.remove_gone();
        if !self.references.free(handle) {
            self.made.remove(index);
        }
        Ok(())
    }

    /// A reference to a handle, for an operation that gives it to a function of the program; none of a
    /// predefined type, whose handle is always there.
    pub fn refer(&self, handle: MPI_Datatype) -> Option<Reference> {
        let datatype = self.find(handle).ok().filter(|datatype| !datatype.is_predefined());
        datatype.map(|_| self.references.refer(handle))
    }

    /// Whether the program has freed a type whose handle a pending operation may need.
    pub(crate) fn has_freed(&self, handle: MPI_Datatype) -> bool {
        self.references.has_freed(handle)
    }

    fn remove_gone(&mut self) {
        for handle in self.references.take_gone() {
            let index = self.made.index(handle).expect("a referred type is in the slab");
            self.made.remove(index);
        }
    }

    /// The types that the user has made.
    pub fn made(&self) -> &Slab<Datatype> {
        &self.made
    }

    /// A predefined type.
    #[inline(always)]
    pub fn predefined(&self, handle: MPI_Datatype) -> Option<&Datatype> {
        self.predefined.find(handle)
    }

    /// Kind of the elements of a predefined type whose elements fill memory from their address on.
    #[inline(always)]
    pub fn plain_element(&self, handle: MPI_Datatype) -> Option<Element> {
        self.predefined.plain_element(handle)
    }

    /// Bytes of one of those elements.
    #[inline(always)]
    pub fn plain_size(&self, handle: MPI_Datatype) -> Option<usize> {
        self.predefined.plain_size(handle)
    }

    /// The predefined type that all elements of a type have.
    pub fn element_of(&self, datatype: &Datatype) -> Option<Element> {
        let of_leaf = || {
            let leaf = datatype.layout.single_leaf()?;
            self.predefined.find(MPI_Datatype(leaf))?.element
        };
        // Several predefined types may be the same elements.
        datatype.element.or_else(of_leaf).or_else(|| datatype.layout.part.signature.single())
    }

    /// The data arguments of a call as a stream of bytes.
    ///
    /// # Errors
    /// MPI_ERR_COUNT, MPI_ERR_TYPE, MPI_ERR_BUFFER.
    #[inline(always)]
    pub fn buffer(&self, data: Data) -> Result<Buffer> {
        let count = checked_count(data.count)?;
        let datatype = self.find(data.datatype)?;
        if datatype.element.is_some() {
            check(!data.address.is_null() || count == 0, MPI_ERR_BUFFER, || {
                format!("the buffer is a null pointer, expected memory for {count} elements")
            })?;
        }
        Ok(datatype.buffer(data.address.cast(), count)?)
    }

    /// Contiguous data of a predefined type: address and bytes. `None` for anything else, wrong arguments
    /// included.
    #[inline(always)]
    pub fn plain(&self, data: Data) -> Option<(*mut u8, usize)> {
        let size = self.predefined.plain_size(data.datatype)?;
        let count = usize::try_from(data.count).ok().filter(|&count| count < 1 << 20)?;
        if data.address.is_null() {
            core::hint::cold_path();
            if count > 0 {
                return None;
            }
        }
        Some((data.address.cast(), count * size))
    }
}

impl Default for Types {
    fn default() -> Self {
        Self::new()
    }
}

#[cold]
fn bad_datatype(handle: MPI_Datatype) -> Error {
    let what = if handle == MPI_DATATYPE_NULL { "is MPI_DATATYPE_NULL" } else { "is freed or was never one" };
    Error::new(MPI_ERR_TYPE, format_args!("datatype {:#x} {what}", handle.0))
}
