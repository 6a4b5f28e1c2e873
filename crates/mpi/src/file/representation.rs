//! How data look in a file (MPI 14.5): native, internal, external32, and what users have registered.
//!
//! Data in a representation other than native are converted as a whole, in memory of their own, before they
//! are written or behind their being read.

use std::ffi::c_void;
use std::fmt;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};

use core::ffi::c_int;

use tutti_datatype::node::Node;
use tutti_datatype::{Bounds, Buffer, Layout, Part, Signature, external};

use crate::abi::*;
use crate::datatype::constructors::Form;
use crate::datatype::{Reference, remade};
use crate::error::{Error, Result, check};

/// A representation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Representation {
    /// As in memory.
    Native,
    /// The same, under the other name.
    Internal,
    /// Representation of the standard.
    External32,
    /// One that the user has registered.
    User(Registered),
}

/// Representation that a user has registered (14.5.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    name: Vec<u8>,
    /// Address of the function that reads, or 0.
    read: usize,
    /// Address of the function that writes, or 0.
    write: usize,
    /// Address of the function that tells the extent of a type in the file.
    extent: usize,
    /// The user's pointer.
    state: usize,
    /// The functions count with MPI_Count.
    form: Form,
}

static REGISTERED: Mutex<Vec<Registered>> = Mutex::new(Vec::new());

const NATIVE: &[u8] = b"native";
const INTERNAL: &[u8] = b"internal";
const EXTERNAL32: &[u8] = b"external32";

/// Keeps a representation of the user.
///
/// # Errors
/// MPI_ERR_ARG when the name is too long or the extent function missing; MPI_ERR_DUP_DATAREP when there is
/// one of this name.
pub fn register(
    name: &[u8],
    read: usize,
    write: usize,
    extent: usize,
    state: usize,
    form: Form,
) -> Result<()> {
    let room = MPI_MAX_DATAREP_STRING as usize;
    check(!name.is_empty() && name.len() < room, MPI_ERR_ARG, || {
        format!("datarep has {} bytes, expected 1 to {}", name.len(), room - 1)
    })?;
    check(extent != 0, MPI_ERR_ARG, || "dtype_file_extent_fn is a null pointer".into())?;
    let mut registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    let is_known =
        [NATIVE, INTERNAL, EXTERNAL32].contains(&name) || registered.iter().any(|one| one.name == name);
    check(!is_known, MPI_ERR_DUP_DATAREP, || {
        format!("there is a data representation \"{}\" already", String::from_utf8_lossy(name))
    })?;
    registered.push(Registered { name: name.into(), read, write, extent, state, form });
    Ok(())
}

/// How deep types may be nested for a conversion.
const DEPTH_MAX: usize = 5000;

/// Calls a function of the user without the lock.
pub type Unlocked<'a> = dyn Fn(&mut dyn FnMut()) + 'a;

impl Representation {
    /// The one of a name.
    ///
    /// # Errors
    /// MPI_ERR_UNSUPPORTED_DATAREP.
    pub fn of_name(name: &[u8]) -> Result<Representation> {
        let registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
        match name {
            NATIVE => Ok(Representation::Native),
            INTERNAL => Ok(Representation::Internal),
            EXTERNAL32 => Ok(Representation::External32),
            _ => match registered.iter().find(|one| one.name == name) {
                Some(found) => Ok(Representation::User(found.clone())),
                None => Err(Error::new(
                    MPI_ERR_UNSUPPORTED_DATAREP,
                    format_args!("datarep is \"{}\", which is not registered", String::from_utf8_lossy(name)),
                )),
            },
        }
    }

    /// Name of the representation.
    pub fn name(&self) -> &[u8] {
        match self {
            Representation::Native => NATIVE,
            Representation::Internal => INTERNAL,
            Representation::External32 => EXTERNAL32,
            Representation::User(registered) => &registered.name,
        }
    }

    /// Whether data in the file are the same as in memory.
    pub fn is_plain(&self) -> bool {
        matches!(self, Representation::Native | Representation::Internal)
    }

