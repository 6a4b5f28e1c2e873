//! Functions that differ from C by more than types. `P` says whether the name of the profiling interface was
//! called: then C's is called, too.

use crate::abi::*;
use crate::arguments;
use crate::callbacks::{self, Datarep, Grequest, Key};
use crate::handle::{self, Handle, handle, key_of_c};
use crate::section::optional;
use crate::text::{Text, put_blank_padded, trimmed};
use crate::{beside, c, predefined, put_logical, sentinels};
use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::AtomicUsize;

/// Calls a function of C, or its twin of the profiling interface.
macro_rules! call {
    ($name:ident $twin:ident ($($argument:expr),* $(,)?)) => {
        if P { c::$twin($($argument),*) } else { c::$name($($argument),*) }
    };
}

/// Functions with the arguments that they need, whose types are those of the table; the generated caller
/// gives the code.
macro_rules! functions {
    ($($name:ident { $($argument:ident $(: $as:ident)?),* } => $body:block)*) => { $(
        #[inline]
        pub(crate) unsafe fn $name<const P: bool>(given: arguments::$name) -> c_int {
            let arguments::$name { $($argument $(: $as)?,)* .. } = given;
            // SAFETY: the caller keeps the standard's rules for the arguments.
            unsafe { $body }
        }
    )* };
}

