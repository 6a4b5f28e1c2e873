//! MPI 13.2: generalized requests.

use core::ffi::c_void;

use tutti_datatype::Buffer;

use crate::abi::*;
use crate::compound;
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::request::extra::{Extra, Generalized};
use crate::request::{Named, Request, RequestKind, WhenDone};

/// Makes a request that the user will finish.
pub(super) fn start(
    call: &mut impl Progress,
    query: MPI_Grequest_query_function,
    free: MPI_Grequest_free_function,
    cancel: MPI_Grequest_cancel_function,
    state: *mut c_void,
) -> Result<MPI_Request> {
    let mut made = Request::new(RequestKind::Generalized, Buffer::empty(), 0, MPI_ANY_SOURCE, MPI_ANY_TAG);
    made.extra = Some(Box::new(Extra::Generalized(Generalized { query, free, cancel, state })));
    let index = call.engine_mut().requests.insert(made);
    Ok(MPI_Request(call.engine().requests.handle(index)))
}

/// Marks the operation behind a generalized request as done.
///
/// # Errors
/// MPI_ERR_REQUEST; of a request that was freed before, what its free function returns.
pub(super) fn complete(call: &mut impl Progress, request: MPI_Request) -> Result<()> {
    let wrong =
        || Error::new(MPI_ERR_REQUEST, format_args!("request {:#x} is not a generalized one", request.0));
    let Named::Pending(index) = call.engine().named_request(request)? else { return Err(wrong()) };
    let made = call.engine_mut().requests.get_mut(index);
    if made.kind != RequestKind::Generalized {
        return Err(wrong());
    }
    made.done = true;
    if made.when_done == WhenDone::Free {
        return compound::drop_generalized(call, index);
    }
    Ok(())
}
