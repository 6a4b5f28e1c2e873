//! MPICH's own functions: the few that programs and its own libraries need are done, the others raise
//! MPI_ERR_UNSUPPORTED_OPERATION with their name.

use crate::*;
use std::ffi::CString;
use std::io::Write;
use std::panic::PanicHookInfo;

unsafe extern "C" {
    /// Raises the error that a function is not there.
    fn tutti_unsupported(name: *const c_char) -> c_int;
    /// Notes that the process begins with MPI through this face.
    fn tutti_begin_as_mpich();
    /// Reports a panic of this copy of Rust's library: what, and where.
    fn tutti_panic(what: *const c_char, place: *const c_char);
}

macro_rules! unsupported {
    ($($name:ident)*) => { $(
        // SAFETY: the name is that of MPICH's library, for which this one stands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name() -> c_int {
            // SAFETY: a text of C.
            roles::out_error(unsafe { tutti_unsupported(concat!(stringify!($name), "\0").as_ptr().cast()) })
        }
    )* };
}

unsupported! {
    MPIR_Err_create_code MPIR_Err_return_comm MPIR_Err_return_comm_create_from_group MPIR_Err_return_group
    MPIR_Err_return_session MPIR_Err_return_session_init MPIR_Err_return_win
    MPIX_Allreduce_enqueue MPIX_Allreduce_enqueue_c MPIX_Async_get_state MPIX_Async_spawn MPIX_Async_start
    MPIX_Comm_agree MPIX_Comm_create_errhandler_x MPIX_Comm_failure_ack MPIX_Comm_failure_get_acked
    MPIX_Comm_get_failed MPIX_Comm_get_stream MPIX_Comm_revoke MPIX_Comm_shrink MPIX_Comm_test_threadcomm
    MPIX_File_create_errhandler_x MPIX_Grequest_class_allocate MPIX_Grequest_class_create MPIX_Grequest_start
    MPIX_Info_set_hex MPIX_Irecv_enqueue MPIX_Irecv_enqueue_c MPIX_Isend_enqueue MPIX_Isend_enqueue_c
    MPIX_Op_create_x MPIX_Recv_enqueue MPIX_Recv_enqueue_c MPIX_Request_is_complete MPIX_Send_enqueue
    MPIX_Send_enqueue_c MPIX_Session_create_errhandler_x MPIX_Start_progress_thread MPIX_Stop_progress_thread
    MPIX_Stream_comm_create MPIX_Stream_comm_create_multiplex MPIX_Stream_create MPIX_Stream_free
    MPIX_Stream_irecv MPIX_Stream_irecv_c MPIX_Stream_isend MPIX_Stream_isend_c MPIX_Stream_progress
    MPIX_Stream_recv MPIX_Stream_recv_c MPIX_Stream_send MPIX_Stream_send_c MPIX_Threadcomm_finish
    MPIX_Threadcomm_free MPIX_Threadcomm_init MPIX_Threadcomm_start MPIX_Type_iov MPIX_Type_iov_len
    MPIX_Wait_enqueue MPIX_Waitall_enqueue MPIX_Win_create_errhandler_x
    PMPIX_Allreduce_enqueue PMPIX_Allreduce_enqueue_c PMPIX_Async_get_state PMPIX_Async_spawn PMPIX_Async_start
    PMPIX_Comm_agree PMPIX_Comm_create_errhandler_x PMPIX_Comm_failure_ack PMPIX_Comm_failure_get_acked
    PMPIX_Comm_get_failed PMPIX_Comm_get_stream PMPIX_Comm_revoke PMPIX_Comm_shrink PMPIX_Comm_test_threadcomm
    PMPIX_File_create_errhandler_x PMPIX_Grequest_class_allocate PMPIX_Grequest_class_create PMPIX_Grequest_start
    PMPIX_Info_set_hex PMPIX_Irecv_enqueue PMPIX_Irecv_enqueue_c PMPIX_Isend_enqueue PMPIX_Isend_enqueue_c
    PMPIX_Op_create_x PMPIX_Recv_enqueue PMPIX_Recv_enqueue_c PMPIX_Request_is_complete PMPIX_Send_enqueue
    PMPIX_Send_enqueue_c PMPIX_Session_create_errhandler_x PMPIX_Start_progress_thread PMPIX_Stop_progress_thread
    PMPIX_Stream_comm_create PMPIX_Stream_comm_create_multiplex PMPIX_Stream_create PMPIX_Stream_free
    PMPIX_Stream_irecv PMPIX_Stream_irecv_c PMPIX_Stream_isend PMPIX_Stream_isend_c PMPIX_Stream_progress
    PMPIX_Stream_recv PMPIX_Stream_recv_c PMPIX_Stream_send PMPIX_Stream_send_c PMPIX_Threadcomm_finish
    PMPIX_Threadcomm_free PMPIX_Threadcomm_init PMPIX_Threadcomm_start PMPIX_Type_iov PMPIX_Type_iov_len
    PMPIX_Wait_enqueue PMPIX_Waitall_enqueue PMPIX_Win_create_errhandler_x
}

