//! MPI 7.8: names of communicators, datatypes and windows.

use crate::abi::*;
use crate::comm::Comms;
use crate::datatype::Types;
use crate::error::Result;
use crate::win::Windows;

/// As much of a name as an object keeps.
fn kept(name: &[u8]) -> Vec<u8> {
    name[..name.len().min(MPI_MAX_OBJECT_NAME as usize - 1)].to_vec()
}

pub(super) fn set_of_comm(comms: &mut Comms, comm: MPI_Comm, name: &[u8]) -> Result<()> {
    comms.find_mut(comm)?.name = kept(name);
    Ok(())
}

pub(super) fn set_of_window(wins: &mut Windows, win: MPI_Win, name: &[u8]) -> Result<()> {
    wins.find_mut(win)?.name = kept(name);
    Ok(())
}

/// The name of a window; MPI_WIN_NULL has one too.
pub(super) fn of_window(wins: &Windows, win: MPI_Win) -> Result<&[u8]> {
    Ok(if win == MPI_WIN_NULL { b"MPI_WIN_NULL" } else { &wins.find(win)?.name })
}

/// The name of a communicator; MPI_COMM_NULL has one too.
pub(super) fn of_comm(comms: &Comms, comm: MPI_Comm) -> Result<&[u8]> {
    Ok(if comm == MPI_COMM_NULL { b"MPI_COMM_NULL" } else { &comms.find(comm)?.name })
}

pub(super) fn set_of_type(types: &mut Types, datatype: MPI_Datatype, name: &[u8]) -> Result<()> {
    types.find_mut(datatype)?.name = kept(name);
    Ok(())
}

/// The name of a type; MPI_DATATYPE_NULL has one too.
pub(super) fn of_type(types: &Types, datatype: MPI_Datatype) -> Result<&[u8]> {
    Ok(match datatype {
        MPI_DATATYPE_NULL => b"MPI_DATATYPE_NULL",
        _ => &types.find(datatype)?.name,
    })
}
