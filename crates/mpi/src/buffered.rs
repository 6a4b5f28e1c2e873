//! Buffered sends (MPI 3.6): the data are copied at the call, and counted against the buffer that the user
//! attached: to the communicator, else to the session that it goes back to, else to the process. A buffer
//! ends with what it is attached to.
//!
//! The copies live in memory of the library; the user's buffer only says how much may be pending, so it may
//! be smaller than the standard's bookkeeping would need and is never written.

use std::cell::RefCell;
use std::rc::Rc;

use core::ffi::c_void;

use crate::abi::*;
use crate::attached::{Attached, Origin};
use crate::comm::Comms;
use crate::error::{Error, Result, check};
use crate::progress::Progress;
use crate::request::Request;
use crate::session::Environment;
use crate::wait_goal::Goal;

/// Where a buffer may be attached for the buffered sends of a communicator, beside the process. A persistent
/// send keeps it: the communicator may be freed before it starts.
#[derive(Clone, Debug)]
pub struct Places {
    own: Rc<RefCell<Option<Attached>>>,
    session: Option<Rc<Origin>>,
}

impl Places {
    /// Places of a communicator.
    ///
    /// # Errors
    /// MPI_ERR_COMM when the handle names none.
    pub fn of(comms: &Comms, comm: MPI_Comm) -> Result<Places> {
        let comm = comms.find(comm)?;
        Ok(Places { own: Rc::clone(&comm.buffer), session: comm.origin.clone() })
    }

    /// The buffer that a send counts against.
    ///
    /// # Errors
    /// MPI_ERR_BUFFER when there is none.
    pub fn attached(&self, env: &Environment) -> Result<Attached> {
        let of_session = || self.session.as_ref().and_then(|origin| origin.buffer.borrow().clone());
        let found = self.own.borrow().clone().or_else(of_session).or_else(|| env.buffer.clone());
        found.ok_or_else(|| {
            Error::new(MPI_ERR_BUFFER, "no buffer is attached; call MPI_Buffer_attach before a buffered send")
        })
    }
}

/// The buffer of an owner.
fn buffer_of(comms: &Comms, env: &Environment, owner: BufferOwner) -> Result<Option<Attached>> {
    Ok(match owner {
        BufferOwner::Process => env.buffer.clone(),
        BufferOwner::Comm(comm) => comms.find(comm)?.buffer.borrow().clone(),
        BufferOwner::Session(session) => env.session(session)?.origin.buffer.borrow().clone(),
    })
}

/// A buffer to be attached to an owner.
///
/// # Errors
/// MPI_ERR_BUFFER when there is one already, or the address is a null pointer; that of a handle of nothing.
pub fn prepare(
    comms: &Comms,
    env: &Environment,
    owner: BufferOwner,
    address: *mut c_void,
    bytes: i64,
) -> Result<Attached> {
    check(bytes >= 0, MPI_ERR_BUFFER, || format!("size is {bytes}, expected 0 or more"))?;
    check(!address.is_null() || bytes == 0, MPI_ERR_BUFFER, || {
        format!("the buffer is a null pointer, expected memory of {bytes} bytes")
    })?;
    check(buffer_of(comms, env, owner)?.is_none(), MPI_ERR_BUFFER, || {
        "a buffer is attached already; detach it first".into()
    })?;
    Ok(Attached::new(address, bytes as usize))
}

/// The buffer that is attached to an owner.
///
/// # Errors
/// MPI_ERR_BUFFER when there is none; that of a handle of nothing.
pub fn attached_to(comms: &Comms, env: &Environment, owner: BufferOwner) -> Result<Attached> {
    buffer_of(comms, env, owner)?.ok_or_else(|| Error::new(MPI_ERR_BUFFER, "no buffer is attached"))
}

/// Waits until all messages have left a buffer.
pub fn flush(call: &mut impl Progress, attached: &Attached) {
    let which = |request: &Request| request.is_from(attached);
    call.wait(None, Goal::Pending(&which), |_| attached.is_empty().then_some(()));
}

/// Object that a buffer is attached to.
#[derive(Clone, Copy, Debug)]
pub enum BufferOwner {
    /// MPI_Buffer_attach
    Process,
    /// MPI_Comm_attach_buffer
    Comm(MPI_Comm),
    /// MPI_Session_attach_buffer
    Session(MPI_Session),
}
