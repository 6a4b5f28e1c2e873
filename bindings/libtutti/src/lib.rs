//! `libtutti.so.1`: every function of the MPI C interface under its two names, MPI_X and PMPI_X, and every
//! function of OpenSHMEM, shmem_X and pshmem_X; and the native interface, tutti_x.
//!
//! The functions are generated (see `tutti_table::exports` and `tutti_table::shmem::exports`); a body that is
//! written stands in `crates/mpi/src/api`, those of OpenSHMEM in `crates/shmem/src/api`.

#![allow(non_snake_case)]
#![allow(clippy::missing_safety_doc, clippy::too_many_arguments)]
#![allow(missing_docs)]

include!(concat!(env!("OUT_DIR"), "/exports.rs"));
include!(concat!(env!("OUT_DIR"), "/entries.rs"));

use tutti_mpi::api::fortran::Caller;

#[allow(unreachable_pub, reason = "symbols of the library, which C calls")]
mod call;
#[allow(unreachable_pub, reason = "symbols of the library, which C calls")]
mod dse;
#[allow(unreachable_pub, reason = "symbols of the library, which C calls")]
mod dsm;
mod dsm_arguments;
#[allow(unreachable_pub, reason = "symbols of the library, which C calls")]
mod dsm_calls;
#[allow(unreachable_pub, reason = "symbols of the library, which C calls")]
mod dsm_files;
#[allow(unreachable_pub, reason = "symbols of the library, which C calls")]
mod dsm_heap;
#[allow(unreachable_pub, reason = "symbols of the library, which C calls")]
mod dsm_keep;
#[allow(unreachable_pub, reason = "symbols of the library, which C calls")]
mod dsm_programs;
#[allow(unreachable_pub, reason = "symbols of the library, which C calls")]
mod dsm_queues;
#[allow(unreachable_pub, reason = "symbols of the library, which C calls")]
mod dsm_signals;
#[allow(unreachable_pub, reason = "symbols of the library, which C calls")]
mod dsm_sockets;
#[allow(unreachable_pub, reason = "symbols of the library, which C calls")]
mod dsm_threads;
#[allow(unreachable_pub, reason = "symbols of the library, which C calls")]
mod dsm_waits;
#[allow(unreachable_pub, reason = "symbols of the library, which C calls")]
mod moving;
#[allow(unreachable_pub, reason = "symbols of the library, which C calls")]
mod native;
#[allow(unreachable_pub, reason = "symbols of the library, which C calls")]
mod service;
#[allow(unreachable_pub, reason = "symbols of the library, which C calls")]
#[allow(unused_unsafe, reason = "a body of the table may be safe")]
mod shmem {
    include!(concat!(env!("OUT_DIR"), "/shmem_exports.rs"));
}

// What the Fortran bindings need beyond C; `tutti_table::filter::FOR_FORTRAN` names them too.

// SAFETY: no other library may define the name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn tutti_section_type_of(
    caller: Caller,
    descriptor: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    // SAFETY: the bindings give a descriptor of the compiler, and a place for the handle.
    unsafe { tutti_mpi::api::fortran::section_type(caller, descriptor, count, datatype, newtype) }
}

// SAFETY: no other library may define the name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn tutti_section_refused(
    caller: Caller,
    argument: *const core::ffi::c_char,
) -> c_int {
    // SAFETY: the bindings give a text.
    unsafe { tutti_mpi::api::fortran::refuse_section(caller, argument) }
}

// SAFETY: no other library may define the name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn tutti_sections_stage(
    number: usize,
    descriptors: *const *const c_void,
    are_written: *const u8,
    addresses: *mut *mut c_void,
) -> *mut c_void {
    // SAFETY: the bindings give arrays of so many elements.
    unsafe { tutti_mpi::api::fortran::stage_sections(number, descriptors, are_written, addresses) }
}

// SAFETY: no other library may define the name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn tutti_sections_attach(
    caller: Caller,
    stage: *mut c_void,
    request: *const MPI_Request,
) -> c_int {
    // SAFETY: the bindings give what they have got from `tutti_sections_stage`.
    unsafe { tutti_mpi::api::fortran::attach_stage(caller, stage, request) }
}

// SAFETY: no other library may define the name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn tutti_section_of_partitions(
    caller: Caller,
    descriptor: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    request: MPI_Request,
) -> c_int {
    // SAFETY: the bindings give a descriptor of the compiler.
    unsafe { tutti_mpi::api::fortran::attach_partitions(caller, descriptor, count, datatype, request) }
}

// SAFETY: no other library may define the name.
#[unsafe(no_mangle)]
pub extern "C" fn tutti_attribute_language(number: c_int) {
    tutti_mpi::api::fortran::attribute_language(number);
}

// What the face of MPICH needs beyond C; `tutti_table::entries::BESIDE` names them too.

// SAFETY: no other library may define the name.
#[unsafe(no_mangle)]
pub extern "C" fn tutti_begin_as_mpich() {
    tutti_runtime::attach::note_face(tutti_shm::ticket::Face::Mpich);
}

// SAFETY: no other library may define the name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_panic(what: *const c_char, place: *const c_char) {
    // SAFETY: the face gives two texts that live until this comes back.
    let [what, place] =
        [what, place].map(|text| unsafe { core::ffi::CStr::from_ptr(text) }.to_string_lossy());
    tutti_mpi::invariant::report(&what, &place);
}

// SAFETY: no other library may define the name.
#[unsafe(no_mangle)]
pub extern "C" fn tutti_callback_state(state: *mut c_void) {
    tutti_mpi::callback_state::announce(state.expose_provenance());
}

// SAFETY: no other library may define the name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn tutti_unsupported(name: *const c_char) -> c_int {
    // SAFETY: the face gives a text that lives as long as the process.
    tutti_mpi::unsupported(unsafe { core::ffi::CStr::from_ptr(name) })
}
