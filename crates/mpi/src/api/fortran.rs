//! Functions that the Fortran bindings need of this library beyond those of C: array sections, and the
//! language of attributes. The bindings find them by name, so they also load over another library of the
//! binary interface.

use core::ffi::{CStr, c_char, c_int, c_void};
use std::rc::Rc;

use tutti_datatype::{Datatype, Description, Layout, Misfit, Section};

use crate::abi::*;
use crate::argument::put;
use crate::attributes;
use crate::check_mode;
use crate::collective::stage::{Elements, Stage};
use crate::datatype::{Types, checked_count};
use crate::error::{Error, Result, check};
use crate::process::entry::{Raised, call_on};
use crate::sections;

/// A dimension of an array descriptor (`CFI_dim_t`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Dimension {
    lower_bound: isize,
    extent: isize,
    stride: isize,
}

/// An array descriptor (`CFI_cdesc_t`), as far as all compilers agree.
#[repr(C)]
#[derive(Debug)]
pub struct Descriptor {
    address: *mut c_void,
    element_bytes: usize,
    version: c_int,
    rank: i8,
    differing: [u8; 3],
    dimensions: [Dimension; 0],
}

/// Dimensions of an array, at most (5.4.6 of Fortran 2018).
const RANK_MAX: i8 = 15;

/// A call of the user: its function, and the object on which its errors are raised.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// Name of the function of C; stays for ever.
    function: *const c_char,
    /// Kind of the object: a number of [`Caller::object`].
    kind: c_int,
    /// Handle of the object.
    object: usize,
}

impl Caller {
    /// # Safety
    /// The name is a text that stays.
    unsafe fn name(self) -> &'static CStr {
        // SAFETY: our contract.
        unsafe { CStr::from_ptr(self.function) }
    }

    fn object(self) -> Raised {
        match self.kind {
            1 => Raised::Win(MPI_Win(self.object)),
            2 => Raised::File(MPI_File(self.object)),
            3 => Raised::Session(MPI_Session(self.object)),
            _ => Raised::Comm(MPI_Comm(self.object)),
        }
    }
}

/// Makes a committed type, of which one element at the section's address is `count` elements of `datatype` in
/// the section.
///
/// # Safety
/// `caller` and `descriptor` are those of the bindings.
pub unsafe fn section_type(
    caller: Caller,
    descriptor: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    // SAFETY: our contract.
    unsafe {
        call_on(caller.name(), caller.object(), |guard| {
            let section = read(descriptor.cast::<Descriptor>())?;
            let made = make(&guard.types, section, count, datatype)?;
            let made = guard.types.add(made);
            // The caller gives a place for the handle.
            put(newtype, "newtype", made)
        })
    }
}

/// Raises that a buffer, which must be contiguous, is a section that is not.
///
/// # Safety
/// `caller` is one of the bindings, `argument` a text.
pub unsafe fn refuse_section(caller: Caller, argument: *const c_char) -> c_int {
    // SAFETY: our contract.
    unsafe {
        call_on(caller.name(), caller.object(), |_| {
            let argument = CStr::from_ptr(argument).to_string_lossy();
            let text = format_args!(
                "{argument} is an array section that is not contiguous; give it a contiguous array"
            );
            Err(Error::new(MPI_ERR_BUFFER, text))
        })
    }
}

/// Copies `number` sections for an operation that ends later; gives the addresses of the copies and what
/// [`attach_stage`] takes.
///
/// # Safety
/// As many descriptors, numbers that are not 0 for those that the operation writes, and places for addresses.
pub unsafe fn stage_sections(
    number: usize,
    descriptors: *const *const c_void,
    are_written: *const u8,
    addresses: *mut *mut c_void,
) -> *mut c_void {
    let mut stage = Stage::default();
    // SAFETY: our contract.
    unsafe {
        for i in 0..number {
            let descriptor = descriptors.add(i).read().cast::<Descriptor>();
            let size = |extent| usize::try_from(extent).unwrap_or(0);
            let section = Elements {
                address: (*descriptor).address.cast(),
                bytes: (*descriptor).element_bytes,
                dimensions: dimensions(descriptor).iter().map(|d| (size(d.extent), d.stride)).collect(),
            };
            let copy = stage.add(section, are_written.add(i).read() != 0);
            addresses.add(i).write(copy.cast());
        }
        stage.begin();
    }
    Box::into_raw(Box::new(stage)).cast()
}

