//! Integers with a meaning, in both directions: `in_` makes one ours, `out_` MPICH's. Those of which a group
//! of constants tells all are generated.

use crate::abi::*;
pub(crate) use crate::handle::*;
use core::ffi::c_int;

/// A rank, or what may stand in its place.
#[inline(always)]
pub(crate) fn in_rank(rank: c_int) -> c_int {
    if rank >= 0 { rank } else { in_special_rank(rank) }
}

fn in_special_rank(rank: c_int) -> c_int {
    match rank {
        mpich::MPI_PROC_NULL => MPI_PROC_NULL,
        mpich::MPI_ANY_SOURCE => MPI_ANY_SOURCE,
        mpich::MPI_ROOT => MPI_ROOT,
        MPI_UNDEFINED => MPI_UNDEFINED,
        // It would have a meaning here, as the others have there.
        MPI_ROOT => ABSENT,
        other => other,
    }
}

/// A rank that ours gives.
#[inline(always)]
pub(crate) fn out_rank(rank: c_int) -> c_int {
    if rank >= 0 { rank } else { out_special_rank(rank) }
}

fn out_special_rank(rank: c_int) -> c_int {
    match rank {
        MPI_PROC_NULL => mpich::MPI_PROC_NULL,
        MPI_ANY_SOURCE => mpich::MPI_ANY_SOURCE,
        MPI_ROOT => mpich::MPI_ROOT,
        other => other,
    }
}

/// A tag, or MPI_ANY_TAG.
#[inline(always)]
pub(crate) fn in_tag(tag: c_int) -> c_int {
    match tag {
        mpich::MPI_ANY_TAG => MPI_ANY_TAG,
        MPI_ANY_TAG => ABSENT,
        tag => tag,
    }
}

/// A tag that ours gives.
#[inline(always)]
pub(crate) fn out_tag(tag: c_int) -> c_int {
    if tag == MPI_ANY_TAG { mpich::MPI_ANY_TAG } else { tag }
}

/// An error class or code.
pub(crate) fn in_error(code: c_int) -> c_int {
    if code > mpich::MPI_ERR_LASTCODE {
        return code - mpich::MPI_ERR_LASTCODE + MPI_ERR_LASTCODE;
    }
    match in_error_classes(code) {
        ABSENT => match in_error_classes_of_the_tools_interface(code) {
            // A program may keep any number in a status.
            ABSENT if code >= 0 => code + UNKNOWN,
            class => class,
        },
        class => class,
    }
}

/// Ours of a number that is no error of MPICH's is so much less: none of ours, and it comes back as it was.
const UNKNOWN: c_int = -mpich::MPI_ERR_LASTCODE - 1;

/// An error class or code that ours gives.
#[inline(always)]
pub(crate) fn out_error(code: c_int) -> c_int {
    if code == MPI_SUCCESS { mpich::MPI_SUCCESS } else { out_failure(code) }
}

#[cold]
fn out_failure(code: c_int) -> c_int {
    if code > MPI_ERR_LASTCODE {
        return code - MPI_ERR_LASTCODE + mpich::MPI_ERR_LASTCODE;
    }
    if (UNKNOWN..0).contains(&code) {
        return code - UNKNOWN;
    }
    match (out_error_classes(code), out_error_classes_of_the_tools_interface(code)) {
        (ABSENT, ABSENT) => mpich::MPI_ERR_OTHER,
        (ABSENT, class) | (class, _) => class,
    }
}

/// The size of a block of a distributed array, or the default. A size of 19 is the default of the standard's
/// own interface, so ours cannot tell it from that one.
pub(crate) fn in_block_size(size: c_int) -> c_int {
    if size == mpich::MPI_DISTRIBUTE_DFLT_DARG { MPI_DISTRIBUTE_DFLT_DARG } else { size }
}

/// A size of a block that ours gives.
pub(crate) fn out_block_size(size: c_int) -> c_int {
    if size == MPI_DISTRIBUTE_DFLT_DARG { mpich::MPI_DISTRIBUTE_DFLT_DARG } else { size }
}

/// Bits that a key of ours has and MPICH's predefined ones have not.
const OWN_KEY: c_int = 0x1800_0000;
/// The bits of a handle that say its kind.
const KIND: c_int = 0x7800_0000;
/// The kind of our keys.
const KEY: c_int = 12 << 27;

/// A key of attributes: ours would be in the range of MPICH's predefined ones, so they have other bits there.
pub(crate) fn in_key(key: c_int) -> c_int {
    if key & KIND == KEY ^ OWN_KEY {
        return key ^ OWN_KEY;
    }
    match in_attribute_keys_of_communicators(key) {
        known if known != key => known,
        _ => match in_attribute_keys_of_windows(key) {
            known if known != key => known,
            _ if key == mpich::MPI_KEYVAL_INVALID => MPI_KEYVAL_INVALID,
            // One that is none here either.
            _ if key != MPI_KEYVAL_INVALID && out_key(key) == mpich::MPI_KEYVAL_INVALID => key,
            _ => ABSENT,
        },
    }
}

/// A key that ours gives.
pub(crate) fn out_key(key: c_int) -> c_int {
    if key & KIND == KEY {
        return key ^ OWN_KEY;
    }
    match out_attribute_keys_of_communicators(key) {
        known if known != key => known,
        _ => match out_attribute_keys_of_windows(key) {
            known if known != key => known,
            _ => mpich::MPI_KEYVAL_INVALID,
        },
    }
}

/// Makes `count` integers at `place` MPICH's.
pub(crate) unsafe fn put_all(place: *mut c_int, count: c_int, to_theirs: impl Fn(c_int) -> c_int) {
    for at in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: ours has written so many.
        unsafe { *place.add(at) = to_theirs(*place.add(at)) };
    }
}
