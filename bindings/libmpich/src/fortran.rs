//! Functions that MPICH's own Fortran and C++ libraries call beyond the standard: they stand on the C
//! interface alone, so they run over this library as they are.

use crate::callbacks::Function;
use crate::*;
use core::sync::atomic::Ordering;

/// MPICH's kinds of a value: a pointer of C, an address of Fortran, an INTEGER.
pub(crate) const POINTER: c_int = 0;
pub(crate) const AINT: c_int = 1;
const INT: c_int = 3;

unsafe extern "C" {
    /// Ours keeps the language of this thread's calls with the values that they set.
    fn tutti_attribute_language(number: c_int);
}

/// Has ours take what this thread calls about attributes as from the language that has this kind of value.
pub(crate) fn set_language(kind: c_int) {
    let number = match kind {
        AINT => 1,
        INT => 2,
        _ => 0,
    };
    // SAFETY: the number is kept only.
    unsafe { tutti_attribute_language(number) }
}

/// Calls ours about attributes from that language.
pub(crate) fn in_language(kind: c_int, call: impl FnOnce() -> c_int) -> c_int {
    set_language(kind);
    let code = call();
    set_language(POINTER);
    code
}

/// A predefined attribute is an integer in Fortran, of which C gives the address.
unsafe fn put_value(key: c_int, kind: c_int, place: *mut c_void, flag: *const c_int, code: c_int) {
    let ours = roles::in_key(key);
    if code != MPI_SUCCESS || !matches!(kind, AINT | INT) || !is_predefined(key) || ours == MPI_WIN_BASE {
        return;
    }
    let place: *mut *const c_void = place.cast();
    // SAFETY: ours has written the address of a number if there is such an attribute.
    unsafe {
        if *flag != 0 {
            let at = *place;
            *place.cast::<MPI_Aint>() = match ours {
                MPI_WIN_SIZE => *at.cast::<MPI_Aint>(),
                _ => *at.cast::<c_int>() as MPI_Aint,
            };
        }
    }
}

macro_rules! attributes {
    ($($get:ident $set:ident $body_get:path, $body_set:path;)*) => { $(
        // SAFETY: the name is that of MPICH's library, for which this one stands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $get(
            object: c_int,
            key: c_int,
            value: *mut c_void,
            flag: *mut c_int,
            kind: c_int,
        ) -> c_int {
            let key = key_of_c(key);
            // SAFETY: MPICH's library gives places of its own.
            unsafe {
                let code = in_language(kind, || $body_get(object, key, value, flag));
                put_value(key, kind, value, flag, code);
                code
            }
        }

        // SAFETY: as above.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $set(object: c_int, key: c_int, value: *mut c_void, kind: c_int) -> c_int {
            // SAFETY: as above.
            in_language(kind, || unsafe { $body_set(object, key, value) })
        }
    )* };
}

/// Predefined keys are one higher in Fortran.
fn key_of_c(key: c_int) -> c_int {
    if key & 1 == 0 && is_predefined(key - 1) { key - 1 } else { key }
}

fn is_predefined(key: c_int) -> bool {
    let ours = roles::in_key(key);
    matches!(ours, MPI_TAG_UB..=MPI_UNIVERSE_SIZE | MPI_WIN_BASE..=MPI_WIN_MODEL)
}

attributes! {
    MPII_Comm_get_attr MPII_Comm_set_attr by_hand::Comm_get_attr, body_MPI_Comm_set_attr;
    MPII_Type_get_attr MPII_Type_set_attr body_MPI_Type_get_attr, body_MPI_Type_set_attr;
    MPII_Win_get_attr MPII_Win_set_attr by_hand::Win_get_attr, body_MPI_Win_set_attr;
}

/// The functions by which the callbacks of the last key of this thread are called.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn MPII_Keyval_set_proxy(_key: c_int, copy: usize, delete: usize) {
    if let Some(key) = by_hand::last_key() {
        key.copy_proxy.store(copy, Ordering::Relaxed);
        key.delete_proxy.store(delete, Ordering::Relaxed);
    }
}

/// The callbacks of the last generalized request of this thread are procedures of Fortran.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn MPII_Grequest_set_lang_f77(_request: c_int) {
    by_hand::mark_last_grequest();
}

fn set_proxy(function: Option<&'static Function>, proxy: usize) {
    if let Some(function) = function {
        function.proxy.store(proxy, Ordering::Relaxed);
    }
}

/// The function by which the last operation of this thread is called.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn MPII_Op_set_cxx(_op: c_int, call: usize) {
    set_proxy(by_hand::last_function(), call);
}

/// The function by which the last error handler of this thread is called.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn MPII_Errhandler_set_cxx(_errhandler: c_int, call: usize) {
    set_proxy(by_hand::last_function(), call);
}