functions! {
    Init {} => { call!(MPI_Init PMPI_Init(null_mut(), null_mut())) }

    Init_thread { required, provided } => {
        call!(MPI_Init_thread PMPI_Init_thread(null_mut(), null_mut(), *required, provided))
    }

    Info_create_env { info } => {
        let mut made: MPI_Info = handle::absent();
        let code = call!(MPI_Info_create_env PMPI_Info_create_env(0, null_mut(), &mut made));
        handle::put(info, made);
        code
    }

    Buffer_detach { buffer_addr: address, size } => {
        detached(address, |place| call!(MPI_Buffer_detach PMPI_Buffer_detach(place, size)))
    }

    Buffer_detach_c { buffer_addr: address, size } => {
        detached(address, |place| call!(MPI_Buffer_detach_c PMPI_Buffer_detach_c(place, size)))
    }

    Comm_detach_buffer { comm, buffer_addr: address, size } => {
        detached(address, |place| call!(MPI_Comm_detach_buffer PMPI_Comm_detach_buffer(handle(*comm), place, size)))
    }

    Comm_detach_buffer_c { comm, buffer_addr: address, size } => {
        detached(address, |place| call!(MPI_Comm_detach_buffer_c PMPI_Comm_detach_buffer_c(handle(*comm), place, size)))
    }

    Session_detach_buffer { session, buffer_addr: address, size } => {
        detached(address, |place| call!(MPI_Session_detach_buffer PMPI_Session_detach_buffer(handle(*session), place, size)))
    }

    Session_detach_buffer_c { session, buffer_addr: address, size } => {
        detached(address, |place| call!(MPI_Session_detach_buffer_c PMPI_Session_detach_buffer_c(handle(*session), place, size)))
    }

    Info_get { info, key, valuelen, value, flag, length_key, length_value } => {
        let key = Text::new(key, length_key, true);
        let mut room = vec![0_u8; usize::try_from(*valuelen).unwrap_or(0) + 1];
        let mut found = 0;
        let code = call!(MPI_Info_get PMPI_Info_get(
            handle(*info), key.address(), *valuelen, room.as_mut_ptr().cast(), &mut found
        ));
        if code == MPI_SUCCESS && found != 0 {
            put_text(value, length_value, &room);
        }
        put_logical(flag, found);
        code
    }

    Info_get_string { info, key, buflen, value, flag, length_key, length_value } => {
        // C counts the zero at the end, Fortran does not.
        let key = Text::new(key, length_key, true);
        let mut length = if *buflen > 0 { buflen.read().saturating_add(1) } else { *buflen };
        let mut room = vec![0_u8; usize::try_from(length).unwrap_or(0) + 1];
        let mut found = 0;
        let code = call!(MPI_Info_get_string PMPI_Info_get_string(
            handle(*info), key.address(), &mut length, room.as_mut_ptr().cast(), &mut found
        ));
        if code == MPI_SUCCESS && found != 0 {
            if *buflen > 0 {
                put_text(value, length_value, &room);
            }
            *buflen = length - 1;
        }
        put_logical(flag, found);
        code
    }

    Session_get_nth_pset { session, info, n, pset_len, pset_name, length_pset_name } => {
        let mut length = if *pset_len > 0 { pset_len.read().saturating_add(1) } else { *pset_len };
        let mut room = vec![0_u8; usize::try_from(length).unwrap_or(0) + 1];
        let code = call!(MPI_Session_get_nth_pset PMPI_Session_get_nth_pset(
            handle(*session), handle(*info), *n, &mut length, room.as_mut_ptr().cast()
        ));
        if code == MPI_SUCCESS {
            if *pset_len > 0 {
                put_text(pset_name, length_pset_name, &room);
            }
            *pset_len = length - 1;
        }
        code
    }

    Attr_put { comm, keyval, attribute_val: value } => {
        let value = *value.cast::<c_int>() as MPI_Aint;
        in_language(INTEGER, || call!(MPI_Attr_put PMPI_Attr_put(handle(*comm), key_of_c(*keyval), value as *mut c_void)))
    }

    Attr_get { comm, keyval, attribute_val: value, flag } => {
        let mut found = Found::default();
        let code = in_language(INTEGER, || {
            call!(MPI_Attr_get PMPI_Attr_get(handle(*comm), key_of_c(*keyval), found.place(), &mut found.flag))
        });
        if let Some(found) = found.value(key_of_c(*keyval)) {
            *value.cast::<c_int>() = found as c_int;
        }
        put_logical(flag, found.flag);
        code
    }

    Comm_set_attr { comm, comm_keyval: keyval, attribute_val: value } => {
        let value = *value.cast::<*mut c_void>();
        in_language(ADDRESS, || call!(MPI_Comm_set_attr PMPI_Comm_set_attr(handle(*comm), key_of_c(*keyval), value)))
    }

    Type_set_attr { datatype, type_keyval: keyval, attribute_val: value } => {
        let value = *value.cast::<*mut c_void>();
        in_language(ADDRESS, || call!(MPI_Type_set_attr PMPI_Type_set_attr(handle(*datatype), key_of_c(*keyval), value)))
    }

    Win_set_attr { win, win_keyval: keyval, attribute_val: value } => {
        let value = *value.cast::<*mut c_void>();
        in_language(ADDRESS, || call!(MPI_Win_set_attr PMPI_Win_set_attr(handle(*win), key_of_c(*keyval), value)))
    }

    Comm_get_attr { comm, comm_keyval: keyval, attribute_val: value, flag } => {
        let mut found = Found::default();
        let code = in_language(ADDRESS, || {
            call!(MPI_Comm_get_attr PMPI_Comm_get_attr(handle(*comm), key_of_c(*keyval), found.place(), &mut found.flag))
        });
        found.put(key_of_c(*keyval), value, flag);
        code
    }

    Type_get_attr { datatype, type_keyval: keyval, attribute_val: value, flag } => {
        let mut found = Found::default();
        let code = in_language(ADDRESS, || {
            let place = found.place();
            call!(MPI_Type_get_attr PMPI_Type_get_attr(handle(*datatype), key_of_c(*keyval), place, &mut found.flag))
        });
        found.put(key_of_c(*keyval), value, flag);
        code
    }

    Win_get_attr { win, win_keyval: keyval, attribute_val: value, flag } => {
        let mut found = Found::default();
        let code = in_language(ADDRESS, || {
            call!(MPI_Win_get_attr PMPI_Win_get_attr(handle(*win), key_of_c(*keyval), found.place(), &mut found.flag))
        });
        found.put(key_of_c(*keyval), value, flag);
        code
    }

    Keyval_create { copy_fn: copy, delete_fn: delete, keyval, extra_state: extra } => {
        let extra = *extra.cast::<c_int>() as MPI_Aint;
        let (copy, delete, state) = key::<MPI_Comm>(copy, delete, extra, true);
        in_language(INTEGER, || call!(MPI_Keyval_create PMPI_Keyval_create(copy, delete, keyval, state)))
    }

    Comm_create_keyval {
        comm_copy_attr_fn: copy, comm_delete_attr_fn: delete, comm_keyval: keyval, extra_state: extra
    } => {
        let (copy, delete, state) = key::<MPI_Comm>(copy, delete, *extra.cast(), false);
        in_language(ADDRESS, || {
            call!(MPI_Comm_create_keyval PMPI_Comm_create_keyval(copy, delete, keyval, state))
        })
    }

    Type_create_keyval {
        type_copy_attr_fn: copy, type_delete_attr_fn: delete, type_keyval: keyval, extra_state: extra
    } => {
        let (copy, delete, state) = key::<MPI_Datatype>(copy, delete, *extra.cast(), false);
        in_language(ADDRESS, || {
            call!(MPI_Type_create_keyval PMPI_Type_create_keyval(copy, delete, keyval, state))
        })
    }

    Win_create_keyval {
        win_copy_attr_fn: copy, win_delete_attr_fn: delete, win_keyval: keyval, extra_state: extra
    } => {
        let (copy, delete, state) = key::<MPI_Win>(copy, delete, *extra.cast(), false);
        in_language(ADDRESS, || {
            call!(MPI_Win_create_keyval PMPI_Win_create_keyval(copy, delete, keyval, state))
        })
    }

    Grequest_start { query_fn: query, free_fn: free, cancel_fn: cancel, extra_state: extra, request } => {
        let state = Box::new(Grequest { query, free, cancel, extra_state: extra.cast() });
        let state = Box::into_raw(state);
        let mut made: MPI_Request = handle::absent();
        let (query, free, cancel) =
            (callbacks::query as *const (), callbacks::free as *const (), callbacks::cancel as *const ());
        let code = call!(MPI_Grequest_start PMPI_Grequest_start(
            query as usize, free as usize, cancel as usize, state.cast(), &mut made
        ));
        if code != MPI_SUCCESS {
            drop(Box::from_raw(state));
        }
        handle::put(request, made);
        code
    }

    Register_datarep {
        datarep: name, read_conversion_fn: read, write_conversion_fn: write, dtype_file_extent_fn: extent,
        extra_state: extra, length_datarep: length
    } => {
        let name = Text::new(name, length, false);
        let (reads, writes) = (callbacks::read as *const () as usize, callbacks::write as *const () as usize);
        let (reads, writes, state) = datarep(read, write, extent, *extra.cast(), reads, writes);
        let extent = callbacks::extent as *const () as usize;
        call!(MPI_Register_datarep PMPI_Register_datarep(name.address(), reads, writes, extent, state))
    }

    Register_datarep_c {
        datarep: name, read_conversion_fn: read, write_conversion_fn: write, dtype_file_extent_fn: extent,
        extra_state: extra, length_datarep: length
    } => {
        let name = Text::new(name, length, false);
        let reads = callbacks::read_large as *const () as usize;
        let writes = callbacks::write_large as *const () as usize;
        let (reads, writes, state) = datarep(read, write, extent, *extra.cast(), reads, writes);
        let extent = callbacks::extent as *const () as usize;
        call!(MPI_Register_datarep_c PMPI_Register_datarep_c(name.address(), reads, writes, extent, state))
    }

    Comm_spawn {
        command, argv, maxprocs, info, root, comm, intercomm, array_of_errcodes: codes, length_command,
        length_argv
    } => {
        let command = Text::new(command, length_command, true);
        let mut arguments = Arguments::new(argv, length_argv, length_argv);
        let mut made: MPI_Comm = handle::absent();
        let code = call!(MPI_Comm_spawn PMPI_Comm_spawn(
            command.address(), arguments.address(), *maxprocs, handle(*info), *root, handle(*comm), &mut made,
            sentinels::error_codes(codes)
        ));
        handle::put(intercomm, made);
        code
    }

    Comm_spawn_multiple {
        count, array_of_commands: commands, array_of_argv: argv, array_of_maxprocs: maxprocs,
        array_of_info: infos, root, comm, intercomm, array_of_errcodes: codes,
        length_array_of_commands: length_commands, length_array_of_argv: length_argv
    } => {
        // Significant at the root only; elsewhere the arrays may be anything.
        let mut rank = -1;
        c::PMPI_Comm_rank(handle(*comm), &mut rank);
        let number = if rank == *root { usize::try_from(*count).unwrap_or(0) } else { 0 };
        let texts: Vec<Text> = (0..number)
            .map(|at| Text::new(commands.add(at * length_commands), length_commands, true))
            .collect();
        let mut commands: Vec<*mut c_char> = texts.iter().map(|text| text.address().cast_mut()).collect();
        let mut arguments: Vec<Arguments> = match sentinels::is_no_arguments(argv) {
            true => Vec::new(),
            // argv(count, *): the next string of a command is `count` strings further.
            false => (0..number)
                .map(|at| Arguments::new(argv.add(at * length_argv), length_argv, number * length_argv))
                .collect(),
        };
        let mut lists: Vec<*mut *mut c_char> = arguments.iter_mut().map(Arguments::address).collect();
        let lists = if lists.is_empty() { MPI_ARGVS_NULL } else { lists.as_mut_ptr() };
        let infos: Vec<MPI_Info> = (0..number).map(|at| handle(*infos.add(at))).collect();
        let mut made: MPI_Comm = handle::absent();
        let code = call!(MPI_Comm_spawn_multiple PMPI_Comm_spawn_multiple(
            *count, commands.as_mut_ptr(), lists, maxprocs, infos.as_ptr(), *root, handle(*comm), &mut made,
            sentinels::error_codes(codes)
        ));
        handle::put(intercomm, made);
        code
    }
}

