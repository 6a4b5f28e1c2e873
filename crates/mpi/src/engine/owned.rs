//! Sends from copies of the data, which belong to their requests.

use tutti_datatype::Buffer;

use super::Engine;
use super::message::{Message, Mode};
use crate::abi::*;
use crate::attached::{Attached, Owned};
use crate::request::extra::Extra;
use crate::request::{Request, RequestKind, Started, WhenDone};

impl Engine {
    /// Sends a message from a copy of its data that counts against no buffer.
    pub fn send_copied(&mut self, message: Message) {
        let unlimited = Attached::new(MPI_BUFFER_AUTOMATIC, 0);
        let owned = unlimited.take(&message.buffer).expect("no buffer without limit is full");
        self.send_owned(message, owned);
    }

    /// Sends the copy of a message's data.
    pub fn send_owned(&mut self, message: Message, mut owned: Owned) {
        let buffer = Buffer::contiguous(owned.data.as_mut_ptr(), owned.data.len());
        if let Started::Pending(index) = self.send(Message { buffer, mode: Mode::Standard, ..message }) {
            let request = self.requests.get_mut(index);
            if request.done {
                self.release(index);
                return;
            }
            request.extra = Some(Box::new(Extra::Owned(owned)));
            request.when_done = WhenDone::Free;
        }
    }

    /// A request that is done when all messages have left a buffer.
    pub fn start_flush(&mut self, attached: Attached) -> MPI_Request {
        let mut request =
            Request::new(RequestKind::Compound, Buffer::empty(), 0, MPI_ANY_SOURCE, MPI_ANY_TAG);
        request.extra = Some(Box::new(Extra::Flush(attached)));
        let index = self.requests.insert(request);
        MPI_Request(self.requests.handle(index))
    }
}
