//! From the handles of a reduction to its [`Reducer`].

use super::op::{Apply, Reducer, bad_op, kernel, predefined_name, undefined};
use super::state::Collectives;
use crate::abi::*;
use crate::datatype::Types;
use crate::error::Result;

impl Collectives {
    /// An operation on elements of a type.
    ///
    /// # Errors
    /// MPI_ERR_OP when there is no such operation or it is not defined for the type; MPI_ERR_TYPE.
    #[inline]
    pub fn reducer(&self, types: &Types, op: MPI_Op, handle: MPI_Datatype) -> Result<Reducer> {
        let datatype = types.find(handle)?;
        if let Some(user) = self.ops.find(op.0) {
            let (apply, commutative) = (Apply::User(*user), user.commutative);
            let (datatype, _reference) = (datatype.elements(), types.refer(handle));
            return Ok(Reducer { apply, commutative, datatype, handle, _reference });
        }
        let found = datatype.element.and_then(|element| kernel(op, element));
        match found {
            Some(kernel) => Ok(Reducer {
                apply: Apply::Kernel(kernel),
                commutative: true,
                datatype: datatype.elements(),
                handle,
                _reference: None,
            }),
            None if predefined_name(op).is_none() => Err(bad_op(op)),
            None => Err(undefined(op, handle, datatype)),
        }
    }

    /// Whether an operation is commutative.
    ///
    /// # Errors
    /// MPI_ERR_OP when there is no such operation.
    pub fn is_commutative(&self, op: MPI_Op) -> Result<bool> {
        match self.ops.find(op.0) {
            Some(user) => Ok(user.commutative),
            None if predefined_name(op).is_some() => Ok(op != MPI_REPLACE && op != MPI_NO_OP),
            None => Err(bad_op(op)),
        }
    }
}
