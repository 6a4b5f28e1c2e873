//! Functions that differ from ours by more than numbers. Each returns MPICH's error code.

use crate::abi::*;
use crate::arrays::Handles;
use crate::callbacks::{self, Carries, Datarep, Function, Grequest, Key, Raises, Watcher};
use crate::handle::{self, MpichFile, mpich};
use crate::{c, roles, variables};
use core::cell::Cell;
use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

pub(crate) use crate::throwing::{
    Comm_call_errhandler, Comm_get_errhandler, Comm_set_errhandler, Errhandler_free, File_call_errhandler,
    File_get_errhandler, File_set_errhandler, Win_call_errhandler, Win_get_errhandler, Win_set_errhandler,
};

macro_rules! functions {
    ($($(#[$about:meta])* $name:ident($($argument:ident: $class:ty),* $(,)?) $body:block)*) => { $(
        $(#[$about])*
        #[inline]
        pub(crate) unsafe fn $name($($argument: $class,)*) -> c_int {
            // SAFETY: the caller keeps the standard's rules for the arguments.
            roles::out_error(unsafe { $body })
        }
    )* };
}

thread_local! {
    /// The last function, key and generalized request that this thread has handed over: another language's
    /// library says right afterwards how they are to be called.
    static LAST_FUNCTION: Cell<Option<&'static Function>> = const { Cell::new(None) };
    static LAST_KEY: Cell<*const Key> = const { Cell::new(core::ptr::null()) };
    static LAST_GREQUEST: Cell<*mut Grequest> = const { Cell::new(null_mut()) };
}

/// The last operation's or error handler's function of this thread.
pub(crate) fn last_function() -> Option<&'static Function> {
    LAST_FUNCTION.get()
}

/// The last key of this thread.
pub(crate) fn last_key() -> Option<&'static Key> {
    // SAFETY: keys live as long as the process.
    unsafe { LAST_KEY.get().as_ref() }
}

/// The last generalized request of this thread says that its callbacks are procedures of Fortran.
pub(crate) fn mark_last_grequest() {
    let last = LAST_GREQUEST.get();
    if !last.is_null() {
        // SAFETY: called right after the request was made, which lives until it is freed.
        unsafe { (*last).is_fortran = true }
    }
}

/// Hands a function of the user over to the next operation or error handler; the address that ours gets.
fn announce(address: usize, caller: *const ()) -> usize {
    if address == 0 {
        LAST_FUNCTION.set(None);
        return 0;
    }
    let function = Function::keep(address);
    LAST_FUNCTION.set(Some(function));
    function.announce();
    caller.addr()
}

unsafe fn make_operation(place: *mut c_int, make: impl FnOnce(*mut MPI_Op) -> c_int) -> c_int {
    // SAFETY: the caller gives the place of a handle, or null.
    unsafe {
        let mut op = handle::Place::<MPI_Op>::new(place, false);
        let code = make(op.address());
        op.put();
        code
    }
}

unsafe fn make_handler<T: Raises>(
    function: usize,
    place: *mut c_int,
    make: impl FnOnce(usize, *mut MPI_Errhandler) -> c_int,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        let mut handler = handle::Place::<MPI_Errhandler>::new(place, false);
        let code = make(announce(function, callbacks::failed::<T> as *const ()), handler.address());
        handler.put();
        code
    }
}

/// The callbacks and the state that ours gets for those of a key. Predefined ones stay what they are.
fn key<T: Carries>(copy: usize, delete: usize, extra_state: *mut c_void) -> (usize, usize, *mut c_void) {
    let is_duplicate = copy == variables::MPIR_Dup_fn as *const () as usize;
    if delete == 0 && (copy == 0 || is_duplicate) {
        LAST_KEY.set(core::ptr::null());
        return (usize::from(is_duplicate), 0, extra_state);
    }
    let [copy_proxy, delete_proxy] = [0, 0].map(AtomicUsize::new);
    let key = Box::leak(Box::new(Key { copy, delete, extra_state, copy_proxy, delete_proxy }));
    LAST_KEY.set(key);
    let ours_copy = if is_duplicate { 1 } else { callbacks::copy::<T> as *const () as usize };
    (ours_copy, callbacks::delete::<T> as *const () as usize, core::ptr::from_mut(key).cast())
}

