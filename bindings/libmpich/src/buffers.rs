//! Addresses and positions with a meaning.

use crate::abi::*;
use crate::handle::mpich;
use core::ffi::{c_int, c_void};

/// A pointer to data, constant or not.
pub(crate) trait Address: Copy {
    fn addr(self) -> usize;
    fn of(address: *mut c_void) -> Self;
}

impl Address for *mut c_void {
    #[inline(always)]
    fn addr(self) -> usize {
        self.addr()
    }
    #[inline(always)]
    fn of(address: *mut c_void) -> Self {
        address
    }
}

impl Address for *const c_void {
    #[inline(always)]
    fn addr(self) -> usize {
        self.addr()
    }
    #[inline(always)]
    fn of(address: *mut c_void) -> Self {
        address
    }
}

/// A buffer, or MPI_IN_PLACE.
#[inline(always)]
pub(crate) fn in_place<T: Address>(buffer: T) -> T {
    if buffer.addr() == mpich::MPI_IN_PLACE as usize { T::of(MPI_IN_PLACE) } else { buffer }
}

/// A buffer to attach, or MPI_BUFFER_AUTOMATIC.
pub(crate) fn automatic(buffer: *mut c_void) -> *mut c_void {
    if buffer.addr() == mpich::MPI_BUFFER_AUTOMATIC as usize { MPI_BUFFER_AUTOMATIC } else { buffer }
}

/// Makes the address that a detach has given theirs.
pub(crate) unsafe fn put_automatic(place: *mut c_void, code: c_int) {
    let place: *mut *mut c_void = place.cast();
    // SAFETY: the caller gives the place of an address, and ours has written it.
    unsafe {
        if code == MPI_SUCCESS && !place.is_null() && *place == MPI_BUFFER_AUTOMATIC {
            *place = core::ptr::without_provenance_mut(mpich::MPI_BUFFER_AUTOMATIC as usize);
        }
    }
}

/// A displacement in a file, or MPI_DISPLACEMENT_CURRENT.
pub(crate) fn displacement(displacement: MPI_Offset) -> MPI_Offset {
    match displacement {
        mpich::MPI_DISPLACEMENT_CURRENT => MPI_DISPLACEMENT_CURRENT,
        MPI_DISPLACEMENT_CURRENT => MPI_Offset::MIN,
        other => other,
    }
}
