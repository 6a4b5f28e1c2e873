//! Buffers of `mpi_f08`: array descriptors as the Fortran standard has them (18.5 of Fortran 2018).
//!
//! What lies side by side is handed over by its address. Any other section is handed over where it lies, as
//! one element of a datatype made for it, or copied to one place and back.

use crate::abi::*;
use crate::{c, sentinels};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

/// `CFI_cdesc_t`, as far as all compilers agree: what lies between `rank` and the dimensions differs.
#[repr(C)]
pub struct Descriptor {
    /// Of the first element.
    pub(crate) address: *mut c_void,
    /// Bytes of an element.
    pub(crate) element_bytes: usize,
    version: c_int,
    rank: i8,
    differing: [u8; 3],
    dimensions: [Dimension; 0],
}

/// `CFI_dim_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Dimension {
    lower_bound: isize,
    /// Elements; -1 for the last dimension of an array of assumed size.
    extent: isize,
    /// Bytes from one to the next.
    stride: isize,
}

const _: () = assert!(core::mem::offset_of!(Descriptor, dimensions) == 24 && size_of::<Dimension>() == 24);

impl Descriptor {
    unsafe fn dimensions(&self) -> &[Dimension] {
        // SAFETY: as many follow the head.
        unsafe {
            core::slice::from_raw_parts(self.dimensions.as_ptr(), usize::try_from(self.rank).unwrap_or(0))
        }
    }

    /// Whether its elements lie side by side.
    #[inline(always)]
    unsafe fn is_contiguous(&self) -> bool {
        let mut stride = self.element_bytes as isize;
        // SAFETY: our contract.
        for dimension in unsafe { self.dimensions() } {
            if dimension.stride != stride && dimension.extent != 1 {
                // SAFETY: as above.
                return unsafe { self.elements() } == Some(0);
            }
            stride *= dimension.extent;
        }
        true
    }

    /// Number of its elements; none for an array of assumed size.
    unsafe fn elements(&self) -> Option<usize> {
        // SAFETY: our contract.
        let dimensions = unsafe { self.dimensions() };
        let assumed = dimensions.last().is_some_and(|last| last.extent == -1);
        (!assumed).then(|| dimensions.iter().map(|d| usize::try_from(d.extent).unwrap_or(0)).product())
    }
}

/// A datatype made for a section, until C has it.
pub(crate) struct Mapped(Option<MPI_Datatype>);

impl Mapped {
    /// Count and datatype for C.
    #[inline(always)]
    pub(crate) fn instead<N: From<bool>>(&self, count: N, datatype: MPI_Datatype) -> (N, MPI_Datatype) {
        match self.0 {
            None => (count, datatype),
            Some(datatype) => (N::from(true), datatype),
        }
    }
}

impl Drop for Mapped {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(mut datatype) = self.0 {
            // SAFETY: it was made here; what C has started keeps it alive.
            unsafe { c::PMPI_Type_free(&mut datatype) };
        }
    }
}

/// A buffer where it lies: its address, and a datatype if it needs one.
#[inline(always)]
pub(crate) unsafe fn map(
    descriptor: *const Descriptor,
    count: MPI_Count,
    datatype: MPI_Datatype,
) -> Result<(*mut c_void, Mapped), c_int> {
    // SAFETY: the compiler hands over a descriptor.
    unsafe {
        if (*descriptor).is_contiguous() {
            return Ok((sentinels::buffer((*descriptor).address), Mapped(None)));
        }
        map_section(descriptor, count, datatype)
    }
}

#[cold]
unsafe fn map_section(
    descriptor: *const Descriptor,
    count: MPI_Count,
    datatype: MPI_Datatype,
) -> Result<(*mut c_void, Mapped), c_int> {
    type Make =
        unsafe extern "C-unwind" fn(*const Descriptor, MPI_Count, MPI_Datatype, *mut MPI_Datatype) -> c_int;
    static MAKE: AtomicUsize = AtomicUsize::new(usize::MAX);
    let Some(function) = optional(&MAKE, c"tutti_section_type") else {
        return Err(refuse("a section of an array that is not contiguous", "this MPI library"));
    };
    let mut made = MPI_DATATYPE_NULL;
    // SAFETY: the C library's own function; the compiler hands over a descriptor.
    unsafe {
        let make = core::mem::transmute::<usize, Make>(function);
        let code = make(descriptor, count, datatype, &mut made);
        if code == MPI_SUCCESS { Ok(((*descriptor).address, Mapped(Some(made)))) } else { Err(code) }
    }
}

