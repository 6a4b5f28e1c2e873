//! Variables of the library that programs and MPICH's Fortran library read or write, and the predefined copy
//! function, which is a function there.

use crate::abi::*;
use crate::status::Status;
use core::ffi::{c_int, c_void};
use core::ptr::without_provenance_mut;

macro_rules! variables {
    ($($(#[$about:meta])* $name:ident: $class:ty = $value:expr;)*) => { $(
        $(#[$about])*
        // SAFETY: the name is that of MPICH's library, for which this one stands.
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals, reason = "a symbol")]
        pub static mut $name: $class = $value;
    )* };
}

variables! {
    /// Weights that are left out: our number, which no address is.
    MPI_UNWEIGHTED: *mut c_int = MPI_UNWEIGHTED_NUMBER;
    MPI_WEIGHTS_EMPTY: *mut c_int = MPI_WEIGHTS_EMPTY_NUMBER;
    MPIR_C_MPI_UNWEIGHTED: *mut c_int = MPI_UNWEIGHTED_NUMBER;
    MPIR_C_MPI_WEIGHTS_EMPTY: *mut c_int = MPI_WEIGHTS_EMPTY_NUMBER;
    MPI_T_PVAR_ALL_HANDLES: *mut c_void = without_provenance_mut(1);
    /// Places of Fortran's ignored statuses; its library writes its own addresses here.
    MPI_F_STATUS_IGNORE: *mut c_int = (&raw mut MPIR_F08_MPI_STATUS_IGNORE_OBJ).cast();
    MPI_F_STATUSES_IGNORE: *mut c_int = (&raw mut MPIR_F08_MPI_STATUSES_IGNORE_OBJ).cast();
    MPI_F08_STATUS_IGNORE: *mut c_void = (&raw mut MPIR_F08_MPI_STATUS_IGNORE_OBJ).cast();
    MPI_F08_STATUSES_IGNORE: *mut c_void = (&raw mut MPIR_F08_MPI_STATUSES_IGNORE_OBJ).cast();
    MPIR_F08_MPI_STATUS_IGNORE_OBJ: [c_int; 5] = [0; 5];
    MPIR_F08_MPI_STATUSES_IGNORE_OBJ: [c_int; 5] = [0; 5];
    MPIR_F08_MPI_BOTTOM: c_int = 0;
    MPIR_F08_MPI_IN_PLACE: c_int = 0;
    MPIR_fortran_true: c_int = 1;
    MPIR_fortran_false: c_int = 0;
}

const MPI_UNWEIGHTED_NUMBER: *mut c_int = crate::abi::MPI_UNWEIGHTED;
const MPI_WEIGHTS_EMPTY_NUMBER: *mut c_int = crate::abi::MPI_WEIGHTS_EMPTY;

const _: () = assert!(size_of::<Status>() == size_of::<[c_int; 5]>());

/// Writes what MPICH's Fortran library reads in variables that it has under the same names: the loader takes
/// its own for all, and it has no value of them.
pub(crate) fn tell_fortran() {
    // SAFETY: this is before the first call of MPI, and nothing else writes them.
    unsafe {
        MPIR_C_MPI_UNWEIGHTED = MPI_UNWEIGHTED_NUMBER;
        MPIR_C_MPI_WEIGHTS_EMPTY = MPI_WEIGHTS_EMPTY_NUMBER;
    }
}

macro_rules! texts {
    ($($name:ident: $text:literal;)*) => { $(
        // SAFETY: the name is that of MPICH's library, for which this one stands.
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals, reason = "a symbol")]
        pub static $name: [u8; $text.to_bytes_with_nul().len()] = bytes($text);
    )* };
}

const fn bytes<const N: usize>(text: &core::ffi::CStr) -> [u8; N] {
    let (from, mut to, mut at) = (text.to_bytes_with_nul(), [0; N], 0);
    while at < N {
        to[at] = from[at];
        at += 1;
    }
    to
}

texts! {
    MPII_Version_ABI: c"";
    MPII_Version_CC: c"";
    MPII_Version_CXX: c"";
    MPII_Version_F77: c"";
    MPII_Version_FC: c"";
    MPII_Version_configure: c"";
    MPII_Version_custom: c"Tutti";
    MPII_Version_date: c"";
    MPII_Version_device: c"tutti";
    MPII_Version_string: c"5.0";
}

/// MPI_COMM_DUP_FN and its like: the value is copied.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn MPIR_Dup_fn(
    _object: c_int,
    _key: c_int,
    _extra_state: *mut c_void,
    value: *mut c_void,
    place: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the caller gives the places of a value and of an integer.
    unsafe {
        *place.cast::<*mut c_void>() = value;
        *flag = 1;
    }
    MPI_SUCCESS
}
