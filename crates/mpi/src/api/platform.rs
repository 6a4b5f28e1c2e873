//! MPI 9.1.3 and 20: what the library was built for: sizes of the binary interface and of Fortran, resources
//! of the machine.

use core::ffi::{c_int, c_void};

use crate::abi::*;
use crate::argument::put;
use crate::comm::machine::SHARED_MEMORY;
use crate::error::{Error, Result, check};
use crate::info::{self, Info};
use crate::process::entry::call_anytime;

/// Sizes of the types of the binary interface.
const ABI_SIZES: [(&[u8], usize); 3] = [
    (b"mpi_aint_size", size_of::<MPI_Aint>()),
    (b"mpi_count_size", size_of::<MPI_Count>()),
    (b"mpi_offset_size", size_of::<MPI_Offset>()),
];

/// Sizes of Fortran's default types, as its compilers on this platform have them.
const FORTRAN_SIZES: [(&[u8], &[u8]); 4] = [
    (b"mpi_logical_size", b"4"),
    (b"mpi_integer_size", b"4"),
    (b"mpi_real_size", b"4"),
    (b"mpi_double_precision_size", b"8"),
];

/// Fortran's types of other sizes: kind, and the sizes that there are.
const FORTRAN_KINDS: [(&str, &[u8]); 4] = [
    ("logical", &[1, 2, 4, 8, 16]),
    ("integer", &[1, 2, 4, 8, 16]),
    ("real", &[2, 4, 8, 16]),
    ("complex", &[4, 8, 16, 32]),
];

/// Sizes of the types of the binary interface.
pub(super) fn sizes() -> Result<MPI_Info> {
    let mut sizes = Info::default();
    for (key, size) in ABI_SIZES {
        sizes.set(key, size.to_string().as_bytes());
    }
    Ok(info::keep(sizes))
}

/// Sizes of Fortran's types.
pub(super) fn fortran_sizes() -> Result<MPI_Info> {
    let mut sizes = Info::default();
    for (key, size) in FORTRAN_SIZES {
        sizes.set(key, size);
    }
    for (kind, bytes) in FORTRAN_KINDS {
        for size in bytes {
            sizes.set(format!("mpi_{kind}{size}_supported").as_bytes(), b"true");
        }
    }
    sizes.set(b"mpi_double_complex_supported", b"true");
    Ok(info::keep(sizes))
}

/// Fortran bindings say which sizes they were built for: they must be ours.
pub(super) fn check_fortran_sizes(info: MPI_Info) -> Result<()> {
    info::read(info, |given| {
        for (key, size) in FORTRAN_SIZES {
            let found = given.get(key).unwrap_or(size);
            check(found == size, MPI_ERR_ABI, || {
                let [key, found, size] = [key, found, size].map(String::from_utf8_lossy);
                format!("{key} is {found}, this library was built for {size}")
            })?;
        }
        Ok(())
    })
}

/// The kinds of resource that MPI_Comm_split_type knows, and whether this process is bound to one of them.
pub(super) fn resources() -> Result<MPI_Info> {
    let mut kinds = Info::default();
    kinds.set(SHARED_MEMORY, b"true");
    Ok(info::keep(kinds))
}

/// The values of Fortran's .true. and .false., for a LOGICAL of this size.
#[inline]
pub unsafe fn MPI_Abi_get_fortran_booleans(
    logical_size: c_int,
    logical_true: *mut c_void,
    logical_false: *mut c_void,
    is_set: *mut c_int,
) -> c_int {
    call_anytime(c"MPI_Abi_get_fortran_booleans", || {
        let bytes = checked_logical(logical_size)?;
        let null = logical_true.is_null() || logical_false.is_null();
        check(!null, MPI_ERR_ARG, || "a place for a LOGICAL is a null pointer".into())?;
        // SAFETY: the user gives two places of this size and one for the flag; our numbers have 16 bytes,
        // little end first.
        unsafe {
            std::ptr::copy_nonoverlapping(TRUE.as_ptr(), logical_true.cast(), bytes);
            std::ptr::copy_nonoverlapping(FALSE.as_ptr(), logical_false.cast(), bytes);
            put(is_set, "is_set", 1)
        }
    })
}

/// Fortran bindings say what their .true. and .false. are: they must be ours.
#[inline]
pub unsafe fn MPI_Abi_set_fortran_booleans(
    logical_size: c_int,
    logical_true: *mut c_void,
    logical_false: *mut c_void,
) -> c_int {
    call_anytime(c"MPI_Abi_set_fortran_booleans", || {
        let bytes = checked_logical(logical_size)?;
        let null = logical_true.is_null() || logical_false.is_null();
        check(!null, MPI_ERR_ARG, || "a LOGICAL is a null pointer".into())?;
        // SAFETY: the user gives two values of this size.
        let (yes, no) = unsafe {
            (
                std::slice::from_raw_parts(logical_true.cast::<u8>(), bytes),
                std::slice::from_raw_parts(logical_false.cast::<u8>(), bytes),
            )
        };
        check(yes == &TRUE[..bytes] && no == &FALSE[..bytes], MPI_ERR_ABI, || {
            "this library was built for 1 as .true. and 0 as .false.".into()
        })
    })
}

const TRUE: [u8; 16] = 1_u128.to_le_bytes();
const FALSE: [u8; 16] = 0_u128.to_le_bytes();

fn checked_logical(size: c_int) -> Result<usize> {
    match size {
        1 | 2 | 4 | 8 | 16 => Ok(size as usize),
        _ => Err(Error::new(MPI_ERR_ARG, format_args!("logical_size is {size}, expected 1, 2, 4, 8 or 16"))),
    }
}
