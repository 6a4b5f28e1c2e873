//! Functions of the user that ours calls: ours gets one of these, whose state leads to the user's.
//!
//! State lives as long as the process, for there is little of it; a generalized request's until it is
//! freed.

use crate::abi::*;
use crate::c;
use crate::fortran::{AINT, POINTER, in_language, set_language};
use crate::handle::Handle;
use crate::roles;
use crate::status::Status;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

unsafe extern "C" {
    /// The next operation or error handler that this thread makes gets this behind its arguments.
    fn tutti_callback_state(state: *mut c_void);
}

/// A function of the user and, if another language's library has given one, the function that calls it.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) address: usize,
    pub(crate) proxy: AtomicUsize,
}

impl Function {
    /// Kept for as long as the process lives.
    pub(crate) fn keep(address: usize) -> &'static Function {
        Box::leak(Box::new(Function { address, proxy: AtomicUsize::new(0) }))
    }

    /// Hands it to the next operation or error handler that this thread makes.
    pub(crate) fn announce(&'static self) {
        // SAFETY: the address is kept only.
        unsafe { tutti_callback_state(core::ptr::from_ref(self).cast_mut().cast()) }
    }

    fn proxy(&self) -> usize {
        self.proxy.load(Ordering::Relaxed)
    }
}

/// The state that ours hands back.
unsafe fn function<'a>(state: *mut c_void) -> &'a Function {
    // SAFETY: it is what was announced.
    unsafe { &*state.cast::<Function>() }
}

macro_rules! operations {
    ($($name:ident $count:ty)*) => { $(
        /// An operation: the user's function takes MPICH's handle.
        pub(crate) unsafe extern "C-unwind" fn $name(
            input: *mut c_void,
            inout: *mut c_void,
            length: *mut $count,
            datatype: *mut MPI_Datatype,
            state: *mut c_void,
        ) {
            type User = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, *mut $count, *mut c_int);
            type Proxy = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, c_int, c_int, usize);
            // SAFETY: ours gives the arguments of an operation; the user gave the address of such a function.
            unsafe {
                let function = function(state);
                let mut handle = (*datatype).theirs();
                match function.proxy() {
                    0 => core::mem::transmute::<usize, User>(function.address)(input, inout, length, &mut handle),
                    proxy => core::mem::transmute::<usize, Proxy>(proxy)(
                        input, inout, *length as c_int, handle, function.address,
                    ),
                }
            }
        }
    )* };
}

operations! {
    operation c_int
    operation_large MPI_Count
}

/// Numbers by which MPICH's C++ library calls the kinds of objects that errors are raised on.
pub(crate) trait Raises: Handle {
    const KIND: c_int;
}

impl Raises for MPI_Comm {
    const KIND: c_int = 0;
}
impl Raises for MPI_File {
    const KIND: c_int = 1;
}
impl Raises for MPI_Win {
    const KIND: c_int = 2;
}
impl Raises for MPI_Session {
    const KIND: c_int = 3;
}

/// An error handler.
pub(crate) unsafe extern "C-unwind" fn failed<T: Raises>(
    object: *mut usize,
    code: *mut c_int,
    state: *mut c_void,
) {
    type User<T> = unsafe extern "C-unwind" fn(*mut T, *mut c_int, ...);
    type Proxy<T> = unsafe extern "C-unwind" fn(c_int, *mut T, *mut c_int, usize);
    // SAFETY: ours gives the places of a handle and a code; the user gave the address of such a function.
    unsafe {
        let function = function(state);
        let (mut object, mut theirs) = (T::of(*object).theirs(), roles::out_error(*code));
        match function.proxy() {
            0 => core::mem::transmute::<usize, User<T::Theirs>>(function.address)(&mut object, &mut theirs),
            proxy => {
                let call = core::mem::transmute::<usize, Proxy<T::Theirs>>(proxy);
                call(T::KIND, &mut object, &mut theirs, function.address);
            }
        }
        // The call returns the code as the function has left it.
        *code = roles::in_error(theirs);
    }
}

