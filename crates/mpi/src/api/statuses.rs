//! MPI 3.2.5 and 13.3: the fields of statuses. Lengths stand with the datatypes.

use core::ffi::c_int;

use crate::abi::*;
use crate::error::Result;

pub(super) fn set_cancelled(status: &mut MPI_Status, is_cancelled: bool) -> Result<()> {
    status.set_cancelled(is_cancelled);
    Ok(())
}

pub(super) fn source(status: &MPI_Status) -> Result<c_int> {
    Ok(status.MPI_SOURCE)
}

pub(super) fn tag(status: &MPI_Status) -> Result<c_int> {
    Ok(status.MPI_TAG)
}

pub(super) fn error(status: &MPI_Status) -> Result<c_int> {
    Ok(status.MPI_ERROR)
}

pub(super) fn set_source(status: &mut MPI_Status, source: c_int) -> Result<()> {
    status.MPI_SOURCE = source;
    Ok(())
}

pub(super) fn set_tag(status: &mut MPI_Status, tag: c_int) -> Result<()> {
    status.MPI_TAG = tag;
    Ok(())
}

pub(super) fn set_error(status: &mut MPI_Status, error: c_int) -> Result<()> {
    status.MPI_ERROR = error;
    Ok(())
}