    /// The places of a type's data in the file: those of its basic types have other sizes there, and what its
    /// constructors place by extents moves.
    ///
    /// # Errors
    /// What the user's extent function returns; MPI_ERR_TYPE when types are nested too deep.
    pub fn part(&self, layout: &Layout, unlocked: &Unlocked<'_>) -> Result<Part> {
        match self {
            Representation::Native | Representation::Internal => Ok(layout.part.clone()),
            Representation::External32 => Ok(rebuilt(layout, 0, &|leaf| {
                let bytes = external::external_size(&leaf.part.signature).unwrap_or(0);
                Ok(of_bytes(leaf, bytes))
            })?
            .part
            .clone()),
            Representation::User(user) => Ok(rebuilt(layout, 0, &|leaf| {
                let handle = MPI_Datatype(leaf.handle.unwrap_or(MPI_BYTE.0));
                Ok(of_bytes(leaf, user.extent_of(handle, unlocked)?))
            })?
            .part
            .clone()),
        }
    }
}

/// A basic type that has so many bytes in the file.
fn of_bytes(leaf: &Layout, bytes: i128) -> Part {
    let node = (bytes > 0).then(|| Node::run(0, bytes as usize));
    Part { bounds: Bounds::basic(bytes as usize, 1), node, ..leaf.part.clone() }
}

/// The type, made anew of other basic types.
fn rebuilt(layout: &Layout, depth: usize, leaf: &dyn Fn(&Layout) -> Result<Part>) -> Result<Rc<Layout>> {
    check(depth < DEPTH_MAX, MPI_ERR_TYPE, || format!("the datatype is nested {DEPTH_MAX} times"))?;
    let of = &layout.description;
    if layout.handle.is_some() || of.types.is_empty() {
        let part = if layout.part.bounds.size > 0 { leaf(layout)? } else { layout.part.clone() };
        return Ok(Rc::new(Layout { part, description: Default::default(), handle: layout.handle }));
    }
    let types: Vec<Rc<Layout>> =
        of.types.iter().map(|one| rebuilt(one, depth + 1, leaf)).collect::<Result<_>>()?;
    Ok(Rc::new(remade(of, types)?))
}

impl Registered {
    fn extent_of(&self, handle: MPI_Datatype, unlocked: &Unlocked<'_>) -> Result<i128> {
        let (mut extent, mut code): (MPI_Aint, c_int) = (0, MPI_SUCCESS);
        unlocked(&mut || {
            // SAFETY: the user registered this address as that of such a function; no lock is held and
            // nothing of the process is borrowed.
            code = unsafe {
                let function = std::mem::transmute::<usize, MPI_Datarep_extent_function_fn>(self.extent);
                function(handle, &raw mut extent, std::ptr::with_exposed_provenance_mut(self.state))
            };
        });
        check(code == MPI_SUCCESS, code, || {
            format!("the extent function of \"{}\" failed", String::from_utf8_lossy(&self.name))
        })?;
        check(extent >= 0, MPI_ERR_CONVERSION, || {
            format!("the extent function of \"{}\" said {extent}", String::from_utf8_lossy(&self.name))
        })?;
        Ok(extent as i128)
    }
}

/// The user's data, as the arguments of an access name them.
#[derive(Clone, Debug)]
pub struct Data {
    /// As a stream of bytes.
    pub buffer: Buffer,
    /// Address of the data.
    pub address: *mut c_void,
    /// How many elements.
    pub count: i64,
    /// Handle of their type.
    pub datatype: MPI_Datatype,
    /// Keeps the handle for a function of the user.
    pub reference: Option<Reference>,
    /// Layout of the type.
    pub layout: Rc<Layout>,
}

/// Data on the way between memory and file.
pub struct Converted {
    data: Data,
    /// The data as they are in the file.
    stage: Vec<u8>,
    /// Bytes of an element in memory and in the file.
    element: (usize, usize),
    how: How,
}

enum How {
    External(Signature),
    User(Registered),
}

impl fmt::Debug for Converted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Converted").field("data", &self.data).finish_non_exhaustive()
    }
}

