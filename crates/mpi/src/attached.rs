//! Buffers that the user attaches for buffered sends (MPI 3.6), and the copies of messages that count against
//! them. What is done with them: [`crate::buffered`].

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use core::ffi::c_void;

use tutti_datatype::Buffer;

use crate::abi::*;
use crate::error::{Result, check};

/// Bytes that a message takes beyond its data: the least that a constant of an interface of ours promises to
/// be enough (MPICH's MPI_BSEND_OVERHEAD; that of the standard's interface is larger).
const OVERHEAD_BYTES: usize = 96;
const _: () = assert!(OVERHEAD_BYTES <= MPI_BSEND_OVERHEAD as usize);

/// State that groups and communicators share with the session that they go back to.
#[derive(Debug, Default)]
pub struct Origin {
    /// The buffer that is attached to the session.
    pub buffer: RefCell<Option<Attached>>,
}

/// A buffer attached by the user.
#[derive(Clone, Debug)]
pub struct Attached {
    /// Address of the buffer, given back at the detach.
    pub address: *mut c_void,
    /// Size of the buffer in bytes.
    pub bytes: usize,
    pub(crate) pending: Rc<Cell<usize>>,
}

/// Data of a buffered message; when they go, their share of the buffer is free again.
#[derive(Debug)]
pub struct Owned {
    pub(crate) data: Box<[u8]>,
    pub(crate) share: usize,
    pub(crate) pending: Rc<Cell<usize>>,
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.pending.set(self.pending.get() - self.share);
    }
}

impl Attached {
    /// A buffer of the user; `MPI_BUFFER_AUTOMATIC` has no limit.
    pub fn new(address: *mut c_void, bytes: usize) -> Self {
        let bytes = if address == MPI_BUFFER_AUTOMATIC { usize::MAX } else { bytes };
        Attached { address, bytes, pending: Rc::default() }
    }

    /// Whether no message is left in it.
    pub fn is_empty(&self) -> bool {
        self.pending.get() == 0
    }

    /// Whether the share of these data counts against it.
    pub(crate) fn holds(&self, owned: &Owned) -> bool {
        Rc::ptr_eq(&owned.pending, &self.pending)
    }

    /// Copies a message, if there is room for it.
    pub(crate) fn take(&self, buffer: &Buffer) -> Result<Owned> {
        let share = buffer.bytes + OVERHEAD_BYTES;
        let free = self.bytes - self.pending.get();
        check(share <= free, MPI_ERR_BUFFER, || {
            format!(
                "the attached buffer has {free} of {} bytes free, the message needs {share} with its overhead",
                self.bytes
            )
        })?;
        let mut data = vec![0; buffer.bytes].into_boxed_slice();
        // SAFETY: the user's memory is valid for the length of the message.
        unsafe { buffer.load(0, data.as_mut_ptr(), buffer.bytes) };
        self.pending.set(self.pending.get() + share);
        Ok(Owned { data, share, pending: self.pending.clone() })
    }
}
