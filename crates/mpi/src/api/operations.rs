//! MPI 6.9.5 and 6.9.7: operations made by the user, and a reduction inside one process.

use core::ffi::c_void;

use crate::abi::*;
use crate::callback_state;
use crate::collective::op::{UserOperation, bad_op};
use crate::datatype::Data;
use crate::datatype::checked_count;
use crate::datatype::constructors::Form;
use crate::error::{Error, Result, check};
use crate::process::Guard;

/// Makes an operation of a function.
pub(super) fn create(guard: &mut Guard, function: usize, form: Form, commutative: bool) -> Result<MPI_Op> {
    let state = callback_state::take();
    let operation = UserOperation { function, state, large: form == Form::Large, commutative };
    let index = guard.colls.ops.insert(operation);
    Ok(MPI_Op(guard.colls.ops.handle(index)))
}

/// Frees an operation; gives the handle that the user has then.
pub(super) fn free(guard: &mut Guard, op: MPI_Op) -> Result<MPI_Op> {
    match guard.colls.ops.index(op.0) {
        Some(index) => {
            guard.colls.ops.remove(index);
            Ok(MPI_OP_NULL)
        }
        None if guard.colls.is_commutative(op).is_ok() => Err(Error::new(
            MPI_ERR_OP,
            format_args!("operation {:#x} is predefined and cannot be freed", op.0),
        )),
        None => Err(bad_op(op)),
    }
}

/// Combines two buffers of this process.
pub(super) fn reduce_local(
    guard: &mut Guard,
    input: *const c_void,
    inout: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
) -> Result<()> {
    let reducer = guard.colls.reducer(&guard.types, op, datatype)?;
    if crate::check_mode::is_on() {
        guard.inspect().remark_on_reduction(&reducer);
    }
    for (address, name) in [(input, "inbuf"), (inout.cast_const(), "inoutbuf")] {
        check(address != MPI_IN_PLACE, MPI_ERR_BUFFER, || {
            format!("{name} is MPI_IN_PLACE, which is not allowed here")
        })?;
        guard.types.buffer(Data::new(address, count, datatype))?;
    }
    check(count == 0 || input != inout.cast_const(), MPI_ERR_BUFFER, || {
        "inbuf and inoutbuf are the same memory".into()
    })?;
    // SAFETY: the user's two buffers hold `count` elements and do not overlap (6.9.7).
    unsafe { reducer.combine(&mut guard.rank, input.cast(), inout.cast(), checked_count(count)?) };
    Ok(())
}