/// The callbacks of a key, and the functions by which another language's library wants them called.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) copy: usize,
    pub(crate) delete: usize,
    pub(crate) extra_state: *mut c_void,
    pub(crate) copy_proxy: AtomicUsize,
    pub(crate) delete_proxy: AtomicUsize,
}

/// Objects that carry attributes.
pub(crate) trait Carries: Handle {
    /// Ours of the function that reads an attribute.
    unsafe fn get_attr(self, key: c_int, place: *mut c_void, flag: *mut c_int) -> c_int;
}

macro_rules! carries {
    ($($class:ident $get:ident)*) => { $(
        impl Carries for $class {
            unsafe fn get_attr(self, key: c_int, place: *mut c_void, flag: *mut c_int) -> c_int {
                // SAFETY: the caller gives the places of a value and a flag.
                unsafe { c::$get(self, key, place, flag) }
            }
        }
    )* };
}

carries! {
    MPI_Comm PMPI_Comm_get_attr
    MPI_Datatype PMPI_Type_get_attr
    MPI_Win PMPI_Win_get_attr
}

/// An attribute's value as MPICH keeps it, and its kind. Ours hands C's view to callbacks: of a value that
/// Fortran has set, its place.
unsafe fn kept<T: Carries>(object: T, key: c_int, value: *mut c_void) -> (*mut c_void, c_int) {
    let (mut kept, mut flag) = (value, 0);
    // SAFETY: both places live here.
    let code = in_language(AINT, || unsafe { object.get_attr(key, (&raw mut kept).cast(), &mut flag) });
    match code == MPI_SUCCESS && flag != 0 && kept != value {
        true => (kept, AINT),
        false => (value, POINTER),
    }
}

