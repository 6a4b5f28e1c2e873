//! MPI 5.1.11 and 13.3: basic elements in a status.

use crate::abi::*;
use crate::datatype::Types;
use crate::error::{Error, Result};
use crate::request::Outcome;

/// How many basic elements were received, also when the last element of the type is not whole.
pub(super) fn count(types: &Types, status: &MPI_Status, datatype: MPI_Datatype) -> Result<i128> {
    let bytes = Outcome::read(status).bytes as i128;
    let signature = &types.find(datatype)?.layout.part.signature;
    let (elements, left) = match signature.size {
        0 => (0, bytes),
        size => {
            let (some, left) = signature.elements_in(bytes % size);
            (bytes / size * signature.elements + some, left)
        }
    };
    Ok(if left == 0 { elements } else { i128::MAX })
}

/// Makes a status say that so many basic elements were received.
pub(super) fn set(types: &Types, status: &mut MPI_Status, datatype: MPI_Datatype, count: i64) -> Result<()> {
    let count = crate::datatype::checked_count(count)? as i128;
    let signature = &types.find(datatype)?.layout.part.signature;
    let bytes = match signature.elements {
        0 => 0,
        elements => count / elements * signature.size + signature.bytes_of(count % elements),
    };
    let bytes = usize::try_from(bytes).map_err(|_| {
        Error::new(
            MPI_ERR_COUNT,
            format_args!("{count} elements are {bytes} bytes, more than a status can tell"),
        )
    })?;
    // SAFETY: a reference is valid for writing.
    unsafe { Outcome { bytes, ..Outcome::read(status) }.write(status) };
    Ok(())
}
