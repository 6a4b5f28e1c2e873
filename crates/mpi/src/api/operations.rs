//! MPI 6.9.5 and 6.9.7: operations made by the user, and a reduction inside one process.

use core::ffi::{c_int, c_void};

use crate::abi::*;
use crate::collective::op::UserOperation;
use crate::datatype::checked_count;
use crate::errhandler::call;
use crate::error::{Result, check};
use crate::point_to_point::Data;
use crate::process::Guard;

fn create(guard: &mut Guard, function: usize, large: bool, commute: c_int, op: *mut MPI_Op) -> Result<()> {
    check(function != 0, MPI_ERR_ARG, || "user_fn is a null pointer".into())?;
    check(!op.is_null(), MPI_ERR_ARG, || "op is a null pointer".into())?;
    let index = guard.ops.insert(UserOperation { function, large, commutative: commute != 0 });
    // SAFETY: the user gives a place for the handle; it is not null.
    unsafe { op.write(MPI_Op(guard.ops.handle(index))) };
    Ok(())
}

fn reduce_local(
    guard: &mut Guard,
    input: *const c_void,
    inout: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
) -> Result<()> {
    let reducer = guard.reducer(op, datatype)?;
    if crate::check_mode::is_on() {
        guard.remark_on_reduction(&reducer);
    }
    for (address, name) in [(input, "inbuf"), (inout.cast_const(), "inoutbuf")] {
        check(address != MPI_IN_PLACE, MPI_ERR_BUFFER, || {
            format!("{name} is MPI_IN_PLACE, which is not allowed here")
        })?;
        guard.buffer(Data::new(address, count, datatype))?;
    }
    // SAFETY: the user's two buffers hold `count` elements and do not overlap (6.9.7).
    unsafe { reducer.combine(&mut guard.rank, input.cast(), inout.cast(), checked_count(count)?) };
    Ok(())
}

/// Makes an operation of a function (6.9.5).
#[inline]
pub unsafe fn MPI_Op_create(user_fn: MPI_User_function, commute: c_int, op: *mut MPI_Op) -> c_int {
    call(c"MPI_Op_create", MPI_COMM_SELF, |guard| create(guard, user_fn, false, commute, op))
}

/// Makes an operation of a function (6.9.5). Large count.
#[inline]
pub unsafe fn MPI_Op_create_c(user_fn: MPI_User_function_c, commute: c_int, op: *mut MPI_Op) -> c_int {
    call(c"MPI_Op_create_c", MPI_COMM_SELF, |guard| create(guard, user_fn, true, commute, op))
}

/// Frees an operation; what has been started with it goes on (6.9.5).
#[inline]
pub unsafe fn MPI_Op_free(op: *mut MPI_Op) -> c_int {
    call(c"MPI_Op_free", MPI_COMM_SELF, |guard| {
        check(!op.is_null(), MPI_ERR_ARG, || "op is a null pointer".into())?;
        // SAFETY: the user gives a handle; it is not null.
        let handle = unsafe { op.read() };
        match guard.ops.index(handle.0) {
            Some(index) => {
                guard.ops.remove(index);
                // SAFETY: as above.
                unsafe { op.write(MPI_OP_NULL) };
                Ok(())
            }
            None if guard.is_commutative(handle).is_ok() => Err(crate::error::Error::new(
                MPI_ERR_OP,
                format_args!("operation {:#x} is predefined and cannot be freed", handle.0),
            )),
            None => Err(crate::collective::op::bad_op(handle)),
        }
    })
}

/// Whether an operation is commutative (6.9.5).
#[inline]
pub unsafe fn MPI_Op_commutative(op: MPI_Op, commute: *mut c_int) -> c_int {
    call(c"MPI_Op_commutative", MPI_COMM_SELF, |guard| {
        let commutative = guard.is_commutative(op)?;
        check(!commute.is_null(), MPI_ERR_ARG, || "commute is a null pointer".into())?;
        // SAFETY: the user gives a place for the answer; it is not null.
        unsafe { commute.write(c_int::from(commutative)) };
        Ok(())
    })
}

/// Combines two buffers of this process (6.9.7).
#[inline]
pub unsafe fn MPI_Reduce_local(
    inbuf: *const c_void,
    inoutbuf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    op: MPI_Op,
) -> c_int {
    call(c"MPI_Reduce_local", MPI_COMM_SELF, |guard| {
        reduce_local(guard, inbuf, inoutbuf, count.into(), datatype, op)
    })
}

/// Combines two buffers of this process (6.9.7). Large count.
#[inline]
pub unsafe fn MPI_Reduce_local_c(
    inbuf: *const c_void,
    inoutbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
) -> c_int {
    call(c"MPI_Reduce_local_c", MPI_COMM_SELF, |guard| {
        reduce_local(guard, inbuf, inoutbuf, count, datatype, op)
    })
}