/// Leaves staged sections with the request of their operation; null when it has not begun.
///
/// # Safety
/// `stage` is from [`stage_sections`] and given once, `caller` one of the bindings.
pub unsafe fn attach_stage(caller: Caller, stage: *mut c_void, request: *const MPI_Request) -> c_int {
    // SAFETY: our contract.
    unsafe {
        let stage = *Box::from_raw(stage.cast::<Stage>());
        if request.is_null() {
            return MPI_SUCCESS;
        }
        call_on(caller.name(), caller.object(), |guard| {
            let process = &mut **guard;
            let (starts, colls) = (&mut process.persistents, &mut process.colls);
            sections::attach_stage(&process.engine, starts, colls, stage, request.read())
        })
    }
}

/// The data of a partitioned message, all `count` elements of it, lie in a section.
///
/// # Safety
/// `caller` and `descriptor` are those of the bindings.
pub unsafe fn attach_partitions(
    caller: Caller,
    descriptor: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    request: MPI_Request,
) -> c_int {
    // SAFETY: our contract.
    unsafe {
        call_on(caller.name(), caller.object(), |guard| {
            let descriptor = descriptor.cast::<Descriptor>();
            let made = make(&guard.types, read(descriptor)?, count, datatype)?;
            let whole = made.buffer((*descriptor).address.cast(), 1)?;
            guard.engine.attach_partitions(whole, request)
        })
    }
}

/// # Safety
/// The descriptor is one of a Fortran compiler, whose rank is not negative.
unsafe fn dimensions<'a>(descriptor: *const Descriptor) -> &'a [Dimension] {
    // SAFETY: our contract.
    unsafe {
        let all = (&raw const (*descriptor).dimensions).cast::<Dimension>();
        std::slice::from_raw_parts(all, usize::try_from((*descriptor).rank).unwrap_or(0))
    }
}

/// The section, and its bytes if they are limited.
unsafe fn read(descriptor: *const Descriptor) -> Result<(Section, Option<usize>)> {
    // SAFETY: our contract.
    let (element_bytes, dimensions) = unsafe {
        let rank = if descriptor.is_null() { -1 } else { (*descriptor).rank };
        check((0..=RANK_MAX).contains(&rank), MPI_ERR_BUFFER, || {
            "the buffer is no array that this library can read".into()
        })?;
        let dimensions = dimensions(descriptor);
        ((*descriptor).element_bytes, dimensions.iter().map(|d| (d.extent, d.stride)).collect::<Vec<_>>())
    };
    Section::new(element_bytes, &dimensions)
        .ok_or_else(|| Error::new(MPI_ERR_BUFFER, "the array section has no elements, or too many"))
}

fn make(
    types: &Types,
    (section, bytes): (Section, Option<usize>),
    count: i64,
    datatype: MPI_Datatype,
) -> Result<Datatype> {
    checked_count(count)?;
    let old = types.find(datatype)?;
    check(old.is_committed(), MPI_ERR_TYPE, || format!("datatype {:#x} is not committed", datatype.0))?;
    let layout = old.layout.clone();
    let part = layout.part.through(count, &section, bytes).map_err(|misfit| match misfit {
        Misfit::Outside(at, room) => Error::new(
            MPI_ERR_BUFFER,
            format_args!("the data reach byte {at} of an array section that has {room}"),
        ),
        Misfit::TooLarge => Error::new(MPI_ERR_COUNT, "the data are larger than can be described"),
    })?;
    // Its contents say what the data are: so many elements of the type.
    let description = Description {
        combiner: MPI_COMBINER_CONTIGUOUS,
        integers: c_int::try_from(count).into_iter().collect(),
        counts: if c_int::try_from(count).is_err() { vec![count] } else { Vec::new() },
        types: vec![layout],
        ..Description::default()
    };
    let mut made = Datatype::new(Rc::new(Layout { part, description, handle: None }));
    made.commit(check_mode::is_on());
    Ok(made)
}

/// From which language the next calls about attributes come: 0 is C, 1 is Fortran, 2 is Fortran with INTEGER.
pub fn attribute_language(number: c_int) {
    attributes::set_language(number);
}