/// Arguments of a new process: strings up to a blank one. Blanks at both ends are no part of them (MPI-5.0
/// 11.8.2).
struct Arguments {
    /// Texts that the addresses lead to.
    _texts: Vec<Text>,
    addresses: Vec<*mut c_char>,
}

impl Arguments {
    unsafe fn new(argv: *mut u8, length: usize, step: usize) -> Self {
        let mut texts = Vec::new();
        if !sentinels::is_no_arguments(argv) {
            // SAFETY: the array ends with a blank string.
            let at = |index: usize| unsafe { trimmed(argv.add(index * step), length, true) };
            texts.extend((0..).map(at).take_while(|text| !text.is_empty()).map(Text::of));
        }
        let addresses = texts.iter().map(|text| text.address().cast_mut()).chain([null_mut()]).collect();
        Arguments { _texts: texts, addresses }
    }

    fn address(&mut self) -> *mut *mut c_char {
        self.addresses.as_mut_ptr()
    }
}

/// Calls with a place for the address of a buffer, and gives it where there is a place: `mpif.h` and `mpi`
/// have none.
unsafe fn detached(address: *mut c_void, call: impl FnOnce(*mut c_void) -> c_int) -> c_int {
    let mut found: *mut c_void = null_mut();
    let code = call((&raw mut found).cast());
    if code == MPI_SUCCESS && !address.is_null() {
        // SAFETY: the place of a TYPE(C_PTR).
        unsafe { *address.cast::<*mut c_void>() = sentinels::variable_of(found) };
    }
    code
}

