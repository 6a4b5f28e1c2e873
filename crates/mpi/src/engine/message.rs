//! A message as the engine knows it, the sizes at which its protocol changes, and how a request ends.

use tutti_datatype::Buffer;

use crate::abi::MPI_ERR_TRUNCATE;
use crate::request::Requests;

/// Messages up to this many bytes travel inside the envelope ring.
pub const INLINE_BYTES_MAX: usize = 2048;
/// Messages to ranks of this node are sent without asking up to this many bytes.
pub const LOCAL_EAGER_BYTES_MAX: usize = 16 << 10;
/// Messages to ranks of other nodes are sent without asking up to this many bytes: asking costs a round trip,
/// some 20 us.
pub const REMOTE_EAGER_BYTES_MAX: usize = 64 << 10;
/// A longer receive is advertised to its sender on another node whatever was sent before.
pub const REMOTE_WRITE_BYTES_MIN: usize = REMOTE_EAGER_BYTES_MAX;
/// Eager bytes that one sender may have waiting at one receiver.
pub const EAGER_CREDIT_BYTES: u64 = 256 << 10;
/// Bytes that a message counts for besides its data.
pub const EAGER_OVERHEAD_BYTES: u64 = 64;
/// How a send may complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// When the buffer can be reused.
    Standard,
    /// When the matching receive has started.
    Synchronous,
}

/// The arguments of a send, translated.
#[derive(Clone, Debug)]
pub struct Message {
    /// World rank of the receiver.
    pub to: u32,
    /// Context of the communicator.
    pub context: u32,
    /// Tag.
    pub tag: i32,
    /// Data.
    pub buffer: Buffer,
    /// Completion.
    pub mode: Mode,
}

/// Marks a receive as done: `bytes` is the length of the message.
#[inline(always)]
pub fn finish_receive(requests: &mut Requests, index: u32) {
    let request = requests.get_mut(index);
    if request.bytes > request.buffer.bytes {
        request.error = MPI_ERR_TRUNCATE;
    }
    requests.finish(index);
}

/// Gives data that no credit stands for to a receive.
pub(super) fn deliver_moved(requests: &mut Requests, data: &[u8], index: u32) {
    // SAFETY: the user keeps a receive buffer valid until the receive is done (MPI 3.7); data is a slice.
    unsafe { requests.get(index).buffer.store(0, data.as_ptr(), data.len()) };
    finish_receive(requests, index);
}
