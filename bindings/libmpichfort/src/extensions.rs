//! Functions that MPICH has beyond the standard: the C interface answers them or raises an error.

use crate::abi::{MPI_Comm, MPI_Group};
use crate::handle::{absent, handle, put};
use crate::{other_names, put_code, put_logical};
use core::ffi::c_int;

mod c {
    use super::{MPI_Comm, MPI_Group, c_int};

    unsafe extern "C-unwind" {
        pub(super) fn MPIX_Comm_agree(comm: MPI_Comm, flag: *mut c_int) -> c_int;
        pub(super) fn PMPIX_Comm_agree(comm: MPI_Comm, flag: *mut c_int) -> c_int;
        pub(super) fn MPIX_Comm_failure_ack(comm: MPI_Comm) -> c_int;
        pub(super) fn PMPIX_Comm_failure_ack(comm: MPI_Comm) -> c_int;
        pub(super) fn MPIX_Comm_failure_get_acked(comm: MPI_Comm, group: *mut MPI_Group) -> c_int;
        pub(super) fn PMPIX_Comm_failure_get_acked(comm: MPI_Comm, group: *mut MPI_Group) -> c_int;
        pub(super) fn MPIX_Comm_revoke(comm: MPI_Comm) -> c_int;
        pub(super) fn PMPIX_Comm_revoke(comm: MPI_Comm) -> c_int;
        pub(super) fn MPIX_Comm_shrink(comm: MPI_Comm, new: *mut MPI_Comm) -> c_int;
        pub(super) fn PMPIX_Comm_shrink(comm: MPI_Comm, new: *mut MPI_Comm) -> c_int;
        pub(super) fn MPIX_GPU_query_support(class: c_int, flag: *mut c_int) -> c_int;
        pub(super) fn PMPIX_GPU_query_support(class: c_int, flag: *mut c_int) -> c_int;
        pub(super) fn MPIX_Query_cuda_support() -> c_int;
        pub(super) fn PMPIX_Query_cuda_support() -> c_int;
        pub(super) fn MPIX_Query_hip_support() -> c_int;
        pub(super) fn PMPIX_Query_hip_support() -> c_int;
        pub(super) fn MPIX_Query_ze_support() -> c_int;
        pub(super) fn PMPIX_Query_ze_support() -> c_int;
    }
}

macro_rules! extensions {
    ($($name:ident $twin:ident [$function:ident $profiling:ident]
        ($($argument:ident: $class:ty),*) $body:block)*) => { $(
        extensions! { @one $name [$function = $function] ($($argument: $class),*) $body }
        extensions! { @one $twin [$function = $profiling] ($($argument: $class),*) $body }
    )* };
    (@one $name:ident [$function:ident = $called:ident] ($($argument:ident: $class:ty),*) $body:block) => {
        // SAFETY: the name is that of MPICH's library.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $class),*) {
            use c::$called as $function;
            // SAFETY: the arguments are those of the caller: places of INTEGERs.
            unsafe { $body }
        }
    };
}

extensions! {
    mpix_comm_agree_ pmpix_comm_agree_ [MPIX_Comm_agree PMPIX_Comm_agree]
    (comm: *const c_int, flag: *mut c_int, ierror: *mut c_int) {
        let mut agreed = c_int::from(*flag != 0);
        let code = MPIX_Comm_agree(handle(*comm), &mut agreed);
        put_logical(flag, agreed);
        put_code(ierror, code);
    }

    mpix_comm_failure_ack_ pmpix_comm_failure_ack_ [MPIX_Comm_failure_ack PMPIX_Comm_failure_ack]
    (comm: *const c_int, ierror: *mut c_int) {
        put_code(ierror, MPIX_Comm_failure_ack(handle(*comm)));
    }

    mpix_comm_failure_get_acked_ pmpix_comm_failure_get_acked_
    [MPIX_Comm_failure_get_acked PMPIX_Comm_failure_get_acked]
    (comm: *const c_int, group: *mut c_int, ierror: *mut c_int) {
        let mut made = absent();
        let code = MPIX_Comm_failure_get_acked(handle(*comm), &mut made);
        put(group, made);
        put_code(ierror, code);
    }

    mpix_comm_revoke_ pmpix_comm_revoke_ [MPIX_Comm_revoke PMPIX_Comm_revoke]
    (comm: *const c_int, ierror: *mut c_int) {
        put_code(ierror, MPIX_Comm_revoke(handle(*comm)));
    }

    mpix_comm_shrink_ pmpix_comm_shrink_ [MPIX_Comm_shrink PMPIX_Comm_shrink]
    (comm: *const c_int, new: *mut c_int, ierror: *mut c_int) {
        let mut made = absent();
        let code = MPIX_Comm_shrink(handle(*comm), &mut made);
        put(new, made);
        put_code(ierror, code);
    }

    mpix_gpu_query_support_ pmpix_gpu_query_support_ [MPIX_GPU_query_support PMPIX_GPU_query_support]
    (class: *const c_int, flag: *mut c_int, ierror: *mut c_int) {
        let mut found = 0;
        let code = MPIX_GPU_query_support(*class, &mut found);
        put_logical(flag, found);
        put_code(ierror, code);
    }

    mpix_query_cuda_support_ pmpix_query_cuda_support_ [MPIX_Query_cuda_support PMPIX_Query_cuda_support]
    (ierror: *mut c_int) {
        put_code(ierror, MPIX_Query_cuda_support());
    }

    mpix_query_hip_support_ pmpix_query_hip_support_ [MPIX_Query_hip_support PMPIX_Query_hip_support]
    (ierror: *mut c_int) {
        put_code(ierror, MPIX_Query_hip_support());
    }

    mpix_query_ze_support_ pmpix_query_ze_support_ [MPIX_Query_ze_support PMPIX_Query_ze_support]
    (ierror: *mut c_int) {
        put_code(ierror, MPIX_Query_ze_support());
    }
}