/// Writes a string of C as one of Fortran.
unsafe fn put_text(place: *mut u8, length: usize, room: &[u8]) {
    let end = room.iter().position(|byte| *byte == 0).unwrap_or(room.len());
    // SAFETY: our contract.
    unsafe { put_blank_padded(place, length, &room[..end]) }
}

/// Callbacks as C gets them, and the pointer that they get.
fn key<T: Handle>(
    copy: usize,
    delete: usize,
    extra_state: MPI_Aint,
    is_integer: bool,
) -> (usize, usize, *mut c_void) {
    let copier = callbacks::copy::<T> as *const () as usize;
    let deleter = callbacks::delete::<T> as *const () as usize;
    let state = Box::into_raw(Box::new(Key { copy, delete, extra_state, is_integer }));
    let deleter = if predefined::is_null_delete(delete) { MPI_COMM_NULL_DELETE_FN } else { deleter };
    (predefined::copy_number(copy).unwrap_or(copier), deleter, state.cast())
}

fn datarep(
    read: usize,
    write: usize,
    extent: usize,
    extra_state: MPI_Aint,
    reads: usize,
    writes: usize,
) -> (usize, usize, *mut c_void) {
    let state = Box::into_raw(Box::new(Datarep { read, write, extent, extra_state }));
    let reads = if predefined::is_no_conversion(read) { MPI_CONVERSION_FN_NULL } else { reads };
    let writes = if predefined::is_no_conversion(write) { MPI_CONVERSION_FN_NULL } else { writes };
    (reads, writes, state.cast())
}

