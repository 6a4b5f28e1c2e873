//! Procedures of the user that C calls with a pointer of its own: the pointer leads to what is kept here.
//!
//! Operations and error handlers have no such pointer and need none: their arguments are addresses of
//! numbers, and a handle has the same low 32 bits in both languages.

use crate::abi::*;
use crate::handle::{self, Handle};
use core::ffi::{c_int, c_void};

/// The callbacks of a key; they live as long as the process, for keys are few.
pub(crate) struct Key {
    pub(crate) copy: usize,
    pub(crate) delete: usize,
    pub(crate) extra_state: MPI_Aint,
    /// Made by MPI_KEYVAL_CREATE, whose callbacks take INTEGER.
    pub(crate) is_integer: bool,
}

type Copy<T> =
    unsafe extern "C-unwind" fn(*mut c_int, *mut c_int, *mut T, *mut T, *mut T, *mut c_int, *mut c_int);
type Delete<T> = unsafe extern "C-unwind" fn(*mut c_int, *mut c_int, *mut T, *mut T, *mut c_int);

/// The copy callback that C gets.
pub(crate) unsafe extern "C-unwind" fn copy<T: Handle>(
    object: T,
    mut keyval: c_int,
    state: *mut c_void,
    value: *mut c_void,
    place: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    let mut object = handle::integer(object);
    let (mut is_copied, mut code) = (0, MPI_SUCCESS);
    // SAFETY: C gives back our pointer; the user gave the address of a procedure with these arguments.
    unsafe {
        let key = &*state.cast::<Key>();
        let value = value as MPI_Aint;
        let mut copied = value;
        if key.is_integer {
            let function = core::mem::transmute::<usize, Copy<c_int>>(key.copy);
            let (mut extra, mut value, mut new) = (key.extra_state as c_int, value as c_int, value as c_int);
            function(&mut object, &mut keyval, &mut extra, &mut value, &mut new, &mut is_copied, &mut code);
            copied = new as MPI_Aint;
        } else {
            let function = core::mem::transmute::<usize, Copy<MPI_Aint>>(key.copy);
            let (mut extra, mut value) = (key.extra_state, value);
            function(
                &mut object,
                &mut keyval,
                &mut extra,
                &mut value,
                &mut copied,
                &mut is_copied,
                &mut code,
            );
        }
        *place.cast::<MPI_Aint>() = copied;
        *flag = c_int::from(is_copied != 0);
    }
    code
}

/// The delete callback that C gets.
pub(crate) unsafe extern "C-unwind" fn delete<T: Handle>(
    object: T,
    mut keyval: c_int,
    value: *mut c_void,
    state: *mut c_void,
) -> c_int {
    let (mut object, mut code) = (handle::integer(object), MPI_SUCCESS);
    // SAFETY: as in `copy`.
    unsafe {
        let key = &*state.cast::<Key>();
        if key.is_integer {
            let function = core::mem::transmute::<usize, Delete<c_int>>(key.delete);
            let (mut value, mut extra) = (value as MPI_Aint as c_int, key.extra_state as c_int);
            function(&mut object, &mut keyval, &mut value, &mut extra, &mut code);
        } else {
            let function = core::mem::transmute::<usize, Delete<MPI_Aint>>(key.delete);
            let (mut value, mut extra) = (value as MPI_Aint, key.extra_state);
            function(&mut object, &mut keyval, &mut value, &mut extra, &mut code);
        }
    }
    code
}

/// The callbacks of a generalized request, until it is freed.
pub(crate) struct Grequest {
    pub(crate) query: usize,
    pub(crate) free: usize,
    pub(crate) cancel: usize,
    /// The user's variable: programs look there for what their callbacks have written.
    pub(crate) extra_state: *mut MPI_Aint,
}

type Query = unsafe extern "C-unwind" fn(*mut MPI_Aint, *mut MPI_Status, *mut c_int);
type Free = unsafe extern "C-unwind" fn(*mut MPI_Aint, *mut c_int);
type Cancel = unsafe extern "C-unwind" fn(*mut MPI_Aint, *mut c_int, *mut c_int);

pub(crate) unsafe extern "C-unwind" fn query(state: *mut c_void, status: *mut MPI_Status) -> c_int {
    let mut code = MPI_SUCCESS;
    // SAFETY: C gives back our pointer; the user gave the address of a procedure with these arguments.
    unsafe {
        let request = &*state.cast::<Grequest>();
        let function = core::mem::transmute::<usize, Query>(request.query);
        function(request.extra_state, status, &mut code);
    }
    code
}

pub(crate) unsafe extern "C-unwind" fn free(state: *mut c_void) -> c_int {
    let mut code = MPI_SUCCESS;
    // SAFETY: as above; C calls this last, so what was kept goes here.
    unsafe {
        let request = Box::from_raw(state.cast::<Grequest>());
        let function = core::mem::transmute::<usize, Free>(request.free);
        function(request.extra_state, &mut code);
    }
    code
}

pub(crate) unsafe extern "C-unwind" fn cancel(state: *mut c_void, complete: c_int) -> c_int {
    let (mut code, mut complete) = (MPI_SUCCESS, c_int::from(complete != 0));
    // SAFETY: as above.
    unsafe {
        let request = &*state.cast::<Grequest>();
        let function = core::mem::transmute::<usize, Cancel>(request.cancel);
        function(request.extra_state, &mut complete, &mut code);
    }
    code
}

/// The conversions of a data representation; there is no way to take one back.
pub(crate) struct Datarep {
    pub(crate) read: usize,
    pub(crate) write: usize,
    pub(crate) extent: usize,
    pub(crate) extra_state: MPI_Aint,
}

type Extent = unsafe extern "C-unwind" fn(*mut c_int, *mut MPI_Aint, *mut MPI_Aint, *mut c_int);
type Convert<N> = unsafe extern "C-unwind" fn(
    *mut c_void,
    *mut c_int,
    *mut N,
    *mut c_void,
    *mut MPI_Offset,
    *mut MPI_Aint,
    *mut c_int,
);

pub(crate) unsafe extern "C-unwind" fn extent(
    datatype: MPI_Datatype,
    place: *mut MPI_Aint,
    state: *mut c_void,
) -> c_int {
    let (mut datatype, mut code) = (handle::integer(datatype), MPI_SUCCESS);
    // SAFETY: as above.
    unsafe {
        let datarep = &mut *state.cast::<Datarep>();
        let function = core::mem::transmute::<usize, Extent>(datarep.extent);
        function(&mut datatype, place, &mut datarep.extra_state, &mut code);
    }
    code
}

macro_rules! conversions {
    ($($name:ident $which:ident $count:ty)*) => { $(
        pub(crate) unsafe extern "C-unwind" fn $name(
            userbuf: *mut c_void,
            datatype: MPI_Datatype,
            mut count: $count,
            filebuf: *mut c_void,
            mut position: MPI_Offset,
            state: *mut c_void,
        ) -> c_int {
            let (mut datatype, mut code) = (handle::integer(datatype), MPI_SUCCESS);
            // SAFETY: as above.
            unsafe {
                let datarep = &mut *state.cast::<Datarep>();
                let function = core::mem::transmute::<usize, Convert<$count>>(datarep.$which);
                let state = &mut datarep.extra_state;
                function(userbuf, &mut datatype, &mut count, filebuf, &mut position, state, &mut code);
            }
            code
        }
    )* };
}

conversions! {
    read read c_int
    write write c_int
    read_large read MPI_Count
    write_large write MPI_Count
}