/// The copy callback that ours gets.
pub(crate) unsafe extern "C-unwind" fn copy<T: Carries>(
    of: T,
    key: c_int,
    state: *mut c_void,
    value: *mut c_void,
    place: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    type User<T> =
        unsafe extern "C-unwind" fn(T, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;
    type Proxy<T> = unsafe extern "C-unwind" fn(
        usize,
        T,
        c_int,
        *mut c_void,
        c_int,
        *mut c_void,
        *mut c_void,
        *mut c_int,
    ) -> c_int;
    let (object, key_there) = (of.theirs(), roles::out_key(key));
    // SAFETY: ours gives back our state; the user gave the address of such a function.
    let code = unsafe {
        let number = key;
        let key = &*state.cast::<Key>();
        match (key.copy, key.copy_proxy.load(Ordering::Relaxed)) {
            (0, _) => {
                *flag = 0;
                MPI_SUCCESS
            }
            (user, 0) => core::mem::transmute::<usize, User<T::Theirs>>(user)(
                object,
                key_there,
                key.extra_state,
                value,
                place,
                flag,
            ),
            (user, proxy) => {
                let call = core::mem::transmute::<usize, Proxy<T::Theirs>>(proxy);
                let (value, kind) = kept(of, number, value);
                let code = call(user, object, key_there, key.extra_state, kind, value, place, flag);
                // Ours takes this as the language of the copy.
                set_language(kind);
                code
            }
        }
    };
    roles::in_error(code)
}

/// The delete callback that ours gets.
pub(crate) unsafe extern "C-unwind" fn delete<T: Carries>(
    of: T,
    key: c_int,
    value: *mut c_void,
    state: *mut c_void,
) -> c_int {
    type User<T> = unsafe extern "C-unwind" fn(T, c_int, *mut c_void, *mut c_void) -> c_int;
    type Proxy<T> = unsafe extern "C-unwind" fn(usize, T, c_int, c_int, *mut c_void, *mut c_void) -> c_int;
    let (object, key_there) = (of.theirs(), roles::out_key(key));
    // SAFETY: as in `copy`.
    let code = unsafe {
        let number = key;
        let key = &*state.cast::<Key>();
        match (key.delete, key.delete_proxy.load(Ordering::Relaxed)) {
            (0, _) => MPI_SUCCESS,
            (user, 0) => core::mem::transmute::<usize, User<T::Theirs>>(user)(
                object,
                key_there,
                value,
                key.extra_state,
            ),
            (user, proxy) => {
                let call = core::mem::transmute::<usize, Proxy<T::Theirs>>(proxy);
                let (value, kind) = kept(of, number, value);
                call(user, object, key_there, kind, value, key.extra_state)
            }
        }
    };
    roles::in_error(code)
}

/// The callbacks of a generalized request, until it is freed.
#[derive(Debug)]
pub(crate) struct Grequest {
    pub(crate) query: usize,
    pub(crate) free: usize,
    pub(crate) cancel: usize,
    pub(crate) extra_state: *mut c_void,
    /// The callbacks are procedures of Fortran, which give the code through an argument.
    pub(crate) is_fortran: bool,
}

pub(crate) unsafe extern "C-unwind" fn query(state: *mut c_void, status: *mut MPI_Status) -> c_int {
    type User = unsafe extern "C-unwind" fn(*mut c_void, *mut Status) -> c_int;
    type Fortran = unsafe extern "C-unwind" fn(*mut c_void, *mut Status, *mut c_int);
    // SAFETY: ours gives back our state and a status; the user gave the address of such a function.
    unsafe {
        let request = &*state.cast::<Grequest>();
        let mut theirs = Status::of(&*status);
        let mut code = MPI_SUCCESS;
        if request.is_fortran {
            core::mem::transmute::<usize, Fortran>(request.query)(
                request.extra_state,
                &mut theirs,
                &mut code,
            );
        } else {
            code = core::mem::transmute::<usize, User>(request.query)(request.extra_state, &mut theirs);
        }
        *status = theirs.to_ours();
        roles::in_error(code)
    }
}

pub(crate) unsafe extern "C-unwind" fn free(state: *mut c_void) -> c_int {
    type User = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;
    type Fortran = unsafe extern "C-unwind" fn(*mut c_void, *mut c_int);
    // SAFETY: as above; ours calls this last, so what was kept goes here.
    unsafe {
        let request = Box::from_raw(state.cast::<Grequest>());
        let mut code = MPI_SUCCESS;
        if request.is_fortran {
            core::mem::transmute::<usize, Fortran>(request.free)(request.extra_state, &mut code);
        } else {
            code = core::mem::transmute::<usize, User>(request.free)(request.extra_state);
        }
        roles::in_error(code)
    }
}

pub(crate) unsafe extern "C-unwind" fn cancel(state: *mut c_void, complete: c_int) -> c_int {
    type User = unsafe extern "C-unwind" fn(*mut c_void, c_int) -> c_int;
    type Fortran = unsafe extern "C-unwind" fn(*mut c_void, *mut c_int, *mut c_int);
    // SAFETY: as above.
    unsafe {
        let request = &*state.cast::<Grequest>();
        let (mut code, mut complete) = (MPI_SUCCESS, complete);
        if request.is_fortran {
            let call = core::mem::transmute::<usize, Fortran>(request.cancel);
            call(request.extra_state, &mut complete, &mut code);
        } else {
            code = core::mem::transmute::<usize, User>(request.cancel)(request.extra_state, complete);
        }
        roles::in_error(code)
    }
}

/// The conversions of a data representation.
#[derive(Debug)]
pub(crate) struct Datarep {
    pub(crate) read: usize,
    pub(crate) write: usize,
    pub(crate) extent: usize,
    pub(crate) extra_state: *mut c_void,
}

pub(crate) unsafe extern "C-unwind" fn extent(
    datatype: MPI_Datatype,
    place: *mut MPI_Aint,
    state: *mut c_void,
) -> c_int {
    type User = unsafe extern "C-unwind" fn(c_int, *mut MPI_Aint, *mut c_void) -> c_int;
    // SAFETY: ours gives back our state; the user gave the address of such a function.
    unsafe {
        let datarep = &*state.cast::<Datarep>();
        let call = core::mem::transmute::<usize, User>(datarep.extent);
        roles::in_error(call(datatype.theirs(), place, datarep.extra_state))
    }
}

macro_rules! conversions {
    ($($name:ident $which:ident $count:ty)*) => { $(
        pub(crate) unsafe extern "C-unwind" fn $name(
            memory: *mut c_void,
            datatype: MPI_Datatype,
            count: $count,
            file: *mut c_void,
            position: MPI_Offset,
            state: *mut c_void,
        ) -> c_int {
            type User = unsafe extern "C-unwind" fn(
                *mut c_void, c_int, $count, *mut c_void, MPI_Offset, *mut c_void,
            ) -> c_int;
            // SAFETY: as above.
            unsafe {
                let datarep = &*state.cast::<Datarep>();
                let call = core::mem::transmute::<usize, User>(datarep.$which);
                let code = call(memory, datatype.theirs(), count, file, position, datarep.extra_state);
                roles::in_error(code)
            }
        }
    )* };
}

conversions! {
    read read c_int
    write write c_int
    read_large read MPI_Count
    write_large write MPI_Count
}

/// A function of the tool information interface, and what it gets.
#[derive(Debug)]
pub(crate) struct Watcher {
    pub(crate) function: usize,
    pub(crate) user_data: *mut c_void,
}

pub(crate) unsafe extern "C-unwind" fn event(
    instance: MPI_T_event_instance,
    registration: MPI_T_event_registration,
    safety: MPI_T_cb_safety,
    state: *mut c_void,
) {
    type User = unsafe extern "C-unwind" fn(usize, usize, c_int, *mut c_void);
    let safety = roles::out_tools_what_an_event_callback_may_do(safety);
    // SAFETY: ours gives back our state; the user gave the address of such a function.
    unsafe {
        let watcher = &*state.cast::<Watcher>();
        let call = core::mem::transmute::<usize, User>(watcher.function);
        call(instance.0, registration.0, safety, watcher.user_data);
    }
}

pub(crate) unsafe extern "C-unwind" fn event_freed(
    registration: MPI_T_event_registration,
    safety: MPI_T_cb_safety,
    state: *mut c_void,
) {
    type User = unsafe extern "C-unwind" fn(usize, c_int, *mut c_void);
    let safety = roles::out_tools_what_an_event_callback_may_do(safety);
    // SAFETY: as above; ours calls this once, at the end of the registration.
    unsafe {
        let watcher = Box::from_raw(state.cast::<Watcher>());
        let call = core::mem::transmute::<usize, User>(watcher.function);
        call(registration.0, safety, watcher.user_data);
    }
}

/// Registrations that want to know of dropped events, each with its function of the user.
static DROPPED: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

/// The function that ours calls when events of this registration are dropped; 0 for none.
pub(crate) fn keep_dropped(registration: usize, function: usize) {
    let mut list = DROPPED.lock().unwrap_or_else(PoisonError::into_inner);
    list.retain(|(known, _)| *known != registration);
    if function != 0 {
        list.push((registration, function));
    }
}

pub(crate) unsafe extern "C-unwind" fn dropped(
    count: MPI_Count,
    registration: MPI_T_event_registration,
    source_index: c_int,
    safety: MPI_T_cb_safety,
    state: *mut c_void,
) {
    type User = unsafe extern "C-unwind" fn(MPI_Count, usize, c_int, c_int, *mut c_void);
    let safety = roles::out_tools_what_an_event_callback_may_do(safety);
    let list = DROPPED.lock().unwrap_or_else(PoisonError::into_inner);
    let function = list.iter().find(|(known, _)| *known == registration.0).map(|(_, function)| *function);
    drop(list);
    if let Some(function) = function {
        // SAFETY: ours gives back the state of the registration's callback, or null before there is one; the
        // user gave the address of such a function.
        unsafe {
            let user_data = if state.is_null() { state } else { (*state.cast::<Watcher>()).user_data };
            core::mem::transmute::<usize, User>(function)(
                count,
                registration.0,
                source_index,
                safety,
                user_data,
            );
        }
    }
}