/// Languages in which attributes are set and read (MPI 19.3.7).
const C: c_int = 0;
const ADDRESS: c_int = 1;
const INTEGER: c_int = 2;

/// Calls C about attributes as from Fortran: our C library keeps the language with the value.
unsafe fn in_language(language: c_int, body: impl FnOnce() -> c_int) -> c_int {
    static SET: AtomicUsize = AtomicUsize::new(usize::MAX);
    let set = |language| {
        if let Some(function) = optional(&SET, beside::ATTRIBUTE_LANGUAGE) {
            // SAFETY: the C library's own function.
            unsafe {
                core::mem::transmute::<usize, unsafe extern "C" fn(c_int)>(function)(language);
            }
        }
    };
    set(language);
    let code = body();
    set(C);
    code
}

/// An attribute as C gives it.
struct Found {
    value: *mut c_void,
    flag: c_int,
}

impl Default for Found {
    fn default() -> Self {
        Found { value: null_mut(), flag: 0 }
    }
}

impl Found {
    fn place(&mut self) -> *mut c_void {
        (&raw mut self.value).cast()
    }

    /// The value for Fortran: of predefined attributes C gives the address of a number.
    unsafe fn value(&self, keyval: c_int) -> Option<MPI_Aint> {
        if self.flag == 0 {
            return None;
        }
        // SAFETY: the C library says what these attributes lead to.
        Some(unsafe {
            match keyval {
                MPI_TAG_UB
                | MPI_IO
                | MPI_HOST
                | MPI_WTIME_IS_GLOBAL
                | MPI_APPNUM
                | MPI_LASTUSEDCODE
                | MPI_UNIVERSE_SIZE
                | MPI_WIN_DISP_UNIT
                | MPI_WIN_CREATE_FLAVOR
                | MPI_WIN_MODEL => *self.value.cast::<c_int>() as MPI_Aint,
                MPI_WIN_SIZE => *self.value.cast::<MPI_Aint>(),
                _ => self.value as MPI_Aint,
            }
        })
    }

    unsafe fn put(&self, keyval: c_int, value: *mut c_void, flag: *mut c_int) {
        // SAFETY: the caller gives the places of a number and a LOGICAL.
        unsafe {
            if let Some(found) = self.value(keyval) {
                *value.cast::<MPI_Aint>() = found;
            }
            put_logical(flag, self.flag);
        }
    }
}