macro_rules! both {
    ($($name:ident $twin:ident ($($argument:ident: $class:ty),*) $body:block)*) => { $(
        // SAFETY: as above.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $class),*) -> c_int {
            // SAFETY: the caller gives a place, or a number.
            #[allow(unused_unsafe, reason = "some only answer")]
            unsafe { $body }
        }
        // SAFETY: as above.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $twin($($argument: $class),*) -> c_int {
            // SAFETY: as above.
            unsafe { $name($($argument),*) }
        }
    )* };
}

both! {
    MPIX_Query_cuda_support PMPIX_Query_cuda_support() { 0 }
    MPIX_Query_hip_support PMPIX_Query_hip_support() { 0 }
    MPIX_Query_ze_support PMPIX_Query_ze_support() { 0 }
    MPIX_GPU_query_support PMPIX_GPU_query_support(_kind: c_int, is_supported: *mut c_int) {
        if is_supported.is_null() {
            return roles::out_error(MPI_ERR_ARG);
        }
        *is_supported = 0;
        MPI_SUCCESS
    }
    MPIX_Delete_error_class PMPIX_Delete_error_class(class: c_int) { body_MPI_Remove_error_class(class) }
    MPIX_Delete_error_code PMPIX_Delete_error_code(code: c_int) { body_MPI_Remove_error_code(code) }
    MPIX_Delete_error_string PMPIX_Delete_error_string(code: c_int) { body_MPI_Remove_error_string(code) }
}

macro_rules! tools {
    ($($name:ident)*) => { $(
        /// Tools that stand between a program and its library (QMPI) are not called.
        // SAFETY: as above.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name() -> c_int {
            roles::out_error(MPI_ERR_UNSUPPORTED_OPERATION)
        }
    )* };
}

tools! {
    QMPI_Get_calling_address QMPI_Get_function QMPI_Get_tool_storage QMPI_Register_function QMPI_Register_tool_name
    QMPI_Register_tool_storage
}

/// Variables by which MPICH's own launcher tells a program that it has started it.
const OF_HYDRA: [&str; 2] = ["HYDI_CONTROL_FD", "PMI_HYDRA_CONTROL_FD"];

/// Comes before the first call of MPI.
pub(crate) fn begin() {
    refuse_another_launcher();
    variables::tell_fortran();
    std::panic::set_hook(Box::new(|info: &PanicHookInfo| {
        let place = info.location().map(|l| format!(" at {}:{}", l.file(), l.line())).unwrap_or_default();
        let texts = [info.payload_as_str().unwrap_or("unknown"), &place];
        let [what, place] = texts.map(|text| CString::new(text).unwrap_or_default());
        // SAFETY: both texts live here.
        unsafe { tutti_panic(what.as_ptr(), place.as_ptr()) }
    }));
    // SAFETY: it notes a number.
    unsafe { tutti_begin_as_mpich() }
}

/// MPICH's own launcher in a rank of ours starts programs for its own library, which would take the rank's
/// place.
fn refuse_another_launcher() {
    if let Some(variable) = OF_HYDRA.iter().find(|name| std::env::var_os(name).is_some()) {
        let _ = writeln!(
            std::io::stderr(),
            "tutti: this program was started by MPICH's own launcher ({variable} is set) inside a rank: start it with \
             Tutti's mpiexec, or the outer one with mpiexec --own-mpi"
        );
        std::process::exit(1);
    }
}
