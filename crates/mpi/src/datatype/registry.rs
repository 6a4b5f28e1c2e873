//! Handles of datatypes: from a handle to its type and from a new type to its handle.

use std::rc::Rc;

use tutti_datatype::{Bounds, Datatype, Layout, Part};

use super::named;
use crate::abi::*;
use crate::error::{Result, check};
use crate::process::Guard;

impl Guard {
    /// A datatype by handle, to be changed.
    ///
    /// # Errors
    /// MPI_ERR_TYPE when it names none.
    pub fn datatype_mut(&mut self, handle: MPI_Datatype) -> Result<&mut Datatype> {
        self.datatype(handle)?;
        let process = &mut **self;
        let found = match process.predefined_types.find_mut(handle) {
            Some(datatype) => Some(datatype),
            None => process.types.find_mut(handle.0),
        };
        Ok(found.expect("the handle names a type, as was just checked"))
    }

    /// What a type is made of, to make another one of it.
    ///
    /// # Errors
    /// MPI_ERR_TYPE when the handle names none.
    pub fn layout(&self, handle: MPI_Datatype) -> Result<Rc<Layout>> {
        Ok(self.datatype(handle)?.layout.clone())
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
    pub fn add_type(&mut self, datatype: Datatype) -> MPI_Datatype {
        let index = self.types.insert(datatype);
        MPI_Datatype(self.types.handle(index))
    }

    /// A handle for a part of another type's contents: its own when it is predefined, else a new one.
    pub fn handle_of(&mut self, layout: &Rc<Layout>) -> MPI_Datatype {
        match layout.handle {
            Some(handle) => MPI_Datatype(handle),
            None => self.add_type(Datatype::new(layout.clone())),
        }
    }

    /// Checks that a type may be freed.
    ///
    /// # Errors
    /// MPI_ERR_TYPE when the handle names no type, or a predefined one.
    pub fn check_not_predefined(&self, handle: MPI_Datatype) -> Result<()> {
        let datatype = self.datatype(handle)?;
        check(!datatype.is_predefined(), MPI_ERR_TYPE, || {
            let name = String::from_utf8_lossy(&datatype.name);
            format!("datatype {:#x} {name} is predefined and cannot be freed", handle.0)
        })
    }

    /// Lets go of a handle. Whatever uses the type keeps what it needs.
    ///
    /// # Errors
    /// MPI_ERR_TYPE when it names no type, or a predefined one.
    pub fn free_type(&mut self, handle: MPI_Datatype) -> Result<()> {
        self.check_not_predefined(handle)?;
        let index = self.types.index(handle.0).expect("a type that is not predefined is in the slab");
        self.types.remove(index);
        Ok(())
    }
}
