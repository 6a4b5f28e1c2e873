//! Buffered sends (MPI 3.6): the data are copied at the call, and counted against the buffer that the user
//! attached: to the communicator, else to the session that it goes back to, else to the process. A buffer
//! ends with what it is attached to.
//!
//! The copies live in memory of the library; the user's buffer only says how much may be pending, so it may
//! be smaller than the standard's bookkeeping would need and is never written.

use core::ffi::c_void;

use tutti_datatype::Buffer;

use crate::abi::*;
use crate::attached::{Attached, Owned};
use crate::engine::message::{Message, Mode};
use crate::error::{Error, Result, check};
use crate::process::Guard;
use crate::progress::Progress;
use crate::request::extra::Extra;
use crate::request::{Request, RequestKind, Started, WhenDone};
use crate::wait_goal::Goal;

impl Guard {
    /// Sends a message from a copy of its data.
    ///
    /// # Errors
    /// MPI_ERR_BUFFER when no buffer is attached or it is full; those of the arguments.
    pub fn send_buffered(&mut self, message: Message, comm: MPI_Comm) -> Result<()> {
        self.progress(None);
        let owned = self.attached_buffer(comm)?.take(&message.buffer)?;
        self.send_owned(message, owned);
        Ok(())
    }

    /// Sends a message from a copy of its data that counts against no buffer.
    pub fn send_copied(&mut self, message: Message) {
        let unlimited = Attached::new(MPI_BUFFER_AUTOMATIC, 0);
        let owned = unlimited.take(&message.buffer).expect("no buffer without limit is full");
        self.send_owned(message, owned);
    }

    fn send_owned(&mut self, message: Message, mut owned: Owned) {
        let buffer = Buffer::contiguous(owned.data.as_mut_ptr(), owned.data.len());
        if let Started::Pending(index) = self.engine.send(Message { buffer, mode: Mode::Standard, ..message })
        {
            let request = self.engine.requests.get_mut(index);
            if request.done {
                self.engine.release(index);
                return;
            }
            request.extra = Some(Box::new(Extra::Owned(owned)));
            request.when_done = WhenDone::Free;
        }
    }

    fn attached_buffer(&self, comm: MPI_Comm) -> Result<Attached> {
        let comm = self.comms.find(comm)?;
        let of_session = || comm.origin.as_ref().and_then(|origin| origin.buffer.borrow().clone());
        let found = comm.buffer.clone().or_else(of_session).or_else(|| self.env.buffer.clone());
        found.ok_or_else(|| {
            Error::new(MPI_ERR_BUFFER, "no buffer is attached; call MPI_Buffer_attach before a buffered send")
        })
    }

    /// The buffer of an owner.
    fn buffer_of(&self, owner: BufferOwner) -> Result<Option<Attached>> {
        Ok(match owner {
            BufferOwner::Process => self.env.buffer.clone(),
            BufferOwner::Comm(comm) => self.comms.find(comm)?.buffer.clone(),
            BufferOwner::Session(session) => self.env.session(session)?.origin.buffer.borrow().clone(),
        })
    }

    fn set_buffer(&mut self, owner: BufferOwner, buffer: Option<Attached>) -> Result<()> {
        match owner {
            BufferOwner::Process => self.env.buffer = buffer,
            BufferOwner::Comm(comm) => self.comms.find_mut(comm)?.buffer = buffer,
            BufferOwner::Session(session) => {
                self.env.session(session)?.origin.buffer.replace(buffer);
            }
        }
        Ok(())
    }

    /// Attaches a buffer.
    ///
    /// # Errors
    /// MPI_ERR_BUFFER when there is one already, or the address is a null pointer; that of a handle of
    /// nothing.
    pub fn attach_buffer(&mut self, owner: BufferOwner, address: *mut c_void, bytes: i64) -> Result<()> {
        check(bytes >= 0, MPI_ERR_BUFFER, || format!("size is {bytes}, expected 0 or more"))?;
        check(!address.is_null() || bytes == 0, MPI_ERR_BUFFER, || {
            format!("the buffer is a null pointer, expected memory of {bytes} bytes")
        })?;
        check(self.buffer_of(owner)?.is_none(), MPI_ERR_BUFFER, || {
            "a buffer is attached already; detach it first".into()
        })?;
        self.set_buffer(owner, Some(Attached::new(address, bytes as usize)))
    }

    fn attached_to(&self, owner: BufferOwner) -> Result<Attached> {
        self.buffer_of(owner)?.ok_or_else(|| Error::new(MPI_ERR_BUFFER, "no buffer is attached"))
    }

    /// A request that is done when all messages have left a buffer.
    ///
    /// # Errors
    /// MPI_ERR_BUFFER when there is none.
    pub fn start_flush(&mut self, owner: BufferOwner) -> Result<MPI_Request> {
        let attached = self.attached_to(owner)?;
        let mut request =
            Request::new(RequestKind::Compound, Buffer::empty(), 0, MPI_ANY_SOURCE, MPI_ANY_TAG);
        request.extra = Some(Box::new(Extra::Flush(attached)));
        let index = self.engine.requests.insert(request);
        Ok(MPI_Request(self.engine.requests.handle(index)))
    }

    /// Waits until all messages have left a buffer.
    ///
    /// # Errors
    /// MPI_ERR_BUFFER when there is none.
    pub fn flush_buffer(&mut self, owner: BufferOwner) -> Result<Attached> {
        let attached = self.attached_to(owner)?;
        let which = |request: &Request| request.is_from(&attached);
        self.wait(None, Goal::Pending(&which), |_| attached.is_empty().then_some(()));
        Ok(attached)
    }

    /// Waits as [`Guard::flush_buffer`], then gives the buffer back to the user.
    ///
    /// # Errors
    /// MPI_ERR_BUFFER when there is none.
    pub fn detach_buffer(&mut self, owner: BufferOwner) -> Result<Attached> {
        let attached = self.flush_buffer(owner)?;
        self.set_buffer(owner, None)?;
        Ok(attached)
    }
}

/// What a buffer is attached to.
#[derive(Clone, Copy, Debug)]
pub enum BufferOwner {
    /// MPI_Buffer_attach
    Process,
    /// MPI_Comm_attach_buffer
    Comm(MPI_Comm),
    /// MPI_Session_attach_buffer
    Session(MPI_Session),
}
