//! MPI 13.2: generalized requests.

use core::ffi::{c_int, c_void};

use tutti_datatype::Buffer;

use crate::abi::*;
use crate::errhandler::call;
use crate::error::Error;
use crate::extra::{Extra, Generalized};
use crate::point_to_point::Named;
use crate::request::{Request, RequestKind, WhenDone};

/// Makes a request that the user will finish.
#[inline]
pub unsafe fn MPI_Grequest_start(
    query_fn: MPI_Grequest_query_function,
    free_fn: MPI_Grequest_free_function,
    cancel_fn: MPI_Grequest_cancel_function,
    extra_state: *mut c_void,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Grequest_start", MPI_COMM_SELF, |guard| {
        let mut made =
            Request::new(RequestKind::Generalized, Buffer::empty(), 0, MPI_ANY_SOURCE, MPI_ANY_TAG);
        let functions = Generalized { query: query_fn, free: free_fn, cancel: cancel_fn, state: extra_state };
        made.extra = Some(Box::new(Extra::Generalized(functions)));
        let index = guard.engine.requests.insert(made);
        // SAFETY: the user gives a place for the request.
        unsafe { request.write(MPI_Request(guard.engine.requests.handle(index))) };
        Ok(())
    })
}

/// Says that the operation behind a generalized request is done.
#[inline]
pub unsafe fn MPI_Grequest_complete(request: MPI_Request) -> c_int {
    call(c"MPI_Grequest_complete", MPI_COMM_SELF, |guard| {
        let wrong =
            || Error::new(MPI_ERR_REQUEST, format_args!("request {:#x} is not a generalized one", request.0));
        let Named::Pending(index) = guard.named_request(request)? else { return Err(wrong()) };
        let made = guard.engine.requests.get_mut(index);
        if made.kind != RequestKind::Generalized {
            return Err(wrong());
        }
        made.done = true;
        if made.when_done == WhenDone::Free {
            guard.take_with_extra(index);
        }
        Ok(())
    })
}