other_names! {
    mpix_comm_agree_: mpix_comm_agree mpix_comm_agree__ MPIX_COMM_AGREE mpix_comm_agree_f08_;
    pmpix_comm_agree_: pmpix_comm_agree pmpix_comm_agree__ PMPIX_COMM_AGREE pmpixr_comm_agree_f08_;
    mpix_comm_failure_ack_:
        mpix_comm_failure_ack mpix_comm_failure_ack__ MPIX_COMM_FAILURE_ACK mpix_comm_failure_ack_f08_;
    pmpix_comm_failure_ack_:
        pmpix_comm_failure_ack pmpix_comm_failure_ack__ PMPIX_COMM_FAILURE_ACK pmpixr_comm_failure_ack_f08_;
    mpix_comm_failure_get_acked_:
        mpix_comm_failure_get_acked mpix_comm_failure_get_acked__ MPIX_COMM_FAILURE_GET_ACKED
        mpix_comm_failure_get_acked_f08_;
    pmpix_comm_failure_get_acked_:
        pmpix_comm_failure_get_acked pmpix_comm_failure_get_acked__ PMPIX_COMM_FAILURE_GET_ACKED
        pmpixr_comm_failure_get_acked_f08_;
    mpix_comm_revoke_: mpix_comm_revoke mpix_comm_revoke__ MPIX_COMM_REVOKE mpix_comm_revoke_f08_;
    pmpix_comm_revoke_: pmpix_comm_revoke pmpix_comm_revoke__ PMPIX_COMM_REVOKE pmpixr_comm_revoke_f08_;
    mpix_comm_shrink_: mpix_comm_shrink mpix_comm_shrink__ MPIX_COMM_SHRINK mpix_comm_shrink_f08_;
    pmpix_comm_shrink_: pmpix_comm_shrink pmpix_comm_shrink__ PMPIX_COMM_SHRINK pmpixr_comm_shrink_f08_;
    mpix_gpu_query_support_:
        mpix_gpu_query_support mpix_gpu_query_support__ MPIX_GPU_QUERY_SUPPORT mpix_gpu_query_support_f08_;
    pmpix_gpu_query_support_:
        pmpix_gpu_query_support pmpix_gpu_query_support__ PMPIX_GPU_QUERY_SUPPORT
        pmpixr_gpu_query_support_f08_;
    mpix_query_cuda_support_:
        mpix_query_cuda_support mpix_query_cuda_support__ MPIX_QUERY_CUDA_SUPPORT
        mpix_query_cuda_support_f08_;
    pmpix_query_cuda_support_:
        pmpix_query_cuda_support pmpix_query_cuda_support__ PMPIX_QUERY_CUDA_SUPPORT
        pmpixr_query_cuda_support_f08_;
    mpix_query_hip_support_:
        mpix_query_hip_support mpix_query_hip_support__ MPIX_QUERY_HIP_SUPPORT mpix_query_hip_support_f08_;
    pmpix_query_hip_support_:
        pmpix_query_hip_support pmpix_query_hip_support__ PMPIX_QUERY_HIP_SUPPORT
        pmpixr_query_hip_support_f08_;
    mpix_query_ze_support_:
        mpix_query_ze_support mpix_query_ze_support__ MPIX_QUERY_ZE_SUPPORT mpix_query_ze_support_f08_;
    pmpix_query_ze_support_:
        pmpix_query_ze_support pmpix_query_ze_support__ PMPIX_QUERY_ZE_SUPPORT pmpixr_query_ze_support_f08_;
}