unsafe fn make_key(place: *mut c_int, make: impl FnOnce(*mut c_int) -> c_int) -> c_int {
    let mut made = MPI_KEYVAL_INVALID;
    let code = make(if place.is_null() { place } else { &mut made });
    if code == MPI_SUCCESS {
        // SAFETY: ours has refused a null pointer.
        unsafe { *place = roles::out_key(made) }
    }
    code
}

/// Values of predefined attributes that are one for the process, as MPICH's: places that stay.
static VALUES: [AtomicI32; 3] = [const { AtomicI32::new(0) }; 3];
/// Values of attributes of a window, its kind and its model, each at its own place: one window's stays what
/// it is when another's is asked for.
static WINDOW_VALUES: [c_int; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

/// Makes the value of a predefined attribute MPICH's: ours points to an integer.
unsafe fn put_attribute(key: c_int, place: *mut c_void, flag: *const c_int) {
    let keys = [MPI_HOST, MPI_IO, MPI_LASTUSEDCODE, MPI_WIN_CREATE_FLAVOR, MPI_WIN_MODEL];
    let Some(at) = keys.iter().position(|known| *known == key) else { return };
    // SAFETY: ours has written the address of an integer if it says that there is one.
    unsafe {
        if *flag == 0 {
            return;
        }
        let place: *mut *const c_int = place.cast();
        let value = **place;
        let value = match keys[at] {
            MPI_LASTUSEDCODE => value - MPI_ERR_LASTCODE + mpich::MPI_ERR_LASTCODE,
            MPI_WIN_CREATE_FLAVOR => roles::out_window_flavours(value),
            MPI_WIN_MODEL => roles::out_window_memory_models(value),
            _ => roles::out_rank(value),
        };
        *place = match VALUES.get(at) {
            Some(own) => {
                own.store(value, Ordering::Relaxed);
                own.as_ptr()
            }
            // Neither has another value.
            None => &raw const WINDOW_VALUES[value as usize % WINDOW_VALUES.len()],
        };
    }
}

/// Copies a text into the room that programs have there.
unsafe fn put_bounded(text: &[c_char], place: *mut c_char, room: c_int, length: *mut c_int) {
    let bytes = text.iter().position(|byte| *byte == 0).unwrap_or(text.len()).min(room as usize - 1);
    // SAFETY: the caller gives so much room.
    unsafe {
        core::ptr::copy_nonoverlapping(text.as_ptr(), place, bytes);
        *place.add(bytes) = 0;
        if !length.is_null() {
            *length = bytes as c_int;
        }
    }
}

functions! {
    Op_create(user_fn: usize, commute: c_int, op: *mut c_int) {
        let function = announce(user_fn, callbacks::operation as *const ());
        make_operation(op, |op| c::PMPI_Op_create(function, commute, op))
    }

    Op_create_c(user_fn: usize, commute: c_int, op: *mut c_int) {
        let function = announce(user_fn, callbacks::operation_large as *const ());
        make_operation(op, |op| c::PMPI_Op_create_c(function, commute, op))
    }

    Comm_create_errhandler(function: usize, errhandler: *mut c_int) {
        make_handler::<MPI_Comm>(function, errhandler, |function, place| c::PMPI_Comm_create_errhandler(function, place))
    }

    File_create_errhandler(function: usize, errhandler: *mut c_int) {
        make_handler::<MPI_File>(function, errhandler, |function, place| c::PMPI_File_create_errhandler(function, place))
    }

    Session_create_errhandler(function: usize, errhandler: *mut c_int) {
        make_handler::<MPI_Session>(function, errhandler, |function, place| {
            c::PMPI_Session_create_errhandler(function, place)
        })
    }

    Win_create_errhandler(function: usize, errhandler: *mut c_int) {
        make_handler::<MPI_Win>(function, errhandler, |function, place| c::PMPI_Win_create_errhandler(function, place))
    }

    Comm_create_keyval(copy: usize, delete: usize, keyval: *mut c_int, extra_state: *mut c_void) {
        let (copy, delete, state) = key::<MPI_Comm>(copy, delete, extra_state);
        make_key(keyval, |place| c::PMPI_Comm_create_keyval(copy, delete, place, state))
    }

    Keyval_create(copy: usize, delete: usize, keyval: *mut c_int, extra_state: *mut c_void) {
        let (copy, delete, state) = key::<MPI_Comm>(copy, delete, extra_state);
        make_key(keyval, |place| c::PMPI_Keyval_create(copy, delete, place, state))
    }

    Type_create_keyval(copy: usize, delete: usize, keyval: *mut c_int, extra_state: *mut c_void) {
        let (copy, delete, state) = key::<MPI_Datatype>(copy, delete, extra_state);
        make_key(keyval, |place| c::PMPI_Type_create_keyval(copy, delete, place, state))
    }

    Win_create_keyval(copy: usize, delete: usize, keyval: *mut c_int, extra_state: *mut c_void) {
        let (copy, delete, state) = key::<MPI_Win>(copy, delete, extra_state);
        make_key(keyval, |place| c::PMPI_Win_create_keyval(copy, delete, place, state))
    }

    Comm_get_attr(comm: c_int, keyval: c_int, value: *mut c_void, flag: *mut c_int) {
        let key = roles::in_key(keyval);
        let code = c::PMPI_Comm_get_attr(handle::ours(comm), key, value, flag);
        if code == MPI_SUCCESS {
            put_attribute(key, value, flag);
        }
        code
    }

    Attr_get(comm: c_int, keyval: c_int, value: *mut c_void, flag: *mut c_int) {
        let key = roles::in_key(keyval);
        let code = c::PMPI_Attr_get(handle::ours(comm), key, value, flag);
        if code == MPI_SUCCESS {
            put_attribute(key, value, flag);
        }
        code
    }

    Win_get_attr(win: c_int, keyval: c_int, value: *mut c_void, flag: *mut c_int) {
        let key = roles::in_key(keyval);
        let code = c::PMPI_Win_get_attr(handle::ours(win), key, value, flag);
        if code == MPI_SUCCESS {
            put_attribute(key, value, flag);
        }
        code
    }

    Grequest_start(query: usize, free: usize, cancel: usize, extra_state: *mut c_void, request: *mut c_int) {
        let state = Box::into_raw(Box::new(Grequest { query, free, cancel, extra_state, is_fortran: false }));
        let mut made = handle::Place::<MPI_Request>::new(request, false);
        let [query, free, cancel] =
            [callbacks::query as *const (), callbacks::free as *const (), callbacks::cancel as *const ()];
        let code = c::PMPI_Grequest_start(query.addr(), free.addr(), cancel.addr(), state.cast(), made.address());
        if code == MPI_SUCCESS {
            LAST_GREQUEST.set(state);
        } else {
            drop(Box::from_raw(state));
        }
        made.put();
        code
    }

    Register_datarep(
        name: *const c_char,
        read: usize,
        write: usize,
        extent: usize,
        extra_state: *mut c_void,
    ) {
        let state = Box::into_raw(Box::new(Datarep { read, write, extent, extra_state }));
        let read = if read == 0 { 0 } else { callbacks::read as *const () as usize };
        let write = if write == 0 { 0 } else { callbacks::write as *const () as usize };
        let extent = if extent == 0 { 0 } else { callbacks::extent as *const () as usize };
        c::PMPI_Register_datarep(name, read, write, extent, state.cast())
    }

    Register_datarep_c(
        name: *const c_char,
        read: usize,
        write: usize,
        extent: usize,
        extra_state: *mut c_void,
    ) {
        let state = Box::into_raw(Box::new(Datarep { read, write, extent, extra_state }));
        let read = if read == 0 { 0 } else { callbacks::read_large as *const () as usize };
        let write = if write == 0 { 0 } else { callbacks::write_large as *const () as usize };
        let extent = if extent == 0 { 0 } else { callbacks::extent as *const () as usize };
        c::PMPI_Register_datarep_c(name, read, write, extent, state.cast())
    }

    Type_get_contents(
        datatype: c_int,
        max_integers: c_int,
        max_addresses: c_int,
        max_datatypes: c_int,
        integers: *mut c_int,
        addresses: *mut MPI_Aint,
        datatypes: *mut c_int,
    ) {
        let datatype = handle::ours(datatype);
        let mut types = Handles::<MPI_Datatype>::new(datatypes, max_datatypes as i64, false);
        let code = c::PMPI_Type_get_contents(
            datatype, max_integers, max_addresses, max_datatypes, integers, addresses, types.address(),
        );
        types.put();
        if code == MPI_SUCCESS {
            put_contents(datatype, integers);
        }
        code
    }

    Type_get_contents_c(
        datatype: c_int,
        max_integers: MPI_Count,
        max_addresses: MPI_Count,
        max_large_counts: MPI_Count,
        max_datatypes: MPI_Count,
        integers: *mut c_int,
        addresses: *mut MPI_Aint,
        large_counts: *mut MPI_Count,
        datatypes: *mut c_int,
    ) {
        let datatype = handle::ours(datatype);
        let mut types = Handles::<MPI_Datatype>::new(datatypes, max_datatypes, false);
        let code = c::PMPI_Type_get_contents_c(
            datatype, max_integers, max_addresses, max_large_counts, max_datatypes, integers, addresses, large_counts,
            types.address(),
        );
        types.put();
        if code == MPI_SUCCESS {
            put_large_contents(datatype, integers);
        }
        code
    }

    Get_processor_name(name: *mut c_char, length: *mut c_int) {
        let mut room = [0; MPI_MAX_PROCESSOR_NAME as usize];
        let place = if name.is_null() { name } else { room.as_mut_ptr() };
        let code = c::PMPI_Get_processor_name(place, length);
        if code == MPI_SUCCESS {
            put_bounded(&room, name, mpich::MPI_MAX_PROCESSOR_NAME, length);
        }
        code
    }

    Open_port(info: c_int, port_name: *mut c_char) {
        let mut room = [0; MPI_MAX_PORT_NAME as usize];
        let place = if port_name.is_null() { port_name } else { room.as_mut_ptr() };
        let code = c::PMPI_Open_port(handle::ours(info), place);
        if code == MPI_SUCCESS {
            put_bounded(&room, port_name, mpich::MPI_MAX_PORT_NAME, null_mut());
        }
        code
    }

    Lookup_name(service_name: *const c_char, info: c_int, port_name: *mut c_char) {
        let mut room = [0; MPI_MAX_PORT_NAME as usize];
        let place = if port_name.is_null() { port_name } else { room.as_mut_ptr() };
        let code = c::PMPI_Lookup_name(service_name, handle::ours(info), place);
        if code == MPI_SUCCESS {
            put_bounded(&room, port_name, mpich::MPI_MAX_PORT_NAME, null_mut());
        }
        code
    }

    Info_get_nthkey(info: c_int, n: c_int, key: *mut c_char) {
        let mut room = [0; MPI_MAX_INFO_KEY as usize];
        let place = if key.is_null() { key } else { room.as_mut_ptr() };
        let code = c::PMPI_Info_get_nthkey(handle::ours(info), n, place);
        if code == MPI_SUCCESS {
            // Beyond its constant programs have room for the zero.
            put_bounded(&room, key, mpich::MPI_MAX_INFO_KEY + 1, null_mut());
        }
        code
    }

    /// No version of the standard's own binary interface: this is another one.
    Abi_get_version(major: *mut c_int, minor: *mut c_int) {
        for place in [major, minor] {
            if !place.is_null() {
                *place = -1;
            }
        }
        MPI_SUCCESS
    }

    /// None: what it would say is of the standard's own interface.
    Abi_get_fortran_info(info: *mut c_int) {
        if info.is_null() {
            return roles::out_error(MPI_ERR_ARG);
        }
        *info = mpich::MPI_INFO_NULL;
        MPI_SUCCESS
    }

    Init(argc: *mut c_int, argv: *mut *mut *mut c_char) {
        crate::extensions::begin();
        c::PMPI_Init(argc, argv)
    }

    Init_thread(argc: *mut c_int, argv: *mut *mut *mut c_char, required: c_int, provided: *mut c_int) {
        crate::extensions::begin();
        let required = roles::in_levels_of_thread_support_in_rising_order(required);
        let code = c::PMPI_Init_thread(argc, argv, required, provided);
        if code == MPI_SUCCESS && !provided.is_null() {
            *provided = roles::out_levels_of_thread_support_in_rising_order(*provided);
        }
        code
    }

    Session_init(info: c_int, errhandler: c_int, session: *mut c_int) {
        crate::extensions::begin();
        let mut made = handle::Place::<MPI_Session>::new(session, false);
        let code = c::PMPI_Session_init(handle::ours(info), handle::ours(errhandler), made.address());
        made.put();
        code
    }

    Comm_spawn(
        command: *const c_char,
        argv: *mut *mut c_char,
        maxprocs: c_int,
        info: c_int,
        root: c_int,
        comm: c_int,
        intercomm: *mut c_int,
        errcodes: *mut c_int,
    ) {
        let comm = handle::ours::<MPI_Comm>(comm);
        let mut made = handle::Place::<MPI_Comm>::new(intercomm, false);
        let code = c::PMPI_Comm_spawn(
            command, argv, maxprocs, handle::ours(info), roles::in_rank(root), comm, made.address(), errcodes,
        );
        made.put();
        if is_root(root, comm) {
            put_codes(errcodes, maxprocs);
        }
        code
    }

    Comm_spawn_multiple(
        count: c_int,
        commands: *mut *mut c_char,
        argvs: *mut *mut *mut c_char,
        maxprocs: *const c_int,
        infos: *const c_int,
        root: c_int,
        comm: c_int,
        intercomm: *mut c_int,
        errcodes: *mut c_int,
    ) {
        let comm = handle::ours::<MPI_Comm>(comm);
        // All but the last three counts at the root alone.
        let is_root = is_root(root, comm);
        let length = if is_root { count } else { 0 };
        let mut infos = Handles::<MPI_Info>::new(infos.cast_mut(), length as i64, true);
        let mut made = handle::Place::<MPI_Comm>::new(intercomm, false);
        let code = c::PMPI_Comm_spawn_multiple(
            count, commands, argvs, maxprocs, infos.address(), roles::in_rank(root), comm, made.address(), errcodes,
        );
        made.put();
        if is_root && !maxprocs.is_null() {
            put_codes(errcodes, (0..length as usize).map(|at| *maxprocs.add(at)).sum());
        }
        code
    }

    T_cvar_handle_alloc(index: c_int, object: *mut c_void, place: *mut MPI_T_cvar_handle, count: *mut c_int) {
        let mut bind = MPI_T_BIND_NO_OBJECT;
        let none: *mut c_void = null_mut();
        c::PMPI_T_cvar_get_info(index, none.cast(), none.cast(), none.cast(), none.cast(), none.cast(), none.cast(), none.cast(), &mut bind, none.cast());
        let mut object = bound(bind, object);
        c::PMPI_T_cvar_handle_alloc(index, object.address(), place, count)
    }

    T_pvar_handle_alloc(
        session: MPI_T_pvar_session,
        index: c_int,
        object: *mut c_void,
        place: *mut MPI_T_pvar_handle,
        count: *mut c_int,
    ) {
        let mut bind = MPI_T_BIND_NO_OBJECT;
        let none: *mut c_void = null_mut();
        c::PMPI_T_pvar_get_info(
            index, none.cast(), none.cast(), none.cast(), none.cast(), none.cast(), none.cast(), none.cast(), none.cast(),
            &mut bind, none.cast(), none.cast(), none.cast(),
        );
        let mut object = bound(bind, object);
        c::PMPI_T_pvar_handle_alloc(session, index, object.address(), place, count)
    }

    T_event_handle_alloc(index: c_int, object: *mut c_void, info: c_int, place: *mut MPI_T_event_registration) {
        let mut bind = MPI_T_BIND_NO_OBJECT;
        let none: *mut c_void = null_mut();
        c::PMPI_T_event_get_info(
            index, none.cast(), none.cast(), none.cast(), none.cast(), none.cast(), none.cast(), none.cast(), none.cast(),
            none.cast(), none.cast(), &mut bind,
        );
        let mut object = bound(bind, object);
        c::PMPI_T_event_handle_alloc(index, object.address(), handle::ours(info), place)
    }

    T_event_get_info(
        index: c_int,
        name: *mut c_char,
        name_len: *mut c_int,
        verbosity: *mut c_int,
        datatypes: *mut c_int,
        displacements: *mut MPI_Aint,
        elements: *mut c_int,
        enumtype: *mut MPI_T_enum,
        info: *mut c_int,
        desc: *mut c_char,
        desc_len: *mut c_int,
        bind: *mut c_int,
    ) {
        let room = if elements.is_null() { 0 } else { *elements };
        let mut types = Handles::<MPI_Datatype>::new(datatypes, room as i64, false);
        let mut made = handle::Place::<MPI_Info>::new(info, false);
        let code = c::PMPI_T_event_get_info(
            index, name, name_len, verbosity, types.address(), displacements, elements, enumtype, made.address(), desc,
            desc_len, bind,
        );
        types.put();
        made.put();
        if code == MPI_SUCCESS && !verbosity.is_null() {
            *verbosity = roles::out_tools_verbosity(*verbosity);
        }
        if code == MPI_SUCCESS && !bind.is_null() {
            *bind = roles::out_tools_object_that_a_variable_is_bound_to(*bind);
        }
        code
    }

    T_event_register_callback(
        registration: MPI_T_event_registration,
        safety: MPI_T_cb_safety,
        info: c_int,
        user_data: *mut c_void,
        function: usize,
    ) {
        let safety = roles::in_tools_what_an_event_callback_may_do(safety);
        let state = Box::into_raw(Box::new(Watcher { function, user_data }));
        let caller = if function == 0 { 0 } else { callbacks::event as *const () as usize };
        c::PMPI_T_event_register_callback(registration, safety, handle::ours(info), state.cast(), caller)
    }

    T_event_handle_free(registration: MPI_T_event_registration, user_data: *mut c_void, function: usize) {
        callbacks::keep_dropped(registration.0, 0);
        if function == 0 {
            return roles::out_error(c::PMPI_T_event_handle_free(registration, user_data, 0));
        }
        let state = Box::into_raw(Box::new(Watcher { function, user_data }));
        c::PMPI_T_event_handle_free(registration, state.cast(), callbacks::event_freed as *const () as usize)
    }

    T_event_set_dropped_handler(registration: MPI_T_event_registration, function: usize) {
        callbacks::keep_dropped(registration.0, function);
        let caller = if function == 0 { 0 } else { callbacks::dropped as *const () as usize };
        c::PMPI_T_event_set_dropped_handler(registration, caller)
    }
}

/// A file's integer is its number.
pub(crate) unsafe fn File_toint(file: MpichFile) -> c_int {
    file.addr() as c_int
}

/// The file of an integer.
pub(crate) unsafe fn File_fromint(file: c_int) -> MpichFile {
    core::ptr::without_provenance_mut(file as u32 as usize)
}

/// Whether this process is the root of a call, by the rank that the caller gave.
unsafe fn is_root(root: c_int, comm: MPI_Comm) -> bool {
    let mut rank = MPI_UNDEFINED;
    // SAFETY: the place lives here.
    unsafe { c::PMPI_Comm_rank(comm, &mut rank) == MPI_SUCCESS && rank == root }
}

/// Makes error codes of new processes MPICH's.
unsafe fn put_codes(place: *mut c_int, count: c_int) {
    if !place.is_null() {
        // SAFETY: the caller's array has one for each.
        unsafe { roles::put_all(place, count, roles::out_error) }
    }
}

/// Constants among the integers of a derived type's contents become MPICH's.
unsafe fn put_contents(datatype: MPI_Datatype, integers: *mut c_int) {
    let (mut number, mut combiner) = ([0; 3], MPI_COMBINER_NAMED);
    let [many, addresses, types] = &mut number;
    // SAFETY: the places live here; ours has written all integers of the contents.
    unsafe {
        if c::PMPI_Type_get_envelope(datatype, many, addresses, types, &mut combiner) == MPI_SUCCESS {
            put_orders(combiner, integers, *many as usize, 3);
        }
    }
}

unsafe fn put_large_contents(datatype: MPI_Datatype, integers: *mut c_int) {
    let (mut number, mut combiner) = ([0; 4], MPI_COMBINER_NAMED);
    let [many, addresses, large, types] = &mut number;
    // SAFETY: as above.
    unsafe {
        let code = c::PMPI_Type_get_envelope_c(datatype, many, addresses, large, types, &mut combiner);
        if code == MPI_SUCCESS {
            // Sizes that are large counts are not among the integers.
            put_orders(combiner, integers, *many as usize, if *large > 0 { 2 } else { 3 });
        }
    }
}

/// `arrays` is how many arrays of a number for each dimension stand in front of those of constants in a
/// darray.
unsafe fn put_orders(combiner: c_int, integers: *mut c_int, many: usize, arrays: usize) {
    if many == 0 || !matches!(combiner, MPI_COMBINER_SUBARRAY | MPI_COMBINER_DARRAY) {
        return;
    }
    // SAFETY: the order is the last of so many integers; a darray has size, rank and dimensions first.
    unsafe {
        let order = integers.add(many - 1);
        *order = roles::out_order_of_array_dimensions(*order);
        if combiner == MPI_COMBINER_DARRAY {
            let dims = *integers.add(2);
            let first = integers.add(3 + (arrays - 2) * dims as usize);
            roles::put_all(first, dims, roles::out_distribution_of_array_dimensions);
            roles::put_all(first.add(dims as usize), dims, roles::out_block_size);
        }
    }
}

/// The object that a variable of the tool information interface is bound to.
struct Bound {
    handle: usize,
    is_null: bool,
}

impl Bound {
    fn address(&mut self) -> *mut c_void {
        if self.is_null { null_mut() } else { (&raw mut self.handle).cast() }
    }
}

unsafe fn bound(bind: c_int, object: *mut c_void) -> Bound {
    let place: *mut c_int = object.cast();
    if object.is_null() || bind == MPI_T_BIND_NO_OBJECT {
        return Bound { handle: 0, is_null: true };
    }
    // SAFETY: the caller gives the place of a handle of this kind.
    let handle = unsafe {
        match bind {
            MPI_T_BIND_MPI_COMM => handle::ours::<MPI_Comm>(*place).0,
            MPI_T_BIND_MPI_DATATYPE => handle::ours::<MPI_Datatype>(*place).0,
            MPI_T_BIND_MPI_ERRHANDLER => handle::ours::<MPI_Errhandler>(*place).0,
            MPI_T_BIND_MPI_FILE => handle::ours::<MPI_File>(*place.cast()).0,
            MPI_T_BIND_MPI_GROUP => handle::ours::<MPI_Group>(*place).0,
            MPI_T_BIND_MPI_OP => handle::ours::<MPI_Op>(*place).0,
            MPI_T_BIND_MPI_REQUEST => handle::ours::<MPI_Request>(*place).0,
            MPI_T_BIND_MPI_WIN => handle::ours::<MPI_Win>(*place).0,
            MPI_T_BIND_MPI_MESSAGE => handle::ours::<MPI_Message>(*place).0,
            MPI_T_BIND_MPI_INFO => handle::ours::<MPI_Info>(*place).0,
            MPI_T_BIND_MPI_SESSION => handle::ours::<MPI_Session>(*place).0,
            _ => handle::NO_HANDLE,
        }
    };
    Bound { handle, is_null: false }
}
