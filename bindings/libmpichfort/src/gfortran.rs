//! Array descriptors as gfortran hands them to a procedure that is not bound to C, from version 8 on; others
//! of its kind (Intel, LLVM) link other names. They become those of the Fortran standard.

use crate::section::{Descriptor, Dimension};
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;

/// Dimensions of an array, at most.
const RANK_MAX: usize = 15;

/// gfortran's descriptor; its dimensions follow.
#[repr(C)]
pub struct Array {
    address: *mut c_void,
    offset: usize,
    element_bytes: usize,
    version: c_int,
    rank: i8,
    class: i8,
    attribute: i16,
    /// Bytes by which strides count.
    span: isize,
    dimensions: [Bounds; 0],
}

/// A dimension of it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Bounds {
    stride: isize,
    lower: isize,
    upper: isize,
}

const _: () = assert!(core::mem::offset_of!(Array, dimensions) == 40 && size_of::<Bounds>() == 24);

/// A descriptor of the Fortran standard, made of one of gfortran.
#[repr(C)]
pub(crate) struct Section {
    head: Descriptor,
    dimensions: [MaybeUninit<Dimension>; RANK_MAX],
}

const _: () = assert!(core::mem::offset_of!(Section, dimensions) == size_of::<Descriptor>());

impl Section {
    /// The section that a procedure was given.
    #[inline(always)]
    pub(crate) unsafe fn of(array: *const Array) -> Self {
        // SAFETY: the compiler hands over a descriptor with as many dimensions as its rank says.
        unsafe {
            let array = &*array;
            let rank = usize::try_from(array.rank).unwrap_or(0).min(RANK_MAX);
            let bounds = core::slice::from_raw_parts(array.dimensions.as_ptr(), rank);
            let mut dimensions = [MaybeUninit::uninit(); RANK_MAX];
            let span = if array.span == 0 { array.element_bytes as isize } else { array.span };
            for (at, bound) in bounds.iter().enumerate() {
                let extent = bound.upper - bound.lower + 1;
                // An array of assumed size ends nowhere; one whose end is before its begin is empty.
                let is_assumed = at + 1 == rank && bound.upper == -1 && extent == -1;
                dimensions[at].write(Dimension {
                    lower_bound: bound.lower,
                    extent: if is_assumed { -1 } else { extent.max(0) },
                    stride: bound.stride * span,
                });
            }
            let head = Descriptor {
                address: array.address,
                element_bytes: array.element_bytes,
                version: 0,
                rank: rank as i8,
                differing: [0; 3],
                dimensions: [],
            };
            Section { head, dimensions }
        }
    }

    /// The descriptor, as long as the section lives.
    #[inline(always)]
    pub(crate) fn descriptor(&self) -> *const Descriptor {
        core::ptr::from_ref(self).cast()
    }
}