impl Converted {
    /// Room for data in the file's representation; none when they look the same in memory.
    ///
    /// # Errors
    /// As [`Representation::part`]; MPI_ERR_COUNT, MPI_ERR_NO_MEM.
    pub fn new(
        representation: &Representation,
        data: &Data,
        is_write: bool,
        unlocked: &Unlocked<'_>,
    ) -> Result<Option<Converted>> {
        let how = match representation {
            Representation::Native | Representation::Internal => return Ok(None),
            Representation::External32 => {
                let signature = data.layout.part.signature.repeat(data.count.into());
                How::External(signature.ok_or_else(too_many)?)
            }
            Representation::User(user) if (if is_write { user.write } else { user.read }) == 0 => {
                return Ok(None);
            }
            Representation::User(user) => How::User(user.clone()),
        };
        let each = representation.part(&data.layout, unlocked)?.bounds.size;
        let bytes = each.checked_mul(data.count.into()).and_then(|bytes| usize::try_from(bytes).ok());
        let bytes = bytes.ok_or_else(too_many)?;
        let mut stage = Vec::new();
        stage
            .try_reserve_exact(bytes)
            .map_err(|_| Error::new(MPI_ERR_NO_MEM, format_args!("no memory to convert {bytes} bytes")))?;
        stage.resize(bytes, 0);
        let element = (data.layout.part.bounds.size as usize, each as usize);
        Ok(Some(Converted { data: data.clone(), stage, element, how }))
    }

    /// The data in the file's representation.
    pub fn buffer(&mut self) -> Buffer {
        Buffer::contiguous(self.stage.as_mut_ptr(), self.stage.len())
    }

    /// Converts the user's data for the file.
    ///
    /// # Errors
    /// What the user's function returns.
    pub fn write_out(&mut self, unlocked: &Unlocked<'_>) -> Result<()> {
        match &self.how {
            How::External(signature) => {
                // SAFETY: the stage has the external size of all the data, which are the user's.
                unsafe { external::pack(&self.data.buffer, signature, self.stage.as_mut_ptr()) };
                Ok(())
            }
            How::User(user) => {
                let at = self.stage.as_mut_ptr();
                user.convert(user.write, &self.data, self.data.count, at, unlocked)
            }
        }
    }

    /// Converts what has come from the file; gives the bytes of the user's data.
    ///
    /// # Errors
    /// What the user's function returns.
    pub fn read_in(&mut self, bytes: usize, unlocked: &Unlocked<'_>) -> Result<usize> {
        match &self.how {
            How::External(signature) => {
                // SAFETY: so many bytes of the stage have been read; the data are the user's.
                Ok(unsafe { external::unpack_part(&self.data.buffer, signature, self.stage.as_ptr(), bytes) })
            }
            How::User(user) => {
                let count = bytes / self.element.1.max(1);
                let at = self.stage.as_mut_ptr();
                if count > 0 {
                    user.convert(user.read, &self.data, count as i64, at, unlocked)?;
                }
                Ok(count * self.element.0)
            }
        }
    }

    /// Bytes of the user's data that so many bytes of the file stand for.
    pub fn native_bytes(&self, bytes: usize) -> usize {
        if bytes >= self.stage.len() {
            return self.data.buffer.bytes;
        }
        bytes / self.element.1.max(1) * self.element.0
    }
}

impl Registered {
    fn convert(
        &self,
        function: usize,
        data: &Data,
        count: i64,
        at: *mut u8,
        unlocked: &Unlocked<'_>,
    ) -> Result<()> {
        let mut code = MPI_SUCCESS;
        let state = std::ptr::with_exposed_provenance_mut(self.state);
        let (address, datatype) = (data.address, data.datatype);
        check(self.form == Form::Large || count <= c_int::MAX.into(), MPI_ERR_COUNT, || {
            format!("{count} elements are too many for a conversion function of int counts")
        })?;
        unlocked(&mut || {
            // SAFETY: the user registered this address as that of such a function; the data are the user's
            // and the stage has room for them in the file's representation. No lock is held and nothing of
            // the process is borrowed.
            code = unsafe {
                match self.form {
                    Form::Int => {
                        let function =
                            std::mem::transmute::<usize, MPI_Datarep_conversion_function_fn>(function);
                        function(address, datatype, count as c_int, at.cast(), 0, state)
                    }
                    Form::Large => {
                        let function =
                            std::mem::transmute::<usize, MPI_Datarep_conversion_function_c_fn>(function);
                        function(address, datatype, count, at.cast(), 0, state)
                    }
                }
            };
        });
        check(code == MPI_SUCCESS, MPI_ERR_CONVERSION, || {
            format!("the conversion function of \"{}\" returned {code}", String::from_utf8_lossy(&self.name))
        })
    }
}

#[cold]
fn too_many() -> Error {
    Error::new(MPI_ERR_COUNT, "the data are more than can be converted")
}