/// A function of our C library, which another one has not.
pub(crate) fn optional(place: &AtomicUsize, name: &core::ffi::CStr) -> Option<usize> {
    unsafe extern "C" {
        fn dlsym(handle: *mut c_void, name: *const core::ffi::c_char) -> *mut c_void;
    }
    let mut address = place.load(Ordering::Relaxed);
    if address == usize::MAX {
        // SAFETY: a null handle means all libraries of the program.
        address = unsafe { dlsym(core::ptr::null_mut(), name.as_ptr()) } as usize;
        place.store(address, Ordering::Relaxed);
    }
    (address != 0).then_some(address)
}

/// A copy of a section.
pub(crate) struct Stage {
    descriptor: *const Descriptor,
    copy: Vec<u8>,
}

/// The address of a buffer, or of a copy of it whose elements lie side by side.
#[inline(always)]
pub(crate) unsafe fn stage(descriptor: *const Descriptor) -> (Option<Stage>, *mut c_void) {
    // SAFETY: the compiler hands over a descriptor.
    unsafe {
        if (*descriptor).is_contiguous() {
            return (None, sentinels::buffer((*descriptor).address));
        }
        let mut stage = Stage { descriptor, copy: Vec::new() };
        stage.copy_in();
        let address = stage.copy.as_mut_ptr().cast();
        (Some(stage), address)
    }
}

/// Copies back what C has written.
pub(crate) unsafe fn unstage(stage: Option<Stage>) {
    if let Some(stage) = stage {
        // SAFETY: the section is still there while the call lasts.
        unsafe { stage.copy_out() };
    }
}

impl Stage {
    #[cold]
    unsafe fn copy_in(&mut self) {
        // SAFETY: the descriptor describes memory of the caller.
        unsafe {
            let bytes = (*self.descriptor).element_bytes;
            self.copy.reserve_exact((*self.descriptor).elements().unwrap_or(0) * bytes);
            let copy = &mut self.copy;
            for_each_element(&*self.descriptor, |address| {
                copy.extend_from_slice(core::slice::from_raw_parts(address, bytes));
            });
        }
    }

    #[cold]
    unsafe fn copy_out(&self) {
        // SAFETY: as above.
        unsafe {
            let bytes = (*self.descriptor).element_bytes;
            let mut from = self.copy.as_ptr();
            for_each_element(&*self.descriptor, |address| {
                core::ptr::copy_nonoverlapping(from, address, bytes);
                from = from.add(bytes);
            });
        }
    }
}

/// Calls `visit` with the address of each element, in the order of the array.
unsafe fn for_each_element(descriptor: &Descriptor, mut visit: impl FnMut(*mut u8)) {
    // SAFETY: our contract.
    let dimensions = unsafe { descriptor.dimensions() };
    let mut index = vec![0_isize; dimensions.len()];
    let mut address = descriptor.address.cast::<u8>();
    // SAFETY: as above.
    for _ in 0..unsafe { descriptor.elements() }.unwrap_or(0) {
        visit(address);
        for (at, dimension) in index.iter_mut().zip(dimensions) {
            *at += 1;
            address = address.wrapping_offset(dimension.stride);
            if *at < dimension.extent {
                break;
            }
            address = address.wrapping_offset(-dimension.stride * *at);
            *at = 0;
        }
    }
}

/// The address of a buffer that must be contiguous.
#[inline(always)]
pub(crate) unsafe fn contiguous(
    descriptor: *const Descriptor,
    function: &str,
    argument: &str,
) -> Result<*mut c_void, c_int> {
    // SAFETY: the compiler hands over a descriptor.
    unsafe {
        if (*descriptor).is_contiguous() {
            return Ok(sentinels::buffer((*descriptor).address));
        }
    }
    Err(refuse(&format!("{argument} is an array section that is not contiguous"), function))
}

/// Says what cannot be done, and raises an error.
#[cold]
pub(crate) fn refuse(what: &str, function: &str) -> c_int {
    eprintln!("tutti: {function}: {what}: give it a contiguous array");
    // SAFETY: a predefined communicator.
    unsafe { c::PMPI_Comm_call_errhandler(MPI_COMM_SELF, MPI_ERR_BUFFER) };
    MPI_ERR_BUFFER
}
