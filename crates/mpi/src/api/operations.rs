//! MPI 6.9.5 and 6.9.7: operations made by the user, and a reduction inside one process.

use core::ffi::c_void;

use crate::abi::*;
use crate::callback_state;
use crate::check::inspection::Inspect;
use crate::collective::op::{UserOperation, bad_op};
use crate::collective::state::HasCollectives;
use crate::datatype::Data;
use crate::datatype::HasTypes;
use crate::datatype::checked_count;
use crate::datatype::constructors::Form;
use crate::error::{Error, Result, check};
use crate::progress::Progress;

/// Makes an operation of a function.
pub(super) fn create(
    call: &mut impl HasCollectives,
    function: usize,
    form: Form,
    commutative: bool,
) -> Result<MPI_Op> {
    let state = callback_state::take();
    let operation = UserOperation { function, state, large: form == Form::Large, commutative };
    let index = call.colls_mut().ops.insert(operation);
    Ok(MPI_Op(call.colls().ops.handle(index)))
}

/// Frees an operation; gives the handle that the user has then.
pub(super) fn free(call: &mut impl HasCollectives, op: MPI_Op) -> Result<MPI_Op> {
    match call.colls().ops.index(op.0) {
        Some(index) => {
            call.colls_mut().ops.remove(index);
            Ok(MPI_OP_NULL)
        }
        None if call.colls().is_commutative(op).is_ok() => Err(Error::new(
            MPI_ERR_OP,
            format_args!("operation {:#x} is predefined and cannot be freed", op.0),
        )),
        None => Err(bad_op(op)),
    }
}

/// Combines two buffers of this process.
pub(super) fn reduce_local(
    call: &mut (impl Progress + Inspect + HasCollectives + HasTypes),
    input: *const c_void,
    inout: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
) -> Result<()> {
    let reducer = call.colls().reducer(call.types(), op, datatype)?;
    if crate::check_mode::is_on() {
        call.inspect().remark_on_reduction(&reducer);
    }
    for (address, name) in [(input, "inbuf"), (inout.cast_const(), "inoutbuf")] {
        check(address != MPI_IN_PLACE, MPI_ERR_BUFFER, || {
            format!("{name} is MPI_IN_PLACE, which is not allowed here")
        })?;
        call.types().buffer(Data::new(address, count, datatype))?;
    }
    check(count == 0 || input != inout.cast_const(), MPI_ERR_BUFFER, || {
        "inbuf and inoutbuf are the same memory".into()
    })?;
    // SAFETY: the user's two buffers hold `count` elements and do not overlap (6.9.7).
    unsafe { reducer.combine(|run| call.unlocked(run), input.cast(), inout.cast(), checked_count(count)?) };
    Ok(())
}
